"""Charts of the cost of training: systems side by side."""

from __future__ import annotations

from collections.abc import Sequence

from record.values import rounded
from results.points.repeats import PointResults
from results.show.plots.style import FULL, INK, PALE, Chart, Styles, new_figure, styled
from results.verdicts.cost import Cheapest, Costs, cheapest, costed_work


@styled
def cost_charts(results: Sequence[PointResults], costs: Costs, styles: Styles) -> list[Chart]:
    """Return a chart of total costs for each precision and kind of energy; empty without a system that has a price."""
    words = costed_work(results[0]).words
    charts = []
    for index, (kind, found) in enumerate(cheapest(results, costs).items()):
        chart = _side_by_side(found, f"{costs.currency} for {words}", costs, styles)
        name = f"{chart.name}_{index}" if index else chart.name
        charts.append(chart._replace(name=name, title=f"{chart.title}, {kind}"))
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
