"""Records as tables in several formats."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from jpwr.messages import near
from results.record.records import Record, RecordError
from results.record.values import devices_text, sort_key, value_at
from results.show.tables.fit import Shown, View, aligned, view
from results.workloads import batch_text

FORMS = ("text", "csv", "markdown", "latex", "html")


class Column(NamedTuple):
    """One column: the path of its value in a record, and its format."""

    title: str
    path: str  # keys from the top of the record, joined by dots, or several paths joined by |; {unit} is its work unit
    form: str = ""  # format specification of a number
    shown: Shown = Shown.MORE


COLUMNS = (
    Column("system", "system", shown=Shown.ALWAYS),
    Column("model", "model", shown=Shown.ALWAYS),
    Column("precision", "precision", shown=Shown.DIFFERS),
    Column("data", "data", shown=Shown.DIFFERS),
    Column("sample", "sample", shown=Shown.WITHIN),
    Column("comparable", "metrics.comparable", shown=Shown.DIFFERS),
    Column("devices", "layout.num_devices", shown=Shown.ALWAYS),
    Column("global batch", "layout.global_batch_size", shown=Shown.ALWAYS),
    Column("micro batch", "layout.micro_batch_size", shown=Shown.WITHIN),
    Column("TP", "layout.tensor_parallel_size", shown=Shown.WITHIN),
    Column("PP", "layout.pipeline_parallel_size", shown=Shown.WITHIN),
    Column("CP", "layout.context_parallel_size", shown=Shown.WITHIN),
    Column("EP", "layout.expert_parallel_size", shown=Shown.WITHIN),
    Column("DP", "layout.data_parallel_size", shown=Shown.WITHIN),
    Column("copies", "fill.copies", shown=Shown.DIFFERS),
    Column("options", "variant", shown=Shown.DIFFERS),
    Column("power limit [W]", "energy.power_limit_w", ".0f", shown=Shown.WITHIN),
    Column("clock limit [MHz]", "energy.clock_limit_mhz", ".0f", shown=Shown.WITHIN),
    Column("{unit}/s", "metrics.{unit}_per_s", ".1f", shown=Shown.ALWAYS),
    Column("slowest copy [{unit}/s]", "fill.slowest", ".1f"),
    Column("{unit}/s/device", "metrics.{unit}_per_s_per_device", ".1f"),
    Column("effective {unit}/s", "metrics.effective_{unit}_per_s", ".1f", shown=Shown.ALWAYS),
    Column("EPCC's {unit}/s", "metrics.epcc_{unit}_per_s", ".1f"),
    Column("input wait [%]", "metrics.input_wait_percent", ".1f"),
    Column("IO [%]", "metrics.io_percent", ".1f"),
    Column("Comm [%]", "metrics.comm_percent", ".1f"),
    Column("TFLOP/s/device", "metrics.tflops_per_device", ".3f"),
    Column("of achievable [%]", "metrics.achievable_percent", ".1f"),
    Column("avg power [W]", "energy.avg_power_w", ".1f", shown=Shown.ALWAYS),
    Column("energy [Wh/device]", "energy.energy_wh_per_device", ".4f"),
    Column("{unit}/Wh", "energy.{unit}_per_wh", ".0f", shown=Shown.ALWAYS),
    Column("Slurm, whole job [Wh]", "slurm.consumed_energy_wh", ".4f"),  # another source, over a longer time
    Column("power source", "energy.power_source", shown=Shown.DIFFERS),
    Column("status", "status", shown=Shown.ALWAYS),
)

# The titles of the original suite's table of its GPT benchmark, for those who keep its spreadsheets.
CARAML_COLUMNS = (
    Column("JobID", "slurm.job_id"),
    Column("System", "system"),
    Column("Queue", "provenance.environment.SLURM_JOB_PARTITION"),
    Column("Model", "benchmark"),
    Column("ModelSize", "model"),
    Column("Dataset", "data"),
    Column("Nodes", "layout.num_nodes"),
    Column("Devices", "layout.num_devices"),
    Column("GlobalBatchSize", "layout.global_batch_size"),
    Column("PipelineParallel", "layout.pipeline_parallel_size"),
    Column("TensorParallel", "layout.tensor_parallel_size"),
    Column("DataParallel", "layout.data_parallel_size"),
    Column("Time/iteration(s)", "metrics.step_time_median_s", ".2f"),
    Column("{Unit}/second", "metrics.{unit}_per_s", ".2f"),
    Column("Avg_TFLOPs/GPU", "metrics.tflops_per_device", ".2f"),
    Column("Energy/Device(Wh)", "energy.energy_wh_per_device", ".2f"),
    Column("Status", "status"),
)


def name(record: Record) -> str:
    """Return the system, model and devices of a record, as text."""
    small = f", {record.sample}" if value_at(record, "metrics.comparable") is False else ""
    return f"{record.system}, {record.model}{small}, {devices_text(value_at(record, 'layout.num_devices'))}"


def rows(records: Sequence[Record], columns: Sequence[Column] = COLUMNS) -> list[list[str]]:
    """Return the header and one row per record, without empty columns; an unknown value is empty."""
    return record_view(records, columns, everything=True).lines


def _titles(records: Sequence[Record], columns: Sequence[Column]) -> list[str]:
    unit = " or ".join(dict.fromkeys(record.work_unit for record in records))
    return [column.title.format(unit=unit, Unit=unit.capitalize()) for column in columns]


def _text(record: Record, column: Column) -> str:
    value = _value(record, column)
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, list):
        return ", ".join(value)
    return "" if value is None else format(value, column.form if isinstance(value, int | float) else "")


def _value(record: Record, column: Column) -> Any:
    """Return a record's value for a column; None for a measured value of a run that is not good."""
    is_measured = column.path.startswith(("metrics.", "energy."))
    return None if is_measured and not record.is_good else value_at(record, column.path)


def failures(records: Sequence[Record]) -> list[str]:
    """Return a sentence on each record whose status is not ok."""
    return [
        f"{name(record)}, {batch_text(record.benchmark, value_at(record, 'layout.global_batch_size'))}: "
        f"{record.status}: {record.error}"
        for record in sorted(records, key=sort_key)
        if not record.is_good
    ]


def record_view(
    records: Sequence[Record], columns: Sequence[Column] = COLUMNS, everything: bool = False, wanted: Sequence[str] = ()
) -> View:
    """Return the columns of records that a reader needs, and those with the titles `wanted`."""
    lines = [_titles(records, columns), *([_text(record, column) for column in columns] for record in records)]
    return view(lines, shown_of(columns, records, wanted), everything)


def exact_rows(records: Sequence[Record], columns: Sequence[Column] = COLUMNS) -> list[list[Any]]:
    """Return the header and one row per record with every column, and numbers with all digits."""
    numbers = ([_value(record, column) for column in columns] for record in records)
    return [
        _titles(records, columns),
        *([", ".join(one) if isinstance(one, list) else one for one in row] for row in numbers),
    ]


def render_rows(lines: Sequence[Sequence[Any]], form: str) -> str:
    """Return rows, the first of which is the header, in one of FORMS; only csv takes values that are not text."""
    if form == "text":
        return aligned(lines)
    if form == "csv":
        return _csv(lines)
    header, *body = lines
    if form == "markdown":
        escaped = [[field.replace("|", "\\|") for field in line] for line in lines]
        escaped.insert(1, ["---"] * len(header))
        return "\n".join(f"| {' | '.join(line)} |" for line in escaped)
    import pandas

    frame = pandas.DataFrame(body, columns=header)
    if form == "html":
        return str(frame.to_html(index=False, escape=True, border=0))
    return str(frame.to_latex(index=False, escape=True))


def _csv(lines: Sequence[Sequence[Any]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(
        ["" if field is None else field for field in line] for line in lines
    )
    return file.getvalue().rstrip("\n")


class Titled(Protocol):
    """A column of any kind of row."""

    @property
    def title(self) -> str:
        """Heading of the column."""

    @property
    def shown(self) -> Shown:
        """When a table has the column."""


AnyColumn = TypeVar("AnyColumn", bound=Titled)
Row = TypeVar("Row")


def column_of(title: str, columns: Sequence[AnyColumn], records: Sequence[Record]) -> AnyColumn:
    """Return the column with a title or path; raises RecordError if there is none, or more than one."""
    units = sorted({record.work_unit for record in records})

    def names(column: AnyColumn) -> list[str]:
        titles = [column.title.format(unit=unit, Unit=unit.capitalize()) for unit in units]
        return list(dict.fromkeys([*titles, column.title, getattr(column, "path", column.title)]))

    matching = [column for column in columns if title.strip() in names(column)]
    if not matching:
        titles = dict.fromkeys(names(column)[0] for column in columns)
        raise RecordError(f"there is no column {title.strip()!r}: {near(title.strip(), titles)}")
    if len(matching) > 1:
        raise RecordError(f"{len(matching)} columns are called {title.strip()!r}: choose another")
    return matching[0]


def shown_of(columns: Sequence[AnyColumn], records: Sequence[Record], wanted: Sequence[str] = ()) -> list[Shown]:
    """Return when each column is shown: always for those with the titles `wanted`."""
    chosen = [column_of(title, columns, records) for title in wanted]
    return [Shown.ALWAYS if column in chosen else column.shown for column in columns]


def ordered(rows: Sequence[Row], value: Callable[[Row], Any], largest_first: bool) -> list[Row]:
    """Sort by a value of each, texts after numbers, those without a value last."""
    values = [value(row) for row in rows]
    known = [(isinstance(one, str), one, row) for one, row in zip(values, rows, strict=True) if one not in (None, "")]
    known.sort(key=lambda one: one[:2], reverse=largest_first)
    return [row for *_, row in known] + [row for one, row in zip(values, rows, strict=True) if one in (None, "")]


def in_order(
    records: Sequence[Record], title: str, largest_first: bool = False, columns: Sequence[Column] = COLUMNS
) -> list[Record]:
    """Sort records by a column's value; those without a value are last.

    Raises RecordError for an unknown column.
    """
    path = column_of(title, columns, records).path
    return ordered(records, lambda record: value_at(record, path), largest_first)


def select(records: Sequence[Record], conditions: Sequence[str]) -> list[Record]:
    """Return the records that meet every condition, such as `system=A100`: the title of a column and its text.

    Raises RecordError for an unknown column.
    """
    chosen = list(records)
    for condition in conditions:
        title, sign, wanted = condition.partition("=")
        if not sign:
            raise RecordError(f"{condition!r} is not a condition: write COLUMN=TEXT, such as devices=2")
        column = column_of(title, COLUMNS, records)
        chosen = [
            record for record in chosen if wanted.strip() in (str(value_at(record, column.path)), _text(record, column))
        ]
    return chosen


def pivot_rows(records: Sequence[Record], path: str) -> list[list[str]]:
    """Return one value of one system and model: a row per number of devices, a column per global batch size.

    A failed point has its status. Raises RecordError if two records have the same devices and batch.
    """
    cells: dict[tuple[int, int], str] = {}
    for record in records:
        place = (
            value_at(record, "layout.num_devices") or 0,
            value_at(record, "layout.global_batch_size") or 0,
        )
        if place in cells:
            raise RecordError(
                f"two records have {devices_text(place[0])} and batch {place[1]}: choose one system, model and set of "
                "options with --filter"
            )
        value = value_at(record, path)
        good = record.is_good and isinstance(value, int | float)
        cells[place] = f"{value:.6g}" if good else record.status
    if "ok" in cells.values():
        raise RecordError(f"--pivot {path}: a good record has no such number; try metrics.{{unit}}_per_s")
    devices, batches = (sorted({place[axis] for place in cells}) for axis in (0, 1))
    table = [["devices", *(f"batch {batch}" for batch in batches)]]
    table += [[str(number), *(cells.get((number, batch), "") for batch in batches)] for number in devices]
    return table
