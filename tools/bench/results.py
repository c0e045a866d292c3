"""Time and memory of what reads many results or the traces of many nodes, next to pandas alone reading the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from results.tests import builder
from results.tests.builder import make_record
from tools.bench.harness import Table, cost
from tools.bench.sampler import READ, stand_in

# Largest figures wanted of each command, in seconds, by the number of records.
WANTED_S = {1000: {"table": 2, "report": 30, "site": 30}, 10_000: {"table": 20, "report": 60, "site": 60}}
NODES, DEVICES, START_S, HOUR_S, EDGE_S = 64, 4, 1000.0, 3600.0, 60.0
GROUP = """
import json, pathlib, sys, pandas
frame = pandas.json_normalize([json.loads(path.read_text()) for path in pathlib.Path(sys.argv[1]).rglob("result.json")])
print(frame.groupby(["system", "layout.num_devices", "layout.global_batch_size"])["metrics.tokens_per_s"].median())
"""


def records(table: Table) -> None:
    """Compare a table, a report and a site of many results, whose traces are one file, with pandas."""
    for count, wanted_s in WANTED_S.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name, "results")
            first = builder.store_run(folder / "first", builder.result("S0"), rows=10_000)
            for index in range(count - 1):
                work = folder / f"{index:06d}_benchmark" / "work"
                (work / "power" / "n1").mkdir(parents=True)
                (work / "result.json").write_text(json.dumps(record_of(index)))
                os.link(first / "power" / "n1" / "trace.csv", work / "power" / "n1" / "trace.csv")
            pandas = cost([sys.executable, "-c", GROUP, str(folder)])
            for command, most_s in wanted_s.items():
                out = {"table": [], "report": ["-o", f"{name}/page.html"], "site": ["-o", f"{name}/site"]}[command]
                own = cost([sys.executable, "-m", "caraml", command, str(folder), *out])
                what = f"{command} of {count} records"
                table.add(what, "s", [own.wall_s], "pandas, grouping them", [pandas.wall_s], most=most_s)
                table.add(what, "MiB", [own.peak_mib], "pandas, grouping them", [pandas.peak_mib], most=1024)


def record_of(index: int) -> dict[str, Any]:
    """Return a record of one of ten systems; three have the same point."""
    place, system = divmod(index // 3, 10)
    devices, of_each = 2 ** (place % 6), 16 * 2 ** (place // 6 % 12)
    speed = devices * of_each * (1 + 0.002 * (index % 3)) * (1 + system)
    repeat = {"run_id": str(index), "steps": 500}
    record: dict[str, Any] = builder.result(f"S{system}", devices, devices * of_each, speed, **repeat)
    record["layout"]["micro_batch_size"] = 2 ** (place // 72)
    return record


def nodes(table: Table) -> None:
    """Compare the end of a job, whose nodes sampled four devices for an hour, with pandas reading the traces."""
    with tempfile.TemporaryDirectory() as name:
        folder, end_s = Path(name), START_S + HOUR_S
        environ = {**stand_in(folder), "STAND_IN_DEVICES": str(DEVICES)}
        sample = [sys.executable, "-m", "jpwr.tests.simulate", "pynvml", "0.1", str(end_s), f"{name}/trace.csv"]
        subprocess.run(sample, env=environ, check=True)
        sampled = (folder / "trace.csv").read_text()
        base = make_record()
        record: dict[str, Any] = {**base, "windows": [], "devices": []}
        record["layout"] |= {"num_devices": NODES * DEVICES, "num_nodes": NODES}
        for node in range(NODES):
            host = f"n{node:05d}"
            trace = folder / "power" / host / "trace.csv"
            trace.parent.mkdir(parents=True)
            trace.write_text(sampled.replace('"n1"', f'"{host}"', 1).replace('"boot-1"', f'"{host}"', 1))
            window = {"hostname": host, "boot_id": host, "start_s": START_S + EDGE_S, "end_s": end_s - EDGE_S}
            record["windows"].append({**base["windows"][0], **window})
            for index in range(DEVICES):
                device = {"hostname": host, "rank": DEVICES * node + index, "device_id": f"GPU-{index}"}
                record["devices"].append({**base["devices"][0], **device})
        (folder / "record.json").write_text(json.dumps(record))
        own = cost([sys.executable, "-m", "results.collect", name])
        pandas = cost([sys.executable, "-c", READ, f"{name}/trace.csv"])
    table.add("end of a job, CPU time of a node", "s", [own.cpu_s / NODES], "pandas", [pandas.cpu_s], most=1.25)
    table.add("end of a job, memory", "MiB", [own.peak_mib], "pandas", [pandas.peak_mib], most=150)
