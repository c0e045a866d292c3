"""A table of values, and its renderings, which alone make text of values."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, TypeAlias

from record.values import count, rounded
from results.files.quantities import Quantity, Shown, only_match
from results.frames import csv_text
from results.points.estimate import Estimate, Interval

FORMS = ("text", "csv", "markdown", "html")
LEAST_PERCENT = 0.01  # half-width of an interval: a smaller one is shown as this
STATUS = "status"  # title of the column with the outcome
WIDTH = 120  # characters of a line that goes to no terminal; of a wider table, headings alone are wrapped
NARROW = 12  # characters: a text is not wrapped to less, or to the longest word
GAP = " | "


# A sequence is a list of facts; a number without an interval has the format of its column.
Cell: TypeAlias = str | bool | int | float | Estimate | Interval | Sequence[str] | None


def text_of(cell: Cell, form: str = "") -> str:
    """Return a cell as text: a number in the format of its column, or with the digits that its interval supports."""
    if isinstance(cell, bool):
        return "yes" if cell else "NO"
    if isinstance(cell, int) and not form:
        return str(cell)
    if isinstance(cell, int | float):
        return "" if not math.isfinite(cell) else format(cell, form) if form else rounded(cell)
    if isinstance(cell, Interval):
        return " to ".join(rounded(end, cell.half) if math.isfinite(end) else "no bound" for end in cell)
    if isinstance(cell, Estimate):
        half = cell.interval.half if cell.interval else None
        return rounded(cell.value, half) + ("" if half is None else f" {half_text(cell.value, half)}")
    return cell if isinstance(cell, str) else ", ".join(cell or ())


def half_text(value: float, half: float) -> str:
    """Return the half-width of an interval in percent of the value."""
    return f"±{max(LEAST_PERCENT, 100 * abs(half / value)):.2g} %" if value else ""


def is_number(cell: Cell) -> bool:
    """Return whether a cell is a number or an interval."""
    return isinstance(cell, int | float | Estimate | Interval)


def is_known(cell: Cell) -> bool:
    """Return whether a cell is not empty."""
    return math.isfinite(cell) if isinstance(cell, float) else cell is not None and cell not in ("", (), [])


def sort_value(cell: Cell) -> float | str | None:
    """Return what rows are sorted by: the number, where there is one."""
    if isinstance(cell, Estimate):
        return cell.value
    if isinstance(cell, Interval):
        return cell.low
    return cell if cell is None or isinstance(cell, int | float) else text_of(cell)


@dataclass(frozen=True)
class Table:
    """Columns, rows of values, and sentences on the columns that are left out. False without a row."""

    columns: Sequence[Quantity]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    units: Collection[str] = ()  # of work, in the headings

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def titles(self) -> list[str]:
        """Headings of the columns."""
        return [one.of(" or ".join(self.units)).heading for one in self.columns]

    def at(self, title: str) -> int:
        """Return the index of the column with a title or path; raises RecordError if there is none, or several."""
        names = {
            at: [*(column.of(unit).heading for unit in sorted(self.units)), column.heading, column.path]
            for at, column in enumerate(self.columns)
        }
        return only_match(title.strip(), names)

    def order(self, title: str, largest_first: bool = False) -> list[int]:
        """Return the numbers of the rows sorted by a column, texts after numbers, rows without a value last."""
        at = self.at(title)
        keys: dict[int, Any] = {}
        for number, row in enumerate(self.rows):
            if is_known(row[at]):
                value = sort_value(row[at])
                keys[number] = isinstance(value, str), value
        by_value = sorted(keys, key=keys.__getitem__, reverse=largest_first)
        return [*by_value, *(number for number in range(len(self.rows)) if number not in keys)]

    def texts(self) -> list[list[str]]:
        """Return the headings and the rows as text."""
        forms = [one.form for one in self.columns]
        return [self.titles, *([*map(text_of, row, forms)] for row in self.rows)]

    def chosen(self, columns: Sequence[int]) -> Table:
        """Return the table with some of its columns."""
        rows = [[row[at] for at in columns] for row in self.rows]
        return replace(self, columns=[self.columns[at] for at in columns], rows=rows)

    def filled(self, without: Sequence[str] = ()) -> Table:
        """Return the table without columns that are empty or have certain titles."""
        return self.chosen(
            [
                at
                for at, one in enumerate(self.columns)
                if one.title not in without and any(is_known(row[at]) for row in self.rows)
            ]
        )

    def needed(self, everything: bool = False, wanted: Sequence[str] = ()) -> Table:
        """Return the columns that a reader needs, with notes on the others; those with the titles `wanted` are needed.

        With `everything`, only empty columns are left out. Empty cells of a failed run count as no difference.
        """
        chosen = [self.at(title) for title in wanted]
        shown = [one._replace(shown=Shown.ALWAYS) if at in chosen else one for at, one in enumerate(self.columns)]
        filled = replace(self, columns=shown).filled()
        return filled if everything else _needed(filled)


def _needed(table: Table) -> Table:
    at = next((at for at, one in enumerate(table.columns) if one.title == STATUS), None)
    good = [at is None or row[at] == "ok" for row in table.rows]
    columns, kept, shared, hidden = [], [], [], 0
    for column, title, cells in zip(table.columns, table.titles, zip(*table.rows, strict=True), strict=True):
        common = _common(column, cells, good) if column.shown is Shown.DIFFERS else []
        left = [[fact for fact in _facts(cell, column) if fact not in common] for cell in cells] if common else cells
        if column.shown is not Shown.MORE and any(map(is_known, left)):
            columns.append(column)
            kept.append(left)
        elif not common:
            hidden += 1
        if common:
            shared.append(f"{title} {', '.join(common)}")
    which = "all rows" if all(good) else "all rows that have it"
    notes = [f"In {which}: {'; '.join(shared)}."] if shared else []
    if hidden:
        notes.append(f"{count(hidden, 'more column')}: --all shows {'it' if hidden == 1 else 'them'}.")
    return Table(columns, list(zip(*kept, strict=True)), notes, table.units)


def _common(column: Quantity, cells: Sequence[Cell], good: Sequence[bool]) -> list[str]:
    """Return the facts of a column that all rows have, to be stated once."""
    facts = [_facts(cell, column) for cell in cells]
    first, *others = [of_row for of_row, is_good in zip(facts, good, strict=True) if of_row or is_good]
    return [fact for fact in first if all(fact in of_row for of_row in others)]


def _facts(cell: Cell, column: Quantity) -> list[str]:
    """Return the facts of a cell, which rows may share, as text."""
    if isinstance(cell, list | tuple) and not isinstance(cell, Estimate | Interval):
        return list(cell)
    return [text] if (text := text_of(cell, column.form)) else []


def rendered(table: Table, form: str, place: Callable[[str, int], str] = str.rjust) -> str:
    """Return a table in one of FORMS, with the sentences on its other columns in text alone."""
    if form == "text":
        return "\n".join([aligned(table.texts(), place), *table.notes])
    if form == "csv":
        return _csv(table)
    if form == "html":
        import pandas

        header, *body = table.texts()
        return str(pandas.DataFrame(body, columns=header).to_html(index=False, border=0))
    lines = [[field.replace("|", "\\|").replace("\n", " ") for field in line] for line in table.texts()]
    lines.insert(1, ["---"] * len(table.columns))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _csv(table: Table) -> str:
    """Return a table for programs: truth as True and False, numbers with all digits."""
    import pandas

    rows = [[cell if isinstance(cell, int | float) else text_of(cell) or None for cell in row] for row in table.rows]
    frame = pandas.DataFrame(rows, columns=table.titles, dtype="object")
    return csv_text(frame.convert_dtypes()).rstrip("\n")


def aligned(lines: Sequence[Sequence[str]], place: Callable[[str, int], str] = str.rjust) -> str:
    """Return rows as lines of aligned columns, the widest wrapped if the terminal asks; the first row is the header."""
    widths = _widths(lines)
    shown: list[str] = []
    for number, row in enumerate(lines):
        texts = [_lines(text, width) for text, width in zip(row, widths, strict=True)]
        shown += (GAP.join(map(place, line, widths)).rstrip() for line in zip_longest(*texts, fillvalue=""))
        if not number:
            shown.append("-+-".join("-" * width for width in widths))
    return "\n".join(shown)


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column; the widest ones are reduced, by no more than their longest word allows."""
    columns = list(zip(*lines, strict=True))
    gaps = len(GAP) * (len(columns) - 1)
    room = shutil.get_terminal_size((WIDTH, 0)).columns - gaps
    widths = [max(map(len, column)) for column in columns]
    words = [max(len(line) for text in {*column} for line in _lines(text, 1)) for column in columns]
    cells = [max(map(len, texts), default=0) for _, *texts in columns]
    least = [max(word, min(cell, NARROW)) for word, cell in zip(words, cells, strict=True)]
    if sum(least) > 1.25 * max(room, WIDTH - gaps):  # a line of its own for each row is easier to read
        return list(map(max, least, cells))
    while sum(widths) > room and widths != least:
        reducible = [at for at, width in enumerate(widths) if width > least[at]]
        widths[max(reducible, key=widths.__getitem__)] -= 1
    return widths


def _lines(text: str, width: int) -> list[str]:
    """Return a text in lines of a width, if its words allow that; a number stays with its interval and percent."""
    if len(text) <= width:
        return [text]
    together = text.replace(" ±", "\xa0±").replace(" %", "\xa0%")
    return [line.replace("\xa0", " ") for line in textwrap.wrap(together, width, break_long_words=False)]
