"""Bodies of requests, and the tokens in each event."""

from __future__ import annotations

import json

import pytest

from benchmarks.llm_inference.prompts import Bodies
from benchmarks.llm_inference.stream import Counter
from record.served import Request


def event(**fields) -> dict:
    return {"choices": [{"index": 0, "text": "word", "finish_reason": None}], **fields}


def counting() -> Counter:
    return Counter(Request(0, 0, 0.0, 0.0, 5, 3))


def prompt(body: bytes) -> list[int]:
    return json.loads(body)["prompt"]


@pytest.mark.parametrize("length", [1, 3, 4, 17, 1000, 200_000])
def test_prompts_have_the_length_that_was_asked_for(length):
    made = Bodies("model", 32000, {}, "salt")
    assert len(prompt(made.body(0, length, 2))) == length
    chat = json.loads(Bodies("model", 32000, {}, "salt", 7).body(0, length + 7, 2))["messages"][0]["content"]
    assert (len(chat.split(" ")), {len(one) for one in chat.split(" ")}) == (length, {1})  # letters


@pytest.mark.parametrize("template", [None, 7])
def test_prompts_share_no_beginning_with_another_one_or_another_run(template):
    made = [Bodies("model", 32000, {}, salt, template) for salt in ("salt", "salt", "other")]
    texts = [one.made(f"{index}", 100) for one, index in zip(made, (0, 1, 0), strict=True)]
    assert len({text[:16] for text in texts}) == 3
    assert made[0].made("0", 50) == texts[0][: len(made[0].made("0", 50))]


@pytest.mark.parametrize(
    ("vocab_size", "least", "most"), [(32000, 10000, 31999), (100352, 10000, 99999), (128256, 10000, 99999), (2, 1, 1)]
)
def test_ids_are_of_the_length_that_most_of_the_vocabulary_has(vocab_size, least, most):
    ids = prompt(Bodies("model", vocab_size, {}, "salt").body(0, 1000, 2))
    assert all(least <= one <= most for one in ids)
    assert len(set(ids)) > (most - least) / 1000


def test_a_body_asks_for_all_its_tokens_and_nothing_that_was_not_asked_for():
    body = json.loads(Bodies("model", 8192, {}, "salt").body(0, 4, 7))
    assert body.pop("prompt")
    assert body == {
        "model": "model",
        "max_tokens": 7,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
    }


@pytest.mark.parametrize(
    "events",
    [
        [event(), event(), event(), {"choices": [], "usage": {"completion_tokens": 3, "prompt_tokens": 5}}],
        [event(usage={"completion_tokens": 2, "prompt_tokens": 5}), event(usage={"completion_tokens": 3})],
        [event(timings={"predicted_n": 1, "prompt_n": 5, "cache_n": 0}), event(timings={"predicted_n": 3})],
        [{"choices": [{"token_ids": [1, 2]}]}, {"choices": [{"token_ids": [3]}], "usage": {"prompt_tokens": 5}}],
        [
            event(),
            event(),
            event(),
            {
                "choices": [{"text": "", "finish_reason": "length"}],
                "usage": {"completion_tokens": 3, "prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}},
            },
        ],
    ],
    ids=["text", "usage", "timings", "ids", "usage at the end"],
)
def test_tokens_are_counted_by_what_the_server_tells(events):
    counter = counting()
    assert sum(map(counter.new_tokens, events)) == 3
    assert (counter.tokens, counter.request.prompt_tokens) == (3, 5)


@pytest.mark.parametrize(
    ("first", "when", "is_unseen"),
    [
        ({"text": "a"}, 0, False),
        ({"text": " "}, 1, True),
        ({"text": "\u200b"}, 1, True),
        ({"text": "\ufe0f"}, 1, True),  # a mark alone, which selects the form of a sign
        ({"text": "", "logprobs": {"tokens": [""]}}, 1, False),
        ({"text": ""}, 1, False),
        ({"text": None}, 1, False),
        ({"text": "", "token_ids": [7]}, 0, True),
        ({"text": " ", "logprobs": {"tokens": [" "]}}, 0, True),
        ({"delta": {"role": "assistant", "content": ""}}, 1, False),
        ({"delta": {"reasoning": "a"}}, 0, False),
        ({"delta": {"content": " "}, "logprobs": {"content": [{"token": " "}]}}, 0, True),
    ],
)
def test_a_first_token_is_seen_or_listed(first, when, is_unseen):
    events = [
        event(choices=[first]),
        event(choices=[{"text": "b", **({"token_ids": [8]} if "token_ids" in first else {})}]),
    ]
    counter = counting()
    counts = [counter.new_tokens(one) for one in events]
    assert ([count > 0 for count in counts].index(True), counter.request.is_unseen) == (when, is_unseen)
    assert sum(counts) == counter.tokens


def test_an_answer_of_spaces_alone_has_its_tokens_at_its_end():
    counter = counting()
    assert [counter.new_tokens(event(choices=[{"text": " "}])) for _ in range(3)] == [0, 0, 0]
    assert (counter.release(), counter.release()) == (3, 0)


@pytest.mark.parametrize(
    ("changes", "unlisted"),
    [
        ({}, 2),
        ({"choices": [{"text": "a b c", "token_ids": [1, 2, 3]}]}, 0),
        ({"choices": [{"text": "a b c", "logprobs": {"tokens": ["a", " b", " c"]}}]}, 0),
        ({"choices": [{"text": "a b c", "logprobs": {"tokens": ["a"]}}]}, 2),
        ({"usage": {"completion_tokens": 1}}, 0),
    ],
)
def test_tokens_of_one_event_are_listed_or_counted_only(changes, unlisted):
    counter = counting()
    counter.new_tokens(event(**{"usage": {"completion_tokens": 3}, **changes}))
    assert counter.request.unlisted == unlisted


@pytest.mark.parametrize(("part", "name"), [("usage", "completion_tokens"), ("timings", "predicted_n")])
def test_tokens_without_text_come_with_the_last_count(part, name):
    counter = counting()
    events = [event(**{part: {name: 1}}), event(**{part: {name: 2}}), {"choices": [], part: {name: 4}}]
    assert [counter.new_tokens(one) for one in events] == [1, 1, 2]


def test_cached_tokens_are_part_of_a_prompt():
    counter = counting()
    counter.new_tokens(event(timings={"predicted_n": 1, "prompt_n": 3, "cache_n": 7}))
    assert (counter.request.prompt_tokens, counter.request.cached_tokens) == (10, 7)
