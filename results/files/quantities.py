"""Each quantity of a record, of a point or of a verdict, once: who shows, requires or follows one asks here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple, TypeVar

from jpwr.messages import near
from record.files import RecordError, csv_rows

CATALOGUE = Path(__file__).with_suffix(".csv")
Key = TypeVar("Key")


class Shown(Enum):
    """When a table without --all has a column."""

    ALWAYS = "in every table"
    DIFFERS = "if rows differ in it; what all rows have in common is stated once below the table"
    MORE = "only with --all"


class Quantity(NamedTuple):
    """A quantity or fact: the column of a table, a limit of a requirement, the axis of a plot."""

    title: str  # {unit} stands for the record's unit of work, here, in `unit` and in `path`
    unit: str = ""
    path: str = ""  # keys from the top of a record, joined by dots; empty: no value of a record
    form: str = ""  # format specification of the number of one run
    shown: Shown = Shown.ALWAYS
    better: str = ""  # more or less; empty: neither
    kind: str = "text"  # or count, number, answer, time
    required_as: str = ""  # name in a requirements file
    help: str = ""
    original: str = ""  # title in the original suite's table, whose columns are in the order of the catalogue

    @property
    def heading(self) -> str:
        """Title with the unit, which a title such as tokens/s states itself."""
        return f"{self.title} [{self.unit}]" if self.unit and "/" not in self.title else self.title

    def of(self, unit: str) -> Quantity:
        """Return the quantity for a unit of work."""
        title, of_it = (
            text.replace("{unit}", unit).replace("{Unit}", unit.capitalize()) for text in (self.title, self.unit)
        )
        return self._replace(title=title, unit=of_it)


def _read() -> Iterator[tuple[str, Quantity]]:
    for row in csv_rows(CATALOGUE):
        name, shown = row.pop("name"), Shown[row.pop("shown").upper() or "ALWAYS"]
        known = {"kind": "number"} if row["form"] else {}
        known |= {key: value for key, value in row.items() if value}
        yield name, Quantity(**{"title": name, **known}, shown=shown)


QUANTITIES = dict(_read())  # by name: that of a column in a data frame


def only_match(title: str, names: Mapping[Key, Sequence[str]]) -> Key:
    """Return which of several columns has a name; raises RecordError if none has, or several."""
    matching = [column for column, of_column in names.items() if title in of_column]
    if not matching:
        known = dict.fromkeys(of_column[0] for of_column in names.values())
        raise RecordError(f"there is no column {title!r}: {near(title, known)}")
    if len(matching) > 1:
        raise RecordError(f"{len(matching)} columns are called {title!r}: choose another")
    return matching[0]


def quantities(*named: str | Quantity) -> list[Quantity]:
    """Return quantities by name; a name that the catalogue lacks is the title of a column without an explanation."""
    return [one if isinstance(one, Quantity) else QUANTITIES.get(one) or Quantity(one) for one in named]
