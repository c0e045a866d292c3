"""Tables of the page: the unit in each heading, an explanation of each column, four digits, and the status last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from results.points.repeats import PointResults
from results.points.sensors import accuracy_text
from results.record.values import PER_DEVICE, SIGNIFICANT, WORK, rounded
from results.show.tables.fit import without_empty_columns
from results.show.tables.inference import point_columns_of
from results.show.tables.point_columns import PointColumn, sampling_percent
from results.show.tables.summary import by_system_and_precision, precision_text
from results.verdicts.quality import energy_kind, why_not_ranked
from results.verdicts.ranking import fastest

STATUS = "status"
LONG_TEXT = 24  # characters: a longer text is wrapped
NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?( (to|±) [-+]?\d[\d,]*(\.\d+)?)?")
MANY_DIGITS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+")
COUNTS = ("devices", "global batch", "concurrency", "runs", "samples", "reads", "steps", "files")  # are exact
# An explanation of each column, by its title without the unit.
HELP = {
    "Speed": "Work per second of one device at the system's fastest point, the median of its runs",
    "Efficiency": "Work per watt-hour of energy at the system's most efficient point, the median of its runs",
    "Power": "Power of the devices or, where a budget is given, of the whole machine with its overhead",
    "Repeats": "Runs of the fastest point; three or more give an interval",
    "Energy grade": "Where the energy is measured: Q0 estimate, Q1 device, Q2 node, Q3 supply",
    "Requirements met": "How many of the stated requirements the system meets with its whole 95 % interval",
    "Machine": "The largest machine within all limits of the budget, in whole nodes",
    "Purchase": "Price of all devices, from the prices file",
    "Total cost": "Purchase and electricity over the lifetime that the prices file states",
    "Cost": "Share of the purchase for the time of the work, and its electricity, at the system's cheapest point",
    "at": "The point of the sweep that the number comes from: number of devices and global batch size",
    "95 % interval": "The range that contains the true value with a probability of 95 %",
    "±": "Half of the 95 % interval over the repeats, in percent of the number before it; empty for a single run",
    "avg power": "Average power of all devices together over the measured window",
    "power": "Power of all devices together while the machine works, with everything that the prices file adds",
    "power per device": "Average power of one device over the measured window",
    "concurrency": "Requests in flight: each is followed by the next",
    "goodput": "Requests per second that keep the limits of TTFT and TPOT",
    "J/output token": "Energy of the window by the output tokens that arrived in it",
    "J/request": "Energy of the window by the requests that it served",
    "J/total token": "Energy of the window by the tokens of prompts and answers in it",
    "tokens/s/user": "Output tokens per second of one user: 1 / median TPOT",
    "TPOT p50": "Time per output token after the first ones, median of the requests",
    "TPOT p99": "Time per output token after the first ones, 99th percentile of the requests",
    "TTFT p50": "Time to the first token, median of the requests",
    "TTFT p99": "Time to the first token, 99th percentile of the requests",
    "clock": "Average clock of the devices over the measured window",
    "CO₂": "Carbon dioxide of the electricity, from the prices file",
    "devices": "Number of accelerators, or of processors where they do the work",
    "energy": "Grade of the energy and what its sensors cover: Q0 estimate, Q1 device, Q2 node, Q3 supply",
    "energy is": "Grade of the energy and what its sensors cover: Q0 estimate, Q1 device, Q2 node, Q3 supply",
    "electricity": "Price of the electricity, with the overhead of the site (PUE)",
    "for": "Amount of work that the cost is for",
    "global batch": "Samples per optimizer step, over all devices",
    "machine": "Share of the purchase price for the time that the work takes",
    "measured at": "Scope of the energy's sensors: Q0 estimate, Q1 device, Q2 node, Q3 supply",
    "measured on": "Numbers of devices whose measurements the throughput of this size is derived from",
    "MFU": "Model FLOP/s utilisation: useful FLOP/s in percent of the device's peak",
    "of achievable": "Useful FLOP/s in percent of those of the fastest dense product of matrices: measured by the "
    "system's node check, else from results/reference/achievable.csv",
    "options": "Further options of the runs in this row",
    "p95 step over median": "95th percentile of the step times over their median",
    "peak memory": "Largest memory in use on a device",
    "precision": "Number format of the arithmetic",
    "purchase": "Price of all devices, from the prices file",
    "remark": "Why there is no score, or which size was not measured",
    "runs": "Repeats of this point that succeeded",
    "sampling ±": "Half of the 95 % interval of one run's energy that comes from sampling",
    "score": "Weighted performance relative to the reference system, whose score is 1",
    "sensor accuracy": "Largest error of the sensor itself, which repeats do not show, and where the figure is from",
    STATUS: "Whether all runs of the row succeeded, or how many failed and why",
    "system": "Name of the machine or offer",
    "TFLOP/s/device": "Useful floating-point operations per second of one device, in 10¹²; nothing recomputed",
    "power limit": "Power limit of each device; the highest is that of full speed",
    "clock limit": "Highest clock that was set or checked; empty if none was",
    "of full speed": "Speed in percent of that at the highest limits",
    "of full work per energy": "Work per energy in percent of that at the highest limits",
    "energy-delay": "Energy times time for the same work, in percent of that at the highest limits: less is better",
    "limit bound": "Largest share of the measured window in which a device ran against its power limit",
    "settled": "Whether clock and temperature were steady in the measured window, or how they changed",
    "power limit bound": "Largest share of the measured window in which a device ran against its power limit",
    "throttled": "Largest share of the measured window during which something held a device's clock back",
    "time to report": "Time of a common amount of work on the largest number of devices that all systems have",
    "total": "Purchase and electricity together",
    "work": "Work per second of all devices together",
    "work/Wh": "Work per watt-hour of energy over the measured window",
    "work/s": "Work per second of all devices together",
    "work/s/device": "Work per second of one device",
    "workload": "Program, model and data",
}


class Heading(NamedTuple):
    """Title of a column with its explanation; `kind` is its class in the style sheet."""

    title: str
    help: str
    kind: str


class Table(NamedTuple):
    """A table as the template draws it."""

    headings: list[Heading]
    rows: list[list[str]]
    bad: list[bool]  # rows whose status is not ok


def table_of(lines: Sequence[Sequence[str]]) -> Table | None:
    """Return a header and rows of text as a table of the page; None without a row."""
    if len(lines) < 2:
        return None
    titles = list(lines[0])
    order = sorted(range(len(titles)), key=lambda index: titles[index] == STATUS)
    columns = [[row[index] for row in lines[1:]] for index in order]
    headings = [_heading(titles[index], column) for index, column in zip(order, columns, strict=True)]
    shown = [
        [brief(text) for text in column] if one.kind == "number" and one.title not in COUNTS else column
        for one, column in zip(headings, columns, strict=True)
    ]
    rows = [list(row) for row in zip(*shown, strict=True)]
    bad = [STATUS in titles and row[-1] != "ok" for row in rows]
    return Table(headings, rows, bad)


def _heading(title: str, column: Sequence[str]) -> Heading:
    texts = [text for text in column if text]
    if title == STATUS:
        kind = "status"
    elif texts and all(NUMBER.fullmatch(text) for text in texts):
        kind = "number"
    else:
        kind = "long" if max(map(len, texts), default=0) > LONG_TEXT else "text"
    return Heading(title, help_of(title), kind)


def help_of(title: str) -> str:
    """Return the explanation of a column; empty for a title that explains itself."""
    plain = re.sub(r" ?\[.*\]$", "", title)
    return HELP.get(plain) or HELP.get(re.sub(r"^.*?/(s|Wh)", r"work/\1", plain), "")


def brief(text: str) -> str:
    """Return a text with at most four significant digits in each number that has a comma or a point."""

    def shorter(found: re.Match[str]) -> str:
        digits = found[0].replace(",", "")
        long = len(digits.replace(".", "").lstrip("0")) > SIGNIFICANT
        return rounded(float(digits)) if long else found[0]

    return MANY_DIGITS.sub(shorter, text)


def percent(part: float | None, of: float | None) -> str:
    """Return a share in percent with two digits; empty without one."""
    return f"{100 * part / of:.2g}" if part is not None and of else ""


def points_table(results: Sequence[PointResults]) -> Table | None:
    """Return all points of a workload; intervals are in percent of the number before them."""
    units = " or ".join(dict.fromkeys(one.any.work_unit for one in results))
    columns = point_columns_of(results)
    titles = [column.title.replace("± 95 %", "± [%]").format(unit=units) for column in columns]
    rows = [list(_fields(one, columns)) for one in results]
    lines = without_empty_columns([titles, *rows], without=("model", "data", "in/out"))
    return table_of(lines)


def _fields(one: PointResults, columns: Sequence[PointColumn]) -> Iterator[str]:
    before = None
    for column in columns:
        value = column.value(one)
        if column.title.startswith("±"):
            yield percent(value if isinstance(value, float) else None, before)
        else:
            yield rounded(value) if isinstance(value, float) else "" if value is None else str(value)
        before = value if isinstance(value, float) else None


def systems_table(workloads: Sequence[tuple[str, Sequence[PointResults]]]) -> Table | None:
    """Return each system in each precision at its best points, with where its energy is measured and how accurately."""
    units = " or ".join(dict.fromkeys(results[0].any.work_unit for _, results in workloads))
    titles = ["workload", "system", "precision", f"{units}/s/device", "± [%]", "MFU [%]", f"{units}/Wh", "± [%]"]
    titles += ["power per device [W]", "sampling ± [%]", "measured at", "sensor accuracy", "runs", STATUS]
    lines = [titles]
    for title, results in workloads:
        for system, precision, mine in by_system_and_precision(results):
            speed = fastest(mine)
            work = fastest([one for one in mine if not why_not_ranked(one)], WORK) or fastest(mine, WORK)
            lines.append(
                [
                    title,
                    system,
                    precision_text(precision, mine),
                    *_with_interval(speed, PER_DEVICE),
                    f"{100 * mfu:.3g}" if speed and (mfu := speed.value("metrics.mfu")) else "",
                    *_with_interval(work, WORK),
                    rounded(power_per_device_w(work)) if work else "",
                    f"{share:.2g}" if work and (share := sampling_percent(work)) is not None else "",
                    (energy_kind(work.any) or "") if work else "",
                    accuracy_text(work.any) if work else "",
                    str(min((len(one.good) for one in (speed, work) if one), default=0)),
                    _status(mine),
                ]
            )
    return table_of(without_empty_columns(lines, without=("workload",) if len(workloads) == 1 else ()))


def _status(results: Sequence[PointResults]) -> str:
    good, bad = (sum(len(getattr(one, side)) for one in results) for side in ("good", "bad"))
    return f"{bad} of {good + bad} failed" if bad else "ok"


def _with_interval(one: PointResults | None, path: str) -> list[str]:
    if one is None:
        return ["", ""]
    return [rounded(one.value(path)), percent(one.half_width(path), one.value(path))]


def power_per_device_w(one: PointResults) -> float | None:
    """Return the average power over a point's window per device, in watts."""
    power_w = one.value("energy.avg_power_w")
    return power_w / one.point.devices if power_w and one.point.devices else None
