"""What results say, in words and in one table: only what may be ranked is ranked."""

from __future__ import annotations

import math
from collections.abc import Sequence

from results.cost import time_to_report
from results.plots import EFFICIENCY, PER_DEVICE, THROUGHPUT, best_of_systems, fastest
from results.points import half_width, rounded
from results.quality import energy_kind
from results.statistics import PointResults
from results.table import devices_text


def sentences(results: Sequence[PointResults]) -> list[str]:
    """What the points of a workload say, in words. Ranks only what may be ranked."""
    unit = results[0].any["work_unit"]
    ranked = ranked_points(results)
    found = _ranking(ranked, PER_DEVICE, "Fastest per device", f"{unit}/s")
    for kind, mine in by_energy_kind(ranked).items():
        if kind.startswith("Q0"):
            systems = ", ".join(dict.fromkeys(one.system for one in mine))
            found.append(f"Energy of {systems} is an estimate from load: it is no measurement, and is not ranked.")
        else:
            found += _ranking(mine, EFFICIENCY.path, f"Most work per energy ({kind})", f"{unit}/Wh")
    if not ranked and any(one.good for one in results):
        found.append("These are runs of a smaller workload, to try the suite: not comparable with other results.")
    runs = sum(len(one.good) + len(one.bad) for one in results)
    bad = sum(len(one.bad) for one in results)
    if bad:
        found.append(f"{bad} of {runs} runs failed.")
    return found


def ranked_points(results: Sequence[PointResults]) -> list[PointResults]:
    """The points of the workload of the comparison."""
    return [one for one in results if one.good and one.is_comparable]


def by_energy_kind(results: Sequence[PointResults]) -> dict[str, list[PointResults]]:
    """The points of each kind of energy: within one they may be ranked."""
    found: dict[str, list[PointResults]] = {}
    for one in results:
        if kind := energy_kind(one.any):
            found.setdefault(kind, []).append(one)
    return found


def _ranking(results: Sequence[PointResults], path: str, title: str, unit: str) -> list[str]:
    best = best_of_systems(results, path)
    if not best:
        return []
    first, *others = best
    value = first.value(path) or math.nan
    where = f"{devices_text(first.point.devices)}, global batch {first.point.global_batch}"
    text = f"{title}: {first.system} with {_best(first, path, unit)} ({where})"
    ratios = [f"{value / other:.2f} times {one.system}" for one in others if (other := one.value(path))]
    return [text + (", " + ", ".join(ratios) if ratios else "") + "."]


def summary_rows(workloads: Sequence[tuple[str, Sequence[PointResults]]]) -> list[list[str]]:
    """The header and one row per workload and system, with its best points."""
    header = ["workload", "system", "best per device", "at", "time to report", "best work per energy", "energy", "runs"]
    body = []
    for title, results in workloads:
        for system in dict.fromkeys(one.system for one in results):
            mine = [one for one in results if one.system == system]
            unit = mine[0].any["work_unit"]
            speed, total = fastest(mine), fastest(mine, THROUGHPUT.path)
            work = fastest(mine, EFFICIENCY.path)
            good, bad = (sum(len(getattr(one, side)) for one in mine) for side in ("good", "bad"))
            body.append(
                [
                    title,
                    system,
                    _best(speed, PER_DEVICE, f"{unit}/s"),
                    speed.point.place if speed else "",
                    time_to_report(total) if total else "",
                    _best(work, EFFICIENCY.path, f"{unit}/Wh"),
                    (energy_kind(work.any) or "") if work else "",
                    f"{good} ok" + (f", {bad} failed" if bad else ""),
                ]
            )
    return [header, *body]


def _best(one: PointResults | None, path: str, unit: str) -> str:
    if one is None:
        return ""
    half = half_width(one.summary(path))
    return f"{rounded(one.value(path), half)}{f' ± {rounded(half, half)}' if half else ''} {unit}"
