"""Charts of file reads: bandwidth over time with the windows, and sizes of reads."""

from __future__ import annotations

from collections.abc import Sequence

from ioprof.counts import SIZE_CLASSES
from ioprof.summary import MB, size
from results.find.records import Record
from results.points.repeats import PointResults, point_of
from results.show.plots.style import COLOURS, Chart, new_figure, styled
from results.show.tables.reads import counted

WINDOW_COLOURS = {"measured": COLOURS[2], "effective": COLOURS[4]}
MOST_NODES = 6  # lines in a plot


@styled
def bandwidth_over_time(results: Sequence[PointResults]) -> Chart | None:
    """Draw the read bandwidth of each node in the first run that recorded it; None without one. Windows are shaded."""
    record = _first(results)
    if record is None:
        return None
    nodes = [one for one in record.io.over_time if one.part_s > 0][:MOST_NODES]
    windows = [window for window in record.windows if nodes and window.boot_id == nodes[0].boot_id]
    if not nodes or not windows:
        return None
    start_s = min(window.start_s for window in windows)
    figure, [axes] = new_figure()
    for index, node in enumerate(nodes):
        rates = [one / MB / node.part_s for one in node.bytes]
        edges_s = [node.begin_s - start_s + at * node.part_s for at in range(len(rates) + 1)]
        axes.stairs(rates, edges_s, color=COLOURS[index % len(COLOURS)], lw=0.9, label=node.hostname)
    labels = set()
    for window in windows:
        kind = window.kind
        label = None if kind in labels else f"{kind} window"
        labels.add(kind)
        colour = WINDOW_COLOURS.get(kind, COLOURS[3])
        axes.axvspan(window.start_s - start_s, window.end_s - start_s, color=colour, alpha=0.15, lw=0, label=label)
    axes.set_xlabel("time from the start of the first window [s]")
    axes.set_ylabel("read [MB/s]")
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside upper center", ncols=3)
    by_window = [f"{kind} window {size(one.bytes)}" for kind, one in record.io.windows.items()]
    words = f"{_where(record)}: {size(record.io.job.bytes)} in the whole job; {', '.join(by_window)}."
    return Chart("bandwidth", "Read bandwidth over time", words, figure)


@styled
def sizes_of_reads(results: Sequence[PointResults]) -> Chart | None:
    """Draw how many bytes each read in the measured windows returned; None if no run recorded its reads."""
    record = _first(results)
    counts = record.io.data.reads_by_size if record else {}
    whole = sum(counts.values())
    if record is None or not whole:
        return None
    shares = [100 * counts.get(name, 0) / whole for name in SIZE_CLASSES]
    figure, [axes] = new_figure()
    axes.bar(range(len(shares)), shares, color=COLOURS[0], width=0.8)
    for at, share in enumerate(shares):
        if share:
            axes.text(at, share, f"{share:.0f}" if share >= 1 else "<1", ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(shares)), [name.replace("-", " to\n") for name in SIZE_CLASSES], fontsize=7)
    axes.set_xlabel("bytes that a read returned")
    axes.set_ylabel("reads [%]")
    axes.grid(axis="x", visible=False)
    shares_text = ", ".join(
        f"{share:.0f} % {name}" for share, name in zip(shares, SIZE_CLASSES, strict=True) if share >= 1
    )
    words = f"{_where(record)}: {whole:,} reads in the measured windows; {shares_text} bytes."
    return Chart("read_sizes", "Sizes of reads", words, figure)


def _first(results: Sequence[PointResults]) -> Record | None:
    return next((one.good[0] for one in counted(results)), None)


def _where(record: Record) -> str:
    return f"{record.system}, {point_of(record).place}"
