"""Cost of counting reads, next to DFTracer: each call is a pread of 4 kB from the page cache, or an open."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from operator import sub
from pathlib import Path

from tools.bench.harness import PEERS, ROOT, Table, peer_python

CALLS = {"time_reads": 200_000, "time_opens": 20_000}
TRACER = {"ENABLE": "1", "INIT": "PRELOAD", "DATA_DIR": "all", "INC_METADATA": "1"}  # names of files, as ours


def reads(table: Table) -> None:
    """Compare the time that each profiler adds to a call."""
    peer_python()
    preloaded = {f"DFTRACER_{key}": value for key, value in TRACER.items()}
    preloaded["LD_PRELOAD"] = str(next(PEERS.rglob("libdftracer_preload.so")))
    with tempfile.TemporaryDirectory() as name:
        preloaded["DFTRACER_LOG_FILE"] = f"{name}/trace"
        subprocess.run(["cc", "-O2", "-o", f"{name}/reader", ROOT / "ioprof/tests/reader.c", "-lpthread"], check=True)
        Path(name, "data").write_bytes(bytes(1 << 20))
        for way, count in CALLS.items():
            command = [f"{name}/reader", way, f"{name}/data", str(count)]
            counted = [sys.executable, "-m", "ioprof", "--out", f"{name}/io", "--", *command]
            every = {
                "alone": partial(call_us, command, {}),
                "ours": partial(call_us, counted, {}),
                "DFTracer": partial(call_us, command, preloaded),
            }
            alone_us, own_us, peer_us = table.in_turns(7, every).values()
            own, peer = (list(map(sub, profiled_us, alone_us)) for profiled_us in (own_us, peer_us))
            table.add(f"ioprof, time added to calls of {way[5:]}", "us", own, "DFTracer", peer)


def call_us(command: list[str], variables: dict[str, str]) -> float:
    """Return the microseconds of a call, which the reader prints in nanoseconds."""
    environ = {**os.environ, **variables}
    return float(subprocess.run(command, env=environ, capture_output=True, check=True).stdout) / 1000
