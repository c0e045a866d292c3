"""Cost of the sampler and of counting reads next to others, and errors of energies on a stand-in of known energy."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import product
from operator import sub
from pathlib import Path

from jpwr.tests.conftest import build
from jpwr.tests.loads import square
from tools.bench.harness import PEERS, ROOT, Cost, Line, compared, cost, in_turns, peer_python

SAMPLED_S = 10.0
PEER_NAMES = ("jpwr 0.0.10", "Zeus")
PEER_PROGRAM = str(Path(__file__).with_name("sampler_peers.py"))
SHAPES = {
    "square 1 s": {"STAND_IN_PERIOD_S": "1"},
    "square 0.37 s": {"STAND_IN_PERIOD_S": "0.37"},
    "ramp": {"STAND_IN_SHAPE": "ramp", "STAND_IN_LIMIT_W": "5100"},  # its highest power: far above it no reading counts
    "spikes": {"STAND_IN_SHAPE": "spikes"},
}
CALLS = {"time_reads": 200_000, "time_opens": 20_000}  # each a pread of 4 kB from the page cache, or an open
TRACER = {"ENABLE": "1", "INIT": "PRELOAD", "DATA_DIR": "all", "INC_METADATA": "1"}  # names of files, as ours
READ = "import pandas, sys; pandas.read_csv(sys.argv[1], comment='#')"


def sampler() -> Iterator[Line]:
    """Compare start, sampling, disturbance, memory, reading, and energies."""
    with tempfile.TemporaryDirectory() as name:
        build(Path(name), "libnvidia-ml.so.1", ROOT / "jpwr" / "tests" / "nvml_stand_in.c")
        own_limit = {"STAND_IN_LIMIT_W": "4000"}  # the power of the last device
        environ = {**os.environ, **own_limit, "STAND_IN_DEVICES": "8", "LD_LIBRARY_PATH": name}
        trace = f"{name}/trace.csv"
        yield from costs(environ)
        yield from energies(environ)
        simulate = [sys.executable, "-m", "jpwr.tests.simulate", "pynvml", "0.1"]
        few, many = (cost([*simulate, end_s, trace], environ) for end_s in ("2000", "101000"))  # from second 1000 on
        own, pandas = (cost([sys.executable, *how, trace]) for how in (("-m", "jpwr", "read"), ("-c", READ)))
    yield compared("sampler, memory at 1,000,000 rows", "peak_mib", [many], "at 10,000 rows", [few])
    what = "sampler, reading 1,000,000 rows"
    yield compared(f"{what}, CPU time", "cpu_s", [own], "pandas", [pandas])
    yield compared(f"{what}, memory", "peak_mib", [own], "pandas", [pandas], "at most", 300)


def costs(environ: dict[str, str]) -> Iterator[Line]:
    """Compare time and memory of a start, CPU time while sampling, and the time of a busy program."""
    python = peer_python()  # which installs the published jpwr, too
    published = [str(PEERS / "bin" / "jpwr"), "--methods", "pynvml", "--interval", "10"]
    own = [sys.executable, "-m", "jpwr", "--methods", "pynvml", "--interval"]
    at_10_ms, at_100_ms = [*own, "10"], [*own, "100"]
    sleep, busy = ["sleep", str(SAMPLED_S)], [sys.executable, "-c", "x = 0\nfor i in range(20_000_000): x += i"]
    commands = {
        "true": ["true"],
        "empty Python": [sys.executable, "-c", "pass"],
        "Zeus": [python, PEER_PROGRAM, "zeus", "0.1"],
        "jpwr 0.0.10": [*published, "true"],
        "jpwr 0.0.10, sampling": [*published, *sleep],
        "start": [*at_10_ms, "--", "true"],
        "10 ms": [*at_10_ms, "--", *sleep],
        "100 ms": [*at_100_ms, "--", *sleep],
        "100 ms, limits": [*at_100_ms, "--power-limit", "70%", "--clock", "85%", "--", *sleep],
        "busy": busy,
        "busy, 10 ms": [*at_10_ms, "--", *busy],
    }
    state = dict.fromkeys(("STAND_IN_STATE", "JPWR_LIMITS_DIR"), environ["LD_LIBRARY_PATH"])
    measured = in_turns(5, {name: partial(cost, command, environ | state) for name, command in commands.items()})

    def beyond(name: str, start: str) -> list[Cost]:
        return list(map(Cost.beyond, measured[name], measured[start]))

    for what, field in (("start", "wall_s"), ("memory of a start", "peak_mib")):
        for name in ("empty Python", *PEER_NAMES):
            yield compared(f"sampler, {what}", field, measured["start"], name, measured[name])
    what, theirs = f"sampler, CPU time of a run of {SAMPLED_S:g} s", beyond("jpwr 0.0.10, sampling", "jpwr 0.0.10")
    yield compared(f"{what} at 10 ms", "cpu_s", beyond("10 ms", "start"), "jpwr 0.0.10", theirs)
    limited, plain = beyond("100 ms, limits", "start"), beyond("100 ms", "start")
    yield compared(f"{what} with limits", "cpu_s", limited, "without limits", plain)
    next_to_it, alone = beyond("busy, 10 ms", "start"), beyond("busy", "true")
    yield compared("sampler at 10 ms, time of a busy program", "wall_s", next_to_it, "without the sampler", alone)


def energies(environ: dict[str, str]) -> Iterator[Line]:
    """Compare the largest error of energy over windows of 1, 5 and 60 s, all shapes and samplers at once."""
    own, others = (sys.executable, "jpwr"), {name: (peer_python(), name.split()[0].lower()) for name in PEER_NAMES}
    running = {}
    for shape, name in product(SHAPES, ("ours", *others)):
        path = {"PYTHONPATH": str(ROOT) if name == "ours" else "", "STAND_IN_DEVICES": "1"}
        python, kind = others.get(name, own)
        command = [python, PEER_PROGRAM, kind, "0.1", "1", "5", "60"]
        running[shape, name] = subprocess.Popen(command, env=environ | SHAPES[shape] | path, stdout=subprocess.PIPE)
    errors = {key: error_percent(key[0], process.communicate()[0]) for key, process in running.items()}
    for shape, name in product(SHAPES, others):
        both = {"ours": [errors[shape, "ours"]], name: [errors[shape, name]]}
        yield f"sampler, largest error of energy, {shape}", "%", both


def error_percent(shape: str, printed: bytes) -> float:
    """Return the largest error of the printed energies; nan if the sampler printed none."""
    errors: list[float] = []
    for line in printed.splitlines():
        start_s, end_s, energy_j = json.loads(line)
        true_j = energy_j_until(shape, end_s) - energy_j_until(shape, start_s)
        errors.append(100 * abs(energy_j - true_j) / true_j)
    return max(errors, default=math.nan)


def energy_j_until(shape: str, time_s: float) -> float:
    """Return the energy of the stand-in's device 0 since second 0 of the monotonic clock, as in shapes.h."""
    if shape == "ramp":
        ramps, part_s = divmod(time_s, 80.0)
        return ramps * 24_000 + 100 * part_s + 2.5 * part_s**2
    load = square(1.0, duty=0.02) if shape == "spikes" else square(float(SHAPES[shape]["STAND_IN_PERIOD_S"]))
    return float(load.energy_j(time_s))


def reads() -> Iterator[Line]:
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
            every = {"alone": (command, {}), "ours": (counted, {}), "DFTracer": (command, preloaded)}
            calls_us = in_turns(7, {name: partial(call_us, *given) for name, given in every.items()})
            alone_us = calls_us.pop("alone")
            added_us = {name: list(map(sub, of_calls, alone_us)) for name, of_calls in calls_us.items()}
            yield f"ioprof, time added to calls of {way[5:]}", "us", added_us


def call_us(command: list[str], variables: dict[str, str]) -> float:
    """Return the microseconds of a call, which the reader prints in nanoseconds."""
    environ = {**os.environ, **variables}
    return float(subprocess.run(command, env=environ, capture_output=True, check=True).stdout) / 1000
