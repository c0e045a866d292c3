"""Delay and cost of one client process against a server with a known schedule, the server's own delay included."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from typing import Any

from benchmarks.common.options import option, run_command
from benchmarks.llm_inference import client
from benchmarks.llm_inference.load import log_normal_lengths
from benchmarks.llm_inference.metrics import percentile
from benchmarks.llm_inference.stream import Counter

MOST_MS, MOST_US = 1.5, 35.0  # of the median delay of a token, and of a token's CPU time


@dataclass(frozen=True)
class BenchOptions:
    """Load."""

    streams: int = option(64, "streams of the one process")
    tpot_ms: float = option(20.0, "between two tokens of a stream")
    seconds: float = option(10.0, "measured, after two to warm up")


class Timed(Counter):
    """Keep when each token was due to be sent."""

    def new_tokens(self, event: Mapping[str, Any]) -> int:
        self.__dict__.setdefault("due_s", array("d")).append(event["sent_s"])
        return super().new_tokens(event)


class TimedClient(client.Client):
    """Keep the delay of each token."""

    delays_s: array[float]

    def _finish(self, stream: client.Stream, now_s: float) -> None:
        due_s = stream.counter.__dict__["due_s"]
        self.delays_s.extend(read - due for read, due in zip(stream.request.times_s, due_s, strict=True))
        super()._finish(stream, now_s)


def measure(options: BenchOptions) -> tuple[list[float], float]:
    """Return the delay of each token, sorted, and the CPU time of one; both in seconds."""
    flags = ["--tpot-s", str(options.tpot_ms / 1000), "--ttft-s", "0.05"]
    command = [sys.executable, "-m", "benchmarks.llm_inference.tests.mock_server", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        begin_s = time.monotonic()
        load = client.Load(
            host="127.0.0.1",
            port=port,
            path="/v1/completions",
            model="model",
            vocab_size=32000,
            extra={},
            salt=str(time.time_ns()),
            lengths=log_normal_lengths(128, 64, 0.3, 1),
            starts_s=[(slot, begin_s + slot / options.streams) for slot in range(options.streams)],
            arrivals_s=(),
            first_index=0,
            stride=1,
            keep_alive=True,
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
            server.kill()
            client.Counter = Counter  # type: ignore[misc]
    return sorted(one.delays_s), found[0].cpu_s / found[0].tokens


def bench(options: BenchOptions) -> None:
    """Print both, with what they may be."""
    delays_s, cpu_s = measure(options)
    middle_ms, late_ms = (1e3 * percentile(delays_s, percent) for percent in (50, 99))
    print(f"delay of a token, {len(delays_s)} of {options.streams} streams with {options.tpot_ms:g} ms between two:")
    print(f"  median {middle_ms:.2f} ms (at most {MOST_MS:g} wanted), 99th percentile {late_ms:.2f} ms")
    print(f"CPU time of a token: {1e6 * cpu_s:.1f} us (at most {MOST_US:g} wanted)")


main = partial(run_command, BenchOptions, "python -m benchmarks.llm_inference.tests.bench", __doc__, bench)

if __name__ == "__main__":
    sys.exit(main())
