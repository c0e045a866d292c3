"""Summary of results in words and in one table; only comparable values are ranked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from record.values import PER_DEVICE, THROUGHPUT, WORK, count, devices_text, grouped
from results.files.quantities import quantities
from results.files.workloads import batch_text
from results.points.repeats import PointResults
from results.show.tables.cells import Amount, Cell, Table, text_of
from results.verdicts.cost import time_to_report
from results.verdicts.quality import energy_kind, why_not_ranked
from results.verdicts.ranking import by_energy_kind, devices_of_all, fastest, filled_apart, rank, ranked_points


def sentences(results: Sequence[PointResults]) -> list[str]:
    """Summarise the points of a workload in sentences; only comparable values are ranked."""
    unit = results[0].any.work_unit
    ranked = ranked_points(results)
    lines = []
    for precision, mine in grouped(ranked, lambda one: one.precision).items():
        words = f" in {precision}"
        lines += _ranking(mine, PER_DEVICE, f"Fastest per device{words}", f"{unit}/s")
        for kind, of_kind in by_energy_kind([one for one in mine if not why_not_ranked(one)]).items():
            lines += _ranking(of_kind, WORK, f"Most work per energy{words} ({kind})", f"{unit}/Wh")
    with_energy = [one for one in ranked if one.value(WORK) is not None]
    for reason, mine in grouped(with_energy, lambda one: why_not_ranked(one) or None).items():
        lines.append(f"Energy of {', '.join(dict.fromkeys(one.system for one in mine))} is not ranked: {reason}.")
    comparable = [one for one in results if one.good and one.is_comparable]
    if not comparable and any(one.good for one in results):
        lines.append("These are runs of a smaller workload, to try the suite: not comparable with other results.")
    unknown = dict.fromkeys(one.system for one in comparable if not one.precision)
    if unknown:
        lines.append(f"Runs of {', '.join(unknown)} are not ranked: their precision is not known.")
    lines += filter(None, [filled_apart(results)])
    runs = sum(len(one.good) + len(one.bad) for one in results)
    bad = sum(len(one.bad) for one in results)
    if bad:
        lines.append(f"{bad} of {count(runs, 'run')} failed.")
    return lines


def _ranking(results: Sequence[PointResults], path: str, title: str, unit: str) -> list[str]:
    """Return a sentence on a ranking: the first, those that tie with it, and the ratios to the others."""
    ranking = rank(results, path)
    if not ranking:
        return []
    first, tied = ranking.first, ranking.tied
    text = f"{title}: {_and_where(first, path, unit)}"
    if tied:
        text = f"{title}: not distinguishable are {'; '.join(_and_where(one, path, unit) for one in [first, *tied])}"
        if any(len(one.good) < 2 for one in [first, *tied]):
            text += "; one run gives no interval"
        if ranking.by_accuracy:
            names = ", ".join(one.system for one in ranking.by_accuracy)
            text += f"; without the accuracy of the sensors, {names} would be behind"
    ratios = [f"{1 / ranking.over_first[one.system].value:.2f} times {one.system}" for one in ranking.behind]
    return [text + (f"; {first.system} has " if tied and ratios else ", " if ratios else "") + ", ".join(ratios) + "."]


def _and_where(one: PointResults, path: str, unit: str) -> str:
    where = f"{devices_text(one.point.devices)}, {batch_text(one.point.benchmark, one.point.global_batch)}"
    return f"{one.system} with {text_of(_best(one, path, unit))} ({where})"


def summary_table(workloads: Sequence[tuple[str, Sequence[PointResults]]]) -> Table:
    """Return one row per workload, system and precision, with its best points."""
    columns = quantities("workload", "system", "precision", "best per device", "at", "time to report")
    columns += quantities("best work per energy", "energy", "runs")
    body: list[list[Cell]] = []
    for title, results in workloads:
        at_devices = devices_of_all(results)
        for system, precision, mine in by_system_and_precision(results):
            unit = mine[0].any.work_unit
            speed = fastest(mine)
            total = fastest([one for one in mine if one.point.devices == at_devices], THROUGHPUT)
            work = fastest([one for one in mine if not why_not_ranked(one)], WORK) or fastest(mine, WORK)
            good, bad = (sum(len(getattr(one, side)) for one in mine) for side in ("good", "bad"))
            body.append(
                [
                    title,
                    system,
                    precision_text(precision, mine),
                    _best(speed, PER_DEVICE, f"{unit}/s"),
                    speed.point.place if speed else "",
                    time_to_report(total) if total else "",
                    _best(work, WORK, f"{unit}/Wh"),
                    _energy(work) if work else "",
                    f"{good} ok" + (f", {bad} failed" if bad else ""),
                ]
            )
    return Table(columns, body)


def _energy(one: PointResults) -> str:
    """Return the kind of a point's energy, with the reason if it is not ranked."""
    why_not = why_not_ranked(one)
    return f"{energy_kind(one.any) or ''}{f'; not ranked: {why_not}' if why_not else ''}"


def by_system_and_precision(
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


def precision_text(precision: str, results: Sequence[PointResults]) -> str:
    """Return the precision for a table; "not known" if it is missing although a run is good."""
    return precision or ("not known" if any(one.good for one in results) else "")


def _best(one: PointResults | None, path: str, unit: str) -> Cell:
    return Amount(one.value(path), one.half_width(path), with_half=True, words=f" {unit}") if one else None
