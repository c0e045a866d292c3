"""Plots over the global batch size, one line per system, model and number of devices."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

from results.records import Record
from results.table import name, sort_key, value_at


class Plot(NamedTuple):
    """What is plotted over the global batch size."""

    name: str  # of the file
    title: str
    y_label: str
    path: str


PLOTS = (
    Plot("throughput", "Throughput", "{unit}/s", "metrics.{unit}_per_s"),
    Plot("efficiency", "Work per energy", "{unit}/Wh", "energy.{unit}_per_wh"),
)
# Okabe and Ito's colours, which people with any kind of colour vision tell apart, and a marker beside each.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vP*"

Points = dict[str, list[tuple[int, float]]]


def lines(records: Sequence[Record], path: str) -> Points:
    """For each line's label its points (global batch size, value); only good runs, estimates labelled."""
    found: Points = {}
    for record in sorted(records, key=sort_key):
        value, batch = value_at(record, path), value_at(record, "layout.global_batch_size")
        if record["status"] != "ok" or value is None or batch is None:
            continue
        label = name(record)
        if path.startswith("energy.") and value_at(record, "energy.power_kind") == "estimated":
            label += " (ESTIMATED power)"
        found.setdefault(label, []).append((batch, value))
    return found


def draw(plot: Plot, records: Sequence[Record], format: str) -> bytes:
    """The plot of records that share a work unit, as the bytes of a file of that format ("png", "svg")."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, ScalarFormatter

    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    found = lines(records, plot.path)
    for index, (label, points) in enumerate(found.items()):
        batches, values = zip(*points, strict=True)
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        axes.plot(batches, values, label=label, color=colour, marker=marker)
    unit = records[0]["work_unit"] if records else ""
    axes.set_title(plot.title)
    axes.set_xlabel("global batch size")
    axes.set_ylabel(plot.y_label.format(unit=unit))
    if found:
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted({batch for points in found.values() for batch, _ in points}))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.set_ylim(0, 1.1 * max(value for points in found.values() for _, value in points))
        axes.yaxis.set_major_formatter(EngFormatter())
        axes.legend(frameon=False)
    else:
        axes.text(0.5, 0.5, "no run has this value", ha="center", va="center", transform=axes.transAxes)
    axes.grid(alpha=0.3)
    file = io.BytesIO()
    figure.savefig(file, format=format)
    return file.getvalue()
