"""Predictions that a user asks for: from runs, or from datasheets for what was not measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.common.options import ConfigError
from caraml.plan.workloads import Workload, workload
from results.files.systems import System, read_systems
from results.points.repeats import PointResults
from results.predict.datasheet import Example, Hardware
from results.predict.examples import examples, kernels
from results.predict.leave_out import DATASHEET, FURTHEST
from results.predict.predict import Group, Prediction, PredictionError, around, not_measured, work_per_wh
from results.predict.step_work import Layout, Shape, Work, decoder_work, image_work
from results.predict.unmeasured import OWN, PRECISIONS, predict_step
from results.record.model import Layout as RunLayout
from results.record.records import Record
from results.record.values import PER_DEVICE, devices_text, value_at

GB = 1e9
FROM_TDP = "Q0, ESTIMATED from thermal design power"
FULL_RECOMPUTATION = "full"


class Question(NamedTuple):
    """Points to predict; an empty field stands for the measured values."""

    system: str = ""  # its name in records
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
        is_other = any(one.good for one in results)
        others = "each good run is of a server, of several copies, to a loss, or does not learn as its reference"
        why = others if is_other else "no run was good"
        raise PredictionError(f"{why}: predictions are made from good runs of a training")
    groups = _in_precision(groups, question.precision)
    mine = [
        one
        for one in groups
        if question.system in ("", one.first.system) and question.size in ("", one.first.point.model)
    ]
    found = _from_own(mine, results, question) if mine else _from_datasheet(groups, question)
    if not found.predictions and not found.refused:
        raise PredictionError("no point of the sweep is missing: give the points to predict by --devices or --batch")
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
            f"{precision} was asked for, and the runs are in {known}, which uses other kernels: measure in {precision}"
        )
    return found


def _from_own(groups: Iterable[Group], results: Sequence[PointResults], question: Question) -> Answer:
    """Predict further points of measured systems."""
    found = Answer([], [])
    for group in groups:
        measured = {one[:2] for one in group.points}
        asked = bool(question.devices or question.batches)
        for devices, batch in _places([group], question) if asked else not_measured(group, results):
            try:
                if (devices, batch) in measured:
                    if not (question.devices and question.batches):
                        continue  # the user did not ask for this point
                    raise PredictionError(
                        f"{group}: {devices_text(devices)}, batch {batch} was measured: see its table"
                    )
                workload(group.first.point.benchmark).check_point(group.first.point.model, devices, batch)
                found.predictions.append(group.predict(devices, batch))
            except (PredictionError, ConfigError) as error:
                found.refused.append(str(error))
    return found


def _places(groups: Iterable[Group], question: Question) -> list[tuple[int, int]]:
    """Return the asked numbers of devices with the asked batch sizes; by default the measured ones."""
    points = [one for group in groups for one in group.points]
    devices = question.devices or sorted({one.devices for one in points})
    batches = question.batches or sorted({one.batch for one in points})
    return [(number, batch) for number in devices for batch in batches]


def _from_datasheet(groups: Sequence[Group], question: Question) -> Answer:
    """Predict points of a system or a model that was not measured."""
    target = _Target(groups, question)
    found = Answer([], [])
    for devices, batch in _places(groups, question):
        try:
            found.predictions.append(target.predict(devices, batch))
        except (PredictionError, ConfigError) as error:
            found.refused.append(str(error))
    return found


class _Target:
    """System with a datasheet, and a model to predict on it; raises PredictionError for what is not known."""

    def __init__(self, groups: Sequence[Group], question: Question) -> None:
        benchmarks = list(dict.fromkeys(one.first.point.benchmark for one in groups))
        if len(benchmarks) > 1:
            raise PredictionError(
                f"the runs are of {', '.join(benchmarks)}, and none is of {question.system or question.size}: give "
                "the runs of one workload"
            )
        self.groups, self.first = groups, groups[0].first
        blocks = {block.system_name: block for block in read_systems().values()}
        self.system, self.model = question.system or self.first.system, question.size or self.first.point.model
        if self.system not in blocks:
            raise PredictionError(
                f"there is no run on {self.system}, nor a block of it in systems.yaml: 'caraml systems' lists them"
            )
        self.precision = self.first.precision
        if examples(benchmarks[0]) and self.precision not in PRECISIONS:
            raise PredictionError(
                f"the runs are in {self.precision}, and what was published to learn datasheets from is in "
                f"{', '.join(PRECISIONS)}: give runs in one of these, or measure on {self.system}"
            )
        self.known, self.block = workload(benchmarks[0]), blocks[self.system]
        self.hardware = _hardware(self.block, self.precision)
        self.own = _own_examples(groups, blocks)  # measured, on other systems

    def predict(self, devices: int, batch: int) -> Prediction:
        """Predict one point; raises PredictionError if it cannot be predicted, and ConfigError if it cannot run."""
        self.known.check_point(self.model, devices, batch)
        self._check_scale(devices)
        work = _work(self.known, self.groups, self.model, devices, batch)
        step = predict_step(self.known.facts.name, work, self.hardware, devices, self.own)
        shape, point, record = _shape(self.known, self.model), self.first.point, self.first.any
        per_sample = float(shape.sequence_length) if shape and self.model != point.model else _work_per_sample(record)
        per_s = batch * per_sample / step.step_s
        tdp_w = self.hardware.tdp_w or None
        return Prediction(
            system=self.system,
            point=point._replace(model=self.model, devices=devices, global_batch=batch),
            variant=(),
            precision=self.precision,
            level=DATASHEET,
            distance=step.what,
            unit=record.work_unit,
            per_s=per_s,
            per_s_interval=around(per_s, step.half),
            power_w=tdp_w,
            per_wh=work_per_wh(per_s, tdp_w * devices) if tdp_w else None,
            per_wh_interval=None,
            energy_kind=FROM_TDP if tdp_w else "",
        )

    def _check_scale(self, devices: int) -> None:
        """Raise PredictionError for more devices than the known points can predict, and for an unknown network."""
        most = max((one.devices for one in [*examples(self.known.facts.name), *self.own]), default=devices)
        if devices > FURTHEST * most:
            raise PredictionError(
                f"{devices} devices are more than {FURTHEST} times the {most} of which points are known: ask for fewer"
            )
        if devices > self.hardware.devices_per_node and not self.hardware.network_b_per_s:
            raise PredictionError(
                f"{self.system} has no network_gb_per_s_per_device in systems.yaml, which {devices} devices need: "
                "state it, or ask for the devices of one node"
            )


def _work_per_sample(record: Record) -> float:
    return float(value_at(record, "layout.work_per_sample") or 1.0)


def _hardware(block: System, precision: str) -> Hardware:
    """Return the hardware from a system's block; raises PredictionError if the block lacks a figure."""
    peak = 1e12 * block.peak_tflops(precision)
    memory, link, network = (
        GB * getattr(block, f"{what}_gb_per_s_per_device") for what in ("memory", "link", "network")
    )
    missing = [
        key for key, value in ((f"peak_tflops_{precision}", peak), ("memory_gb_per_s_per_device", memory)) if not value
    ]
    if missing:
        raise PredictionError(
            f"{block.system_name} has no {' and no '.join(missing)} in systems.yaml: a datasheet prediction needs it"
        )
    name = block.accelerator
    per_node, tdp_w = block.devices_per_node, block.tdp_w_per_device
    return Hardware(name, peak, memory, link, network, per_node, tdp_w, kernels(precision))


def _own_examples(groups: Iterable[Group], blocks: dict[str, System]) -> list[Example]:
    """Return the measured points of systems whose datasheets are known."""
    found = []
    for group in groups:
        known = workload(group.first.point.benchmark)
        try:
            hardware = _hardware(blocks[group.first.system], group.first.precision)
            for one in group.points:
                work = _work(known, [group], group.first.point.model, one.devices, one.batch)
                step_s = one.batch * _work_per_sample(group.first.any) / one.per_s
                found.append(Example(OWN, hardware, one.devices, work, step_s))
        except (PredictionError, KeyError):  # its datasheet or its work is not known
            continue
    return found


def _shape(known: Workload, model: str) -> Shape | None:
    decoder = known.decoder(model)
    if decoder is None:
        return None
    if decoder["experts"]:
        raise PredictionError(f"{model} has experts, and all known examples are dense models: measure it")
    return Shape(*(decoder[name] for name in Shape._fields))


def _work(known: Workload, groups: Sequence[Group], model: str, devices: int, batch: int) -> Work:
    """Return the work of a step; raises PredictionError for a model whose work is not known."""
    record = next((one.first.any for one in groups if one.first.point.model == model), None)
    shape, decoder = _shape(known, model), known.decoder(model)
    if shape and decoder:
        layout = record.layout if record else RunLayout()
        if (layout.context_parallel_size or 1) > 1:
            raise PredictionError(f"{model} ran with context parallelism, which predictions do not know: measure it")
        recompute = record is not None and str(value_at(record, "choices.recomputation")) == FULL_RECOMPUTATION
        shared = Layout(
            devices,
            batch,
            int(layout.micro_batch_size or decoder["micro_batch"]),
            int(layout.tensor_parallel_size or decoder["tensor"]),
            int(layout.pipeline_parallel_size or decoder["pipeline"]),
            recompute=recompute,
        )
        return decoder_work(shape, shared)
    if record is None:
        measured = ", ".join(dict.fromkeys(one.first.point.model for one in groups))
        raise PredictionError(f"{model} is a model of another kind than {measured}: measure it, or a similar model")
    flops = 1e12 * float(value_at(record, "metrics.tflops_per_device") or 0.0)
    per_s = float(value_at(record, PER_DEVICE) or 0.0)
    if not flops or not per_s:
        raise PredictionError(
            f"the records of {model} have no tflops_per_device, which a datasheet prediction needs: measure it"
        )
    parameters = float(value_at(record, "metrics.num_parameters") or 0.0)
    return image_work(flops / per_s * _work_per_sample(record), parameters, devices, batch)
