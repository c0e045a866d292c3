"""A system of which nothing was measured, or another model on one that was: from datasheets, and points of others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from results.points.estimate import CONFIDENCE
from results.prediction.datasheet import Datasheet, Example, Hardware
from results.prediction.examples import examples
from results.prediction.step_work import Work

OWN = "these runs"
PRECISIONS = ("bf16", "fp16", "fp8")  # of the published points
# Of these runs, where nothing was published: so many devices' datasheets, and so many points that were left out.
FEWEST_DEVICES, FEWEST_ERRORS = 3, 19
KNOWN_SOFTWARE, OTHER_SOFTWARE = "another device, software known", "software of which no point is known"


class Missed(NamedTuple):
    """A published point, predicted without its device in that software, or without its software."""

    source: str
    device: str
    what: str
    error: float  # logarithm of predicted by measured throughput


@cache
def missed(benchmark: str) -> list[Missed]:
    """Of every published point of a workload."""
    known = examples(benchmark)
    found = []
    for source in dict.fromkeys(one.source for one in known):
        mine = [one for one in known if one.source == source]
        found += _without_each_device(known, mine)
        if len(mine) < len(known):
            found += missed_of([one for one in known if one.source != source], mine, OTHER_SOFTWARE)
    return found


def _without_each_device(known: Sequence[Example], mine: Sequence[Example]) -> list[Missed]:
    """Points of a source, each predicted from all that are known but those of its device in that source."""
    devices = dict.fromkeys(one.hardware.name for one in mine)
    found = []
    for device in devices if len(devices) > 1 else ():
        left = [one for one in mine if one.hardware.name == device]
        found += missed_of([one for one in known if one not in left], left, KNOWN_SOFTWARE)
    return found


def missed_of(kept: Sequence[Example], left: Sequence[Example], what: str) -> list[Missed]:
    """Points, each predicted from those that are kept."""
    sheet = Datasheet(kept)
    return [
        Missed(
            one.source,
            one.hardware.name,
            what,
            math.log(one.step_s / sheet.step_s(one.work, one.hardware, one.devices, one.source)),
        )
        for one in left
    ]


def half_of(errors: Sequence[Missed]) -> float:
    """Half of the interval of a logarithm: so large are errors in CONFIDENCE of all cases, each source counted alike.

    Points of one source are off together, so a source with many of them tells no more than one with few. Infinite
    without errors.
    """
    counts = Counter(one.source for one in errors)
    weight = 0.0
    for one in sorted(errors, key=lambda one: abs(one.error)):
        weight += 1 / (counts[one.source] * len(counts))
        if weight >= CONFIDENCE:
            return abs(one.error)
    return math.inf


class Step(NamedTuple):
    """A predicted step: its time, half of the interval of its logarithm, and what was left out to find that."""

    step_s: float
    half: float
    what: str


def predict_step(
    benchmark: str, work: Work, hardware: Hardware, devices: int, own: Sequence[Example] = ()
) -> Step | None:
    """Of a step on a device that is known by its datasheet; None where too little is known of the workload."""
    known = [*examples(benchmark), *own]
    what = KNOWN_SOFTWARE if own else OTHER_SOFTWARE
    errors = [one for one in missed(benchmark) if one.what == what]
    if not errors and len({one.hardware.name for one in own}) >= FEWEST_DEVICES:
        errors = _without_each_device(own, own)
    if len(errors) < FEWEST_ERRORS:
        return None
    return Step(Datasheet(known).step_s(work, hardware, devices, OWN), half_of(errors), what)
