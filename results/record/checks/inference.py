"""Rules on the record of a server under load."""

from __future__ import annotations

from itertools import pairwise

from results.record.checks.run import Relations, Sentences, exceeds, relations
from results.record.derived import PERCENTILES, SERVED, joules_per, product, ratio
from results.record.model import Record, is_number
from results.record.values import value_at

FOLLOWED_FROM = ("measured_requests", "input_tokens", "output_tokens_per_request", "ttft_p50_s", "e2e_mean_s")
EDGES = 3.0  # times what is in flight may be counted on one side of a window's edges alone


def rates(run: Record) -> Relations:
    """Yield the load, and the rates, shares and energies per token that follow from other numbers."""
    if not run.serving:
        return
    yield "layout.global_batch_size", run.layout.global_batch_size, run.option("load.concurrency"), "its options"
    yield from relations("metrics", SERVED, run.metrics)
    for name, energy_j in joules_per(value_at(run, "energy.energy_wh"), vars(run.metrics)).items():
        yield f"energy.{name}", value_at(run, f"energy.{name}"), energy_j, "its energy and tokens"


def _percentiles_rise(run: Record) -> Sentences:
    for name in ("ttft", "tpot", "e2e"):
        values = [run.metrics.number(f"{name}_p{percent}_s") for percent in PERCENTILES]
        if any(exceeds(low, high) for low, high in pairwise(values)):
            yield f"the percentiles of its {name} fall from {values[0]} to {values[-1]} s"
        if any(is_number(value) and value < 0 for value in values):
            yield f"its {name} is below 0"


def _requests_fill_the_streams(run: Record) -> Sentences:
    """Little's law: the mean number in flight is the rate times the mean time, but for requests that the edges cut."""
    time_s, found = run.metrics.number("e2e_mean_s"), run.metrics.number("mean_in_flight")
    expected = product(run.metrics.number("requests_per_s"), time_s)
    edges = product(found, ratio(time_s, run.metrics.number("measured_s")), EDGES)
    if is_number(expected) and is_number(found) and is_number(edges) and abs(expected - found) > edges:
        yield f"{found:.3g} requests were in flight, but its rate and times make {expected:.3g} (Little's law)"


def _tokens_are_those_of_requests(run: Record) -> Sentences:
    """In a steady state as many tokens arrive as the requests of the window have, but for its edges."""
    metrics, each = run.metrics, run.metrics.number("output_tokens_per_request")
    tokens, made = metrics.number("measured_tokens"), product(metrics.number("measured_requests"), each)
    in_flight = product(metrics.number("mean_in_flight"), each)
    if is_number(tokens) and is_number(made) and is_number(in_flight) and abs(tokens - made) > EDGES * in_flight:
        yield f"{tokens:.0f} tokens arrived in its window, but its requests have {made:.0f}"


def _energy_is_missing_for_a_reason(run: Record) -> Sentences:
    if run.energy is None and not run.serving.elsewhere:
        yield "it has no energy, and its work was done on its own nodes"


RULES = (_energy_is_missing_for_a_reason, _percentiles_rise, _requests_fill_the_streams, _tokens_are_those_of_requests)
