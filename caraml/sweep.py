"""Outcome of a sweep: JUBE itself exits with 0 even if points failed."""

from __future__ import annotations

import re
from pathlib import Path

from caraml.errors import CaramlError
from record.model import Record
from results.find.folders import CONFIGURATION, RESULT_NAME, WORKPACKAGES, has_jobs, points, runs_of
from results.find.records import RecordError, read_record
from results.show.tables.table import failures


def run_folder(folder: Path) -> Path:
    """Return the last run of JUBE in a folder, or the folder itself; raises CaramlError if that run was refused."""
    runs = _runs(folder)
    started = (path.parent for path in folder.glob(f"[0-9]*/{CONFIGURATION}"))
    last = max(filter(has_jobs, started), default=folder)
    if last != folder and last not in runs:
        instead = f"; the run before it is {max(runs)}: give that folder" if runs else ""
        raise CaramlError(
            f"{last} has not started: {_last_line(last / 'run.log', 'ERROR: ') or 'JUBE is starting it, or was ended'}"
            f"{instead}"
        )
    return max(runs, default=folder)


def _last_line(file: Path, start: str = "") -> str:
    """Return the last line of a file that is not empty, or what follows a start in it; empty without one."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    found = (line.partition(start)[2] if start else line for line in reversed(lines))
    return next(filter(str.strip, found), "")


def _runs(folder: Path) -> list[Path]:
    return [path for path in folder.glob("[0-9]*") if is_run(path)]


def no_results(folder: Path) -> str:
    """Return a sentence on a folder without a result, with the last run next to it that has some."""
    empty = run_folder(folder)
    empty = empty if empty.name else empty.absolute()
    others = [run for run in _runs(empty.parent) if run != empty and points(run)]
    if others:
        return f"{empty} has no result; the last run with results is {max(others)}: give that folder"
    return f"{empty} has no result: run a sweep first"


def is_run(folder: Path) -> bool:
    """Return whether a folder is a run of JUBE with jobs."""
    try:
        return (folder / WORKPACKAGES).is_file() and has_jobs(folder)
    except OSError:  # it cannot be entered, which the reader of its results reports
        return False


def check_run(run: Path) -> None:
    """Raise CaramlError unless the folder is a run of JUBE with jobs."""
    if not has_jobs(run):
        raise CaramlError(f"{run} started no jobs, by the tag job or image: run the workflow without that tag")
    if not is_run(run):
        raise CaramlError(f"{run} is not a run of JUBE: give a folder such as jube/llm_run/000000")


def not_started(run: Path) -> int:
    """Return the number of points that JUBE has planned and not started."""
    # JUBE may be rewriting the file: an incomplete one still has planned points.
    planned = re.findall(r'<workpackage id="([0-9]+)"', (run / WORKPACKAGES).read_text(errors="replace"))
    started = {folder.name.partition("_")[0] for folder in run.glob("[0-9]*_*")}
    return sum(f"{int(number):06}" not in started for number in planned)


def how_to_continue(run: Path) -> str:
    """Return how to start the points that JUBE has not started."""
    return f"'jube continue {run.parent} --id {int(run.name) if run.name.isdigit() else run.name}' starts them"


def problems(run: Path) -> list[str]:
    """Return a sentence on each point of a run of JUBE that failed or has not ended.

    JUBE makes a folder NUMBER_STEP for each workpackage, with a file `done` or `error` in it. Raises CaramlError if the
    folder is not a run.
    """
    check_run(run)
    found = []
    for point in sorted(path for path in run.glob("[0-9]*_*") if path.is_dir()):
        if (point / "work" / RESULT_NAME).exists():
            for folder in runs_of(point / "work"):
                name = point.name if folder.name == "work" else f"{point.name}, {folder.name}"
                try:
                    found += [
                        f"{name}: {failure}" for failure in failures([Record.of(read_record(folder / RESULT_NAME))])
                    ]
                except RecordError as error:
                    found.append(f"{name}: {error}")
        elif (point / "error").exists():
            errors = point / "work" / "stderr"
            found.append(f"{point.name}: failed; {_last_line(errors) or f'see {errors}'}")
        elif not (point / "done").exists():
            found.append(f"{point.name}: not finished")
    if missing := not_started(run):
        found.append(f"{missing} of its points were never started: {how_to_continue(run)}")
    if not points(run):
        found.append(no_results(run))
    return found
