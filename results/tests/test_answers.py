"""Answers of a server under load: rounding is distinguished from errors, and a server with errors is not ranked."""

from __future__ import annotations

import math

import pytest

from record.answers import LEAST_RIGHT, Answer, Streamed, facts_of, judged, perplexity
from record.asked import PERPLEXITIES, reference_of
from record.files import csv_rows

TOKENS, LOGPROB = ["a", "b", "c", "d"], -0.5
TOP = [{one: LOGPROB, f"{one}2": -0.9, f"{one}3": -3.0} for one in TOKENS]
QUESTIONS = 16


def answer(*tokens, change=0.0, **more):
    return Answer(list(tokens or TOKENS), [LOGPROB + change] * (len(tokens) or 4), **more)


IDLE = answer(top=TOP)


@pytest.mark.parametrize(
    ("tokens", "same", "gap"),
    [
        (("a", "b", "c", "d"), 4, 0.0),
        (("a", "b2", "x", "y"), 1, 0.4),  # what follows the first difference does not count
        (("a", "b3", "c", "d"), 1, 2.5),
        (("a", "x", "c", "d"), 1, math.inf),
        (("a", "b"), 2, math.inf),  # it ends early
        (("a", "b", "c", "d", "e"), 4, math.inf),
    ],
)
def test_the_first_difference_is_judged_by_the_idle_servers_log_probabilities(tokens, same, gap):
    other = answer(*tokens)
    assert (IDLE.same(other), IDLE.gap(other)) == (same, pytest.approx(gap))
    assert IDLE.agreement(other) == same / max(4, len(tokens))


def stored(loaded, again=None, idle=IDLE, **more):
    """Answers of a run: those under load from the first on, the others as on the idle server."""
    rest = [idle] * (QUESTIONS - len(loaded))
    return {"idle": [idle] * QUESTIONS, "again": (again or [idle]) * QUESTIONS, "loaded": [*loaded, *rest], **more}


TEXT, OTHER_TEXT = Answer(list("one two")), Answer(list("one six"))
EXPECTED = [["Paris", "It is paris."], ["4", "Five"]]


@pytest.mark.parametrize(
    ("answers", "kinds"),
    [
        (stored([]), []),
        (stored([answer("a", "b2", "x", "y")] * QUESTIONS), []),
        (stored([answer("a", "x", "c", "d")]), ["answers_wrong"]),  # one of 16 is more than 1 %
        (stored([answer("a", "b3", "c", "d")]), ["answers_wrong"]),
        (stored([], again=[answer("x")]), ["answers_vary"]),
        (stored([answer(change=-0.009)] * QUESTIONS), []),
        (stored([answer(change=-0.011)] * QUESTIONS), ["answers_unlikely"]),
        (stored([answer(change=change) for change in (-0.2, 0.17) * 8]), []),  # chance explains the mean
        (stored([OTHER_TEXT] * QUESTIONS, idle=TEXT), ["no_logprobs"]),  # 4 of 7 letters are equal
        (stored([Answer(list("x"))] * QUESTIONS, idle=TEXT), ["no_logprobs", "answers_unlike"]),
        ({"expected": EXPECTED, "reference": 0.5}, []),
        ({"expected": EXPECTED, "reference": 0.51}, ["answers_below"]),
        ({}, []),
    ],
)
def test_what_rounding_does_not_explain_is_found(answers, kinds):
    assert [one.kind for one in judged(facts_of(answers))] == kinds


WORDS = ["The", " cat", " sat"]
NEAR = {" cat": -0.5, " dog": -0.7, " car": -3.0}


@pytest.mark.parametrize(
    ("arrived", "tokens", "top", "gap"),
    [
        ("The cat sat", WORDS, {}, 0.0),
        ("\nThe cat sat ", WORDS, {}, 0.0),
        ("The dog ran", WORDS, NEAR, 0.2),
        ("The car", WORDS, NEAR, 2.5),
        ("The eel", WORDS, NEAR, math.inf),
        ("The       ", WORDS, NEAR, math.inf),  # padding
        ("The cat sat on", WORDS, {}, None),
        ("The dog ran", ["The", "cat", "sat"], NEAR, None),  # tokens without their spaces
        ("The \ufffd", WORDS, NEAR, None),
        ("The eel", WORDS, {**NEAR, "bytes:\\xc3": -0.6}, None),
        ("The dog ran", list("The cat sat"), {}, None),  # letters, without probabilities
    ],
)
def test_the_first_other_token_of_a_streamed_answer_is_judged(arrived, tokens, top, gap):
    assert Streamed(arrived, "The cat sat", tokens, top).gap == (gap if gap is None else pytest.approx(gap))


def of_load(*streamed, parts=()):
    more = ["The cat sat", "The cat sat", WORDS, {}]
    return stored([], load=[*streamed, *[more] * (4 - len(streamed))], parts=list(parts))


@pytest.mark.parametrize(
    ("answers", "kinds"),
    [
        (of_load(), []),
        (of_load(["The dog ran", "The cat sat", WORDS, NEAR]), []),
        (of_load(["The eel", "The cat sat", WORDS, NEAR]), ["load_wrong"]),
        (of_load(*[["The dog", "The cat sat", ["?"], {}]] * 3), []),
        (of_load(*[["Another", "The cat sat", ["?"], {}]] * 3), ["load_wrong"]),
        (of_load(parts=[[{"a": -1.0}, {"a": -1.0001}]] * 4), []),
        (of_load(parts=[[{"a": -1.0}, {"a": -1.0}]]), ["prompt_unread"]),
    ],
)
def test_answers_of_the_load_are_those_to_the_same_requests_asked_again(answers, kinds):
    assert [one.kind for one in judged(facts_of(answers))] == kinds


def test_the_likelihood_is_the_inverse_ratio_of_perplexities():
    facts = facts_of(stored([answer(change=math.log(LEAST_RIGHT))] * QUESTIONS))
    assert facts["likelihood"] == pytest.approx(LEAST_RIGHT)


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
    model, precision, text, _ = csv_rows(PERPLEXITIES)[0].values()
    own = float(text)
    assert [reference_of(model, precision, given) for given in (0.0, 7.0)] == [own, own]
    assert [reference_of("unknown", precision, given) for given in (0.0, 7.0)] == [None, 7.0]
