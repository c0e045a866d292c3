"""Achievable FLOP/s of a device, from its node check or published, and the share of them that a run reaches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

from record.part import changed
from record.values import rounded
from results.find.records import Record
from results.published import ACHIEVABLE, published
from results.verdicts.nodes import MATMUL, NODE_CHECK, is_check, medians


class Achievable(NamedTuple):
    """The fastest dense product of matrices on one device, in 10^12 FLOP/s, and who measured it."""

    tflops: float
    source: str


def with_achievable(records: Sequence[Record], checks: Iterable[Record] = ()) -> tuple[list[Record], list[str]]:
    """Return records with `metrics.achievable_percent` where the achievable FLOP/s are known, and the sources of these.

    `checks` are node checks; those among the records count, too. A system without one has the published figure.
    """
    known = published_rates()
    good = [record for record in (*records, *checks) if is_check(record)]
    for kind, tflops in sorted(medians(good).items(), key=itemgetter(1)):  # of several sizes, the fastest
        known[kind.system, kind.name.removeprefix(MATMUL)] = Achievable(tflops, "its node check")
    found, used = [], {}
    for record in records:
        place, rate = (record.system, record.precision), record.metrics.number("tflops_per_device")
        if record.is_good and record.benchmark != NODE_CHECK and place in known and rate is not None:
            metrics = changed(record.metrics, achievable_percent=100 * rate / known[place].tflops)
            record = changed(record, metrics=metrics)
            used[place] = known[place]
        found.append(record)
    return found, [
        f"achievable on {system} in {precision}: {rounded(one.tflops)} TFLOP/s, from {one.source}"
        for (system, precision), one in used.items()
    ]


def published_rates() -> dict[tuple[str, str], Achievable]:
    """Return the published figures by system and precision."""
    return {
        (system, figure.precision): Achievable(float(figure.value), figure.source)
        for figure in published()
        if figure.metric == ACHIEVABLE
        for system in figure.systems.split()
    }
