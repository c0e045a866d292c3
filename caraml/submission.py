"""Repository of results: the checks of an archive that is handed in, its place, and a check of all that are there.

An archive is stored unpacked, so that every command finds its records and a reviewer sees its files.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from jpwr import __version__
from results.exchange.archive import CHECKSUMS, ENDING, GB, Checked, unpacked, verify
from results.exchange.public import names_left, read_about
from results.points.repeats import by_point
from results.record.duplicates import copies, simultaneous
from results.record.folders import below, results_below
from results.record.marks import MARKS, marks_above
from results.record.records import Record, RecordError, find_records
from results.record.values import count
from results.show.tables.doubts import alike, failure
from results.verdicts.quality import deviations
from results.verdicts.ranking import ranked_points, why_left_out

SIGNERS = "signers"  # file of those who may hand in, as OpenSSH has it
MOST_GB = 0.2  # of an unpacked archive: the traces of eight GPUs over 30 hours; every clone of the repository has it
PLAIN = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)  # names of folders


class HandedIn(NamedTuple):
    """Place of an archive in the repository, or why it was refused, and the rules that its runs break."""

    place: Path
    refused: list[str]
    notes: list[str]


def hand_in(archive: Path, to: Path) -> HandedIn:
    """Put an archive into its place below a folder, unless it is refused; raises RecordError if it cannot be read."""
    name = archive.name.removesuffix(ENDING)
    if problems := verify(archive, to / SIGNERS).problems:
        return HandedIn(to, problems, [])
    with unpacked(archive) as folder:
        records = find_records([folder]).records
        refused = list(_refused(folder, records))
        system = records[0].system if records else ""
        place = to / system / name
        odd = [one for one in (system, name) if not PLAIN.fullmatch(one)]
        refused += (f"'{one}' cannot be the name of a folder: use letters, digits, '.', '_' and '-'" for one in odd)
        refused += _not_new(place, records, find_records([to]).records)
        if not refused:
            shutil.copytree(folder, place)
    broken = (f"breaks a rule: {one}" for point in by_point(records) for one in deviations(point))
    return HandedIn(place, refused, alike(broken))


def check(to: Path) -> tuple[str, list[str]]:
    """Return how many runs and archives there are below a folder, in words, and what is wrong: a sentence each.

    Results that are in no archive need a checksum in the folder's own list.
    """
    places = sorted(path.parent for path in to.glob(f"*/*/{CHECKSUMS}"))
    found: list[str] = []
    results = results_below(to)
    if not all(any(path.is_relative_to(place) for place in places) for path in results):
        found += _problems(to, to, verify(to, excluded=[*places, to / SIGNERS, to / MARKS]))
    for place in places:
        checked = verify(place, to / SIGNERS)
        found += _problems(place, to, checked)
        if not checked.problems:
            records = find_records([place]).records
            found += (f"{place}: {reason}" for reason in _refused(place, records))
            found += (
                f"{place}: its runs are of {one}" for one in {one.system for one in records} - {place.parent.name}
            )
    found += (str(one) for one in find_records([to]).skipped if one.finding.kind in ("same_record", "same_device"))
    return f"{count(len(results), 'run')}, {count(len(places), 'archive')} handed in", found


def _problems(place: Path, to: Path, checked: Checked) -> Iterator[str]:
    """Yield the problems of an archive, and how to mark the runs that this version finds wrong."""
    yield from (f"{place}: {problem}" for problem in checked.problems)
    for run in checked.wrong:
        mark = f'{{reason: "...", date: {date.today()}, version: "{__version__}"}}'
        yield f"{to / MARKS}: if this version is right, mark the run by a line there: '{run}': {mark}"


def _refused(folder: Path, records: Sequence[Record]) -> Iterator[str]:
    """Yield the reasons to refuse an unpacked archive that is otherwise in order."""
    paths = {str(path.relative_to(folder)): path for path in below(folder).files}
    try:
        if not read_about(folder).keep_names:
            yield from names_left(paths)
    except RecordError as error:
        yield str(error)
    size_gb = sum(path.stat().st_size for path in paths.values()) / GB
    if size_gb > MOST_GB:
        yield f"its files have {size_gb:.2g} GB, more than {MOST_GB:g} GB: hand in fewer runs at once"
    systems = sorted({record.system for record in records})
    if len(systems) != 1:
        yield f"it has runs of {' and '.join(systems) or 'no system'}: make one archive of each system"
    points = by_point(records)
    if not ranked_points(points):
        reasons = (f"{one.point}: {why_left_out(one) if one.good else failure(one.any)}" for one in points)
        yield f"none of its points can be ranked: {'; '.join(reasons)}"


def _not_new(place: Path, records: Sequence[Record], there: Iterable[Record]) -> Iterator[str]:
    """Yield what of an archive the repository has already."""
    if place.exists():
        yield f"{place} is there already: give the archive another name"
    every, new = [*there, *records], {record.file.path for record in records}
    twins = {copy.file.path: first.file.path for copy, first in copies(every)}
    if both := new & twins.keys():
        yield f"{count(len(both), 'run')} of it is there already: {', '.join(sorted(twins[one] for one in both))}"
    overlapping = {one for both in simultaneous(every) if not new.isdisjoint(both) for one in both} - new
    if others := sorted(overlapping - set(twins.values())):
        yield f"another run on the same device at the same time is there: {', '.join(others)}"
    for run in marks_above(place).keys() & {record.run_id for record in records}:
        yield f"run {run} was found wrong: {place.parents[1] / MARKS} has the reason"
