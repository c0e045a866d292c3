"""Results that no machine measured, of which all numbers are known: for tests and for benchmarks of the reports."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from jpwr.channel import ChannelInfo, Scope
from jpwr.trace.trace import Row
from jpwr.trace.writers import CsvWriter
from results.collect import collect
from results.files.workloads import workloads
from results.find.records import write_record
from results.find.restated import peaks
from results.tests.conftest import make_record

IDLE_S = 5.0
WINDOW_S = 60.0
SEQUENCE_LENGTH = 2048


def result(
    system: str = "A100",
    devices: int = 1,
    batch: int = 8,
    tokens_per_s: float = 100.0,
    power_w: float = 100.0,
    *,
    steps: int = 30,
    estimated: bool = False,
    **changes: Any,
) -> dict[str, Any]:
    """A good run of 60 s: a throughput over all devices, and a power of each device.

    Its steps are as many as fit the throughput, no whole number; `steps` of them are timed.
    """
    base = make_record()
    measured_steps = tokens_per_s * WINDOW_S / (batch * SEQUENCE_LENGTH) if tokens_per_s > 0 else steps
    flops = flops_per_token(changes.get("model", base["model"]))
    tflops_per_device = tokens_per_s / devices * flops / 1e12
    peak = peaks().get((system, changes.get("precision", "bf16"))) or tflops_per_device / 0.3
    energy_wh = devices * power_w * WINDOW_S / 3600
    channel = {
        "name": "made:0",
        "hostname": "n1",
        "scope": "cpu" if estimated else "device",
        "source": "a load model" if estimated else "made up",
        "estimated": estimated,
        "device_id": "",
        "num_devices": devices,
        "method": "integral",
        "energy_wh": energy_wh,
        "integral_wh": energy_wh,
        **_uncertainty(energy_wh),
        "integral_vs_counter": None,
        "idle_power_w": 0.3 * devices * power_w,
        "samples": 600,
        "missing": 0,
        "largest_gap_s": 0.2,
    }
    record = {
        **base,
        "system": system,
        "run_id": os.urandom(8).hex(),
        "layout": {
            **base["layout"],
            "num_devices": devices,
            "data_parallel_size": devices,
            "global_batch_size": batch,
            "micro_batch_size": math.gcd(4, batch // devices or 1),
            "sequence_length": SEQUENCE_LENGTH,
            "work_per_sample": SEQUENCE_LENGTH,
        },
        "config": {
            "data": {"data": changes.get("data", "text")},
            "compute": {"precision": changes.get("precision", "bf16"), "device": _device(changes.get("devices", []))},
        },
        "precision": "bf16",
        "data": "text",
        "sample": "2048 tokens",
        "choices": {},
        "variant": [],
        "metrics": {
            "measured_s": WINDOW_S,
            "measured_tokens": tokens_per_s * WINDOW_S,
            "tokens_per_s": tokens_per_s,
            "tokens_per_s_per_device": tokens_per_s / devices,
            "measured_steps": measured_steps,
            "model_flops_per_token": flops,
            "tflops_per_device": tflops_per_device,
            "peak_tflops_per_device": peak,
            "mfu": tflops_per_device / peak if peak else 0.0,
        },
        "step_times_s": [WINDOW_S / measured_steps] * steps,
        "windows": [
            {
                **base["windows"][0],
                "boot_id": os.urandom(8).hex(),
                "start_s": IDLE_S,
                "end_s": IDLE_S + WINDOW_S,
                "end_epoch_s": base["windows"][0]["start_epoch_s"] + WINDOW_S,
            }
        ],
        "devices": [
            {
                **base["devices"][0],
                "rank": rank,
                "name": "an accelerator",
                "device_id": "",
                "peak_memory_bytes": 40 << 30,
            }
            for rank in range(devices)
        ],
        "energy": {
            "energy_wh": energy_wh,
            "energy_wh_per_device": energy_wh / devices,
            "avg_power_w": devices * power_w,
            **_uncertainty(energy_wh),
            "idle_power_w": 0.3 * devices * power_w,
            "tokens_per_wh": tokens_per_s * WINDOW_S / energy_wh,
            "window_s": WINDOW_S,
            "power_kind": "estimated" if estimated else "measured",
            "power_scope": channel["scope"],
            "power_source": f"{'ESTIMATED' if estimated else 'measured'}, {channel['scope']}",
            "samples": 600,
            "missing": 0,
            "channels": [channel],
            "sampled_by_scope": {"device_wh": energy_wh},
        },
        "provenance": {
            "created": "2026-01-02T03:04:05+00:00",
            "command": ["python", "-m", "benchmarks.llm_training", "--global-batch-size", str(batch)],
            "git_commit": "0123456789abcdef",
            "git_dirty": False,
            "exclusive": "yes",
            "hostname": "n1",
            "cpu": "a processor",
            "kernel": "6.1",
            "python": "3.11.2",
            "packages": {"torch": "2.13.0"},
        },
    }
    record.update(changes)
    return record


def _uncertainty(energy_wh: float) -> dict[str, Any]:
    """Sampling of 1 %, and a sensor that is hardly ever off."""
    random_wh = 0.01 * energy_wh
    components = {"uncertainty_wh": random_wh, "random_wh": random_wh, "systematic_wh": 0.0}
    return {**components, "accuracy": 1e-4, "accuracy_from": "data sheet"}


def flops_per_token(model: str) -> float:
    """Of GPT training on sequences of 2048 tokens."""
    facts = workloads()["llm_training"]
    [(sample, flops)] = facts.flops.get(model, {"2048 tokens": 6.26e9}).items()
    return flops + facts.flops_per_length.get(model, 0.0) * (SEQUENCE_LENGTH - int(sample.split()[0]))


def _device(devices: list[dict[str, Any]]) -> str:
    return "gpu" if any(device["device_id"] for device in devices) else "cpu"


def of_scope(scope: str, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, with energies that were measured there."""
    for record in records:
        record["energy"] |= {"power_scope": scope, "power_source": f"measured, {scope}"}
        for channel in record["energy"]["channels"]:
            channel["scope"] = scope
    return records


def in_units(record: dict[str, Any], unit: str) -> dict[str, Any]:
    """The same of a workload that counts something else, such as samples."""
    layout = record["layout"] | {"work_per_sample": 1}
    steps = record["metrics"]["measured_tokens"] / layout["global_batch_size"]
    parts = {
        part: {key.replace("token", unit[:-1]): value for key, value in record[part].items()}
        for part in ("metrics", "energy")
    }
    parts["metrics"]["measured_steps"] = steps
    step_times_s = [WINDOW_S / steps] * len(record["step_times_s"])
    return {**record, **parts, "layout": layout, "work_unit": unit, "step_times_s": step_times_s}


def failed(system: str = "A100", devices: int = 1, batch: int = 8, **changes: Any) -> dict[str, Any]:
    """A run that left no more than its place in the sweep."""
    record = {name: make_record()[name] for name in ("schema_version", "benchmark", "model", "work_unit")}
    layout = {"num_devices": devices, "num_nodes": 1, "global_batch_size": batch}
    return {**record, "system": system, "status": "failed", "error": "the node burned", "layout": layout, **changes}


def store(folder: Path, records: list[dict[str, Any]]) -> Path:
    """Each record in a folder of its own, as a workflow leaves them."""
    for index, record in enumerate(records):
        place = folder / f"{index:06d}_benchmark" / "work"
        place.mkdir(parents=True)
        write_record(record, place / "result.json")
    return folder


def store_run(folder: Path, record: dict[str, Any], power_w: float = 100.0, rows: int = 651) -> Path:
    """A run as its job leaves it, with the trace from which its energy is: constant power, after an idle time."""
    folder.mkdir(parents=True)
    plain = {key: value for key, value in record.items() if key != "energy"}
    (folder / "record.json").write_text(json.dumps(plain))
    channel = ChannelInfo("made:0", Scope.DEVICE, "made up")
    meta = {"hostname": "n1", "boot_id": record["windows"][0]["boot_id"], "interval_s": 0.1, "jpwr_version": "1"}
    with CsvWriter(folder / "power" / "n1" / "trace.csv", [channel], meta) as writer:
        writer.event("command_started", IDLE_S - 1)
        for name, time_s in (("begin", IDLE_S), ("end", IDLE_S + WINDOW_S)):
            writer.event(f"region_{name}", time_s, region="measured window")
        for row in range(rows):
            time_s = row * (IDLE_S + WINDOW_S + 1) / (rows - 1)
            writer.extend([Row(time_s, [power_w if time_s >= IDLE_S - 1 else 0.3 * power_w], [None])])
    write_record(collect(folder), folder / "result.json")
    return folder


def many(systems: tuple[tuple[str, float, float], ...] = (("A100", 20e3, 400.0), ("H200", 85e3, 690.0))) -> list[Any]:
    """A sweep of each system (name, tokens/s and W of a device): three runs of each point, one point failed."""
    found = []
    for name, speed, power_w in systems:
        for devices in (1, 2, 4):
            for batch in (16, 64, 256):
                if (name, devices, batch) == (systems[0][0], 4, 256):
                    found.append(failed(name, devices, batch, status="out_of_memory", error="no memory", model="800M"))
                    continue
                for repeat in (-1, 0, 1):
                    speedup = devices**0.95 * batch / (batch + 8) * (1 + 0.004 * repeat)
                    found.append(
                        result(name, devices, batch, speed * speedup, power_w * (1 + 0.01 * repeat), model="800M")
                    )
    return found
