"""Time and memory of what reads many results, and of what reads the traces of many nodes.

python -m results.tests.bench [--records N ...] [--rows 10000]: a table, a report and a site of many results,
next to pandas alone reading the same records; and how long a browser takes to open the pages.

python -m results.tests.bench --nodes N [--trace-rows 5000000]: the end of a job whose N nodes sampled four devices for
an hour, and `jpwr read` of one long trace, next to pandas alone reading the same traces.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from results.tests import bench_traces as traces
from results.tests import builder as made_up

UNITS = {
    "table": "s",
    "report": "s",
    "page": "MB",
    "site": "s",
    "folder": "MB",
    "memory": "MiB",
    "report opens": "s",
    "site opens": "s",
}
# Largest figures wanted, by the number of records.
LIMITS = {
    1000: (2.0, 30.0, 10.0, 30.0, 50.0, 6.0, 3.0, 1024.0, 20.0, 1.0),
    10_000: (20.0, 60.0, 20.0, 60.0, 300.0, 60.0, 20.0, 1024.0, 60.0, 2.0),
}
PEER = """
import json, pathlib, sys, pandas
frame = pandas.json_normalize([json.loads(path.read_text()) for path in pathlib.Path(sys.argv[1]).rglob("result.json")])
print(frame.groupby(["system", "layout.num_devices", "layout.global_batch_size"])["metrics.tokens_per_s"].median())
"""


def main() -> int:
    """Print each measured figure next to its limit; return 1 if a limit is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=list(LIMITS))
    parser.add_argument("--rows", type=int, default=10_000, help="of each trace")
    parser.add_argument("--nodes", type=int, help="of a job whose end is measured, in place of tables and reports")
    parser.add_argument("--trace-rows", type=int, default=5_000_000, help="of the long trace, with --nodes")
    options = parser.parse_args()
    if options.nodes:
        return max(traces.job(options.nodes), traces.long_trace(options.trace_rows))
    return max(_measure(records, options.rows) for records in options.records)


def _measure(records: int, rows: int) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make(folder / "results", records, rows)
        peer_s, _ = _time(sys.executable, "-c", PEER, str(folder / "results"))
        caraml = [sys.executable, "-m", "caraml"]
        table_s, table_mib = _time(*caraml, "table", str(folder / "results"))
        page = folder / "report.html"
        report_s, report_mib = _time(*caraml, "report", str(folder / "results"), "-o", str(page))
        found = {"table": table_s, "report": report_s, "page": page.stat().st_size / 1e6}
        site = folder / "site"
        found["site"], site_mib = _time(*caraml, "site", str(folder / "results"), "-o", str(site))
        found["folder"] = sum(path.stat().st_size for path in site.rglob("*")) / 1e6
        found["memory"] = max(table_mib, report_mib, site_mib)
        found |= {"report opens": _opens(page, "tbody td"), "site opens": _opens(site, "#curve circle")}
    print(f"{records} records with traces of {rows} rows; pandas reads and groups them in {peer_s:.2f} s", flush=True)
    limits = dict(zip(UNITS, LIMITS[min(LIMITS, key=lambda size: abs(size - records))], strict=True))
    for key, value in found.items():
        ratio = f", {value / peer_s:.2f} of pandas" if UNITS[key] == "s" else ""
        print(f"  {key}: {value:.2f} {UNITS[key]}, at most {limits[key]:g} {UNITS[key]} wanted{ratio}")
    return 0 if all(value <= limits[key] for key, value in found.items()) else 1


def _make(folder: Path, records: int, rows: int) -> None:
    """Ten systems with as many points and three runs of each as there is room for; all share one trace's bytes."""
    first = made_up.store_run(folder / "first", made_up.result("S0"), rows=rows)
    trace = first / "power" / "n1" / "trace.csv"
    for index in range(records - 1):
        work = folder / f"{index:06d}_benchmark" / "work"
        (work / "power" / "n1").mkdir(parents=True)
        (work / "result.json").write_text(json.dumps(record_of(index)))
        os.link(trace, work / "power" / "n1" / "trace.csv")


def record_of(index: int) -> dict[str, Any]:
    """One of the records: an inconsistent one would be left out, and measured as a sentence."""
    point = index // 3
    place = point // 10
    devices, of_each, micro_batch = 2 ** (place % 6), 16 * 2 ** (place // 6 % 12), 2 ** (place // 72)
    speed = devices * of_each * (1 + 0.002 * (index % 3)) * (1 + point % 10)
    record = made_up.result(f"S{point % 10}", devices, devices * of_each, speed, run_id=str(index), steps=500)
    record["layout"]["micro_batch_size"] = micro_batch
    return record


def _opens(page: Path, sign: str) -> float:
    """Seconds from the start of loading a page, or a site's longest page, until it shows a sign that it is complete."""
    from playwright.sync_api import sync_playwright

    pages = page.glob("*.js") if page.is_dir() else [page]
    page = max(pages, key=lambda path: path.stat().st_size).with_suffix(".html")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        window = browser.new_page()
        started_s = time.perf_counter()
        window.goto(page.as_uri(), wait_until="commit", timeout=0)
        window.wait_for_selector(sign, timeout=0)
        return time.perf_counter() - started_s


def _time(*command: str) -> tuple[float, float]:
    """Seconds of a command, and the largest memory of any command so far in MiB; raises CalledProcessError."""
    started_s = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started_s, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
