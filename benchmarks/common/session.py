"""One measured run of any workload: plan, agree, warm up, measure, gather, conclude, record."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, fields
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, cast, get_type_hints

from benchmarks.common.binding import bind
from benchmarks.common.input_files import Staged, drop_from_cache, stage
from benchmarks.common.launch import Launch, boot_id, mark, node_name, node_window, read_launch
from benchmarks.common.measure import WINDOW, measure_steps, to_go
from benchmarks.common.options import (
    EXIT_BAD_OPTIONS,
    FULL_FP32,
    ConfigError,
    RunOptions,
    escape_unencodable,
    parse_config,
)
from benchmarks.common.out_of_memory import telling_line
from benchmarks.common.provenance import collect_provenance, environment
from benchmarks.common.record import EFFECTIVE, FAILED, MEASURED, OK, Device, RunRecord, Window
from benchmarks.common.regions import (
    PARTS,
    PAUSE,
    PAUSED,
    STATES_SUFFIX,
    TIMES_SUFFIX,
    TRACE_SUFFIX,
    MarkedSteps,
    packed,
    regions_of,
    share_metrics,
    step_states,
    traced,
    write_states,
    write_trace,
)
from benchmarks.common.run import check_record_path, run_recorded
from benchmarks.common.step_timer import StepTimer, percentile
from benchmarks.common.throughput import effective_metrics, throughput_metrics
from benchmarks.common.turns import Turns, measure_in_turns
from benchmarks.common.workload import BatchFeed, InParts, Input, Options, Target, Training, Workload
from jpwr.regions import RegionTimer

TOGETHER_S = 1.0  # as in blocks that are measured in turns, a GPU without events is not waited for at each step
PROFILE_SUFFIX = ".profile"
LONGEST_PAUSE = 0.5  # of a step; of random lengths, so that no sensor keeps step
MOST_PAUSED_STEPS = 20_000  # of shorter ones no sensor tells anything
SEED = 0  # of the pauses, which all ranks make together
SAY_EVERY_S = 2.0
COPIES = 5  # of a batch to the device, to know how long one takes
IO_COUNTERS = Path("/proc/self/io")
# Flags of every workload that change its speed, in words.
UNUSUAL = {"turns.cold_cache": "cold cache", "run.region_times": "reads counted"}


def main(workload: type[Workload], argv: Sequence[str] | None = None) -> int:
    """A workload's program, from the command line; returns the exit code and leaves a record, whatever happens."""
    escape_unencodable()
    try:
        options, launch = parse_options(workload, sys.argv[1:] if argv is None else argv), read_launch()
        check_record_path(options.run.record)
        _check_profile(options.run)
        if options.compute.precision not in ("auto", *workload.precisions):
            known = ", ".join(workload.precisions)
            raise ConfigError(f"--precision {options.compute.precision} was asked for, but {workload.name} has {known}")
        if options.compute.device == "ipu" and workload.without_ipu:
            raise ConfigError(
                f"--device ipu was asked for, but {workload.name} is not there on IPUs: {workload.without_ipu}"
            )
        if options.run.dry_run:
            run = workload(options, launch)
            print("\n".join([*(f"{key}: {value}" for key, value in run.layout.items()), *run.plan()]))
            return 0
    except ConfigError as error:
        print(f"{workload.name}: error: {error}", file=sys.stderr)
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
    staged = _stage(run, launch)
    run.regions = RegionTimer()
    marked = MarkedSteps(run.regions)
    with run.open(record) as target:
        record.precision = target.precision
        record.provenance["environment"] = environment()  # some is set on the way
        record.config["compute"] |= {"device": target.kind, "precision": target.precision}
        _choose(workload, record)
        check_same_options(record.config_hash, target)
        run.regions.record_event = target.record_event
        if options.run.profile and target.profile is None:
            raise ConfigError(f"--profile is not there for {run.name} on this device: leave it out")
        training = run.build(target)
        if options.turns.effective and training.on_device is None:
            raise ConfigError(f"--effective is not there for {run.name}, which has no input path: leave it out")
        record.metrics |= _staged_metrics(staged, target)
        target.gather(None)  # no rank starts its clock while another still builds its model
        session = Session(run, training, target, options, launch, marked)
        measured = measure(session)
        windows = [asdict(window) for window in measured.windows] if launch.is_first_on_node else []
        record.windows = [Window(**one) for own in target.gather(windows) for one in own]
        nodes = target.gather(record.provenance["nodes"] if launch.is_first_on_node else [])
        record.provenance |= {"nodes": [node for own in nodes for node in own], **target.software()}
        devices = target.gather([asdict(device) for device in target.describe_devices()])
        record.devices = [Device(**device) for own in devices for device in own]
        record.metrics |= target.statistics()
        # What comes now may take more memory than the steps that were measured.
        in_parts(session)
        spans, lane = marked.spans(), run.regions.lane
        steps_per_batch, gather = measured.steps_per_batch, target.gather
        record.regions = regions_of(spans, lane, steps_per_batch, gather, session.is_waited_for_together)
        if options.run.region_energy:
            step_s = step_states(spans[MEASURED], lane, steps_per_batch, record.regions[MEASURED], gather)
            record.states = _paused(session, record, step_s)
        if options.run.profile:
            _profile(training, target, options.run, launch)
        if options.run.region_times:
            times = gather({"hostname": node_name(), "boot_id": boot_id(), "windows": marked.times()})
            if launch.rank == 0:
                _write_beside(options.run, TIMES_SUFFIX, write_states, times, "reads will not be told by region")
        first_steps = gather(traced(spans, lane, launch.world_size))
        if launch.rank == 0 and options.run.record:
            _write_beside(options.run, TRACE_SUFFIX, write_trace, first_steps, "there is no picture of the steps")
        losses = training.losses()
        record.losses, record.step_times_s = list(losses), measured.step_times_s
        record.metrics |= {
            "warmup_steps": options.window.warmup_steps * training.steps_per_call,
            "first_loss": losses[0] if losses else None,
            "last_loss": losses[-1] if losses else None,
            **measured.metrics,
            **share_metrics(record.regions[MEASURED], run.layout["num_devices"], run.tells_communication),
        }
        record.error = training.conclude(record)
    record.status = FAILED if record.error else OK


def _stage(run: Workload, launch: Launch) -> Staged | None:
    """Copies of this rank's files in their place, where that was asked for."""
    if not run.stage:
        return None
    say: Callable[[str], None] = (lambda said: print(said, flush=True)) if launch.rank == 0 else lambda _: None
    staged = stage(run.files, Path(run.stage), say)
    run.files = staged.files
    return staged


def _staged_metrics(staged: Staged | None, target: Target) -> dict[str, float]:
    """What was copied on all nodes, and how long the slowest rank took."""
    of_ranks = [one for one in target.gather(staged and [staged.copied_bytes, staged.time_s]) if one]
    if not of_ranks:
        return {}
    copied_bytes, times_s = zip(*of_ranks, strict=True)
    return {"staged_bytes": sum(copied_bytes), "stage_s": max(times_s)}


def _check_profile(options: RunOptions) -> None:
    folder = Path(options.record).with_suffix(PROFILE_SUFFIX) if options.profile else None
    if folder and folder.exists():
        raise ConfigError(f"--profile writes into {folder}, which exists already: remove it")


def _profile(training: Training, target: Target, options: RunOptions, launch: Launch) -> None:
    """Some more steps of every rank; rank 0 is profiled."""
    profiler: AbstractContextManager[object] = nullcontext()
    try:
        if launch.rank == 0 and target.profile:
            profiler = target.profile(Path(options.record).with_suffix(PROFILE_SUFFIX))
        profiler.__enter__()
    except Exception as error:
        profiler = nullcontext()
        print(f"there is no profile: {telling_line(error)}", file=sys.stderr)
    for _ in range(options.profile):
        training.data.call()
    training.synchronize()
    try:
        profiler.__exit__(None, None, None)
    except Exception as error:  # a full disk, say: the run is none the worse
        print(f"the profile cannot be written: {telling_line(error)}", file=sys.stderr)


def _write_beside(
    options: RunOptions, suffix: str, write: Callable[[Path, Sequence[Any]], None], told: Sequence[Any], without: str
) -> None:
    """A file beside the record; a run is none the worse without."""
    path = Path(options.record).with_suffix(suffix)
    try:
        write(path, told)
    except OSError as error:
        print(f"{path} cannot be written ({error.strerror}): {without}", file=sys.stderr)


def _choose(workload: type[Workload], record: RunRecord) -> None:
    """What was chosen, in words: all of it, and what is not usual."""
    for title, path, unusual in workload.choices:
        group, _, name = path.partition(".")
        value = str(record.config[group][name])
        record.choices[title] = value
        if value in unusual:
            record.variant.append(unusual[value])
    for path, words in UNUSUAL.items():
        group, _, name = path.partition(".")
        if record.config[group][name]:
            record.choices[words] = "yes"
            record.variant.append(words)


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
    marked: MarkedSteps

    @property
    def is_waited_for_together(self) -> bool:
        """Does the host run ahead of a device that has no events, until it waits for some steps together?"""
        return self.target.kind == "gpu" and self.target.record_event is None

    def agree(self, number: int) -> int:
        """Rank 0's number."""
        return int(self.target.gather(number)[0])


class Measured(NamedTuple):
    """What one process measured."""

    windows: list[Window]  # of this node
    step_times_s: list[float]
    metrics: dict[str, Any]
    steps_per_batch: int  # of those that are marked as one


def measure(session: Session) -> Measured:
    """In one window, or in turns; every rank at the same time."""
    run, options = session.run, session.options
    if options.turns.effective:
        windows, turns, input_metrics = _in_turns(session)
        steps_each = turns.calls_per_block * session.training.steps_per_call
        host_times_s = turns.durations_s(MEASURED)
        step_times_s = [time_s / steps_each for time_s in host_times_s]
        together = turns.calls_per_block if session.is_waited_for_together else 1
    else:
        timer = _in_a_window(session)
        all_steps = len(timer.warmup_step_times_s) + len(timer.host_times_s) * timer.steps_together
        all_s = sum(timer.warmup_step_times_s) + timer.window_s
        input_metrics = _epcc_metrics(run, all_steps * session.training.steps_per_call * work_per_step(run), all_s)
        windows = [node_window(timer.window_start_s, timer.window_end_s)]
        together = timer.steps_together
        steps_each = together * session.training.steps_per_call
        host_times_s = timer.host_times_s
        step_times_s = [time_s / session.training.steps_per_call for time_s in timer.measured_step_times_s]
    steps = len(step_times_s) * steps_each
    metrics = {
        "measured_steps": steps,
        "host_step_time_median_s": percentile(host_times_s, 50) / steps_each,
        **throughput_metrics(
            run.unit,
            steps * work_per_step(run),
            _longest_s(session, host_times_s),
            step_times_s,
            run.layout["num_devices"],
            run.flops.per_unit,
            run.flops.source,
            options.run.peak_tflops_per_device,
        ),
    }
    return Measured(windows, step_times_s, metrics | input_metrics, together * session.training.steps_per_call)


def _longest_s(session: Session, times_s: Sequence[float]) -> float:
    """Of all nodes the longest sum of times: of windows that a busy node leaves later than others, the whole run's."""
    of_ranks: list[float] = session.target.gather(sum(times_s) if session.launch.is_first_on_node else 0.0)
    return max(of_ranks)


def _in_a_window(session: Session) -> StepTimer:
    """All steps are on the data that was asked for."""
    target, training = session.target, session.training
    timer = StepTimer(time.monotonic, training.synchronize, target.record_event)
    measure_steps(
        training.data.call,
        timer,
        session.options.window,
        session.launch,
        session.agree,
        session.marked,
        TOGETHER_S if session.is_waited_for_together else 0.0,
    )
    return timer


def in_parts(session: Session) -> None:
    """Some more steps, split into their regions, where the usual ones do not tell them."""
    marked, training = session.marked, session.training
    steps = session.options.run.split_steps
    if not (steps and isinstance(training, InParts)):
        return
    lacks = ""
    try:
        training.step_in_parts()  # prepares what it needs
    except Exception as error:  # the run is as good as it was: split steps keep more at a time than whole ones
        lacks = f"rank {session.launch.rank}: {type(error).__name__}: {telling_line(error)}"
    without = [one for one in session.target.gather(lacks) if one]
    if without:
        if session.launch.rank == 0:
            print(f"a step cannot be split, so that its regions are not told: {'; '.join(without)}", file=sys.stderr)
        return
    marked.begin_window(time.monotonic(), every_step=True)
    for _ in range(steps):
        marked.begin()
        training.step_in_parts()
        marked.end()
    marked.end_window(PARTS, time.monotonic())


def _paused(session: Session, record: RunRecord, step_s: dict[str, list[float]]) -> dict[str, Any]:
    """Steps with pauses, for the power of each of their states; what the record says of them."""
    training, launch, marked, timer = session.training, session.launch, session.marked, session.run.regions
    is_split = "in_parts" in record.regions[MEASURED]
    if session.is_waited_for_together and not is_split:
        if launch.rank == 0:
            print("nothing tells a step's regions here, so that there is no energy of them", file=sys.stderr)
        return {}
    one_s = record.regions[PARTS if is_split else MEASURED]["step_s"] * (1 if is_split else training.steps_per_call)
    wanted = ceil(session.options.run.region_energy / one_s / (1 + LONGEST_PAUSE / 2))
    steps = session.agree(min(wanted, MOST_PAUSED_STEPS))
    chance, said_s = random.Random(SEED), time.monotonic()
    training.synchronize()
    marked.begin_window(time.monotonic(), every_step=True)
    for index in range(steps):
        marked.begin()
        if is_split:
            cast(InParts, training).step_in_parts()
        else:
            training.data.call()
        training.synchronize()
        timer.device_at_rest()
        marked.end()
        with timer.region(PAUSE):
            time.sleep(chance.uniform(0.0, LONGEST_PAUSE) * one_s)
        if launch.rank == 0 and time.monotonic() - said_s > SAY_EVERY_S:
            said_s = time.monotonic()
            print(f"step {index + 1} of {steps} with pauses, for the energy of regions", flush=True)
    marked.end_window(PAUSED, time.monotonic())
    of_ranks = session.target.gather(packed(marked.states(PAUSED, timer.lane)))
    if launch.rank == 0:
        without = "the energy of regions will not be told"
        _write_beside(session.options.run, STATES_SUFFIX, write_states, of_ranks, without)
    return {"step_s": step_s, "paused_steps": steps}


class MarkedFeed:
    """Steps of a feed, each of which is marked."""

    def __init__(self, feed: BatchFeed, marked: MarkedSteps) -> None:
        self._feed, self._marked = feed, marked
        self.take, self.step = feed.take, feed.step

    def call(self) -> None:
        """One call into the framework."""
        self._marked.begin()
        self._feed.call()
        self._marked.end()


def _in_turns(session: Session) -> tuple[list[Window], Turns, dict[str, Any]]:
    """Compute and effective blocks in turns: their windows, and what the input path did."""
    run, training, launch = session.run, session.training, session.launch
    on_device, data = training.on_device, cast(Input, training.data)
    assert on_device is not None
    calls, first_calls_s = _calls_per_block(session)
    turns = Turns(calls)
    work_per_call = training.steps_per_call * work_per_step(run)
    read = ReadCounts(data.read_so_far)

    marked, together = session.marked, session.is_waited_for_together

    def block_edge(edge: str, kind: str, time_s: float) -> None:
        if launch.is_first_on_node:
            mark(edge, WINDOW.format(kind=kind), time_s)
        if kind == EFFECTIVE:
            read.edge(edge)
        if edge == "begin":
            marked.begin_window(time_s)
        if together:
            (marked.begin if edge == "begin" else marked.end)()
        if edge == "end":
            marked.end_window(kind, time_s)

    def before_effective() -> None:
        if session.options.turns.cold_cache:
            drop_from_cache(run.files)

    left, begun_s = session.options.turns.rounds, time.monotonic()
    while left:
        before = len(turns.durations_s(MEASURED))
        for done in measure_in_turns(
            on_device if together else MarkedFeed(on_device, marked),
            data if together else MarkedFeed(data, marked),
            turns,
            left,
            ceil(data.steps_ahead / training.steps_per_call),
            time.monotonic,
            training.synchronize,
            before_effective,
            block_edge,
        ):
            if launch.rank == 0:
                work = turns.calls_per_block * work_per_call
                rates = [f"{work / turns.durations_s(kind)[-1]:.1f} {run.unit}s/s" for kind in (MEASURED, EFFECTIVE)]
                told = f"compute {rates[0]}, effective {rates[1]}"
                number, total = before + done, before + left
                print(f"round {number} of {total}, {to_go(begun_s, number, total)}: {told}", flush=True)
        measured_s = turns.durations_s(MEASURED)
        left = session.agree(session.options.window.steps_left(len(measured_s), sum(measured_s)))
    own_share = sum(turns.waits_s) / (sum(turns.waits_s) + sum(turns.effective_steps_s))
    copies_s = [copy_s for _ in range(COPIES) if (copy_s := data.copy_batch_s()) is not None]
    steps = len(measured_s) * turns.calls_per_block * training.steps_per_call
    if copies_s:
        read.totals["input_copying_s"] = percentile(copies_s, 50) * steps
    reads = session.target.gather(read.totals)
    metrics = effective_metrics(
        run.unit,
        work_per_call,
        run.layout["num_devices"],
        turns,
        _longest_s(session, turns.durations_s(EFFECTIVE)),
        max(session.target.gather(own_share)),  # the others wait for the rank that waits most
        {key: sum(one[key] for one in reads) for key in read.totals},
    )
    effective_s = [*first_calls_s, *turns.durations_s(EFFECTIVE)]
    calls_made = len(first_calls_s) + len(measured_s) * turns.calls_per_block
    metrics |= _epcc_metrics(run, calls_made * work_per_call, sum(effective_s))
    return [node_window(block.start_s, block.end_s, block.kind) for block in turns.blocks], turns, metrics


def _calls_per_block(session: Session) -> tuple[int, list[float]]:
    """From the times of warm-up calls on the device's own data; those of the others, which come first."""
    window, training = session.options.window, session.training
    of_feeds_s = []
    for feed in (training.data, training.on_device):
        assert feed is not None
        times_s = []
        for _ in range(window.warmup_steps):
            start_s = time.monotonic()
            feed.call()
            training.synchronize()
            times_s.append(time.monotonic() - start_s)
        of_feeds_s.append(times_s)
    return session.agree(ceil(window.steps_to_measure(of_feeds_s[1]) / session.options.turns.rounds)), of_feeds_s[0]


def _epcc_metrics(run: Workload, work: int, time_s: float) -> dict[str, float]:
    """EPCC's processing speed: all samples from the first step on, however long that one took, by their time.

    It is told of runs on files alone, as theirs are. Source: EPCC's suite of ResNet-50, CosmoFlow and DeepCAM.
    """
    if not run.files:
        return {}
    return {f"epcc_{run.unit}s": work, "epcc_s": time_s, f"epcc_{run.unit}s_per_s": work / time_s}


class ReadCounts:
    """What this process read between pairs of edges: by its data set's own count, and by the kernel's."""

    def __init__(self, read_so_far: Callable[[], Mapping[str, float]], counters: Path = IO_COUNTERS) -> None:
        self._read_so_far, self._counters = read_so_far, counters
        self._begin = self._now()
        self.totals = dict.fromkeys(self._begin, 0.0)

    def _now(self) -> dict[str, float]:
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
