"""Run a sampler, under the Python that has it installed; prints a line of JSON for each window: start_s, end_s, J.

Usage: sampler_peers.py jpwr|zeus INTERVAL_S [SECONDS ...]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator


def jpwr(interval_s: float, windows_s: list[float]) -> Iterator[tuple[float, float, float]]:
    """Yield the energy from the first row to the last; ours without a second at both ends."""
    from jpwr.ctxmgr import get_power
    from jpwr.gpu.pynvml import power

    is_ours = hasattr(get_power, "trace")
    for window_s in windows_s:
        with get_power([power()], 1000 * interval_s) as scope:
            time.sleep(window_s + 2 * is_ours)
        times_s = scope.df["timestamps"] + time.monotonic() - time.time()
        start_s, end_s = times_s.iloc[0] + is_ours, times_s.iloc[-1] - is_ours
        whole_j = 3600 * scope.energy()[0]["pynvml:0"]
        yield start_s, end_s, scope.trace.energies(start_s, end_s)[0].energy_j if is_ours else whole_j


def zeus(_: float, windows_s: list[float]) -> Iterator[tuple[float, float, float]]:
    """Yield the energy of each window by the counter."""
    from zeus.monitor import ZeusMonitor

    monitor = ZeusMonitor(gpu_indices=[0], cpu_indices=[], approx_instant_energy=False)
    for window_s in windows_s:
        start_s = time.monotonic()
        monitor.begin_window("window", sync_execution=False)
        time.sleep(window_s)
        yield start_s, time.monotonic(), monitor.end_window("window", sync_execution=False).gpu_energy[0]


if __name__ == "__main__":  # its processes are spawned, and import this file
    name, interval, *seconds = sys.argv[1:]
    for window in {"jpwr": jpwr, "zeus": zeus}[name](float(interval), list(map(float, seconds))):
        print(json.dumps(window), flush=True)
