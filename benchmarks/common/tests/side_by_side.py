"""Speeds of several programs of the same work, in turns, so that whatever else the machine does falls on all."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence


def times_in_turns(rounds: int, programs: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Return the seconds that each program took, round by round."""
    times_s: dict[str, list[float]] = {name: [] for name in programs}
    for round_index in range(rounds + 1):
        for name, program in programs.items():
            start_s = time.perf_counter()
            program()
            if round_index:  # the first round is warm-up
                times_s[name].append(time.perf_counter() - start_s)
    return times_s


def ratio_text(these: Sequence[float], those: Sequence[float]) -> str:
    """Return the median of the ratios of two programs' times, with its quartiles, in words."""
    low, middle, high = statistics.quantiles(this / that for this, that in zip(these, those, strict=True))
    return f"{middle:.3f} (quartiles {low:.3f} to {high:.3f})"


def in_turns(
    rounds: int, work: float, unit: str, name: str, own: Callable[[], object], peers: Mapping[str, Callable[[], object]]
) -> None:
    """Print the speed of each, and our own over each peer's with its spread over the rounds.

    Each call does `work` in units of `unit`, such as images.
    """
    times_s = times_in_turns(rounds, {name: own, **peers})
    for one, measured in times_s.items():
        over = f", {name} over it {ratio_text(measured, times_s[name])}" if one != name else ""
        print(f"{one}: {work / statistics.median(measured):.2f} {unit}/s{over}", flush=True)
