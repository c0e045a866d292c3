"""Charts of the cost of training: systems side by side, and the sensitivity to each assumption."""

from __future__ import annotations

from collections.abc import Sequence

from results.points.repeats import PointResults
from results.record.values import rounded
from results.show.plots.style import COLOURS, FULL, INK, PALE, Chart, Styles, new_figure, styled
from results.verdicts.cost import ASSUMPTIONS, SENSITIVITY, Cheapest, Costs, cheapest, costed_work, sensitivity


@styled
def cost_charts(results: Sequence[PointResults], costs: Costs, styles: Styles) -> list[Chart]:
    """Return a chart of total costs and one of their sensitivity for each precision and kind of energy.

    Empty without a system that has a price.
    """
    words = costed_work(results[0]).words
    charts = []
    for index, (kind, found) in enumerate(cheapest(results, costs).items()):
        both = (_side_by_side(found, f"{costs.currency} for {words}", costs, styles), _sensitivity(found, costs))
        names = [f"{chart.name}_{index}" if index else chart.name for chart in both]
        charts += [
            chart._replace(name=name, title=f"{chart.title}, {kind}") for chart, name in zip(both, names, strict=True)
        ]
    return charts


def _side_by_side(found: Cheapest, label: str, costs: Costs, styles: Styles) -> Chart:
    figure, [axes] = new_figure((5.6, 1.3 + 0.5 * len(found)))
    machine = [at.machine for _, at in found.values()]
    colours = [styles[system]["color"] for system in found]
    electricity = [at.electricity for _, at in found.values()]
    for title, values, left, share in (("machine", machine, None, FULL), ("electricity", electricity, machine, PALE)):
        axes.barh(list(found), values, 0.6, left, color=colours, alpha=share)
        axes.barh([0], [0], color=INK, alpha=share, label=title)
    for system, (_, at) in found.items():
        if interval := at.estimate and at.estimate.interval:
            axes.plot(interval, [system] * 2, color=INK, linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.grid(axis="y", visible=False)
    figure.legend(loc="outside upper right", ncols=2)
    text = "; ".join(f"{system}: {rounded(at.total)} {costs.currency}" for system, (_, at) in found.items())
    return Chart("cost", "Total cost of ownership", text, figure)


def _sensitivity(found: Cheapest, costs: Costs) -> Chart:
    """Draw how the total of each system changes if one assumption is lower or higher by the share SENSITIVITY."""
    figure, all_axes = new_figure((5.6, 0.7 + 1.35 * len(found)), rows=len(found))
    texts: list[str] = []
    for axes, (system, (one, _)) in zip(all_axes, found.items(), strict=True):
        for index, (name, ends) in enumerate(sensitivity(one, costs).items()):
            for end, share, colour in zip(ends, (-SENSITIVITY, SENSITIVITY), (COLOURS[5], COLOURS[1]), strict=True):
                label = None if index or texts else f"assumption {share:+.0%}"
                axes.barh(index, 100 * end, 0.6, color=colour, label=label)
            texts.append(f"{system}, {name}: {100 * ends[0]:+.0f} % to {100 * ends[1]:+.0f} %")
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_yticks(range(len(ASSUMPTIONS)), list(ASSUMPTIONS.values()), fontsize=7)
        axes.invert_yaxis()
        axes.set_title(system, fontsize=9)
        axes.grid(axis="y", visible=False)
    all_axes[-1].set_xlabel("change of the cost [%]")
    figure.legend(loc="outside upper right", ncols=2)
    return Chart("sensitivity", "How much the cost depends on each assumption", "; ".join(texts), figure)
