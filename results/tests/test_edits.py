"""Edit each field of a run of each shape: edits.csv lists the command that detects the edit.

Of a derived number, the table shows what follows from the others, whatever is stored, and `verify` names the edit.
"""

from __future__ import annotations

import copy
import csv
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from record.part import as_json
from results.exchange.archive import CHECKSUMS, verify
from results.find.records import find_records
from results.tests.builder import SHAPES

SEEN = Path(__file__).with_name("edits.csv")  # shape, field, and the first command that sees each edit of it
# Why nobody sees an edit, by the beginning of a field's name.
REASONS = {
    "benchmark model system sample data variant run_id provenance. serving.clock_error_s": "nothing else repeats it",
    "devices. node_check.devices. node_check.figures.name node_check.figures.rank": "nothing else repeats it",
    "config.": "an option that no number of this run depends on",
    "windows.start_epoch_s windows.end_epoch_s": "the made-up traces have no wall clock",
    "losses step_times_s node_check.figures.values": "one of many readings, and within the range of the others",
    "metrics.num_parameters": "of a model that workload.yaml does not know",
    "metrics.client_ metrics.server_ metrics.cpu_throttled_percent": "seen in processes that leave nothing else",
    "metrics.checkpoint_": "the least and the most only bound the mean; a cold cache leaves nothing else",
}
DERIVED = "derived"
# Numbers that an edit must not change in what is shown.
OF_OTHERS = {
    *(f"metrics.{name}" for name in ("tokens_per_s", "tokens_per_s_per_device", "tflops_per_device", "mfu")),
    *(f"metrics.{name}" for name in ("effective_tokens_per_s", "requests_per_s", "total_tokens_per_s")),
    *(f"energy.{name}" for name in ("energy_wh", "avg_power_w", "tokens_per_wh", "uncertainty_wh", "power_scope")),
    *(f"energy.{name}" for name in ("energy_wh_per_device", "j_per_output_token", "idle_power_w", "window_s")),
    *("fill.slowest", "fill.spread_percent", "precision"),
}
OF_NO_RUN = ("failed", "without_energy")  # shapes that count nowhere


def leaves(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value that is no object or list; of a list, of its first item."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*at, key))
    elif isinstance(value, list) and value:
        yield from leaves(value[0], (*at, 0))
    else:
        yield at


def edits(value: Any) -> list[Any]:
    """Return other values of the same kind."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + max(1, value // 30)]
    if isinstance(value, float):
        return [0.5 * value, 1.03 * value] if value else [0.01]
    return [f"{value}x"] if isinstance(value, str) else [1.0] if value is None else [["x"]]


def at(content: Any, path: tuple[Any, ...]) -> Any:
    """Return what has the last key of a path, or None."""
    for key in path[:-1]:
        known = content and (key == 0 if isinstance(content, list) else key in content)
        content = content[key] if known else None
    return content if content and (isinstance(content, list) or path[-1] in content) else None


def seen_by(folder: Path, files: dict[Path, Any], before: Any, path: tuple[Any, ...] = (), value: Any = None) -> str:
    """Edit a value in each file of a run that has it; return the first command that sees it, or "nobody".

    `before` is what is shown without an edit; DERIVED if nothing else is, and `verify` sees it.
    """
    for name, content in files.items():
        edited = copy.deepcopy(content)
        if path and (inner := at(edited, path)) is not None:
            inner[path[-1]] = value
        name.write_text(json.dumps(edited))
    (folder / CHECKSUMS).unlink(missing_ok=True)
    sums = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}
    (folder / CHECKSUMS).write_text("".join(f"{text}  {path.relative_to(folder)}\n" for path, text in sums.items()))
    found = find_records([folder])
    if found.skipped:
        return "table"
    shown = [as_json(record) for record in found.records]
    if not verify(folder).problems:
        return "nobody"
    return "verify" if shown != before else DERIVED


@pytest.mark.parametrize(
    "shape", [pytest.param(name, marks=[] if name in ("training", "served") else pytest.mark.slow) for name in SHAPES]
)
def test_who_sees_an_edit_of_a_field(shape, tmp_path):
    with SEEN.open() as file:
        listed = {(row["shape"], row["field"]): row["seen_by"] for row in csv.DictReader(file)}
    folder = SHAPES[shape](tmp_path / shape, shape)
    files = {path: json.loads(path.read_text()) for path in [folder / "result.json", *folder.rglob("record.json")]}
    result = files[folder / "result.json"]
    before = [as_json(record) for record in find_records([tmp_path]).records]
    assert seen_by(tmp_path, files, before) == "nobody"
    seen = {}
    for path in leaves(result):
        value = at(result, path)[path[-1]]
        found = {seen_by(tmp_path, files, before, path, other) for other in edits(value)}
        field = ".".join(str(key) for key in path if key != 0)
        seen[shape, field] = next(one for one in ("nobody", "verify", "table", DERIVED) if one in found)
    if os.environ.get("UPDATE_STORED"):
        with SEEN.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("shape", "field", "seen_by"))
            others = {key: by for key, by in listed.items() if key[0] != shape}
            writer.writerows((*key, by) for key, by in sorted((others | seen).items()))
    else:
        assert seen == {key: by for key, by in listed.items() if key[0] == shape}


def test_each_edit_that_nobody_sees_has_a_reason():
    known = tuple(name for names in REASONS for name in names.split())
    with SEEN.open() as file:
        rows = [row for row in csv.DictReader(file) if row["seen_by"] == "nobody" and row["shape"] not in OF_NO_RUN]
    assert [row for row in rows if not row["field"].startswith(known)] == []


def test_an_edit_of_a_derived_number_changes_nothing_that_is_shown():
    with SEEN.open() as file:
        rows = [row for row in csv.DictReader(file) if row["field"] in OF_OTHERS and row["shape"] not in OF_NO_RUN]
    assert {row["field"] for row in rows} == OF_OTHERS
    assert [row for row in rows if row["seen_by"] != DERIVED] == []
