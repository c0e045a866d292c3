"""The command `jpwr`: sample power while a command runs, and pass on its exit code."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NoReturn, Sequence

from jpwr import __version__
from jpwr.backends import METHODS, open_methods
from jpwr.child import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Child
from jpwr.clock import SystemClock
from jpwr.errors import JpwrError
from jpwr.marks import MARKS_VARIABLE, Mark, MarkReader
from jpwr.node import GLOBAL_RANKS, rank_of, why_not_sampling
from jpwr.sampler import DEFAULT_INTERVAL_S, PowerMonitor, Sink
from jpwr.summary import Summary
from jpwr.trace import Trace
from jpwr.writers import CsvWriter

# As for env(1) and timeout(1): below 125 the code is the command's own.
EXIT_JPWR_FAILED = 125
TRACE_NAME = "trace.csv"
TOOLS = ("list", "read", "check")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    # Until there is something to lose, a Ctrl-C ends at once, also inside of a library that does not answer.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        if arguments and arguments[0] in TOOLS:
            from jpwr.tools import run_tool

            return run_tool(arguments)
        options = _parse(arguments)
        with ExitStack() as stack:
            return _run(options, stack)
    except JpwrError as error:
        _say(str(error))
        return EXIT_JPWR_FAILED


def _say(message: str) -> None:
    print(f"jpwr: {message}", file=sys.stderr, flush=True)


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_JPWR_FAILED, f"jpwr: {message}; '{self.prog} --help' lists the options\n")


USAGE = """jpwr [options] -- command [argument ...]
       jpwr list | read TRACE | check TRACE"""
DESCRIPTION = """\
Sample the power of this node's devices while a command runs, and say how much
energy it took.

  jpwr -- ./my_program           every sensor that is there, every 100 ms;
                                 the summary comes on stderr
  jpwr --df-out out -- ./a.out   the same, with every sample in out/trace.csv
  jpwr list                      the sensors of this machine, and why others
                                 cannot be used
  jpwr read out/trace.csv        summary and plot of a trace
  jpwr check out/trace.csv       whether it keeps the rules of a measurement
                                 that counts"""
EPILOG = f"""exit codes:
  the command's own, 128+n where signal n ended it
  {EXIT_JPWR_FAILED}  jpwr itself failed, and the command did not run
  {EXIT_NOT_EXECUTABLE}  the command cannot be executed
  {EXIT_NOT_FOUND}  the command was not found

A signal is passed on to the command; the second one that asks to end kills it."""


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="jpwr",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument(
        "--methods",
        nargs="+",
        default=["auto"],
        metavar="METHOD",
        help=f"sensors to read: {', '.join(METHODS)}; a/b is the first of a and b that is there; auto (default) is "
        "every sensor that is there",
    )
    sampling.add_argument(
        "--interval",
        type=float,
        default=DEFAULT_INTERVAL_S * 1000,
        metavar="MS",
        help="milliseconds between two samples (default: %(default)g)",
    )
    sampling.add_argument(
        "--idle",
        type=float,
        default=0.0,
        metavar="S",
        help="seconds of idle power to sample before the command starts (default: %(default)g)",
    )
    sampling.add_argument(
        "--ignore-measure-errors", action="store_true", help="changes nothing: a reading that fails never ends the run"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--df-out",
        type=Path,
        metavar="DIR",
        help=f"folder for {TRACE_NAME}, which is on disk as it comes, and at the end the tables power and energy",
    )
    output.add_argument(
        "--df-filetype", choices=("csv", "h5", "parquet"), default="csv", help="format of the two tables (default: csv)"
    )
    output.add_argument(
        "--df-suffix",
        default="",
        metavar="S",
        help="what the tables' names end in; %%q{NAME} is an environment variable",
    )
    output.add_argument("--json", action="store_true", help="the summary as one line of JSON, on stderr")
    output.add_argument("--live", action="store_true", help="show power in the terminal while the command runs")
    output.add_argument(
        "--prometheus",
        type=int,
        metavar="PORT",
        help="serve the latest readings to Prometheus on 127.0.0.1",
    )
    ranks = parser.add_argument_group("ranks")
    ranks.add_argument(
        "--use-mpi", action="store_true", help="jpwr is started in every rank: one process per node samples"
    )
    ranks.add_argument("--mpi-ranks", nargs="+", type=int, default=[], metavar="RANK", help="only these ranks sample")
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
    child = Child(options.command, _say)
    not_sampling = why_not_sampling(stack, options.use_mpi, options.mpi_ranks)
    if not_sampling:
        _say(f"not sampling: {not_sampling}")
        return child.become()
    if options.idle:
        code = child.check()
        if code:
            return code
    opened = open_methods(options.methods, stack)
    child.take_signals()
    for note in opened.notes:
        _say(note)
    interval_s = options.interval / 1000
    for channel in opened.channels:
        if channel.info.estimated:
            _say(f"{channel.info.name} is an ESTIMATE, not a measurement: {channel.info.source}")
        if channel.info.period_s > interval_s:
            _say(f"{channel.info.name} has a new value every {channel.info.period_s:g} s and is read at that rate")

    clock = SystemClock()
    infos = [channel.info for channel in opened.channels]
    meta = _meta(options, clock.epoch_offset_s)
    trace = Trace(infos, meta)
    sinks: list[Sink] = [trace]
    if options.df_out:
        from jpwr.frames import check_file_type

        check_file_type(options.df_filetype)
        sinks.append(stack.enter_context(CsvWriter(options.df_out / TRACE_NAME, infos, meta)))
    if options.prometheus is not None:
        from jpwr.prometheus import Exporter

        sinks.append(stack.enter_context(Exporter(infos, options.prometheus)))
    if options.live:
        from jpwr.live import LiveView

        sinks.append(stack.enter_context(LiveView(infos)))

    monitor = PowerMonitor(opened.channels, interval_s, sinks, clock, _say)
    with monitor:
        exit_code = _measure(options, child, monitor, clock)
    _report(options, Summary(trace), monitor, exit_code)
    if monitor.sampler.hung:
        # A thread is inside a library that does not answer, and would keep this process from ending.
        sys.stdout.flush()
        os._exit(exit_code)
    return exit_code


def _measure(options: argparse.Namespace, child: Child, monitor: PowerMonitor, clock: SystemClock) -> int:
    """Idle phase, then the command, its start and end marked in the trace."""
    sampler = monitor.sampler
    if options.idle:
        sampler.sample(wait_s=1.0)  # so that all of the idle phase is covered
    idle_end_s = clock.now_s() + options.idle
    while clock.now_s() < idle_end_s and not child.asked_to_end:
        clock.sleep_until(min(idle_end_s, clock.now_s() + 0.1))
    if child.asked_to_end:
        return child.not_started()

    def on_mark(mark: Mark) -> None:
        monitor.mark(mark.event, mark.region, mark.time_s)

    marks = MarkReader(_marks_path(), on_mark, _say)
    ended = threading.Event()
    reader = threading.Thread(target=marks.run, args=(ended.is_set,), name="jpwr-marks", daemon=True)
    reader.start()
    sampler.sample(wait_s=1.0)
    sampler.event("command_started", clock.now_s())
    exit_code = child.run({**os.environ, MARKS_VARIABLE: marks.path})
    ended_s = clock.now_s()
    sampler.sample(wait_s=1.0)
    sampler.event("command_ended", ended_s, exit_code=exit_code)
    ended.set()
    with suppress(OSError), open(marks.path, "a") as file:
        file.write("\n")  # wakes the reader
    reader.join(1.0)
    marks.read()
    marks.close()
    return exit_code


def _marks_path() -> str:
    return os.path.join(os.environ.get("TMPDIR", "/tmp"), f"jpwr-{os.getuid()}-{os.getpid()}.marks")  # noqa: PTH118


def _report(options: argparse.Namespace, summary: Summary, monitor: PowerMonitor, exit_code: int) -> None:
    sampler = monitor.sampler
    if options.df_out and not sampler.hung:
        from jpwr.frames import suffix_of, write_frames

        suffix = suffix_of(options.df_suffix, rank_of(os.environ, GLOBAL_RANKS) if options.use_mpi else None)
        try:
            write_frames(options.df_out / TRACE_NAME, suffix, options.df_filetype, summary)
        except (OSError, JpwrError) as error:
            _say(f"the data frames could not be written ({error}); the trace is {options.df_out / TRACE_NAME}")
    if options.json:
        about = {"command": options.command, "exit_code": exit_code, "skipped_ticks": sampler.skipped_ticks}
        print(json.dumps({**about, "hung": sampler.hung, **summary.to_dict()}), file=sys.stderr)
        return
    for line in summary.lines():
        _say(line)
    for note in summary.notes():
        _say(note)
    if sampler.skipped_ticks:
        _say(f"{sampler.skipped_ticks} ticks were skipped: reading took longer than {options.interval:g} ms")


def _meta(options: argparse.Namespace, epoch_offset_s: float) -> dict[str, Any]:
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot_id = ""
    return {
        "jpwr_version": __version__,
        "hostname": os.environ.get("SLURMD_NODENAME") or os.uname().nodename,
        "boot_id": boot_id,
        "epoch_offset_s": epoch_offset_s,
        "interval_s": options.interval / 1000,
        "random_phase": True,
        "idle_s": options.idle,
        "methods": options.methods,
        "command": options.command,
    }
