"""Cost of the sampler and errors of its energies, next to other samplers, on a stand-in of known energy."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from jpwr.tests.loads import square
from tools.bench.harness import PEERS, ROOT, Table, cost, peer_python

DEVICES, SAMPLED_S = 8, 10.0
PUBLISHED = [str(PEERS / "bin" / "jpwr"), "--methods", "pynvml", "--interval", "10"]  # jpwr 0.0.10
SHAPES = {
    "square 1 s": {"STAND_IN_PERIOD_S": "1"},
    "square 0.37 s": {"STAND_IN_PERIOD_S": "0.37"},
    "ramp": {"STAND_IN_SHAPE": "ramp", "STAND_IN_LIMIT_W": "5100"},  # its highest power: far above it no reading counts
    "spikes": {"STAND_IN_SHAPE": "spikes"},
}
WRITE = f"""
import sys
from pathlib import Path
from jpwr.channel import ChannelInfo, Scope
from jpwr.trace.trace import Row
from jpwr.trace.writers import CsvWriter
infos = [ChannelInfo(f"a:{{i}}", Scope.DEVICE, "", has_counter=True) for i in range({DEVICES})]
with CsvWriter(Path(sys.argv[1]), infos, {{"interval_s": 0.1}}) as file:
    for row in range(int(sys.argv[2])):
        file.extend([Row(row * 0.1, [300.0 + row % 7] * {DEVICES}, [30.0 * row] * {DEVICES})])
"""
READ = "import pandas, sys; pandas.read_csv(sys.argv[1], comment='#')"


def sampler(table: Table) -> None:
    """Compare start, sampling, disturbance, memory, reading, and energies."""
    with tempfile.TemporaryDirectory() as name:
        environ, trace = stand_in(Path(name)), f"{name}/trace.csv"
        start_up(table, environ)
        sampling(table, environ)
        energies(table, environ)
        few, many = (cost([sys.executable, "-c", WRITE, trace, str(rows)]) for rows in (10_000, 1_000_000))
        own, pandas = (cost([sys.executable, *how, trace]) for how in (("-m", "jpwr", "read"), ("-c", READ)))
    table.add("sampler, memory at 1,000,000 rows", "MiB", [many.peak_mib], "at 10,000 rows", [few.peak_mib])
    table.add("sampler, reading 1,000,000 rows, CPU time", "s", [own.cpu_s], "pandas", [pandas.cpu_s])
    table.add("sampler, reading 1,000,000 rows, memory", "MiB", [own.peak_mib], "pandas", [pandas.peak_mib], most=300)


def stand_in(folder: Path) -> dict[str, str]:
    """Build the stand-in of NVML, and return the environment of who uses it."""
    source = ROOT / "jpwr" / "tests" / "nvml_stand_in.c"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", source, "-lm"], check=True)
    limit = {"STAND_IN_LIMIT_W": "4000"}  # the power of the last device
    return {**os.environ, **limit, "STAND_IN_DEVICES": str(DEVICES), "LD_LIBRARY_PATH": str(folder)}


def ours(interval_ms: float, *command: str) -> list[str]:
    """Return the command of our sampler, with further flags and what it is put in front of."""
    return [sys.executable, "-m", "jpwr", "--methods", "pynvml", "--interval", str(interval_ms), *command]


def windows(python: str, name: str, interval_s: float, *windows_s: float) -> list[str]:
    """Return the command of a sampler of a Python over some windows."""
    return [python, str(Path(__file__).with_name("sampler_peers.py")), name, str(interval_s), *map(str, windows_s)]


def start_up(table: Table, environ: dict[str, str]) -> None:
    """Compare time and memory of a start."""
    commands = {
        "ours": ours(10, "--", "true"),
        "empty Python": [sys.executable, "-c", "pass"],
        "jpwr 0.0.10": [*PUBLISHED, "true"],
        "Zeus": windows(peer_python(), "zeus", 0.1),
    }
    measures = {name: partial(cost, command, environ) for name, command in commands.items()}
    own, *others = table.in_turns(7, measures).items()
    for field, what, unit in ((0, "start", "s"), (2, "memory of a start", "MiB")):
        for name, runs in others:
            table.add(f"sampler, {what}", unit, [run[field] for run in own[1]], name, [run[field] for run in runs])


def sampling(table: Table, environ: dict[str, str]) -> None:
    """Compare CPU time while sampling, start-up left out, and the time of a busy program."""
    sleep, busy = ["sleep", str(SAMPLED_S)], [sys.executable, "-c", "x = 0\nfor i in range(20_000_000): x += i"]
    commands = {
        "true": ["true"],
        "start": ours(10, "--", "true"),
        "10 ms": ours(10, "--", *sleep),
        "100 ms": ours(100, "--", *sleep),
        "100 ms, limits": ours(100, "--power-limit", "70%", "--clock", "85%", "--", *sleep),
        "jpwr 0.0.10, start": [*PUBLISHED, "true"],
        "jpwr 0.0.10": [*PUBLISHED, *sleep],
        "busy": busy,
        "busy, 10 ms": ours(10, "--", *busy),
    }
    state = dict.fromkeys(("STAND_IN_STATE", "JPWR_LIMITS_DIR"), environ["LD_LIBRARY_PATH"])
    measures = {
        name: partial(cost, command, {**environ, **(state if "100 ms" in name else {})})
        for name, command in commands.items()
    }
    costs = table.in_turns(5, measures)

    def beyond(name: str, start: str, field: int = 1) -> list[float]:
        return [run[field] - base[field] for run, base in zip(costs[name], costs[start], strict=True)]

    what, own = f"sampler, CPU time of a run of {SAMPLED_S:g} s", beyond("10 ms", "start")
    table.add(f"{what} at 10 ms", "s", own, "jpwr 0.0.10", beyond("jpwr 0.0.10", "jpwr 0.0.10, start"))
    plain = beyond("100 ms", "start")
    table.add(f"{what} with limits", "s", beyond("100 ms, limits", "start"), "without limits", plain)
    busy_s, alone_s = beyond("busy, 10 ms", "start", field=0), beyond("busy", "true", field=0)
    table.add("sampler at 10 ms, time of a busy program", "s", busy_s, "without the sampler", alone_s)


def energies(table: Table, environ: dict[str, str]) -> None:
    """Compare the largest error of energy over windows, all shapes and samplers at once."""
    every = {"ours": (sys.executable, "jpwr"), "jpwr 0.0.10": (peer_python(), "jpwr"), "Zeus": (peer_python(), "zeus")}
    running = {}
    for shape, variables in SHAPES.items():
        for name, (python, kind) in every.items():
            only = {**environ, **variables, "STAND_IN_DEVICES": "1", "PYTHONPATH": str(ROOT) if name == "ours" else ""}
            command = windows(python, kind, 0.1, 1, 5, 60)
            running[shape, name] = subprocess.Popen(command, env=only, stdout=subprocess.PIPE)
    errors = {key: error_percent(key[0], process.communicate()[0]) for key, process in running.items()}
    for shape, name in errors:
        if name != "ours":
            what = f"sampler, largest error of energy, {shape}"
            table.add(what, "%", [errors[shape, "ours"]], name, [errors[shape, name]])


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
