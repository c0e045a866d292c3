"""The charts of a workload: of its points, as frames of which each has what is alike, and of single runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from record.values import devices_text, rounded, value_at
from results.files.quantities import QUANTITIES
from results.frames import alike, points_frame
from results.points.regions import ORDER, OTHER, TIMED_BY, WINDOWS, regions_of, timed_by
from results.points.repeats import PointResults
from results.show.plots.charts import Axis, bars, dots, heat_map, lines, pareto
from results.show.plots.runs import powers
from results.show.plots.style import COLOURS, GREY, Chart, Styles

if TYPE_CHECKING:
    from pandas import DataFrame

SPEED, EFFICIENCY, TOTAL = "work_per_s_per_device", "work_per_wh", "work_per_s"
ENDS = (("low", "high"), ("high", "low"))  # of an inverse
BATCH = Axis("global_batch", "global batch size", "doublings")
DEVICES = Axis("devices", "devices", "doublings")
REGION_COLOURS = dict(zip(ORDER, (COLOURS[4], COLOURS[5], COLOURS[0], COLOURS[0], COLOURS[1], COLOURS[2]), strict=True))
OF_CHARTS = (TOTAL, "per_user", "tpot_p50", "ttft_p99", "j_per_output_token")  # besides those of every point


def charts_of(results: Sequence[PointResults], styles: Styles) -> list[Chart]:
    """Return the charts of a workload; none that would have a single point."""
    unit = str(results[0].any.work_unit)
    frame = frame_of(results)
    served = any(point.any.serving for point in results if point.good)
    of_points = [*_served(frame, results, styles)] if served else [*_trained(frame, unit, styles)]
    return [
        *of_points,
        *_scaling(frame, styles),
        *_regions(results),
        *([] if served else _heat_maps(frame, unit)),
        *powers(results),
    ]


def frame_of(results: Sequence[PointResults]) -> DataFrame:
    """Return the frame of points with their places in words, and the states of those that failed."""
    states = ["OOM" if any(run.status == "out_of_memory" for run in point.bad) else "failed" for point in results]
    numbers = {name: [getattr(point.point, name) for point in results] for name in ("devices", "global_batch")}
    return points_frame(results, (*OF_CHARTS, "copies")).assign(
        place=[point.point.place for point in results],
        failed=states,
        keeps=[point.keeps_limits for point in results],
        limits=[str(point.limits) for point in results],
        **numbers,
    )


def _best(frame: DataFrame, value: str, *keys: str) -> DataFrame:
    """Return the row with the highest value of each place, in the order of the places."""
    return frame.sort_values(value, ascending=False, kind="stable").drop_duplicates(list(keys)).sort_values(list(keys))


def _named(name: str, title: str, number: int, words: str) -> tuple[str, str]:
    return f"{name}_{number}" if number else name, f"{title}: {words}" if words else title


def _trained(frame: DataFrame, unit: str, styles: Styles) -> Iterator[Chart]:
    heading = QUANTITIES[EFFICIENCY].of(unit).heading
    for name, title, column, label in (
        ("throughput", "Throughput per device over batch size", SPEED, f"{unit}/s per device"),
        ("efficiency", "Work per energy over batch size", EFFICIENCY, heading),
    ):
        for number, (words, group) in enumerate(alike(frame, column)):
            best = _best(group, column, "system", "devices", "global_batch")
            if len(best) > 1:
                chart = _named(name, title, number, words)
                yield lines(best, BATCH, Axis(column, label), chart, styles, panels=devices_text)
    yield from speed_against_energy(frame, unit, styles)


def speed_against_energy(frame: DataFrame, unit: str, styles: Styles) -> Iterator[Chart]:
    """Yield the energy of a million units over the speed of a device, with limits of power and clock that differ.

    Estimated energies have no front.
    """
    for number, (words, group) in enumerate(alike(frame, SPEED, EFFICIENCY)):
        known = [(end, f"{EFFICIENCY}_{other}") for end, other in ENDS if f"{EFFICIENCY}_{other}" in group]
        intervals = {f"energy_each_{end}": 1e6 / group[column] for end, column in known}
        energy = group.assign(energy_each=1e6 / group[EFFICIENCY].astype(float), **intervals)
        places = zip(energy[SPEED].astype(float), energy.energy_each, strict=True)
        labels = "limits" if energy.limits.nunique() > 1 else ""
        front = [] if "ESTIMATED" in words else pareto(places, less_is_better=True)
        ends = " to ".join(
            dict.fromkeys(f"{rounded(x)} {unit}/s at {rounded(y)} Wh" for x, y in front[:: len(front) - 1 or 1])
        )
        texts = f"{len(group)} points" + (f"; the Pareto front is {ends}" if front else "")
        chart = _named("pareto", "Speed against energy, right and down is better", number, words)
        across, upwards = Axis(SPEED, f"{unit}/s per device"), Axis("energy_each", f"Wh per million {unit}")
        hollow = [not front] * len(energy)
        yield dots(energy, across, upwards, chart, styles, labels=labels, hollow=hollow, front=front, words=texts)


def _scaling(frame: DataFrame, styles: Styles) -> Iterator[Chart]:
    """Yield throughput per device relative to the fewest devices, at the best batch of each number of devices."""
    for number, (words, group) in enumerate(alike(frame, SPEED)):
        best = _best(group, SPEED, "system", "devices")
        best = best[best.groupby("system")["devices"].transform("nunique") > 1]
        if best.empty:
            continue
        speeds = best[SPEED].astype(float)
        shares = best.assign(share=100 * speeds / speeds.groupby(best["system"]).transform("first"))
        chart = _named("scaling", "Scaling: throughput per device, relative to the fewest devices", number, words)
        share = Axis("share", "scaling efficiency [%]")
        yield lines(shares, DEVICES, share, chart, styles, limits={"": 100.0})


def _heat_maps(frame: DataFrame, unit: str) -> Iterator[Chart]:
    """Yield the throughput of each system over devices and batch, and where its runs failed."""
    kinds = list(alike(frame, TOTAL))
    for number, system in enumerate(dict.fromkeys(frame["system"])):
        failed = frame[(frame["system"] == system) & frame[TOTAL].isna()] if TOTAL in frame else frame[:0]
        for kind, (words, group) in enumerate(kinds):
            best = _best(group[group["system"] == system], TOTAL, "devices", "global_batch")
            if best.empty:
                continue
            import pandas

            cells = pandas.concat([best, failed]).drop_duplicates(["devices", "global_batch"])
            if len(cells) > 1:
                title = f"{system}, {words}" if len(kinds) > 1 and words else system
                chart = (f"heat_map_{number}" + (f"_{kind}" if kind else ""), f"{title}: throughput")
                yield heat_map(cells, BATCH, DEVICES, TOTAL, chart, f"{unit}/s")


def _regions(results: Sequence[PointResults]) -> Iterator[Chart]:
    """Yield the step time by region: a stacked bar for each point and kind of window."""
    import pandas

    rows, ends, texts, split = [], [], [], False
    every = [(point, *item) for point in results for item in regions_of(point.good).items()]
    places = Counter((point.system, point.point.place, window) for point, window, _ in every)
    for point, window, steps in every:
        through = "through the input path" if window != WINDOWS[0] else ""
        options = point.variant if places[point.system, point.point.place, window] > 1 else ()
        name = ", ".join(filter(None, [point.system, point.point.place, through, *options]))
        split |= steps.in_parts.number("longer_percent") is not None
        for part, region in steps.regions.items():
            is_split = timed_by(region, steps) == TIMED_BY["in parts"]
            rows.append({"name": name, "part": part, "value": region.share_percent, "hatched": is_split})
        step_s = steps.step_s or 0.0
        ends.append(f"{rounded(1e3 * step_s)} ms" if step_s < 1 else f"{rounded(step_s)} s")
        shares = [f"{part} {region.share_percent:.0f} %" for part, region in steps.regions.items()]
        texts.append(f"{name}: {', '.join(shares)}")
    if not rows:
        return
    frame = pandas.DataFrame(rows)
    names = dict.fromkeys([*(name for name in ORDER if name in set(frame["part"])), *frame["part"]])
    parts = {part: REGION_COLOURS.get(part, GREY if part == OTHER else COLOURS[3]) for part in names}
    words = "; ".join(texts) + ". Hatched: measured in split steps." * split
    chart = ("regions", "Step time by region")
    yield bars(frame, "share of the step time [%]", chart, parts, ends, words)


def _served(frame: DataFrame, results: Sequence[PointResults], styles: Styles) -> Iterator[Chart]:
    """Yield throughput and energy against the speed of one user, and TTFT under load with its limit."""
    load = "global_batch"
    frame = frame.assign(setup=[", ".join([p.system, *p.variant]) for p in results]).sort_values(load)
    for number, (kind, group) in enumerate(alike(frame, "per_user", SPEED)):
        places = zip(group["per_user"].astype(float), group[SPEED].astype(float), strict=True)
        hollow = [keeps is False for keeps in group["keeps"]]
        late = ", hollow beyond their limits" if any(hollow) else ""
        title = f"Throughput against speed per user, by requests in flight{late}"
        chart = _named("serving_pareto", title, number, kind)
        axes = Axis("per_user", "tokens/s per user (1 / median TPOT)"), Axis(SPEED, "output tokens/s per device")
        yield dots(group, *axes, chart, styles, "setup", load, hollow, pareto(places))
    for number, (kind, group) in enumerate(alike(frame, "tpot_p50", "j_per_output_token")):
        chart = _named("serving_energy", "Energy per token against TPOT, by requests in flight", number, kind)
        axes = Axis("tpot_p50", "TPOT, median [s]"), Axis("j_per_output_token", "J per output token", "factors")
        yield dots(group, *axes, chart, styles, "setup", load)
    for number, (kind, group) in enumerate(alike(frame, "ttft_p99")):
        chart = _named("serving_limit", "Time to the first token under load", number, kind)
        limits = {(value_at(p.any, "serving.slo"), value_at(p.any, "metrics.slo_ttft_s")) for p in results if p.good}
        known = {f"limit of {slo}": limit_s for slo, limit_s in sorted(limits, key=str) if slo and limit_s}
        axes = Axis(load, "requests in flight", "doublings"), Axis("ttft_p99", "TTFT, 99th percentile [s]", "factors")
        yield lines(group, *axes, chart, styles, "setup", limits=known)
