from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from pathlib import Path

import pytest

import results
from caraml.__main__ import main
from record.files import csv_rows
from record.model import Record
from record.part import as_json
from results.find import records
from results.find.records import RecordError, read_record, write_record
from results.tests import builder
from results.tests.builder import make_record
from results.tests.of_dicts import find_records

STORED = Path(results.__file__).with_name("records")


def test_a_record_survives_writing_and_reading(tmp_path):
    write_record(make_record(), tmp_path / "result.json")
    assert read_record(tmp_path / "result.json") == make_record()
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    # A line for each entry, in order: for `diff`, and for a job's script, which looks for its status.
    lines = (tmp_path / "result.json").read_text().splitlines()
    names = [line.split('"')[1] for line in lines if line.startswith(' "')]
    assert names == sorted(make_record())
    assert ' "status": "ok",' in lines


GOOD = builder.result()
BAD = [
    ('{"schema_version": 4, "status"', "cannot be read as a record"),
    ('{"schema_version": 3}', "schema version 3, and this release reads 4 alone: read it with release 1.0"),
    ('{"schema_version": 4, "benchmark": "x"}', "lacks 'system'"),
    ({"status": "splendid"}, "status is 'splendid', but must be one of ok, "),
    ({"energy": None}, "lacks energy"),
    ({"layout": {}}, "lacks layout.num_devices, layout.num_nodes, layout.global_batch_size"),
    ({"layout": GOOD["layout"] | {"num_devices": 10**12}}, "must be a whole number from 0 to 10^9"),
    ({"metrics": {"tokens_per_s": "fast"}}, "metrics: tokens_per_s is 'fast', but must be a number from 0 on"),
    ({"metrics": {"tokens_per_s": float("nan")}}, "NaN is not a number"),
    ({"losses": [1e30]}, "losses 1 is 1e+30, but must be a number"),
    ({"provenance": {"environment": {"OMP_NUM_THREADS": 4}}}, "provenance, environment: OMP_NUM_THREADS is 4"),
    ({"windows": [GOOD["windows"][0] | {"kind": "other"}]}, "windows 1: kind is 'other', but must be one of"),
    ({"energy": GOOD["energy"] | {"channels": []}}, "energy: channels is [], but must be a list that is not empty"),
    ({"metrics": {"comparable": 0}}, "metrics: comparable is 0, but must be true or false"),
    ({"regions": {"measured": {"regions": {"IO": {"from": [1]}}}}}, "regions, measured, regions, IO: from is [1], but"),
    (b"\xff\xfe\x00", "cannot be read as a record"),
    ({"system": "\ud800"}, "cannot be read as a record"),
    ("[" * 100_000 + "]" * 100_000, "cannot be read as a record"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_a_file_that_is_no_record_is_named_and_skipped(tmp_path, text, message):
    builder.store(tmp_path / "sweep", [builder.result(run_id="good")])
    text = json.dumps(GOOD | text) if isinstance(text, dict) else text
    (tmp_path / "result.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    records, skipped = find_records([tmp_path])
    assert [record["run_id"] for record in records] == ["good"]
    [sentence] = skipped
    assert message in sentence
    assert str(tmp_path / "result.json") in sentence
    assert "\n" not in sentence


def _closed(folder, monkeypatch):
    """As if a folder belonged to someone else: this process may be the administrator's, who can enter any."""
    scandir = os.scandir

    def refuse(path):
        if os.path.realpath(path) == os.path.realpath(folder):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    return "Permission denied"


def _dangling(folder, monkeypatch):
    shutil.rmtree(folder)
    folder.symlink_to(folder.with_name("gone"))
    return "it is a link that cannot be followed"


@pytest.mark.parametrize("hide", [_closed, _dangling])
def test_what_cannot_be_entered_is_named_and_its_runs_are_missing(tmp_path, monkeypatch, capsys, hide):
    first, second = builder.result(), builder.failed()
    folders = [builder.store(tmp_path / name, [record]) for name, record in (("a", first), ("b", second))]
    inner = next((tmp_path / "b").rglob("result.json")).parent
    reason = hide(inner, monkeypatch)
    found = find_records([tmp_path])
    assert len(found.records) == 1 and len(found.skipped) == 1
    assert f"({reason}): runs in it are missing" in found.skipped[0]
    needs = tmp_path / "needs.yaml"
    needs.write_text("workloads: {gpt: {benchmark: llm_training}}\nmust: [{of: gpt, what: failed_runs, at_most: 0}]\n")
    assert main(["accept", *map(str, folders), "--requirements", str(needs)]) == 3
    assert "runs are missing" in capsys.readouterr().out


def test_runs_behind_links_count_once(tmp_path):
    builder.store(tmp_path / "elsewhere", [builder.result()])
    (tmp_path / "sweep").mkdir()
    for name in ("moved", "twice"):
        (tmp_path / "sweep" / name).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "sweep" / "loop").symlink_to(tmp_path / "sweep")
    found = find_records([tmp_path / "sweep"])
    assert len(found.records) == 1 and not found.skipped


def test_a_file_may_be_given_and_is_told_with_its_content(tmp_path):
    builder.store(tmp_path, [builder.result(), builder.result()])
    path = tmp_path / "000001_benchmark" / "work" / "result.json"
    [record], [] = find_records([path])
    assert record["file"] == {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def test_a_run_that_is_found_twice_counts_once(tmp_path):
    builder.store(tmp_path / "a", [builder.result()])
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    builder.store(tmp_path / "c", [builder.result()])
    records, skipped = find_records([tmp_path])
    assert len(records) == 2
    [first, second] = sorted(tmp_path.glob("[ab]/*/*/result.json"))
    assert skipped == [f"{first} and {second} are the same record: it counts once"]


def test_two_records_of_one_run_with_different_content_are_refused(tmp_path):
    builder.store(tmp_path / "a", [builder.result(run_id="1", tokens_per_s=100.0)])
    builder.store(tmp_path / "b", [builder.result(run_id="1", tokens_per_s=200.0)])
    with pytest.raises(RecordError, match="are records of one run with different content"):
        find_records([tmp_path])


def test_a_run_is_known_by_its_windows_whatever_it_is_called(tmp_path):
    one = builder.result(tokens_per_s=123.0)
    copies = (one | {"run_id": run_id} for run_id in ("1", "", "2"))
    builder.store(tmp_path, [*copies, builder.result(tokens_per_s=125.0)])
    records, skipped = find_records([tmp_path])
    assert [record["metrics"]["tokens_per_s"] for record in records] == [123.0, 125.0]
    assert len(skipped) == 2
    assert all(sentence.endswith("are the same record: it counts once") for sentence in skipped)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"boot_id": "boot"}, {"boot_id": "another"}),
        ({"boot_id": "boot"}, {"boot_id": "boot", "start_s": builder.IDLE_S + 1e-3}),
        ({"boot_id": "", "hostname": "n1"}, {"boot_id": "", "hostname": "n2"}),
    ],
)
def test_runs_of_other_windows_are_repeats(tmp_path, one, other):
    records = [builder.result(), builder.result()]
    for record, changes in zip(records, (one, other), strict=True):
        record["windows"][0] |= changes
        record["devices"][0]["hostname"] = record["windows"][0]["hostname"]
    builder.store(tmp_path, records)
    assert len(find_records([tmp_path]).records) == 2


def timed(times_s, **changes):
    """A run of its own name and windows, with steps of these times."""
    return builder.result(tokens_per_s=16384.0, step_times_s=times_s, **changes)


def times_of(seed, steps=60, digits=17):
    chance = random.Random(seed)
    return [round(chance.gauss(1.0, 0.002), digits) for _ in range(steps)]


ONE, OTHER = times_of(1), times_of(2)


@pytest.mark.parametrize(
    "copy",
    [
        [*OTHER[:29], *ONE[29:]],
        ONE[:20],
        sorted(ONE),
    ],
    ids=["less than half", "shorter", "in another order"],
)
def test_a_run_is_known_by_most_of_its_steps(tmp_path, copy):
    builder.store(tmp_path, [timed(ONE), timed(OTHER), timed(copy)])
    with pytest.raises(RecordError, match=r"000000_.*000002_.* are records of one run with different content"):
        find_records([tmp_path])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ONE, OTHER),
        (ONE, [*ONE[:30], *OTHER[30:]]),
        (times_of(1, 400, digits=4), times_of(2, 40, digits=4)),  # of a clock so coarse that runs share times by chance
    ],
    ids=["others", "half", "coarse and shorter"],
)
def test_runs_of_other_steps_are_repeats(tmp_path, one, other):
    builder.store(tmp_path, [timed(one), timed(other)])
    records, skipped = find_records([tmp_path])
    assert (len(records), skipped) == (2, [])


@pytest.mark.parametrize(
    ("ids", "boots", "start_s", "counted"),
    [
        (("GPU-1", "GPU-1"), ("b", "b"), 30.0, 0),
        (("GPU-1 0000:C1:00.0", "0000:c1:00.0"), ("b", "b"), 30.0, 0),  # as PyTorch and TensorFlow know one on AMD
        (("GPU-1", "GPU-1"), ("b", "c"), 30.0, 2),
        (("GPU-1", "GPU-1"), ("b", "b"), builder.IDLE_S + builder.WINDOW_S, 2),
        (("", ""), ("b", "b"), 30.0, 0),
    ],
)
def test_two_runs_are_not_measured_on_one_device_at_once(tmp_path, ids, boots, start_s, counted):
    records = [builder.result(), builder.result()]
    for record, device_id, boot_id in zip(records, ids, boots, strict=True):
        record["devices"][0]["device_id"] = device_id
        record["windows"][0]["boot_id"] = boot_id
        record["devices"][0]["cpus"] = "0-3"
        record["config"]["compute"]["device"] = "gpu" if device_id else "cpu"
    records[1]["windows"][0] |= {"start_s": start_s, "end_s": start_s + builder.WINDOW_S}
    builder.store(tmp_path, records)
    found = find_records([tmp_path])
    assert len(found.records) == counted
    assert ["measured on one device at the same time" in one for one in found.skipped] == [True] * (not counted)


@pytest.mark.parametrize(
    ("starts_s", "cpus", "counted"),
    [
        ((0.0, 10.0, 50.0), ("0-3", "0-3", "0-3"), []),  # the first overlaps both others, which are apart
        ((0.0, 10.0, 50.0), ("0-3", "0-3", "4-7"), [2]),
        ((0.0, 10.0, 90.0), ("0-3", "4-7", "0-7"), [0, 1, 2]),
    ],
)
def test_each_pair_of_runs_at_once_is_found(starts_s, cpus, counted, tmp_path):
    made = [builder.result(f"S{number}") for number in range(3)]
    for record, start_s, text in zip(made, starts_s, cpus, strict=True):
        record["devices"][0]["cpus"] = text
        length_s = builder.WINDOW_S if start_s == 0 else 30.0
        record["metrics"] = {name: value for name, value in record["metrics"].items() if name == "comparable"}
        record |= {"status": "failed", "step_times_s": []}
        record["windows"][0] |= {"boot_id": "b", "start_s": start_s, "end_s": start_s + length_s}
    builder.store(tmp_path, made)
    found = records.find_records([tmp_path])
    assert [record.system for record in found.records] == [f"S{number}" for number in counted]
    lost = {f"S{number}" for number in range(3)} - {f"S{number}" for number in counted}
    assert all(any(one.may_be_of(system) for one in found.skipped) for system in lost)


def test_a_name_that_would_be_a_row_or_a_colour_of_its_own_is_escaped(tmp_path):
    made = builder.failed(error="\x1b[31mno memory\nfor it")
    made["config"] = {"run": {"note": "a\rb"}}
    builder.store(tmp_path, [made])
    [record] = find_records([tmp_path]).records
    assert record["error"] == "\\x1b[31mno memory\\nfor it"
    assert record["config"] == {"run": {"note": "a\\rb"}}


def test_two_units_in_one_benchmark_are_refused(tmp_path):
    builder.store(tmp_path, [builder.result(), builder.in_units(builder.result(), "sequences")])
    with pytest.raises(RecordError, match=r"counts tokens and .* counts sequences"):
        find_records([tmp_path])


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(RecordError, match="does not exist"):
        find_records([tmp_path / "none"])


@pytest.mark.parametrize("key", ["is_good", "of", "ADDED", "from", "__class__"])
@pytest.mark.parametrize("place", ["", "metrics", "energy"])
def test_a_key_of_any_name_is_kept_and_changes_nothing_else(tmp_path, key, place):
    record = builder.result()
    (record[place] if place else record)[key] = "text"
    assert as_json(Record.of(record)) == record
    builder.store(tmp_path, [record])
    [found] = find_records([tmp_path]).records
    assert (found[place] if place else found)[key] == "text"
    assert main(["table", "--repeats", str(tmp_path)]) == 0


@pytest.mark.parametrize("key", ["file", "corrected"])
def test_what_the_reader_adds_is_not_taken_from_a_file(tmp_path, key):
    builder.store(tmp_path, [builder.result(**{key: ["of someone else"]})])
    [found] = find_records([tmp_path]).records
    assert "corrected" not in found and found["file"]["path"].startswith(str(tmp_path))
    assert main(["table", "--repeats", str(tmp_path)]) == 0


def planned(folder, runs, results):
    """A sweep whose plan has some runs at each point, with results of some runs at each."""
    words = '<parameter name="runs_in_job"><value>{}</value></parameter>'
    points = (f'<workpackage id="{number}">{words.format(one)}</workpackage>' for number, one in enumerate(runs))
    folder.mkdir()
    (folder / "workpackages.xml").write_text(f"<workpackages>{''.join(points)}</workpackages>")
    for number, one in enumerate(results):
        for run in range(1, one + 1):
            work = folder / f"{number:06d}_benchmark" / "work" / (f"run_{run}" if run > 1 else "")
            work.mkdir(parents=True, exist_ok=True)
            (work / "result.json").write_text(
                json.dumps(builder.result(batch=8 * (number + 1), tokens_per_s=100.0 + run))
            )
    return folder


@pytest.mark.parametrize(
    ("runs", "results", "words"),
    [
        ((1, 2), (1, 2), ""),
        ((1, 2), (1, 1), "2 of 3 planned runs"),
        ((1, 1, 2), (3, 1), "2 of 4 planned runs"),  # more at one point replaces none of another
        ((10**6,), (1,), "1 of 1000000 planned runs"),
    ],
)
def test_a_plan_has_no_more_runs_than_are_found(tmp_path, runs, results, words):
    found = find_records([planned(tmp_path / "000000", runs, results)])
    assert [words in one for one in found.skipped] == [True] * bool(words)


@pytest.mark.parametrize("row", ["1,2,3", "1", '"1,5",2,3'])
def test_a_row_of_a_csv_file_with_other_fields_than_titles_is_refused(tmp_path, row):
    (tmp_path / "a.csv").write_text(f"a,b\n1,2\n{row}\n")
    with pytest.raises(ValueError, match=r"a\.csv, line 3: [13] fields below 2 titles"):
        csv_rows(tmp_path / "a.csv")
