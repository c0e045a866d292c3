"""A run against the mock server, and its requests."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.tests.started import read_derived
from benchmarks.llm_inference import run
from benchmarks.llm_inference.servers import SERVERS, Start, Vllm
from record import served_rules
from tests.needs import need

MOCK = (sys.executable, "-m", "benchmarks.llm_inference.tests.mock_server")
TTFT_S, TPOT_S = 0.02, 0.004
ROUNDED_S = 2e-6  # of times in the file
QUICK = (*("--min-s", "1", "--min-requests", "30", "--input-tokens", "8", "--output-tokens", "8", "--questions", "0"),)


class MockProgram(Vllm):
    """The mock server with some flags, and other names of counters."""

    counter = "mock_tokens_total"

    def __init__(self, flags: str = "", **names: str) -> None:
        self._flags = flags.split()
        vars(self).update(names)

    def command(self, start: Start) -> list[str]:
        return [*MOCK, "--port", str(start.port), *self._flags]


def allow_a_busy_machine(monkeypatch):
    """Switch off the rules that such short requests break where another process takes their CPU."""
    off = {"LEAST_IN_FLIGHT": 0.0, "LEAST_E2E": 0.0, "LEAST_TPOT_S": 0.0, "IN_PIECES": 1.0, "PAUSED": 1.0}
    for name, value in {**off, "MOST_STALLED_S": math.inf}.items():
        monkeypatch.setattr(served_rules, name, value)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A file with a certificate of 127.0.0.1 that is its own authority, and with its key."""
    need("openssl")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 -subj /CN=mine"
    command += " -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out ca.pem"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    (folder / "both.pem").write_text((folder / "key.pem").read_text() + (folder / "ca.pem").read_text())
    return folder / "both.pem"


@pytest.fixture
def against_mock(monkeypatch, tmp_path):
    """Run against a mock server with some flags; return the exit code and the record."""

    def start(*flags: str, server: str = "", is_strict: bool = False, **names: str) -> tuple[int, dict[str, Any]]:
        program = MockProgram(f"--ttft-s {TTFT_S} --tpot-s {TPOT_S} {server}", **names)
        monkeypatch.setitem(SERVERS, "vllm", program)
        if not is_strict:
            allow_a_busy_machine(monkeypatch)
        path = tmp_path / "record.json"
        path.unlink(missing_ok=True)
        arguments = ["--server", "vllm", "--model", "tiny", "--record", str(path), "--model-folder", str(tmp_path)]
        code = run.main([*arguments, *QUICK, *flags])
        return code, read_derived(path)

    return start


def requests_of(folder: Path) -> list[dict[str, Any]]:
    """Return the requests of a run, after a look at the end of their file."""
    *requests, end = (json.loads(line) for line in gzip.open(folder / "record.requests.jsonl.gz"))
    record = read_derived(folder / "record.json")
    assert (end["requests"], end["status"], end["error"]) == (len(requests), record["status"], record["error"])
    return requests


def kinds_of(record: dict[str, Any]) -> set[str]:
    """Return the kinds of the findings of a record."""
    return {one["kind"] for one in record["serving"]["findings"]}
