"""Costs as a table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from results.files.quantities import QUANTITIES, Quantity, quantities
from results.points.operating import limits_of
from results.points.repeats import PointResults
from results.show.tables.cells import Amount, Cell, Table
from results.show.tables.doubts import alike
from results.verdicts.cost import Costs, cheapest, costed_work, crossings, why_not_costed


def cost_table(sections: Sequence[Sequence[PointResults]], costs: Costs) -> Table:
    """Return a row for each system at its cheapest point, then the systems without a cost."""
    total, *parts = (QUANTITIES[name]._replace(unit=costs.currency) for name in ("total", "machine", "electricity"))
    columns = quantities("workload", "system", "precision", "energy is", "at", "for", total, "95 % interval", *parts)
    columns += quantities("energy [kWh]", "CO₂")
    body: list[list[Cell]] = []
    for results in sections:
        costed = set()
        is_swept = len({limits_of(point.any) for point in results if point.good}) > 1
        for kind, best in cheapest(results, costs).items():
            for system, (one, at) in best.items():
                costed.add((system, kind.precision))
                interval = at.estimate.interval if at.estimate else None
                body.append(
                    [
                        *(one.point.model, system, *kind),
                        [one.point.place, *([str(limits_of(one.any))] if is_swept else [])],
                        costed_work(one).words,
                        Amount(at.total, interval.half if interval else None),
                        interval,
                        Amount(at.machine),
                        *map(Amount, (at.electricity, at.energy_kwh, at.co2_kg)),
                    ]
                )
        for system, precision, mine in _by_system_and_precision(results):
            if (system, precision) not in costed:
                reasons = alike([why_not_costed(one, costs) for one in [one for one in mine if one.good] or mine])
                row = [results[0].point.model, system, _precision_text(precision, mine), "", "; ".join(reasons)]
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
                now = Amount(costs.systems[one.system].price_per_device)
                price = Amount(one.price) if one.price > 0 else "no price: its electricity costs more"
                rows.append([results[0].point.model, *kind, one.system, now, price, one.against])
    return Table(columns, rows)


def _by_system_and_precision(
    results: Sequence[PointResults],
) -> Iterator[tuple[str, str, list[PointResults]]]:
    """Yield (system, precision, points); failed runs without a precision are with the system's first one."""
    for system in dict.fromkeys(one.system for one in results):
        of_system = [one for one in results if one.system == system]
        precisions = list(dict.fromkeys(one.precision for one in of_system if one.precision or one.good)) or [""]
        failed, *_ = precisions
        for precision in precisions:
            mine = [one for one in of_system if precision == (one.precision or ("" if one.good else failed))]
            yield system, precision, mine


def _precision_text(precision: str, results: Sequence[PointResults]) -> str:
    """Return the precision for a table; "not known" if it is missing although a run is good."""
    return precision or ("not known" if any(one.good for one in results) else "")
