"""Whether a run learns as reference runs do: its losses against theirs, quarter by quarter of the reference's steps.

The runs of a reference have one key and differ in their seeds. Another run of this key lies, in each quarter, beyond
the limits of their prediction interval by chance with a probability of ERROR / QUARTERS on each side (Hahn and Meeker
1991, Statistical Intervals, section 4.7; Bonferroni over the quarters).
"""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from record.files import RecordError, csv_rows
from record.findings import Finding, finding
from record.model import Learnt, Record
from record.part import is_number
from record.values import count, value_at
from results.points.estimate import CONFIDENCE, students_t
from results.points.facts import flat, own_name, point_of

REFERENCES = Path(__file__).with_suffix(".csv")  # made by 'caraml reference' from runs with the tag gate
QUARTERS = 4
ERROR = 0.001  # of a sound run that is found wrong, on each side: 20 of 20 sound runs pass with a probability of 0.96
CHOICES = round((1 - CONFIDENCE) / 2 / (ERROR / QUARTERS))  # of students_t, for that error in a quarter
FEWEST_RUNS = 5  # Student's quantile is 10 with 5 runs and 16 with 4, with which little would be found
PRECISIONS = ("fp32", "bf16")
IDENTITY = ("text_sha256", "tokens", "files_sha256")  # of data from files, in provenance.data
DIGITS = 12  # of a hash, as text
NOT_JUDGED, HOW = "not judged", {"learns_worse": "worse", "learns_faster": "too fast"}


class Key(NamedTuple):
    """All that determines what a run learns, but the seed of its weights; a person can read why two differ."""

    workload: str
    model: str
    sample: str
    data: str
    global_batch: int
    training: str


class Reference(NamedTuple):
    """Mean losses of reference runs in each quarter of their steps, and the standard deviations between runs."""

    key: Key
    steps: int
    runs: int
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    source: str
    file: str = ""  # a site's own; empty for the suite's

    def half(self, quarter: int) -> float:
        """Return the half-width of the prediction interval of another run in a quarter."""
        return students_t(self.runs - 1, CHOICES) * self.deviations[quarter] * math.sqrt(1 + 1 / self.runs)


NUMBERS = [f"{name}_{quarter + 1}" for name in ("mean", "sd") for quarter in range(QUARTERS)]
COLUMNS = (*Key._fields, "steps", "runs", *NUMBERS, "source")


def key_of(record: Record) -> Key:
    """Return the key of a run; copies that ran at once each trained on a batch of their own."""
    point, options = point_of(record), record.config.get("training") or {}
    training = dict(sorted((name, text) for name, text in flat(options) if name != "seed"))
    if (calls := record.option("compute.steps_per_call") or 1) != 1:  # losses are those of calls
        training["steps_per_call"] = str(calls)
    described = [(name, value_at(record, f"provenance.data.{name}")) for name in IDENTITY]
    data = [point.data, *(f"{name} {str(value)[:DIGITS]}" for name, value in described if value is not None)]
    return Key(
        point.benchmark,
        point.model,
        point.sample,
        ", ".join([*data, *(["in turns"] if record.option("turns.effective") else [])]),
        point.global_batch // (point.copies or 1),
        ", ".join(f"{own_name(name)}={text}" for name, text in training.items()),
    )


def quarter_of(steps: int, quarter: int) -> slice:
    """Return the places of a quarter's losses."""
    return slice(steps * quarter // QUARTERS, steps * (quarter + 1) // QUARTERS)


def means_of(losses: Sequence[float | None], steps: int) -> tuple[float, ...]:
    """Return the mean loss of each quarter of so many steps; infinite with a loss that is not finite."""
    known = [math.inf if loss is None else loss for loss in losses]
    return tuple(statistics.fmean(known[quarter_of(steps, quarter)]) for quarter in range(QUARTERS))


def learnt_of(record: Record, references: Mapping[Key, Reference]) -> Learnt | None:
    """Return what a run's losses show; None if there is no reference, and the run does not ask for one by its data."""
    if not record.is_good:
        return None
    key = key_of(record)
    reference = references.get(key)
    if reference is None:
        asks = record.option("training.data_seed") is not None
        return Learnt(how=NOT_JUDGED, findings=(_why_none(key, references),)) if asks else None
    if (steps := len(record.losses)) < reference.steps:
        return Learnt(how=NOT_JUDGED, findings=(finding("learning_short", steps=steps, wanted=reference.steps),))
    loss, findings = means_of(record.losses, reference.steps)[-1], list(_deviations(record, reference))[:1]
    how = HOW[findings[0].kind] if findings else "as the reference"
    if reference.file:
        findings.append(finding("learning_by_site", file=reference.file, source=reference.source))
    return Learnt(
        how=how,
        loss=loss if math.isfinite(loss) else None,
        reference=reference.means[-1],
        most=reference.means[-1] + reference.half(QUARTERS - 1),
        findings=tuple(findings),
    )


def _deviations(record: Record, reference: Reference) -> Iterator[Finding]:
    """Yield where a run is beyond the limits, later steps first: at its end, if it has more steps, and in quarters."""
    own, further = means_of(record.losses, reference.steps), len(record.losses) - reference.steps
    end = means_of(record.losses[further:], reference.steps)[-1]
    places = [(QUARTERS - 1, further, end), *((quarter, 0, own[quarter]) for quarter in reversed(range(QUARTERS)))]
    for quarter, skipped, loss in places:
        mean, half, steps = reference.means[quarter], reference.half(quarter), quarter_of(reference.steps, quarter)
        is_worse, is_faster = loss > mean + half, loss < mean - half and not skipped
        if is_worse or is_faster:
            limits = {"loss": loss, "mean": mean, "limit": mean + half if is_worse else mean - half}
            where = {"first": skipped + steps.start + 1, "last": skipped + steps.stop}
            yield finding("learns_worse" if is_worse else "learns_faster", **where, **limits, runs=reference.runs)


def _why_none(key: Key, references: Mapping[Key, Reference]) -> Finding:
    alike = [_difference(key, other, "the nearest reference") for other in references if other[:2] == key[:2]]
    why = min(alike, key=lambda words: words.count(";"), default=f"there is none of {key.workload} {key.model}")
    return finding("learning_unknown", why=why)


def _difference(key: Key, other: Key, whose: str) -> str:
    """Return in what a key differs from another one, in words; empty if it does not."""
    named = zip((name.replace("_", " ") for name in Key._fields), key, other, strict=True)
    return "; ".join(f"its {name} is {a}, that of {whose} {b}" for name, a, b in named if a != b)


def reference_of(records: Sequence[Record]) -> Reference:
    """Return the reference that runs make; raises RecordError for runs that cannot make one."""
    trained = [record for record in records if record.losses or not record.is_good]
    for record in trained:
        if not record.is_good:
            raise RecordError(f"{record.file.path} is a run that {record.status}: leave it out, or repeat it")
        if record.precision not in PRECISIONS:
            raise RecordError(
                f"{record.file.path} is in {record.precision}, and a reference is in {' or '.join(PRECISIONS)}: leave "
                "it out"
            )
        if None in record.losses:
            raise RecordError(f"{record.file.path} has a loss that is not finite: leave it out")
        if why := _difference(key_of(record), key_of(trained[0]), trained[0].file.path):
            raise RecordError(f"{record.file.path} learns something else ({why}): give runs that differ in seeds alone")
    seeds = [record.option("training.seed") for record in trained]
    if len(set(seeds)) < len(seeds) or None in seeds:
        raise RecordError(f"the seeds of the runs are {seeds}, and each must be another one: repeat runs with --seed N")
    if len(trained) < FEWEST_RUNS:
        raise RecordError(f"{count(len(trained), 'run')} with losses found, {FEWEST_RUNS} needed: make more runs")
    # A run with a shorter warm-up has these steps, too.
    asked = [(len(one.losses), one.option("window.measured_steps")) for one in trained]
    steps = int(min(min(length, steps) if is_number(steps) else length for length, steps in asked))
    if steps < QUARTERS:
        raise RecordError(f"the shortest run has {count(steps, 'step')}, {QUARTERS} needed: measure more steps")
    quarters = list(zip(*(means_of(record.losses, steps) for record in trained), strict=True))
    systems, kinds = (sorted({vars(one)[name] for one in trained}) for name in ("system", "precision"))
    made = Reference(
        key_of(trained[0]),
        steps,
        len(trained),
        tuple(map(statistics.fmean, quarters)),
        tuple(map(statistics.stdev, quarters)),
        f"own runs on {' and '.join(systems)} in {' and '.join(kinds)}",
    )
    if why := _wrong(made):
        raise RecordError(f"the runs make no reference ({why}): repeat runs with another --seed")
    return made


def _wrong(one: Reference) -> str:
    """Return why a run cannot be judged by a reference; empty if it can."""
    if one.steps < QUARTERS or one.runs < FEWEST_RUNS:
        return f"{count(one.steps, 'step')} of {count(one.runs, 'run')}, at least {QUARTERS} of {FEWEST_RUNS} needed"
    is_known = all(map(math.isfinite, (*one.means, *one.deviations)))
    return "" if is_known and min(one.deviations) > 0 else "a mean or standard deviation is no number, or not above 0"


def read_references(*paths: Path) -> dict[Key, Reference]:
    """Return references by key, of which those of earlier files go first; raises RecordError."""
    found: dict[Key, Reference] = {}
    for path in paths:
        try:
            rows, own = csv_rows(path, COLUMNS), "" if path == REFERENCES else path.name
            found = {one.key: one._replace(file=own) for one in map(_of_row, rows)} | found
        except (OSError, ValueError, TypeError, csv.Error) as error:
            raise RecordError(
                f"{path} cannot be read as references of losses ({error}): make it with 'caraml reference'"
            ) from error
    return found


def _of_row(row: Mapping[str, str]) -> Reference:
    workload, model, sample, data, batch, training = (row[name] for name in Key._fields)
    key = Key(workload, model, sample, data, int(batch), training)
    numbers = tuple(float(row[name]) for name in NUMBERS)
    sizes = int(row["steps"]), int(row["runs"])
    made = Reference(key, *sizes, numbers[:QUARTERS], numbers[QUARTERS:], row["source"])
    if why := _wrong(made):
        raise ValueError(f"{key.workload} {key.model}: {why}")
    return made


def as_csv(references: Iterable[Reference]) -> str:
    """Return references as the text of a file, with six digits of each loss."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in sorted(references):
        numbers = (f"{value:.6g}" for value in (*one.means, *one.deviations))
        writer.writerow([*one.key, one.steps, one.runs, *numbers, one.source])
    return text.getvalue()
