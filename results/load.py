"""One set of records, for every command and for notebooks: found, derived by today's tables, judged and metered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from record.findings import finding
from record.part import changed
from record.values import value_at
from results.achievable import with_achievable, with_bandwidth
from results.files.quantities import QUANTITIES, only_match
from results.find.records import Found, Record, RecordError, Skipped, find_records
from results.join.meter import read_meter, with_meter
from results.points.learning import REFERENCES, learnt_of, read_references
from results.verdicts.cost import Costs, provisioned_sources, with_provisioned
from results.verdicts.nodes import is_check
from results.verdicts.tender.offers import split_offers

MOST_REASONS = 3  # in one sentence
NO_RESULT = "no result below {} can be used"


class Loaded(NamedTuple):
    """Records of some folders, the files that were skipped, and what a reader has to know about both."""

    records: list[Record]
    skipped: list[Skipped]
    notes: list[str]  # runs without the energy of a meter
    sources: list[str]  # of achievable FLOP/s, and of provisioned power
    tags: Mapping[str, str]  # of systems that are in several offers, by their new names


def load(
    folders: Sequence[Path],
    conditions: Sequence[str] = (),
    meters: Sequence[Path] = (),
    references: Sequence[Path] = (),
    checks: Sequence[Path] = (),
    offers: Mapping[Path, str] | None = None,
    costs: Costs | None = None,
    why_empty: Callable[[Path], str] = NO_RESULT.format,
) -> Loaded:
    """Return the records in some folders that meet conditions such as `devices=4`.

    meters: files of meters in the supply line, whose energy goes first. references: a site's files of losses, which
    count where the suite has none. checks: folders of node checks, next to those among the records. offers: names of
    folders; a system that is in several is a system in each. why_empty: says why a folder has no result.

    Raises RecordError without a record, and for a meter, reference, check or condition that cannot be used.
    """
    found = find(folders, why_empty)
    records, sources = with_achievable(derived(found.records, references), good_checks(checks))
    found.records[:] = records
    tags = split_offers(found, offers) if offers else {}
    records, notes = select(found.records, conditions), []
    for path in meters:
        records, without = with_meter(records, read_meter(path))
        notes += without
    tagged = [(record, tags.get(record.system, record.system)) for record in records]
    records = [with_bandwidth(with_provisioned(record, costs, tag), tag) for record, tag in tagged]
    return Loaded(records, found.skipped, notes, [*sources, *provisioned_sources(records)], tags)


def find(folders: Sequence[Path], why_empty: Callable[[Path], str] = NO_RESULT.format) -> Found:
    """Return the records in some folders as they were written; raises RecordError without one."""
    found = find_records(folders)
    empty = [Skipped(finding("unusable", reason=why_empty(path)), path) for path in folders if not found.has_any(path)]
    if len(empty) == len(folders):
        raise RecordError("; ".join(map(str, empty)))
    found.skipped.extend(empty)
    if not found.records:
        reasons = "; ".join(map(str, found.skipped[:MOST_REASONS]))
        raise RecordError(f"{NO_RESULT.format(', '.join(map(str, folders)))}: {reasons}")
    return found


def derived(records: Sequence[Record], references: Sequence[Path] = ()) -> list[Record]:
    """Return records with what their losses show."""
    known = read_references(REFERENCES, *references)
    verdicts = ((record, learnt_of(record, known)) for record in records)
    return [changed(record, learnt=learnt) if learnt else record for record, learnt in verdicts]


def below(folder: Path, records: Sequence[Record]) -> list[Record]:
    """Return the records of a folder."""
    return [record for record in records if Path(record.file.path).is_relative_to(folder)]


def good_checks(folders: Sequence[Path]) -> list[Record]:
    """Return the good node checks in some folders; raises RecordError for folders without one."""
    checks = [record for record in find(folders).records if is_check(record)] if folders else []
    if folders and not checks:
        raise RecordError(f"{folders[0]} has no good node check: give a result of jube/node_check.yaml")
    return checks


def select(records: Sequence[Record], conditions: Sequence[str]) -> list[Record]:
    """Return the records that meet conditions such as `devices=2`; raises RecordError if none does."""
    chosen, units = list(records), {record.work_unit for record in records}
    names: dict[str, list[str]] = {}
    for name, quantity in QUANTITIES.items():
        if path := quantity.path:
            names.setdefault(path, []).extend([name, path, *(quantity.of(unit).heading for unit in units)])
    for condition in conditions:
        title, sign, wanted = condition.partition("=")
        if not sign:
            raise RecordError(f"{condition!r} is not a condition: write COLUMN=TEXT, such as devices=2")
        path = only_match(title.strip(), names)
        chosen = [record for record in chosen if wanted.strip() in _texts(value_at(record, path), path)]
    if not chosen:
        raise RecordError(f"no record matches {' and '.join(conditions)}: see the table without --filter")
    return chosen


def _texts(value: Any, path: str) -> set[str]:
    """Return the value at a path as text, in each form in which a reader may have seen it."""
    if isinstance(value, bool):
        return {str(value), "yes" if value else "NO"}
    if isinstance(value, int | float):
        return {str(value), *(format(value, one.form) for one in QUANTITIES.values() if one.path == path)}
    return {", ".join(value) if isinstance(value, list | tuple) else "" if value is None else str(value)}
