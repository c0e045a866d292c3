"""Rows of CSV files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path


def csv_rows(path: Path, expected: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return the rows of a CSV file by the titles in its first line, which must be the expected ones if there are any.

    Raises ValueError for other titles, and for a row with another number of fields: a decimal comma moves later ones.
    """
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        titles, found = next(reader, []), []
        if expected and titles != [*expected]:
            raise ValueError(f"{path} has the titles {','.join(titles)!r:.80}, but needs {','.join(expected)}")
        for row in filter(None, reader):
            if len(row) != len(titles):
                raise ValueError(f"{path}, line {reader.line_num}: {len(row)} fields below {len(titles)} titles")
            found.append(dict(zip(titles, row, strict=True)))
    return found
