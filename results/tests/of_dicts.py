"""Functions on records for tests, which make and change records as files have them: as dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from record import checks
from record.derivation import derive, derived_energy
from record.model import Record
from record.part import as_json
from results import achievable, load
from results.exchange import recomputed
from results.find import records, todays
from results.join import energy, meter, reads
from results.join import nodes as joined
from results.points import facts, regions, repeats
from results.show.page import report
from results.show.page import shortcomings as shortcomings
from results.show.tables import doubts, table
from results.verdicts import compare as comparing
from results.verdicts import nodes, quality

Value = TypeVar("Value")


def as_record(value: Any) -> Any:
    """Return the record that a dictionary describes, also inside lists and dictionaries; anything else as it is."""
    if isinstance(value, dict):
        is_one = {"work_unit", "benchmark", "layout"} <= value.keys()
        return Record.of(value) if is_one else {key: as_record(one) for key, one in value.items()}
    return type(value)(map(as_record, value)) if type(value) in (list, tuple) else value


def as_dict(record: Any) -> Any:
    """Return a record as its file has it, with the file that it was read from."""
    return as_json(record) | ({"file": as_json(record.file)} if record.file else {})


def taking_dicts(function: Callable[..., Value]) -> Callable[..., Value]:
    """Return the function with dictionaries in place of records."""

    @wraps(function)
    def converted(*arguments: Any, **options: Any) -> Value:
        return function(*as_record(list(arguments)), **as_record(options))

    return converted


def derived_otherwise(record: dict[str, Any]) -> list[str]:
    """Return what `verify` says of stored numbers that follow from others."""
    return list(recomputed.derived_otherwise(record, ""))


def find_records(folders: Any) -> records.Found:
    found = records.find_records(folders)
    return found._replace(records=list(map(as_dict, found.records)), skipped=list(map(str, found.skipped)))


def with_todays_figures(record: dict[str, Any]) -> dict[str, Any]:
    found = todays.with_todays_figures(Record.of(record))
    return as_dict(found) | ({"corrected": found.corrected} if found.corrected else {})


def _in_place(function: Callable[..., Any], several: list[dict[str, Any]], *more: Any) -> list[str]:
    """Change dictionaries as a function of records returns these, and return its sentences."""
    found, sentences = function(as_record(several), *as_record(list(more)))
    for one, new in zip(several, found, strict=True):
        one |= as_dict(new)
    return sentences


def deviations(*arguments: Any) -> list[str]:
    return list(map(str, quality.deviations(*arguments)))


def add_meter(*arguments: Any) -> list[str]:
    return _in_place(meter.with_meter, *arguments)


def add_achievable(*arguments: Any) -> list[str]:
    return _in_place(achievable.with_achievable, *arguments)


failures_once = taking_dicts(doubts.failures_once)
limits = taking_dicts(shortcomings.limits)
reads_of = taking_dicts(lambda record, folder: as_json(reads.reads_of(record, folder)))
write_report = taking_dicts(report.write_report)
by_point = taking_dicts(repeats.by_point)
compare = taking_dicts(comparing.compare)
contradictions = taking_dicts(lambda record: [*checks.contradictions(derive(record)), *todays.wrong_length(record)])
differences = taking_dicts(nodes.differences)
energy_kind = taking_dicts(quality.energy_kind)
energy_of = taking_dicts(
    lambda record, traces, kind: derived_energy(
        record, energy.energy_of(record, joined.sums_of(record, traces), kind), kind
    )
)
energy_rules = taking_dicts(quality.energy_rules)
failures = taking_dicts(table.failures)
grade = taking_dicts(quality.grade)
judge = taking_dicts(nodes.judge)
medians = taking_dicts(nodes.medians)
original_table = taking_dicts(table.original_table)
point_of = taking_dicts(facts.point_of)
pivot_table = taking_dicts(table.pivot_table)
record_table = taking_dicts(table.record_table)
regions_of = taking_dicts(regions.regions_of)
select = taking_dicts(load.select)
sort_key = taking_dicts(facts.sort_key)
