"""The subcommands `jpwr list` and `jpwr read TRACE`."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Callable, Sequence

from jpwr.backends import METHODS, MODELLED, open_method, plug_ins
from jpwr.channel import Channel
from jpwr.errors import JpwrError
from jpwr.messages import log
from jpwr.process.parser import Parser
from jpwr.process.threads import ANSWER_S, within
from jpwr.report.summary import Summary
from jpwr.trace.writers import read_trace


def run_tool(argv: Sequence[str]) -> int:
    """Run a subcommand with its arguments and return the exit code; raise JpwrError."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as in `jpwr read TRACE | head`
    parser = Parser(prog="jpwr", allow_abbrev=False)
    commands = parser.add_subparsers(dest="tool", required=True)
    about = "list the sensors of this machine, and why others cannot be used; exit with 1 if there is none"
    commands.add_parser("list", description=about)
    about = "print a summary of a trace"
    read = commands.add_parser("read", description=about)
    read.add_argument("trace", type=Path, metavar="TRACE", help="a trace.csv written by jpwr")
    read.add_argument("--json", action="store_true", help="print the summary as JSON")
    options = parser.parse_args(argv)
    try:
        code = list_sensors() if options.tool == "list" else show_trace(options.trace, options.json)
        print(end="", flush=True)
    except OSError as error:
        raise JpwrError(f"stdout cannot be written ({error.strerror}): redirect it to another place") from error
    return code


def list_sensors() -> int:
    """Print every channel with one reading, then a line on each unavailable method; return 1 without any sensor."""
    reasons: list[str] = []
    found = False
    for method in [*METHODS, *plug_ins()]:
        stack = ExitStack()
        try:
            channels = open_method(method, stack)
        except (JpwrError, OSError) as error:
            reasons.append(f"{method}: unavailable: {error}")
            continue
        found = found or method not in MODELLED
        for channel in channels:
            print(_described(channel))
        within(ANSWER_S, partial(_close, stack))
    print(*reasons, sep="\n")
    if not found:
        log(f"no power sensor was found; use '--methods {MODELLED[0]}' for an estimate from CPU load")
    return 0 if found else 1


def _close(stack: ExitStack) -> None:
    with suppress(BaseException):  # the method is not used any more
        stack.close()


def _described(channel: Channel) -> str:
    info = channel.info
    power = _reading(channel.read_power_w) if channel.read_power_w else "counter only"
    period = f"refresh interval {info.period_s:g} s" if info.period_s else "refresh interval unknown"
    remarks = [info.scope.value, power, period, "energy counter" if info.has_counter else "no counter"]
    remarks += ["ESTIMATED, used only by name"] if info.estimated else []
    remarks += [info.lacks] if info.lacks else []
    remarks += [] if info.mine else ["hidden from this job"]
    return f"{info.name}: {', '.join(remarks)}; {info.source}"


def _reading(read_power_w: Callable[[], float]) -> str:
    found: list[str] = []

    def read() -> None:
        try:
            found.append(f"{float(read_power_w()):.1f} W")
        except JpwrError as error:
            found.append(f"cannot be read ({error})")
        except BaseException as error:  # a vendor's library or another package may raise anything
            found.append(f"cannot be read ({type(error).__name__}: {error})")

    return found[0] if within(ANSWER_S, read) else f"cannot be read (it did not answer within {ANSWER_S:g} s)"


def show_trace(path: Path, as_json: bool = False) -> int:
    """Print the summary of a trace; return 0. Raises TraceError."""
    summary = Summary(read_trace(path))
    print(json.dumps(summary.to_dict()) if as_json else "\n".join([*summary.lines(), *summary.notes()]))
    return 0
