"""Rules on the record of a server under load."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from record.arithmetic import TOLERANCE, exceeds, product, ratio, rising
from record.demand import SLOS
from record.model import Record
from record.part import is_number
from record.served import PERCENTILES
from record.values import value_at

FOLLOWED_FROM = (
    *("measured_requests", "input_tokens", "output_tokens_per_request", "ttft_p50_s", "e2e_mean_s", "mean_in_flight"),
)
MOST_UNLIKE = 0.5  # of log-normal lengths' mean, over the requests of a window
COUNTS = ("measured_requests", "measured_tokens", "input_tokens", "server_tokens", "client_processes")
STEPS_OR_TOKENS = 2.0  # ratio of tokens by steps to those that arrived: some counters move when a request ends
LEAST_REFERENCE = 0.01  # share of the questions of a file that a reference answers right
EDGES = 3.0  # times what is in flight may be counted on one side of a window's edges alone


def _preset_of_limits_and_version_are_known(run: Record) -> Iterator[str]:
    slo = run.option("load.slo")
    if slo is not None and slo not in SLOS:
        yield f"its limits of TTFT and TPOT are those of {slo!r}, but the presets are {', '.join(SLOS)}"
    version, packages = run.serving.version, run.provenance.packages or {}
    if version and isinstance(run.config.get("serve"), dict) and version not in packages.values():
        yield f"serving.version is {version!r}, which provenance.packages does not have"


def _speculation_makes_the_tokens(run: Record) -> Iterator[str]:
    known, tokens = run.serving.speculation, run.metrics.number("measured_tokens")
    if known and known.steps:  # without any step, no chance explains a difference
        made = product(known.steps, known.measured_length)
        if exceeds(made, product(tokens, STEPS_OR_TOKENS)) or exceeds(ratio(tokens, STEPS_OR_TOKENS), made):
            words = f"{known.steps:g} steps of {known.measured_length:.3g} tokens make {made:g}"
            yield f"{words}, but {tokens:g} arrived in its window"


def _values_are_possible(run: Record) -> Iterator[str]:
    """A perplexity is 1 or more, as probabilities are 1 or less; a step has its own token, and at most all drafts."""
    answers, speculation = run.serving.answers, run.serving.speculation
    questions, most = answers.get("questions", 0), speculation.draft_tokens + 1 if speculation else 0
    bounds: list[tuple[str, float, float]] = [
        ("answers.perplexity", 1, math.inf),
        ("answers.perplexity_reference", 1, math.inf),
        ("answers.agreement", 0, 1),
        ("answers.repeat_agreement", 0, 1),
        ("answers.reference", LEAST_REFERENCE, 1),
        ("answers.wrong", 0, questions),
        ("answers.repeat_wrong", 0, questions),
        ("answers.right", 0, answers.get("expected", 0)),
        ("speculation.stated_length", 1, most),
        ("speculation.measured_length", 1, most),
    ]
    for name, low, high in bounds:
        value = value_at(run, f"serving.{name}")
        if exceeds(low, value) or exceeds(value, high):
            yield f"serving.{name} is {value:g}, and can only be {low:g} to {high:g}"


def _counts_are_whole(run: Record) -> Iterator[str]:
    requests = run.metrics.number("measured_requests")
    counts = {name: run.metrics.number(name) for name in COUNTS}
    for name in ("goodput_share", "output_tokens_per_request"):
        counts[f"{name} times its requests"] = product(run.metrics.number(name), requests)
    for name, value in counts.items():
        if value is not None and abs(value - round(value)) > TOLERANCE * max(1.0, value):
            yield f"metrics.{name} is {value:g}, which is no whole number"


def _percentiles_rise_and_are_inside_their_intervals(run: Record) -> Iterator[str]:
    names = {name: [f"{name}_p{percent}_s" for percent in PERCENTILES] for name in ("ttft", "tpot", "e2e")}
    for each in (*names.values(), *zip(names["ttft"], names["e2e"], strict=True)):
        yield from rising({f"metrics.{name}": run.metrics.number(name) for name in each})
    for name, value in vars(run.metrics).items():
        end = re.fullmatch(r"(.*)_(low|high)(_s|)", name)
        middle = run.metrics.number(f"{end[1]}{end[3]}") if end else None
        if end and (exceeds(value, middle) if end[2] == "low" else exceeds(middle, value)):
            yield f"metrics.{name} is {value:.10g}, on the other side of its value, {middle:.10g}"


def _goodput_agrees_with_its_percentiles(run: Record) -> Iterator[str]:
    """Compare the requests that keep both limits with the fewest and the most that percentiles allow."""
    share, requests = run.metrics.number("goodput_share"), run.metrics.number("measured_requests")
    if share is None or not requests:
        return
    for percent in PERCENTILES:
        rank = (requests - 1) * percent / 100
        excess: list[float | None] = []
        for name in ("ttft", "tpot"):
            value, limit = run.metrics.number(f"{name}_p{percent}_s"), run.metrics.number(f"slo_{name}_s")
            excess.append(None if value is None or limit is None or math.isclose(value, limit) else value - limit)
        least, most = 0.0, requests
        if any(one is not None and one > 0 for one in excess):
            most = math.ceil(rank)
        elif None not in excess:
            least = requests - 2 * (requests - 1 - math.floor(rank))
        good = share * requests
        if good > most + TOLERANCE * requests or good < least - TOLERANCE * requests:
            yield f"{good:.0f} of {requests:.0f} requests keep its limits, against its percentiles ({percent}th)"


def _requests_fill_the_streams(run: Record) -> Iterator[str]:
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


def _tokens_are_those_of_requests(run: Record) -> Iterator[str]:
    """Compare the tokens of the window with those of its requests and with the lengths of the load, but for its edges.

    How many tokens an edge cuts is not known where a file or a trace has the lengths.
    """
    if run.option("load.trace") or run.option("load.lengths_file"):
        return
    names = ("measured_requests", "output_tokens_per_request", "mean_in_flight", "measured_tokens", "input_tokens")
    known = [run.metrics.number(name) for name in names]
    if None in known:
        return
    requests, each, in_flight, tokens, inputs = (value or 0.0 for value in known)
    cut = EDGES * in_flight
    if abs(tokens - requests * each) > cut * each:
        yield f"{tokens:.0f} tokens arrived in its window, but its requests have {requests * each:.0f}"
    asked_input, asked_output = run.option("load.input_tokens"), run.option("load.output_tokens")
    if not asked_input or not asked_output:
        return
    varies = bool(run.option("load.length_sigma"))
    tolerance = MOST_UNLIKE if varies else TOLERANCE
    if abs(each - asked_output) > tolerance * asked_output:
        yield f"its load asks for {asked_output} output tokens, but its requests have {each:g}"
    is_cut = not varies and inputs % asked_input
    if is_cut or abs(inputs - requests * asked_input) > (cut + tolerance * requests) * asked_input:
        yield f"its load has prompts of {asked_input} tokens, but {inputs:g} were read for {requests:g} requests"


RULES = (
    _preset_of_limits_and_version_are_known,
    _speculation_makes_the_tokens,
    _values_are_possible,
    _counts_are_whole,
    _percentiles_rise_and_are_inside_their_intervals,
    _goodput_agrees_with_its_percentiles,
    _requests_fill_the_streams,
    _tokens_are_those_of_requests,
)
