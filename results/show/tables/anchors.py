"""Figures that others published for the same chip, next to ours; never ranked with them.

For training, H100 and H200 count as one: they differ in their memory alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from record.parts import JOULES_PER_WH
from record.values import PER_DEVICE, WORK, grouped
from results.files.quantities import Quantity, quantities
from results.points.repeats import PointResults
from results.published import Figure, published
from results.show.tables.cells import Cell, Table
from results.verdicts.quality import ESTIMATE, grade
from results.verdicts.ranking import fastest, ranked_points

VALUE = Quantity("value", form=",.10g")
COLUMNS = quantities("whose", "model", "precision", "devices", VALUE, "unit", "software", "source")


def anchor_table(results: Sequence[PointResults]) -> Table:
    """Return for each system and benchmark with published figures our best points, and then the figures.

    Ours are the fastest point per device of each model and precision, of those that may be ranked; an energy that is an
    estimate is left out. Without a figure of the same chip the table has no row.
    """
    rows: list[list[Cell]] = []
    for (system, benchmark), mine in grouped(results, lambda one: (one.system, one.point.benchmark)).items():
        known = [one for one in published() if one.workload == benchmark and one.read]
        theirs = [one for one in known if system in (*one.systems.split(), *one.like.split())]
        ours = [row for best in _best(mine) for row in _our_rows(best)]
        if ours and theirs:
            rows += [*ours, *(_row(one) for one in theirs)]
    return Table(COLUMNS, rows)


def _best(mine: Sequence[PointResults]) -> list[PointResults]:
    kinds = grouped(ranked_points(mine), lambda one: (one.point.model, one.precision))
    return [best for same in kinds.values() if (best := fastest(same))]


def _our_rows(best: PointResults) -> list[list[Cell]]:
    point, served = best.point, best.any.serving
    unit = f"output {best.any.work_unit}" if served else best.any.work_unit
    software = " ".join(filter(None, (served.server, served.version))) or "this suite"
    efficiency = None if grade(best.any) == ESTIMATE else best.value(WORK)
    figures = {
        f"{unit}/s/device": best.value(PER_DEVICE),
        f"J/{unit.removesuffix('s')}": JOULES_PER_WH / efficiency if efficiency else None,
        "% of achievable": best.value("metrics.achievable_percent"),
    }
    facts: list[Cell] = [f"{best.system}, ours", point.model, best.precision, point.devices]
    return [[*facts, value, of, software, point.place] for of, value in figures.items() if value]


def _row(one: Figure) -> list[Cell]:
    source = f"{one.source}, read {one.read}" + (f": {one.note}" if one.note else "")
    precision, devices = one.precision or "not stated", int(one.devices) if one.devices else None
    facts: list[Cell] = [f"{one.accelerator}, published", one.model, precision, devices]
    return [*facts, float(one.value), one.unit, one.software, source]
