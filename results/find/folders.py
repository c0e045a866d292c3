"""Folders of results: one walk that names what it cannot enter, and the runs of a sweep's plan that are not there."""

from __future__ import annotations

import os
import re
from pathlib import Path

from record.files import RecordError

RESULT_NAME = "result.json"
ATTEMPTS = "attempts"  # the folder of failed attempts at a point
MEASURING = "benchmark"  # the step of a workflow whose points have results
WORKPACKAGES = "workpackages.xml"  # JUBE's list of the steps of a run
CONFIGURATION = "configuration.xml"  # the file of a run that JUBE writes first
# In the configuration of a run that only wrote the scripts of its jobs, or only made the image.
WITHOUT_JOBS = ("<tag>job</tag>", "<tag>image</tag>")


def below(folder: Path) -> tuple[list[Path], dict[Path, str]]:
    """Return all plain files below a folder, sorted, and why what cannot be entered or followed; links are followed.

    Each folder counts once.
    """
    files: list[Path] = []
    closed: dict[Path, str] = {}
    seen: set[tuple[int, int]] = set()

    def note(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # it was removed in the meantime
            closed[Path(error.filename)] = error.strerror or str(error)

    for place, folders, names in os.walk(folder, onerror=note, followlinks=True):
        here = Path(place)
        status = here.stat()
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders.sort(key=lambda name: ((here / name).is_symlink(), name))  # a folder comes before a link to it
        for name in names:
            path = here / name
            if os.path.isfile(path):  # noqa: PTH113 - False if it cannot be followed
                files.append(path)
            elif path.is_symlink():
                closed[path] = "it is a link that cannot be followed"
    return sorted(files), closed


def results_below(folder: Path, name: str = RESULT_NAME, with_attempts: bool = False) -> list[Path]:
    """Return the files with a name in the folders of runs, in order; attempts are runs that were run again.

    Raises RecordError if a folder cannot be entered, as results may be missing.
    """
    files, closed = below(folder)
    for path, reason in closed.items():
        raise RecordError(f"{path} cannot be entered ({reason}): let its owner open it, or give folders without it")
    named = (path for path in files if path.name == name)
    return [path for path in named if with_attempts or not is_attempt(path, folder)]


def is_attempt(path: Path, folder: Path) -> bool:
    """Return whether a file below a folder is of an attempt that was run again."""
    return ATTEMPTS in path.relative_to(folder).parts


def points(run: Path) -> list[Path]:
    """Return the folders of the jobs of a run of JUBE, sorted."""
    return sorted(path.parent for path in run.glob(f"[0-9]*_*/work/{RESULT_NAME}"))


def runs_of(point: Path) -> list[Path]:
    """Return the folders of a point's runs: the job's own, and one for each further run of the job."""
    further = [path.parent for path in point.glob(f"run_[0-9]*/{RESULT_NAME}") if path.parent.name[4:].isdigit()]
    return [point, *sorted(further, key=lambda folder: int(folder.name.removeprefix("run_")))]


def has_jobs(run: Path) -> bool:
    """Return whether a run of JUBE starts its jobs, so that it has points."""
    file = run / CONFIGURATION
    written = file.read_text(errors="replace") if file.exists() else ""
    return not any(tag in written for tag in WITHOUT_JOBS)


def planned_runs(run: Path) -> tuple[int, int]:
    """Return how many of the runs that a sweep's plan has have a result, and how many it has."""
    if not has_jobs(run):
        return 0, 0
    planned = _planned((run / WORKPACKAGES).read_text(errors="replace"))
    present = {int(point.parent.name.partition("_")[0]): len(runs_of(point)) for point in points(run)}
    found = sum(min(runs, present.get(number, 0)) for number, runs in planned.items())
    return found, sum(planned.values())


def _planned(listed: str) -> dict[int, int]:
    """Return how many runs each workpackage has in JUBE's list."""
    planned = {}
    for number, text in re.findall(r'<workpackage id="([0-9]{1,9})"(.*?)</workpackage>', listed, re.DOTALL):
        runs = re.search(r'name="runs_in_job"[^>]*>\s*<value>([0-9]{1,9})<', text)
        if runs or f">{MEASURING}<" in text:
            planned[int(number)] = int(runs[1]) if runs else 1
    return planned


def as_plan(listed: str) -> str:
    """Return JUBE's list of a run with nothing but the numbers of planned runs."""
    lines = (
        f'<workpackage id="{number}"><parameter name="runs_in_job"><value>{runs}</value></parameter></workpackage>\n'
        for number, runs in _planned(listed).items()
    )
    return f"<workpackages>\n{''.join(lines)}</workpackages>\n"
