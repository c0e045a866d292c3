"""Costs as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from results.points.repeats import PointResults
from results.values import rounded
from results.verdicts.cost import Costs, cheapest, costed_work
from results.verdicts.quality import energy_kind


def cost_rows(sections: Sequence[Sequence[PointResults]], costs: Costs) -> list[list[str]]:
    """Each system at its cheapest point; systems without a price are named."""
    money = costs.currency
    header = ["workload", "system", "at", "for", f"total [{money}]", f"machine [{money}]", f"electricity [{money}]"]
    header += ["energy [kWh]", "CO₂ [kg]", "energy is"]
    body = []
    for results in sections:
        found = cheapest(results, costs)
        for system in dict.fromkeys(one.system for one in results):
            if system not in found:
                why = "no price" if system not in costs.systems else "no energy that counts"
                body.append([results[0].point.model, system, why, *[""] * (len(header) - 3)])
                continue
            one, at = found[system]
            body.append(
                [
                    one.point.model,
                    system,
                    one.point.place,
                    costed_work(one).words,
                    *(rounded(value) for value in (at.total, at.machine, at.electricity, at.energy_kwh, at.co2_kg)),
                    energy_kind(one.any) or "",
                ]
            )
    return [header, *body]
