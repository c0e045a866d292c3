"""A comparison as text, and as data for JSON."""

from __future__ import annotations

from typing import Any

from record.values import count
from results.points.estimate import Estimate
from results.verdicts.compare import METRICS, Comparison


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
                **{name: _data(ratio) for name, ratio in zip(names, line.ratios, strict=True)},
                "remarks": line.remarks,
            }
            for line in comparison.lines
        ],
        "geometric_means": {name: _data(mean) for name, mean in zip(names, comparison.means(), strict=True)},
        "only_reference": [point._asdict() for point in comparison.only_base],
        "only_other": [point._asdict() for point in comparison.only_other],
        "software": comparison.machines,
        "failed": comparison.failed,
    }


def _data(estimate: Estimate | None) -> dict[str, float | None] | None:
    if estimate is None:
        return None
    low, high = estimate.interval or (None, None)
    return {"ratio": estimate.value, "low": low, "high": high}
