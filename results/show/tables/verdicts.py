"""Verdicts as tables, as sentences, and as data for JSON: on requirements, costs, comparisons, and nodes."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from record.findings import joined
from record.values import count, grouped, rounded
from results.files.quantities import QUANTITIES, Quantity, Shown, quantities
from results.files.workloads import facts_about
from results.find.records import Skipped
from results.points.estimate import Estimate, Outcome
from results.points.repeats import PointResults
from results.show.tables.cells import Cell, Table, rendered
from results.show.words import merged, met_words
from results.verdicts.accept import Verdict
from results.verdicts.compare import METRICS, Comparison
from results.verdicts.cost import Costs, cheapest, cost_of, crossings
from results.verdicts.measures import Answer
from results.verdicts.nodes import MATMUL, Kind, NodeVerdict, Subject
from results.verdicts.tender import Decision

MARKS = {Outcome.PASSED: "✓", Outcome.FAILED: "✗", Outcome.UNDECIDED: "?"}
OF_PLEDGE = {Outcome.PASSED: "kept", Outcome.FAILED: "not kept"}


def verdict_table(verdicts: Sequence[Verdict], name: str = "requirement") -> Table:
    """Return a row for each requirement, pledged figure or score, without empty columns.

    The mark of an outcome does not depend on colours.
    """
    columns = quantities("system", name, "outcome", "found", "95 % interval", "at", "why", "doubts")
    rows = [
        [
            *(one.system, str(one.item), f"{MARKS[one.outcome]} {_outcome(one, name)}", _found(one.answer)),
            *(one.answer.interval, one.answer.at, one.reason, joined(one.answer.doubts)),
        ]
        for one in verdicts
    ]
    return Table(columns, rows).filled()


def decision_text(decision: Decision) -> str:
    """Return the tables of requirements and pledge, the points of the score, and the runs that do not count."""
    lines = []
    if judged := [*decision.judged, *decision.scores]:
        lines = [rendered(verdict_table(judged), "text", str.ljust)]
        systems = dict.fromkeys(verdict.system for verdict in judged)
        counts = [(system, met_words(decision.of_system(system))) for system in systems]
        lines += [f"{system} {words}" for system, words in counts if words]
    if decision.pledge:
        lines += [""] if lines else []
        lines.append(f"pledge of {decision.pledge.title}, {decision.pledge.signature}:")
        lines.append(rendered(verdict_table(decision.pledged, "pledge"), "text", str.ljust))
    return "\n".join([*lines, *decision.without_figure, *decision.left_out.values()])


def _outcome(one: Verdict, name: str) -> str:
    return OF_PLEDGE.get(one.outcome, one.outcome.value) if name == "pledge" else one.outcome.value


def _found(answer: Answer) -> str:
    """Return the number with its unit, or the grade; of a score with its points."""
    value, half = answer.value, answer.interval.half if answer.interval else None
    text = rounded(value, half) if isinstance(value, float) else "" if value is None else str(value)
    points = "" if answer.award is None else f"= {rounded(answer.award)} points"
    return " ".join(filter(None, [text, answer.unit, points])) if text else ""


def verdicts_json(decision: Decision, code: int, skipped: Sequence[Skipped] = ()) -> str:
    """Return the verdicts as JSON: numbers with all digits, null if there is none."""
    data: dict[str, Any] = {
        "exit_code": code,
        "requirements": [_as_data(one) for one in decision.judged],
        "missing": [{"systems": one.systems, "reason": str(one)} for one in skipped if one.systems is not None],
        "scores": [_as_data(one) | {"points": one.answer.award} for one in decision.scores],
        "without_figure": decision.without_figure,
        "left_out": list(decision.left_out.values()),
    }
    if decision.pledge:
        about = {name: getattr(decision.pledge, name) for name in ("vendor", "date", "system", "devices", "signature")}
        data["pledge"] = {**about, "items": [_as_data(one, "pledge") for one in decision.pledged]}
    return json.dumps(data, indent=1)


def _as_data(one: Verdict, name: str = "requirement") -> dict[str, Any]:
    item, interval = one.item, one.answer.interval
    return {
        "system": one.system,
        "requirement": str(item),
        "workload": item.of,
        "what": item.what,
        "at_least": item.at_least,
        "at_most": item.at_most,
        "outcome": _outcome(one, name),
        "value": one.answer.value,
        "low": interval.low if interval else None,
        "high": interval.high if interval and math.isfinite(interval.high) else None,
        "unit": one.answer.unit,
        "at": one.answer.at,
        "reason": one.reason,
        "doubts": list(map(str, one.answer.doubts)),
    }


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
                reasons = merged(str(cost_of(point, costs)) for point in good or points)
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


def comparison_text(comparison: Comparison, base: str, other: str) -> str:
    """Return a comparison as text: a line for each point, the geometric means, and the points of one side alone."""
    text = [f"{other} over {base}; above 1 is better"]
    for line in comparison.lines:
        values = [f"{title} {_ratio(ratio)}" for (title, _), ratio in zip(METRICS, line.ratios, strict=True)]
        text.append(f"  {line.point}: {', '.join(values)}")
        text += [f"    {remark}" for remark in line.remarks]
    for index, ((title, _), mean) in enumerate(zip(METRICS, comparison.means(), strict=True)):
        number = sum(1 for line in comparison.lines if line.ratios[index])
        if mean:
            text.append(f"geometric mean of {title} over {count(number, 'point')}: {_ratio(mean)}")
    for side, points in ((base, comparison.only_base), (other, comparison.only_other)):
        text += [f"only {side} has {point}" for point in points]
    if comparison.machines:
        text.append(f"differences: {', '.join(comparison.machines)}")
    text += [f"failed: {one}" for one in comparison.failed]
    return "\n".join(text)


def _ratio(estimate: Estimate | None) -> str:
    return estimate.text if estimate else "-"


def comparison_data(comparison: Comparison, base: str, other: str) -> dict[str, Any]:
    """Return a comparison as data for JSON: numbers with all digits, None if there is none."""
    names = [path.split(".")[0].replace("metrics", "throughput") for _, path in METRICS]
    return {
        "reference": base,
        "other": other,
        "points": [
            {
                **line.point._asdict(),
                **{name: _ratio_data(ratio) for name, ratio in zip(names, line.ratios, strict=True)},
                "remarks": line.remarks,
            }
            for line in comparison.lines
        ],
        "geometric_means": {name: _ratio_data(mean) for name, mean in zip(names, comparison.means(), strict=True)},
        "only_reference": [point._asdict() for point in comparison.only_base],
        "only_other": [point._asdict() for point in comparison.only_other],
        "software": comparison.machines,
        "failed": comparison.failed,
    }


def _ratio_data(estimate: Estimate | None) -> dict[str, float | None] | None:
    if estimate is None:
        return None
    low, high = estimate.interval or (None, None)
    return {"ratio": estimate.value, "low": low, "high": high}


# From the worst outcome to the best.
OF_NODES = {Outcome.FAILED: "slow", Outcome.UNDECIDED: "undecided", Outcome.PASSED: "ok", None: "not compared"}
MARKED = (Outcome.FAILED, Outcome.UNDECIDED)
FIGURES = 6  # that fit a terminal
Unlike = Mapping[Subject, Sequence[str]]  # what differs on a device


def node_table(verdicts: Sequence[NodeVerdict]) -> Table:
    """Return a row for each device, node and all nodes, with a mark at each figure that is not ok.

    Of more than FIGURES figures, only those that are slow or undecided somewhere are needed.
    """
    titles = list(dict.fromkeys(_title(one.kind) for one in verdicts))
    rows: list[list[Cell]] = []
    for subject in dict.fromkeys(one.subject for one in verdicts):
        mine = [one for one in verdicts if one.subject == subject]
        worst = min((one.outcome for one in mine), key=list(OF_NODES).index)
        # Checks with matrices or messages of different sizes share a column.
        cells = [" / ".join(_marked(one) for one in mine if _title(one.kind) == title) for title in titles]
        rows.append([*subject, *cells, f"{MARKS[worst]} {OF_NODES[worst]}" if worst else OF_NODES[worst]])
    marked = {_title(one.kind) for one in verdicts if one.outcome in MARKED}
    hidden = {title for title in titles if title not in marked} if len(titles) > FIGURES else set()
    figures = [Quantity(title, shown=Shown.MORE if title in hidden else Shown.ALWAYS) for title in titles]
    return Table(quantities("system", "node", "device", *figures, "verdict"), rows)


def _title(kind: Kind) -> str:
    of = f" of {kind.ranks}" if kind.ranks > 2 else ""
    return f"{kind.name.removeprefix(MATMUL).replace('_', ' ')}{of} [{kind.unit}]"


def _full_title(kind: Kind) -> str:
    return _title(kind) + (f" of {kind.matrices}" if kind.matrices else "")


def _marked(one: NodeVerdict) -> str:
    return f"{MARKS[one.outcome]} {_value(one)}" if one.outcome in MARKED else _value(one)


def _value(one: NodeVerdict) -> str:
    return rounded(one.value, one.interval.half if one.interval else None)


def node_sentences(verdicts: Sequence[NodeVerdict], unlike: Unlike, missing: Sequence[Kind] = ()) -> list[str]:
    """Return a sentence on each figure that is slow or undecided, with what differs on its device.

    missing: figures that the baseline lacks.
    """
    found = []
    for one in verdicts:
        if one.outcome in MARKED:
            share = f" {_value(one)} {one.kind.unit} is {one.percent:.1f} % of {one.against}" if one.percent else ""
            words = [f"{one.subject}: {OF_NODES[one.outcome]}: {one.kind.name.replace('_', ' ')}{share}", one.reason]
            words += [f"what differs: {', '.join(facts)}"] if (facts := unlike.get(one.subject)) else []
            found.append("; ".join(filter(None, words)))
    if lacking := dict.fromkeys(map(_full_title, missing)):
        found.append(f"not compared with the baseline, which lacks them: {', '.join(lacking)}")
    alone = dict.fromkeys(_full_title(one.kind) for one in verdicts if one.outcome is None)
    if alone:
        found.append(f"not compared, as there is one of each: {', '.join(alone)}: give --baseline FILE")
    return found


def node_data(verdicts: Sequence[NodeVerdict], unlike: Unlike) -> list[dict[str, Any]]:
    """Return each verdict with all digits, None where there is no number, and with what differs on its device."""
    found = []
    for one in verdicts:
        data = one._asdict() | {"outcome": OF_NODES[one.outcome], "percent": one.percent}
        subject, kind = data.pop("subject"), data.pop("kind")
        found.append({**subject._asdict(), **kind._asdict(), **data, "differs": list(unlike.get(subject, []))})
    return found
