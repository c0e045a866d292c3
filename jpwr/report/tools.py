"""The subcommands `jpwr list`, `jpwr read TRACE` and `jpwr check TRACE`."""

from __future__ import annotations

import argparse
import json
import math
import signal
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Callable, NamedTuple, Sequence

from jpwr.backends import METHODS, MODELLED, open_method, plug_ins
from jpwr.channel import Channel
from jpwr.errors import JpwrError, TraceError
from jpwr.messages import log, write
from jpwr.process.parser import Parser
from jpwr.process.threads import ANSWER_S, within
from jpwr.process.whole_file import replaced
from jpwr.report.rules import MAX_GAP_S, MAX_MISSING, MIN_RATE_HZ, MIN_SAMPLES
from jpwr.report.summary import Summary
from jpwr.trace.writers import read_trace

MOST_DRAWN = 4000  # samples of a channel in a plot, which is 1080 dots wide


def run_tool(argv: Sequence[str]) -> int:
    """Run a subcommand with its arguments and return the exit code; raise JpwrError."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as in `jpwr read TRACE | head`
    parser = Parser(prog="jpwr", allow_abbrev=False)
    commands = parser.add_subparsers(dest="tool", required=True)
    about = "list the sensors of this machine, and why others cannot be used; exit with 1 if there is none"
    commands.add_parser("list", description=about)
    about = "print a summary of a trace, and plot its power over time if matplotlib is installed"
    read = commands.add_parser("read", description=about)
    read.add_argument("trace", type=Path, metavar="TRACE", help="a trace.csv written by jpwr")
    read.add_argument("--json", action="store_true", help="print the summary as JSON")
    read.add_argument("--plot", type=Path, metavar="FILE", help="file of the plot (default: the trace's, as .png)")
    about = "check a trace against the rules of a valid measurement, rule by rule; exit with 1 if one is violated"
    check = commands.add_parser("check", description=about)
    check.add_argument("trace", type=Path, metavar="TRACE", help="a trace.csv written by jpwr")
    options = parser.parse_args(argv)
    try:
        code = _run(options)
        print(end="", flush=True)
    except OSError as error:
        raise JpwrError(f"stdout cannot be written ({error.strerror}): redirect it to another place") from error
    return code


def _run(options: argparse.Namespace) -> int:
    if options.tool == "list":
        return list_sensors()
    if options.tool == "read":
        return show_trace(options.trace, options.json, options.plot)
    return check_trace(options.trace)


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


def summarise(path: Path) -> Summary:
    """Return the summary of a trace on disk; raise TraceError."""
    trace = read_trace(path)
    if not trace.channels:
        raise TraceError(f"{path} has no channel: sample at least one sensor")
    return Summary(trace)


def show_trace(path: Path, as_json: bool = False, picture: Path | None = None) -> int:
    """Print the summary, and plot power over time if matplotlib is installed: to `picture`, or next to the trace.

    Return 0. Raises TraceError for the trace, and JpwrError if `picture` cannot be written.
    """
    summary = summarise(path)
    print(json.dumps(summary.to_dict()) if as_json else "\n".join([*summary.lines(), *summary.notes()]))
    try:
        from matplotlib.figure import Figure
    except ImportError:
        log("no plot was drawn: pip install matplotlib")
        return 0
    except Exception as error:  # a matplotlib that is incompatible with numpy may raise anything
        log(f"no plot was drawn: matplotlib cannot be used ({type(error).__name__}: {error})")
        return 0
    if not path.is_file():
        log("no plot was drawn: a pipe can be read only once")
        return 0
    trace = summary.trace
    figure = Figure(figsize=(9, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for info, (times_s, power_w) in zip(trace.channels, trace.power()):
        label = f"{info.name} (ESTIMATED)" if info.estimated else info.name
        drawn = _outline(power_w)
        drawn_s = [times_s[index] - trace.start_s for index in drawn]
        axes.plot(drawn_s, [power_w[index] for index in drawn], label=label, linewidth=1)
    start_s, end_s = trace.event_time_s("command_started"), trace.event_time_s("command_ended")
    if start_s is not None:
        end_s = trace.end_s if end_s is None else end_s
        axes.axvspan(start_s - trace.start_s, end_s - trace.start_s, alpha=0.1, label="command")
    for region in trace.regions()[:100]:
        axes.axvspan(region.start_s - trace.start_s, region.end_s - trace.start_s, alpha=0.15, color="tab:green")
    axes.set_xlabel("time [s]")
    axes.set_ylabel("power [W]")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    try:
        figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    except ValueError:  # before matplotlib 3.7
        axes.legend(frameon=False, fontsize="small")
    file = picture or (path.with_suffix(".png") if path.suffix == ".csv" else path.with_name(f"{path.name}.png"))
    if picture is None and file.is_symlink():
        log(f"no plot was drawn: {file} is a link; choose a file with --plot")
        return 0
    if file.exists() and file.samefile(path):
        raise JpwrError(f"--plot {file} is the trace itself: choose another file")
    try:
        with replaced(file) as part:
            figure.savefig(part, format=file.suffix[1:] or "png")  # by the suffix of the whole file
    except (OSError, ValueError) as error:
        words = f"the plot cannot be written to {file} ({error}): choose another file with --plot"
        if picture is not None:
            raise JpwrError(words) from error
        log(words)  # the plot was not requested
        return 0
    write(f"{file}\n")
    return 0


def _outline(power_w: Sequence[float]) -> Sequence[int]:
    """Return the indices of the samples that a plot shows: of many, the lowest and highest of each part in width."""
    each = 2 * len(power_w) // MOST_DRAWN
    if each <= 2:
        return range(len(power_w))
    parts = (range(first, min(first + each, len(power_w))) for first in range(0, len(power_w), each))
    known = ([index for index in part if not math.isnan(power_w[index])] or part[:1] for part in parts)
    return [edge for part in known for edge in sorted({pick(part, key=power_w.__getitem__) for pick in (min, max)})]


class RuleResult(NamedTuple):
    """Result of one rule for one channel."""

    kept: bool
    text: str


def check_trace(path: Path) -> int:
    """Print each rule for each channel; return 1 if one is violated, otherwise 0. Raises TraceError."""
    summary = summarise(path)
    findings = rule_findings(summary)
    for name, found in findings.items():
        for finding in found:
            print(f"{'ok  ' if finding.kept else 'FAIL'}  {name}: {finding.text}")
    return 0 if all(finding.kept for found in findings.values() for finding in found) else 1


def rule_findings(summary: Summary) -> dict[str, list[RuleResult]]:
    """Return the result of every rule for every channel, over the command's time."""
    findings: dict[str, list[RuleResult]] = {}
    for info, estimate in zip(summary.infos, summary.command):
        found = findings.setdefault(info.name, [])
        found += [RuleResult(False, f"the trace does not record when the command {word}") for word in summary.cut_short]
        if estimate.unknown:
            found.append(RuleResult(False, "too few samples for an energy"))
            continue
        rate_hz = estimate.samples / estimate.duration_s
        missing = estimate.missing / max(1, estimate.samples + estimate.missing)
        gap_s = estimate.largest_gap_s
        found += [
            RuleResult(not info.estimated, "a measurement" if not info.estimated else "an estimate, not a measurement"),
            RuleResult(estimate.energy_j > 0, f"{estimate.avg_power_w:.1f} W on average, more than 0 needed"),
            RuleResult(rate_hz >= MIN_RATE_HZ, f"{rate_hz:.1f} samples per second, {MIN_RATE_HZ:g} needed"),
            RuleResult(estimate.samples >= MIN_SAMPLES, f"{estimate.samples} samples, {MIN_SAMPLES} needed"),
            RuleResult(gap_s <= MAX_GAP_S, f"largest gap {gap_s:.2f} s, {MAX_GAP_S:g} s allowed"),
            RuleResult(missing <= MAX_MISSING, f"{100 * missing:.1f} % missing, {100 * MAX_MISSING:g} % allowed"),
        ]
        if info.has_counter:
            differ = f"counter and integral differ by {100 * estimate.difference:+.2f} %"
            words = "a counter that is not checked by power" if info.from_counter else differ
            found.append(RuleResult(not estimate.reason, estimate.reason or words))
    return findings
