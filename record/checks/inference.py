"""Rules on the record of a server under load."""

from __future__ import annotations

import math
import re
from itertools import pairwise

from record.acceptance import NO_SPECULATION, length_of, of_text, stated
from record.acceptance import choice as choice_of_speculation
from record.acceptance import label as label_of_speculation
from record.checks.run import TOLERANCE, Relations, Sentences, differs, exceeds, relations
from record.demand import CLOSED_LOOP, DATA, MADE, SLOS, label, made_trace, of_arrivals, of_idle_limit, of_trace
from record.derived import PERCENTILES, SERVED, joules_per, product, ratio
from record.model import Record, is_number
from record.values import value_at

FOLLOWED_FROM = ("measured_requests", "input_tokens", "output_tokens_per_request", "ttft_p50_s", "e2e_mean_s")
OF_OPTIONS = {
    "global_batch_size": "load.concurrency",
    "num_devices": "serve.devices",
    "num_nodes": "serve.nodes",
    "tensor_parallel_size": "serve.devices",
}
LENGTHS = re.compile(r"(\d+)/(\d+) tokens(, log-normal [^,]*)?(, .*)?")
MOST_UNLIKE = 0.5  # of log-normal lengths' mean, over the requests of a window
COUNTS = ("measured_requests", "measured_tokens", "input_tokens", "server_tokens", "client_processes")
STEPS_OR_TOKENS = 2.0  # ratio of tokens by steps to those that arrived: some counters move when a request ends
LEAST_REFERENCE = 0.01  # share of the questions of a file that a reference answers right
EDGES = 3.0  # times what is in flight may be counted on one side of a window's edges alone


def rates(run: Record) -> Relations:
    """Yield the load, and the rates, shares and energies per token that follow from other numbers."""
    if not run.serving:
        return
    for name, option in OF_OPTIONS.items():
        yield f"layout.{name}", getattr(run.layout, name), run.option(option), "its options"
    yield from relations("metrics", SERVED, run.metrics)
    for name, energy_j in joules_per(value_at(run, "energy.energy_wh"), vars(run.metrics)).items():
        yield f"energy.{name}", value_at(run, f"energy.{name}"), energy_j, "its energy and tokens"


def _label_is_that_of_the_load(run: Record) -> Sentences:
    names = ("input_tokens", "output_tokens", "length_sigma", "lengths_file")
    asked = [run.option(f"load.{name}") for name in names]
    if not run.serving:
        return
    if trace := run.option("load.trace"):
        yield from _trace_is_that_of_the_options(run, _last_part(trace))
    elif None not in asked:
        yield from differs("sample", run.sample, "its options", label(*asked) + of_text(*_asked_speculation(run)))
    rate, slo = run.option("load.rate_per_s"), run.option("load.slo")
    if rate is not None and "arrivals" in run.choices:
        arrivals = of_arrivals(rate)
        yield from differs("choices.arrivals", run.choices["arrivals"], "config.load", arrivals)
    burstiness, server = run.option("load.burstiness"), run.option("serve.server")
    if burstiness is not None and "burstiness" in run.choices:
        yield from differs("choices.burstiness", run.choices["burstiness"], "config.load", f"{burstiness:g}")
    if server is not None and (url := run.option("serve.url")) is not None:
        name = f"server at {url}" if url else server
        yield from differs("serving.server", run.serving.server, "config.serve", name)
        yield from differs("choices.server", run.choices.get("server"), "config.serve", name)
    if (endpoint := run.option("load.endpoint")) is not None:
        yield from differs("choices.endpoint", run.choices.get("endpoint"), "config.load", endpoint)
    if slo is not None:
        yield from differs("serving.slo", run.serving.slo, "config.load", slo)
        yield from _limits_are_those_of_the_preset(run, slo)


def _last_part(path: object) -> str:
    return str(path).rstrip("/").rpartition("/")[2]


def _trace_is_that_of_the_options(run: Record, name: str) -> Sentences:
    after, seed = of_text(*_asked_speculation(run)), run.option("load.seed")
    if run.option("load.trace") in MADE and isinstance(seed, int):
        yield from differs("sample", run.sample, "its seed", of_trace(name, made_trace(name, seed)[0]) + after)
    elif not re.fullmatch(f"{re.escape(of_trace(name, ''))}[0-9a-f]{{12}}{re.escape(after)}", run.sample):
        yield f"its sample is {run.sample!r}, but config.load has the trace {name}"
    limit_s = run.option("load.idle_limit_s")
    idle = of_idle_limit(limit_s) if is_number(limit_s) else None
    yield from differs("choices.conversations", run.choices.get("conversations"), "config.load", idle)


def _limits_are_those_of_the_preset(run: Record, name: str) -> Sentences:
    if name not in SLOS:
        yield f"its limits of TTFT and TPOT are those of {name!r}, but the presets are {', '.join(SLOS)}"
        return
    for limit in ("ttft", "tpot"):
        value = getattr(SLOS[name], f"{limit}_s")
        yield from differs(f"metrics.slo_{limit}_s", run.metrics.number(f"slo_{limit}_s"), f"the preset {name}", value)


def _server_is_that_of_the_options(run: Record) -> Sentences:
    """Compare the model with the one that the suite started; one that ran already, or has real weights, names it."""
    serve = run.config.get("serve") if run.serving else None
    if not isinstance(serve, dict):
        return
    arguments, packages = serve.get("server_args") or None, run.provenance.packages or {}
    yield from differs("data", run.data, "the workload", DATA)
    yield from differs("choices.server's arguments", run.choices.get("server's arguments"), "config.serve", arguments)
    arrivals, speculation = run.choices.get("arrivals"), _speculation(run)
    variant = [run.serving.server, arrivals if run.option("load.rate_per_s") else None]
    variant += ["chat" if run.option("load.endpoint") == "chat" else None, run.choices.get("roles")]
    variant += [run.choices.get("conversations")]
    variant += [label_of_speculation(*speculation[:2]) if speculation else None, arguments]
    yield from differs("variant", run.variant, "its choices", list(filter(None, variant)))
    if not (serve.get("url") or serve.get("real_weights")):
        folder = _last_part(serve.get("model_path") or "")
        name = folder or serve.get("served_model") or serve.get("model")
        yield from differs("model", run.model, "config.serve", name)
    if run.serving.version and run.serving.version not in packages.values():
        yield f"serving.version is {run.serving.version!r}, which provenance.packages does not have"


def _asked_speculation(run: Record) -> tuple[int, float, str]:
    """Return the draft tokens, the user's acceptance length and the model of the published one."""
    drafts, length, model = (
        run.option(f"speculation.{name}") for name in ("draft_tokens", "acceptance_length", "acceptance_of")
    )
    return drafts, length, model


def _speculation(run: Record) -> tuple[int, float, str] | None:
    """Return the draft tokens, the stated acceptance length and its source by the options; None without speculation."""
    drafts, length, model = _asked_speculation(run)
    if not drafts:
        return None
    try:
        return drafts, *stated(drafts, length, model)
    except LookupError:
        return drafts, 0.0, "nobody"


def _speculation_is_that_of_the_options(run: Record) -> Sentences:
    one = run.serving.speculation if run.serving else None
    if one:
        length = length_of(one.steps, one.accepted_tokens)  # none without counters, which a relation would not compare
        yield from differs("serving.speculation.measured_length", one.measured_length, "its counters", length)
        tokens, made = run.metrics.number("measured_tokens"), product(one.steps, length)
        few, many = ratio(tokens, STEPS_OR_TOKENS), product(tokens, STEPS_OR_TOKENS)
        if one.steps and (
            exceeds(made, many) or exceeds(few, made)
        ):  # without any step, no chance explains a difference
            yield f"{one.steps:g} steps of {length:.3g} tokens make {made:g}, but {tokens:g} arrived in its window"
    if not run.serving or run.option("speculation.draft_tokens") is None:
        return
    options = _speculation(run)
    found = (one.draft_tokens, one.stated_length, one.source) if one else None
    yield from differs("serving.speculation", found, "config.speculation", options)
    words = choice_of_speculation(*options) if options else NO_SPECULATION
    yield from differs("choices.speculation", run.choices.get("speculation"), "config.speculation", words)


def _values_are_possible(run: Record) -> Sentences:
    """A perplexity is 1 or more, as probabilities are 1 or less; a step has its own token, and at most all drafts."""
    answers, one = run.serving.answers, run.serving.speculation
    questions = answers.get("questions", 0)
    bounds: list[tuple[str, float, float]] = [
        (f"answers.{name}", 1, math.inf) for name in ("perplexity", "perplexity_reference")
    ]
    bounds += [(f"answers.{name}", 0, 1) for name in ("agreement", "repeat_agreement")]
    bounds.append(("answers.reference", LEAST_REFERENCE, 1))
    bounds += [(f"answers.{name}", 0, questions) for name in ("wrong", "repeat_wrong")]
    bounds.append(("answers.right", 0, answers.get("expected", 0)))
    bounds += [(f"speculation.{name}_length", 1, one.draft_tokens + 1) for name in ("stated", "measured") if one]
    for name, low, high in bounds:
        value = value_at(run, f"serving.{name}")
        if is_number(value) and (exceeds(low, value) or exceeds(value, high)):
            yield f"serving.{name} is {value:g}, and can only be {low:g} to {high:g}"


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


def _counts_are_whole(run: Record) -> Sentences:
    requests = run.metrics.number("measured_requests") if run.serving else None
    counts = {name: run.metrics.number(name) for name in COUNTS}
    for name in ("goodput_share", "output_tokens_per_request"):
        counts[f"{name} times its requests"] = product(run.metrics.number(name), requests)
    for name, value in counts.items() if run.serving else ():
        if value is not None and abs(value - round(value)) > TOLERANCE * max(1.0, value):
            yield f"metrics.{name} is {value:g}, which is no whole number"


def _intervals_hold_their_value(run: Record) -> Sentences:
    for name, value in vars(run.metrics).items() if run.serving else ():
        end = re.fullmatch(r"(.*)_(low|high)(_s|)", name)
        middle = run.metrics.number(f"{end[1]}{end[3]}") if end else None
        if end and (exceeds(value, middle) if end[2] == "low" else exceeds(middle, value)):
            yield f"metrics.{name} is {value:.10g}, on the other side of its value, {middle:.10g}"


def _goodput_agrees_with_its_percentiles(run: Record) -> Sentences:
    """Compare the requests that keep both limits with the fewest and the most that percentiles allow."""
    share, requests = run.metrics.number("goodput_share"), run.metrics.number("measured_requests")
    if not run.serving or share is None or not requests:
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
    if run.choices.get("arrivals") == CLOSED_LOOP and exceeds(found, most := run.layout.number("global_batch_size")):
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
    _label_is_that_of_the_load,
    _server_is_that_of_the_options,
    _speculation_is_that_of_the_options,
    _values_are_possible,
    _lengths_are_those_of_the_label,
    _counts_are_whole,
    _intervals_hold_their_value,
    _goodput_agrees_with_its_percentiles,
    _percentiles_rise,
    _requests_fill_the_streams,
    _tokens_are_those_of_requests,
)
