"""Costs as a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from record.values import grouped
from results.files.quantities import QUANTITIES, Quantity, quantities
from results.files.workloads import facts_about
from results.points.repeats import PointResults
from results.show.tables.cells import Cell, Table
from results.show.tables.doubts import alike
from results.verdicts.cost import Costs, cheapest, cost_of, crossings


def cost_table(sections: Sequence[Sequence[PointResults]], costs: Costs) -> Table:
    """Return a row for each system at its cheapest point, then the systems without a cost."""
    money = [QUANTITIES[name]._replace(unit=costs.currency) for name in ("total", "machine", "electricity")]
    columns = quantities("workload", "system", "precision", "energy is", "at", "for", *money)
    columns += quantities("energy [kWh]", "CO₂")
    body: list[list[Cell]] = []
    for results in sections:
        model, costed = results[0].point.model, set()
        is_swept = len({point.limits for point in results if point.good}) > 1
        for kind, best in cheapest(results, costs).items():
            for system, (point, cost) in best.items():
                costed.add((system, kind[0]))
                place = [point.point.place, *([str(point.limits)] if is_swept else [])]
                parts = (cost.estimate or cost.total, cost.machine, cost.electricity, cost.energy_kwh, cost.co2_kg)
                body.append([model, system, *kind, place, facts_about(point.point.benchmark).costed.words, *parts])
        groups = grouped(results, lambda point: (point.system, point.precision))
        with_good = {system for (system, _), points in groups.items() if any(point.good for point in points)}
        for (system, precision), points in groups.items():
            good = [point for point in points if point.good]
            if (system, precision) not in costed and (good or system not in with_good):
                reasons = alike(str(cost_of(point, costs)) for point in good or points)
                row = [model, system, precision or "not known" * bool(good), "", "; ".join(reasons)]
                body.append([*row, *[None] * (len(columns) - len(row))])
    return Table(columns, body)


def crossing_table(sections: Sequence[Sequence[PointResults]], costs: Costs, failed: Collection[str] = ()) -> Table:
    """Return the device prices at which another system is the cheapest, without those that fail a requirement."""
    prices = (Quantity(title, costs.currency) for title in ("price per device", "costs the same at"))
    columns = quantities("workload", "precision", "energy is", "system", *prices, "as")
    rows: list[list[Cell]] = []
    for results in sections:
        for kind, best in cheapest([one for one in results if one.system not in failed], costs).items():
            for one in crossings(best, costs):
                now = costs.systems[one.system].price_per_device
                price = one.price if one.price > 0 else "no price: its electricity costs more"
                rows.append([results[0].point.model, *kind, one.system, now, price, one.against])
    return Table(columns, rows)
