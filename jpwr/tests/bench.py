"""What the sampler costs and how true its numbers are, beside other samplers, on a stand-in whose energy is known.

Usage: python -m jpwr.tests.bench [--quick]. The peers (jpwr 0.0.10, Zeus, CodeCarbon) are installed into a virtual
environment of their own, build/peers. All are measured in this run; nothing is copied from elsewhere.
"""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from itertools import pairwise
from operator import truediv
from pathlib import Path
from typing import Any, NamedTuple

from jpwr.trace.writers import read_trace

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
PEERS = REPOSITORY / "build" / "peers"
PACKAGES = ("jpwr==0.0.10", "zeus==0.16.0", "codecarbon==3.3.2", "nvidia-ml-py")
DEVICES = 8
SHAPES = {
    "square 1 s": {"STAND_IN_PERIOD_S": "1"},
    "square 0.37 s": {"STAND_IN_PERIOD_S": "0.37"},
    "ramp": {"STAND_IN_SHAPE": "ramp", "STAND_IN_LIMIT_W": "5100"},  # its highest power: far above it no reading counts
    "spikes 20 ms": {"STAND_IN_SHAPE": "spikes"},
}
WINDOWS_S = (1.0, 5.0, 60.0)
STARTS = 15
SAMPLED_S = 10
STATUS_NUMBERS = 5
ROUNDS = 5
STARTED_UP_S = 0.5  # of CPU time in 2 s: who takes less has begun to sample


class Cost(NamedTuple):
    """What a command took: wall and CPU time in seconds, peak memory in MB."""

    wall_s: float
    cpu_s: float
    peak_mb: float


class WindowError(NamedTuple):
    """Relative errors of one window, and whether the integral's stated uncertainty covered its error."""

    window_s: float
    reported: float
    integral: float
    covered: bool


def run(command: list[str], environ: dict[str, str], **options: Any) -> Cost:
    """Run a command; its children count."""
    start_s = time.perf_counter()
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"bench: {' '.join(command)} ended with exit code {process.returncode}")
    return Cost(time.perf_counter() - start_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000)


def cpu_while_it_runs_s(command: list[str], environ: dict[str, str]) -> float:
    """CPU seconds that a command and all of its processes take in SAMPLED_S, once it has started up."""
    process = subprocess.Popen(
        command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        before_s = -math.inf
        while cpu_s(process.pid) - before_s > STARTED_UP_S:
            before_s = cpu_s(process.pid)
            time.sleep(2)
        before_s = cpu_s(process.pid)
        time.sleep(SAMPLED_S)
        return cpu_s(process.pid) - before_s
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and of those that it has started and that are there now."""
    total_s = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total_s += int((task / "schedstat").read_text().split()[0]) / 1e9
        total_s += sum(cpu_s(int(child)) for child in (task / "children").read_text().split())
    return total_s


def median(costs: list[Cost]) -> Cost:
    return Cost(*(statistics.median(values) for values in zip(*costs, strict=True)))


def true_energy_j(shape: str, start_s: float, end_s: float) -> float:
    """Of the stand-in's device 0 between two moments of the monotonic clock, as in shapes.h."""

    def since_zero(time_s: float) -> float:
        if shape == "ramp":
            ramps, part_s = divmod(time_s, 80.0)
            return ramps * 24_000 + 100 * part_s + 2.5 * part_s**2
        if shape.startswith("spikes"):
            return 100 * time_s + 400 * (0.02 * math.floor(time_s) + min(time_s % 1, 0.02))
        period_s = float(SHAPES[shape]["STAND_IN_PERIOD_S"])
        periods, phase_s = divmod(time_s, period_s)
        return periods * period_s * 300 + 500 * min(phase_s, period_s / 2) + 100 * max(0.0, phase_s - period_s / 2)

    return since_zero(end_s) - since_zero(start_s)


class Bench:
    """The stand-in, the peers, and a folder to work in."""

    def __init__(self, folder: Path, quick: bool) -> None:
        self.folder = folder
        self.windows_s = WINDOWS_S[:2] if quick else WINDOWS_S
        library = folder / "libnvidia-ml.so.1"
        subprocess.run(
            ["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(HERE / "nvml_stand_in.c"), "-lm"], check=True
        )
        tool = folder / "nvidia-smi"  # CodeCarbon looks for it, and no more
        tool.write_text("#!/bin/sh\nexit 0\n")
        tool.chmod(0o755)
        self.environ = {
            **os.environ,
            "LD_LIBRARY_PATH": str(folder),
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "STAND_IN_DEVICES": str(DEVICES),
        }
        self.peer_environ = {name: value for name, value in self.environ.items() if name != "PYTHONPATH"}

    def install_peers(self) -> None:
        python = PEERS / "bin" / "python"
        if not (PEERS / "installed").exists():
            print("installing the peers into build/peers", flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(PEERS)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
            (PEERS / "installed").touch()

    def ours(self, interval_ms: float, *command: str, out: str = "") -> list[str]:
        where = ["--df-out", str(self.folder / out)] if out else []
        own = [sys.executable, "-m", "jpwr", "--methods", "pynvml", "--interval", str(interval_ms)]
        return [*own, *where, "--", *command]

    def published(self, interval_ms: float, *command: str, out: str = "") -> list[str]:
        where = ["--df-out", str(self.folder / out), "--df-filetype", "csv"] if out else []
        own = [str(PEERS / "bin" / "jpwr"), "--methods", "pynvml", "--interval", str(int(interval_ms))]
        return [*own, *where, *command]

    def peer(self, name: str, interval_s: float, windows_s: tuple[float, ...] = ()) -> list[str]:
        script = [str(PEERS / "bin" / "python"), str(HERE / "bench_peers.py"), name, str(interval_s)]
        return [*script, *map(str, windows_s)]

    def start_up(self) -> None:
        commands = {
            "empty Python": ([sys.executable, "-c", "pass"], self.environ),
            "ours": (self.ours(100, "true"), self.environ),
            "jpwr 0.0.10": (self.published(100, "true"), self.peer_environ),
            "Zeus": (self.peer("zeus", 0.1), self.peer_environ),
            "CodeCarbon": (self.peer("codecarbon", 0.1), self.peer_environ),
        }
        costs: dict[str, list[Cost]] = {name: [] for name in commands}
        for index in range(STARTS + 1):
            for name, (command, environ) in commands.items():
                if name in ("Zeus", "CodeCarbon") and index > 3:
                    continue
                cost = run(command, environ, cwd=self.folder)
                if index:  # the first start fills caches
                    costs[name].append(cost)
        base = median(costs["empty Python"])
        print(f"\nstart-up with {DEVICES} devices, beyond an empty Python ({base.wall_s:.3f} s, {base.peak_mb:.1f} MB)")
        for name in list(commands)[1:]:
            cost = median(costs[name])
            print(
                f"  {name:<12} {cost.wall_s - base.wall_s:6.3f} s   ratio {cost.wall_s / base.wall_s:5.1f}   "
                f"peak memory {cost.peak_mb:6.1f} MB   ratio {cost.peak_mb / base.peak_mb:4.1f}"
            )
        own, published = (median(costs[name]).wall_s - base.wall_s for name in ("ours", "jpwr 0.0.10"))
        print(f"  ours over jpwr 0.0.10: {own / published:.2f}")

    def sampling_cost(self) -> None:
        """CPU time of the sampler and all of its processes, and for each reading of power or of a counter."""
        print(f"\nCPU time of {SAMPLED_S} s of sampling {DEVICES} devices, while it samples; median of {ROUNDS} rounds")
        # Zeus needs instant power, and the stand-in's eighth device reaches 4 kW.
        variables = {"STAND_IN_INSTANT": "1", "STAND_IN_LIMIT_W": "4000"}
        own, peers = ({**one, **variables} for one in (self.environ, self.peer_environ))
        for interval_ms in (100, 10):
            commands = {
                "ours": (self.ours(interval_ms, "sleep", "600", out="cost"), own),
                "jpwr 0.0.10": (self.published(interval_ms, "sleep", "600", out="cost-published"), peers),
                "Zeus, power": (self.peer("zeus-power", interval_ms / 1000, (600,)), peers),
                "calls alone": (self.peer("calls", interval_ms / 1000, (600,)), peers),
            }
            costs: dict[str, list[float]] = {name: [] for name in commands}
            for _ in range(ROUNDS):
                for name, (command, environ) in commands.items():
                    costs[name].append(cpu_while_it_runs_s(command, environ))
            own_s = statistics.median(costs["ours"])
            for name, found_s in costs.items():
                cost_s = statistics.median(found_s)
                print(
                    f"  {name:<12} at {interval_ms:3d} ms  {cost_s:6.3f} s   ratio {cost_s / own_s:5.2f}   "
                    f"{1e6 * cost_s / self._readings(name, interval_ms):5.1f} us a reading"
                )
            ratio = statistics.median(map(truediv, costs["ours"], costs["jpwr 0.0.10"]))
            print(f"  ours over jpwr 0.0.10 at {interval_ms:3d} ms, round by round: {ratio:.2f}")

    def _readings(self, name: str, interval_ms: int) -> float:
        """In that time. Ours reads power and a counter, and each second clocks, limit, temperature and what throttles;
        jpwr 0.0.10 reads power alone, twice in each interval, the second time 0.1 ms after the first. Calls alone read
        as much as ours at each tick, and throw it away.
        """
        ticks = DEVICES * SAMPLED_S * 1000 / interval_ms
        beside = {"ours": STATUS_NUMBERS * DEVICES * SAMPLED_S}.get(name, 0)
        return beside + (ticks if name == "Zeus, power" else 2 * ticks)

    def limits(self) -> None:
        """CPU time while sampling, with limits that are in force and read back, over that without."""
        state = self.folder / "state"
        state.mkdir()
        environ = {**self.environ, "STAND_IN_STATE": str(state), "JPWR_LIMITS_DIR": str(state)}
        plain, limited = self.ours(100, "sleep", "600"), self.ours(100, "sleep", "600")
        limited[limited.index("--") : limited.index("--")] = ["--power-limit", "70%", "--clock", "85%"]
        costs_s: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            for command, found_s in zip((plain, limited), costs_s):
                found_s.append(cpu_while_it_runs_s(command, environ))
        plain_s, limited_s = map(statistics.median, costs_s)
        print(
            f"\nCPU time of {SAMPLED_S} s of sampling with limits read back {limited_s:.3f} s, without limits "
            f"{plain_s:.3f} s, ratio {limited_s / plain_s:.2f}"
        )

    def rows(self) -> None:
        print("\nrows in 10 s at 100 ms, and gaps at 10 ms")
        run(self.ours(100, "sleep", "10", out="rows"), self.environ)
        run(self.published(100, "sleep", "10", out="rows-published"), self.peer_environ)
        trace = read_trace(self.folder / "rows" / "trace.csv")
        started_s, ended_s = trace.event_time_s("command_started"), trace.event_time_s("command_ended")
        assert started_s is not None and ended_s is not None
        own = sum(started_s + 0.01 < t < ended_s for t in trace.series()[0].times_s)
        [path] = (self.folder / "rows-published").glob("power*.csv")
        print(f"  ours {own} at its own pace, jpwr 0.0.10 {len(path.read_text().splitlines()) - 1}")
        run(self.ours(10, "sleep", "10", out="gaps"), self.environ)
        run(self.published(10, "sleep", "10", out="gaps-published"), self.peer_environ)
        times_s = list(read_trace(self.folder / "gaps" / "trace.csv").series()[0].times_s)[5:-5]
        with next((self.folder / "gaps-published").glob("power*.csv")).open() as file:
            published_s = [float(row["timestamps"]) for row in csv.DictReader(file)]
        for name, found_s in (("ours", times_s), ("jpwr 0.0.10", published_s)):
            jitter_ms = sorted(abs(after - before - 0.01) * 1000 for before, after in pairwise(found_s))
            print(
                f"  {name:<12} gap jitter median {statistics.median(jitter_ms):.2f} ms, "
                f"p99 {jitter_ms[int(0.99 * len(jitter_ms))]:.2f} ms"
            )

    def memory(self) -> None:
        """Peak memory of the sampler after 10^4 and 10^6 rows while it samples, and at the end with the summary."""
        script = (
            "import contextlib, resource, sys\n"
            "from jpwr.channel import ChannelInfo, Scope\n"
            "from jpwr.trace.trace import Row; from jpwr.trace.writers import CsvWriter, read_trace; import jpwr.cli\n"
            f"infos = [ChannelInfo(f'a:{{i}}', Scope.DEVICE, '', has_counter=True) for i in range({DEVICES})]\n"
            "file = CsvWriter(None, infos, {})\n"
            "peak_mb = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000\n"
            "for row in range(int(sys.argv[1])):\n"
            "    file.extend([Row(row * 0.1, [300.0 + row % 7] * len(infos), [30.0 * row] * len(infos))])\n"
            "sampling_mb = peak_mb()\n"
            "with contextlib.ExitStack() as stack:\n"
            "    store = jpwr.cli._store(file.size, None, stack)\n"
            "    summary = jpwr.cli.Summary(read_trace(file.open_file, with_status=False, store=store))\n"
            "    summary.lines(), summary.to_dict()\n"
            "print(sampling_mb, peak_mb())\n"
        )
        print(f"\npeak memory with {DEVICES} devices and their counters")
        for rows in (10_000, 1_000_000):
            command = [sys.executable, "-c", script, str(rows)]
            done = subprocess.run(command, env=self.environ, capture_output=True, text=True, check=True)
            sampling_mb, end_mb = map(float, done.stdout.split())
            print(f"  after {rows:9,} rows: sampling {sampling_mb:6.1f} MB, in the summary {end_mb:6.1f} MB")

    def energy(self) -> None:
        """Largest error over windows that a program marks, all shapes at once."""
        script = self.folder / "windows.py"
        script.write_text(
            "import sys, time, jpwr\n"
            "time.sleep(1)\n"
            "for window_s in map(float, sys.argv[1:]):\n"
            "    for _ in range(3 if window_s < 10 else 1):\n"
            "        with jpwr.region(f'{window_s:g} s'): time.sleep(window_s)\n"
            "        time.sleep(0.123)\n"
        )
        program = [sys.executable, str(script), *map(str, self.windows_s)]
        running = []
        peers = []
        for shape, variables in SHAPES.items():
            one = {**self.environ, **variables, "STAND_IN_DEVICES": "1"}
            peer_one = {**self.peer_environ, **variables, "STAND_IN_DEVICES": "1"}
            for interval_ms in (10, 100):
                command = self.ours(interval_ms, *program, out=f"{shape}-{interval_ms}")
                running.append(subprocess.Popen(command, env=one, stderr=subprocess.DEVNULL))
            command = self.published(100, "sleep", str(max(self.windows_s)), out=f"{shape}-published")
            running.append(subprocess.Popen(command, env=peer_one, stdout=subprocess.DEVNULL))
            for name in ("zeus", "codecarbon"):
                process = subprocess.Popen(
                    self.peer(name, 0.1, self.windows_s[:2]),
                    env=peer_one,
                    cwd=self.folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
                peers.append((name, shape, process))
        for process in running:
            process.wait()
        others = {(name, shape): process.communicate()[0] for name, shape, process in peers}
        print(f"\nlargest error of energy over marked windows of {', '.join(f'{w:g} s' for w in self.windows_s)}")
        row = "  {:<14} {:>10} {:>10} {:>22} {:>10} {:>10} {:>12} {:>8} {:>11}".format
        print(row("", "reported,", "reported,", "integral alone at", "integral,", "+- covers,", "jpwr 0.0.10,", "", ""))
        by_window = " ".join(f"{window_s:g} s".rjust(6) for window_s in self.windows_s)
        print(row("", "10 ms", "100 ms", f"10 ms: {by_window}", "100 ms", "100 ms", "100 ms", "Zeus", "CodeCarbon"))
        for shape in SHAPES:
            fast, slow = self.errors(shape, 10), self.errors(shape, 100)
            alone = [max(e.integral for e in fast if abs(e.window_s - w) < 0.5) for w in self.windows_s]
            print(
                row(
                    shape,
                    f"{max(error.reported for error in fast):.3%}",
                    f"{max(error.reported for error in slow):.3%}",
                    " ".join(f"{error:.2%}" for error in alone),
                    f"{max(error.integral for error in slow):.2%}",
                    f"{sum(error.covered for error in slow)} of {len(slow)}",
                    f"{self.published_error(shape):.2%}",
                    *(self.peer_error(others[name, shape], shape) for name in ("zeus", "codecarbon")),
                )
            )

    def errors(self, shape: str, interval_ms: int) -> list[WindowError]:
        trace = read_trace(self.folder / f"{shape}-{interval_ms}" / "trace.csv")
        found = []
        for region in trace.regions():
            [estimate] = trace.energies(region.start_s, region.end_s)
            true_j = true_energy_j(shape, region.start_s, region.end_s)
            error_j = abs(estimate.integral_j - true_j)
            found.append(
                WindowError(
                    region.end_s - region.start_s,
                    abs(estimate.energy_j - true_j) / true_j,
                    error_j / true_j,
                    error_j <= estimate.integral_uncertainty_j,
                )
            )
        return found

    def published_error(self, shape: str) -> float:
        """Of its own rule over all of its rows, in windows of the same lengths."""
        [path] = (self.folder / f"{shape}-published").glob("power*.csv")
        with path.open() as file:
            rows = [(float(row["timestamps"]), float(row["pynvml:0"])) for row in csv.DictReader(file)]
        offset_s = time.time() - time.monotonic()
        errors = []
        for window_s in self.windows_s:
            inside = [row for row in rows if row[0] <= rows[0][0] + window_s]
            energy_j = sum((t1 - t0) * p1 for (t0, _), (t1, p1) in pairwise(inside))
            true_j = true_energy_j(shape, inside[0][0] - offset_s, inside[-1][0] - offset_s)
            errors.append(abs(energy_j - true_j) / true_j)
        return max(errors)

    def peer_error(self, output: str, shape: str) -> str:
        with suppress(ValueError, IndexError):
            windows = json.loads(output.splitlines()[-1])
            errors = [abs(e - true_energy_j(shape, s, t)) / true_energy_j(shape, s, t) for s, t, e in windows]
            return f"{max(errors):.2%}"
        return "failed"

    def highest_rate(self) -> None:
        """Rows per second at the shortest interval, and the share of their time inside of the vendor's library."""
        run(self.ours(1, "sleep", "5", out="rate"), self.environ)
        times_s = read_trace(self.folder / "rate" / "trace.csv").series()[0].times_s
        rate_hz = (len(times_s) - 1) / (times_s[-1] - times_s[0])
        script = (
            "import time, pynvml as n; n.nvmlInit()\n"
            f"h = [n.nvmlDeviceGetHandleByIndex(i) for i in range({DEVICES})]\n"
            "start = time.perf_counter()\n"
            "for _ in range(2000):\n"
            "    for one in h: n.nvmlDeviceGetTotalEnergyConsumption(one); n.nvmlDeviceGetPowerUsage(one)\n"
            "print((time.perf_counter() - start) / 2000)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], env=self.environ, capture_output=True, text=True, check=True
        )
        share = float(done.stdout) * rate_hz
        print(f"\nhighest rate with {DEVICES} devices {rate_hz:.0f} rows/s, {share:.0%} of it in vendor calls")

    def disturbance(self) -> None:
        """Speed of a CPU-bound child under the sampler at 10 ms over its speed alone: median of pairs."""
        loop = [sys.executable, "-c", "x = 0\nfor i in range(20_000_000): x += i"]
        ratios = []
        for _ in range(7):
            alone = run(loop, self.environ)
            under = run(self.ours(10, *loop), self.environ)
            start = run(self.ours(10, "true"), self.environ)
            ratios.append(alone.wall_s / (under.wall_s - start.wall_s + run(["true"], self.environ).wall_s))
        print(f"\nspeed of a CPU-bound child under the sampler at 10 ms: {statistics.median(ratios):.3f} of its own")


def main() -> None:
    """Print all tables."""
    if shutil.which("gcc") is None:
        raise SystemExit("bench: gcc is needed: apt-get install gcc libc6-dev")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), "--quick" in sys.argv[1:])
        bench.install_peers()
        bench.start_up()
        bench.sampling_cost()
        bench.limits()
        bench.rows()
        bench.memory()
        bench.highest_rate()
        bench.disturbance()
        bench.energy()


if __name__ == "__main__":
    main()
