"""Predictions that a user asks for, from runs, or from datasheets if the runs are not enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.common.options import ConfigError
from caraml.plan.systems import Block, read_systems
from caraml.plan.workloads import Workload, workload
from results.points.repeats import PointResults
from results.predict.datasheet import Example, Hardware
from results.predict.examples import examples, kernels
from results.predict.leave_out import DATASHEET, FURTHEST
from results.predict.predict import Group, Prediction, PredictionError, around, not_measured, work_per_wh
from results.predict.step_work import Layout, Shape, Work, decoder_work, image_work
from results.predict.unmeasured import OWN, PRECISIONS, predict_step
from results.record.records import Record
from results.record.values import PER_DEVICE, devices_text, value_at

GB = 1e9
FROM_TDP = "Q0, ESTIMATED from thermal design power"
FULL_RECOMPUTATION = "full"


class Question(NamedTuple):
    """Points to predict; an empty field stands for the measured values."""

    system: str = ""  # as records have it
    size: str = ""  # the model
    precision: str = ""
    devices: Sequence[int] = ()
    batches: Sequence[int] = ()


class Answer(NamedTuple):
    """Predictions, and a sentence on each that could not be made."""

    predictions: list[Prediction]
    refused: list[str]


def answer(results: Sequence[PointResults], groups: Sequence[Group], question: Question) -> Answer:
    """Predict for every measured system, model and variant that fits the question; `groups` are those of the results.

    Raises PredictionError if none fits, or if no point is missing that could be predicted.
    """
    _check(question)
    if not groups:
        raise PredictionError("no run was good: there is nothing to predict from")
    groups = _in_precision(groups, question.precision)
    mine = [
        one
        for one in groups
        if question.system in ("", one.first.system) and question.size in ("", one.first.point.model)
    ]
    found = Answer([], [])
    if mine:
        _from_own(found, mine, results, question)
    else:
        _from_datasheet(found, groups, question)
    if not found.predictions and not found.refused:
        raise PredictionError("no point of the sweep is missing: say what to predict with --devices or --batch")
    return found


def _check(question: Question) -> None:
    for name, numbers in (("devices", question.devices), ("batch", question.batches)):
        if any(number < 1 for number in numbers):
            raise PredictionError(f"--{name} {min(numbers)} was asked for: it is at least 1")


def _in_precision(groups: Sequence[Group], precision: str) -> list[Group]:
    found = [one for one in groups if precision in ("", one.first.precision)]
    if not found:
        known = ", ".join(dict.fromkeys(one.first.precision for one in groups))
        raise PredictionError(
            f"{precision} was asked for, and the runs are in {known}: kernels of another precision are others, so "
            "measure in it"
        )
    return found


def _from_own(found: Answer, groups: Iterable[Group], results: Sequence[PointResults], question: Question) -> None:
    for group in groups:
        have = {one[:2] for one in group.points}
        asked = bool(question.devices or question.batches)
        for devices, batch in _places([group], question) if asked else not_measured(group, results):
            try:
                if (devices, batch) in have:
                    if not (question.devices and question.batches):
                        continue  # nobody named it
                    raise PredictionError(
                        f"{group}: {devices_text(devices)}, batch {batch} was measured: see its table"
                    )
                workload(group.first.point.benchmark).check_point(group.first.point.model, devices, batch)
                found.predictions.append(group.predict(devices, batch))
            except (PredictionError, ConfigError) as error:
                found.refused.append(str(error))


def _places(groups: Iterable[Group], question: Question) -> list[tuple[int, int]]:
    """(devices, batch) as asked for, those measured where nothing was asked."""
    points = [one for group in groups for one in group.points]
    devices = question.devices or sorted({one.devices for one in points})
    batches = question.batches or sorted({one.batch for one in points})
    return [(number, batch) for number in devices for batch in batches]


class _Target(NamedTuple):
    """A system that is known by its datasheet, and what is asked of it."""

    known: Workload
    model: str
    block: Block
    hardware: Hardware
    own: Sequence[Example]  # of these runs, on other systems


def _from_datasheet(found: Answer, groups: Sequence[Group], question: Question) -> None:
    benchmarks = list(dict.fromkeys(one.first.point.benchmark for one in groups))
    if len(benchmarks) > 1:
        raise PredictionError(
            f"the runs are of {', '.join(benchmarks)}, and {question.system or question.size} of none: give the runs "
            "of one of them"
        )
    first = groups[0].first
    blocks = {str(block["system_name"]): block for block in read_systems().values()}
    system = question.system or first.system
    if system not in blocks:
        raise PredictionError(
            f"there is no run on {system}, nor a block of it in systems.yaml: 'caraml systems' lists them"
        )
    if examples(benchmarks[0]) and first.precision not in PRECISIONS:
        raise PredictionError(
            f"the runs are in {first.precision}, and what was published to learn datasheets from is in "
            f"{', '.join(PRECISIONS)}: give runs in one of these, or measure on {system}"
        )
    hardware = _hardware(blocks[system], first.precision)
    target = _Target(
        workload(benchmarks[0]),
        question.size or first.point.model,
        blocks[system],
        hardware,
        _own_examples(groups, blocks),
    )
    for devices, batch in _places(groups, question):
        try:
            found.predictions.append(_unmeasured(target, groups, devices, batch))
        except (PredictionError, ConfigError) as error:
            found.refused.append(str(error))


def _unmeasured(target: _Target, groups: Sequence[Group], devices: int, batch: int) -> Prediction:
    known, model, hardware, first = target.known, target.model, target.hardware, groups[0].first
    known.check_point(model, devices, batch)
    _check_memory(target, devices, batch, first.precision)
    _check_scale(target, devices)
    step = predict_step(known.facts.name, _work(known, groups, model, devices, batch), hardware, devices, target.own)
    shape = _shape(known, model)
    per_sample = float(shape.sequence_length) if shape and model != first.point.model else _work_per_sample(first.any)
    per_s = batch * per_sample / step.step_s
    per_wh = work_per_wh(per_s, hardware.tdp_w * devices) if hardware.tdp_w else None
    return Prediction(
        str(target.block["system_name"]),
        first.point._replace(model=model, devices=devices, global_batch=batch),
        (),
        first.precision,
        DATASHEET,
        step.what,
        first.any["work_unit"],
        per_s,
        around(per_s, step.half),
        hardware.tdp_w or None,
        per_wh,
        None,
        FROM_TDP if per_wh else "",
    )


def _work_per_sample(record: Record) -> float:
    return float(value_at(record, "layout.work_per_sample") or 1.0)


def _hardware(block: Block, precision: str) -> Hardware:
    """Return the hardware from a system's block; raises PredictionError if the block lacks a figure."""
    peak = 1e12 * float(block[f"peak_tflops_{precision}"])
    memory, link, network = (GB * float(block[f"{what}_gb_per_s_per_device"]) for what in ("memory", "link", "network"))
    missing = [
        key for key, value in ((f"peak_tflops_{precision}", peak), ("memory_gb_per_s_per_device", memory)) if not value
    ]
    if missing:
        raise PredictionError(
            f"{block['system_name']} has no {' and no '.join(missing)} in systems.yaml: a datasheet prediction needs it"
        )
    name = str(block["accelerator"])
    per_node, tdp_w = int(block["devices_per_node"]), float(block["tdp_w_per_device"])
    return Hardware(name, peak, memory, link, network, per_node, tdp_w, kernels(precision))


def _own_examples(groups: Iterable[Group], blocks: dict[str, Block]) -> list[Example]:
    """Measured points of these runs whose systems' datasheets are known."""
    found = []
    for group in groups:
        known = workload(group.first.point.benchmark)
        try:
            hardware = _hardware(blocks[group.first.system], group.first.precision)
            for one in group.points:
                work = _work(known, [group], group.first.point.model, one.devices, one.batch)
                step_s = one.batch * _work_per_sample(group.first.any) / one.per_s
                found.append(Example(OWN, hardware, one.devices, work, step_s))
        except (PredictionError, KeyError):  # its datasheet is not known, or its work
            continue
    return found


def _shape(known: Workload, model: str) -> Shape | None:
    decoder = known.decoder(model)
    if decoder is None:
        return None
    length = decoder["sequence_length"]
    return Shape(decoder["layers"], decoder["hidden"], decoder["ffn"], decoder["vocab"], length, decoder["parameters"])


def _work(known: Workload, groups: Sequence[Group], model: str, devices: int, batch: int) -> Work:
    """Return the work of a step; raises PredictionError for a model whose work is not known."""
    record = next((one.first.any for one in groups if one.first.point.model == model), None)
    shape, decoder = _shape(known, model), known.decoder(model)
    if shape and decoder:
        layout = record["layout"] if record else {}
        again = record is not None and str(value_at(record, "choices.recomputation")) == FULL_RECOMPUTATION
        shared = Layout(
            devices,
            batch,
            int(layout.get("micro_batch_size") or decoder["micro_batch"]),
            int(layout.get("tensor_parallel_size") or decoder["tensor"]),
            int(layout.get("pipeline_parallel_size") or decoder["pipeline"]),
            recompute=again,
        )
        return decoder_work(shape, shared)
    if record is None:
        measured = ", ".join(dict.fromkeys(one.first.point.model for one in groups))
        raise PredictionError(f"{model} is a model of another kind than {measured}: measure it, or one of its kind")
    flops = 1e12 * float(value_at(record, "metrics.tflops_per_device") or 0.0)
    per_s = float(value_at(record, PER_DEVICE) or 0.0)
    if not flops or not per_s:
        raise PredictionError(f"the runs of {model} do not say its FLOPs: a datasheet prediction needs them")
    parameters = float(value_at(record, "metrics.num_parameters") or 0.0)
    return image_work(flops / per_s * _work_per_sample(record), parameters, devices, batch)


def _check_scale(target: _Target, devices: int) -> None:
    """Raise PredictionError for more devices than the points can predict, and for a network that is not known."""
    most = max((one.devices for one in [*examples(target.known.facts.name), *target.own]), default=devices)
    if devices > FURTHEST * most:
        raise PredictionError(
            f"{devices} devices are more than {FURTHEST} times the {most} of which points are known: ask for fewer"
        )
    if devices > target.hardware.devices_per_node and not target.hardware.network_b_per_s:
        raise PredictionError(
            f"{target.block['system_name']} has no network_gb_per_s_per_device in systems.yaml, which {devices} devices"
            " need: state it, or ask for a node's"
        )


def _check_memory(target: _Target, devices: int, batch: int, precision: str) -> None:
    """Raise PredictionError for what by the plan's estimate does not fit in a device."""
    room_gb = float(target.block["memory_gb_per_device"])
    wanted_gb = target.known.memory_bytes(target.model, devices, batch, precision) / GB
    if room_gb and wanted_gb > room_gb:
        raise PredictionError(
            f"{target.model} on {devices_text(devices)} of {target.block['system_name']} takes {wanted_gb:.0f} GB of "
            f"each by estimate, and they have {room_gb:g}: ask for more devices"
        )
