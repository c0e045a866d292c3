"""Verdicts on devices and nodes as a table, as sentences, and as data for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from record.values import rounded
from results.files.quantities import Quantity, Shown, quantities
from results.show.tables.accept import MARKS
from results.show.tables.cells import Cell, Table
from results.verdicts.nodes import MATMUL, Kind, NodeVerdict, Subject
from results.verdicts.outcome import Outcome

# From the worst outcome to the best.
WORDS = {Outcome.FAILED: "slow", Outcome.UNDECIDED: "undecided", Outcome.PASSED: "ok", None: "not compared"}
MARKED = (Outcome.FAILED, Outcome.UNDECIDED)
FIGURES = 6  # that fit a terminal
Unlike = Mapping[Subject, Sequence[str]]  # what differs on a device


def node_table(verdicts: Sequence[NodeVerdict]) -> Table:
    """Return a row for each device, node and all nodes, with a mark at each figure that is not ok.

    Of more than FIGURES figures, only those that are slow or undecided somewhere are needed.
    """
    titles = list(dict.fromkeys(_title(one.kind) for one in verdicts))
    rows: list[list[Cell]] = []
    for subject in dict.fromkeys(one.subject for one in verdicts):
        mine = [one for one in verdicts if one.subject == subject]
        worst = min((one.outcome for one in mine), key=list(WORDS).index)
        # Checks with matrices or messages of different sizes share a column.
        cells = [" / ".join(_marked(one) for one in mine if _title(one.kind) == title) for title in titles]
        rows.append([*subject, *cells, f"{MARKS[worst]} {WORDS[worst]}" if worst else WORDS[worst]])
    marked = {_title(one.kind) for one in verdicts if one.outcome in MARKED}
    hidden = {title for title in titles if title not in marked} if len(titles) > FIGURES else set()
    figures = [Quantity(title, shown=Shown.MORE if title in hidden else Shown.ALWAYS) for title in titles]
    return Table(quantities("system", "node", "device", *figures, "verdict"), rows)


def _title(kind: Kind) -> str:
    of = f" of {kind.ranks}" if kind.ranks > 2 else ""
    return f"{kind.name.removeprefix(MATMUL).replace('_', ' ')}{of} [{kind.unit}]"


def _full_title(kind: Kind) -> str:
    return _title(kind) + (f" of {kind.matrices}" if kind.matrices else "")


def _marked(one: NodeVerdict) -> str:
    return f"{MARKS[one.outcome]} {_value(one)}" if one.outcome in MARKED else _value(one)


def _value(one: NodeVerdict) -> str:
    return rounded(one.value, one.interval.half if one.interval else None)


def node_sentences(verdicts: Sequence[NodeVerdict], unlike: Unlike, missing: Sequence[Kind] = ()) -> list[str]:
    """Return a sentence on each figure that is slow or undecided, with what differs on its device.

    missing: figures that the baseline lacks.
    """
    found = []
    for one in verdicts:
        if one.outcome in MARKED:
            share = f" {_value(one)} {one.kind.unit} is {one.percent:.1f} % of {one.against}" if one.percent else ""
            words = [f"{one.subject}: {WORDS[one.outcome]}: {one.kind.name.replace('_', ' ')}{share}", one.reason]
            words += [f"what differs: {', '.join(facts)}"] if (facts := unlike.get(one.subject)) else []
            found.append("; ".join(filter(None, words)))
    if lacking := dict.fromkeys(map(_full_title, missing)):
        found.append(f"not compared with the baseline, which lacks them: {', '.join(lacking)}")
    alone = dict.fromkeys(_full_title(one.kind) for one in verdicts if one.outcome is None)
    if alone:
        found.append(f"not compared, as there is one of each: {', '.join(alone)}: give --baseline FILE")
    return found


def node_data(verdicts: Sequence[NodeVerdict], unlike: Unlike) -> list[dict[str, Any]]:
    """Return each verdict with all digits, None where there is no number, and with what differs on its device."""
    found = []
    for one in verdicts:
        data = one._asdict() | {"outcome": WORDS[one.outcome], "percent": one.percent}
        subject, kind = data.pop("subject"), data.pop("kind")
        found.append({**subject._asdict(), **kind._asdict(), **data, "differs": list(unlike.get(subject, []))})
    return found
