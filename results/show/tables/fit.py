"""Make a table of text fit a terminal: choose its columns, and wrap its headings and its longest texts."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import pairwise, zip_longest
from typing import NamedTuple

from results.record.values import count

WIDTH = 120  # characters of a line that goes to no terminal; a table that cannot be as narrow has one line for each row
NARROW = 12  # characters: a text is not wrapped to less, or to the longest word
NO_BREAK = "\u00a0"
TOGETHER = re.compile(r"(?<=±) | (?=%)")  # spaces at which a line is not broken
STATUS = "status"  # title of the column with the outcome
PARTS = ", "  # between the parts of a text, such as the options of a run
GROUP = 2  # leading columns, the system and the model, within which Shown.WITHIN looks for differences


class Shown(Enum):
    """When a table without --all has a column."""

    ALWAYS = "in every table"
    DIFFERS = "if rows differ in it; what all rows have in common is stated once below the table"
    WITHIN = "if rows of one system and model differ in it; else stated once if all rows have the same value"
    MORE = "only with --all"


class View(NamedTuple):
    """A header and rows of text, and sentences on the columns that are left out."""

    lines: list[list[str]]
    notes: Sequence[str] = ()


def without_empty_columns(lines: Sequence[Sequence[str]], without: Sequence[str] = ()) -> list[list[str]]:
    """Return a header and rows without empty columns, and without the columns with the given titles."""
    header, *body = lines
    return _chosen(lines, [at for at in _filled(lines) if header[at] not in without] if body else [])


def _filled(lines: Sequence[Sequence[str]]) -> list[int]:
    header, *body = lines
    return [at for at in range(len(header)) if any(row[at] for row in body)]


def _chosen(lines: Sequence[Sequence[str]], columns: Sequence[int]) -> list[list[str]]:
    return [[line[at] for at in columns] for line in lines]


def view(lines: Sequence[Sequence[str]], shown: Sequence[Shown], everything: bool = False) -> View:
    """Return the columns of a table that a reader needs, without empty ones.

    `shown` has an entry for each column. With `everything`, only empty columns are left out. Empty cells of a failed
    run count as no difference.
    """
    filled = _filled(lines)
    if everything:
        return View(_chosen(lines, filled))
    header, *body = lines
    good = [STATUS not in header or row[header.index(STATUS)] == "ok" for row in body]
    kept, notes, hidden = [], [], 0
    for at in filled:
        texts = [row[at] for row in body]
        known = [
            (text, tuple(row[:GROUP])) for text, row, is_good in zip(texts, body, good, strict=True) if text or is_good
        ]
        common = _in_common([text for text, _ in known]) if shown[at] in (Shown.DIFFERS, Shown.WITHIN) else []
        if shown[at] is Shown.DIFFERS:
            texts = [_without(text, common) for text in texts]
        is_needed = _is_needed(shown[at], texts, known)
        if is_needed:
            kept.append([header[at], *texts])
        if common and (shown[at] is Shown.DIFFERS or not is_needed):
            notes.append(f"{header[at]} {PARTS.join(common)}")
        elif not is_needed:
            hidden += 1
    which = "all rows" if all(good) else "all rows that have it"
    said = [f"In {which}: {'; '.join(notes)}."] if notes else []
    if hidden:
        said.append(f"{count(hidden, 'more column')}: --all shows {'it' if hidden == 1 else 'them'}.")
    return View([list(line) for line in zip(*kept, strict=True)], said)


def _in_common(texts: Sequence[str]) -> list[str]:
    """Return the parts that all texts have, in the order of the first text."""
    return [part for part in texts[0].split(PARTS) if part and all(part in text.split(PARTS) for text in texts)]


def _without(text: str, parts: Sequence[str]) -> str:
    return PARTS.join(part for part in text.split(PARTS) if part not in parts)


def _is_needed(shown: Shown, texts: Sequence[str], known: Sequence[tuple[str, tuple[str, ...]]]) -> bool:
    """Return whether a column is shown; `known` has the known values, each with the system and model of its row."""
    if shown is Shown.WITHIN:
        return len(set(known)) > len({group for _, group in known})
    return shown is Shown.ALWAYS or (shown is Shown.DIFFERS and any(texts))


def once_each(lines: Sequence[Sequence[str]], number: int) -> list[list[str]]:
    """Return rows whose first cells are empty if all of them are those of the row above."""
    header, *_ = lines
    return [
        list(header),
        *(
            [*[""] * number, *row[number:]] if above[:number] == row[:number] else list(row)
            for above, row in pairwise(lines)
        ),
    ]


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
