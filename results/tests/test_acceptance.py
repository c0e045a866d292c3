"""Speculative decoding: the acceptance of a server is as stated, or the run is not ranked."""

from __future__ import annotations

import random
from array import array

import pytest

from record.asked import acceptance_length, as_asked, published_lengths, stated_length
from record.model import Record
from record.served import Request, Window
from record.served_rules import judged_acceptance, judged_events
from results.tests.builder import served


def test_published_lengths_are_means_of_their_steps():
    assert [published_lengths()["DeepSeek-V4-Pro", count] for count in (1, 2, 3)] == [1.79, 2.27, 2.49]
    assert all(1 <= length <= count + 1 for (_, count), length in published_lengths().items())
    assert (stated_length(3, 2.0, "DeepSeek-V4-Pro"), stated_length(9, 0.0, "DeepSeek-V4-Pro")) == (2.0, 0.0)


@pytest.mark.parametrize(
    ("steps", "accepted", "length"), [(100.0, 149.0, 2.49), (0.0, 0.0, 1.0), (None, 1.0, None), (1.0, None, None)]
)
def test_a_step_has_its_own_token_and_those_accepted(steps, accepted, length):
    assert acceptance_length(steps, accepted) == (None if length is None else pytest.approx(length))


@pytest.mark.parametrize(
    ("measured", "steps", "tokens", "kinds"),
    [
        (2.49, 1e6, 1024, []),
        (2.46, 1e6, 1024, []),  # 1 %, and what the ends of answers cut, 3 of 1024 tokens times 2.49
        (2.45, 1e6, 1024, ["acceptance_differs"]),
        (2.51, 1e6, 1024, []),
        (2.53, 1e6, 1024, ["acceptance_differs"]),
        (2.10, 1e6, 16, []),  # the last of 6 steps is cut
        (1.90, 1e6, 16, ["acceptance_differs"]),
        (2.53, 1e6, 16, ["acceptance_differs"]),  # a cut makes no step longer
        (2.40, 2000, 1024, []),  # chance: 3 standard deviations of 1.5 / 45
        (1.0, 0.0, 1024, ["acceptance_differs"]),  # no step has drafts
        (None, None, 1024, ["acceptance_unknown"]),
    ],
)
def test_a_measured_length_is_as_stated_but_for_chance_and_ends(measured, steps, tokens, kinds):
    facts = {"draft_tokens": 3, "stated_length": 2.49, "measured_length": measured, "steps": steps}
    found = [one.kind for one in judged_acceptance(facts, tokens)]
    assert found == ["answers_synthetic", *kinds]
    assert list(judged_acceptance({}, tokens)) == []


def window_of(length, joined, seed):
    """Return a window of requests whose steps have a mean length, and how many steps; some share an event by chance."""
    chance, every, steps, (whole, part) = random.Random(seed), [], 0, divmod(length, 1)
    for index in range(100):
        counts, left = [1], 63
        while left:
            new = min(left, int(whole) + (chance.random() < part))
            left, steps = left - new, steps + 1
            if len(counts) > 1 and chance.random() < joined:
                counts[-1] += new
            else:
                counts.append(new)
        times_s = array("d", [index + 0.1 + 0.01 * at for at in range(len(counts))])
        every.append(Request(index, 0, index, index, 32, 64, times_s, array("H", counts), times_s[-1]))
    return Window(every, 0.0, 100.0, 1), steps


@pytest.mark.parametrize(
    ("made", "counted", "share_of_steps", "joined", "kinds"),
    [
        (2.49, 2.49, 1.0, 0.0, set()),
        (2.49, 2.49, 1.0, 0.3, set()),
        (1.5, 1.5, 1.0, 0.3, set()),  # no joined event shows itself
        (3.9, 2.49, 3.9 / 2.49, 0.0, {"events_differ"}),  # steps that were not taken
        (3.0, 2.49, 3.0 / 2.49, 0.02, {"events_differ"}),
        (3.9, 2.49, 1.0, 0.0, {"events_differ", "steps_differ"}),
        (2.49, 2.49, 0.6, 0.0, {"steps_differ"}),
    ],
)
def test_counters_of_steps_agree_with_the_events_of_requests(made, counted, share_of_steps, joined, kinds):
    for seed in range(20):
        window, steps = window_of(made, joined, seed)
        facts = {"draft_tokens": 3, "measured_length": counted, "steps": share_of_steps * steps}
        assert {one.kind for one in judged_events(facts, window)} == kinds


@pytest.mark.parametrize(
    ("made", "steps", "kinds"),
    [
        (1.0, None, []),
        (1.0, 0.0, []),
        (1.1, 0.0, []),
        (2.0, None, ["events_of_several"]),
        (2.0, 900.0, ["speculation_undeclared"]),
    ],
)
def test_speculation_that_nobody_declared_is_found(made, steps, kinds):
    window, _ = window_of(made, 0.0, 1)
    assert [one.kind for one in judged_events({}, window, steps)] == kinds


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, ""),
        ({"draft_tokens": 3, "acceptance_of": "A"}, ", acceptance of A"),
        ({"draft_tokens": 3, "acceptance_length": 3.9}, ", 3 draft tokens, 3.9 tokens a step by the user"),
    ],
)
def test_whose_acceptance_was_stated_is_part_of_the_workload(asked, words):
    load = {"rate_per_s": 0.0, "input_tokens": 32, "output_tokens": 16, "length_sigma": 0.0, "lengths_file": ""}
    options = {"load": load, "serve": {"server": "vllm"}, "speculation": asked}
    assert as_asked(Record.of(served() | {"config": options})).sample == f"32/16 tokens{words}"
