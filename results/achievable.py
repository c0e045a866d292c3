"""Achievable FLOP/s of a device, from its node check or published, and the share of them that a run reaches."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from results.record.parts import is_number
from results.record.records import Record
from results.record.values import rounded
from results.verdicts.nodes import MATMUL, NODE_CHECK, is_check, medians

REFERENCE = Path(__file__).parent / "reference" / "achievable.csv"


class Achievable(NamedTuple):
    """The fastest dense product of matrices on one device, in 10^12 FLOP/s, and who measured it."""

    tflops: float
    source: str


def add_achievable(records: Sequence[Record], checks: Iterable[Record] = ()) -> list[str]:
    """Add `metrics.achievable_percent` to each good run whose achievable FLOP/s are known; return their sources.

    `checks` are node checks; those among the records count, too. A system without one has the published figure.
    """
    known = dict(published())
    good = [record for record in (*records, *checks) if is_check(record)]
    for kind, tflops in sorted(medians(good).items(), key=itemgetter(1)):  # of several sizes, the fastest
        known[kind.system, kind.name.removeprefix(MATMUL)] = Achievable(tflops, "its node check")
    used = {}
    for record in records:
        place = record["system"], str(record.get("precision"))
        rate = (record.get("metrics") or {}).get("tflops_per_device")
        if record["status"] == "ok" and record["benchmark"] != NODE_CHECK and place in known and is_number(rate):
            record["metrics"]["achievable_percent"] = 100 * rate / known[place].tflops
            used[place] = known[place]
    return [
        f"achievable on {system} in {precision}: {rounded(one.tflops)} TFLOP/s, from {one.source}"
        for (system, precision), one in used.items()
    ]


@cache
def published() -> dict[tuple[str, str], Achievable]:
    """Return the published figures by system and precision."""
    with REFERENCE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        (system, row["precision"]): Achievable(float(row["tflops"]), row["source"])
        for row in rows
        for system in row["systems"].split()
    }
