"""The charts of a workload: of its points, as frames of which each has what is alike, and of single runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jpwr.errors import JpwrError
from jpwr.trace.trace import Trace
from record.model import Record
from record.values import PER_DEVICE, devices_text, rounded, value_at
from results.files.quantities import QUANTITIES
from results.frames import alike, points_frame
from results.join.nodes import TRACES
from results.points.facts import choices_of, point_of
from results.points.repeats import PointResults
from results.show.plots.charts import COLOURS, DOTS, GREY, Axis, Chart, Styles, bars, heat_map, pareto, series
from results.show.tables.parts import ORDER, OTHER, WINDOWS, regions_of
from results.verdicts.compare import created_s
from results.verdicts.quality import fastest

if TYPE_CHECKING:
    from pandas import DataFrame

SPEED, EFFICIENCY, TOTAL = "work_per_s_per_device", "work_per_wh", "work_per_s"
BATCH = Axis("global_batch", "global batch size", "doublings")
DEVICES = Axis("devices", "devices", "doublings")
MOST_ROWS = 2000  # of a trace in a chart
REGION_COLOURS = dict(zip(ORDER, (COLOURS[index] for index in (4, 5, 6, 0, 1, 2)), strict=True))
OF_CHARTS = (TOTAL, "per_user", "tpot_p50", "ttft_p99", "j_per_output_token")  # besides those of every point


def charts_of(results: Sequence[PointResults], styles: Styles) -> list[Chart]:
    """Return the charts of a workload; none that would have a single point."""
    unit = str(results[0].any.work_unit)
    frame = frame_of(results)
    served = any(point.any.serving for point in results if point.good)
    of_points = [*_served(frame, results, styles)] if served else [*_trained(frame, unit, styles)]
    return [*of_points, *_scaling(frame, styles), *_regions(results), *powers(results)]


def frame_of(results: Sequence[PointResults]) -> DataFrame:
    """Return the frame of points with their limits and setups in words."""
    numbers = {name: [getattr(point.point, name) for point in results] for name in ("devices", "global_batch")}
    return points_frame(results, (*OF_CHARTS, "copies")).assign(
        failed=["OOM" if any(run.status == "out_of_memory" for run in point.bad) else "failed" for point in results],
        late=[point.keeps_limits is False for point in results],
        limits=[str(point.limits) for point in results],
        setup=[", ".join([point.system, *point.variant]) for point in results],
        **numbers,
    )


def _alike(frame: DataFrame, name: str, title: str, *values: str) -> Iterator[tuple[tuple[str, str], DataFrame, str]]:
    """Yield name and title of a chart for each kind of points that have some values, the points, and their kind."""
    for number, (words, group) in enumerate(alike(frame, *values)):
        chart = (f"{name}_{number}" if number else name, f"{title}: {words}" if words else title)
        yield chart, group, words


def _best(frame: DataFrame, value: str, *keys: str) -> DataFrame:
    """Return the row with the highest value of each place, in the order of the places."""
    return frame.sort_values(value, ascending=False, kind="stable").drop_duplicates(list(keys)).sort_values(list(keys))


def _trained(frame: DataFrame, unit: str, styles: Styles) -> Iterator[Chart]:
    heading = QUANTITIES[EFFICIENCY].of(unit).heading
    for name, title, column, label in (
        ("throughput", "Throughput per device over batch size", SPEED, f"{unit}/s per device"),
        ("efficiency", "Work per energy over batch size", EFFICIENCY, heading),
    ):
        for chart, group, _ in _alike(frame, name, title, column):
            best = _best(group, column, "system", "devices", "global_batch")
            if len(best) > 1:
                yield series(best, BATCH, Axis(column, label), chart, styles, panels=devices_text)
    yield from speed_against_energy(frame, unit, styles)
    yield from _heat_maps(frame, Axis(TOTAL, f"{unit}/s"))


def _heat_maps(frame: DataFrame, total: Axis) -> Iterator[Chart]:
    """Yield the throughput of each system over devices and batch, and where its runs failed."""
    import pandas

    for number, system in enumerate(dict.fromkeys(frame["system"])):
        own = frame[frame["system"] == system]
        for chart, group, _ in _alike(own, f"heat_map_{number}", f"{system}: throughput", TOTAL):
            best = _best(group, TOTAL, "devices", "global_batch")
            # A run that failed early states no precision.
            failed = own[own[TOTAL].isna() & own["precision"].fillna("").isin([*group["precision"], ""])]
            cells = pandas.concat([best, failed]).drop_duplicates(["devices", "global_batch"])
            if cells["devices"].nunique() > 1 and cells["global_batch"].nunique() > 1:
                yield heat_map(cells, BATCH, DEVICES, total, chart)


def speed_against_energy(frame: DataFrame, unit: str, styles: Styles) -> Iterator[Chart]:
    """Yield the energy of a million units over the speed of a device, with limits of power and clock that differ.

    Estimated energies have no front.
    """
    title = "Speed against energy, right and down is better"
    across, upwards = Axis(SPEED, f"{unit}/s per device"), Axis("energy_each", f"Wh per million {unit}")
    for chart, group, words in _alike(frame, "pareto", title, SPEED, EFFICIENCY):
        is_estimate = "ESTIMATED" in words
        energy = group.assign(energy_each=1e6 / group[EFFICIENCY].astype(float), hollow=is_estimate)
        for end, of_inverse in (("low", "high"), ("high", "low")):
            if f"{EFFICIENCY}_{of_inverse}" in group:
                energy[f"energy_each_{end}"] = 1e6 / group[f"{EFFICIENCY}_{of_inverse}"]
        places = zip(energy[SPEED].astype(float), energy.energy_each, strict=True)
        front = [] if is_estimate else pareto(places, less_is_better=True)
        labels = "limits" if energy.limits.nunique() > 1 else ""
        yield series(energy, across, upwards, chart, styles, look=DOTS, labels=labels, front=front)


def _scaling(frame: DataFrame, styles: Styles) -> Iterator[Chart]:
    """Yield throughput per device relative to the fewest devices, at the best batch of each number of devices."""
    title = "Scaling: throughput per device, relative to the fewest devices"
    for chart, group, _ in _alike(frame, "scaling", title, SPEED):
        best = _best(group, SPEED, "system", "devices")
        best = best[best.groupby("system")["devices"].transform("nunique") > 1]
        if not best.empty:
            speeds = best[SPEED].astype(float)
            shares = best.assign(share=100 * speeds / speeds.groupby(best["system"]).transform("first"))
            share = Axis("share", "scaling efficiency [%]")
            yield series(shares, DEVICES, share, chart, styles, limits={"": 100.0})


def _regions(results: Sequence[PointResults]) -> Iterator[Chart]:
    """Yield the step time by region: a stacked bar for each point and kind of window."""
    import pandas

    rows, texts = [], []
    every = [(point, *item) for point in results for item in regions_of(point.good).items()]
    places = Counter((point.system, point.point.place, window) for point, window, _ in every)
    for point, window, steps in every:
        step_s = steps.step_s or 0.0
        time = f"{rounded(1e3 * step_s)} ms" if step_s < 1 else f"{rounded(step_s)} s"
        through = "through the input path" if window != WINDOWS[0] else ""
        options = point.variant if places[point.system, point.point.place, window] > 1 else ()
        name = ", ".join(filter(None, [point.system, point.point.place, time, through, *options]))
        shares = {part: region.share_percent for part, region in steps.regions.items()}
        rows += [{"name": name, "part": part, "value": share} for part, share in shares.items()]
        texts.append(f"{name}: " + ", ".join(f"{part} {share:.0f} %" for part, share in shares.items()))
    if rows:
        frame = pandas.DataFrame(rows)
        names = dict.fromkeys([*(name for name in ORDER if name in set(frame["part"])), *frame["part"]])
        parts = {part: REGION_COLOURS.get(part, GREY if part == OTHER else COLOURS[3]) for part in names}
        yield bars(frame, "share of the step time [%]", ("regions", "Step time by region"), parts, "; ".join(texts))


def _served(frame: DataFrame, results: Sequence[PointResults], styles: Styles) -> Iterator[Chart]:
    """Yield throughput and energy against the speed of one user, and TTFT under load with its limit."""
    load = "global_batch"
    frame = frame.sort_values(load)
    late = ", hollow beyond their limits" if frame.late.any() else ""
    title = f"Throughput against speed per user, by requests in flight{late}"
    axes = Axis("per_user", "tokens/s per user (1 / median TPOT)"), Axis(SPEED, "output tokens/s per device")
    for chart, group, _ in _alike(frame, "serving_pareto", title, "per_user", SPEED):
        front = pareto(zip(group["per_user"].astype(float), group[SPEED].astype(float), strict=True))
        drawn = group.assign(hollow=group.late)
        yield series(drawn, *axes, chart, styles, "setup", look=DOTS, labels=load, front=front)
    title = "Energy per token against TPOT, by requests in flight"
    axes = Axis("tpot_p50", "TPOT, median [s]"), Axis("j_per_output_token", "J per output token", "factors")
    for chart, group, _ in _alike(frame, "serving_energy", title, "tpot_p50", "j_per_output_token"):
        yield series(group, *axes, chart, styles, "setup", look=DOTS, labels=load)
    slos = {(value_at(p.any, "serving.slo"), value_at(p.any, "metrics.slo_ttft_s")) for p in results if p.good}
    limits = {f"limit of {slo}": limit_s for slo, limit_s in sorted(slos, key=str) if slo and limit_s}
    axes = Axis(load, "requests in flight", "doublings"), Axis("ttft_p99", "TTFT, 99th percentile [s]", "factors")
    for chart, group, _ in _alike(frame, "serving_limit", "Time to the first token under load", "ttft_p99"):
        yield series(group, *axes, chart, styles, "setup", limits=limits)


def powers(results: Sequence[PointResults]) -> Iterator[Chart]:
    """Yield the power over time of the first run at each system's fastest point, where it has a trace."""
    for number, system in enumerate(dict.fromkeys(point.system for point in results)):
        if best := fastest(point for point in results if point.system == system):
            title = f"Power over time: {system}, {best.point.place}"
            yield from _power_over_time(best.good[0], (f"power_{number}", title))


def _power_over_time(record: Record, chart: tuple[str, str]) -> Iterator[Chart]:
    """Yield the power of the channels that count, summed over each node, with the measured windows shaded."""
    import numpy as np
    import pandas

    used = {(channel.hostname, channel.name) for channel in value_at(record, "energy.channels") or []}
    rows: list[dict[str, Any]] = []
    spans: list[tuple[float, float, str]] = []
    for trace in _traces_of(record):
        windows = [window for window in record.windows if window.boot_id == trace.meta.get("boot_id")]
        hosts = sorted({window.hostname for window in windows})
        channels = [one for one in trace.series() if any((host, one.info.name) in used for host in hosts)]
        if not windows or not channels or not all(any(map(math.isfinite, one.power_w)) for one in channels):
            continue
        start_s = min(window.start_s for window in windows)
        times_s = np.asarray(channels[0].times_s)
        total_w = np.zeros(len(times_s))
        for one in channels:
            power_w = np.asarray(one.power_w, dtype=float)
            known = np.isfinite(power_w)
            total_w += np.interp(times_s, np.asarray(one.times_s)[known], power_w[known])
        step = max(1, len(times_s) // MOST_ROWS)
        spans = spans or [(one.start_s - start_s, one.end_s - start_s, COLOURS[2]) for one in windows]
        pairs = zip(times_s[::step] - start_s, total_w[::step], strict=True)
        rows += [{"system": ", ".join(hosts), "time_s": time_s, "power_w": power_w} for time_s, power_w in pairs]
    if rows:
        average = rounded(value_at(record, "energy.avg_power_w"))
        words = f"The measured window is shaded: {average} W on average, all nodes together."
        time = Axis("time_s", "time from the start of the measured window [s]", "free")
        power = Axis("power_w", "power of the node's channels [W]")
        look = {"marker": "", "linestyle": "-", "linewidth": 0.8}
        yield series(pandas.DataFrame(rows), time, power, chart, {}, look=look, spans=spans, words=words)


def _traces_of(record: Record) -> Iterator[Trace]:
    """Yield the traces of a run, one at a time."""
    from jpwr.trace.writers import read_trace

    for path in sorted(Path(record.file.path).parent.glob(TRACES)) if record.file else []:
        with suppress(JpwrError, OSError):
            yield read_trace(path)


def over_days(points: Sequence[Sequence[Record]]) -> Chart:
    """Return the throughput per device of each point's good runs over time, a panel for each point."""
    import pandas

    first_s = min(created_s(run) for runs in points for run in runs)
    rows = []
    for runs in points:
        first = runs[0]
        about = {"system": first.system, "name": f"{first.system}, {point_of(first)}, {', '.join(choices_of(first))}"}
        good = [run for run in runs if run.is_good]
        days = [(created_s(run) - first_s) / 86400 for run in good]
        rows += [{**about, "day": day, "speed": value_at(run, PER_DEVICE)} for day, run in zip(days, good, strict=True)]
    axes = Axis("day", "days after the first run", "free"), Axis("speed", "work/s per device", "free")
    frame, chart = pandas.DataFrame(rows), ("history", "Throughput per device over time")
    return series(frame, *axes, chart, {}, panels=str, of_panels="name", words="One panel for each point.")
