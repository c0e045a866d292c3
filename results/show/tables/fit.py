"""Make a table of text fit a terminal: align it, and wrap its headings and its longest texts."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from itertools import zip_longest

WIDTH = 120  # characters of a line that goes to no terminal; a table that cannot be as narrow has one line for each row
NARROW = 12  # characters: a text is not wrapped to less, or to the longest word
NO_BREAK = "\u00a0"
TOGETHER = re.compile(r" (?=[±%])")  # spaces at which a line is not broken


def aligned(
    lines: Sequence[Sequence[str]],
    place: Callable[[str, int], str] = str.rjust,
    gap: str = " | ",
    rule_gap: str = "-+-",
) -> str:
    """Return rows as lines of aligned columns; the first row is the header.

    Headings of a table that is wider than the terminal take two lines; then long texts are wrapped, if that helps.
    """
    widths = _widths(lines, len(gap))
    header, *body = [_wrapped(line, widths, place, gap) for line in lines]
    rule = rule_gap.join("-" * width for width in widths)
    return "\n".join([*header, rule, *(line for row in body for line in row)])


def _widths(lines: Sequence[Sequence[str]], gap: int) -> list[int]:
    """Return the width of each column; the widest ones are reduced, by no more than their longest word allows."""
    columns = list(zip(*lines, strict=True))
    gaps = gap * (len(columns) - 1)
    room = shutil.get_terminal_size((WIDTH, 0)).columns - gaps
    widths = [max(map(len, column)) for column in columns]
    if sum(widths) <= room:
        return widths
    widths = [max(_heading_width(title), *map(len, texts), 0) for title, *texts in columns]
    words = [max(len(line) for text in column for line in _lines(text, 1)) for column in columns]
    least = [max(word, min(width, NARROW)) for word, width in zip(words, widths, strict=True)]
    if sum(least) > max(room, WIDTH - gaps):
        return widths
    while sum(widths) > room and widths != least:
        reducible = [at for at, width in enumerate(widths) if width > least[at]]
        widths[max(reducible, key=widths.__getitem__)] -= 1
    return widths


def _heading_width(title: str) -> int:
    """Return the width at which a title takes two lines at most."""
    words = TOGETHER.sub(NO_BREAK, title).split(" ")
    halves = [(" ".join(words[:at]), " ".join(words[at:])) for at in range(1, len(words) + 1)]
    return min((max(map(len, half)) for half in halves), default=0)


def _wrapped(line: Sequence[str], widths: Sequence[int], place: Callable[[str, int], str], gap: str) -> list[str]:
    cells = [_lines(text, width) for text, width in zip(line, widths, strict=True)]
    return [gap.join(map(place, row, widths)).rstrip() for row in zip_longest(*cells, fillvalue="")]


def _lines(text: str, width: int) -> list[str]:
    """Return a text in lines of a width, if its words allow that."""
    if len(text) <= width:
        return [text]
    return [
        line.replace(NO_BREAK, " ")
        for line in textwrap.wrap(TOGETHER.sub(NO_BREAK, text), width, break_long_words=False)
    ]
