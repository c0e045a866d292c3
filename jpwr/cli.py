"""The command `jpwr`: sample power while a command runs, and pass on its exit code."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Iterator, Sequence, TextIO

from jpwr import __version__
from jpwr.backends import METHODS, open_methods
from jpwr.channel import ChannelInfo
from jpwr.errors import JpwrError
from jpwr.limits.hold import add_options, limited
from jpwr.messages import log, open_standard_streams, settle_streams, write
from jpwr.process.child import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Child
from jpwr.process.clock import Clock
from jpwr.process.host import described
from jpwr.process.node import GLOBAL_RANKS, rank_of, why_not_sampling
from jpwr.process.parser import EXIT_FAILED, Parser
from jpwr.process.temporary import unnamed_file
from jpwr.process.threads import ANSWER_S, within
from jpwr.report.summary import Summary
from jpwr.sampling.edges import EdgeReader
from jpwr.sampling.monitor import DEFAULT_INTERVAL_S, JOIN_S, MIN_INTERVAL_S, PowerMonitor
from jpwr.sampling.recorder import Sink
from jpwr.stored import Store
from jpwr.trace.marks import MARKS_VARIABLE, Mark, MarkReader
from jpwr.trace.writers import CsvWriter, read_trace

TRACE_NAME = "trace.csv"
CLOSE_S = 2.0  # longest wait for a method to close
MIN_INTERVAL_MS = 1000 * MIN_INTERVAL_S
MAX_INTERVAL_MS = 3_600_000  # an hour
MOST_IN_MEMORY = 2**22  # bytes of a trace of which the summary has all readings in memory: 35 minutes of 8 GPUs
TOOLS = ("list", "read")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    open_standard_streams()
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        if arguments and arguments[0] in TOOLS:
            gc.enable()
            from jpwr.report.tools import run_tool

            return run_tool(arguments)
        return _run(_parse(arguments))
    except JpwrError as error:
        log(str(error))
        return EXIT_FAILED
    finally:
        settle_streams()


USAGE = """jpwr [options] -- command [argument ...]
       jpwr list | read TRACE"""
DESCRIPTION = """\
Sample the power of this node's devices while a command runs, and report the
energy that it used.

  jpwr -- ./my_program           read every sensor each 100 ms, and print a
                                 summary on stderr
  jpwr --df-out out -- ./a.out   the same, with every sample in out/trace.csv
  jpwr list                      list the sensors of this machine, and why
                                 others cannot be used
  jpwr read out/trace.csv        print a summary of a trace"""
EPILOG = f"""exit codes:
  the command's own, or 128+n if signal n ended it
  {EXIT_FAILED}  jpwr itself failed, and the command did not run
  {EXIT_NOT_EXECUTABLE}  the command cannot be executed
  {EXIT_NOT_FOUND}  the command was not found

Signals are forwarded to the command."""


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
        help=f"sensors to read: {', '.join(METHODS)}; a/b is the first available of a and b; auto (default) is every "
        "available sensor",
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
        "--ignore-measure-errors", action="store_true", help="no effect: a failed reading never ends the run"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--df-out",
        type=Path,
        metavar="DIR",
        help=f"folder for {TRACE_NAME}, written during the run, and for the tables power and energy at the end",
    )
    output.add_argument(
        "--df-filetype", choices=("csv", "h5", "parquet"), default="csv", help="format of the two tables (default: csv)"
    )
    output.add_argument(
        "--df-suffix",
        default="",
        metavar="S",
        help="suffix of the tables' names; %%q{NAME} is replaced by an environment variable",
    )
    text = "print the tables on standard output after the command, as jpwr 0.0.10 did; JPWR_TABLES=1 asks for it, too"
    asked = os.environ.get("JPWR_TABLES", "0") not in ("", "0")
    output.add_argument("--tables", action="store_true", default=asked, help=text)
    output.add_argument("--json", action="store_true", help="print the summary as one line of JSON, on stderr")
    output.add_argument(
        "--json-out",
        type=Path,
        metavar="FILE",
        help="write the summary as JSON to a file, or to a pipe as in '>(jq .)', at the end",
    )
    output.add_argument("--live", action="store_true", help="show power in the terminal while the command runs")
    add_options(parser)
    ranks = parser.add_argument_group("ranks")
    ranks.add_argument(
        "--use-mpi", action="store_true", help="jpwr is started in every rank: one process per node samples"
    )
    ranks.add_argument("--mpi-ranks", nargs="+", type=int, default=[], metavar="RANK", help="only these ranks sample")
    parser.add_argument("--version", action="version", version=f"jpwr {__version__}")
    options = parser.parse_with_command(argv, "jpwr --methods auto -- sleep 10")
    if not 0 <= options.idle < float("inf"):
        parser.error(f"--idle must be 0 or more seconds, got {options.idle:g}")
    if not MIN_INTERVAL_MS <= options.interval <= MAX_INTERVAL_MS:
        parser.error(
            f"--interval must be from {MIN_INTERVAL_MS:g} to {MAX_INTERVAL_MS} milliseconds, got {options.interval:g}"
        )
    options.suffix = _suffix(options)
    return options


def _suffix(options: argparse.Namespace) -> str:
    if not (options.df_out or options.df_suffix):
        return ""
    from jpwr.report.frames import suffix_of

    return suffix_of(options.df_suffix, rank_of(os.environ, GLOBAL_RANKS) if options.use_mpi else None)


def _run(options: argparse.Namespace) -> int:
    child = Child(options.command, log)
    stack, all_answer = ExitStack(), True
    with _errors_reported(child, "at the end"), ExitStack() as limits:  # restored even if a sensor does not answer
        try:
            all_answer = _sample(options, child, stack, limits)
        finally:
            all_answer = within(CLOSE_S, stack.close) and all_answer
    assert child.exit_code is not None
    if not all_answer:
        # A thread is inside a library that does not answer; it would block a normal exit.
        settle_streams()
        os._exit(child.exit_code)
    return child.exit_code


@contextmanager
def _errors_reported(child: Child, where: str) -> Iterator[None]:
    """Print an error of the block if the command has ended, so that its exit code stays; raise JpwrError before that.

    `where` begins the message.
    """
    try:
        yield
    except BaseException as error:  # Ctrl-C is handled elsewhere, and a sensor's library may raise anything
        words = str(error) if isinstance(error, JpwrError) else f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.strerror:
            words = ": ".join(filter(None, (error.strerror, str(error.filename or ""))))
        if child.exit_code is None:
            raise JpwrError(words) from error
        log(f"{where}: {words}")


def _sample(options: argparse.Namespace, child: Child, stack: ExitStack, limits: ExitStack) -> bool:
    """Run the command and sample meanwhile; return whether all sensors answered to the end.

    Sensors and files stay open until `stack` is closed, and limits in force until `limits` is.
    """
    not_sampling = why_not_sampling(options.use_mpi, options.mpi_ranks)
    if not_sampling:
        log(f"not sampling: {not_sampling}")
        child.exit_code = child.become()
        return True
    json_out = _opened(options.json_out, stack)
    if options.power_limit or options.clock:
        child.take_signals()  # so that a signal ends the run by a way that restores limits
    in_force = limited(options, limits)
    opened = open_methods(options.methods, stack)
    child.take_signals()
    for note in opened.notes:
        log(note)
    interval_s = options.interval / 1000
    for channel in opened.channels:
        if channel.info.estimated:
            log(f"{channel.info.name} is an ESTIMATE, not a measurement: {channel.info.source}")
        if channel.info.period_s > interval_s:
            log(f"{channel.info.name} has a new value every {channel.info.period_s:g} s and is read at that rate")

    clock = Clock()
    infos = [channel.sampled_info(interval_s) for channel in opened.channels]
    meta = {**_meta(options, clock.epoch_offset_s), **in_force}
    kept = _opened_trace(options, infos, meta, stack)
    sinks: list[Sink] = [kept]
    view = stack.enter_context(ExitStack())
    if options.live:
        from jpwr.report.live import LiveView

        sinks.append(view.enter_context(LiveView(infos)))

    monitor = PowerMonitor(opened.channels, interval_s, sinks, clock, log)
    gc.freeze()  # a collection of all that is loaded takes as long as the samples of a second
    gc.enable()
    # The view erases the lines that it has drawn, so it has to end before other messages.
    with _errors_reported(child, "while sampling"), view, monitor:
        _measure(options, child, monitor, clock)
    with _errors_reported(child, "in the summary"):
        summary = _summary(options, child, kept, stack)
        _report(options, child, summary, monitor, json_out)
        if options.tables:
            from jpwr.report.frames import printed_lines

            print(f"Measuring Energy while executing {options.command}", *printed_lines(summary), sep="\n", flush=True)
    return not monitor.hung


def _measure(options: argparse.Namespace, child: Child, monitor: PowerMonitor, clock: Clock) -> None:
    """Sample the idle phase, then run the command, with its start and end marked in the trace."""
    if options.idle:
        within(ANSWER_S, monitor.sample)  # covers the start of the idle phase
    idle_end_s = clock.now_s() + options.idle
    while clock.now_s() < idle_end_s and not child.asked_to_end:
        clock.sleep_until(min(idle_end_s, clock.now_s() + 0.1))
    if child.asked_to_end:
        child.run({})
        return

    edges = EdgeReader(monitor, clock)

    def on_marks(marks: Sequence[Mark]) -> None:
        now_s = clock.now_s()
        for mark in marks:
            monitor.event(mark.event, now_s if mark.time_s is None else mark.time_s, region=mark.region)
        if child.exit_code is None:
            edges.request()

    environ = dict(os.environ)
    marks: MarkReader | None = None
    try:
        marks = MarkReader(on_marks, log)
        environ[MARKS_VARIABLE] = marks.path
        edges.start()
        marks.start()
    except (JpwrError, OSError) as error:
        log(str(error))
        environ[MARKS_VARIABLE] = os.devnull  # programs that write marks still find a file
    within(ANSWER_S, EdgeReader(monitor, clock).read_all)
    monitor.event("command_started", clock.now_s())
    try:
        exit_code = child.run(environ)
        ended_s = child.ended_s if child.ended_s is not None else clock.now_s()
        with _errors_reported(child, "in the last sample"):
            within(ANSWER_S, EdgeReader(monitor, clock).read_all)
        monitor.event("command_ended", ended_s, exit_code=exit_code)
    finally:
        if marks is not None:
            marks.stop(patience=lambda: not monitor.hung)
            edges.stop(JOIN_S if monitor.hung else ANSWER_S)


def _opened_trace(
    options: argparse.Namespace, infos: Sequence[ChannelInfo], meta: dict[str, Any], stack: ExitStack
) -> CsvWriter:
    """Return the file of the samples, without a name if none was asked for."""
    if not options.df_out:
        return stack.enter_context(CsvWriter(None, infos, meta))
    from jpwr.report.frames import check_file_type

    check_file_type(options.df_filetype)
    file = stack.enter_context(CsvWriter(options.df_out / TRACE_NAME, infos, meta))
    if file.path.name != TRACE_NAME:
        log(
            f"{options.df_out / TRACE_NAME} is in use, a link, no trace, or another user's file: this run's trace "
            f"is {file.path}"
        )
    return file


def _summary(options: argparse.Namespace, child: Child, kept: CsvWriter, stack: ExitStack) -> Summary:
    """Return the summary of the samples; with --df-out, also write their tables."""
    where = f"the trace is {kept.path}, but its tables could not be written"
    if options.df_out and not kept.is_in_place():
        where = "tables could not be written"
        log(f"the trace {kept.path} was removed or replaced during the run: its samples are lost")
    store = None  # for the readings of a long trace, next to its file if it has one
    if kept.size > MOST_IN_MEMORY:
        file = unnamed_file(*([str(kept.path.parent)] if options.df_out else []))
        stack.callback(os.close, file)
        store = Store(file)
    summary = Summary(read_trace(kept.open_file, with_status=False, store=store))
    if options.df_out:
        with _errors_reported(child, where):
            from jpwr.report.frames import write_frames

            write_frames(kept.path.parent, options.suffix, options.df_filetype, summary)
    return summary


def _report(
    options: argparse.Namespace, child: Child, summary: Summary, monitor: PowerMonitor, json_out: TextIO | None
) -> None:
    if options.json or json_out:
        about = {
            "command": options.command,
            "exit_code": child.exit_code,
            "skipped_ticks": monitor.recorder.skipped_ticks,
        }
        line = json.dumps({**about, "hung": monitor.hung, **summary.to_dict()}) + "\n"
        if json_out:
            with _errors_reported(child, f"--json-out {options.json_out} could not be written"):
                print(line, end="", file=json_out, flush=True)
        if options.json:
            write(line)
            return
    for text in [*summary.lines(), *summary.notes()]:
        log(text)
    if monitor.recorder.skipped_ticks:
        why = f"reading took longer than {options.interval:g} ms, or the CPU was busy"
        log(f"{monitor.recorder.skipped_ticks} samples were skipped: {why}")


def _opened(path: Path | None, stack: ExitStack) -> TextIO | None:
    """Return the file or pipe for the summary as JSON, emptied; it is written at the end, after what is there then."""
    if path is None:
        return None
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise JpwrError(f"--json-out {path} cannot be written ({error.strerror}): choose another file") from error
    return stack.enter_context(open(file, "w", encoding="utf-8"))


def _meta(options: argparse.Namespace, epoch_offset_s: float) -> dict[str, Any]:
    return {
        "jpwr_version": __version__,
        **described(epoch_offset_s),
        "interval_s": options.interval / 1000,
        "random_phase": True,
        "command": options.command,
    }
