"""Metrics of a client's requests: latencies, throughput and goodput over the window, with their 95 % intervals.

Pure arithmetic on requests: no clock, no files, no socket. The client computes them, and `verify` again.
"""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from jpwr.median import percentile
from record.arithmetic import product, ratio
from record.demand import Slo
from record.estimates import percentile_estimate, rate_estimate, share_estimate

PERCENTILES = (50, 90, 99)  # of the latencies of requests
Metrics = dict[str, float | int | str | None]  # by name, with its unit
MOST_UNLIKE_COUNT = 0.01  # of output tokens, by the server's own count
OF_CONVERSATIONS = (  # metrics of a load of conversations alone
    *("prompt_tokens_of_requests", "possible_cached_tokens", "possible_cache_hit_percent", "turn_tokens_per_s"),
    *("mean_lanes", "cached_tokens", "fresh_tokens", "cache_hit_percent"),
)
Piece = tuple[str, int]  # of a prompt: a key that equal tokens have, and how many they are
Tree = dict[str, Any]  # by the key of a piece: the longest seen, and by each seen length the tree of what followed it


def rounded_s(length_s: float) -> float:
    """Return the length of a window as whole microseconds, as the times in a file of requests are."""
    return round(1e6 * length_s) / 1e6


def number(metrics: Metrics, name: str) -> float:
    """Return a metric, and 0 for one that is missing: a rule then finds nothing."""
    value = metrics.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


class Place(NamedTuple):
    """A request's place in a conversation, and the pieces of its prompt."""

    conversation: int
    turn: int
    idle_s: float  # from its answer until the next one is due
    kept: int  # pieces at the beginning that the former prompt of the conversation has, too
    new: Sequence[Piece]  # after them
    answer: str = ""  # key of its answer, if that is fed back as it came


@dataclass
class Request:
    """One request and what came back; times in seconds of one clock."""

    index: int
    slot: int
    due_s: float
    sent_s: float
    asked_input: int
    asked_output: int
    times_s: array[float] = field(default_factory=lambda: array("d"))  # of each event with tokens
    counts: array[int] = field(default_factory=lambda: array("H"))  # tokens in it
    ended_s: float = 0.0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    retries: int = 0  # of its sending
    # The client's delay of sending, of reading the first and the last token, and the longest of any token.
    late_s: list[float] = field(default_factory=lambda: [0.0] * 4)
    unlisted: int = 0  # tokens, and whether it began with some that no reader sees: see the client's Counter
    is_unseen: bool = False
    model: str = ""
    error: str = ""
    place: Place | None = None  # of a load of conversations

    @property
    def tokens(self) -> int:
        """Number of output tokens that have arrived."""
        return sum(self.counts)

    @property
    def ttft_s(self) -> float:
        """Time to the first token from when it was due, and in a closed loop was sent.

        Source: kubernetes-sigs/inference-perf, docs/metrics.md at 7de5ef2; due times as in MLPerf's server scenario.
        """
        return self.times_s[0] - self.due_s

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first event, so that several tokens in it shorten nothing; None without one.

        With one token in each event this is (end-to-end time - TTFT) / (tokens - 1), as in inference-perf and MLPerf;
        aiperf and guidellm call it inter-token latency.
        """
        later = sum(self.counts[1:])
        return (self.times_s[-1] - self.times_s[0]) / later if later else None

    @property
    def e2e_s(self) -> float:
        """Time from when it was due to its end."""
        return self.ended_s - self.due_s

    @property
    def idle_until_s(self) -> float:
        """When the next turn of its conversation is due; for another load when the request ended."""
        return self.ended_s + (self.place.idle_s if self.place else 0.0)


def read_request(line: Mapping[str, Any]) -> Request:
    """Return a request as its file holds it: `arrivals_us` are the first and the steps to each next."""
    due_s, sent_s, ended_s, *times_s = (
        time_us / 1e6
        for time_us in (line["due_us"], line["sent_us"], line["ended_us"], *accumulate(line["arrivals_us"]))
    )
    names = "prompt_tokens", "completion_tokens", "cached_tokens", "retries", "unlisted", "is_unseen"
    return Request(
        line["index"],
        -1,
        due_s,
        sent_s,
        line["input"],
        line["output"],
        array("d", times_s),
        array("H", line["tokens"]),
        ended_s,
        **{name: line[name] for name in names},
        late_s=[time_us / 1e6 for time_us in line["late_us"]],
        place=Place(**line["place"]) if "place" in line else None,
    )


@dataclass
class Window:
    """Every request of a load, and the window in which their server was in its steady state.

    A closed loop has `streams` requests in flight; with `rate_per_s`, of an open loop, as many are expected.
    """

    every: list[Request]
    start_s: float
    end_s: float
    streams: int
    rate_per_s: float = 0.0

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.end_s - self.start_s

    @cached_property
    def requests(self) -> list[Request]:
        """Requests that were due in the window, in this order."""
        return sorted((one for one in self.every if self.holds(one.due_s)), key=lambda one: one.due_s)

    @property
    def has_conversations(self) -> bool:
        """Whether requests are turns of conversations."""
        return any(one.place for one in self.every)

    def holds(self, time_s: float) -> bool:
        """Check whether a time, in seconds, is within the window."""
        return self.start_s <= time_s < self.end_s

    def output_tokens(self) -> Iterator[tuple[float, int]]:
        """Yield the time and number of each arrival of tokens in the window."""
        for request in self.every:
            events = zip(request.times_s, request.counts, strict=True)
            yield from ((time_s, tokens) for time_s, tokens in events if self.holds(time_s))

    def in_flight(self, start_s: float, end_s: float) -> float:
        """Return the mean number of requests in flight from one time to another."""
        return mean_at_once(((one.sent_s, one.ended_s) for one in self.every), start_s, end_s)

    @cached_property
    def client_share(self) -> tuple[float, str, float]:
        """Share, at most, by which the client's delays change a percentile of latencies; its name, and their longest.

        Each latency is computed again as if nothing had been late: neither sending, in an open loop, nor reading the
        first and the last token.
        """
        changes, longest_s = [(0.0, "ttft_p50")], 0.0
        latencies: dict[str, list[tuple[float, ...]]] = {"ttft": [], "tpot": [], "e2e": []}
        for one in self.requests:
            _, first_s, last_s, _ = one.late_s
            sent_s = one.sent_s - one.due_s
            longest_s = max(longest_s, sent_s, first_s, last_s)
            latencies["ttft"].append((one.ttft_s, one.ttft_s - sent_s - first_s))
            latencies["e2e"].append((one.e2e_s, one.e2e_s - sent_s - last_s))
            if each_s := one.tpot_s:
                later = (one.times_s[-1] - one.times_s[0]) / each_s
                latencies["tpot"].append((each_s, each_s - last_s / later, each_s + first_s / later))
        for name, values in latencies.items():
            measured, *others = map(sorted, zip(*values, strict=True))
            for percent in PERCENTILES if measured else ():
                value_s = percentile(measured, percent)
                change = max(abs(percentile(each, percent) - value_s) for each in others)
                changes.append((change / value_s if value_s else 0.0, f"{name}_p{percent}"))
        return *max(changes), longest_s


def mean_at_once(spans_s: Iterable[tuple[float, float]], start_s: float, end_s: float) -> float:
    """Return how many spans, each from one time to another, there are at once in the mean from a start to an end."""
    overlaps_s = (min(to_s, end_s) - max(from_s, start_s) for from_s, to_s in spans_s)
    return sum(overlap_s for overlap_s in overlaps_s if overlap_s > 0) / (end_s - start_s)


def metrics_of(window: Window, slo: Slo) -> Metrics:
    """Return what a run's requests show, units in the keys; `_low` and `_high` are the ends of 95 % intervals.

    Tokens are those that arrived in the window; latencies are of the requests that were due in it, each to its end.
    Goodput's share is that of requests that keep both limits (Zhong et al. 2024, arXiv:2401.09670).
    """
    tokens, in_flight = list(window.output_tokens()), window.in_flight(window.start_s, window.end_s)
    # A prompt was read by the time of its first token.
    inputs = sum(one.asked_input for one in window.every if window.holds(one.times_s[0]))
    ttfts_s = [one.ttft_s for one in window.requests]
    e2e_s = [one.e2e_s for one in window.requests]
    rate = rate_estimate(tokens, window.start_s, window.end_s, statistics.median(e2e_s))
    tpots_s = [each_s for one in window.requests if (each_s := one.tpot_s) is not None]
    good = sum(one.ttft_s <= slo.ttft_s and (one.tpot_s or 0.0) <= slo.tpot_s for one in window.requests)
    share = share_estimate(good, len(window.requests))
    found: Metrics = {
        "measured_tokens": sum(count for _, count in tokens),
        "measured_requests": len(window.requests),
        "input_tokens": inputs,
        "output_tokens_per_request": statistics.fmean(one.tokens for one in window.requests),
        "tokens_per_s_low": rate.low,
        "tokens_per_s_high": rate.high,
        "goodput_share": share.value,
        "goodput_share_low": share.low,
        "goodput_share_high": share.high,
        "slo_ttft_s": slo.ttft_s,
        "slo_tpot_s": slo.tpot_s,
        "e2e_mean_s": statistics.fmean(e2e_s),
        "mean_in_flight": in_flight,
    }
    for name, values in (("ttft", ttfts_s), ("tpot", tpots_s), ("e2e", e2e_s)):
        for percent in PERCENTILES if values else ():
            value, low, high = percentile_estimate(values, percent, max(1.0, in_flight))
            key = f"{name}_p{percent}"
            found |= {f"{key}_s": value, f"{key}_low_s": low, f"{key}_high_s": high}
    return found | _of_conversations(window) if window.has_conversations else found


def _of_conversations(window: Window) -> Metrics:
    """Return what a server's prefix cache gave, next to what an endless one could give.

    Measured figures are missing where the server states for some request not how many tokens came from its cache.
    """
    possible, requests = possible_hits(window), window.requests
    inputs = sum(one.asked_input for one in requests)
    spans_s = ((one.sent_s, one.idle_until_s) for one in window.every)  # of conversations in flight, and of idle ones
    found: Metrics = {
        "prompt_tokens_of_requests": inputs,
        "possible_cached_tokens": sum(possible.get(one.index, 0) for one in requests),
        "turn_tokens_per_s": ratio(sum(one.tokens for one in requests), sum(one.e2e_s for one in requests)),
        "mean_lanes": mean_at_once(spans_s, window.start_s, window.end_s),
    }
    found["possible_cache_hit_percent"] = product(100, ratio(found["possible_cached_tokens"], inputs))
    if all(one.cached_tokens is not None for one in requests):
        cached = sum(one.cached_tokens or 0 for one in requests)
        found |= {"cached_tokens": cached, "fresh_tokens": inputs - cached}
        found["cache_hit_percent"] = product(100, ratio(cached, inputs))
    return found


def possible_hits(window: Window) -> dict[int, int]:
    """Return how many prompt tokens of each request, by its index, a cache without limit could have.

    They are the longest prefix in common with a prompt that was sent before in the run, and the answer to it. The last
    token of an answer is no part of that: the server never computed with it. Blocks of one token make this the limit of
    every cache: one of larger blocks has less.
    """
    found, tree, prompts = dict[int, int](), Tree(), dict[int, list[Piece]]()
    for one in sorted(window.every, key=lambda one: one.sent_s):
        if one.place:
            prompt = [*prompts.get(one.place.conversation, [])[: one.place.kept], *one.place.new]
            prompts[one.place.conversation] = prompt
            answer: list[Piece] = [(one.place.answer, one.tokens - 1)] if one.place.answer else []
            found[one.index] = min(one.asked_input, _seen([*prompt, *answer], tree))
    return found


def _seen(pieces: list[Piece], tree: Tree) -> int:
    """Return how many tokens at the beginning the tree has; add all of them."""
    seen, is_seen = 0, True
    for key, tokens in pieces:
        entry = tree.setdefault(key, [0, {}])
        if is_seen:
            seen, is_seen = seen + min(tokens, entry[0]), tokens in entry[1]
        entry[0], tree = max(tokens, entry[0]), entry[1].setdefault(tokens, Tree())
    return seen


def lock_step(window: Window) -> float:
    """Return how much the streams of a closed loop start together, from 0, evenly spread, to 1, all at once.

    The mean length of the resultant of starts on the circle of one round (Mardia and Jupp 2000, section 2.3): each
    round is as many requests, one after the other, as there are streams.
    """
    starts_s, streams = [one.sent_s for one in window.requests], window.streams
    lengths = []
    for at in range(0, len(starts_s) - streams, streams):
        first_s, round_s = starts_s[at], starts_s[at + streams] - starts_s[at]
        if round_s > 0:
            angles = [2 * math.pi * (one_s - first_s) / round_s for one_s in starts_s[at : at + streams]]
            lengths.append(math.hypot(sum(map(math.cos, angles)), sum(map(math.sin, angles))) / streams)
    return statistics.fmean(lengths) if lengths else 0.0


def drift(window: Window) -> float:
    """Return the largest difference of tokens/s between two thirds of the window, as a share of the mean."""
    third_s = window.duration_s / 3
    sums = [0, 0, 0]
    for time_s, count in window.output_tokens():
        sums[min(2, int((time_s - window.start_s) / third_s))] += count
    return (max(sums) - min(sums)) / (sum(sums) / 3) if sum(sums) else math.inf


def silences_s(window: Window, least_s: float) -> list[float]:
    """Return each time of more than `least_s` seconds in which requests were in flight and none got a token."""
    arrivals_s = [time_s for one in window.every for time_s in one.times_s if window.holds(time_s)]
    found = []
    for begin_s, end_s in pairwise([window.start_s, *sorted(arrivals_s), window.end_s]):
        if end_s - begin_s > least_s:
            sent_s = [one.sent_s for one in window.every if one.sent_s < end_s <= one.ended_s]
            found.append(end_s - max(begin_s, min(sent_s, default=end_s)))
    return [one_s for one_s in found if one_s > least_s]
