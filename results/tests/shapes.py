"""A job folder of each shape of run, as a job leaves it: records, traces of known power, and the joined result."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.llm_inference.tests.test_verified import rehashed, stored_run
from jpwr.channel import ChannelInfo, Scope
from jpwr.trace.trace import Row
from jpwr.trace.writers import CsvWriter
from results.collect import collect, failed_result
from results.find.records import write_record
from results.tests import made_up
from results.tests.test_nodes import check

Record = dict[str, Any]
SYSTEM, POWER_W, TICK_S = "A100", 400.0, 0.25
WITHOUT = ("energy", "energy_effective")  # of a record, before it is joined with traces


def job(folder: Path, record: Record) -> Path:
    """Write a job's folder: its record, a trace of each node with constant power on its devices, and the result."""
    hosts = list(dict.fromkeys(window["hostname"] for window in record["windows"]))
    per_host = record["layout"]["num_devices"] // len(hosts)
    record["config"] = {**record["config"], "compute": {"precision": record["precision"], "device": "gpu"}}
    for rank, device in enumerate(record["devices"]):
        device |= {"hostname": hosts[rank // per_host], "device_id": uuid(rank)}
    write_plain(folder, record)
    for number, host in enumerate(hosts):
        windows = [window for window in record["windows"] if window["hostname"] == host]
        marks = [(f"{window['kind']} window", window) for window in windows]
        write_trace(folder, marks, range(number * per_host, (number + 1) * per_host))
    write_record(collect(folder), folder / "result.json")
    return folder


def uuid(number: int) -> str:
    """Return the UUID of a made-up GPU."""
    return f"GPU-{number + 1:08x}-0000-0000-0000-{number + 1:012x}"


def write_plain(folder: Path, record: Record) -> None:
    """Write the record that a benchmark leaves, without energies."""
    folder.mkdir(parents=True, exist_ok=True)
    if record["benchmark"] == "llm_inference":
        rehashed(record)
    plain = {key: value for key, value in record.items() if key not in WITHOUT}
    (folder / "record.json").write_text(json.dumps(plain))


def write_trace(folder: Path, marks: list[tuple[str, Record]], numbers: range) -> None:
    """Write a node's trace of its devices with named windows: 400 W each, and 120 W before the job's command starts."""
    windows = [window for _, window in marks]
    host, boot_id = windows[0]["hostname"], windows[0]["boot_id"]
    known = {"accuracy": 0.05, "accuracy_from": "data sheet"}
    channels = [
        ChannelInfo(f"nvml:{index}", Scope.DEVICE, "board power", device_id=uuid(number), **known)
        for index, number in enumerate(numbers)
    ]
    meta = {"hostname": host, "boot_id": boot_id, "interval_s": TICK_S, "jpwr_version": "1"}
    last_s = max(window["end_s"] for window in windows) + 1.0
    with CsvWriter(folder / "power" / host / "trace.csv", channels, meta) as writer:
        writer.event("command_started", made_up.IDLE_S - 1)
        for row in range(round(last_s / TICK_S) + 1):
            level_w = POWER_W if row * TICK_S >= made_up.IDLE_S - 1 else 0.3 * POWER_W
            writer.extend([Row(row * TICK_S, [level_w] * len(numbers), [None] * len(numbers))])
        for name, window in marks:
            for edge in ("start", "end"):
                event = "region_begin" if edge == "start" else "region_end"
                writer.event(event, window[f"{edge}_s"], region=name)


def training(name: str = "run", speed: float = 20e3, system: str = SYSTEM, batch: int = 64, **changes: Any) -> Record:
    """Return the record of a training on 4 devices, without its energy."""
    record = made_up.result(system, 4, batch, speed, **{"model": "800M", "run_id": name, **changes})
    record["windows"][0]["boot_id"] = f"boot of {name}"
    record["losses"] = [9.0 - 0.05 * step for step in range(len(record["step_times_s"]))]
    return record


def effective(name: str = "run") -> Record:
    """Return a training with a second window that waits for its data."""
    record = training(name)
    [window], metrics = record["windows"], record["metrics"]
    end_s = window["end_s"] + 2.0
    later = {"kind": "effective", "start_s": end_s, "end_s": end_s + made_up.WINDOW_S}
    epochs = {f"{edge}_epoch_s": window[f"{edge}_epoch_s"] + made_up.WINDOW_S + 2.0 for edge in ("start", "end")}
    record["windows"].append(window | later | epochs)
    metrics |= {f"effective_{key}": 0.9 * metrics[key] for key in ("tokens_per_s", "tokens_per_s_per_device")}
    metrics |= {"effective_tokens": 0.9 * metrics["measured_tokens"], "effective_s": made_up.WINDOW_S}
    return record


def several_nodes(name: str = "run") -> Record:
    """Return a training on two nodes of two devices."""
    record = training(name)
    [window] = record["windows"]
    record["layout"]["num_nodes"] = 2
    record["windows"] = [window | {"hostname": host, "boot_id": f"{host} of {name}"} for host in ("n1", "n2")]
    return record


def checkpoints(name: str = "run") -> Record:
    """Return a training whose checkpoint is written and read back twice after its window."""
    record = training(name)
    [window] = record["windows"]
    times = {"write": 2.0, "restore": 3.0}
    start_s = window["end_s"] + 1.0
    for kind, length_s in (("checkpoint", times["write"]), ("restore", times["restore"])) * 2:
        record["windows"].append(window | {"kind": kind, "start_s": start_s, "end_s": start_s + length_s})
        start_s += length_s + 1.0
    for word, length_s in times.items():
        record["metrics"] |= {f"checkpoint_{word}{end}_s": length_s for end in ("", "_least", "_most")}
    record["metrics"] |= {"checkpoint_rounds": 2, "checkpoint_cold": 1, "step_time_median_s": record["step_times_s"][0]}
    return record


def write_served(folder: Path, name: str, requests: int = 400, system: str = SYSTEM) -> Path:
    """Write the folder of a server under the load of four streams, with its requests."""
    folder.mkdir(parents=True)
    record, base = stored_run(folder, requests), made_up.result(SYSTEM, 1)
    start_s, length_s = made_up.IDLE_S, record["metrics"]["measured_s"]
    [window] = base["windows"]
    window |= {"boot_id": f"boot of {name}", "start_s": start_s, "end_s": start_s + length_s}
    window["end_epoch_s"] = window["start_epoch_s"] + length_s
    record["config"]["run"]["system"] = system
    facts = {"windows": [window], "devices": base["devices"], "precision": "bf16", "system": system, "run_id": name}
    packages = {"packages": {"xllamacpp": record["serving"]["version"]}}
    return job(folder, record | facts | {"provenance": base["provenance"] | {"command": []} | packages})


def node_check(name: str = "run") -> Record:
    """Return the node check of one node with four devices."""
    record = check(system=SYSTEM, run_id=name)
    record["windows"][0]["boot_id"] = f"boot of {name}"
    return record


def write_copies(folder: Path, name: str) -> Path:
    """Write the folder of two copies of a training that ran at once on two devices each."""
    marks = []
    for number, speed in enumerate((10e3, 9e3)):
        record = made_up.result(SYSTEM, 2, 32, speed, model="800M", run_id=f"{name} {number}")
        record["config"]["compute"]["device"] = "gpu"
        [window] = record["windows"]
        later = {key: window[key] + number for key in window if key.endswith("_s")}
        record["windows"] = [window | later | {"boot_id": f"boot of {name}"}]
        for rank, device in enumerate(record["devices"]):
            device["device_id"] = uuid(2 * number + rank)
        write_plain(folder / f"copy_{number + 1}", record)
        marks.append((f"measured window of copy {number + 1}", record["windows"][0]))
    start_s, end_s = (edge(window[f"{name}_s"] for _, window in marks) for edge, name in ((max, "start"), (min, "end")))
    marks.append(("measured window", window | {"start_s": start_s, "end_s": end_s}))
    write_trace(folder, marks, range(4))
    layout = {"num_devices": 4, "num_nodes": 1, "global_batch_size": 64}
    planned = made_up.failed(SYSTEM, model="800M", status="unfinished", layout=layout)
    write_record(planned | {"fill": {"copies": 2, "devices_per_copy": 2}}, folder / "result.json")
    write_record(collect(folder), folder / "result.json")
    return folder


def write_failed(folder: Path, name: str) -> Path:
    """Write the folder of a job that ended with 137 before it left a record."""
    folder.mkdir(parents=True)
    planned = made_up.failed(SYSTEM, 4, 256, model="800M", status="unfinished", error="", run_id=name)
    write_record(planned, folder / "result.json")
    write_record(failed_result(folder, 137, ""), folder / "result.json")
    return folder


def write_without_energy(folder: Path, name: str) -> Path:
    """Write the folder of a training that left no trace of power."""
    write_plain(folder, training(name))
    write_record(collect(folder), folder / "result.json")
    return folder


def _of(make: Callable[[str], Record]) -> Callable[[Path, str], Path]:
    return lambda folder, name: job(folder, make(name))


SHAPES: dict[str, Callable[[Path, str], Path]] = {
    "training": _of(training),
    "effective": _of(effective),
    "nodes": _of(several_nodes),
    "checkpoints": _of(checkpoints),
    "served": write_served,
    "node_check": _of(node_check),
    "copies": write_copies,
    "failed": write_failed,
    "without_energy": write_without_energy,
}
