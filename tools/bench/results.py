"""Time and memory of what reads many results or the traces of many nodes, next to pandas alone reading the same."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from results.tests import builder
from tools.bench.harness import Line, compared, cost
from tools.bench.sampler import READ

LIMITS = {
    ("table", 10_000, "wall_s"): ("ratio at most", 2.2),
    ("report", 10_000, "wall_s"): ("ratio at most", 6.5),
    ("report", 10_000, "peak_mib"): ("at most", 600),
}
NODES = 64
GROUP = """
import json, pathlib, sys, pandas
frame = pandas.json_normalize([json.loads(path.read_text()) for path in pathlib.Path(sys.argv[1]).rglob("result.json")])
print(frame.groupby(["system", "layout.num_devices", "layout.global_batch_size"])["metrics.tokens_per_s"].median())
"""


def records() -> Iterator[Line]:
    """Compare a table, a report and a site of many results, whose traces are one file, with pandas."""
    for count in (1000, 10_000):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name, "results")
            first = builder.store_run(folder / "first", builder.result("S0"), rows=10_000)
            for work in builder.store(folder, list(map(record_of, range(count - 1)))).glob("*/work"):
                (work / "power" / "n1").mkdir(parents=True)
                os.link(first / "power" / "n1" / "trace.csv", work / "power" / "n1" / "trace.csv")
            pandas = cost([sys.executable, "-c", GROUP, str(folder)])
            outputs = {"table": [], "report": ["-o", f"{name}/page.html"], "site": ["-o", f"{name}/site"]}
            for command, out in outputs.items():
                own = cost([sys.executable, "-m", "caraml", command, str(folder), *out])
                what, peer = f"{command} of {count} records", "pandas, grouping them"
                for field in ("wall_s", "peak_mib"):
                    limit = LIMITS.get((command, count, field), ())
                    yield compared(what, field, [own], peer, [pandas], *limit)


def record_of(index: int) -> dict[str, Any]:
    """Return a record of one of ten systems; three have the same point."""
    place, system = divmod(index // 3, 10)
    devices, of_each = 2 ** (place % 6), 16 * 2 ** (place // 6 % 12)
    speed = devices * of_each * (1 + 0.002 * (index % 3)) * (1 + system)
    repeat = {"run_id": str(index), "steps": 500}
    record: dict[str, Any] = builder.result(f"S{system}", devices, devices * of_each, speed, **repeat)
    record["layout"]["micro_batch_size"] = 2 ** (place // 72)
    return record


def nodes() -> Iterator[Line]:
    """Compare the end of a job, whose nodes sampled four devices 36,000 times, with pandas reading the traces."""
    hosts = [f"n{node:05d}" for node in range(NODES)]
    record = builder.result("A100", 4 * NODES)
    record["layout"]["num_nodes"] = NODES
    record["windows"] = [builder.window(60.0, 9000.0, hostname=host, boot_id=host) for host in hosts]
    with tempfile.TemporaryDirectory() as name:
        builder.job(Path(name), record)
        own = cost([sys.executable, "-m", "results.collect", name])
        pandas = cost([sys.executable, "-c", READ, f"{name}/power/{hosts[0]}/trace.csv"])
    of_node = own._replace(cpu_s=own.cpu_s / NODES)
    yield compared("end of a job, CPU time of a node", "cpu_s", [of_node], "pandas", [pandas], "at most", 1.25)
    yield compared("end of a job, memory", "peak_mib", [own], "pandas", [pandas], "at most", 150)
