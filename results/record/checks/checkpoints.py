"""Rules on the times of checkpoints."""

from __future__ import annotations

from results.record.checks.run import Sentences, exceeds
from results.record.derived import product, ratio
from results.record.model import Record
from results.record.parts import longest_s, windows_of

WORDS = {"checkpoint": "write", "restore": "restore"}  # in names of metrics, by kind of window


def _times_are_those_of_the_windows(run: Record) -> Sentences:
    rounds = run.metrics.number("checkpoint_rounds")
    for kind, word in WORDS.items() if rounds else ():
        name, nodes = f"metrics.checkpoint_{word}", windows_of(run, kind)
        least_s, mean_s, most_s = (run.metrics.number(f"checkpoint_{word}{one}_s") for one in ("_least", "", "_most"))
        if exceeds(least_s, mean_s) or exceeds(mean_s, most_s):
            yield f"{name}_s is {mean_s:.4g}, but its rounds took {least_s:.4g} s to {most_s:.4g} s"
        if exceeds(windows_s := longest_s(nodes), whole_s := product(mean_s, rounds)):
            yield f"{name}_s gives {whole_s:.4g} s in {rounds:g} rounds, but their windows take {windows_s:.4g} s"
        if odd := [host for host in windows_of(run, "measured") if len(nodes.get(host, [])) != rounds]:
            yield f"node {odd[0]} must have {rounds:g} windows of the kind {kind}, got {len(nodes.get(odd[0], []))}"
    rate, most = run.metrics.number("checkpoint_write_gb_per_s"), run.metrics.number("checkpoint_bytes")
    if exceeds(rate, limit := ratio(product(most, 1e-9), run.metrics.number("checkpoint_write_least_s"))):
        yield f"metrics.checkpoint_write_gb_per_s is {rate:.4g}, but its bytes and times give at most {limit:.4g}"


RULES = (_times_are_those_of_the_windows,)
