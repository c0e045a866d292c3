"""Delay and cost of one client process against a server with a known schedule, and the errors of whole measurements.

The server's own delay is included. With `vllm` or `aiperf` also a comparison with that client on one server.
"""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common.options import ConfigError, option, run_command
from benchmarks.llm_inference import client
from benchmarks.llm_inference.address import Address
from benchmarks.llm_inference.config import Config, LoadOptions, ServerOptions, WindowOptions
from benchmarks.llm_inference.load import measure
from benchmarks.llm_inference.metrics import client_metrics
from benchmarks.llm_inference.models import SHAPES, make_folder
from benchmarks.llm_inference.servers import RUNNING_USAGE
from benchmarks.llm_inference.started import Started
from benchmarks.llm_inference.stream import Counter
from benchmarks.llm_inference.wire import PARSER
from jpwr.median import percentile
from record.demand import log_normal_lengths
from record.served import Metrics, Window, metrics_of, number

MOST_MS, MOST_US = 1.5, 35.0  # of the median delay of a token, and of a token's CPU time
MOST_APART = 0.03  # of the medians of two clients
STREAMS, REQUESTS, INPUT, OUTPUT = 4, 64, 32, 24  # of a run of each client
COST_STREAMS, COST_REQUESTS, COST_OUTPUT = 64, 512, 64  # of the shorter of two runs for its cost
TTFT_S, TPOT_S = 0.2, 0.02  # of the mock server
ERROR_STREAMS = 1, 8, 64, 256
# One process of Python sends the tokens of all streams.
SLOW_TTFT_S, SLOW_TPOT_S, SLOW_OUTPUT = 0.2, 0.05, 32
OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


@dataclass(frozen=True)
class BenchOptions:
    """Load."""

    streams: int = option(64, "streams of the one process")
    tpot_ms: float = option(20.0, "between two tokens of a stream")
    seconds: float = option(10.0, "measured, after two to warm up")
    vllm: str = option("", "the program vllm, to compare with 'vllm bench serve'; default: the one on PATH")
    aiperf: str = option("", "the program aiperf, to compare with it; default: the one on PATH")
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
        load = client.Load(
            local(port),
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


def errors(streams: int) -> dict[str, float]:
    """Return relative errors of a measurement against the schedule, in percent, and the client's own delay, in ms."""
    request_s = SLOW_TTFT_S + (SLOW_OUTPUT - 1) * SLOW_TPOT_S
    true = {"ttft_p50_s": SLOW_TTFT_S, "tpot_p50_s": SLOW_TPOT_S, "tokens_per_s": streams * SLOW_OUTPUT / request_s}
    with mock_server(SLOW_TTFT_S, SLOW_TPOT_S) as port:
        metrics = measured(local(port), streams, SLOW_OUTPUT, WindowOptions(1.0, 1), request_s)
    delay_ms = 1e3 * number(metrics, "client_delay_p50_s")
    return {name: 100 * (number(metrics, name) / value - 1) for name, value in true.items()} | {"delay_ms": delay_ms}


def local(port: int) -> client.Server:
    """Return the mock server as the client knows it."""
    address = Address("127.0.0.1", port)
    return client.Server(address, address.reached(), "model", SHAPES["tiny"].vocab, dict(RUNNING_USAGE), True)


def measured(server: client.Server, streams: int, output: int, window: WindowOptions, stagger_s: float) -> Metrics:
    """Return the metrics of our client."""
    load = LoadOptions(streams, input_tokens=INPUT, output_tokens=output)
    with redirect_stdout(io.StringIO()):  # its progress
        found = measure(server, load, window, stagger_s, lambda: None, lambda *_: None, lambda: None)
    return metrics_of(
        Window(found.requests, found.start_s, found.end_s, streams), 1, Config().load.limits
    ) | client_metrics(found.statistics)


def ours(server: client.Server) -> dict[str, float]:
    """Return our TTFT and TPOT, streams started together as another client does; medians in seconds."""
    metrics = measured(server, STREAMS, OUTPUT, WindowOptions(1.0, REQUESTS), 0.0)
    return {name: number(metrics, f"{name}_p50_s") for name in ("ttft", "tpot")}


class Asked(NamedTuple):
    """A run of another client."""

    url: str
    model: str
    folder: Path  # of a tokenizer, and for results
    streams: int
    requests: int
    output: int


def vllm_bench(asked: Asked) -> tuple[list[object], Path]:
    """Return the arguments of `vllm bench serve`, on prompts of token ids as ours, and the file that it writes."""
    lengths = {"timestamp": 0, "input_length": INPUT, "output_length": asked.output}
    trace, result = asked.folder / "trace.jsonl", asked.folder / "vllm.json"
    lines = (json.dumps({**lengths, "hash_ids": [request]}) for request in range(asked.requests))
    trace.write_text("".join(f"{line}\n" for line in lines))
    flags = f"bench serve --base-url {asked.url} --model {asked.model} --temperature 0 "
    flags += f"--dataset-name timed_trace --no-self-timed --timed-trace-chunk-hash-size {INPUT} "
    flags += f"--num-prompts {asked.requests} --max-concurrency {asked.streams} --save-result"
    paths = ["--dataset-path", trace, "--result-dir", asked.folder, "--result-filename", result.name]
    return [*flags.split(), "--tokenizer", asked.folder, *paths], result


def aiperf(asked: Asked) -> tuple[list[object], Path]:
    """Return the arguments of aiperf, whose prompts are text, and the file that it writes."""
    flags = f"profile --url {asked.url} --model {asked.model} --endpoint-type completions --streaming --ui none "
    flags += f"--concurrency {asked.streams} --request-count {asked.requests} --use-server-token-count "
    flags += f"--synthetic-input-tokens-mean {INPUT} --output-tokens-mean {asked.output} --no-server-metrics"
    paths = ["--tokenizer", asked.folder, "--artifact-dir", asked.folder / "aiperf"]
    return [*flags.split(), *paths], asked.folder / "aiperf" / "profile_export_aiperf.json"


OTHERS = {"vllm": ("vllm bench serve", vllm_bench), "aiperf": ("aiperf", aiperf)}


def theirs(kind: str, program: str, asked: Asked) -> dict[str, float]:
    """Return TTFT, TPOT and CPU time of another client; raises ConfigError where it fails."""
    name, arguments_of = OTHERS[kind]
    arguments, result = arguments_of(asked)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Without a network, aiperf does not look for a tokenizer in a folder.
    environ = {**os.environ, **(OFFLINE if kind == "vllm" else {})}
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, env=environ, cwd=asked.folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"{program}, {name}, has failed: {done.stderr.strip()[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(result.read_text())
    if kind == "vllm":
        tokens, *medians_ms = (found[key] for key in ("total_output_tokens", "median_ttft_ms", "median_tpot_ms"))
        failed = found["failed"]
    else:
        medians_ms = [found[key]["p50"] for key in ("time_to_first_token", "inter_token_latency")]
        tokens, failed = found["total_osl"]["avg"], found.get("error_request_count", {}).get("avg", 0)
    if failed or tokens != asked.requests * asked.output:
        raise ConfigError(f"{name} counted {tokens:g} tokens; {failed:g} requests failed")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu": cpu_s, "ttft": medians_ms[0] / 1e3, "tpot": medians_ms[1] / 1e3}


def cost(kind: str, program: str) -> float:
    """Return the CPU time of a token of another client, its start left out, in seconds."""
    with mock_server(TTFT_S, TPOT_S) as port, tempfile.TemporaryDirectory() as folder:
        make_folder(Path(folder), SHAPES["tiny"], "fp32")
        asked = Asked(f"http://127.0.0.1:{port}", "model", Path(folder), COST_STREAMS, COST_REQUESTS, COST_OUTPUT)
        few, many = (theirs(kind, program, asked._replace(requests=n * COST_REQUESTS))["cpu"] for n in (1, 3))
    return (many - few) / (2 * COST_REQUESTS * COST_OUTPUT)


def own_cost() -> float:
    """Return the CPU time of a token of our client under the same load, in seconds."""
    with mock_server(TTFT_S, TPOT_S) as port:
        found = measured(local(port), COST_STREAMS, COST_OUTPUT, WindowOptions(1.0, 2 * COST_REQUESTS), 0.0)
    return 1e-6 * number(found, "client_cpu_us_per_token")


def compare(options: BenchOptions, kind: str, program: str) -> None:
    """Print the medians of our client and another on one server, run in turn, and whether they agree."""
    name = OTHERS[kind][0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make_folder(folder, SHAPES["tiny"], "fp32")
        url = options.url or f"http://127.0.0.1:{stack.enter_context(mock_server(TTFT_S, TPOT_S))}"
        server = Started(Config(serve=ServerOptions("vllm", url, vocab_size=SHAPES["tiny"].vocab)), stack).server
        asked = Asked(url, server.model, folder, STREAMS, REQUESTS, OUTPUT)
        pairs = [(ours(server), theirs(kind, program, asked)) for _ in range(options.runs)]
    print(f"medians of {options.runs} runs of each client, in turn, {STREAMS} streams started together:")
    for quantity in ("ttft", "tpot"):
        mine, other = (sorted(1e3 * one[quantity] for one in side) for side in zip(*pairs, strict=True))
        apart = statistics.median(other) / statistics.median(mine) - 1
        is_near = abs(apart) <= MOST_APART or (mine[0] <= other[-1] and other[0] <= mine[-1])
        words = [f"{statistics.median(one):.2f} ms [{one[0]:.2f}, {one[-1]:.2f}]" for one in (mine, other)]
        print(f"  {quantity.upper()}: ours {words[0]}, {name} {words[1]}: {100 * apart:+.1f} %", end="")
        print(", they agree" if is_near else f", more than {100 * MOST_APART:g} % and the ranges do not overlap")


def bench(options: BenchOptions) -> None:
    """Print all, with what they may be."""
    delays_s, cpu_s = delays(options)
    middle_ms, late_ms = (1e3 * percentile(delays_s, percent) for percent in (50, 99))
    print(f"delay of a token, {len(delays_s)} of {options.streams} streams with {options.tpot_ms:g} ms between two:")
    print(f"  median {middle_ms:.2f} ms (at most {MOST_MS:g} wanted), 99th percentile {late_ms:.2f} ms")
    print(f"CPU time of a token that comes alone: {1e6 * cpu_s:.1f} us (at most {MOST_US:g} wanted), read by", end=" ")
    print(PARSER.__name__)
    print(f"errors against {1e3 * SLOW_TTFT_S:g} ms to the first token and {1e3 * SLOW_TPOT_S:g} ms between two:")
    print("  streams      TTFT      TPOT  tokens/s  the client's own delay, median of upper bounds")
    for streams in ERROR_STREAMS:
        *relative, delay_ms = errors(streams).values()
        print(f"  {streams:7d}", *(f"{one:+7.2f} %" for one in relative), f" {delay_ms:.2f} ms")
    for kind, (name, _) in OTHERS.items():
        if program := getattr(options, kind) or shutil.which(kind):
            compare(options, kind, program)
            mine, other = (1e6 * one for one in (own_cost(), cost(kind, program)))
            print(f"  CPU time of a token, {COST_STREAMS} streams: ours {mine:.1f} us, {name} {other:.1f} us")
        else:
            print(f"no comparison with {name}: give --{kind} PATH, of an environment that has it")


main = partial(run_command, BenchOptions, "python -m benchmarks.llm_inference.tests.bench", __doc__, bench)

if __name__ == "__main__":
    sys.exit(main())
