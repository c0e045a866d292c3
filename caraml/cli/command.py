"""Subcommands: a function, whose docstring is the help, and its options."""

from __future__ import annotations

import argparse
import inspect
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from jpwr.messages import printable

Run = Callable[[argparse.Namespace], int]
Argument = Callable[[Any], object]  # adds itself to a parser


class Command(NamedTuple):
    """One subcommand: the function that runs it, and its arguments."""

    run: Run
    arguments: tuple[Argument, ...]
    is_listed: bool = True  # in the overview of commands

    @property
    def description(self) -> str:
        """Description of the command, in one sentence."""
        return inspect.getdoc(self.run) or ""

    @property
    def help(self) -> str:
        """The description as an entry of a list."""
        return self.description[:1].lower() + self.description[1:].rstrip(".")


class Group(dict[str, Command]):
    """Subcommands by name, in the order in which the help lists them."""

    def command(self, *arguments: Argument, is_listed: bool = True) -> Callable[[Run], Run]:
        """Return a decorator that adds a function as a subcommand."""

        def add(run: Run) -> Run:
            self[run.__name__.strip("_").replace("_", "-")] = Command(run, arguments, is_listed)
            return run

        return add


def argument(*names: str, **settings: Any) -> Argument:
    """Describe an argument as argparse has it."""
    return lambda parser: parser.add_argument(*names, **settings)


def file(name: str, help: str, **settings: Any) -> Argument:
    """Describe an argument that is a file."""
    return argument(name, type=Path, metavar="FILE", help=help, **settings)


def repeated(name: str, metavar: str, help: str, **settings: Any) -> Argument:
    """Describe an option that may be given several times."""
    return argument(name, action="append", default=[], metavar=metavar, help=help, **settings)


def flag(name: str, help: str) -> Argument:
    """Describe an option without a value."""
    return argument(name, action="store_true", help=help)


def either(*arguments: Argument) -> Argument:
    """Describe arguments of which only one may be given."""

    def add(parser: Any) -> None:
        group = parser.add_mutually_exclusive_group()
        for one in arguments:
            one(group)

    return add


def above_0(text: str) -> float:
    """Return the number above 0 in a text; raises ArgumentTypeError for another text."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def percent(text: str) -> float:
    """Return the percentage in a text; raises ArgumentTypeError for another text, and for a share such as 0.95."""
    value = above_0(text)
    if not 1 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 1 to 100")
    return value


A_SWEEP = "such as jube/llm_run/000000, or jube/llm_run for its last run"


def folders(more: str = "", **settings: Any) -> Argument:
    """Describe the folders of results that a command reads."""
    return argument("folders", type=Path, metavar="FOLDER", **{"nargs": "+", "help": A_SWEEP + more, **settings})


def say(sentence: object) -> None:
    """Print on stderr, with unprintable characters escaped: names in an archive can hold any."""
    print("caraml:", "\n".join(printable(line) for line in str(sentence).split("\n")), file=sys.stderr)
