"""Rows of CSV files."""

from __future__ import annotations

import csv
from pathlib import Path


def csv_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file by the titles in its first line.

    Raises ValueError for a row with another number of fields: a decimal comma, for one, would move all further ones.
    """
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        titles, found = next(reader, []), []
        for row in filter(None, reader):
            if len(row) != len(titles):
                raise ValueError(f"{path}, line {reader.line_num}: {len(row)} fields below {len(titles)} titles")
            found.append(dict(zip(titles, row, strict=True)))
    return found
