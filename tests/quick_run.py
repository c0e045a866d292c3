"""A benchmark that ends soon, in place of one that trains: 100 tokens/s, in a further run 200.

Usage: quick_run.py [--effective] [FOLDER]        (in a folder of that name it fails at its end)
Of several copies, the second has 200 tokens/s, too, and they begin and end together.
Effective throughput is a thousandth of that: no sampler's power differs by as much.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.common.launch import Launch, mark_window, node_window
from benchmarks.common.measure.together import read_copies
from benchmarks.common.record import EFFECTIVE, MEASURED, Device, RunRecord, Window
from jpwr.regions import RegionTimer
from jpwr.regions.times import describe, merge

ROWS = 3  # of the sampler, in the window: a busy machine may take a while


def rows_so_far() -> float:
    """Of the node that is slowest to sample; without a sampler there is nothing to wait for."""
    return min((file.read_text().count("\n") for file in (job / "power").glob("*/trace.csv")), default=math.inf)


def together_s(state: str) -> float:
    """When the last copy came into a state: the same moment for all of them, however busy the machine is."""
    times_s = [path.stat().st_mtime for path in (job / "copies").glob(f"{state}_*")]
    return max(times_s) - (time.time() - time.monotonic())


def window(kind: str) -> Window:
    """At work for a second, and until the sampler has seen it."""
    rows = rows_so_far()
    if copies:
        copies.wait_for_all()
    start_s = together_s("ready") if copies else time.monotonic()
    mark_window(Launch(), "begin", kind, start_s)
    while time.monotonic() < start_s + 1 or rows_so_far() < rows + ROWS or (copies and copies.steps_left(1)):
        with timer.region("Batch"), timer.region("Forward"):
            time.sleep(0.05)
    end_s = together_s("done") if copies else time.monotonic()
    mark_window(Launch(), "end", kind, end_s)
    return node_window(start_s, end_s, kind)


here, copies = Path.cwd().name, read_copies()
job = Path("..") if copies else Path()
timer = RegionTimer()
windows = [window(MEASURED)]
if "--effective" in sys.argv:
    windows.append(window(EFFECTIVE))
nodes = 1 if copies else int(os.environ.get("SLURM_NNODES", "1"))
layout = {"num_devices": nodes, "num_nodes": nodes, "global_batch_size": 8, "work_per_sample": 1}
speed = 100.0 if here in ("work", "copy_1") else 200.0
metrics = {}
for one, tokens_per_s in zip(windows, (speed, speed / 1000), strict=False):
    seconds = one.duration_s
    metrics[f"{one.kind}_tokens"] = tokens_per_s * seconds
system = json.loads((job / "result.json").read_text())["system"]
metrics["measured_steps"] = metrics["measured_tokens"] / layout["global_batch_size"]
record = RunRecord("llm_training", system, "tiny", "tokens", {}, "ok", layout=layout, metrics=metrics)
record.windows = windows
record.provenance = {"created": datetime.now(timezone.utc).isoformat(timespec="seconds")}
record.devices = [Device(hostname=windows[0].hostname, name="made up", device_id="", cpus="")]
record.step_times_s = [windows[0].duration_s / metrics["measured_steps"]]
record.regions = {"measured": {"clock": "host", **merge([describe(timer.steps())])}}
Path("record.json").write_text(json.dumps(record.to_dict()))
if here in sys.argv[1:]:
    sys.exit("error: this run is to fail")
