"""Repository of results: the checks of an archive that is handed in, and of all that are there.

Each folder in it is an unpacked archive, so that every command finds its records and a reviewer sees its files.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from record.values import count
from results.exchange.archive import CHECKSUMS, ENDING, GB, SIGNATURE, unpacked, verify
from results.exchange.public import ABOUT, FILE, About, names_left
from results.files.typed_files import read_file
from results.find.folders import below, results_below
from results.find.records import MARKS, RecordError, find_records, marks_above, named_in
from results.load import derived
from results.points.repeats import by_point
from results.show.words import failure, merged
from results.verdicts.quality import deviations, ranked_points, why_left_out

SIGNERS = "signers"  # file of those who may hand in, as OpenSSH has it
UNSIGNED = "unsigned"  # file with the folders of the project's own results
OWN = (SIGNERS, MARKS, UNSIGNED)
MOST_GB = 0.2  # of an unpacked archive, the traces of eight GPUs over 30 hours: each clone of the repository has it
CLASHES = ("same_record", "same_device", "run_left_out")
PLAIN = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)


def hand_in(archive: Path, to: Path) -> tuple[str, list[str]]:
    """Put an archive into a folder, unless there are reasons to refuse it; return what was done, and the reasons."""
    name = archive.name.removesuffix(ENDING)
    place = to / name
    refused = verify(archive, to / SIGNERS).problems
    taken = {one.casefold() for one in (*OWN, *(path.name for path in to.iterdir()))}
    if not PLAIN.fullmatch(name) or name.casefold() in taken:
        refused.append(f"{place} exists, or has a name that is not of letters, digits and '.+-_': rename the archive")
    if refused:
        return "", refused
    with unpacked(archive) as folder:
        points = by_point(derived(find_records([folder]).records))
        refused = [one.replace(f"{folder}/", "") for one in (*_refused(folder), *_clashes(to, folder))]
        if not refused:
            shutil.copytree(folder, place)
    broken = merged(f"breaks a rule: {one}" for point in points for one in deviations(point))
    return "\n".join([*broken, f"{place}: commit it with 'git add {to}', and open a change request"]), refused


def check(to: Path) -> tuple[str, list[str]]:
    """Return how many archives and runs were handed in, and what is wrong with them, a sentence each."""
    places = sorted(path for path in to.iterdir() if path.name not in OWN or not path.is_file())
    own = (to / UNSIGNED).read_text().split() if (to / UNSIGNED).exists() else []
    found = [f"{path} is in no archive" for path in places if not path.is_dir()]
    checked = {one: verify(one, None if one.name in own else to / SIGNERS) for one in places if one.is_dir()}
    for place, of_place in checked.items():
        is_good = not of_place.problems and place.name not in own
        found += (f"{place}: {one}" for one in (_refused(place) if is_good else of_place.problems))
    marks = marks_above(to / MARKS).keys() - {run for path in results_below(to) for run in named_in(path, "run_id")}
    found += (f"{to / MARKS} marks the run '{run}', which no record has: correct its run_id" for run in sorted(marks))
    found += _clashes(to)
    runs = sum(one.runs for one in checked.values())
    return f"{to}: {count(len(places), 'archive')}, {count(runs, 'run')}: all in order", found


def _refused(folder: Path) -> Iterator[str]:
    """Yield the reasons to refuse an unpacked archive that is otherwise in order."""
    paths = {str(path.relative_to(folder)): path for path in below(folder)[0]}
    of_runs = {name: path for name, path in paths.items() if FILE.fullmatch(name)}
    for name in sorted(paths.keys() - of_runs.keys() - {ABOUT, CHECKSUMS, SIGNATURE}):
        yield f"{name} is no file of a public archive: hand in what 'caraml archive --licence' has written"
    try:
        read_file(About, folder / ABOUT, "statements about an archive")
        yield from names_left(of_runs)
    except RecordError as error:
        yield f"it states no licence ({error}): make it with 'caraml archive --licence CC-BY-4.0'"
    if (size_gb := sum(path.stat().st_size for path in paths.values()) / GB) > MOST_GB:
        yield f"its files have {size_gb:.2g} GB, more than {MOST_GB:g} GB: hand in fewer runs at once"
    found = find_records([folder])
    is_marked = any(one.finding.kind == "marked" for one in found.skipped)
    if not ranked_points(points := by_point(derived(found.records))) and not is_marked:
        reasons = (f"{one.point}: {why_left_out(one) if one.good else failure(one.any)}" for one in points)
        yield f"none of its points can be ranked: {'; '.join(reasons)}"


def _clashes(*folders: Path) -> Iterator[str]:
    """Yield which runs are in folders twice, or were measured on one device at the same time."""
    try:
        skipped = find_records(folders).skipped
        yield from merged(str(one) for one in skipped if one.finding.kind in CLASHES)
    except RecordError as error:
        yield str(error)
