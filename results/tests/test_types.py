"""No value of a wrong type ends a command: its record is left out with one sentence, or harms nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from caraml.cli import main
from results.tests.of_dicts import contradictions, find_records

ROOT = Path(__file__).parents[2]
[REAL] = (ROOT / "results" / "records").glob("H200/llm_800M_micro4_batch16_*/result.json")
SOME: tuple[Any, ...] = ("x", None, -1)
OTHERS: tuple[Any, ...] = (5, [], {}, True)


def full() -> dict[str, Any]:
    """A good record with all that one can have."""
    record: dict[str, Any] = json.loads(REAL.read_text())
    [window], energy, metrics = record["windows"], record["energy"], record["metrics"]
    length_s = window["end_s"] - window["start_s"]
    record["windows"].append(
        window | {"kind": "effective", "start_s": window["end_s"], "end_s": window["end_s"] + length_s}
    )
    names = ("tokens_per_s", "tokens_per_s_per_device")
    metrics |= {f"effective_{name}": metrics[name] for name in names}
    metrics |= {"effective_tokens": metrics["measured_tokens"], "effective_s": metrics["measured_s"]}
    record["energy_effective"] = deepcopy(energy)
    record["slurm"] = {"energy_wh": 5.0}
    return record


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a record; of a list the first item."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, one in items:
        yield from paths(one, (*at, key))


def put(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    inside = changed = deepcopy(record)
    for key in path[:-1]:  # which may have dots
        inside = inside[key]
    inside[path[-1]] = value
    return changed


def told_apart(record: Any, number: int) -> Any:
    """The same as a run of its own, with a name, a clock, step times and losses that no other one has."""
    if isinstance(record, dict):
        record = {**record, "run_id": f"{number:06d}"} if isinstance(record.get("run_id"), str) else record
        for window in record["windows"] if isinstance(record.get("windows"), list) else []:
            if isinstance(window, dict) and isinstance(window.get("boot_id"), str):
                window["boot_id"] += str(number)
        for name in ("step_times_s", "losses"):
            if isinstance(values := record.get(name), list):
                record[name] = [one * (1 + number * 1e-12) if type(one) is float else one for one in values]
    return record


def stored(folder: Path, records: Iterator[Any]) -> Path:
    for number, record in enumerate(records):
        place = folder / f"{number:06d}"
        place.mkdir(parents=True)
        (place / "result.json").write_text(json.dumps(told_apart(record, number)))
    return folder


OF_ITS_POINT = ("config", "data")  # with others, requirements have no point


@pytest.fixture(scope="module", params=[SOME, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=["some", "others"])
def odd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of records with an odd value each that are read all the same."""
    record, folder = full(), tmp_path_factory.mktemp("types")
    assert contradictions(record) == []
    changed = (
        put(record, path, value) for path in paths(record) if path[:2] != OF_ITS_POINT for value in request.param
    )
    found = find_records([stored(folder / "all", changed)])
    read = [json.loads(Path(one["file"]["path"]).read_text()) for one in found.records]
    assert 70 * len(request.param) < len(read) < 0.5 * (len(read) + len(found.skipped))
    assert not any("\n" in sentence for sentence in found.skipped)
    return stored(folder / "odd", iter(read))


@pytest.mark.parametrize(
    "words",
    [
        ["table"],
        *(["table", f"--{form}"] for form in ("repeats", "regions")),
        ["accept", "--requirements", str(ROOT / "examples/requirements.yaml")],
        ["compare", str(REAL.parent)],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_no_value_of_a_wrong_type_ends_a_command(odd, words, capsys):
    assert main([*words, str(odd)]) in (0, 1, 3), capsys.readouterr().err[-1000:]
