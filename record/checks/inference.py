"""Rules on the record of a server under load."""

from __future__ import annotations

import re
from itertools import pairwise

from record.checks.run import TOLERANCE, Sentences, exceeds
from record.demand import SLOS
from record.derived import PERCENTILES, product, ratio
from record.model import Record
from record.part import is_number

FOLLOWED_FROM = ("measured_requests", "input_tokens", "output_tokens_per_request", "ttft_p50_s", "e2e_mean_s")
LENGTHS = re.compile(r"(\d+)/(\d+) tokens(, log-normal [^,]*)?(, .*)?")
MOST_UNLIKE = 0.5  # of log-normal lengths' mean, over the requests of a window
STEPS_OR_TOKENS = 2.0  # ratio of tokens by steps to those that arrived: some counters move when a request ends
EDGES = 3.0  # times what is in flight may be counted on one side of a window's edges alone


def _limits_are_those_of_a_preset(run: Record) -> Sentences:
    slo = run.option("load.slo")
    if run.serving and slo is not None and slo not in SLOS:
        yield f"its limits of TTFT and TPOT are those of {slo!r}, but the presets are {', '.join(SLOS)}"


def _speculation_makes_the_tokens(run: Record) -> Sentences:
    known, tokens = run.serving.speculation, run.metrics.number("measured_tokens")
    if known and known.steps:  # without any step, no chance explains a difference
        made = product(known.steps, known.measured_length)
        if exceeds(made, product(tokens, STEPS_OR_TOKENS)) or exceeds(ratio(tokens, STEPS_OR_TOKENS), made):
            words = f"{known.steps:g} steps of {known.measured_length:.3g} tokens make {made:g}"
            yield f"{words}, but {tokens:g} arrived in its window"


def _lengths_are_those_of_the_label(run: Record) -> Sentences:
    """Compare the tokens of requests with the label; prompts but for those that the window's edges cut."""
    found = LENGTHS.fullmatch(run.sample) if run.serving else None
    if not found:
        return
    asked_input, asked_output = int(found[1]), int(found[2])
    each, inputs = run.metrics.number("output_tokens_per_request"), run.metrics.number("input_tokens")
    requests, in_flight = run.metrics.number("measured_requests"), run.metrics.number("mean_in_flight")
    tolerance = MOST_UNLIKE if found[3] else TOLERANCE
    if each is not None and abs(each - asked_output) > tolerance * asked_output:
        yield f"its sample is {run.sample}, but its requests have {each:g} output tokens"
    if inputs is None or requests is None or in_flight is None:
        return
    is_cut = not found[3] and inputs % asked_input
    cut = EDGES * in_flight + (tolerance * requests if found[3] else 0)
    if is_cut or abs(inputs - requests * asked_input) > cut * asked_input:
        yield f"its sample is {run.sample}, but {inputs:g} tokens of prompts were read for {requests:g} requests"


def _percentiles_rise(run: Record) -> Sentences:
    for name in ("ttft", "tpot", "e2e"):
        values = [run.metrics.number(f"{name}_p{percent}_s") for percent in PERCENTILES]
        if any(exceeds(low, high) for low, high in pairwise(values)):
            yield f"the percentiles of its {name} fall from {values[0]} to {values[-1]} s"
        if any(is_number(value) and value < 0 for value in values):
            yield f"its {name} is below 0"
    for percent in PERCENTILES:
        first, last = (run.metrics.number(f"{name}_p{percent}_s") for name in ("ttft", "e2e"))
        if exceeds(first, last):
            yield f"the {percent}th percentile of its ttft is above that of whole requests, {last} s"


def _requests_fill_the_streams(run: Record) -> Sentences:
    """Little's law: the mean number in flight is the rate times the mean time, but for requests that the edges cut.

    An edge more often cuts a long request than a short one.
    """
    time_s, found = run.metrics.number("e2e_mean_s"), run.metrics.number("mean_in_flight")
    expected = product(run.metrics.number("requests_per_s"), time_s)
    longest_s = max(filter(is_number, (time_s, run.metrics.number("e2e_p99_s"))), default=None)
    edges = product(found, ratio(longest_s, run.metrics.number("measured_s")), EDGES)
    if is_number(expected) and is_number(found) and is_number(edges) and abs(expected - found) > edges:
        yield f"{found:.3g} requests were in flight, but its rate and times make {expected:.3g} (Little's law)"
    if run.option("load.rate_per_s") == 0 and exceeds(found, most := run.layout.number("global_batch_size")):
        yield f"{found:.3g} requests were in flight, but a closed loop of {most} never has more"


def _tokens_are_those_of_requests(run: Record) -> Sentences:
    """In a steady state as many tokens arrive as the requests of the window have, but for its edges.

    How many tokens an edge cuts is not known where a file or a trace has the lengths.
    """
    if run.option("load.trace") or run.option("load.lengths_file"):
        return
    metrics, each = run.metrics, run.metrics.number("output_tokens_per_request")
    tokens, made = metrics.number("measured_tokens"), product(metrics.number("measured_requests"), each)
    in_flight = product(metrics.number("mean_in_flight"), each)
    if is_number(tokens) and is_number(made) and is_number(in_flight) and abs(tokens - made) > EDGES * in_flight:
        yield f"{tokens:.0f} tokens arrived in its window, but its requests have {made:.0f}"


def _energy_is_missing_for_a_reason(run: Record) -> Sentences:
    if run.energy is None and not run.serving.elsewhere:
        yield "it has no energy, and its work was done on its own nodes"


RULES = (
    _energy_is_missing_for_a_reason,
    _limits_are_those_of_a_preset,
    _speculation_makes_the_tokens,
    _lengths_are_those_of_the_label,
    _percentiles_rise,
    _requests_fill_the_streams,
    _tokens_are_those_of_requests,
)
