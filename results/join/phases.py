"""Joules per input and per output token of a server in a closed loop, from the energies of slices of its window.

A slice's energy is a times the prompt tokens that were read in it, plus b times the tokens that were written: ordinary
least squares over the slices of one load. Time is no third term: while each request is followed by the next, it is
determined by the tokens. Loads are not pooled either: the cost of a token grows with the length of its context.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from jpwr.intervals import LEVEL, students_t
from results.record.served import Window

SLICE_S = 2.0  # the counters of boards have 0.1 s, so that an edge moves 5 % of a slice
FEWEST_SLICES = 20
WIDEST = 0.5  # half-width of an interval over its value: beyond it, those that happen to be narrow would be biased


def slices_of(start_s: float, end_s: float) -> list[tuple[float, float]]:
    """Return start and end of each slice of a window in seconds; none of a window that is too short."""
    number = int((end_s - start_s) / SLICE_S)
    edges = [start_s + (end_s - start_s) * index / number for index in range(number + 1)] if number else []
    return list(pairwise(edges)) if number >= FEWEST_SLICES else []


def energy_of_phases(window: Window, energies_j: Sequence[float]) -> dict[str, float]:
    """Return joules per prompt token that is read and per token that is written, each with half of its 95 % interval.

    `energies_j` are those of the window's slices, nan if unknown. Empty without slices, or if the mix of both kinds of
    tokens varies too little. The standard errors allow for the energies of neighbouring slices, which share an edge
    (Newey and West, Econometrica 55 (1987) 703, with a lag of 1).
    """
    slices = slices_of(window.start_s, window.end_s)
    if not slices or len(slices) != len(energies_j):
        return {}
    fitted = _fit(*tokens_of(window, [*(begin for begin, _ in slices), slices[-1][1]]), energies_j)
    if fitted is None or not all(half < WIDEST * value for value, half in fitted):  # nan compares false
        return {}
    names = "j_per_token_read", "j_per_token_written"
    return {
        key: number
        for name, (value, half) in zip(names, fitted, strict=True)
        for key, number in ((name, value), (f"{name}_half_width", half))
    }


def tokens_of(window: Window, edges: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return prompt tokens read, evenly from sending to the first token, and tokens written in each slice."""
    first, step = edges[0], edges[1] - edges[0]
    read, written = [0.0] * (len(edges) - 1), [0.0] * (len(edges) - 1)
    for one in window.every:
        took_s = one.times_s[0] - one.sent_s if one.times_s else 0.0
        if took_s > 0:
            last = min(len(read), math.ceil((one.times_s[0] - first) / step))
            for index in range(max(0, int((one.sent_s - first) / step)), last):
                within_s = min(one.times_s[0], edges[index + 1]) - max(one.sent_s, edges[index])
                read[index] += one.asked_input * max(0.0, within_s) / took_s
    for time_s, count in window.output_tokens():
        if first <= time_s < edges[-1]:
            written[min(len(written) - 1, int((time_s - first) / step))] += count
    return read, written


def _fit(
    read: Sequence[float], written: Sequence[float], energies: Sequence[float]
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Return both coefficients with half of their 95 % intervals; None if the mix does not determine them."""
    rows = list(zip(read, written, strict=True))
    xx, xz, zz = (math.fsum(one[i] * one[j] for one in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    determinant = xx * zz - xz**2
    if not determinant > 1e-9 * xx * zz:
        return None
    inverse = ((zz / determinant, -xz / determinant), (-xz / determinant, xx / determinant))
    sums = [math.fsum(one[i] * energy for one, energy in zip(rows, energies, strict=True)) for i in (0, 1)]
    a, b = (line[0] * sums[0] + line[1] * sums[1] for line in inverse)
    residuals = [energy - a * x - b * z for (x, z), energy in zip(rows, energies, strict=True)]
    freedom = len(rows) - 2
    variance = math.fsum(one**2 for one in residuals) / freedom
    scores = [
        [line[0] * x * one + line[1] * z * one for (x, z), one in zip(rows, residuals, strict=True)] for line in inverse
    ]
    halves = []
    for line, own in zip((inverse[0][0], inverse[1][1]), scores, strict=True):
        neighbours = math.fsum(one * other for one, other in pairwise(own))
        robust = (math.fsum(one**2 for one in own) + neighbours) * len(rows) / freedom
        halves.append(students_t(LEVEL, freedom) * math.sqrt(max(robust, line * variance)))
    return (a, halves[0]), (b, halves[1])
