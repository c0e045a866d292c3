"""What counting reads costs, beside DFTracer, in the same run.

Usage: python -m ioprof.tests.bench. DFTracer (MIT) is installed into a virtual environment of its own, build/io-peers.
A read is a pread of 4 kB that the page cache has, again and again; an open is an open and a close. What a training step
pays follows from its calls, which are counted in a run of ResNet-50 on this machine's CPU, and its time there.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ioprof.folder import load
from ioprof.tests.conftest import built

REPOSITORY = Path(__file__).resolve().parents[2]
PEERS = REPOSITORY / "build" / "io-peers"
PACKAGES = ("dftracer==2.2.0",)
READS, OPENS = 200_000, 20_000
ROUNDS = 7


def main() -> int:
    """Print the bench; the exit code."""
    tracer = dftracer()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reader = built(folder / "reader", "-O2")
        (folder / "data").write_bytes(bytes(1 << 20))
        costs = {}
        for way, count in (("time_reads", READS), ("time_opens", OPENS)):
            command = [reader, way, str(folder / "data"), str(count)]
            found: dict[str, list[float]] = {"alone": [], "ioprof": [], "DFTracer": []}
            for _ in range(ROUNDS):
                found["alone"].append(timed_ns(command, folder, {}))
                found["ioprof"].append(timed_ns(counted(folder, command), folder, {}))
                found["DFTracer"].append(timed_ns(command, folder, traced(tracer, folder)))
            alone_ns, own_ns, peer_ns = (statistics.median(found[one]) for one in ("alone", "ioprof", "DFTracer"))
            costs[way] = own_ns - alone_ns
            print(
                f"{way[5:-1]:5}  alone {alone_ns / 1e3:6.3f} us; ioprof {(own_ns - alone_ns) / 1e3:+.3f} us, DFTracer "
                f"{(peer_ns - alone_ns) / 1e3:+.3f} us: a {(peer_ns - alone_ns) / max(own_ns - alone_ns, 1.0):.1f}th",
                flush=True,
            )
        of_a_step(folder, costs)
    return 0


def dftracer() -> Path:
    """DFTracer's library, installed where it is not."""
    if not (PEERS / "installed").exists():
        print(f"installing {', '.join(PACKAGES)} into {PEERS}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(PEERS)], check=True)
        subprocess.run([str(PEERS / "bin" / "python"), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (PEERS / "installed").touch()
    return next(PEERS.rglob("libdftracer_preload.so"))


def traced(tracer: Path, folder: Path) -> dict[str, str]:
    """Of a command whose calls DFTracer is to write down."""
    names = {"ENABLE": "1", "INIT": "PRELOAD", "LOG_FILE": str(folder / "trace"), "DATA_DIR": "all"}
    names["INC_METADATA"] = "1"  # with the names of files, which we tell, too
    return {"LD_PRELOAD": str(tracer), **{f"DFTRACER_{name}": value for name, value in names.items()}}


def counted(folder: Path, command: list[str]) -> list[str]:
    """The command under ioprof."""
    return [sys.executable, "-m", "ioprof", "--out", str(folder / "io"), "--", *command]


def timed_ns(command: list[str], folder: Path, variables: dict[str, str]) -> float:
    """Nanoseconds of a call, as the reader says."""
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), **variables}
    done = subprocess.run(
        command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    return float(done.stdout)


def of_a_step(folder: Path, costs_ns: dict[str, float]) -> None:
    """Print the share of a training step, of calls that go on beside it for the most part."""
    data = ["--data", "fake-imagenet", "--data-dir", str(folder / "pictures")]
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    prepare = [sys.executable, "-m", "benchmarks.resnet50.prepare", "--out", data[-1], "--images", "256"]
    subprocess.run(prepare, env=environ, check=True, stdout=subprocess.DEVNULL)
    steps = ["--warmup-steps", "2", "--measured-steps", "20", "--min-measured-s", "0"]
    train = [sys.executable, "-m", "benchmarks.resnet50", "--device", "cpu", "--image-size", "64", *data, *steps]
    command = counted(folder, [*train, "--global-batch-size", "16", "--record", str(folder / "record.json")])
    subprocess.run(command, cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    record = json.loads((folder / "record.json").read_text())
    files = [
        one
        for process in load(folder / "io").processes
        for one in process.files
        if one.path.startswith(os.path.realpath(data[-1]))
    ]
    spent_ns = (
        sum(one.reads for one in files) * costs_ns["time_reads"]
        + sum(one.opens for one in files) * costs_ns["time_opens"]
    )
    batches = record["metrics"]["records_read"] / 16
    step_s = record["metrics"]["host_step_time_median_s"]
    print(
        f"step   ResNet-50, batch 16: {sum(one.reads for one in files) / batches:.1f} reads a batch of "
        f"{sum(one.bytes for one in files) / batches / 1e6:.2f} MB, {spent_ns / batches / 1e3:.2f} us of counting in a "
        f"step of {step_s:.3f} s: {100 * spent_ns / batches / 1e9 / step_s:.4f} %"
    )


if __name__ == "__main__":
    sys.exit(main())
