"""The command `jpwr`: sample power while a command runs, and pass on its exit code."""

from __future__ import annotations

import argparse
import errno
import gc
import json
import os
import stat
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Iterator, Sequence

from jpwr import __version__
from jpwr.backends import METHODS, open_methods
from jpwr.errors import JpwrError
from jpwr.process.child import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Child, given_environ
from jpwr.process.clock import SystemClock
from jpwr.process.host import described
from jpwr.process.node import GLOBAL_RANKS, rank_of, why_not_sampling
from jpwr.process.parser import EXIT_FAILED, Parser
from jpwr.process.threads import ANSWER_S, within
from jpwr.process.whole_file import part_of, replacing, without_links
from jpwr.report.summary import Summary
from jpwr.sampling.edges import EdgeReader
from jpwr.sampling.monitor import DEFAULT_INTERVAL_S, JOIN_S, MIN_INTERVAL_S, PowerMonitor
from jpwr.sampling.recorder import Sink
from jpwr.say import open_standard_streams, say, settle_streams, write
from jpwr.trace.marks import MARKS_VARIABLE, Mark, MarkReader
from jpwr.trace.trace import Trace
from jpwr.trace.writers import CsvWriter

TRACE_NAME = "trace.csv"
CLOSE_S = 2.0  # a method that takes longer to close does not hold up the end
MIN_INTERVAL_MS = 1000 * MIN_INTERVAL_S
MAX_INTERVAL_MS = 3_600_000  # an hour
TOOLS = ("list", "read", "check")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    open_standard_streams()
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        if arguments and arguments[0] in TOOLS:
            from jpwr.report.tools import run_tool

            return run_tool(arguments)
        return _run(_parse(arguments))
    except JpwrError as error:
        say(str(error))
        return EXIT_FAILED
    finally:
        settle_streams()


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
  {EXIT_FAILED}  jpwr itself failed, and the command did not run
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
    output.add_argument(
        "--json-out",
        type=Path,
        metavar="FILE",
        help="the summary as JSON in a file, or a pipe as in '>(jq .)', at the end",
    )
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
    options = parser.parse_with_command(argv, "jpwr --methods auto -- sleep 10")
    if not 0 <= options.idle < float("inf"):
        parser.error(f"--idle must be 0 or more seconds, got {options.idle:g}")
    if not MIN_INTERVAL_MS <= options.interval <= MAX_INTERVAL_MS:
        parser.error(
            f"--interval must be from {MIN_INTERVAL_MS:g} to {MAX_INTERVAL_MS} milliseconds, got {options.interval:g}: "
            "10 is enough for what sensors can resolve"
        )
    if options.json_out is not None:
        _check_json_out(options.json_out)
        if options.df_out and without_links(options.json_out) == without_links(options.df_out / TRACE_NAME):
            raise JpwrError(f"--json-out {options.json_out} is the trace: choose another file")
    options.suffix = _suffix(options)
    return options


def _suffix(options: argparse.Namespace) -> str:
    if not (options.df_out or options.df_suffix):
        return ""
    from jpwr.report.frames import suffix_of

    return suffix_of(options.df_suffix, rank_of(os.environ, GLOBAL_RANKS) if options.use_mpi else None)


def _check_json_out(path: Path) -> None:
    """Raise JpwrError where the file cannot be written at the end, as far as that can be told now."""
    try:
        # As the kernel does by fs.protected_symlinks, and for what is to be replaced by the sticky bit (unlink(2)).
        for place in (path, without_links(path)):
            with suppress(FileNotFoundError):
                if place.parent.stat().st_mode & stat.S_ISVTX and place.lstat().st_uid != os.getuid():
                    raise PermissionError(errno.EPERM, "it is another user's where all may write")
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(path.stat().st_mode):
                raise JpwrError(f"--json-out {path} is a folder: name a file in it")
        if _is_stream(path):
            if not os.access(path, os.W_OK):
                raise JpwrError(f"--json-out {path} cannot be written to: choose another")
            return
        part = part_of(path)
        part.touch(exist_ok=False)
        part.unlink()
    except OSError as error:
        raise JpwrError(f"--json-out {path} cannot be written ({error.strerror}): choose another file") from error


def _is_stream(path: Path) -> bool:
    """Whether it is a pipe, a device, or a name of a file that is open, none of which may be replaced."""
    folder = os.path.realpath(path.parent)
    of_kernel = folder == "/dev" or f"{folder}/".startswith("/proc/")
    return of_kernel or (os.path.exists(path) and not stat.S_ISREG(path.stat().st_mode))  # noqa: PTH110


def _run(options: argparse.Namespace) -> int:
    child = Child(options.command, say)
    stack, all_answer = ExitStack(), True
    with _whatever_happens(child, "at the end"):
        try:
            all_answer = _sample(options, child, stack)
        finally:
            all_answer = within(CLOSE_S, stack.close) and all_answer
    assert child.exit_code is not None
    child.ignore_signals()
    if not all_answer:
        # A thread is inside a library that does not answer, and would keep this process from ending.
        settle_streams()
        os._exit(child.exit_code)
    return child.exit_code


@contextmanager
def _whatever_happens(child: Child, where: str) -> Iterator[None]:
    """Nothing that goes wrong in the block once the command has ended changes its exit code; it is said.

    Before that, it raises JpwrError.
    """
    try:
        yield
    except BaseException as error:  # no Ctrl-C comes here, and a sensor's library may raise anything
        words = str(error) if isinstance(error, JpwrError) else f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.strerror:
            words = ": ".join(filter(None, (error.strerror, str(error.filename or ""))))
        if child.exit_code is None:
            raise JpwrError(words) from error
        say(f"{where}: {words}")


def _sample(options: argparse.Namespace, child: Child, stack: ExitStack) -> bool:
    """Run the command, and sample meanwhile; whether all sensors answered to the end."""
    not_sampling = why_not_sampling(stack, options.use_mpi, options.mpi_ranks)
    if not_sampling:
        say(f"not sampling: {not_sampling}")
        child.exit_code = child.become()
        return True
    if options.idle:
        child.exit_code = child.check() or None
        if child.exit_code:
            return True
    if not options.df_out and (options.df_suffix or options.df_filetype != "csv"):
        say("without --df-out there are no tables: --df-suffix and --df-filetype change nothing")
    opened = open_methods(options.methods, stack)
    child.take_signals()
    for note in opened.notes:
        say(note)
    interval_s = options.interval / 1000
    for channel in opened.channels:
        if channel.info.estimated:
            say(f"{channel.info.name} is an ESTIMATE, not a measurement: {channel.info.source}")
        if channel.info.period_s > interval_s:
            say(f"{channel.info.name} has a new value every {channel.info.period_s:g} s and is read at that rate")

    clock = SystemClock()
    infos = [channel.sampled_info(interval_s) for channel in opened.channels]
    meta = _meta(options, clock.epoch_offset_s)
    trace = Trace(infos, meta)
    sinks: list[Sink] = [trace]
    file = None
    if options.df_out:
        from jpwr.report.frames import check_file_type

        check_file_type(options.df_filetype)
        file = stack.enter_context(CsvWriter(options.df_out / TRACE_NAME, infos, meta))
        if file.path.name != TRACE_NAME:
            say(
                f"{options.df_out / TRACE_NAME} is a link, or no trace, or another user's, or may still be written to:"
                f" this run's trace is {file.path}"
            )
        sinks.append(file)
    if options.prometheus is not None:
        from jpwr.report.prometheus import Exporter

        sinks.append(stack.enter_context(Exporter(infos, options.prometheus)))
    view = stack.enter_context(ExitStack())
    if options.live:
        from jpwr.report.live import LiveView

        sinks.append(view.enter_context(LiveView(infos)))

    monitor = PowerMonitor(opened.channels, interval_s, sinks, clock, say)
    gc.freeze()  # what is there now stays: looking through it again takes as long as a second's samples
    # The view takes back the lines that it has drawn: it ends before anything else is said.
    with _whatever_happens(child, "while sampling"), view, monitor:
        _measure(options, child, monitor, clock)
    with _whatever_happens(child, "in the summary"):
        summary = Summary(trace)
        if file is not None:
            where = f"the trace is {file.path}, but its tables could not be written"
            if not file.is_in_place():
                where = "tables could not be written"
                say(f"the trace {file.path} was removed or replaced meanwhile: what was sampled is not in it")
            with _whatever_happens(child, where):
                from jpwr.report.frames import write_frames

                write_frames(file.path.parent, options.suffix, options.df_filetype, summary)
        _report(options, child, summary, monitor)
    return not monitor.hung


def _measure(options: argparse.Namespace, child: Child, monitor: PowerMonitor, clock: SystemClock) -> None:
    """Idle phase, then the command, its start and end marked in the trace."""
    if options.idle:
        within(ANSWER_S, monitor.sample)  # so that all of the idle phase is covered
    idle_end_s = clock.now_s() + options.idle
    while clock.now_s() < idle_end_s and not child.asked_to_end:
        clock.sleep_until(min(idle_end_s, clock.now_s() + 0.1))
    if child.asked_to_end:
        child.exit_code = child.not_started()
        return

    edges = EdgeReader(monitor, clock)

    def on_marks(marks: Sequence[Mark]) -> None:
        now_s = clock.now_s()
        for mark in marks:
            monitor.event(mark.event, now_s if mark.time_s is None else mark.time_s, region=mark.region)
        if child.exit_code is None:
            edges.begin_beside()

    environ = given_environ()
    marks: MarkReader | None = None
    try:
        marks = MarkReader(on_marks, say)
        environ[MARKS_VARIABLE] = marks.path
        edges.start()
        marks.start()
    except JpwrError as error:
        say(str(error))
        environ[MARKS_VARIABLE] = os.devnull  # a program that writes marks finds a file all the same
    within(ANSWER_S, EdgeReader(monitor, clock).whole)
    monitor.event("command_started", clock.now_s())
    try:
        exit_code = child.run(environ)
        ended_s = child.ended_s if child.ended_s is not None else clock.now_s()
        with _whatever_happens(child, "in the last sample"):
            within(ANSWER_S, EdgeReader(monitor, clock).whole)
        monitor.event("command_ended", ended_s, exit_code=exit_code)
    finally:
        if marks is not None:
            marks.stop(patience=lambda: not monitor.hung)
            edges.stop(JOIN_S if monitor.hung else ANSWER_S)


def _report(options: argparse.Namespace, child: Child, summary: Summary, monitor: PowerMonitor) -> None:
    if options.json or options.json_out is not None:
        about = {
            "command": options.command,
            "exit_code": child.exit_code,
            "skipped_ticks": monitor.recorder.skipped_ticks,
        }
        line = json.dumps({**about, "hung": monitor.hung, **summary.to_dict()}) + "\n"
        if options.json_out is not None:
            with _whatever_happens(child, f"--json-out {options.json_out} could not be written"):
                _write_json(options.json_out, line)
        if options.json:
            write(line)
            return
    for text in [*summary.lines(), *summary.notes()]:
        say(text)
    if monitor.recorder.skipped_ticks:
        why = f"reading took longer than {options.interval:g} ms, or the CPU was busy"
        say(f"{monitor.recorder.skipped_ticks} ticks were skipped: {why}")


def _write_json(path: Path, line: str) -> None:
    """A file is there whole or not at all; a stream is written to as it is, and no reader is waited for."""
    if _is_stream(path):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(file, True)
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(line)
        return
    with replacing(path) as whole:
        whole.write(line)


def _meta(options: argparse.Namespace, epoch_offset_s: float) -> dict[str, Any]:
    return {
        "jpwr_version": __version__,
        **described(epoch_offset_s),
        "interval_s": options.interval / 1000,
        "random_phase": True,
        "idle_s": options.idle,
        "methods": options.methods,
        "command": options.command,
    }
