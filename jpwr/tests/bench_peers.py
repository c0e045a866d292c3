"""One other sampler, measured: run by bench.py with the Python that has it installed; prints a line of JSON.

Usage: bench_peers.py zeus|zeus-power|codecarbon|calls INTERVAL_S [SECONDS ...]
"""

from __future__ import annotations

import json
import sys
import time


def zeus(interval_s: float, windows_s: list[float]) -> list[tuple[float, float, float]]:
    from zeus.monitor import ZeusMonitor

    monitor = ZeusMonitor(gpu_indices=[0], cpu_indices=[], approx_instant_energy=False)
    found = []
    for index, window_s in enumerate(windows_s):
        start_s = time.monotonic()
        monitor.begin_window(str(index), sync_execution=False)
        time.sleep(window_s)
        end_s = time.monotonic()
        measured = monitor.end_window(str(index), sync_execution=False)
        found.append((start_s, end_s, measured.gpu_energy[0]))
    return found


def zeus_power(interval_s: float, windows_s: list[float]) -> list[tuple[float, float, float]]:
    """Its sampler of power, in processes of its own."""
    from zeus.monitor import PowerMonitor

    monitor = PowerMonitor(update_period=interval_s)
    for window_s in windows_s:
        time.sleep(window_s)
    monitor.stop()
    return []


def codecarbon(interval_s: float, windows_s: list[float]) -> list[tuple[float, float, float]]:
    from codecarbon import OfflineEmissionsTracker

    tracker = OfflineEmissionsTracker(
        country_iso_code="DEU",
        measure_power_secs=interval_s,
        save_to_file=False,
        log_level="critical",
        gpu_ids=[0],
        allow_multiple_runs=True,
    )
    tracker.start()
    found = []
    for index, window_s in enumerate(windows_s):
        start_s = time.monotonic()
        tracker.start_task(str(index))
        time.sleep(window_s)
        end_s = time.monotonic()
        found.append((start_s, end_s, tracker.stop_task(str(index)).gpu_energy * 3.6e6))
    tracker.stop()
    return found


def calls(interval_s: float, windows_s: list[float]) -> list[tuple[float, float, float]]:
    """Nothing but sleep and two calls of the library for each device, for power and counter."""
    import ctypes

    library = ctypes.CDLL("libnvidia-ml.so.1")
    library.nvmlInit_v2()
    count, energy, power = ctypes.c_uint(), ctypes.c_ulonglong(), ctypes.c_uint()
    library.nvmlDeviceGetCount_v2(ctypes.byref(count))
    handles = [ctypes.c_void_p() for _ in range(count.value)]
    for index, handle in enumerate(handles):
        library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
    into_energy, into_power = ctypes.byref(energy), ctypes.byref(power)
    end_s = time.monotonic() + sum(windows_s)
    while time.monotonic() < end_s:
        for handle in handles:
            library.nvmlDeviceGetTotalEnergyConsumption(handle, into_energy)
            library.nvmlDeviceGetPowerUsage(handle, into_power)
        time.sleep(interval_s)
    return []


if __name__ == "__main__":  # its processes are spawned, and import this file
    peer, interval_s, *windows_s = sys.argv[1:]
    measure = {"zeus": zeus, "zeus-power": zeus_power, "codecarbon": codecarbon, "calls": calls}[peer]
    print(json.dumps(measure(float(interval_s), [float(window_s) for window_s in windows_s])))
