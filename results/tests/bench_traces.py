"""Time and memory of a job's end with many nodes, and of reading one long trace, next to pandas alone."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from jpwr.channel import ChannelInfo, Scope
from jpwr.trace.trace import Row
from jpwr.trace.writers import CsvWriter
from results.tests.builder import make_record

DEVICES, INTERVAL_S, HOUR_S = 4, 0.1, 3600.0
EDGE_S = 60.0  # of the trace before and after the window
POLL_S = 0.1
MIB = 2**20
# Largest figures wanted: seconds of a processor's core for each node, and MiB of the largest process.
MOST_S_OF_A_NODE, MOST_MIB_OF_A_NODE = 1.25, 150
MOST_S_OF_A_TRACE, MOST_MIB_OF_A_TRACE = 40, 300
PEER = "import pandas, sys; [pandas.read_csv(path, comment='#') for path in sys.argv[1:]]"


class Cost(NamedTuple):
    """Time and memory of a command."""

    wall_s: float
    cpu_s: float
    largest_mib: float  # peak of the largest process
    together_mib: float  # peak of all its processes together, pages that they share counted once


def job(nodes: int) -> int:
    """Print what the end of a job of so many nodes takes; return 1 if it is more than wanted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = _write_node(folder, 0)
        for number in range(1, nodes):
            _copy_node(folder, first, number)
        (folder / "record.json").write_text(json.dumps(_record(nodes)))
        cost = _cost(sys.executable, "-m", "results.collect", str(folder))
        energy = json.loads((folder / "result.json").read_text())["energy"]
        peer = _cost(sys.executable, "-c", PEER, str(first))
        mb = first.stat().st_size / 1e6
    hours = nodes * DEVICES
    print(f"{nodes} nodes with {DEVICES} devices for an hour, a reading each {INTERVAL_S * 1000:g} ms:")
    print(f"  a node writes {mb:.1f} MB an hour, all of them {nodes * mb / 1000:.2f} GB")
    taken = f"{cost.wall_s:.1f} s, {cost.cpu_s:.1f} s of CPU time on {_cores()} cores"
    print(f"  joined in {taken}: {energy['energy_wh']:.6g} Wh")
    print(f"  a channel-hour takes {cost.cpu_s / hours:.3f} s of CPU time; {cost.cpu_s / nodes:.2f} s a node, ", end="")
    print(f"{cost.cpu_s / nodes / peer.cpu_s:.2f} of pandas reading its trace, at most {MOST_S_OF_A_NODE:g} s wanted")
    print(f"  the largest process takes {cost.largest_mib:.0f} MiB, all together {cost.together_mib:.0f} MiB; ", end="")
    print(f"{cost.largest_mib / peer.largest_mib:.2f} of pandas, at most {MOST_MIB_OF_A_NODE} MiB wanted")
    return int(cost.cpu_s / nodes > MOST_S_OF_A_NODE or cost.largest_mib > MOST_MIB_OF_A_NODE)


def long_trace(rows: int) -> int:
    """Print what reading one long trace takes; return 1 if it is more than wanted."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "trace.csv"
        with CsvWriter(path, _channels(0)[:1], {"interval_s": INTERVAL_S, "random_phase": True}) as writer:
            _write_rows(writer, rows, devices=1)
        cost = _cost(sys.executable, "-m", "jpwr", "read", str(path))
        peer = _cost(sys.executable, "-c", PEER, str(path))
    print(f"a trace of {rows} rows with a counter:")
    for words, own, other, unit, most in (
        ("read and summed in", cost.cpu_s, peer.cpu_s, "s of CPU time", MOST_S_OF_A_TRACE),
        ("memory", cost.largest_mib, peer.largest_mib, "MiB", MOST_MIB_OF_A_TRACE),
    ):
        print(f"  {words} {own:.1f} {unit}, at most {most} wanted, {own / other:.2f} of pandas reading it")
    return int(cost.cpu_s > MOST_S_OF_A_TRACE or cost.largest_mib > MOST_MIB_OF_A_TRACE)


def _channels(node: int) -> list[ChannelInfo]:
    """Channels like those of NVML on boards with a counter."""
    board = ChannelInfo(
        *("", Scope.DEVICE, "made up"),
        has_counter=True,
        counter_resolution_j=0.001,
        limit_w=700.0,
        accuracy=0.05,
        seen_share=0.25,
    )
    return [board._replace(name=f"pynvml:{index}", device_id=f"GPU-{node}-{index}") for index in range(DEVICES)]


def _meta(node: int) -> dict[str, Any]:
    return {"hostname": f"n{node:05d}", "boot_id": f"boot-{node:05d}", "interval_s": INTERVAL_S, "random_phase": True}


def _write_node(folder: Path, node: int) -> Path:
    path = folder / "power" / f"n{node:05d}" / "trace.csv"
    with CsvWriter(path, _channels(node), _meta(node)) as writer:
        writer.event("command_started", EDGE_S / 2)
        _write_rows(writer, round(HOUR_S / INTERVAL_S), DEVICES)
        writer.event("command_ended", HOUR_S)
    return path


def _copy_node(folder: Path, first: Path, node: int) -> None:
    """Write the same readings under another node's header."""
    path = folder / "power" / f"n{node:05d}" / "trace.csv"
    with CsvWriter(path, _channels(node), _meta(node)):
        pass
    with first.open("rb") as source, path.open("ab") as target:
        for _ in range(2):
            source.readline()
        while content := source.read(MIB):
            target.write(content)


def _write_rows(writer: CsvWriter, rows: int, devices: int) -> None:
    """Write readings of a load that changes each second, with a counter of 0.1 s and new clocks each second."""
    chance = random.Random(1)
    energies_j, shown_j, shown = [0.0] * devices, [0.0] * devices, 0
    time_s, second, written = 0.0, -1, []
    for row in range(rows):
        before_s, time_s = time_s, (row + chance.random()) * INTERVAL_S
        powers_w = [300.0 + 200.0 * (int(time_s) % 2) + 20.0 * chance.random() for _ in range(devices)]
        energies_j = [one + power * (time_s - before_s) for one, power in zip(energies_j, powers_w, strict=True)]
        if int(10 * time_s) != shown:
            shown, shown_j = int(10 * time_s), energies_j
        written.append(Row(time_s, powers_w, shown_j, 0.00025))
        if len(written) == 10:
            writer.extend(written)
            written = []
        if int(time_s) != second and devices > 1:
            second = int(time_s)
            for index in range(devices):
                _write_status(writer, time_s, index, chance)
    writer.extend(written)


def _write_status(writer: CsvWriter, time_s: float, index: int, chance: random.Random) -> None:
    clocks = {"sm_clock_mhz": chance.randrange(1300, 1980, 15), "memory_clock_mhz": 2619, "power_limit_w": 700.0}
    status = {**clocks, "temperature_c": chance.randrange(50, 70), "throttle_reasons": "0x4"}
    writer.event("status", time_s, channel=f"pynvml:{index}", **status)


def _record(nodes: int) -> dict[str, Any]:
    record = make_record()
    windows, devices = [], []
    for node in range(nodes):
        where = {"hostname": f"n{node:05d}", "boot_id": f"boot-{node:05d}"}
        edges = {"start_s": EDGE_S, "end_s": HOUR_S - EDGE_S}
        windows.append({**record["windows"][0], **where, **edges})
        for index in range(DEVICES):
            rank = DEVICES * node + index
            one = {"hostname": where["hostname"], "rank": rank, "device_id": f"GPU-{node}-{index}"}
            devices.append({**record["devices"][0], **one})
    layout = {**record["layout"], "num_devices": nodes * DEVICES, "num_nodes": nodes}
    return {**record, "layout": layout, "windows": windows, "devices": devices}


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _cost(*command: str) -> Cost:
    """Return what a command took; raises CalledProcessError."""
    largest_mib = together_mib = 0.0
    before, started_s = os.times(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        while process.poll() is None:
            sizes = list(_sizes_mib(process.pid))
            largest_mib = max(largest_mib, max((resident for resident, _ in sizes), default=0.0))
            together_mib = max(together_mib, sum(share for _, share in sizes))
            time.sleep(POLL_S)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    wall_s, after = time.perf_counter() - started_s, os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(wall_s, cpu_s, largest_mib, together_mib)


def _sizes_mib(session: int) -> Iterator[tuple[float, float]]:
    """Yield peak resident size and proportional share of memory of each process in a session, see proc(5)."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                yield _field(folder / "status", "VmHWM:"), _field(folder / "smaps_rollup", "Pss:")


def _field(path: Path, name: str) -> float:
    [line] = [line for line in path.read_text().splitlines() if line.startswith(name)]
    return int(line.split()[1]) / 1024
