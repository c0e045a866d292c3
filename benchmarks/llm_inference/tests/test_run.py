"""A run as a whole, against a server with a known schedule, and what is recorded when a server fails."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

import pytest

from benchmarks.common.tests.started import read_derived
from benchmarks.llm_inference import run
from benchmarks.llm_inference.config import AnswerOptions
from benchmarks.llm_inference.tests.conftest import MOCK, ROUNDED_S, kinds_of, requests_of
from benchmarks.llm_inference.tests.mock_server import Mock, parser
from record.checks.inference import RULES
from record.derivation import derive
from record.findings import finding
from record.kinds import NOT_RANKED
from record.model import Record
from results.join.serving import request_problems
from results.tests.of_dicts import contradictions, derived_otherwise
from tests.conftest import REPOSITORY
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.long

LATE_S = 5.0  # of an event, in the median, however busy the machine is
TWO = ("--concurrency", "2")


def test_a_record_has_the_servers_own_times(against_mock, tmp_path):
    lengths = tmp_path / "lengths.txt"  # each prompt is known by its length
    lengths.write_text("".join(f"{number} 8\n" for number in range(8, 1000)))
    code, record = against_mock("--concurrency", "4", "--lengths-file", str(lengths), server="--log")
    assert (code, record["status"], record["error"]) == (0, "ok", "")
    begin_s, late_s, longer_s = record["windows"][0]["start_s"], [], []
    log = (tmp_path / "record.server.log").read_text().splitlines()[1:]
    sent = {one["tokens"]: one for one in map(json.loads, log)}
    for one in requests_of(tmp_path):
        mock = sent[one["prompt_tokens"]]
        assert begin_s + 1e-6 * one["due_us"] <= mock["came_s"] + ROUNDED_S
        assert (sum(one["tokens"]), len(mock["sent_s"])) == (8, 8)
        # A busy client reads several events at once: they arrive with the last of them.
        arrivals = zip(accumulate(one["arrivals_us"]), accumulate(one["tokens"]), strict=True)
        delays_s = [begin_s + 1e-6 * time_us - mock["sent_s"][tokens - 1] for time_us, tokens in arrivals]
        assert min(delays_s) >= -ROUNDED_S
        late_s.append(delays_s[0])
        longer_s.append(abs(delays_s[-1] - delays_s[0]))
    assert statistics.median(late_s) < LATE_S
    assert statistics.median(longer_s) < LATE_S
    assert (record["layout"]["global_batch_size"], record["sample"]) == (4, "lengths of lengths.txt")
    assert [window["kind"] for window in record["windows"]] == ["measured"]
    assert list(request_problems(record, tmp_path)) == []
    checked = Record.of({**record, "energy": {}})
    assert [one for rule in RULES for one in rule(derive(checked))] == []
    assert derived_otherwise(record) == []


@pytest.mark.parametrize("flags", [("--rate-per-s", "20"), (*TWO, "--length-sigma", "0.5")])
def test_drawn_times_and_lengths_are_drawn_again(flags, against_mock, tmp_path):
    _, record = against_mock(*flags)
    assert record["metrics"], record["error"]
    found = list(request_problems(record, tmp_path))
    assert [one for one in found if not one.startswith("it is stored as ok")] == []
    record["config"]["load"]["seed"] += 1
    assert any("its load" in one for one in request_problems(record, tmp_path))


COUNTERS = {"steps": "mock_steps_total", "accepted": "mock_accepted_total"}
STATED = "acceptance_differs", "acceptance_unknown", "answers_synthetic"


@pytest.mark.parametrize(
    ("accepts", "names", "kinds"),
    [
        (2.49, COUNTERS, set()),
        # A server counts proposed tokens and no others, as TensorRT-LLM, or steps alone, as SGLang.
        (2.49, {"counter": "", "proposed": "mock_proposed_total", "accepted": "mock_accepted_total"}, set()),
        (2.49, {"steps": "mock_steps_total"}, set()),
        (1.2, COUNTERS, {"acceptance_differs"}),
        (2.49, {"steps": "none_total", "accepted": "nor_this"}, {"acceptance_unknown"}),
    ],
)
def test_a_server_accepts_as_many_drafts_as_stated(accepts, names, kinds, against_mock, tmp_path):
    flags = (*TWO, "--draft-tokens", "3", "--output-tokens", "200", "--questions", "8")
    names = {"steps": "", "proposed": "", "accepted": "", **names}
    code, record = against_mock(*flags, server=f"--tpot-s 0.001 --accepts {accepts}", **names)
    assert code == 0, record["error"]
    assert kinds_of(record) & set(STATED) == kinds | {"answers_synthetic"}
    assert "answers" not in record["serving"]
    facts = record["serving"]["speculation"]
    assert (facts["draft_tokens"], facts["stated_length"]) == (3, 2.49)
    assert (facts["measured_length"] is None) == ("acceptance_unknown" in kinds)
    assert {sum(one["tokens"]) for one in requests_of(tmp_path)} == {200}
    assert record["variant"] == ["vllm", "3 draft tokens, 2.49 tokens a step"]
    assert list(request_problems(record, tmp_path)) == []
    assert [one for rule in RULES for one in rule(derive(Record.of({**record, "energy": {}})))] == []
    assert derived_otherwise(record) == []


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("--fault die --after 20", "the server ended with exit code 3"),
        ("--fault oom --after 20", "CUDA error: out of memory"),
        ("--fault error --after 20", "request [0-9]+ failed: the server answered with HTTP status 503"),
        ("--fault answers-other", "the model model was asked for, and the server answers for other"),
        ("--fault exit", "the server ended with exit code 1: error: no such server"),
        ("--fault empty --after 20", "request [0-9]+ failed: its answer has no token"),
        ("--cached 8", "prompt tokens came from a cache"),
        ("--fault slow-start", "was not ready after 1 s"),
        ("--tpot-s 0.4", "too slow"),
    ],
)
def test_a_run_that_fails_says_why(server, words, against_mock):
    limits = {"--fault slow-start": ("--start-limit-s", "1"), "--tpot-s 0.4": ("--limit-s", "2")}
    code, record = against_mock(*TWO, *limits.get(server, ()), server=server, is_strict=True)
    status = "out_of_memory" if "oom" in server else "failed"
    assert (code, record["status"], bool(re.search(words, record["error"]))) == (1, status, True), record["error"]


def test_what_others_on_a_node_can_cause_fails_a_run_on_a_node_of_its_own(against_mock, monkeypatch):
    monkeypatch.setattr(run, "late_client", lambda *_: [finding("note", text="as told")])
    _, record = against_mock(*TWO)
    assert (record["status"], finding("note", text="as told").as_data() in record["serving"]["findings"]) == (
        "ok",
        True,
    )
    monkeypatch.setenv("CARAML_EXCLUSIVE", "yes")
    code, record = against_mock(*TWO)
    assert (code, "as told" in record["error"]) == (1, True)


@pytest.mark.parametrize(
    ("answers", "endpoint", "kinds"),
    [
        ("same", "completions", set()),
        ("rounding", "completions", set()),
        ("wrong", "completions", {"answers_wrong"}),
        ("wrong", "chat", {"answers_wrong"}),
        ("worse", "completions", {"answers_unlikely"}),
        ("varies", "completions", {"answers_vary"}),  # each second time that it is asked
        ("same --streams others", "completions", {"load_wrong"}),
        ("same --streams padded", "chat", {"load_wrong"}),
        ("same --reads 4", "completions", {"prompt_unread"}),
        ("without", "completions", {"no_logprobs", "answers_unlike"}),
    ],
)
def test_a_server_that_answers_otherwise_under_load_is_found(answers, endpoint, kinds, against_mock, tmp_path):
    asked = (*TWO, "--questions", "8", "--endpoint", endpoint)
    code, record = against_mock(*asked, server=f"--answers {answers}")
    assert code == 0, record["error"]
    assert NOT_RANKED & kinds_of(record) == kinds
    assert record["serving"]["answers"]["questions"] >= 4
    assert list(request_problems(record, tmp_path)) == []


def test_speculation_that_no_option_declares_is_found(against_mock, tmp_path):
    code, record = against_mock(*TWO, "--output-tokens", "64", server="--accepts 2.49 --tpot-s 0.002", **COUNTERS)
    assert code == 0, record["error"]
    assert "speculation_undeclared" in kinds_of(record)
    assert list(request_problems(record, tmp_path)) == []


SLOW_START_S = 2.0


@pytest.mark.parametrize("load", [("--rate-per-s", "20"), ("--concurrency", "8", "--output-tokens", "64")])
def test_a_schedule_begins_when_the_client_is_ready(load, against_mock, tmp_path, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    slow = f"import sys, time\nif '--multiprocessing-fork' in sys.argv: time.sleep({SLOW_START_S})\n"
    (site / "sitecustomize.py").write_text(slow)
    monkeypatch.setenv("PYTHONPATH", f"{site}:{os.environ.get('PYTHONPATH', '')}")
    _, record = against_mock(*load)
    first = sorted(requests_of(tmp_path), key=lambda one: one["index"])[:4]
    assert statistics.median(one["late_us"][0] for one in first) < 5e5 * SLOW_START_S, record["error"]


def test_the_questions_of_the_suite_can_be_asked():
    asked = AnswerOptions(questions_file=str(REPOSITORY / "benchmarks/llm_inference/questions.jsonl")).expected
    assert (len(asked), asked[0]) == (24, ("The capital of France is", "Paris"))


def test_own_questions_are_asked_under_load(against_mock, tmp_path, monkeypatch):
    questions, real = tmp_path / "questions.jsonl", tmp_path / "model"
    real.mkdir()
    token = re.search(r"t[0-9]+", Mock(parser().parse_args([]))._whole({"prompt": "b c", "max_tokens": 1})[1].decode())
    lines = [{"prompt": "a", "answer": "none of them"}, {"prompt": "b c", "answer": token[0].upper()}]
    questions.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    asked = ("--questions-file", str(questions), "--model-path", str(real), "--precision", "bf16", *TWO)
    for reference, kinds in (("0.5", set()), ("1", {"answers_below"})):
        code, record = against_mock(*asked, "--reference", reference)
        assert code == 0, record["error"]
        assert (record["serving"]["answers"]["right"], record["serving"]["answers"]["expected"]) == (1, 2)
        assert {kind for kind in kinds_of(record) if kind.startswith("answers")} == kinds
        assert list(request_problems(record, tmp_path)) == []


@pytest.mark.parametrize(
    ("text", "flags", "kinds"),
    [
        ("known", ("--perplexity-reference", "2.71"), set()),
        ("less", ("--perplexity-reference", "2.71"), {"perplexity_differs"}),
        ("known", (), {"perplexity_unjudged"}),
        ("nameless", (), {"perplexity_unknown"}),
        ("known", ("--no-perplexity",), set()),
    ],
)
def test_real_weights_know_a_text(text, flags, kinds, against_mock, tmp_path):
    (tmp_path / "model").mkdir(exist_ok=True)
    real = ("--model-path", str(tmp_path / "model"), "--precision", "bf16", *TWO)
    code, record = against_mock(*real, *flags, server=f"--text {text}")
    assert code == 0, record["error"]
    assert {kind for one in record["serving"]["findings"] if (kind := one["kind"]).startswith("perplexity")} == kinds
    answers, likelihood = record["serving"].get("answers", {}), {"known": 1.0, "less": 1.02}.get(text)
    assert answers.get("perplexity_tokens") == (None if "--no-perplexity" in flags else 39 if likelihood else 0)
    if answers.get("perplexity"):
        assert answers["perplexity"] == pytest.approx(math.exp(likelihood))
    assert list(request_problems(record, tmp_path)) == []


def test_fewer_requests_are_enough_after_the_longest_time(against_mock):
    code, record = against_mock(*TWO, "--min-requests", "5000", "--max-s", "1.5")
    assert code == 0
    assert 30 <= record["metrics"]["measured_requests"] < 200


def test_a_server_that_runs_already_is_measured(against_mock):
    with subprocess.Popen([*MOCK, "--model", "mine"], stdout=subprocess.PIPE, text=True) as server:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        try:
            code, record = against_mock(*TWO, "--url", url)
            assert (code, record["model"]) == (0, "mine"), record["error"]
            on_two = ("--nodes", "2", "--devices", "16", "--device", "gpu")
            code, record = against_mock(*TWO, "--url", url, *on_two)
            assert (code, record["serving"]["elsewhere"]) == (0, "127.0.0.1"), record["error"]
            assert (record["layout"]["num_nodes"], contradictions(record)) == (2, [])
            code, record = against_mock("--url", url, "--served-model", "yours")
            assert "the model yours was asked for, and the server has mine" in record["error"]
        finally:
            server.kill()


def test_chat_behind_a_gateway_is_measured(against_mock, certificate, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-secret-123")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    flags = ["--base", "/team", "--key", "sk-secret-123", "--certificate", str(certificate), "--fault", "answers-other"]
    with subprocess.Popen([*MOCK, *flags], stdout=subprocess.PIPE, text=True) as server:
        url = f"https://127.0.0.1:{int(server.stdout.readline())}/team/v1"
        asked = ("--url", url, "--api-key-variable", "MY_KEY", "--endpoint", "chat")
        try:
            code, record = against_mock(*TWO, *asked)
            requests = requests_of(tmp_path)
            _, without_key = against_mock(*TWO, *asked[:2], "--endpoint", "chat")
            _, too_short = against_mock(*TWO, *asked, "--input-tokens", "4")
        finally:
            server.kill()
    assert (code, record["error"], record["serving"]["elsewhere"]) == (0, "", "")
    assert record["model"] == "model"
    assert record["serving"]["answers_as"] == "other"
    assert {(one["prompt_tokens"], one["cached_tokens"]) for one in requests} == {(8, None)}
    assert without_key["error"] == "the server answered /v1/models with HTTP status 401: "
    assert "a prompt of 4 tokens was asked for, but the chat template alone takes 5" in too_short["error"]
    assert not any("sk-secret" in path.read_bytes().decode(errors="replace") for path in tmp_path.glob("record*"))


@pytest.mark.parametrize(
    ("flags", "device", "precision"),
    [
        ("", "cpu", "fp32"),
        ("--server vllm", "gpu", "bf16"),  # on a node with GPUs a server is taken to use them
        ("--url http://127.0.0.1:8000/v1", "gpu", ""),
        ("--url http://127.0.0.1:8000 --device cpu", "cpu", ""),
        ("--url http://127.0.0.1:8000 --precision fp8", "gpu", "fp8"),
        ("--real-weights --precision bf16", "cpu", "int4"),
    ],
)
def test_a_record_has_the_device_and_the_precision_of_its_weights(flags, device, precision, monkeypatch):
    monkeypatch.setattr("benchmarks.llm_inference.config.gpu_ids", lambda: ["GPU-1"])
    record = run.describe(run.parse(flags.split()))
    assert (record.config["compute"]["device"], record.precision) == (device, precision)


def test_a_launcher_that_is_ended_ends_its_server(tmp_path):
    script = (
        "import sys; from benchmarks.llm_inference import run, servers\n"
        "from benchmarks.llm_inference.tests.conftest import MockProgram\n"
        "servers.SERVERS['vllm'] = MockProgram()\n"
        f"sys.exit(run.main(['--server', 'vllm', '--record', r'{tmp_path}/record.json', "
        f"'--model-folder', r'{tmp_path}']))"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as launcher:
        log = tmp_path / "record.server.log"
        until(lambda: log.exists() and log.read_text().strip(), "the server's port")
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(PATIENCE_S) == 1
    record = read_derived(tmp_path / "record.json")
    assert record["error"] == "ended by signal 15 (SIGTERM)"
    mine = f"mock_server --port {log.read_text().split()[0]}"
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            commands.append(path.read_text().replace("\0", " "))
    assert not any(mine in one for one in commands)
