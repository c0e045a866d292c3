"""Latencies, throughput and intervals, of requests whose times are known."""

from __future__ import annotations

import math
import statistics
from array import array
from statistics import NormalDist

import pytest

from benchmarks.llm_inference.tests import simulated
from benchmarks.llm_inference.tests.simulated import OUTPUT, TPOT_S, TTFT_S, closed_loop
from record.demand import Slo, arrivals_s, lengths_of
from record.derivation import derive
from record.estimates import percentile_estimate, ranks, rate_estimate, share_estimate
from record.model import Record
from record.served import lock_step, metrics_of
from record.served_rules import faults, late_client, miscounted, remarks

SLO = Slo(0.06, 0.012)
# Intervals that hold in 95 of 100 cases hold fewer times in 1 of 100 tests; ones of 0.7 times their width, in 95.
RUNS, FEWEST_HELD = 100, 90
OPEN = {"rate_per_s": 20.0}


def metrics(window):
    marked = {"hostname": "n1", "kind": "measured", "start_s": window.start_s, "end_s": window.end_s}
    record = {"status": "ok", "work_unit": "tokens", "serving": {"server": "simulated"}, "layout": {"num_devices": 1}}
    return vars(derive(Record.of({**record, "metrics": metrics_of(window, SLO), "windows": [marked]})).metrics)


def faults_of(window):
    return list(faults(window, metrics(window)))


def kinds_of(window):
    return {one.kind for one in remarks(window, metrics(window), {}, {})}


def late_kinds(window, **changes):
    return {one.kind for one in late_client(window, metrics(window) | changes)}


def test_latencies_are_those_of_the_server():
    found, request_s = metrics(closed_loop(4, 400)), TTFT_S + (OUTPUT - 1) * TPOT_S
    exact = {"ttft_p50_s": TTFT_S, "tpot_p99_s": TPOT_S, "tokens_per_s_per_user": 1 / TPOT_S, "e2e_p50_s": request_s}
    assert {name: found[name] for name in exact} == pytest.approx(exact)
    assert found["goodput_share"] == 1.0
    # But for the requests that the edges of the window cut.
    near = {"mean_in_flight": 4, "tokens_per_s": 4 * OUTPUT / request_s, "input_tokens": 32 * 400}
    assert {name: found[name] for name in near} == pytest.approx(near, rel=0.01)


@pytest.mark.parametrize(("per_chunk", "tpot_s"), [(4, TPOT_S), (OUTPUT, None)])
def test_a_first_event_of_several_tokens_shortens_no_tpot(per_chunk, tpot_s):
    [request, *_] = closed_loop(1, 10, per_chunk=per_chunk).every
    assert request.tpot_s == (tpot_s and pytest.approx(tpot_s))
    assert request.ttft_s == pytest.approx(TTFT_S)


def mixed(count: int) -> list[float]:
    """The numbers up to a count, of which each part has small and large ones alike (golden section)."""
    turns = [0.618034 * one % 1 for one in range(count)]
    return [1.0 + sum(other < one for other in turns) for one in turns]


def test_few_requests_do_not_bound_a_high_percentile():
    # 1 - 0.99^100 = 63 %: of a hundred requests the largest may well be below the 99th percentile.
    assert percentile_estimate(mixed(100), 99, 1).high is None
    assert percentile_estimate(mixed(500), 99, 1).high is not None


def test_intervals_agree_with_published_ones():
    assert ranks(20, 0.5) == (6, 15)  # Conover 1999, table A3
    # Newcombe 1998, Statistics in Medicine 17, table I: 81 of 263 is 0.2553 to 0.3662.
    assert share_estimate(81, 263)[1:] == pytest.approx((0.2553, 0.3662), abs=1e-4)


@pytest.mark.parametrize("percent", [50, 90, 99])
@pytest.mark.parametrize("few", [5, 65, 130])
def test_an_interval_has_its_value_in_it_however_values_change(few, percent):
    for values in (mixed(few), sorted(mixed(few)), [*[1.0] * (few - 2), 5.0, 9.0]):
        found = percentile_estimate(values, percent, 4)
        assert (found.low or 0.0) <= found.value <= (found.high or math.inf)


def test_a_steady_rate_has_a_narrow_interval():
    found = rate_estimate([(at / 100, 1) for at in range(1000)], 0.0, 10.0, 0.5)
    assert found.value == pytest.approx(100)
    assert found.high - found.low < 1.0


@pytest.mark.parametrize(("streams", "requests"), [(4, 800), pytest.param(16, 800, marks=pytest.mark.slow)])
def test_intervals_hold_the_true_value(streams, requests):
    noise, normal = 0.2, NormalDist()
    mean = math.exp(noise**2 / 2)
    true = {
        "ttft_p50_s": TTFT_S,
        "ttft_p99_s": TTFT_S * math.exp(noise * normal.inv_cdf(0.99)),
        "tpot_p50_s": TPOT_S,
        "tokens_per_s": streams * OUTPUT / (mean * (TTFT_S + (OUTPUT - 1) * TPOT_S)),
    }
    held, bounded = dict.fromkeys(true, 0), 0
    for seed in range(RUNS):
        found = metrics(closed_loop(streams, requests, noise=noise, seed=seed))
        bounded += found["ttft_p99_high_s"] is not None
        for key, value in true.items():
            stem, end = (key, "") if key == "tokens_per_s" else (key[:-2], "_s")
            low, high = found[f"{stem}_low{end}"], found[f"{stem}_high{end}"]
            held[key] += low <= value <= (math.inf if high is None else high)
    assert min(held.values()) >= FEWEST_HELD, held
    assert bounded >= FEWEST_HELD


def test_streams_that_start_together_are_found():
    together = closed_loop(8, 200, stagger=False)
    assert (lock_step(closed_loop(8, 200)) < 0.1) and (lock_step(together) > 0.95)
    assert "lock_step" in kinds_of(together)


def test_a_good_run_has_no_fault_and_no_remark():
    window = closed_loop(4, 400, noise=0.1)
    assert (faults_of(window), kinds_of(window), late_kinds(window)) == ([], set(), set())


def test_prompts_that_the_server_does_not_count_are_as_long_as_they_were_sent():
    window = closed_loop(4, 400)
    before = metrics_of(window, SLO)["input_tokens"]
    for request in window.every:
        request.prompt_tokens = None
    assert metrics_of(window, SLO)["input_tokens"] == before > 0
    assert "no_prompt_tokens" in kinds_of(window)


def short(window):
    window.end_s = window.start_s + 0.4


def each(change):
    def changed(window):
        for request in window.every:
            change(request)

    return changed


def queued(window):
    third_s = window.duration_s / 3
    for one in window.every:
        one.ended_s += 0.4 * max(0.0, one.sent_s - window.start_s - third_s)


def first_word(one):
    """Begin an answer at once, and have the others when they were."""
    one.times_s[0] = one.sent_s + 0.003


def in_pieces(one):
    one.times_s, one.counts = array("d", [one.times_s[0], one.times_s[-1]]), array("H", [1, OUTPUT - 1])


def of_most(change):
    def changed(window):
        for one in window.every[: len(window.every) * 9 // 10]:
            change(one)

    return changed


@pytest.mark.parametrize(
    ("changes", "change", "words"),
    [
        ({}, each(lambda one: setattr(one, "completion_tokens", 15)), "got 16, and the server counts 15"),
        ({}, each(lambda one: setattr(one, "asked_output", 17)), "asked for 17 tokens and got 16"),
        ({}, each(lambda one: setattr(one, "prompt_tokens", 31)), "32 prompt tokens, but the server counts 31"),
        ({}, each(lambda one: setattr(one, "cached_tokens", 16)), "came from a cache"),
        ({}, each(lambda one: setattr(one, "ended_s", one.ended_s - 0.08)), "requests were in flight, 4 wanted"),
        ({}, each(lambda one: setattr(one, "times_s", array("d", [one.ended_s] * OUTPUT))), "came in one piece"),
        ({"requests": 20}, lambda window: None, "20 requests in the window, at least 30 wanted"),
        ({"requests": 20}, short, "the window of 0.4 s is below 5 times that of a request"),
        (OPEN, queued, "requests in flight grow"),
        ({"noise": 0.2}, of_most(first_word), "answers pause after event 1"),
        ({"noise": 0.2}, of_most(in_pieces), "came in one or two pieces"),
    ],
)
def test_a_bad_run_says_why(changes, change, words):
    window = closed_loop(4, **{"requests": 400, **changes})
    change(window)
    assert any(words in one for one in faults_of(window)), faults_of(window)


def test_an_open_loop_of_few_requests_varies_by_chance():
    window = closed_loop(4, 60, **OPEN)
    for request in window.every[: len(window.every) // 2]:
        request.ended_s -= 0.08
    assert not any("in flight grow" in one for one in faults_of(window))


@pytest.mark.parametrize(("by_request", "more"), [(False, 1.02), (True, 1.08)])
def test_another_count_of_the_server_is_bad(by_request, more):
    window = closed_loop(4, 400)
    ours = sum(count for _, count in window.output_tokens())
    assert miscounted(window, ours + 10, 0.01, by_request) is None
    for other in (more * ours, (2 - more) * ours):
        assert dict(miscounted(window, other, 0.0, by_request).values)["server"] == other
    assert miscounted(window, 1.02 * ours, 0.02 * window.duration_s, by_request) is None


@pytest.mark.parametrize("together", [False, True])
def test_a_counter_that_moves_when_requests_end_agrees_however_many_end_together(together, monkeypatch):
    monkeypatch.setattr(simulated, "TPOT_S", 1.0)
    monkeypatch.setattr(simulated, "OUTPUT", 60)  # of requests that take a minute
    disagree = 0
    for seed in range(20):
        window = closed_loop(64, 256, noise=0.0 if together else 0.1, seed=seed, stagger=not together)
        window.end_s += 30 * together  # while none ends
        # The server counts a request before the client has read its end.
        server = sum(one.tokens for one in window.every if window.holds(one.ended_s - 0.1))
        assert miscounted(window, server, 0.01, by_request=True) is None
        disagree += miscounted(window, server, 0.01, by_request=False) is not None
    assert disagree  # of good runs, by a rule for counters that move with each token


@pytest.mark.parametrize(("retried", "fails"), [(4, False), (5, True)])
def test_requests_that_were_sent_twice_are_a_remark_and_above_a_share_a_failure(retried, fails):
    window = closed_loop(4, 400)
    for request in window.requests[:retried]:
        request.retries = 1
    assert "retried" in kinds_of(window)
    assert any("requests were sent twice" in one for one in faults_of(window)) == fails


def paused(pauses_s, at_s=2.0, streams=4, requests=400, **changes):
    """A closed loop whose server sends nothing for some seconds after each of some times."""
    window = closed_loop(streams, requests, **changes)
    start_s = window.start_s

    def later(time_s):
        done_s = 0.0
        for number, pause_s in enumerate(pauses_s):
            done_s += pause_s * (time_s > start_s + at_s * (number + 1))
        return time_s + done_s

    for one in window.every:
        one.times_s = array("d", map(later, one.times_s))
        one.due_s, one.sent_s, one.ended_s = map(later, (one.due_s, one.sent_s, one.ended_s))
    window.end_s = later(window.end_s)
    return window


@pytest.mark.parametrize(
    ("pauses_s", "streams", "is_said", "fails"),
    [
        ((), 4, False, False),
        ((0.3,), 4, False, False),
        ((0.6,), 4, True, False),
        ((3.0,), 4, True, True),
        ((3.0,), 1, True, True),
        ((0.7, 0.7, 0.7, 0.7), 4, True, True),
    ],
)
def test_a_server_that_stalls_is_in_no_steady_state(pauses_s, streams, is_said, fails):
    window = paused(pauses_s, streams=streams, requests=100 * streams)
    assert ("stall" in kinds_of(window)) == is_said
    assert any("was in no steady state" in one for one in faults_of(window)) == fails


def test_a_time_without_requests_is_no_stall():
    window = paused((3.0,), **OPEN)
    for request in window.every:  # those that were in flight come after it
        if request.sent_s < window.start_s + 2 < request.ended_s - 3:
            request.times_s = array("d", (request.ended_s - TPOT_S * (OUTPUT - 1 - at) for at in range(OUTPUT)))
            request.sent_s = request.due_s = request.times_s[0] - TTFT_S
    assert "stall" not in kinds_of(window)


@pytest.mark.parametrize("slower", [12, 70])  # 0.6 s to a first token; 0.7 s between tokens
def test_long_prompts_and_slow_tokens_are_no_stall(slower):
    window = closed_loop(1, 400)
    for request in window.every:
        request.times_s = array("d", (slower * one for one in request.times_s))
        for name in ("due_s", "sent_s", "ended_s"):
            setattr(request, name, slower * getattr(request, name))
    window.start_s, window.end_s = slower * window.start_s, slower * window.end_s
    assert "stall" not in kinds_of(window)


def test_a_rate_that_drifts_is_a_remark():
    window = closed_loop(4, 400)
    for request in window.every[: len(window.every) // 3]:
        request.counts[0] = 3
    assert "drift" in kinds_of(window)


def test_fewer_requests_in_flight_than_asked_for_are_told():
    assert late_kinds(closed_loop(4, 400), mean_in_flight=3.9) == {"few_in_flight"}


@pytest.mark.parametrize(
    ("place", "late_s", "every", "kinds", "is_late"),
    [
        (1, 0.0005, 1, set(), False),  # 1 % of a TTFT
        (1, 0.003, 1, {"client_share"}, False),  # a word, and no fault of a node of its own
        (1, 0.01, 1, {"client_share"}, True),
        (1, 0.03, 60, {"client_share"}, True),  # 1 of 60 requests: the 99th percentile alone
        (2, 0.05, 1, {"client_share"}, True),
        (0, 0.05, 1, {"late_start"}, True),
    ],
)
def test_what_a_late_client_changes_is_told(place, late_s, every, kinds, is_late):
    window = closed_loop(8, 400, stagger=place > 0)
    for one in window.every[::every]:
        one.late_s[place] = late_s
    late = late_kinds(window)
    assert (kinds_of(window) | late, bool(late)) == (kinds, is_late)


def test_arrivals_and_lengths_are_drawn_as_asked_for():
    times_s = list(arrivals_s(50.0, 1.0, 7, 100.0))
    assert len(times_s) == pytest.approx(5000, rel=0.05)
    assert times_s == list(arrivals_s(50.0, 1.0, 7, 100.0))
    inputs, outputs = zip(*lengths_of(1000, 200, 0.5, 3), strict=True)
    assert statistics.fmean(inputs) == pytest.approx(1000, rel=0.08)
    assert statistics.fmean(outputs) == pytest.approx(200, rel=0.08)
