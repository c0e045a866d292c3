"""A benchmark that ends at once, in place of one that trains: 100 tokens in one second, in a further run 200.

Usage: quick_run.py [FOLDER]        (in a folder of that name it fails)
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from benchmarks.common.launch import mark, node_window
from benchmarks.common.record import RunRecord

here = Path.cwd().name
if here in sys.argv[1:]:
    sys.exit("error: this run is to fail")
start_s = time.monotonic()
mark("begin", "measured window", start_s)
end_s = start_s + 1.0
time.sleep(max(0.0, end_s - time.monotonic()))  # it may wake later: the window ends where its throughput's does
mark("end", "measured window", end_s)
nodes = int(os.environ.get("SLURM_NNODES", "1"))
layout = {"num_devices": nodes, "num_nodes": nodes, "global_batch_size": 8}
metrics = {"measured_tokens": 100, "tokens_per_s": 100 if here == "work" else 200, "measured_s": 1.0}
record = RunRecord("llm_training", "TESTBED", "tiny", "tokens", {}, "ok", layout=layout, metrics=metrics)
record.windows = [node_window(start_s, end_s)]
Path("record.json").write_text(json.dumps(record.to_dict()))
