from __future__ import annotations

import pytest

from results.files.quantities import Quantity, Shown
from results.show.tables.cells import Table, aligned

ALWAYS, DIFFERS, MORE = Shown


def table(mark, *rows, titles=("system", "model", "x", "status")):
    return Table([Quantity(title, shown=mark if title == "x" else ALWAYS) for title in titles], rows)


def shown(mark, *rows):
    """The cells of column x that are shown, or None, and the sentences on it."""
    found = table(mark, *rows).needed()
    lines = found.texts()
    return ([row[2] for row in lines[1:]] if "x" in lines[0] else None), list(found.notes)


@pytest.mark.parametrize(
    ("mark", "rows", "cells", "notes"),
    [
        (ALWAYS, [("A", "m", "1", "ok"), ("B", "m", "1", "ok")], ["1", "1"], []),
        (ALWAYS, [("A", "m", "", "ok")], None, []),
        (MORE, [("A", "m", "1", "ok"), ("A", "m", "2", "ok")], None, ["1 more column: --all shows it."]),
        (DIFFERS, [("A", "m", "1", "ok"), ("B", "m", "1", "ok")], None, ["In all rows: x 1."]),
        (DIFFERS, [("A", "m", "1", "ok"), ("B", "m", "2", "ok")], ["1", "2"], []),
        # A run without an option differs from one with it; one that failed too early to have it does not.
        (DIFFERS, [("A", "m", "1", "ok"), ("A", "m", "", "ok")], ["1", ""], []),
        (DIFFERS, [("A", "m", "1", "ok"), ("A", "m", "", "failed")], None, ["In all rows that have it: x 1."]),
        (DIFFERS, [("A", "m", ["a", "b"], "ok"), ("A", "m", ["b"], "ok")], ["a", ""], ["In all rows: x b."]),
        # A text is one fact, also with a comma.
        (DIFFERS, [("A", "m", "a, b", "ok"), ("A", "m", "b", "ok")], ["a, b", "b"], []),
        (DIFFERS, [("A", "m", "", "failed"), ("A", "m", "", "failed")], None, []),
    ],
)
def test_a_column_is_shown_where_its_mark_and_its_values_say_so(mark, rows, cells, notes):
    assert shown(mark, *rows) == (cells, notes)


def test_with_everything_only_empty_columns_are_left_out():
    found = table(MORE, ["A", "m", "1", "ok"])
    assert found.needed(everything=True).texts() == found.texts()
    assert table(MORE, ["A", "m", "", "ok"]).needed(everything=True).titles == ["system", "model", "status"]


WORDS = "compiled layers, CUDA graph, cuDNN attention"


def test_a_table_is_wrapped_only_as_far_as_the_terminal_asks(monkeypatch):
    table = [["avg power [W]", "options"], ["687.0 ±12 %", WORDS]]
    monkeypatch.setenv("COLUMNS", "80")
    assert aligned(table).splitlines()[2:] == [f"  687.0 ±12 % | {WORDS}"]
    monkeypatch.setenv("COLUMNS", "28")
    assert aligned(table).splitlines() == [
        "   avg power |       options",
        "         [W] |",
        "-------------+--------------",
        " 687.0 ±12 % |      compiled",
        "             |  layers, CUDA",
        "             |  graph, cuDNN",
        "             |     attention",
    ]


def test_a_table_that_cannot_fit_has_one_line_for_each_row(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    table = [[f"column {number}" for number in range(20)], [WORDS] * 20]
    assert len(aligned(table).splitlines()) == 3
