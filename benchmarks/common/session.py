"""One measured run of any workload: plan, agree, warm up, measure, gather, conclude, record."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, cast, get_type_hints

from benchmarks.common.binding import bind
from benchmarks.common.launch import Launch, mark, node_window, read_launch
from benchmarks.common.measure import WINDOW, measure_steps
from benchmarks.common.options import EXIT_BAD_OPTIONS, FULL_FP32, ConfigError, parse_config
from benchmarks.common.provenance import collect_provenance, environment
from benchmarks.common.record import EFFECTIVE, FAILED, MEASURED, OK, Device, RunRecord, Window
from benchmarks.common.run import check_record_path, run_recorded
from benchmarks.common.step_timer import StepTimer, percentile
from benchmarks.common.throughput import effective_metrics, throughput_metrics
from benchmarks.common.turns import Turns, measure_in_turns
from benchmarks.common.workload import Input, Options, Target, Training, Workload

TOGETHER_S = 1.0  # as in blocks that are measured in turns, a GPU without events is not waited for at each step
IO_COUNTERS = Path("/proc/self/io")


def main(workload: type[Workload], argv: Sequence[str] | None = None) -> int:
    """A workload's program, from the command line; returns the exit code and leaves a record, whatever happens."""
    try:
        options, launch = parse_options(workload, sys.argv[1:] if argv is None else argv), read_launch()
        check_record_path(options.run.record)
        if options.compute.precision not in ("auto", *workload.precisions):
            known = ", ".join(workload.precisions)
            raise ConfigError(f"--precision {options.compute.precision} was asked for, but {workload.name} has {known}")
        if options.run.dry_run:
            run = workload(options, launch)
            print("\n".join([*(f"{key}: {value}" for key, value in run.layout.items()), *run.plan()]))
            return 0
    except ConfigError as error:
        print(f"{workload.name}: {error}", file=sys.stderr)
        return EXIT_BAD_OPTIONS
    if options.compute.precision == "fp32":
        os.environ.update(FULL_FP32)
    record = RunRecord(
        workload.name,
        options.run.system,
        workload.model(options),
        f"{workload.unit}s",
        asdict(cast(Any, options)),
        provenance=collect_provenance(workload.packages),
    )
    return run_recorded(record, options.run, launch, partial(train, workload, options, launch))


def parse_options(workload: type[Workload], argv: Sequence[str]) -> Any:
    """The workload's options from a command line; raises ConfigError."""
    hints = get_type_hints(workload.options)
    groups = [hints[field.name] for field in fields(workload.options)]
    start = "Start it alone for one device, with torchrun (or python -m benchmarks.common.spawn) for several."
    program = f"python -m benchmarks.{workload.name}"
    return workload.options(*parse_config(groups, argv, program, f"{workload.description} {start}"))


def train(workload: type[Workload], options: Options, launch: Launch, record: RunRecord) -> None:
    """Train and fill in the record; raises ConfigError for what does not fit the options or the machine."""
    run = workload(options, launch)
    record.layout = {**run.layout, "work_per_sample": run.work_per_sample}
    record.data, record.sample = run.data, run.sample
    record.metrics["num_parameters"] = run.num_parameters
    if options.compute.bind and options.compute.device != "cpu":
        bind(launch, run.devices_per_process)
    with run.open(record) as target:
        record.precision = target.precision
        record.provenance["environment"] = environment()  # some is set on the way
        record.config["compute"] |= {"device": target.kind, "precision": target.precision}
        _choose(workload, record)
        check_same_options(record.config_hash, target)
        training = run.build(target)
        if options.turns.effective and training.on_device is None:
            raise ConfigError(f"--effective is not there for {run.name}, which has no input path: leave it out")
        target.gather(None)  # no rank starts its clock while another still builds its model
        measured = measure(Session(run, training, target, options, launch))
        windows = [asdict(window) for window in measured.windows] if launch.is_first_on_node else []
        record.windows = [Window(**one) for own in target.gather(windows) for one in own]
        nodes = target.gather(record.provenance["nodes"] if launch.is_first_on_node else [])
        record.provenance |= {"nodes": [node for own in nodes for node in own], **target.software()}
        devices = target.gather([asdict(device) for device in target.describe_devices()])
        record.devices = [Device(**device) for own in devices for device in own]
        losses = training.losses()
        record.losses, record.step_times_s = list(losses), measured.step_times_s
        record.metrics |= {
            "warmup_steps": options.window.warmup_steps * training.steps_per_call,
            "first_loss": losses[0] if losses else None,
            "last_loss": losses[-1] if losses else None,
            **target.statistics(),
            **measured.metrics,
        }
        record.error = training.conclude(record)
    record.status = FAILED if record.error else OK


def _choose(workload: type[Workload], record: RunRecord) -> None:
    """What was chosen, in words: all of it, and what is not usual."""
    for title, path, unusual in workload.choices:
        group, _, name = path.partition(".")
        value = str(record.config[group][name])
        record.choices[title] = value
        if value in unusual:
            record.variant.append(unusual[value])


def check_same_options(config_hash: str, target: Target) -> None:
    """Raise ConfigError, on every rank, unless all ranks were started with the same options."""
    hashes = target.gather(config_hash)
    others = [rank for rank, found in enumerate(hashes) if found != hashes[0]]
    if others:
        raise ConfigError(f"rank {others[0]} was started with other options than rank 0: start all ranks with the same")


def work_per_step(run: Workload) -> int:
    """Of an optimizer step over all devices, in the workload's unit."""
    return run.layout["global_batch_size"] * run.work_per_sample


class Session(NamedTuple):
    """One run in its middle."""

    run: Workload
    training: Training
    target: Target
    options: Options
    launch: Launch

    def agree(self, number: int) -> int:
        """Rank 0's number."""
        return int(self.target.gather(number)[0])


class Measured(NamedTuple):
    """What one process measured."""

    windows: list[Window]  # of this node
    step_times_s: list[float]
    metrics: dict[str, Any]


def measure(session: Session) -> Measured:
    """In one window, or in turns; every rank at the same time."""
    run, options = session.run, session.options
    if options.turns.effective:
        windows, turns, input_metrics = _in_turns(session)
        steps_each = turns.calls_per_block * session.training.steps_per_call
        host_times_s = turns.durations_s(MEASURED)
        step_times_s = [time_s / steps_each for time_s in host_times_s]
    else:
        timer = _in_a_window(session)
        input_metrics = {}
        windows = [node_window(timer.window_start_s, timer.window_end_s)]
        steps_each = timer.steps_together * session.training.steps_per_call
        host_times_s = timer.host_times_s
        step_times_s = [time_s / session.training.steps_per_call for time_s in timer.measured_step_times_s]
    steps = len(step_times_s) * steps_each
    metrics = {
        "measured_steps": steps,
        "host_step_time_median_s": percentile(host_times_s, 50) / steps_each,
        **throughput_metrics(
            run.unit,
            steps * work_per_step(run),
            sum(host_times_s),
            step_times_s,
            run.layout["num_devices"],
            run.flops.per_unit,
            run.flops.source,
            options.run.peak_tflops_per_device,
        ),
    }
    return Measured(windows, step_times_s, metrics | input_metrics)


def _in_a_window(session: Session) -> StepTimer:
    """All steps are on the data that was asked for."""
    target, training = session.target, session.training
    timer = StepTimer(time.monotonic, training.synchronize, target.record_event)
    waited_for = target.kind == "gpu" and target.record_event is None
    measure_steps(
        training.data.call,
        timer,
        session.options.window,
        session.launch,
        session.agree,
        TOGETHER_S if waited_for else 0.0,
    )
    return timer


def _in_turns(session: Session) -> tuple[list[Window], Turns, dict[str, Any]]:
    """Compute and effective blocks in turns: their windows, and what the input path did."""
    run, training, launch = session.run, session.training, session.launch
    on_device, data = training.on_device, cast(Input, training.data)
    assert on_device is not None
    rounds = session.options.turns.rounds
    turns = Turns(_calls_per_block(session))
    work_per_call = training.steps_per_call * work_per_step(run)
    read = ReadCounts(data.read_so_far)

    def block_edge(edge: str, kind: str) -> None:
        if kind == EFFECTIVE:
            read.edge(edge)
        if launch.is_first_on_node:
            mark(edge, WINDOW.format(kind=kind), time.monotonic())

    def before_effective() -> None:
        if session.options.turns.cold_cache and launch.is_first_on_node:
            drop_from_cache(data.files)

    for done in measure_in_turns(
        on_device,
        data,
        turns,
        rounds,
        ceil(data.steps_ahead / training.steps_per_call),
        time.monotonic,
        training.synchronize,
        before_effective,
        block_edge,
    ):
        if launch.rank == 0:
            work = turns.calls_per_block * work_per_call
            rates = [f"{work / turns.durations_s(kind)[-1]:.1f} {run.unit}s/s" for kind in (MEASURED, EFFECTIVE)]
            print(f"round {done} of {rounds}: compute {rates[0]}, effective {rates[1]}", flush=True)
    own_share = sum(turns.waits_s) / (sum(turns.waits_s) + sum(turns.effective_steps_s))
    reads = session.target.gather(read.totals)
    metrics = effective_metrics(
        run.unit,
        work_per_call,
        run.layout["num_devices"],
        turns,
        max(session.target.gather(own_share)),  # the others wait for the rank that waits most
        {key: sum(one[key] for one in reads) for key in read.totals},
    )
    return [node_window(block.start_s, block.end_s, block.kind) for block in turns.blocks], turns, metrics


def _calls_per_block(session: Session) -> int:
    """From the times of warm-up steps on both kinds of data, of which those on the device come last."""
    window, training = session.options.window, session.training
    for feed in (training.data, training.on_device):
        assert feed is not None
        times_s = []
        for _ in range(window.warmup_steps):
            start_s = time.monotonic()
            feed.call()
            training.synchronize()
            times_s.append(time.monotonic() - start_s)
    return session.agree(ceil(window.steps_to_measure(times_s) / session.options.turns.rounds))


def drop_from_cache(files: Sequence[Path]) -> None:
    """Ask the kernel to forget what it holds of these files, so that they are read from storage again."""
    for path in files:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class ReadCounts:
    """What this process read between pairs of edges: by its data set's own count, and by the kernel's."""

    def __init__(self, read_so_far: Callable[[], dict[str, int]], counters: Path = IO_COUNTERS) -> None:
        self._read_so_far, self._counters = read_so_far, counters
        self._begin = self._now()
        self.totals = dict.fromkeys(self._begin, 0)

    def _now(self) -> dict[str, int]:
        found = dict(self._read_so_far())
        try:
            lines = dict(line.split(": ") for line in self._counters.read_text().splitlines())
        except OSError:  # no such file but on Linux
            return found
        # proc(5): bytes that were asked for, and those of them that came from storage
        return found | {"io_rchar_bytes": int(lines["rchar"]), "io_read_bytes": int(lines["read_bytes"])}

    def edge(self, edge: str) -> None:
        """To be told of "begin" and "end"."""
        if edge == "begin":
            self._begin = self._now()
        else:
            for key, value in self._now().items():
                self.totals[key] += value - self._begin[key]
