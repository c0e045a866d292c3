"""Rules that make a run a bad one, and remarks on one that counts."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from record.answers import judged
from record.demand import fewest_requests
from record.findings import Finding, finding
from record.served import MOST_UNLIKE_COUNT, Metrics, Window, drift, lock_step, number, silences_s

LEAST_E2E = 5  # a window is at least so many times as long as a request takes
LEAST_IN_FLIGHT = 0.9  # of the streams of a closed loop, below which it is another point
MOST_GAP = 0.02  # of them that a client in time leaves between requests
MOST_GROWTH = 1.3  # of requests in flight in an open loop, from the first third to the last: a queue grows
MOST_LOCK_STEP = 0.8  # of 4 random starts 1 in 40 is above; all at once are 1
FEWEST_FOR_LOCK_STEP = 4
MOST_DRIFT = 0.03
LEAST_TPOT_S = 1e-4  # no server is as fast: 10,000 tokens/s for one user
LATE_OF_PERCENTILE = 0.1  # of a percentile of latencies, by which the client's delay of these very requests changes it
TOLD_OF_PERCENTILE = 0.02
LATE_START = 0.1  # of the time of a request, by which a stream of a closed loop starts late
MOST_CACHED = 0.01  # of prompt tokens
MOST_RETRIED = 0.01  # of requests: more of them reach the 99th percentiles
MOST_UNSEEN = 0.1  # of requests; some answers begin with a part of a character, or a space
# A server that reads all prompts before it writes on makes an answer wait after its first token, in lock-step 2 of 3
# answers for half of their TTFT.
FEWEST_IN_PIECES = 8  # tokens of an answer, and answers
LARGEST_PIECE, IN_PIECES = 0.5, 0.8  # of an answer; of the answers
LATE_PIECE = 0.25  # of the time from first to last token: a client that reads so late makes pieces itself
PAUSED, PAUSE_OF_TTFT, PAUSE_OF_GAP = 0.75, 0.5, 3.0  # of the answers; of their TTFT; of the median gap
LEAST_STALL_S = 0.5  # a busy node stops a server, or its client, for less
LONG_SILENCE = 3  # times that between two events of a request, or that of reading the longest prompt
MOST_STALLED = 0.05  # of the window: as much is missing from tokens/s
MOST_STALLED_S = 1.0  # in short windows, which only try the suite
FEW_IN_EVENT = 1.25  # tokens, of a server that generates one in a step; a busy one joins some
JOINED = 3  # of two joined steps of more than half of the possible tokens, more than 1 in 3 have more than one can
MOST_OF_STEP = 1.05  # tokens of an event to those of a step, whose last one in an answer is cut
MOST_UNLIKE_STEPS = 0.1  # of tokens, by counters that are read a little later
SIGMAS = 3  # standard deviations of a mean by chance, of which 1 in 370 is beyond


def faults(window: Window, metrics: Metrics) -> Iterator[str]:
    """Yield each reason why a run does not count, but for `unconfirmed`."""
    requests, streams = len(window.requests), window.streams
    typical_s, duration_s = number(metrics, "e2e_p50_s"), window.duration_s
    if requests < (least := fewest_requests(streams)):
        yield f"{requests} requests in the window, at least {least} wanted: measure longer"
    if duration_s < LEAST_E2E * typical_s:
        yield f"the window of {duration_s:.1f} s is below {LEAST_E2E} times that of a request, {typical_s:.1f} s"
    if number(metrics, "tpot_p50_s") < LEAST_TPOT_S:
        yield "answers came in one piece, so that no token has its own time: look for a proxy that holds them back"
    yield from _other_lengths(window)
    yield from _pieces(window)
    cached = sum(one.cached_tokens or 0 for one in window.requests)
    prompts = sum(one.prompt_tokens or 0 for one in window.requests)
    if cached > MOST_CACHED * prompts and not window.has_conversations:
        yield f"{cached} of {prompts} prompt tokens came from a cache: switch prefix caching off"
    in_flight = _busy(metrics)
    if window.rate_per_s:
        yield from _growing_queue(window, typical_s)
    elif in_flight < LEAST_IN_FLIGHT * streams:
        yield f"{in_flight:.2f} requests were in flight, {streams} wanted"
    if (retried := sum(one.retries > 0 for one in window.requests)) > MOST_RETRIED * requests:
        yield f"{retried} of {requests} requests were sent twice: the server closed their connections before an answer"
    stalled_s = sum(_stalls_s(window, metrics))
    if stalled_s > max(MOST_STALLED_S, MOST_STALLED * duration_s):
        yield f"no token came for {stalled_s:.1f} s of {duration_s:.1f} s: the server was in no steady state"


def _busy(metrics: Metrics) -> float:
    """Return the mean number of requests in flight; of conversations those that are idle count, too."""
    return number(metrics, "mean_lanes" if "mean_lanes" in metrics else "mean_in_flight")


def _pieces(window: Window) -> Iterator[str]:
    """Yield that most answers come in a large piece, or pause at the same place: a first word without the others."""
    timed = [one for one in window.requests if one.tokens >= FEWEST_IN_PIECES]
    if len(timed) < FEWEST_IN_PIECES:
        return
    large = sum(
        (max(one.counts) > LARGEST_PIECE * one.tokens or len(one.counts) < 3)
        and one.late_s[3] < LATE_PIECE * (one.times_s[-1] - one.times_s[0] or one.ended_s - one.sent_s)
        for one in timed
    )
    if large > IN_PIECES * len(timed):
        yield f"{large} of {len(timed)} answers came in one or two pieces: their tokens have no time of their own"
    pauses = Counter[int]()
    for one in timed:
        gaps_s = [after - before for before, after in pairwise(one.times_s)]
        usual_s = statistics.median_low(gaps_s) if gaps_s else math.inf
        least_s = max(PAUSE_OF_TTFT * (one.times_s[0] - one.sent_s), PAUSE_OF_GAP * usual_s)
        pauses.update(place for place, gap_s in enumerate(gaps_s, 1) if gap_s > least_s)
    for place, times in pauses.most_common(1):
        if times > PAUSED * len(timed):
            yield (
                f"{times} of {len(timed)} answers pause after event {place}, for more than {PAUSE_OF_GAP:g} gaps and "
                f"{PAUSE_OF_TTFT:g} of their TTFT: the server sends a first word before it has computed one"
            )


def _stalls_s(window: Window, metrics: Metrics) -> list[float]:
    """Return the times without a token that neither the pace of events nor a long prompt explains."""
    inputs = sorted(one.asked_input for one in window.requests)
    longer = inputs[-1] / inputs[len(inputs) // 2]
    event_s = statistics.median((one.times_s[-1] - one.times_s[0]) / len(one.times_s) for one in window.requests)
    prompt_s = longer * min(number(metrics, "ttft_p50_s"), window.duration_s / len(inputs))
    return silences_s(window, max(LEAST_STALL_S, LONG_SILENCE * max(event_s, prompt_s)))


def unconfirmed(window: Window, is_confirmed: bool) -> Iterator[str]:
    """Yield why tokens/s do not count that a server's usage alone states, in fewer events than tokens.

    They are confirmed by a list of them in each event, or by the server's counter, which is not made from its answers.
    """
    unlisted, tokens = (sum(getattr(one, name) for one in window.requests) for name in ("unlisted", "tokens"))
    if unlisted > MOST_UNLIKE_COUNT * tokens and not is_confirmed:
        yield (
            f"{unlisted} of {tokens} tokens are only counted in the server's usage, in events of several: let it list "
            "token ids, send each token alone, or count tokens at /metrics as the client does"
        )


def _growing_queue(window: Window, typical_s: float) -> Iterator[str]:
    """Compare the requests in flight in the first third and the last, which vary by chance as Poisson's do."""
    third_s = window.duration_s / 3
    first = window.in_flight(window.start_s, window.start_s + third_s)
    last = window.in_flight(window.end_s - third_s, window.end_s)
    by_chance = math.sqrt(2 * first * min(1.0, 2 * typical_s / third_s))
    if last - first > (MOST_GROWTH - 1) * first + 2 * by_chance:
        yield f"requests in flight grow from {first:.1f} to {last:.1f}: the rate is above what the server can do"


def miscounted(window: Window, server: float, late_s: float, by_request: bool) -> Finding | None:
    """Return a finding where the server counted other tokens over the window than the client.

    It may be off by 1 %, by a token of each stream, and by those of `late_s`, the time until its counter was read.
    With `by_request`, the counter moves by all tokens of a request when that ends: however many end together, the
    tokens of those that end near an edge of the window may count or not.
    """
    tolerance = MOST_UNLIKE_COUNT * server + window.streams
    if by_request:
        near_s = late_s + LEAST_STALL_S
        fewest, ours, most = (
            sum(one.tokens for one in window.every if window.start_s - by_s <= one.ended_s < window.end_s + by_s)
            for by_s in (-near_s, 0.0, near_s)
        )
    else:
        ours = sum(count for _, count in window.output_tokens())
        fewest = most = ours
        tolerance += late_s * server / window.duration_s
    is_alike = fewest - tolerance <= server <= most + tolerance
    return None if is_alike else finding("miscounted", client=ours, server=server)


def _other_lengths(window: Window) -> Iterator[str]:
    for one in window.requests:
        if one.tokens != one.asked_output or one.completion_tokens not in (None, one.tokens):
            counted = "" if one.completion_tokens is None else f", and the server counts {one.completion_tokens}"
            yield f"request {one.index} asked for {one.asked_output} tokens and got {one.tokens}{counted}"
            return
        if one.prompt_tokens not in (None, one.asked_input):
            yield f"request {one.index} has {one.asked_input} prompt tokens, but the server counts {one.prompt_tokens}"
            return


def late_start(window: Window) -> float:
    """Return by how many seconds, in the mean, a closed loop sent its first requests later than planned."""
    first = sorted(window.every, key=lambda one: one.sent_s)[: window.streams]
    return 0.0 if window.rate_per_s else statistics.fmean(one.late_s[0] for one in first)


def _client_share(window: Window, above: float, most: float = math.inf) -> Iterator[Finding]:
    """Yield that the client's delays change a percentile by a share above one limit, and at most another."""
    share, name, longest_s = window.client_share
    if above < share <= most:
        yield finding("client_share", share=share, percentile=name, longest_ms=1e3 * longest_s)


def late_client(window: Window, metrics: Metrics) -> Iterator[Finding]:
    """Yield where the client's own delay is no small part of what was measured."""
    in_flight, typical_s = _busy(metrics), number(metrics, "e2e_p50_s")
    if (late_s := late_start(window)) > LATE_START * typical_s:
        yield finding("late_start", late_s=late_s, request_s=typical_s)
    yield from _client_share(window, LATE_OF_PERCENTILE)
    if not window.rate_per_s and in_flight < (1 - MOST_GAP) * window.streams:
        yield finding("few_in_flight", in_flight=in_flight, wanted=window.streams)


def remarks(
    window: Window, metrics: Metrics, answers: Mapping[str, Any], speculation: Mapping[str, Any]
) -> Iterator[Finding]:
    """Yield what limits a run that counts, but for `late_client`, by its requests, answers and counters of drafts.

    The client starts its streams one by one; streams that start together nevertheless are the server's doing.
    """
    yield from _client_share(window, TOLD_OF_PERCENTILE, LATE_OF_PERCENTILE)
    is_late = late_start(window) > LATE_START * number(metrics, "e2e_p50_s")  # which late_client() says
    is_judged = window.streams >= FEWEST_FOR_LOCK_STEP and not (window.rate_per_s or is_late)
    if is_judged and (starts := lock_step(window)) > MOST_LOCK_STEP:
        yield finding("lock_step", share=starts)
    if retried := sum(one.retries > 0 for one in window.requests):
        yield finding("retried", requests=retried)
    if stalls_s := _stalls_s(window, metrics):
        yield finding("stall", longest_s=max(stalls_s), stalled_s=sum(stalls_s))
    if (unseen := sum(one.is_unseen for one in window.requests)) > MOST_UNSEEN * len(window.requests):
        yield finding("unseen_first", requests=unseen)
    if (change := drift(window)) > MOST_DRIFT:
        yield finding("drift", change=change)
    if any(one.prompt_tokens is None for one in window.requests):
        yield finding("no_prompt_tokens")
    cached, possible = metrics.get("cached_tokens"), number(metrics, "possible_cached_tokens")
    if window.has_conversations and cached is None:
        yield finding("no_cached_tokens")
    # A piece of random tokens begins like another one by chance: a token of each request is allowed for.
    elif window.has_conversations and number(metrics, "cached_tokens") > possible + len(window.requests):
        yield finding("cache_impossible", cached=cached, possible=possible)
    if None in (metrics.get("ttft_p99_high_s"), metrics.get("tpot_p99_high_s")):
        yield finding("p99_unbounded", requests=len(window.requests))
    yield from judged(answers)
    yield from judged_acceptance(speculation, number(metrics, "output_tokens_per_request"))
    yield from judged_events(speculation, window, metrics.get("undeclared_steps"))


def judged_acceptance(facts: Mapping[str, Any], tokens_per_request: float) -> Iterator[Finding]:
    """Yield what limits a run whose server accepts a stated number of tokens: the facts are its record's."""
    if not facts:
        return
    yield finding("answers_synthetic")
    length, measured = facts["stated_length"], facts["measured_length"]
    if measured is None:
        yield finding("acceptance_unknown", stated=length)
        return
    # A step accepts 0 to all draft tokens: Bhatia and Davis 2000, Am. Math. Monthly 107, 353, bound its variance.
    drafts, steps = facts["draft_tokens"], facts["steps"]
    variance = max(0.0, (length - 1) * (drafts + 1 - length))
    most = MOST_UNLIKE_COUNT * length + (SIGMAS * math.sqrt(variance / steps) if steps else 0.0)
    if measured < length:  # the last step of a request is cut where its answer ends, by all draft tokens at most
        most += drafts * length / tokens_per_request if tokens_per_request else 0.0
    if abs(measured - length) > most:
        yield finding("acceptance_differs", measured=measured, stated=length, most=most)


def judged_events(facts: Mapping[str, Any], window: Window, undeclared_steps: object = None) -> Iterator[Finding]:
    """Yield what the events of requests contradict: the facts of speculation, or that there is none.

    `undeclared_steps` are those with drafts of a server without speculation, by its counter.
    """
    events = [count for one in window.requests for count in one.counts[1:]]
    mean = statistics.fmean(events) if events else 1.0
    if not facts:
        if undeclared_steps:
            yield finding("speculation_undeclared", steps=undeclared_steps)
        elif mean > FEW_IN_EVENT:
            yield finding("events_of_several", mean=mean)
    if not facts or facts["measured_length"] is None:
        return
    measured, most = facts["measured_length"], facts["draft_tokens"] + 1
    # A busy server or client joins the tokens of two steps in an event, of which some then have more than a step can.
    joined = sum(count > most for count in events) / max(1, len(events))
    if 2 * measured > most and mean > measured * (1 + JOINED * joined) * MOST_OF_STEP:
        yield finding("events_differ", mean=mean, measured=measured)
    # The first token of an answer is its prompt's. Counters of whole requests miss those in flight at an edge.
    later = sum(count for _, count in window.output_tokens())
    later -= sum(one.counts[0] for one in window.every if window.holds(one.times_s[0]))
    counted = facts["steps"] * measured
    in_flight = window.in_flight(window.start_s, window.end_s) * statistics.fmean(one.tokens for one in window.requests)
    if abs(later - counted) > MOST_UNLIKE_STEPS * later + in_flight:
        yield finding("steps_differ", later=later, counted=counted)
