"""Outcome of a sweep: JUBE itself exits with 0 even if points failed."""

from __future__ import annotations

import re
from pathlib import Path

from caraml.errors import SweepError
from results.record.records import RESULT_NAME, RecordError, read_record
from results.show.tables.table import failures

WORKPACKAGES = "workpackages.xml"  # JUBE's list of what a run consists of
CONFIGURATION = "configuration.xml"  # what JUBE writes first
OF_A_PROGRAM = re.compile(r"""for parameter "\w+": b['"](?:caraml: )?(.+?)(?:\\n)?['"]$""")


def run_folder(folder: Path) -> Path:
    """The folder itself, or its last run where it holds runs of JUBE; raises SweepError where that was refused."""
    runs = _runs(folder)
    last = max((path.parent for path in folder.glob(f"[0-9]*/{CONFIGURATION}")), default=folder)
    if last != folder and last not in runs:
        instead = f"; the run before it is {max(runs)}: give that folder" if runs else ""
        raise SweepError(f"{last} has not begun: {_last_error(last) or 'JUBE is about to, or was ended'}{instead}")
    return max(runs, default=folder)


def _last_error(run: Path) -> str:
    """Return the last error of a run that ended before its first step, from JUBE or from a program that JUBE ran."""
    log = run / "run.log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    said = next((line for line in reversed(lines) if line.partition("ERROR: ")[2].strip()), "").partition("ERROR: ")[2]
    found = OF_A_PROGRAM.search(said)
    return found[1] if found else said


def _runs(folder: Path) -> list[Path]:
    return [path for path in folder.glob("[0-9]*") if is_run(path)]


def no_results(folder: Path) -> str:
    """A sentence on a folder without a result, which names the last run beside it that has some."""
    looked_at = run_folder(folder)
    looked_at = looked_at if looked_at.name else looked_at.absolute()
    others = [run for run in _runs(looked_at.parent) if run != looked_at and points(run)]
    if others:
        return f"{looked_at} has no result; the last run with results is {max(others)}: give that folder"
    return f"{looked_at} has no result: run a sweep first"


def is_run(folder: Path) -> bool:
    """Return whether a folder is a run of JUBE."""
    return (folder / WORKPACKAGES).is_file()


def check_run(run: Path) -> None:
    """Raise SweepError unless the folder is a run of JUBE."""
    if not is_run(run):
        raise SweepError(f"{run} is not a run of JUBE: give a folder such as jube/llm_run/000000")


def points(run: Path) -> list[Path]:
    """The folders of the jobs of a run, in order."""
    return sorted(path.parent for path in run.glob(f"[0-9]*_*/work/{RESULT_NAME}"))


def runs_of(point: Path) -> list[Path]:
    """The folders of a point's runs: the job's own, and one for each further run that the job makes."""
    further = [path.parent for path in point.glob(f"run_*/{RESULT_NAME}")]
    return [point, *sorted(further, key=lambda folder: int(folder.name.removeprefix("run_")))]


def not_started(run: Path) -> int:
    """How many points JUBE has planned and not begun: it is at work on others, or was ended."""
    # JUBE writes its list anew in the same file: what is there of it counts.
    planned = re.findall(r'<workpackage id="([0-9]+)"', (run / WORKPACKAGES).read_text(errors="replace"))
    return sum(not any(run.glob(f"{int(number):06}_*")) for number in planned)


def missing_runs(run: Path) -> str:
    """Say how many of the runs that JUBE has planned have a result; empty if all have."""
    listed = (run / WORKPACKAGES).read_text(errors="replace")
    planned = sum(map(int, re.findall(r'name="runs_in_job"[^>]*>\s*<value>([0-9]+)<', listed)))
    present = sum(len(runs_of(point)) for point in points(run))
    return f"{run} has results of {present} of {planned} planned runs" if present < planned else ""


def go_on(run: Path) -> str:
    """How to start what JUBE has not begun."""
    return f"'jube continue {run.parent} --id {int(run.name) if run.name.isdigit() else run.name}' starts them"


def problems(run: Path) -> list[str]:
    """A sentence on everything in a run of JUBE that is not done and good.

    JUBE makes a folder per workpackage, NUMBER_STEP, with a file `done` or `error` in it. Raises SweepError when
    the folder is not a run, or the run has no point.
    """
    check_run(run)
    found = []
    for point in sorted(path for path in run.glob("[0-9]*_*") if path.is_dir()):
        if (point / "work" / RESULT_NAME).exists():
            for folder in runs_of(point / "work"):
                name = point.name if folder.name == "work" else f"{point.name}, {folder.name}"
                try:
                    found += [f"{name}: {failure}" for failure in failures([read_record(folder / RESULT_NAME)])]
                except RecordError as error:
                    found.append(f"{name}: {error}")
        elif (point / "error").exists():
            found.append(f"{point.name}: failed; {_last_words(point / 'work' / 'stderr')}")
        elif not (point / "done").exists():
            found.append(f"{point.name}: not finished")
    if missing := not_started(run):
        found.append(f"{missing} of its points were never started: {go_on(run)}")
    if not points(run):
        found.append(no_results(run))
    return found


def _last_words(errors: Path) -> str:
    try:
        lines = [line for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return lines[-1] if lines else f"see {errors}"
