"""Costs as a table."""

from __future__ import annotations

from collections.abc import Sequence

from results.points.operating import limits_of, sweeps_of
from results.points.repeats import PointResults
from results.record.values import rounded
from results.show.tables.accept import interval_text
from results.show.tables.doubts import alike
from results.show.tables.summary import by_system_and_precision, precision_text
from results.verdicts.cost import Costs, cheapest, costed_work, why_not_costed


def cost_rows(sections: Sequence[Sequence[PointResults]], costs: Costs) -> list[list[str]]:
    """Return the header and a row for each system at its cheapest point, then the systems without a cost."""
    money = costs.currency
    header = ["workload", "system", "precision", "energy is", "at", "for", f"total [{money}]", "95 % interval"]
    header += [f"machine [{money}]", f"electricity [{money}]", "energy [kWh]", "CO₂ [kg]"]
    body = []
    for results in sections:
        costed = set()
        is_swept = bool(sweeps_of(results))
        for kind, best in cheapest(results, costs).items():
            for system, (one, at) in best.items():
                costed.add((system, kind.precision))
                interval = at.estimate.interval if at.estimate else None
                body.append(
                    [
                        one.point.model,
                        system,
                        *kind,
                        ", ".join([one.point.place, *([str(limits_of(one.any))] if is_swept else [])]),
                        costed_work(one).words,
                        rounded(at.total, interval.half if interval else None),
                        interval_text(interval),
                        *(rounded(value) for value in (at.machine, at.electricity, at.energy_kwh, at.co2_kg)),
                    ]
                )
        for system, precision, mine in by_system_and_precision(results):
            if (system, precision) not in costed:
                reasons = alike([why_not_costed(one, costs) for one in [one for one in mine if one.good] or mine])
                row = [results[0].point.model, system, precision_text(precision, mine), "", "; ".join(reasons)]
                body.append([*row, *[""] * (len(header) - len(row))])
    return [header, *body]
