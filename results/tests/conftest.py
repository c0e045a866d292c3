"""Records and traces whose true energy is known."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.tests.conftest import amdsmi_folder as amdsmi_folder
from jpwr.trace.trace import Row
from jpwr.trace.writers import CsvWriter
from tests.needs import need


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep each row of a table on one line."""
    monkeypatch.setenv("COLUMNS", "1000")


def make_record(**changes: Any) -> dict[str, Any]:
    """A good record: 1000 tokens in the window from 10 s to 20 s on one CPU."""
    record: dict[str, Any] = {
        "schema_version": 3,
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
        "choices": {},
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
        "windows": [
            {
                "hostname": "n1",
                "boot_id": "boot-1",
                "start_s": 10.0,
                "end_s": 20.0,
                "start_epoch_s": 1010.0,
                "end_epoch_s": 1020.0,
                "kind": "measured",
            }
        ],
        "devices": [{"hostname": "n1", "rank": 0, "name": "CPU", "device_id": "", "peak_memory_bytes": 1}],
        "provenance": {},
    }
    record.update(changes)
    return record


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
        meta = {"hostname": hostname, "boot_id": boot_id, "interval_s": 0.5, "jpwr_version": "1", **more_meta}
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


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path)


CPU = ChannelInfo("estimate:cpu", Scope.CPU, "a model", estimated=True)
GPU0 = ChannelInfo("nvml:0", Scope.DEVICE, "board power", device_id="GPU-0", has_counter=True)
GPU1 = ChannelInfo("nvml:1", Scope.DEVICE, "board power", device_id="GPU-1", has_counter=True)
PACKAGE = ChannelInfo("rapl:package-0", Scope.CPU, "RAPL")
DRAM = ChannelInfo("rapl:package-0:dram", Scope.DRAM, "RAPL")
MODULE = ChannelInfo("gh:Module Power Socket 0", Scope.MODULE, "hwmon")


LONG_MS = 600_000  # against hanging alone: a busy machine takes what it takes


@pytest.fixture(scope="module")
def chromium() -> str:
    """The browser of this machine."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        need("chromium")
    return found


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.fail("playwright is needed: scripts/setup.sh report frames dev")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"], timeout=LONG_MS)
        yield browser
        browser.close()
