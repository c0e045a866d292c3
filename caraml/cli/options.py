"""Arguments that several commands have, and what a command prints."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from jpwr.messages import printable

A_SWEEP = "such as jube/llm_run/000000, or jube/llm_run for its last run"
REQUIREMENTS = "requirements, in the form of examples/requirements.yaml"
JSON = "print JSON for programs, with all digits"
Parser = argparse.ArgumentParser


def add_folders(parser: Parser, help: str = A_SWEEP, **settings: Any) -> None:
    """Add the folders of results that a command reads."""
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help=help, **settings)


def add_file(parser: Parser, name: str, help: str, **settings: Any) -> None:
    """Add an argument that is a file."""
    parser.add_argument(name, type=Path, metavar="FILE", help=help, **settings)


def add_flag(parser: Any, name: str, help: str) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=help)


def add_out(parser: Parser, help: str = "default: %(default)s", default: str | None = None) -> None:
    """Add the file that a command writes."""
    path = Path(default) if default else None
    parser.add_argument("-o", "--out", type=Path, default=path, metavar="FILE", help=help)


def add_filter(parser: Parser) -> None:
    """Add the conditions on runs."""
    text = "only runs that match, such as 'devices=4'; may be repeated"
    parser.add_argument("--filter", action="append", default=[], metavar="'COLUMN=TEXT'", help=text)


def add_meter(parser: Parser) -> None:
    """Add the files of meters."""
    text = "a meter's CSV of timestamp, watts and node: energy at the supply, grade Q3; may be repeated"
    parser.add_argument("--meter", action="append", type=Path, default=[], metavar="FILE", help=text)


def add_node_check(parser: Parser) -> None:
    """Add the folders of node checks."""
    text = "a node check, for the column of achievable FLOP/s; default: those among the results, else published figures"
    parser.add_argument("--node-check", action="append", type=Path, default=[], metavar="FOLDER", help=text)


def add_offers(parser: Parser) -> None:
    """Add the names of offers, and the pledge of a vendor."""
    add_file(parser, "--pledge", "with requirements: a vendor's pledge, in the form of examples/pledge.yaml")
    add_file(parser, "--signers", "refuse the pledge unless one of these signed it: lines of a name and a public key")
    text = "name the offer in a folder; folders with one system tag are several offers, unless they have one name"
    parser.add_argument("--offer", action="append", default=[], metavar="NAME=FOLDER", help=text)


def add_form(parser: Parser, forms: tuple[str, ...], whole: str = "csv has") -> None:
    """Add the form of a table, and whether it has all columns."""
    parser.add_argument(
        "--format", choices=forms, default="text", help=f"{whole} every column and all digits; default: %(default)s"
    )
    add_flag(parser, "--all", "every column; default: those that are always needed, and those that distinguish rows")


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


def say(sentence: object) -> None:
    """Print on stderr, with unprintable characters escaped: names in an archive can hold any."""
    print("caraml:", "\n".join(printable(line) for line in str(sentence).split("\n")), file=sys.stderr)
