"""Time and memory of what reads many results or the traces of many nodes, next to pandas alone reading the same."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jpwr.channel import ChannelInfo, Scope
from jpwr.tests.loads import square
from results.tests import builder
from tools.bench.harness import Line, compared, cost
from tools.bench.sampler import READ

LIMITS = {
    ("table", 10_000, "wall_s"): ("ratio at most", 2.2),
    ("report", 10_000, "wall_s"): ("ratio at most", 6.5),
    ("report", 10_000, "peak_mib"): ("at most", 600),
}
NODES, HOUR_S, EDGE_S = 64, 3600.0, 60.0
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
            for index in range(count - 1):
                work = folder / f"{index:06d}_benchmark" / "work"
                (work / "power" / "n1").mkdir(parents=True)
                (work / "result.json").write_text(json.dumps(record_of(index)))
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
    """Compare the end of a job, whose nodes sampled four devices for an hour, with pandas reading the traces."""
    ids, hosts, load = [f"GPU-{index}" for index in range(4)], [f"n{node:05d}" for node in range(NODES)], square(0.37)
    channels = [ChannelInfo(f"nvml:{one}", Scope.DEVICE, "board power", device_id=one, has_counter=True) for one in ids]
    devices = [device for host in hosts for device in builder.on_gpus(*ids, hostname=host)]
    record = builder.make_record(
        windows=[builder.window(EDGE_S, HOUR_S - EDGE_S, hostname=host, boot_id=host) for host in hosts],
        devices=[device | {"rank": rank} for rank, device in enumerate(devices)],
    )
    record["layout"] |= {"num_devices": len(devices), "num_nodes": NODES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        builder.JobFolder(folder).trace(
            channels,
            lambda _, time_s: load.power_w(time_s),
            lambda _, time_s: load.energy_j(time_s),
            times_s=[0.1 * row for row in range(int(10 * HOUR_S))],
            hostname=hosts[0],
            boot_id=hosts[0],
        )
        first = folder / "power" / hosts[0] / "trace.csv"
        sampled = first.read_text()
        for host in hosts[1:]:
            trace = folder / "power" / host / "trace.csv"
            trace.parent.mkdir()
            trace.write_text(sampled.replace(hosts[0], host))
        (folder / "record.json").write_text(json.dumps(record))
        own = cost([sys.executable, "-m", "results.collect", name])
        pandas = cost([sys.executable, "-c", READ, str(first)])
    of_node = own._replace(cpu_s=own.cpu_s / NODES)
    yield compared("end of a job, CPU time of a node", "cpu_s", [of_node], "pandas", [pandas], "at most", 1.25)
    yield compared("end of a job, memory", "peak_mib", [own], "pandas", [pandas], "at most", 150)
