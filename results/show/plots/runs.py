"""Charts over time: the power of a run with its windows, and the runs of a machine by their days."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jpwr.errors import JpwrError
from jpwr.trace.trace import Trace
from record.model import Record
from record.values import PER_DEVICE, rounded, value_at
from results.history import Timed
from results.join.nodes import TRACES
from results.points.facts import choices_of, point_of
from results.points.repeats import PointResults
from results.show.plots.charts import Axis, lines
from results.show.plots.style import COLOURS, Chart
from results.verdicts.ranking import fastest

MOST_ROWS = 2000  # of a trace in a chart


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
        series = [one for one in trace.series() if any((host, one.info.name) in used for host in hosts)]
        if not windows or not series or not all(any(map(math.isfinite, one.power_w)) for one in series):
            continue
        start_s = min(window.start_s for window in windows)
        times_s = np.asarray(series[0].times_s)
        total_w = np.zeros(len(times_s))
        for one in series:
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
        yield lines(pandas.DataFrame(rows), time, power, chart, {}, look=look, spans=spans, words=words)


def _traces_of(record: Record) -> Iterator[Trace]:
    """Yield the traces of a run, one at a time."""
    from jpwr.trace.writers import read_trace

    for path in sorted(Path(record.file.path).parent.glob(TRACES)) if record.file else []:
        try:
            yield read_trace(path)
        except (JpwrError, OSError):
            continue


def over_days(series: Sequence[Sequence[Timed]]) -> Chart:
    """Return the throughput per device of each point's good runs over time, a panel for each point."""
    import pandas

    rows = []
    for runs in series:
        first = runs[0].record
        name = f"{first.system}, {point_of(first)}, {', '.join(choices_of(first))}"
        for run in (run for run in runs if run.record.is_good):
            days = (run.time_s - min(run.time_s for runs in series for run in runs)) / 86400
            rows.append({"system": first.system, "name": name, "day": days, "speed": value_at(run.record, PER_DEVICE)})
    axes = Axis("day", "days after the first run", "free"), Axis("speed", "work/s per device", "free")
    chart = ("history", "Throughput per device over time")
    return lines(
        pandas.DataFrame(rows), *axes, chart, {}, panels=str, of_panels="name", words="One panel for each point."
    )
