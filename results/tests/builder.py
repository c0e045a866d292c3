"""Records of which every number is known, and the folders that runs of each shape leave: for tests and benches."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from benchmarks.llm_inference.tests.test_verified import stored_run
from jpwr.channel import ChannelInfo, Scope
from jpwr.trace.trace import Row
from jpwr.trace.writers import CsvWriter
from record.derivation import derive
from record.model import Record as Parts
from record.part import as_json
from results.collect import collect, failed_result
from results.files.systems import peak_of
from results.files.workloads import workloads
from results.find.records import write_record
from results.tests.of_dicts import by_point
from results.verdicts.accept import Verdict, accept
from results.verdicts.requirements import Requirements, read_requirements

Record = dict[str, Any]
IDLE_S = 5.0
WINDOW_S = 60.0
SEQUENCE_LENGTH = 2048
THREE = (0.999, 1.0, 1.001)  # shares of the speed that three repeats have
OUTPUT, INPUT = 100, 300  # tokens of a request
PER_NODE = 4
RATES = {"matmul_bf16": 800.0, "triad": 3000.0}
LINKS = {"all_reduce_node": 400.0, "send_network": 50.0}
REPEATS = (0.996, 0.997, 0.998, 0.999, 1.0, 1.0, 1.001, 1.002, 1.003, 1.004)
LARGEST = 512_000_000  # bytes of a message


CPU = ChannelInfo("estimate:cpu", Scope.CPU, "a model", estimated=True)
GPU0 = ChannelInfo("nvml:0", Scope.DEVICE, "board power", device_id="GPU-0", has_counter=True)
GPU1 = ChannelInfo("nvml:1", Scope.DEVICE, "board power", device_id="GPU-1", has_counter=True)
PACKAGE = ChannelInfo("rapl:package-0", Scope.CPU, "RAPL")
DRAM = ChannelInfo("rapl:package-0:dram", Scope.DRAM, "RAPL")
MODULE = ChannelInfo("gh:Module Power Socket 0", Scope.MODULE, "hwmon")


def make_record(**changes: Any) -> Record:
    """A good record: 1000 tokens in the window from 10 s to 20 s on one CPU."""
    record: Record = {
        "schema_version": 4,
        "benchmark": "llm_training",
        "system": "CPU",
        "model": "tiny",
        "work_unit": "tokens",
        "status": "ok",
        "error": "",
        "config": {},
        "precision": "fp32",
        "data": "text",
        "sample": "125 tokens",
        "variant": [],
        "layout": {
            "num_devices": 1,
            "num_nodes": 1,
            "global_batch_size": 8,
            "micro_batch_size": 4,
            "tensor_parallel_size": 1,
            "pipeline_parallel_size": 1,
            "data_parallel_size": 1,
            "sequence_length": 125,
            "work_per_sample": 125,
        },
        "metrics": {
            "measured_s": 10.0,
            "measured_steps": 1,
            "measured_tokens": 1000,
            "tokens_per_s": 100.0,
            "tokens_per_s_per_device": 100.0,
            "tflops_per_device": 0.5,
        },
        "losses": [3.0, 2.0],
        "step_times_s": [10.0],
        "windows": [window()],
        "devices": [{"hostname": "n1", "rank": 0, "name": "CPU", "device_id": "", "peak_memory_bytes": 1}],
        "provenance": {},
    }
    record.update(changes)
    return record


def window(
    start_s: float = 10.0, end_s: float = 20.0, kind: str = "measured", hostname: str = "n1", boot_id: str = "boot-1"
) -> Record:
    """Return a window on a node whose monotonic clock was 0 at 1000 s of its wall clock."""
    times = {"start_s": start_s, "end_s": end_s, "start_epoch_s": 1000 + start_s, "end_epoch_s": 1000 + end_s}
    return {"hostname": hostname, "boot_id": boot_id, **times, "kind": kind}


def on_gpus(*ids: str, hostname: str = "n1") -> list[Record]:
    """Return the devices of a node, by their ids."""
    return [
        {"hostname": hostname, "rank": rank, "name": "GPU", "device_id": device_id, "peak_memory_bytes": 1}
        for rank, device_id in enumerate(ids)
    ]


def on_nodes(nodes: Sequence[tuple[str, str]], ids: Sequence[str], end_s: float = 20.0) -> Record:
    """Return the parts of a record of nodes, by name and boot id, with one device each."""
    return {
        "windows": [window(end_s=end_s, hostname=hostname, boot_id=boot_id) for hostname, boot_id in nodes],
        "devices": [
            device | {"hostname": hostname} for device, (hostname, _) in zip(on_gpus(*ids), nodes, strict=True)
        ],
        "layout": make_record()["layout"] | {"num_devices": len(nodes), "num_nodes": len(nodes)},
    }


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
) -> Record:
    """A good run of 60 s: a throughput over all devices, and a power of each device.

    Its steps are as many as fit the throughput, no whole number; `steps` of them are timed.
    """
    base = make_record()
    measured_steps = tokens_per_s * WINDOW_S / (batch * SEQUENCE_LENGTH) if tokens_per_s > 0 else steps
    flops = flops_per_token(changes.get("model", base["model"]))
    tflops_per_device = tokens_per_s / devices * flops / 1e12
    peak = peak_of(system, changes.get("precision", "bf16")) or tflops_per_device / 0.3
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
        "sample": "2048 tokens",
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
            "nodes": [{"hostname": "n1", "cpu": "a processor", "kernel": "6.1"}],
            "python": "3.11.2",
            "packages": {"torch": "2.13.0"},
        },
    }
    record.update(changes)
    return record


def runs(system: str, *speeds: float, **options: Any) -> list[Record]:
    """Return a run at each throughput, with the options of `result`."""
    return [result(system, tokens_per_s=speed, **options) for speed in speeds]


def thrice(system: str, speed: float, *, spread: Sequence[float] = THREE, **options: Any) -> list[Record]:
    """Return runs at shares of a throughput, with the options of `result`."""
    return runs(system, *(speed * share for share in spread), **options)


def _uncertainty(energy_wh: float) -> Record:
    """Sampling of 1 %, and a sensor that is hardly ever off."""
    random_wh = 0.01 * energy_wh
    components = {"uncertainty_wh": random_wh, "random_wh": random_wh, "systematic_wh": 0.0}
    return {**components, "accuracy": 1e-4, "accuracy_from": "data sheet"}


def flops_per_token(model: str) -> float:
    """Return the model FLOPs per token of GPT training on sequences of 2048 tokens."""
    facts = workloads()["llm_training"]
    [(sample, flops)] = facts.flops.get(model, {"2048 tokens": 6.26e9}).items()
    return flops + facts.flops_per_length.get(model, 0.0) * (SEQUENCE_LENGTH - int(sample.split()[0]))


def _device(devices: list[Record]) -> str:
    return "gpu" if any(device["device_id"] for device in devices) else "cpu"


def altered(record: Record, values: dict[str, Any]) -> Record:
    """Give a record other values by their paths, such as energy.channels.0.scope; return it."""
    for path, value in values.items():
        place: Any = record
        *above, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        for key in above:
            place = place[key]
        place[last] = deepcopy(value)
    return record


def of_scope(scope: str, records: list[Record]) -> list[Record]:
    """The same, with energies that were measured there."""
    for record in records:
        record["energy"] |= {"power_scope": scope, "power_source": f"measured, {scope}"}
        for channel in record["energy"]["channels"]:
            channel["scope"] = scope
    return records


def in_units(record: Record, unit: str) -> Record:
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


def failed(system: str = "A100", devices: int = 1, batch: int = 8, **changes: Any) -> Record:
    """A run that left no more than its place in the sweep."""
    record = {name: make_record()[name] for name in ("schema_version", "benchmark", "model", "work_unit")}
    layout = {"num_devices": devices, "num_nodes": 1, "global_batch_size": batch}
    return {**record, "system": system, "status": "failed", "error": "the node burned", "layout": layout, **changes}


def needs(folder: Path, text: str) -> Requirements:
    """Read requirements from a file with this text."""
    path = folder / "requirements.yaml"
    path.write_text(text)
    return read_requirements(path)


def verdicts(folder: Path, records: list[Record], text: str) -> list[Verdict]:
    """Judge records by requirements with this text."""
    return accept(by_point(records), needs(folder, text))


def store(folder: Path, records: list[Record]) -> Path:
    """Each record in a folder of its own, as a workflow leaves them."""
    for index, record in enumerate(records):
        place = folder / f"{index:06d}_benchmark" / "work"
        place.mkdir(parents=True)
        write_record(record, place / "result.json")
    return folder


def store_run(folder: Path, record: Record, power_w: float = 100.0, rows: int = 651) -> Path:
    """Write a job's folder with the trace that its energy follows from: constant power, after an idle time."""
    write_plain(folder, record)
    times_s = [row * (IDLE_S + WINDOW_S + 1) / (rows - 1) for row in range(rows)]
    JobFolder(folder).trace(
        [ChannelInfo("made:0", Scope.DEVICE, "made up")],
        lambda _, time_s: power_w if time_s >= IDLE_S - 1 else 0.3 * power_w,
        times_s=times_s,
        boot_id=record["windows"][0]["boot_id"],
        started_s=IDLE_S - 1,
        regions=[("measured window", IDLE_S, IDLE_S + WINDOW_S)],
        interval_s=0.1,
    )
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


def served(
    system: str = "A100",
    concurrency: int = 4,
    ttft_s: float = 0.5,
    tpot_s: float = 0.02,
    power_w: float = 100.0,
    findings: Sequence[dict[str, Any]] = (),
    **changes: Any,
) -> Record:
    """Return a good run of a server: all requests alike, over 60 s."""
    e2e_s = ttft_s + tpot_s * (OUTPUT - 1)
    requests = round(concurrency * WINDOW_S / e2e_s)
    record = result(system, 1, concurrency, requests * OUTPUT / WINDOW_S, power_w, **changes)
    slo = {"slo_ttft_s": 2.0, "slo_tpot_s": 0.1}
    share = float(ttft_s <= slo["slo_ttft_s"] and tpot_s <= slo["slo_tpot_s"])
    latencies = {"ttft": ttft_s, "tpot": tpot_s, "e2e": e2e_s}
    record |= {
        "benchmark": "llm_inference",
        "model": "8B",
        "data": "random tokens",
        "sample": f"{INPUT}/{OUTPUT} tokens",
        "step_times_s": [],
        "losses": [],
        "regions": {},
        "variant": ["vllm"],
        "layout": {"num_devices": 1, "num_nodes": 1, "global_batch_size": concurrency, "work_per_sample": OUTPUT},
        "config": {"compute": {"precision": "bf16", "device": "gpu"}},
        "serving": {"server": "vllm", "version": "1", "slo": "made up", "findings": list(findings)},
        "metrics": {
            "measured_tokens": requests * OUTPUT,
            "measured_requests": requests,
            "input_tokens": requests * INPUT,
            "output_tokens_per_request": OUTPUT,
            "goodput_share": share,
            "mean_in_flight": concurrency,
            "e2e_mean_s": e2e_s,
            **slo,
            **{f"{name}_p{percent}_s": value for name, value in latencies.items() for percent in (50, 90, 99)},
            **{f"{name}_p99_low_s": 0.99 * latencies[name] for name in ("ttft", "tpot")},
            **{f"{name}_p99_high_s": 1.01 * latencies[name] for name in ("ttft", "tpot")},
        },
    }
    record["provenance"] = {**record["provenance"], "command": None}
    derived: Record = as_json(derive(Parts.of(record)))
    return derived


def figure(
    name: str, rank: int, value: float | None, scope: str = "device", spread: Sequence[float] = REPEATS, **more: Any
) -> Record:
    """Return a figure of a node check: repeats around a value."""
    values = [value * one for one in spread] if value else []
    unit = "TFLOP/s" if name.startswith("matmul") else "GB/s"
    return {"name": name, "unit": unit, "rank": rank, "scope": scope, "values": values, **more}


def check(
    hosts: Sequence[str] = ("n1",),
    slow: dict[tuple[str, int], float] | None = None,
    spread: Sequence[float] = REPEATS,
    system: str = "WAIH100",
    per_node: int = PER_NODE,
    **changes: Any,
) -> Record:
    """Return a node check in which each figure has its usual rate; `slow` has the share of it by name and rank."""
    slow = slow or {}
    ranks = range(len(hosts) * per_node)

    def own(rank: int) -> float:
        """A factor that no other device has: repeats are never equal to the last digit."""
        return 1 + 1e-9 * (per_node * sum(map(ord, hosts[rank // per_node])) + rank)

    figures = [
        figure(name, rank, usual * own(rank) * slow.get((name, rank), 1.0), spread=spread)
        for name, usual in RATES.items()
        for rank in ranks
    ]
    for size, share in ((8, 1e-6), (LARGEST, 1.0)):
        for name, usual in LINKS.items():
            of_node = name.endswith("_node")
            for rank in ranks[::per_node] if of_node else ranks:
                value = usual * own(rank) * share * slow.get((name, rank), 1.0)
                scope = "node" if of_node else "device"
                more = {"bytes": size, "ranks": per_node if of_node else 2}
                figures.append(figure(name, rank, value, scope, spread, **more))
    base = in_units(result(system, len(ranks), 1), "products")
    window, device = base["windows"][0], base["devices"][0]
    devices = [
        {
            **device,
            "rank": rank,
            "hostname": hosts[rank // per_node],
            "device_id": f"GPU-x 0000:{rank % per_node:02x}:00.0",
        }
        for rank in ranks
    ]
    record = {
        **base,
        "benchmark": "node_check",
        "model": "matrices of 8192",
        "layout": {**base["layout"], "num_nodes": len(hosts)},
        "windows": [{**window, "hostname": host, "boot_id": host} for host in hosts],
        "devices": devices,
        "config": {},
        "node_check": {"figures": figures, "devices": [{"rank": rank, "pcie_width": "16"} for rank in ranks]},
    }
    for name in ("sequence_length", "micro_batch_size"):
        del record["layout"][name]
    record["provenance"] = {**base["provenance"], "command": []}
    return {**record, **changes}


class JobFolder:
    """The folder that a job leaves behind."""

    def __init__(self, folder: Path) -> None:
        self.path = folder

    def record(self, **changes: Any) -> JobFolder:
        (self.path / "record.json").write_text(json.dumps(make_record(**changes)))
        return self

    def trace(
        self,
        channels: list[ChannelInfo],
        power_w: Callable[[int, float], float],
        counter_j: Callable[[int, float], float] = lambda channel, time_s: 0.0,
        times_s: list[float] | None = None,
        hostname: str = "n1",
        boot_id: str = "boot-1",
        started_s: float = 5.0,
        regions: Sequence[tuple[str, float, float]] = (),
        **more_meta: Any,
    ) -> JobFolder:
        """A trace from 0 s to 35 s in steps of 0.5 s, unless other times are given."""
        meta = {"hostname": hostname, "boot_id": boot_id, "interval_s": 0.5, "jpwr_version": "1"} | more_meta
        with CsvWriter(self.path / "power" / hostname / "trace.csv", channels, meta) as writer:
            writer.event("command_started", started_s)
            for time_s in [i * 0.5 for i in range(71)] if times_s is None else times_s:
                indices = range(len(channels))
                power, counters = ([read(i, time_s) for i in indices] for read in (power_w, counter_j))
                writer.extend([Row(time_s, power, counters)])
            for name, *edges_s in regions:
                for edge, edge_s in zip(("begin", "end"), edges_s, strict=True):
                    writer.event(f"region_{edge}", edge_s, region=name)
        return self


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
    plain = {key: value for key, value in record.items() if key not in WITHOUT}
    (folder / "record.json").write_text(json.dumps(plain))


def write_trace(folder: Path, marks: list[tuple[str, Record]], numbers: range) -> None:
    """Write a node's trace of its devices with named windows: 400 W each, and 120 W before the job's command starts."""
    windows = [window for _, window in marks]
    known = {"accuracy": 0.05, "accuracy_from": "data sheet"}
    JobFolder(folder).trace(
        [
            ChannelInfo(f"nvml:{index}", Scope.DEVICE, "board power", device_id=uuid(number), **known)
            for index, number in enumerate(numbers)
        ],
        lambda _, time_s: POWER_W if time_s >= IDLE_S - 1 else 0.3 * POWER_W,
        times_s=[row * TICK_S for row in range(round((max(window["end_s"] for window in windows) + 1) / TICK_S) + 1)],
        hostname=windows[0]["hostname"],
        boot_id=windows[0]["boot_id"],
        started_s=IDLE_S - 1,
        regions=[(name, window["start_s"], window["end_s"]) for name, window in marks],
        interval_s=TICK_S,
    )


def training(name: str = "run", speed: float = 20e3, system: str = SYSTEM, batch: int = 64, **changes: Any) -> Record:
    """Return the record of a training on 4 devices, without its energy."""
    record = result(system, 4, batch, speed, **{"model": "800M", "run_id": name, **changes})
    record["windows"][0]["boot_id"] = f"boot of {name}"
    record["losses"] = [9.0 - 0.05 * step for step in range(len(record["step_times_s"]))]
    return record


def effective(name: str = "run") -> Record:
    """Return a training with a second window that waits for its data."""
    record = training(name)
    [window], metrics = record["windows"], record["metrics"]
    end_s = window["end_s"] + 2.0
    later = {"kind": "effective", "start_s": end_s, "end_s": end_s + WINDOW_S}
    epochs = {f"{edge}_epoch_s": window[f"{edge}_epoch_s"] + WINDOW_S + 2.0 for edge in ("start", "end")}
    record["windows"].append(window | later | epochs)
    metrics |= {f"effective_{key}": 0.9 * metrics[key] for key in ("tokens_per_s", "tokens_per_s_per_device")}
    metrics |= {"effective_tokens": 0.9 * metrics["measured_tokens"], "effective_s": WINDOW_S}
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
    record, base = stored_run(folder, requests), result(SYSTEM, 1)
    [served], [window] = record["windows"], base["windows"]
    start_s, length_s = IDLE_S, served["end_s"] - served["start_s"]
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
        record = result(SYSTEM, 2, 32, speed, model="800M", run_id=f"{name} {number}")
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
    planned = failed(SYSTEM, model="800M", status="unfinished", layout=layout)
    write_record(planned | {"fill": {"copies": 2, "devices_per_copy": 2}}, folder / "result.json")
    write_record(collect(folder), folder / "result.json")
    return folder


def write_failed(folder: Path, name: str) -> Path:
    """Write the folder of a job that ended with 137 before it left a record."""
    folder.mkdir(parents=True)
    planned = failed(SYSTEM, 4, 256, model="800M", status="unfinished", error="", run_id=name)
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
