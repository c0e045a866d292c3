"""Conversations with a prefix cache: their traces, prompts and hit rates, and what a record of them has."""

from __future__ import annotations

import copy
import gzip
import json
import random
from array import array
from functools import partial
from itertools import pairwise

import pytest

from benchmarks.common.options import ConfigError
from benchmarks.llm_inference import run
from benchmarks.llm_inference.conversations import Player, Talk
from benchmarks.llm_inference.prompts import Bodies
from benchmarks.llm_inference.started import context
from benchmarks.llm_inference.tests.conftest import ROUNDED_S, TTFT_S, kinds_of, requests_of
from benchmarks.llm_inference.trace import trace_of
from record.demand import MADE, Slo
from record.kinds import NOT_RANKED
from record.served import OF_CONVERSATIONS, Place, Request, Window, metrics_of, possible_hits, read_request
from results.join.serving import request_problems
from results.tests.of_dicts import contradictions, derived_otherwise

SLO = Slo(1.0, 1.0)
ENDLESS = 10**9  # blocks
REQUEST = {"t": 0.0, "type": "s", "model": "m", "in": 100, "out": 5, "hash_ids": [1, 2]}
HEAD = {"id": "a", "block_size": 64, "hash_id_scope": "local", "tool_tokens": 10, "system_tokens": 10}
ENTRY = {**HEAD, "requests": [REQUEST]}
LINE = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}


def played(conversations, turns, idle_limit_s=300.0, answers=True, slots=1):
    """Play so many turns in slots, one after the other; return their places in conversations, and token ids."""
    player = Player(Talk(conversations, idle_limit_s, 1), 0, 1, Bodies("m", 8192, {}, "salt").made)
    found = []
    for at in range(turns):
        prompt = player.next(at % slots)
        ids = [9000 + at] * prompt.turn.output if answers else []
        key, idle_s = player.answered(at % slots, ids)
        found.append((prompt.place._replace(answer=key), prompt.text.split(","), prompt.turn, idle_s))
    return found


def write(path, entries):
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in entries))
    return str(path)


@pytest.mark.parametrize("name", MADE)
def test_made_conversations_grow_and_share_their_beginning(name):
    shape, found = MADE[name], trace_of(name, 1)
    assert len(found.conversations) == shape.conversations
    assert max(turn.input + turn.output for one in found.conversations for turn in one.turns) <= shape.most_tokens
    assert (found.digest == trace_of(name, 1).digest) and (found.digest != trace_of(name, 2).digest)
    for place, ids, turn, _ in played(found.conversations, 60):
        assert len(ids) == turn.input
        assert sum(tokens for _, tokens in place.new) <= turn.input
    # With 24 and more conversations of at least 4 turns, several begin within 60 turns.
    begun = [ids[: shape.shared] for place, ids, *_ in played(found.conversations, 60) if not place.turn]
    assert begun
    assert all(one == begun[0] for one in begun)


def test_an_answer_is_part_of_the_next_prompt_as_it_came(tmp_path):
    conversations = trace_of("small", 1).conversations
    turns = played(conversations, 9)
    for (_, before, turn, _), (place, ids, *_) in pairwise(turns):
        if place.kept:
            assert ids[: len(before)] == before
            assert set(ids[len(before) : len(before) + turn.output]) == {ids[len(before)]} > set()
            assert ids[len(before)].startswith("900")
    unknown = played(conversations, 9, answers=False)
    assert not any(one.startswith("900") for _, ids, *_ in unknown for one in ids)
    assert [len(ids) for _, ids, *_ in unknown] == [len(ids) for _, ids, *_ in turns]
    assert {place.answer for place, *_ in unknown} == {""}


def test_idle_times_are_capped():
    every = {idle_s for *_, idle_s in played(trace_of("small", 1).conversations, 60)}
    assert max(every) > 0.1
    assert max(idle_s for *_, idle_s in played(trace_of("small", 1).conversations, 60, 0.1)) == 0.1


@pytest.mark.parametrize(
    ("head", "requests", "inputs"),
    [
        # kv-cache-tester, traces/trace_0001.json, its first requests without their former ones: no hash_id_scope
        (
            {"id": "trace_0001", "models": ["a"], "tool_tokens": 12524, "system_tokens": 3189},
            [(0.0, 20064, 797, 313, {"stop": ""}), (186.0, 29372, 1033, 458, {"stop": "tool_use"})],
            [20064, 29372],
        ),
        # aiperf, tests/unit/graph/fixtures/weka_subagent.json: neither tool_tokens nor system_tokens
        (
            {"id": "trace_sub_n2s1", "models": ["a"], "hash_id_scope": "local"},
            [(0.0, 180, 25, 2, {"api_time": 0.8, "think_time": 0.0}), (6.0, 280, 45, 4, {"api_time": None})],
            [180, 200, 280],
        ),
    ],
)
def test_published_traces_of_whole_blocks_are_read(head, requests, inputs, tmp_path):
    main = [
        {"t": t, "type": "s", "model": "a", "in": tokens, "out": out, "hash_ids": list(range(1, ids + 1)), **more}
        for t, tokens, out, ids, more in requests
    ]
    if len(inputs) > len(requests):
        inner = {**main[0], "t": 1.2, "in": 200, "out": 30, "hash_ids": [10, 11, 12]}
        main[1:1] = [
            {"t": 1.0, "type": "subagent", "status": "completed", "duration_ms": 4000, "requests": [inner]},
            {"t": 1.0, "type": "subagent", "status": "async_launched", "duration_ms": None, "requests": []},
        ]
    conversations = trace_of(write(tmp_path / "t", [{**head, "block_size": 64, "requests": main}]), 1).conversations
    turns = [ids for place, ids, *_ in played(conversations, 3 * len(inputs)) if place.conversation == 1]
    assert [len(ids) for ids in turns] == inputs
    first, last = turns[0], turns[-1]
    whole = 64 * (inputs[0] // 64)
    assert first[:whole] == last[:whole]
    assert first[whole:] != last[whole : len(first)]  # the rest of a block has no hash id


def broken(entry, place="", **changes):
    """Return an entry with other values, or without those that are None, in the entry or in its request."""
    copied = copy.deepcopy(entry)
    part = copied["requests"][0] if place else copied
    for name, value in changes.items():
        if value is None:
            del part[name]
        else:
            part[name] = value
    return copied


FED = {**HEAD, "hash_id_scope": "none", "requests": [{**REQUEST, "in": 20}]}
BROKEN = [  # in each format: a missing value, one of another type, and one that is impossible
    (broken(LINE, input_length="1"), "'input_length' must be a number from 1 to 2^53, found '1'"),
    (broken(LINE, hash_ids=[1]), "600 tokens are 2 blocks of 512, but it has 1 hash_ids"),
    (broken(LINE, hash_ids=[1, "2"]), "'hash_ids' must be a list of whole numbers"),
    ({key: one for key, one in ENTRY.items() if key != "requests"}, "'requests' must be a list"),
    (broken(ENTRY, requests=[]), "'requests' has no request"),
    (broken(ENTRY, hash_id_scope="mine"), "'hash_id_scope' must be one of local, global, none, found 'mine'"),
    *((broken(ENTRY, "request", **{name: None}), f"request 1: {name!r} must be") for name in ("t", "in", "out")),
    (broken(ENTRY, "request", hash_ids=None), "100 tokens are 2 blocks of 64, but it has 0 hash_ids"),
    (FED, "'in' must be above 20, the tokens before its new ones, found 20"),
    ("{", "line 2 is no JSON"),
]


@pytest.mark.parametrize(("entry", "words"), BROKEN)
def test_a_broken_trace_is_one_sentence(entry, words, tmp_path, capsys):
    path = write(tmp_path / "trace.jsonl", [LINE if "timestamp" in entry else {**ENTRY, "id": "good"}, entry])
    assert run.main(["--trace", path]) == 2
    [told] = capsys.readouterr().err.splitlines()
    assert f"error: --trace {path}" in told
    assert words in told


def test_a_trace_fits_the_context_which_of_a_users_model_may_be_longer(tmp_path):
    long = write(tmp_path / "t", [{**LINE, "input_length": 512 * 300, "hash_ids": list(range(300))}])
    with pytest.raises(ConfigError, match="has a request of 153605 tokens, but the model's context is 131072"):
        run.parse(["--trace", long])
    assert context(run.parse(("--trace", long, "--model-path", str(tmp_path)))) > 512 * 300 + 5
    assert context(run.parse(("--input-tokens", "131072"))) == 131072


def test_a_folder_names_its_broken_file_and_lines_end_at_line_feeds_alone(tmp_path):
    lines = [json.dumps({**ENTRY, "id": "a\u2028b"}, ensure_ascii=False), LINE]
    write(tmp_path / "a.jsonl", lines)
    assert len(trace_of(str(tmp_path), 1).conversations) == 2
    (tmp_path / "package.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"package\.json: entry 1: 'input_length' must be a number"):
        trace_of(str(tmp_path), 1)


def window_of(requests, end_s):
    return Window(requests, 0.0, end_s, 1)


def asked(index, sent_s, ended_s, place, tokens, cached=None):
    found = Request(index, 0, sent_s, sent_s, tokens, 5, array("d", [ended_s]), array("H", [5]), ended_s, place=place)
    found.cached_tokens = cached
    return found


def blocks(turn, kept, *ids, answer="", idle_s=0.0):
    return Place(0, turn, idle_s, kept, [(str(one), 64) for one in ids], answer)


def test_the_possible_hits_are_those_that_aiperf_counts():
    # aiperf, tests/unit/graph/fixtures/weka_min.json: hash ids [1, 2], [1, 2, 3], [1, 2, 3, 4]: 5 of 9 blocks.
    turns = [(blocks(0, 0, 1, 2), 128, 0), (blocks(1, 2, 3, idle_s=1.0), 192, 128), (blocks(2, 3, 4), 256, 64)]
    every = [asked(at, [0, 1, 3][at], [1, 2, 4][at], *turn) for at, turn in enumerate(turns)]
    found = metrics_of(window_of(every, 4.0), SLO)
    assert found["possible_cache_hit_percent"] == pytest.approx(100 * 5 / 9)
    assert (found["cached_tokens"], found["fresh_tokens"]) == (192, 384)
    assert found["turn_tokens_per_s"] == pytest.approx(15 / 3)
    assert found["mean_lanes"] == pytest.approx(1)  # the idle second counts
    assert metrics_of(window_of(every[:2], 2.5), SLO)["mean_lanes"] == pytest.approx(1)  # idle at the window's end
    assert not metrics_of(window_of([asked(0, 0, 1, None, 64)], 4.0), SLO).keys() & {*OF_CONVERSATIONS}


@pytest.mark.parametrize("seed", range(8))
def test_the_possible_hits_are_the_longest_common_beginnings_of_token_ids(seed, tmp_path):
    chance, entries = random.Random(seed), []
    for _ in range(6):  # shared beginnings, blocks and last blocks of different lengths
        size, held = chance.choice([8, 16]), chance.choice([20, 40])
        scope = chance.choice(["none", "global", "local"])
        requests = []
        for _ in range(3):
            held += chance.randint(1, 20)
            ids = [chance.choice([1, 2]) for _ in range(-(-held // size))]
            requests.append({**REQUEST, "in": held, "hash_ids": ids})
            held += 5
        head = {**HEAD, "hash_id_scope": scope, "block_size": size, "tool_tokens": 20 if requests[0]["in"] < 41 else 40}
        entries.append({**head, "system_tokens": 0, "requests": requests})
    sent, every, wanted = [], [], {}
    conversations = trace_of(write(tmp_path / "t", entries), 1).conversations
    for at, (place, ids, turn, _) in enumerate(played(conversations, 40, answers=seed % 2, slots=3)):
        same = (next((n for n, (a, b) in enumerate(zip(ids, one, strict=False)) if a != b), None) for one in sent)
        lengths = [min(len(ids), len(one)) if n is None else n for n, one in zip(same, sent, strict=True)]
        wanted[at] = max(lengths, default=0)
        sent.append(ids + [str(9000 + at)] * (turn.output - 1 if place.answer else 0))
        every.append(asked(at, at, at + 0.5, place, len(ids)))
    found = possible_hits(window_of(every, 99.0))
    # A piece of random tokens may begin as another one does.
    assert all(found[at] <= one <= found[at] + 1 for at, one in wanted.items()), (found, wanted)


def changed_requests(folder, change):
    """Change each request of a file, and return how it was before."""
    path = folder / "record.requests.jsonl.gz"
    before = path.read_bytes()
    *requests, end = map(json.loads, gzip.decompress(before).splitlines())
    path.write_bytes(gzip.compress("".join(f"{json.dumps(one)}\n" for one in [*map(change, requests), end]).encode()))
    return before


@pytest.mark.long
def test_an_endless_cache_has_what_is_possible_and_edits_are_found(against_mock, tmp_path):
    server = f"--cache-blocks {ENDLESS}"
    code, record = against_mock("--trace", "small", "--idle-limit-s", "0.01", server=server)
    assert code == 0, record["error"]
    requests = list(map(read_request, requests_of(tmp_path)))
    window = window_of(requests, record["metrics"]["measured_s"])
    assert {one.index: one.cached_tokens for one in requests} == possible_hits(window)
    metrics = record["metrics"]
    assert 50 < metrics["cache_hit_percent"] == metrics["possible_cache_hit_percent"] < 100
    shares = [(one.cached_tokens / one.asked_input, one.times_s[0] - one.due_s) for one in requests]
    assert all(ttft_s > (1 - share) * TTFT_S - ROUNDED_S for share, ttft_s in shares)  # no answer is early
    assert metrics["cached_tokens"] + metrics["fresh_tokens"] == metrics["prompt_tokens_of_requests"]
    assert record["sample"].startswith("conversations of small, SHA-256 ")
    assert record["variant"] == ["vllm", "idle for 0.01 s at most"]
    verified = partial(request_problems, folder=tmp_path)
    assert list(verified(record)) == []
    here = {"it has no energy, and its work was done on its own nodes"}
    record |= {"energy": None, "energy_effective": None}
    assert set(contradictions(record)) == here

    for options, find, words in (
        ({"seed": 1}, verified, ", and its load "),
        ({"trace": "mine/other", "idle_limit_s": 9.0}, derived_otherwise, "variant[1] is stored as"),
    ):
        edited = copy.deepcopy(record)
        edited["config"]["load"] |= options
        assert any(words in one for one in find(edited)), words

    path = tmp_path / "record.requests.jsonl.gz"
    for change, words in (
        (lambda one: {**one, "cached_tokens": one["cached_tokens"] // 2}, "metrics.cache_hit_percent is"),
        (lambda one: {**one, "place": {**one["place"], "answer": ""}}, "metrics.possible_cached_tokens is"),
        (lambda one: {key: value for key, value in one.items() if key != "place"}, "its load is of conversations"),
    ):
        before = changed_requests(tmp_path, change)
        assert any(words in one for one in request_problems(record, tmp_path)), words
        path.write_bytes(before)


@pytest.mark.long
@pytest.mark.parametrize(
    ("server", "kinds"),
    [
        ("--cache-blocks 40 --block-tokens 16", set()),
        (f"--cache-blocks {ENDLESS} --boast 9", {"cache_impossible"}),
        (f"--cache-blocks {ENDLESS} --silent", {"no_cached_tokens"}),
    ],
)
def test_a_smaller_cache_has_less_and_an_impossible_one_is_not_ranked(against_mock, server, kinds, tmp_path):
    code, record = against_mock("--trace", "small", "--idle-limit-s", "0.01", "--concurrency", "3", server=server)
    assert code == 0, record["error"]
    metrics = record["metrics"]
    assert kinds_of(record) & {*NOT_RANKED, "no_cached_tokens"} == kinds
    assert metrics["possible_cache_hit_percent"] > 50
    if not kinds:
        assert 0 < metrics["cache_hit_percent"] < metrics["possible_cache_hit_percent"] - 1
    assert ("cache_hit_percent" in metrics) == (kinds != {"no_cached_tokens"})
    assert list(request_problems(record, tmp_path)) == []
