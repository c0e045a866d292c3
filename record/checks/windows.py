"""Rules on windows, and on the times inside them: of steps, reads and checkpoints."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from record.arithmetic import TOLERANCE, exceeds, product, ratio, rising, total
from record.derivation import KINDS
from record.model import Record, total_s
from record.part import is_number
from record.values import epoch_s

STEPS_TOLERANCE = 0.02  # relative, by which steps may exceed their window
CLOCK_S = 60.0  # by which a wall clock may be set during a run, and by which two nodes' clocks may differ
LONGEST_S = 14 * 86400.0  # from the start of a program to its window: longer than any job
UNSET_S = 1e9  # before it, in 2001, the node's wall clock was not set
IDLE_SHARE = 0.2  # of a window, which may be outside of all steps
NODES_SHARE = 0.5  # shortest window of a run's nodes over the longest one: all nodes wait for each other
FASTER_WITH_INPUT = 4.0  # highest ratio of throughput with the input path to that without, on a disturbed machine
REGIONS_TOLERANCE = 2.0  # factor: medians of a step's parts do not add up to its mean
WRITE_TOLERANCE = 0.01  # relative, between the times of writes and their windows
SLOWEST_TO_READ = 3.0  # times the first rank of a node, which reads as many bytes
CHECKPOINT_WORDS = {"checkpoint": "write", "restore": "restore"}  # in names of metrics, by kind of window


def _windows_are_of_the_devices_nodes_and_follow_each_other(run: Record) -> Iterator[str]:
    hosts, num_nodes = {device.hostname for device in run.devices}, run.layout.num_nodes
    if hosts and is_number(num_nodes) and len(hosts) != num_nodes:
        yield f"its devices are on {len(hosts)} nodes, but layout.num_nodes is {num_nodes}"
    for kind in KINDS:
        nodes = run.windows_of(kind)
        if nodes and hosts and nodes.keys() != hosts:
            names = ", ".join(sorted(map(str, nodes.keys() ^ hosts)))
            yield f"its devices and its {kind} windows are of different nodes: {names}"
        times_s = [(total_s(windows), host) for host, windows in nodes.items()]
        if times_s and min(times_s)[0] < NODES_SHARE * max(times_s)[0]:
            (least_s, least), (most_s, most) = min(times_s), max(times_s)
            yield f"its {kind} window lasts {least_s:.4g} s on node {least} and {most_s:.4g} s on node {most}"
        for hostname, windows in nodes.items():
            edges = sorted((window.start_s, window.end_s) for window in windows)
            if any(end_s <= start_s for start_s, end_s in edges):
                yield f"a {kind} window of node {hostname} does not end after it begins"
            elif any(after[0] < before[1] for before, after in pairwise(edges)):
                yield f"{kind} windows of node {hostname} overlap"


def _wall_clocks_go_with_the_windows(run: Record) -> Iterator[str]:
    created = run.provenance.created
    for window in run.windows:
        begin_s, end_s = window.start_epoch_s, window.end_epoch_s
        if not (is_number(begin_s) and is_number(end_s)):
            continue
        words = f"its {window.kind} window of node {window.hostname}"
        if abs(end_s - begin_s - window.duration_s) > CLOCK_S:
            yield f"{words} lasts {end_s - begin_s:.4g} s by the wall clock, but {window.duration_s:.4g} s by the other"
        began_s = epoch_s(created)
        if began_s is not None and begin_s > UNSET_S and not -CLOCK_S <= begin_s - began_s <= LONGEST_S:
            yield f"{words} begins {(begin_s - began_s) / 3600:.4g} h after provenance.created, {created}"


def _steps_fill_their_window_and_input_makes_nothing_faster(run: Record) -> Iterator[str]:
    speed, effective = (run.metrics.number(f"{kind}{run.work_unit}_per_s") for kind in ("", "effective_"))
    if is_number(speed) and is_number(effective) and effective > FASTER_WITH_INPUT * speed > 0:
        yield f"its throughput with the input path is {effective / speed:.3g} times that without"
    measured_s, steps = (run.metrics.number(f"measured_{word}") for word in ("s", "steps"))
    times_s = [time_s for time_s in run.step_times_s if time_s is not None]
    if not times_s or not is_number(measured_s):
        return
    steps_s = math.fsum(times_s) * (steps / len(times_s) if is_number(steps) else 1.0)
    if steps_s > (1 + STEPS_TOLERANCE) * measured_s or (is_number(steps) and steps_s < (1 - IDLE_SHARE) * measured_s):
        yield f"its steps take {steps_s:.4g} s, but their window lasts {measured_s:.4g} s"


def _regions_are_the_whole_step(run: Record) -> Iterator[str]:
    if "measured" not in run.regions:
        return
    regions, step_s = run.regions["measured"].regions.values(), run.regions["measured"].step_s
    shares = [share for one in regions if (share := one.share_percent) is not None]
    if shares and not math.isclose(whole := math.fsum(shares), 100.0, rel_tol=TOLERANCE):
        yield f"its regions have {whole:.10g} percent of a step"
    mean_s = ratio(run.metrics.number("measured_s"), run.metrics.number("measured_steps"))
    rank_times_s = zip(*(one.by_rank_s for one in regions if one.by_rank_s), strict=False)
    for name, time_s in (
        ("steps with regions take", step_s),
        ("regions' medians take", total(one.median_s for one in regions)),
        ("regions of one process take", max(map(total, rank_times_s), default=0.0)),
    ):
        if mean_s is not None and is_number(time_s) and time_s > REGIONS_TOLERANCE * mean_s:
            yield f"its {name} {time_s:.4g} s, but a step takes {mean_s:.4g} s on average"


def _windows_read_no_more_than_the_job(run: Record) -> Iterator[str]:
    if not run.io:
        return
    job = run.io.job
    for kind, reads in run.io.windows.items():
        where = f"io.windows.{kind}"
        for name in ("bytes", "reads"):
            yield from rising({f"{where}.{name}": reads.number(name), f"io.job.{name}": job.number(name)})
        parts = list(filter(is_number, reads.by_region.values()))
        own_bytes = total(parts) - len(parts)  # each part is rounded
        yield from rising({f"the sum of {where}.by_region": own_bytes, f"{where}.bytes": reads.bytes})
        yield from rising({f"{where}.reading_s": reads.reading_s, "its windows": run.longest_s(kind)})
    yield from rising({f"io.job.{name}": job.number(name) for name in ("sequential_reads", "reads")})


def _times_are_those_of_the_windows(run: Record) -> Iterator[str]:
    number = run.metrics.number
    rounds = number("checkpoint_rounds")
    is_whole = run.layout.num_devices == run.layout.num_nodes
    for kind, word in CHECKPOINT_WORDS.items() if rounds else ():
        # Windows are of a node's first rank: ranks wait for each other to have written, and not to have read.
        slack = 1 + WRITE_TOLERANCE if kind == "checkpoint" or is_whole else SLOWEST_TO_READ
        name, nodes = f"checkpoint_{word}", run.windows_of(kind)
        yield from rising({f"metrics.{one}": number(one) for one in (f"{name}_least_s", f"{name}_s", f"{name}_most_s")})
        windows_s, whole_s = run.longest_s(kind), product(number(f"{name}_s"), rounds)
        if exceeds(windows_s, whole_s) or (nodes and exceeds(whole_s, slack * windows_s)):
            yield f"metrics.{name}_s gives {whole_s:.4g} s in {rounds:g} rounds, but its windows {windows_s:.4g} s"
        if odd := [host for host in run.windows_of("measured") if len(nodes.get(host, [])) != rounds]:
            yield f"node {odd[0]} must have {rounds:g} windows of the kind {kind}, got {len(nodes.get(odd[0], []))}"
    most = ratio(product(number("checkpoint_bytes"), 1e-9), number("checkpoint_write_least_s"))
    name = "checkpoint_write_gb_per_s"
    yield from rising({f"metrics.{name}": number(name), "its bytes and times": most})


RULES = (
    _windows_are_of_the_devices_nodes_and_follow_each_other,
    _wall_clocks_go_with_the_windows,
    _steps_fill_their_window_and_input_makes_nothing_faster,
    _regions_are_the_whole_step,
    _windows_read_no_more_than_the_job,
    _times_are_those_of_the_windows,
)
