"""The command `jpwr`: sample power while a command runs, and pass on its exit code."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Sequence, TextIO

from jpwr import __version__
from jpwr.backends import METHODS, open_methods
from jpwr.channel import Channel
from jpwr.clock import SystemClock
from jpwr.energy import EnergyIntegral, counter_energy_j
from jpwr.errors import JpwrError
from jpwr.sampler import DEFAULT_INTERVAL_S, PowerMonitor, Sink
from jpwr.writers import CsvWriter

# As for env(1) and timeout(1): below 125 the code is the command's own.
EXIT_JPWR_FAILED = 125
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
TRACE_NAME = "trace.csv"
JOULES_PER_WH = 3600.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    options = _parse(sys.argv[1:] if argv is None else list(argv))
    try:
        with ExitStack() as stack:
            return _run(options, stack)
    except JpwrError as error:
        _say(str(error))
        return EXIT_JPWR_FAILED


def _say(message: str) -> None:
    print(f"jpwr: {message}", file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_JPWR_FAILED, f"jpwr: {message}; 'jpwr --help' lists the options\n")


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="jpwr",
        usage="jpwr [options] -- command [argument ...]",
        description="Sample the power of this node's devices while a command runs; exit with the command's code.",
        epilog=f"Exit code: the command's own; 128+n when signal n ended it; {EXIT_NOT_FOUND} command not found; "
        f"{EXIT_NOT_EXECUTABLE} not executable; {EXIT_JPWR_FAILED} jpwr itself failed, and the command did not run.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        default=["auto"],
        metavar="METHOD",
        help=f"sensors to read: {', '.join(METHODS)}; auto (default): every sensor that is there; "
        "a/b: the first of a and b that is there",
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=DEFAULT_INTERVAL_S * 1000,
        metavar="MS",
        help="milliseconds between two samples (default: %(default)g)",
    )
    parser.add_argument(
        "--df-out", type=Path, metavar="DIR", help=f"folder for the trace, written as it comes as {TRACE_NAME}"
    )
    parser.add_argument(
        "--idle",
        type=float,
        default=0.0,
        metavar="S",
        help="seconds of idle power to sample before the command starts (default: %(default)g)",
    )
    parser.add_argument("--version", action="version", version=f"jpwr {__version__}")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    own, dashes, command = _split_at_dashes(argv)
    options = parser.parse_args(own)
    # A command without a "--" of ours before it may have one of its own.
    options.command = options.command + dashes + command if options.command else command
    if not options.command:
        parser.error("no command was given: put it after '--', as in 'jpwr --methods auto -- sleep 10'")
    if not 0 <= options.idle < float("inf"):
        parser.error(f"--idle must be 0 or more seconds, got {options.idle:g}")
    if not 0 < options.interval < float("inf"):
        parser.error(f"--interval must be above 0 milliseconds, got {options.interval:g}")
    return options


def _split_at_dashes(argv: list[str]) -> tuple[list[str], list[str], list[str]]:
    if "--" not in argv:
        return argv, [], []
    at = argv.index("--")
    return argv[:at], ["--"], argv[at + 1 :]


def _run(options: argparse.Namespace, stack: ExitStack) -> int:
    if options.idle:
        _check_command(options.command)
    opened = open_methods(options.methods, stack)
    for note in opened.notes:
        _say(note)
    for channel in opened.channels:
        if channel.info.estimated:
            _say(f"{channel.info.name} is an ESTIMATE, not a measurement: {channel.info.source}")
    clock = SystemClock()
    interval_s = options.interval / 1000
    totals = _Totals(opened.channels)
    sinks: list[Sink] = [totals]
    writer: CsvWriter | None = None
    if options.df_out:
        infos = [channel.info for channel in opened.channels]
        meta = _meta(options, clock.epoch_offset_s)
        writer = stack.enter_context(CsvWriter(options.df_out / TRACE_NAME, infos, meta))
        sinks.append(writer)

    command = _Command(options.command)
    monitor = PowerMonitor(opened.channels, interval_s, sinks, clock)
    with monitor:
        if options.idle:
            clock_end_s = clock.now_s() + options.idle
            while clock.now_s() < clock_end_s and not command.interrupted_by:
                clock.sleep_until(min(clock_end_s, clock.now_s() + 0.1))
        started_s = clock.now_s()
        if writer:
            writer.event("command_started", started_s)
        exit_code = command.run()
        ended_s = clock.now_s()
        if writer:
            writer.event("command_ended", ended_s, exit_code=exit_code)
    totals.print_summary(sys.stderr, ended_s - started_s, monitor.sampler.skipped_ticks, monitor.sampler.failed_reads)
    return exit_code


def _check_command(command: Sequence[str]) -> None:
    """Find out before the idle phase what would else come to light only after it."""
    import shutil

    name = command[0]
    if shutil.which(name) is None and not Path(name).exists():
        _say(f"command '{name}' was not found: check its spelling and PATH")
        sys.exit(EXIT_NOT_FOUND)


def _meta(options: argparse.Namespace, epoch_offset_s: float) -> dict[str, Any]:
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot_id = ""
    return {
        "jpwr_version": __version__,
        "hostname": os.uname().nodename,
        "boot_id": boot_id,
        "epoch_offset_s": epoch_offset_s,
        "interval_s": options.interval / 1000,
        "idle_s": options.idle,
        "methods": options.methods,
        "command": options.command,
    }


class _Command:
    """The child process, and the signals that are for it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self.interrupted_by = 0
        for number in FORWARDED_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays in force
                signal.signal(number, self._forward)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        self.interrupted_by = number
        if self._process is None:
            return
        # A Ctrl-C reaches the whole foreground process group: the command has it already.
        if number == signal.SIGINT and _in_foreground():
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def run(self) -> int:
        if self.interrupted_by:
            return 128 + self.interrupted_by
        name = self._command[0]
        try:
            self._process = subprocess.Popen(self._command)
        except FileNotFoundError:
            _say(f"command '{name}' was not found: check its spelling and PATH")
            return EXIT_NOT_FOUND
        except OSError as error:
            _say(f"command '{name}' cannot be executed ({error.strerror}): is it a program, with its x bit set?")
            return EXIT_NOT_EXECUTABLE
        exit_code = self._process.wait()
        return exit_code if exit_code >= 0 else 128 - exit_code


def _in_foreground() -> bool:
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


class _Totals:
    """A sink that keeps what the summary needs, in constant memory."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._infos = [channel.info for channel in channels]
        self._integrals = [EnergyIntegral() for _ in channels]
        self._counters_j: list[list[float]] = [[] for _ in channels]

    def append(self, time_s: float, power_w: Sequence[float], energy_j: Sequence[float]) -> None:
        for integral, counter, power, energy in zip(self._integrals, self._counters_j, power_w, energy_j):
            integral.add(time_s, power)
            if energy == energy:  # the first and the last reading that is not nan
                counter[1:] = [energy]

    def print_summary(self, file: TextIO, seconds: float, skipped_ticks: int, failed_reads: dict[str, int]) -> None:
        """One line per channel. Energies are of the whole trace, idle phase included."""
        width = max(len(info.name) for info in self._infos)
        print(f"jpwr: command ran {seconds:.1f} s, {skipped_ticks} ticks skipped", file=file)
        for info, integral, counter in zip(self._infos, self._integrals, self._counters_j):
            counter_wh = counter_energy_j(counter) / JOULES_PER_WH
            print(
                f"jpwr: {info.name:<{width}}  {integral.samples} samples, {failed_reads[info.name]} missing, "
                f"avg {integral.avg_power_w:.1f} W, peak {integral.peak_power_w:.1f} W, "
                f"{integral.energy_j / JOULES_PER_WH:.4f} Wh"
                + (f", counter {counter_wh:.4f} Wh" if info.has_counter else "")
                + (", estimated" if info.estimated else ""),
                file=file,
            )
