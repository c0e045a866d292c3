"""Perplexity of the suite's text: a proper distribution of the listed tokens and the others, and its reference."""

from __future__ import annotations

import math

import pytest

from record.answers import facts_of, judged, perplexity
from record.asked import reference_of, references

HALF, QUARTER = math.log(0.5), math.log(0.25)


@pytest.mark.parametrize(
    ("places", "vocabulary", "expected"),
    [
        ([(0, [HALF, QUARTER])], 10, 2.0),
        ([(1, [HALF, QUARTER])], 10, 4.0),
        ([(-1, [HALF, QUARTER])], 10, 32.0),  # 8 others share a quarter
        ([(0, [HALF]), (1, [HALF, QUARTER]), (0, [HALF])], 10, 2 ** (4 / 3)),
        ([(-1, [0.0])], 11, 1e10),  # nothing is left for the others, but for rounding
    ],
)
def test_the_other_tokens_share_the_rest(places, vocabulary, expected):
    assert perplexity(places, vocabulary) == pytest.approx(expected)


def test_the_probabilities_of_all_tokens_add_up_to_one():
    listed = [math.log(share) for share in (0.4, 0.3, 0.2)]
    every = [1 / perplexity([(at, listed)], 50) for at in (0, 1, 2)] + [1 / perplexity([(-1, listed)], 50)] * 47
    assert math.fsum(every) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("at", "reference", "kinds"),
    [
        ([0] * 99, 2.0, []),
        ([0] * 99, 1.99, []),
        ([0] * 99, 1.97, ["perplexity_differs"]),
        ([0] * 99, 2.02, []),
        ([0] * 99, 2.03, ["perplexity_differs"]),  # better than the reference: other weights
        ([0] * 99, None, ["perplexity_unjudged"]),
        ([], 2.0, ["perplexity_unknown"]),
    ],
)
def test_a_text_is_as_likely_as_by_the_reference(at, reference, kinds):
    stored = {"places": [(one, [HALF]) for one in at], "vocabulary": 10, "reference": reference}
    assert [one.kind for one in judged(facts_of({"text": stored}))] == kinds


def test_probabilities_that_are_more_than_all_give_no_perplexity():
    stored = {"places": [(0, [HALF, HALF]), (0, [HALF, HALF, QUARTER])], "vocabulary": 10, "reference": 2.0}
    assert [one.kind for one in judged(facts_of({"text": stored}))] == ["perplexity_unknown"]


def test_the_suites_own_reference_comes_before_the_given_one():
    [(model, precision), own] = next(iter(references().items()))
    assert [reference_of(model, precision, given) for given in (0.0, 7.0)] == [own, own]
    assert [reference_of("unknown", precision, given) for given in (0.0, 7.0)] == [None, 7.0]
