"""Commands while a sweep runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from caraml.cli.options import A_SWEEP, above_0, add_flag, add_folders, say
from caraml.errors import CaramlError
from caraml.lint import lint
from caraml.plan.site import wrong_path
from caraml.sweep import problems, run_folder
from caraml.wait import NOT_IN_TIME, check_open, check_schedulers, retry_failed
from caraml.wait import wait as wait_for
from record.values import count


def add_commands(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands of this module."""
    add_folders(add(check), f"{A_SWEEP}; or a workflow such as jube/llm.yaml")

    parser = add(wait)
    add_folders(parser)
    add_flag(parser, "--retry-failed", "first submit the failed points again")
    text = "seconds between two queries of the scheduler; default: %(default)g"
    parser.add_argument("--interval", type=above_0, default=10.0, metavar="S", help=text)
    parser.add_argument("--limit", type=above_0, metavar="S", help="exit with 3 after so many seconds")
    add_flag(parser, "--keep", "leave ended Jobs of Kubernetes in the cluster")


def check(options: argparse.Namespace) -> int:
    """Check a workflow file for keys that JUBE would ignore, or list the failed points of a sweep."""
    found: list[object] = []
    for path in options.folders:
        if path.suffix != ".yaml":
            found += problems(run_folder(path))
            continue
        if not path.exists():
            raise CaramlError(f"{path} does not exist: give a workflow, such as jube/llm.yaml")
        found += lint(path)
        if wrong := wrong_path(path.resolve(), "the workflow"):
            found.append(wrong)
    for problem in dict.fromkeys(found):
        say(problem)
    if not found:
        print(f"{', '.join(map(str, options.folders))}: no problem found")
    return 1 if found else 0


def wait(options: argparse.Namespace) -> int:
    """Wait until the last job of a sweep has ended; exits with 1 if any failed."""
    runs = [run_folder(folder) for folder in options.folders]
    for run in runs:
        check_open(run)
        check_schedulers(run)
    if options.retry_failed:
        for run in runs:
            print(f"caraml: submitted again: {count(len(retry_failed(run)), 'point')}", flush=True)
    for run in runs:
        if not wait_for(run, options.interval, options.limit, options.keep):
            say(f"{run} has not ended within {options.limit:g} s")
            return NOT_IN_TIME
    return check(options)
