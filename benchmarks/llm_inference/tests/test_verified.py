"""Each number of a served run that its file of requests determines is found where it was edited."""

from __future__ import annotations

import copy
import gzip
import json
from dataclasses import asdict

import pytest

from benchmarks.common.launch import node_window
from benchmarks.llm_inference.metrics import end_line, request_line
from benchmarks.llm_inference.run import describe, parse
from benchmarks.llm_inference.tests.simulated import closed_loop
from record.answers import facts_of
from record.asked import published_lengths
from record.demand import SLOS
from record.served import Window, metrics_of, read_request
from record.served_rules import late_client, remarks
from results.join.serving import REQUESTS_NAME, request_problems
from results.tests.of_dicts import contradictions, derived_otherwise

STREAMS, FLAGS = 4, ("--concurrency", "4", "--input-tokens", "32", "--output-tokens", "16")


def answers_of_run():
    """Answers of four questions: under load one differs by rounding, and tokens are a little less likely."""
    top = [{"a": -0.5, "b": -0.7}] * 4
    idle = [[["a"] * 4, [-0.5] * 4, top] for _ in range(4)]
    loaded = [[["a", "a", "b" if index == 1 else "a", "a"], [-0.5 - 0.001 * index] * 4, []] for index in range(4)]
    again = [[tokens, logprobs, []] for tokens, logprobs, _ in idle]
    load = [["a b", "a b", ["a", " b"], {}], ["a c", "a b", ["a", " b"], {" b": -0.5, " c": -0.7}], ["x", "y", ["?"]]]
    asked = {"load": load, "parts": [[{"a": -0.5}, {"a": -0.6}]], "expected": [["Paris", "paris."]], "reference": 0.5}
    return {"idle": idle, "again": again, "loaded": loaded, **asked}


def write(folder, lines):
    (folder / REQUESTS_NAME).write_bytes(gzip.compress("".join(f"{json.dumps(one)}\n" for one in lines).encode()))


def lines_of(folder):
    """Return the requests of a file, and its last line."""
    *requests, end = map(json.loads, gzip.decompress((folder / REQUESTS_NAME).read_bytes()).splitlines())
    return requests, end


def stored_run(folder, requests, flags=FLAGS, text=None, **serving):
    """Return the record of a run, stored as ok; the folder gets its requests."""
    config = parse(flags)
    answers = {} if serving else answers_of_run()
    answers |= {"text": text} if text else {}
    simulated = closed_loop(STREAMS, requests, noise=0.2)
    lines = [{**request_line(one, simulated.start_s), "prompt_tokens": one.asked_input} for one in simulated.every]
    record, length_s = describe(config), round(simulated.duration_s, 6)
    window = Window(list(map(read_request, lines)), 0.0, length_s, STREAMS)
    if answers:
        record.config["answers"] |= {"questions_file": "mine.jsonl", "reference": answers["reference"]}
    record.metrics = metrics_of(window, SLOS[config.load.slo]) | {"client_processes": 1}
    record.windows = [node_window(0.0, length_s)]
    record.metrics |= {"num_parameters": 1, "server_start_s": 1.0, "cpu_throttled_percent": 0.0}
    record.metrics["server_tokens"] = record.metrics["measured_tokens"]
    record.serving["answers"] = facts_of(answers)
    record.serving |= serving
    found = remarks(window, record.metrics, record.serving["answers"], serving.get("speculation", {}))
    found = [*found, *late_client(window, record.metrics)]
    record.serving["findings"], record.status = [one.as_data() for one in found], "ok"
    write(folder, [*lines, end_line(len(lines), "ok", "", answers)])
    stored = json.loads(json.dumps(asdict(record)))
    stored["provenance"]["command"] = []
    return {"schema_version": 4, "energy": None, "energy_effective": None, **stored}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The record of a run and the folder of its requests."""
    folder = tmp_path_factory.mktemp("run")
    return stored_run(folder, 400), folder


def problems(record, folder):
    return [*request_problems(record, folder), *contradictions(record), *derived_otherwise(record)]


def edited(record, **values):
    """Return a copy of a record with other values, whose paths have two low lines in place of dots."""
    copied = copy.deepcopy(record)
    for path, value in values.items():
        *parts, key = path.split("__")
        place = copied
        for name in parts:
            place = place[name]
        place[key] = value
    return copied


def test_a_text_that_was_changed_or_left_out_is_found(tmp_path):
    flags = (*FLAGS, "--url", "http://127.0.0.1:1", "--perplexity-reference", "2.7")
    text = {"places": [[0, [-1.0, -2.0]], [1, [-1.0, -1.5]]], "vocabulary": 100, "reference": 2.7}
    record = stored_run(tmp_path, 400, flags, text=text)
    assert list(request_problems(record, tmp_path)) == []
    requests, end = lines_of(tmp_path)
    for changed, words in (
        ({**text, "places": [[0, [-1.0]], [0, [-1.0]]]}, "serving.answers.perplexity is stored as"),
        ({**text, "reference": 9.0}, "its reference is stored as 9, but config.answers gives 2.7"),
        (None, "the perplexity of the text is unknown"),
    ):
        write(tmp_path, [*requests, {**end, "answers": {**end["answers"], "text": changed}}])
        assert any(words in one for one in request_problems(record, tmp_path)), words


def test_an_edit_of_speculation_is_found(tmp_path):
    facts = {"draft_tokens": 3, "stated_length": published_lengths()["DeepSeek-V4-Pro", 3]}
    facts |= {"steps": 2400.0, "accepted_tokens": 3576.0, "measured_length": 2.49}
    record = stored_run(tmp_path, 400, (*FLAGS, "--draft-tokens", "3"), speculation=facts)
    before = problems(record, tmp_path)
    assert list(request_problems(record, tmp_path)) == []
    for key, value in facts.items():
        changed = edited(record, **{f"serving__speculation__{key}": 1.01 * value})
        assert set(problems(changed, tmp_path)) > set(before), key
    changed = edited(record, serving__speculation__steps=None, config__speculation__draft_tokens=4)
    found = set(problems(changed, tmp_path)) - set(before)
    assert any("measured_length is stored as 2.49, but its" in one for one in found)
    few = {"serving__speculation__accepted_tokens": 9.0, "serving__speculation__measured_length": 1.00375}
    assert any("acceptance_differs" in one for one in request_problems(edited(record, **few), tmp_path))


@pytest.mark.parametrize(("counted", "is_found"), [(1.0, False), (1.01, False), (0.5, True), (2.0, True)])
def test_tokens_that_usage_alone_states_need_a_counter_that_agrees(run, tmp_path, counted, is_found):
    record, folder = run
    requests, end = lines_of(folder)
    write(tmp_path, [*({**one, "unlisted": 8} for one in requests), end])
    changed = edited(record, metrics__server_tokens=counted * record["metrics"]["server_tokens"])
    found = list(request_problems(changed, tmp_path))
    assert [is_found] * len(found) == ["tokens are only counted in the server's usage" in one for one in found]
    assert bool(found) == is_found


OTHER_SLO = {"config__load__slo": "mine", "serving__slo": "mine"}
AT_A_URL = {"model": "any", "config__serve__url": "http://x", "config__serve__model": "8B"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "mine", "config__serve__model_path": "/models/mine"}, ""),
        (AT_A_URL, "server at http://x"),
        (OTHER_SLO, "are those of 'mine', but the presets are"),
        ({"config__load__concurrency": 3, "layout__global_batch_size": 3}, "but a closed loop of 3 never has"),
    ],
)
def test_a_served_run_is_labelled_by_its_options(run, change, words):
    record = edited(run[0], **change)
    found = {*contradictions(record), *derived_otherwise(record)} - set(contradictions(run[0]))
    assert any(words in one for one in found) if words else not found, found


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("due_us", lambda one: one["due_us"] - 900, "which its load does not have"),
        ("input", lambda one: 64, "has the lengths 64/16"),
        ("prompt_tokens", lambda one: 31, "has 32 prompt tokens, but the server counts 31"),
        ("retries", lambda one: 1, "requests were sent twice"),
        ("unlisted", lambda one: 8, ""),
        ("is_unseen", lambda one: True, "stored as None, but the file of requests gives"),
        ("late_us", lambda one: [0, 20_000, 0, 20_000], "but the file of requests gives {'kind': 'client_share'"),
        ("ended_us", lambda one: one["sent_us"], "has times that fall"),
        ("arrivals_us", lambda one: [one["arrivals_us"][0] + 200, *one["arrivals_us"][1:]], "metrics.ttft_p50_s"),
    ],
)
def test_the_rules_of_a_bad_run_are_applied_again(key, value, words, run, tmp_path):
    record, folder = run
    requests, end = lines_of(folder)
    write(tmp_path, [*({**one, key: value(one)} for one in requests), end])
    found = list(request_problems(record, tmp_path))
    assert any(words in one for one in found) if words else found == [], found


def test_answers_that_are_wrong_or_missing_are_found(run, tmp_path):
    record, folder = run
    requests, end = lines_of(folder)
    for change, words in (
        ({"loaded": [[["c"] * 4, [-0.5] * 4, []]] * 4}, "stored as None, but the file of requests gives"),
        ({"loaded": end["answers"]["loaded"][:3]}, "is not as a benchmark has written it"),
        ({"idle": []}, "its options ask for a check of answers, and it has none"),
        ({"load": []}, "has no answers of its load to requests that were asked again"),
        ({"load": [["a", "b", ["b"], {"b": -1.0}]] * 3}, "but the file of requests gives {'kind': 'load_wrong'"),
        ({"expected": []}, "config.answers.reference is stored as 0.5, but record.requests.jsonl.gz gives 0"),
    ):
        write(tmp_path, [*requests, {**end, "answers": end["answers"] | change}])
        assert any(words in one for one in request_problems(record, tmp_path)), words


def without_the_slowest(requests, is_renumbered):
    """Return the requests of a window without the slowest ones, as somebody may list them who wants a lower p99."""
    slowest = sorted(requests[20:-20], key=lambda one: one["due_us"] - one["ended_us"])[:8]
    left = [one for one in sorted(requests, key=lambda one: one["index"]) if one not in slowest]
    return [{**one, "index": number} for number, one in enumerate(left)] if is_renumbered else left


def without(name, requests):
    return [{key: value for key, value in one.items() if key != name} for one in requests]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda requests, end: [*requests, {**end, "status": "failed", "error": "slow"}], "end as failed: slow"),
        (lambda requests, end: requests, "serving.requests_format is stored as 2"),
        (lambda requests, end: [*requests[:-1], end], "and its end counts"),
        (lambda requests, end: [*requests, requests[9], end], "request 9 is in record.requests.jsonl.gz twice"),
        (lambda requests, end: [*without_the_slowest(requests, False), end], "and later ones are"),
        (lambda requests, end: [*without_the_slowest(requests, True), end], "a stream sent no request for"),
        (lambda requests, end: [*without("retries", requests), end], "is not as a benchmark has written it"),
    ],
)
def test_a_file_of_requests_says_how_its_run_ended_and_what_it_has(run, tmp_path, change, words):
    record, folder = run
    write(tmp_path, change(*lines_of(folder)))
    assert any(words in one for one in request_problems(record, tmp_path))


@pytest.mark.parametrize(
    ("content", "words"), [(b"no gzip", "is not as a benchmark has written it"), (None, f"it has no {REQUESTS_NAME}")]
)
def test_a_file_of_requests_that_is_damaged_or_missing_is_found(run, tmp_path, content, words):
    if content:
        (tmp_path / REQUESTS_NAME).write_bytes(content)
    assert words in next(request_problems(run[0], tmp_path))
