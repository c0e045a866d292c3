"""The command line of `caraml`: its subcommands are in before, during, after and exchange; __main__.py starts it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from caraml.cli.command import Command, Group, say
from caraml.cli.removed import REMOVED
from caraml.errors import CaramlError, SchedulerError
from caraml.installation import missing_package
from jpwr import __version__
from jpwr.process.parser import HelpfulParser, removed_words
from results.files.workloads import workloads
from results.find.records import RecordError

EXIT_CODES = f"""exit codes:
  0    done
  1    a point failed, a requirement or pledge is not met, a device is slow, a file has changed or is refused
  2    the command cannot do what was asked: one sentence on stderr gives the reason
  3    accept, compare, check-nodes, history: it cannot be decided; wait: not ended within --limit
  {os.EX_SOFTWARE}   an internal error: no result
  130  interrupted"""
GROUPS = {
    "Before the first job": ("before",),
    "While a sweep runs": ("during",),
    "With its results": ("after", "further", "nodes", "exchange", "history"),
}


def commands(wanted: str = "") -> dict[str, Group]:
    """Return the commands by title; with the name of one, no module after its own is loaded: each JUBE step plans."""
    found: dict[str, Group] = {}
    for title, modules in GROUPS.items():
        found[title] = Group()
        for module in modules:
            found[title] |= import_module(f"{__name__}.{module}").COMMANDS
            if wanted in found[title]:
                return found
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    words = sys.argv[1:] if argv is None else argv
    known = commands(words[0] if words else "")
    parser = _parser(known)
    options = parser.parse_args(words)
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        _check_out(getattr(options, "out", None))
        return _by_name(known)[options.command].run(options)
    except BrokenPipeError:  # the reader, such as head, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except SchedulerError as error:
        say(f"{error}: ask again when it does")
    except ImportError as error:
        say(missing_package(error))
    except (CaramlError, RecordError) as error:
        name = " ".join(["caraml", *words[:2]])  # a removed subcommand looks like a folder
        say(removed_words(name, REMOVED) if name in REMOVED else error)
    except OSError as error:
        say(f"'{error.filename}': {error.strerror}" if error.filename else error)
    return 2


def _check_out(path: Path | None) -> None:
    """Raise CaramlError, before any work, if the folder of the file to write does not exist."""
    if path and not path.parent.is_dir():
        raise CaramlError(f"--out {path}: there is no folder '{path.parent}': make it first")


class _Parser(HelpfulParser):
    """Parser that reports a wrong command line in one sentence, and accepts no abbreviated flag."""

    removed = REMOVED

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"caraml: {self._explained(message)}; '{self.prog} --help' lists the options\n")


def _workloads() -> str:
    """Return a line on each workload; nothing if they cannot be read, so that the help on commands still works."""
    try:
        known = [f"  {facts.title}: jube/{facts.workflow}.yaml\n" for facts in workloads().values()]
    except (ImportError, RecordError):
        return ""
    return f"workloads:\n{''.join(known)}\n"


def _by_name(known: dict[str, Group]) -> dict[str, Command]:
    return {name: command for group in known.values() for name, command in group.items()}


def _parser(known: dict[str, Group]) -> argparse.ArgumentParser:
    by_name = _by_name(known)
    width = max(map(len, by_name)) + 2
    overview = "\n\n".join(
        "\n".join(
            [f"{title}:", *(f"  {name:{width}}{command.help}" for name, command in group.items() if command.is_listed)]
        )
        for title, group in known.items()
    )
    parser = _Parser(
        prog="caraml",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXIT_CODES,
        usage="caraml [-h] [--version] COMMAND ...",
        description="Check what a machine needs for the benchmarks, wait for sweeps, and evaluate their results.\n\n"
        f"{overview}\n\n{_workloads()}'caraml COMMAND --help' describes one.",
    )
    parser.add_argument("--version", action="version", version=f"caraml {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", help=argparse.SUPPRESS, prog="caraml")
    for name, command in by_name.items():
        added = commands.add_parser(name, description=command.description)
        for add in command.arguments:
            add(added)
    return parser
