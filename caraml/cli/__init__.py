"""The command line of `caraml`: each module of this package has commands; __main__.py starts it.

A command is a function, whose docstring is its help. A module's `add_commands(add)` adds each by `add(function)`, which
returns the parser for its arguments.
"""

from __future__ import annotations

import argparse
import inspect
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from caraml.cli.options import say
from caraml.errors import CaramlError, SchedulerError
from caraml.installation import missing_package
from jpwr import __version__
from jpwr.process.parser import HelpfulParser
from record.files import RecordError
from results.files.workloads import workloads

EXIT_CODES = f"""exit codes:
  0    done
  1    a point failed, a requirement or pledge is not met, a device is slow, a file has changed or is refused
  2    the command cannot do what was asked: one sentence on stderr gives the reason
  3    accept, compare, check-nodes, history: it cannot be decided; wait: not ended within --limit
  {os.EX_SOFTWARE}   an internal error: no result
  130  interrupted"""
GROUPS = {
    "Before the first job": ("machine",),
    "While a sweep runs": ("sweeps",),
    "With its results": ("tables", "verdicts", "predictions", "archives"),
}
HIDDEN = ("plan",)  # for workflows and scripts
Command = Callable[[argparse.Namespace], int]


class Parser(HelpfulParser):
    """Parser that reports a wrong command line in one sentence, and accepts no abbreviated flag."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"caraml: {message}; '{self.prog} --help' lists the options\n")


def commands(wanted: str = "", parent: Any = None) -> dict[str, dict[str, Parser]]:
    """Return the parsers of commands by group and name; with a wanted one, no module after its own is loaded.

    JUBE plans each step by a command.
    """
    parent = parent or Parser().add_subparsers()
    found: dict[str, dict[str, Parser]] = {}
    for title, modules in GROUPS.items():
        group = found[title] = {}

        def add(run: Command, group: dict[str, Parser] = group) -> Parser:
            name = run.__name__.strip("_").replace("_", "-")
            group[name] = parent.add_parser(name, description=inspect.getdoc(run))
            group[name].set_defaults(run=run)
            return group[name]

        for module in modules:
            import_module(f"{__name__}.{module}").add_commands(add)
            if wanted in group:
                return found
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    words = sys.argv[1:] if argv is None else argv
    parser = Parser(
        prog="caraml",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="caraml [--help] [--version] COMMAND ...",
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"caraml {__version__}", help=argparse.SUPPRESS)
    parent = parser.add_subparsers(dest="command", metavar="COMMAND", help=argparse.SUPPRESS, prog="caraml")
    known = commands(words[0] if words else "", parent)
    parser.description, parser.epilog = _overview(known), EXIT_CODES
    options = parser.parse_args(words)
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        _check_out(getattr(options, "out", None))
        return int(options.run(options))
    except BrokenPipeError:  # the reader, such as head, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except SchedulerError as error:
        say(f"{error}: ask again when it does")
    except ImportError as error:
        say(missing_package(error))
    except (CaramlError, RecordError) as error:
        say(error)
    except OSError as error:
        say(f"'{error.filename}': {error.strerror}" if error.filename else error)
    return 2


def _check_out(path: Path | None) -> None:
    """Raise CaramlError, before any work, if the folder of the file to write does not exist."""
    if path and not path.parent.is_dir():
        raise CaramlError(f"--out {path}: there is no folder '{path.parent}': make it first")


def _overview(known: dict[str, dict[str, Parser]]) -> str:
    """Return a line on each command, and one on the workflows if the facts of workloads can be read."""
    width = max(len(name) for group in known.values() for name in group) + 2
    lines = [
        "Check a machine, wait for sweeps, and evaluate their results; 'caraml COMMAND --help' describes a command."
    ]
    for title, group in known.items():
        lines += ["", f"{title}:"]
        for name, parser in group.items():
            text = str(parser.description)
            lines += [] if name in HIDDEN else [f"  {name:{width}}{text[:1].lower()}{text[1:].rstrip('.')}"]
    try:
        workflows = dict.fromkeys(f"{facts.workflow}.yaml" for facts in workloads().values())
    except (ImportError, RecordError):
        workflows = {}
    return "\n".join([*lines, *(["", f"Workflows in jube/: {', '.join(workflows)}"] if workflows else [])])
