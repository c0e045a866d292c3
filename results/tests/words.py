"""Findings as the sentences that a reader sees, which most tests compare."""

from __future__ import annotations

from results.points import repeats
from results.verdicts import quality, ranking


def deviations(*arguments):
    return list(map(str, quality.deviations(*arguments)))


def unsteady(times_s):
    return list(map(str, repeats.unsteady(times_s)))


def why_not_ranked(*arguments):
    return str(quality.why_not_ranked(*arguments) or "")


def why_left_out(point):
    return str(ranking.why_left_out(point) or "")
