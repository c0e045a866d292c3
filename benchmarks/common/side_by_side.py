"""Speeds of several programs of the same work, in turns, so that whatever else the machine does falls on all."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def in_turns(
    rounds: int, work: float, unit: str, name: str, own: Callable[[], object], peers: Mapping[str, Callable[[], object]]
) -> None:
    """Print the speed of each, and our own over each peer's with its spread over the rounds.

    Each call does `work` in units of `unit`, such as images.
    """
    programs = {name: own, **peers}
    times_s: dict[str, list[float]] = {one: [] for one in programs}
    for round_index in range(rounds + 1):
        for one, program in programs.items():
            start_s = time.perf_counter()
            program()
            if round_index:  # the first round is warm-up
                times_s[one].append(time.perf_counter() - start_s)
    for one, measured in times_s.items():
        ratios = [theirs / its for its, theirs in zip(times_s[name], measured, strict=True)]
        low, middle, high = statistics.quantiles(ratios)
        print(
            f"{one}: {work / statistics.median(measured):.2f} {unit}/s"
            + (f", {name} over it {middle:.3f} (quartiles {low:.3f} to {high:.3f})" if one != name else ""),
            flush=True,
        )
