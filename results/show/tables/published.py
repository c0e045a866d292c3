"""Published figures as tables: those with some words, or those of the same chip next to ours; never ranked with ours.

For training, H100 and H200 count as one: they differ in their memory alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jpwr.energy.estimate import JOULES_PER_WH
from record.values import PER_DEVICE, WORK, grouped
from results.files.quantities import Quantity, quantities
from results.find.records import RecordError
from results.points.repeats import PointResults
from results.published import Figure, published
from results.show.tables.cells import Cell, Table, rendered
from results.verdicts.quality import ESTIMATE, grade
from results.verdicts.ranking import fastest, ranked_points

VALUE = Quantity("value", form=",.6g")
COLUMNS = quantities(
    *("whose", "model", "data", "precision", "devices", "batch", "metric", VALUE, "unit", "software", "source")
)


def published_text(figures: Iterable[Figure], words: Sequence[str]) -> str:
    """Return the figures that have all these words as a table, with their sources below; raises RecordError if none."""
    searched = {one: "\n".join(one[: one._fields.index("source")]).lower() for one in figures}
    chosen = [one for one, text in searched.items() if all(word.lower() in text for word in words)]
    if not chosen:
        raise RecordError(f"no published figure has {' and '.join(words)}: 'caraml published' without words shows all")
    sources = {source: index for index, source in enumerate(dict.fromkeys(one.source for one in chosen), 1)}
    rows = [_row(one, ", ".join(filter(None, one[2:4])), f"[{sources[one.source]}]") for one in chosen]
    text = rendered(Table(COLUMNS, rows).filled(), "text", str.ljust)
    return "\n".join([text, *(f"[{index}] {source}" for source, index in sources.items())])


def _row(one: Figure, whose: str, source: str) -> list[Cell]:
    point = [whose, one.model, one.data, one.precision or "not stated", one.devices, one.global_batch_size]
    return [*point, one.metric, float(one.value), one.unit, one.software, source]


def anchor_table(results: Sequence[PointResults]) -> Table:
    """Return for each system and benchmark with published figures our best points, and then the figures.

    Ours are the fastest point per device of each model and precision, of those that may be ranked; an energy that is an
    estimate is left out. Without a figure of the same chip the table has no row.
    """
    rows: list[list[Cell]] = []
    for (system, benchmark), points in grouped(results, lambda one: (one.system, one.point.benchmark)).items():
        known = [one for one in published() if one.workload == benchmark and one.read]
        theirs = [one for one in known if system in (*one.systems.split(), *one.like.split())]
        kinds = grouped(ranked_points(points), lambda one: (one.point.model, one.precision))
        ours = [row for alike in kinds.values() if (best := fastest(alike)) for row in _our_rows(best)]
        if ours and theirs:
            notes = [f"{one.source}, read {one.read}" + (f": {one.note}" if one.note else "") for one in theirs]
            rows += [*ours, *map(_row, theirs, (f"{one.accelerator}, published" for one in theirs), notes)]
    return Table(COLUMNS, rows).filled()


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
    point_cells: list[Cell] = [point.model, point.data, best.precision, point.devices, point.global_batch]
    facts = [f"{best.system}, ours", *point_cells, ""]
    return [[*facts, value, of, software, ""] for of, value in figures.items() if value]
