"""Errors of the client of servers against the known schedule of a mock server, and its own delay."""

from __future__ import annotations

import io
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout

from benchmarks.llm_inference.address import Address
from benchmarks.llm_inference.client import Server
from benchmarks.llm_inference.config import LoadOptions, WindowOptions
from benchmarks.llm_inference.load import measure
from benchmarks.llm_inference.servers import RUNNING_USAGE
from record.arithmetic import ratio
from record.demand import SLOS
from record.served import metrics_of, number
from tools.bench.harness import Line

TTFT_S, TPOT_S, OUTPUT = 0.2, 0.05, 32  # one process of Python sends the tokens of all streams
SERVER = f"-m benchmarks.llm_inference.tests.mock_server --ttft-s {TTFT_S} --tpot-s {TPOT_S}"


def client() -> Iterator[Line]:
    """Compare latencies, throughput and the delay of reading first and last tokens with the schedule."""
    request_s = TTFT_S + (OUTPUT - 1) * TPOT_S
    for streams in (1, 8, 64, 256):
        load, window = LoadOptions(streams, input_tokens=32, output_tokens=OUTPUT), WindowOptions(1.0, 1)
        with subprocess.Popen([sys.executable, *SERVER.split()], stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                address = Address("127.0.0.1", int(process.stdout.readline()))
                server = Server(address, address.reached(), address.models()[0], 8192, RUNNING_USAGE, keep_alive=True)
                with redirect_stdout(io.StringIO()):  # its progress
                    measured, _ = measure(server, load, window, request_s, lambda: None, lambda *_: None, lambda: None)
            finally:
                process.kill()
        metrics = metrics_of(measured, SLOS[load.slo])
        metrics["late_s"] = statistics.median(late_s for one in measured.every for late_s in one.late_s[1:3])
        metrics["tokens_per_s"] = ratio(metrics["measured_tokens"], measured.duration_s)
        schedule = {"ttft_p50_s": TTFT_S, "tpot_p50_s": TPOT_S, "tokens_per_s": streams * OUTPUT / request_s}
        for name, value in (schedule | {"late_s": TPOT_S}).items():
            yield f"client, {name}, {streams} streams", "", {"ours": [number(metrics, name)], "schedule": [value]}
