"""Charts of the original suite's published figures."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from results.record.values import devices_text, rounded
from results.reference.published import PUBLISHERS, Published, throughputs
from results.show.plots.style import COLOURS, Chart, new_figure, styled
from results.show.plots.sweep import draw_heat_map, short


@styled
def published_heat_maps(benchmark: str, model: str, unit: str) -> Chart:
    """Draw the published throughputs of a workload over devices and batch, a panel for each system."""
    # Other publishers give one batch size for each system, which would be a map of one cell.
    found = [one for one in throughputs(benchmark, model) if one.figure.benchmark not in PUBLISHERS]
    systems = list(dict.fromkeys(one.system for one in found))
    columns = 2
    rows = -(-len(systems) // columns)
    figure, all_axes = new_figure((10, 1.9 * rows), rows, columns)
    for axes, system in itertools.zip_longest(all_axes, systems):
        if system is None:
            axes.set_axis_off()
            continue
        cells: dict[tuple[int, int], float | str] = {
            (one.devices, one.global_batch): one.units_per_s for one in found if one.system == system
        }
        devices, batches = (sorted({place[axis] for place in cells}) for axis in (0, 1))
        draw_heat_map(axes, cells, devices, batches)
        accelerator = next(one.figure.accelerator for one in found if one.system == system)
        axes.set_title(f"{system}: {accelerator}", fontsize=9)
    figure.suptitle(f"Published throughput [{unit}/s], {benchmark}, {model}")
    words = "; ".join(
        f"{one.system}, {devices_text(one.devices)}, batch {one.global_batch}: {rounded(one.units_per_s)}"
        for one in found
    )
    return Chart("published_heat_maps", "Published throughput over devices and batch size", words, figure)


@styled
def published_bars(figures: Sequence[Published]) -> Chart:
    """Draw the published tokens/s and Wh per device of the 800M GPT over the batch size, a bar for each system."""
    metrics = {
        "throughput_per_gpu": "tokens/s per device",
        "energy_per_gpu": "Wh per device of a run, length not stated",
    }
    figure, all_axes = new_figure((10, 6), rows=len(metrics))
    words = []
    for axes, (metric, label) in zip(all_axes, metrics.items(), strict=True):
        chosen = [one for one in figures if one.model == "GPT-800M" and one.metric == metric and one.global_batch_size]
        names = list(dict.fromkeys((one.system, one.devices) for one in chosen))
        batches = sorted({int(one.global_batch_size) for one in chosen})
        width = 0.85 / len(names)
        for index, name in enumerate(names):
            mine = {int(one.global_batch_size): float(one.value) for one in chosen if (one.system, one.devices) == name}
            places = [batches.index(batch) - 0.425 + (index + 0.5) * width for batch in mine]
            title = f"{name[0]}, {devices_text(int(name[1]))}" if axes is all_axes[0] else None
            bars = axes.bar(places, list(mine.values()), 0.92 * width, color=COLOURS[index % len(COLOURS)], label=title)
            axes.bar_label(bars, [short(value) for value in mine.values()], rotation=90, fontsize=6, padding=2)
            words += [
                f"{name[0]}, {name[1]} devices, batch {batch}: {value:g} {label}" for batch, value in mine.items()
            ]
        axes.margins(y=0.18)
        axes.set_xticks(range(len(batches)), [str(batch) for batch in batches])
        axes.set_ylabel(label, fontsize=8)
        axes.grid(axis="x", visible=False)
    all_axes[-1].set_xlabel("global batch size")
    figure.legend(loc="outside upper center", ncols=3, title="Published: GPT training, 800M")
    return Chart("published_bars", "Published GPT training, 800M", "; ".join(words), figure)
