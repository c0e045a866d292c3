"""One measured run of any workload: plan, agree, warm up, measure, gather, conclude, record."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common.input_files import Staged, stage, worth_staging
from benchmarks.common.launch import Launch, boot_id, node_name, read_launch
from benchmarks.common.measure import checkpoints
from benchmarks.common.measure.extra_steps import in_parts, profile
from benchmarks.common.measure.measured import Measured, Session
from benchmarks.common.measure.regions import (
    TIMES_SUFFIX,
    TRACE_SUFFIX,
    MarkedSteps,
    regions_of,
    trace_of,
    traced,
)
from benchmarks.common.measure.turns import in_turns
from benchmarks.common.measure.window import in_a_window, to_a_loss
from benchmarks.common.node.gpu_ids import bind
from benchmarks.common.node.provenance import collect_provenance, environment
from benchmarks.common.options import EXIT_BAD_OPTIONS, FULL_FP32, ConfigError, escape_unencodable, parse_groups
from benchmarks.common.record import FAILED, MEASURED, OK, Device, RunRecord, Window
from benchmarks.common.run import check_record_path, run_recorded
from benchmarks.common.workload import Target, Workload
from jpwr.regions import RegionTimer
from record.part import as_json

# Flags of every workload that change its speed, with their words in the variant.
UNUSUAL = {
    "turns.cold_cache": "cold cache",
    "run.region_times": "reads counted",
    "window.to_loss": "to loss {:g}",
}


def main(workload: type[Workload], argv: Sequence[str] | None = None) -> int:
    """Run a workload's program from the command line, and return the exit code; every run leaves a record."""
    escape_unencodable()
    try:
        options, launch = parse_options(workload, sys.argv[1:] if argv is None else argv), read_launch()
        check_record_path(options.run.record)
        _check_facts(workload, options)
        if options.turns.effective and options.window.to_loss:
            raise ConfigError("--effective and --to-loss exclude each other: leave one out")
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
        asdict(options),
        provenance=collect_provenance(workload.packages),
    )
    return run_recorded(record, options.run.record, launch, partial(train, workload, options, launch))


def parse_options(workload: type[Workload], argv: Sequence[str]) -> Any:
    """Return the workload's options from a command line; raises ConfigError for a wrong one."""
    start = "Start it alone for one device, with torchrun (or python -m benchmarks.common.spawn) for several."
    program = f"python -m benchmarks.{workload.name}"
    return parse_groups(workload.options, argv, program, f"{workload.description} {start}")


def _check_facts(workload: type[Workload], options: Any) -> None:
    """Raise ConfigError for a precision or a device that the workload does not run with."""
    known, refused = workload.facts()["precisions"].split(), workload.facts().get("refused", {})
    precision = options.compute.precision
    if precision not in ("auto", *known):
        raise ConfigError(f"--precision {precision} was asked for, but {workload.name} has {', '.join(known)}")
    if options.compute.device == "ipu" and "graphcore" in refused:
        raise ConfigError(
            f"--device ipu was asked for, but {workload.name} does not run on IPUs: {refused['graphcore']}"
        )


def train(workload: type[Workload], options: Any, launch: Launch, record: RunRecord) -> None:
    """Train and fill in the record; raises ConfigError for options that do not fit together or the machine."""
    run = workload(options, launch)
    record.layout = {**run.layout, "work_per_sample": run.work_per_sample}
    record.data, record.sample = run.data, run.sample
    record.metrics["num_parameters"] = run.num_parameters
    run.set_environment()
    if options.compute.bind and options.compute.device != "cpu":
        bind(launch)
    staged = _stage(run, options, launch)
    run.regions = RegionTimer()
    marked = MarkedSteps(run.regions)
    with run.open(record) as target:
        _describe_options(run, target, record)
        run.regions.record_event = target.record_event
        if options.run.profile and not target.has_profiler:
            raise ConfigError(f"--profile was asked for, but {run.name} has no profiler on this device: leave it out")
        training = run.build(target)
        if options.turns.effective and training.on_device is None:
            raise ConfigError(f"--effective was asked for, but {run.name} has no input path: leave it out")
        record.metrics |= _staged_metrics(staged, target)
        session = Session(run, training, target, options, launch, marked)
        checkpoints.check(session)
        target.gather(None)  # wait until every rank has built its model
        if options.window.to_loss:
            measured = to_a_loss(session)
        else:
            measured = in_turns(session) if options.turns.effective else in_a_window(session)
        _describe_machines(session, measured, record)
        # The following may need more memory than the measured steps.
        in_parts(session)
        _describe_steps(session, measured, record)
        record.losses, record.step_times_s = list(training.losses()), measured.step_times_s
        record.metrics |= {
            "warmup_steps": options.window.warmup_steps * training.steps_per_call,
            **measured.metrics,
        }
        record.error = training.conclude(record) or measured.problem
        checkpoints.measure(session, record)  # its steps do not count
    record.status = FAILED if record.error else OK


def _stage(run: Workload, options: Any, launch: Launch) -> Staged | None:
    """Copy this rank's files, or those that gain most, to the node's own disk and use the copies, if requested."""
    if not run.stage:
        return None
    chosen = worth_staging(run.files, options.data)
    staged = stage(chosen, Path(run.stage), partial(print, flush=True) if launch.rank == 0 else lambda _: None)
    copies = dict(zip(chosen, staged.files, strict=True))
    run.files = [copies.get(file, file) for file in run.files]
    return staged


def _staged_metrics(staged: Staged | None, target: Target) -> dict[str, float]:
    """Return the bytes copied on all nodes, and the time of the slowest rank."""
    of_ranks = [rank for rank in target.gather(staged and [staged.copied_bytes, staged.time_s]) if rank]
    if not of_ranks:
        return {}
    copied_bytes, times_s = zip(*of_ranks, strict=True)
    return {"staged_bytes": sum(copied_bytes), "stage_s": max(times_s)}


def _describe_options(run: Workload, target: Target, record: RunRecord) -> None:
    """Record the options as used, and the unusual ones in words."""
    record.precision = target.precision
    record.provenance["environment"] = environment()  # opening the target sets some variables
    record.config["compute"] |= {"device": target.kind, "precision": target.precision}

    def chosen(path: str) -> Any:
        group, _, name = path.partition(".")
        return record.config.get(group, {}).get(name)  # a workload may have no flags of checkpoints

    for path, words_of in run.unusual.items():
        if words := words_of.get(str(chosen(path))):
            record.variant.append(words)
    for path, words in UNUSUAL.items():
        if value := chosen(path):
            record.variant.append(words.format(value))
    hashes = target.gather(record.config_hash)
    others = [rank for rank, found in enumerate(hashes) if found != hashes[0]]
    if others:
        raise ConfigError(
            f"rank {others[0]} was started with other options than rank 0: start all ranks with the same options"
        )


def _describe_machines(session: Session, measured: Measured, record: RunRecord) -> None:
    """Record the windows, nodes and devices of all ranks."""
    target = session.target

    def of_all_ranks(own: Sequence[Any]) -> list[Any]:
        return [one for rank in target.gather(own) for one in rank]

    is_first = session.launch.is_first_on_node
    record.windows = list(map(Window.of, of_all_ranks(as_json(measured.windows) if is_first else [])))
    record.devices = list(map(Device.of, of_all_ranks(as_json(target.describe_devices()))))
    nodes = of_all_ranks(record.provenance["nodes"] if is_first else [])
    record.provenance |= {"nodes": nodes, **target.software()}
    throttled_percent = max(target.gather(session.marked.throttled_percent(MEASURED)))
    record.metrics |= {**target.statistics(), "cpu_throttled_percent": throttled_percent}


def _describe_steps(session: Session, measured: Measured, record: RunRecord) -> None:
    """Record the regions of the steps, and write the requested files next to the record."""
    run, options, gather, marked = session.run, session.options.run, session.target.gather, session.marked
    spans, lane, steps_per_batch = marked.spans(), run.regions.lane, measured.steps_per_batch
    record.regions = regions_of(
        spans, lane, steps_per_batch, gather, session.host_runs_ahead, run.marks_all_communication
    )
    if options.profile:
        profile(session)
    if options.region_times:
        times = gather({"hostname": node_name(), "boot_id": boot_id(), "windows": marked.times()})
        session.write_next_to_record(TIMES_SUFFIX, partial(json.dumps, times), "reads will not be reported by region")
    first_steps = gather(traced(spans, lane, session.launch.world_size))
    if options.record:
        session.write_next_to_record(TRACE_SUFFIX, partial(trace_of, first_steps), "no trace of the steps is kept")
