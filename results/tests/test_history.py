"""Records in a history: each once, whatever happens, and read as series."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

import results
from caraml.cli import main
from results.exchange.archive import write_archive
from results.history import database
from results.history.series import EFFICIENCY, SPEED, changed_facts, time_d
from results.record.model import as_json
from results.record.records import RecordError, find_records
from results.tests import made_up
from results.tests.made_up import as_read
from results.tests.of_dicts import series_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return made_up.store(tmp_path_factory.mktemp("history") / "runs", made_up.weekly(6))


@pytest.fixture
def db(tmp_path):
    return tmp_path / "history.db"


def add(db, *folders):
    return database.add(db, find_records(folders).records)


def sql(db, statement, *values):
    with closing(sqlite3.connect(db)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def rows(db, table):
    return sql(db, f"SELECT * FROM {table}")


def changed(tmp_path, record, **values):
    """A copy of a record in another folder, with other values."""
    return made_up.store(tmp_path / f"copy{len(list(tmp_path.iterdir()))}", [{**record, **values}])


def test_records_are_added_once_wherever_their_files_are(runs, db, tmp_path):
    assert add(db, runs) == (6, 0, [])
    assert add(db, runs) == (0, 6, [])
    moved = changed(tmp_path, made_up.weekly(1)[0])
    found = database.read([db]).records
    assert [one.file.created[:10] for one in found[:2]] == ["2024-01-01", "2024-01-08"]
    record = as_json(found[0])
    assert add(db, changed(tmp_path, record)) == (0, 1, [])
    assert add(db, changed(tmp_path, record, run_id="another name")) == (0, 1, [])  # its windows are the same
    new, known, [sentence] = add(db, moved)
    assert (new, known) == (0, 1) and sentence.endswith("are records of one run with different content")
    assert add(db, changed(tmp_path, record, slurm={"job_id": "7"})) == (0, 1, [])


def test_what_is_not_finished_is_not_added_and_a_failed_run_without_a_name_once(db, tmp_path):
    folder = made_up.store(tmp_path / "runs", [made_up.failed(), made_up.failed(batch=16, status="unfinished")])
    new, known, [sentence] = add(db, folder)
    assert (new, known) == (1, 0) and sentence.endswith("is not finished: add it when its job has ended")
    assert add(db, folder)[:2] == (0, 1)
    [failed] = database.read([db]).records
    [file, _] = sorted(folder.rglob("result.json"))
    os.utime(file, (1_700_000_000,) * 2)  # another run that left the same content
    assert add(db, folder)[:2] == (1, 0)
    assert abs(time_d(failed.file.created) * 86_400 - time.time()) < 3600


def test_traces_stay_where_they_are_with_their_checksums(db, tmp_path):
    folder = made_up.store_run(tmp_path / "run", made_up.result())
    add(db, folder)
    [[_, path, digest]] = rows(db, "traces")
    assert path == str(folder / "power" / "n1" / "trace.csv")
    assert subprocess.run(["sha256sum", path], capture_output=True, text=True).stdout.startswith(digest)


def test_two_processes_add_at_once(db, tmp_path):
    records = made_up.weekly(60)
    folders = [made_up.store(tmp_path / "one", records[:40]), made_up.store(tmp_path / "other", records[20:])]
    command = [sys.executable, "-m", "caraml", "history", "add", "--db", db]
    started = [subprocess.Popen([*command, folder], stdout=subprocess.PIPE, text=True) for folder in folders]
    told = [process.communicate()[0].split() for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert sum(int(words[1]) for words in told) == len(rows(db, "records")) == 60
    assert len(database.read([db]).records) == 60


def test_an_archive_is_added_if_its_files_are_unchanged(db, tmp_path, capsys):
    made_up.store_run(tmp_path / "sweep" / "run", made_up.result())
    archive = tmp_path / "runs.tar.zst"
    write_archive([tmp_path / "sweep"], tmp_path / "jube", archive)
    arguments = ["history", "import", str(archive), "--db", str(db)]
    assert main(arguments) == 0
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert told == f"{db}: 1 record added, 0 were there\n{db}: 0 records added, 1 were there\n"
    assert rows(db, "records")[0][3] == rows(db, "traces")[0][1] == str(archive)
    assert add(db, tmp_path / "sweep")[:2] == (0, 1)
    content = archive.read_bytes()
    archive.write_bytes(content[: len(content) // 2])
    assert main(arguments) == 2
    assert f"caraml: {archive}" in capsys.readouterr().err


def broken(db, how):
    if how == "missing":
        db.unlink()
    elif how == "no database":
        db.write_text("no database, and longer than the header of one\n" * 10)
    elif how == "damaged":
        content = bytearray(db.read_bytes())
        content[4096:] = b"\xff" * (len(content) - 4096)
        db.write_bytes(content)
    elif how == "one letter":
        db.write_bytes(db.read_bytes().replace(b'"layout":', b'"loyout":', 1))
    else:
        sql(db, how)


@pytest.mark.parametrize(
    "how, words",
    [
        ("missing", "does not exist: 'caraml history add' makes it, --db names another"),
        ("no database", r"is damaged \(file is not a database\): restore a copy"),
        ("damaged", "is damaged"),
        ("one letter", r"is damaged \(the record of .*result.json has changed\): restore a copy"),
        ("PRAGMA user_version = 99", "has schema version 99, this version reads up to 1: use the version of the suite"),
        ("PRAGMA application_id = 7", "is a database of another program: name a history by --db"),
        ("DELETE FROM records", "no record in .*: add some with 'caraml history add'"),
    ],
)
def test_a_history_that_cannot_be_read_is_a_sentence(runs, db, how, words):
    add(db, runs)
    broken(db, how)
    with pytest.raises(RecordError, match=words):
        database.read([db])


def test_a_folder_is_no_history(runs, tmp_path):
    with pytest.raises(RecordError, match="cannot be used, and nothing was added: unable to open database file"):
        add(tmp_path, runs)
    with pytest.raises(RecordError, match="cannot be read: unable to open database file"):
        database.read([tmp_path])


def test_nothing_is_lost_where_the_disk_is_full(runs, db, tmp_path, monkeypatch):
    add(db, runs)
    connect, before = sqlite3.connect, db.read_bytes()

    def full(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.execute("PRAGMA max_page_count = 1")  # SQLite does not go below what is used
        return connection

    monkeypatch.setattr(sqlite3, "connect", full)
    with pytest.raises(RecordError, match="nothing was added: database or disk is full"):
        add(db, made_up.store(tmp_path / "more", made_up.weekly(30, seed=2)))
    monkeypatch.undo()
    assert db.read_bytes() == before
    assert len(database.read([db]).records) == 6


def test_an_older_history_is_converted_when_something_is_added(runs, db, monkeypatch):
    add(db, runs)
    monkeypatch.setattr(database, "MIGRATIONS", (*database.MIGRATIONS, "ALTER TABLE records ADD COLUMN note TEXT"))
    with pytest.raises(RecordError, match="has schema version 1: 'caraml history add' converts it"):
        database.read([db])
    assert add(db, runs)[:2] == (0, 6)
    assert len(database.read([db]).records) == 6


def test_a_record_of_an_older_schema_is_read_and_one_of_a_newer_refused(db, tmp_path):
    old = made_up.weekly(1)[0]
    add(db, changed(tmp_path, old))

    def store(**changes):
        text = json.dumps({**old, **changes}).encode()
        sql(db, "UPDATE records SET record = ?, record_sha256 = ?", text, hashlib.sha256(text).hexdigest())

    store(schema_version=2)
    assert database.read([db]).records[0].schema_version == 3
    store(schema_version=4)
    with pytest.raises(RecordError, match="has records of a newer version of the suite: use that version"):
        database.read([db])


def test_a_frame_has_the_runs_of_histories_and_folders(runs, db, tmp_path):
    add(db, runs)
    other = made_up.store(tmp_path / "other", [made_up.result("A100")])
    frame = results.frame(db, other)
    assert list(frame.system) == ["A100", *["H200"] * 6]
    assert len(results.frame(db)) == 6


def test_runs_of_one_day_are_one_observation(runs):
    records = as_read(made_up.weekly(2, seed=1) + made_up.weekly(2, seed=2))
    [_, speed] = series_of(records)
    assert [one.date for one in speed.observations] == ["2024-01-01", "2024-01-08"]
    assert [len(one.runs) for one in speed.observations] == [2, 2]
    values = [one["metrics"]["tokens_per_s_per_device"] for one in records[::2]]
    assert speed.observations[0].value == pytest.approx((values[0] * values[1]) ** 0.5)
    assert speed.observations[0].variance > 0


def test_a_change_of_driver_on_one_day_parts_its_runs():
    records = as_read(made_up.weekly(2, driver_from=1))
    records[1]["file"]["created"] = "2024-01-01T20:00:00Z"
    [_, speed] = series_of(records)
    assert changed_facts(*speed.observations) == ["driver_version 570.1 → 580.2"]


def test_series_are_of_one_workload_and_one_kind_of_energy():
    one, same, other, estimated, no_time = as_read(made_up.weekly(5))
    del same["config"]["data"]  # an older version did not record it
    other["config"] = {**other["config"], "optimizer": {"learning_rate": 1.0}}
    one["config"] = {**one["config"], "optimizer": {"learning_rate": 2.0}}
    estimated["energy"] = {**estimated["energy"], "power_kind": "estimated"}
    no_time["file"]["created"] = "yesterday"
    found = series_of([one, same, other, estimated, no_time])
    assert sorted((each.quantity, len(each.observations)) for each in found) == [
        (EFFICIENCY, 1),
        (EFFICIENCY, 2),
        (SPEED, 1),
        (SPEED, 3),
    ]
    [node] = made_up.of_scope("node", [one])
    assert {each.kind for each in series_of([node, other]) if each.quantity == EFFICIENCY} == {"Q1, device", "Q2, node"}


def test_times_are_in_utc_unless_they_have_a_zone():
    assert time_d("1970-01-02") == time_d("1970-01-02T00:00:00Z") == time_d("1970-01-02T02:00:00+02:00") == 1.0


def test_the_last_values_are_shown_with_what_changed(db, tmp_path, capsys):
    add(db, made_up.store(tmp_path / "runs", made_up.weekly(12, {}, driver_from=10)))
    assert main(["history", "show", "--db", str(db), "--last", "5"]) == 0
    told = capsys.readouterr().out
    assert "speed [tokens/s/device] |   12 | 2024-03-18" in told
    assert told.count("H200, 2024-03-11: driver_version 570.1 → 580.2") == 1
    assert main(["history", "show", "--db", str(db), "--json", "--filter", "system=H200"]) == 0
    [_, speed] = json.loads(capsys.readouterr().out)
    assert (speed["quantity"], speed["days"], speed["trend_half_width"] > 0) == ("speed", 12, True)
    assert main(["history", "show", "--db", str(db), "--last", "5", "--filter", "system=A100"]) == 2
    assert "no record matches system=A100" in capsys.readouterr().err
    assert main(["history", "show", "--db", str(db), "--last", "0"]) == 2
    assert "--last 0 was asked for: at least 1 day is needed" in capsys.readouterr().err


def test_failed_runs_are_shown(db, tmp_path, capsys):
    add(
        db,
        made_up.store(tmp_path / "runs", [*made_up.weekly(1), *map(made_up.failed, ["H200", "A100"], [1, 1], [64, 8])]),
    )
    assert main(["history", "show", "--db", str(db)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split("|")[-1].strip() for line in told if "+" not in line] == ["failed since", "1", "1", "1"]
    assert main(["history", "show", "--db", str(db), "--json"]) == 0
    [never, *_] = json.loads(capsys.readouterr().out)
    assert [never[name] for name in ("system", "failed", "days", "last")] == ["A100", 1, 0, None]


def test_it_is_exported_as_a_table(runs, db, tmp_path, capsys):
    add(db, runs)
    table = tmp_path / "runs.csv"
    assert main(["history", "export", "--db", str(db), "--format", "csv", "-o", str(table)]) == 0
    assert capsys.readouterr().out == f"{table}: 6 runs\n"
    [first, *_] = csv.DictReader(table.read_text().splitlines())
    assert (first["system"], first["created"]) == ("H200", "2024-01-01 03:04:05+00:00")
    parquet = table.with_suffix(".parquet")
    assert main(["history", "export", "--db", str(db), "--format", "parquet", "-o", str(parquet)]) == 0
    import pandas

    assert list(pandas.read_parquet(parquet).work_per_s) == list(results.frame(db).work_per_s)


def test_it_is_exported_as_performance_logs_of_reframe(db, tmp_path):
    failed = made_up.failed("H200", 1, 64, error="a | b")
    add(db, made_up.store(tmp_path / "runs", [*made_up.weekly(2), failed]))
    assert main(["history", "export", "--db", str(db), "--format", "reframe", "-o", str(tmp_path / "logs")]) == 0
    good, bad = sorted((tmp_path / "logs" / "H200" / "default").iterdir(), key=lambda path: -len(path.name))
    header, first, _ = (line.split("|") for line in good.read_text().splitlines())
    assert header[:2] == ["result", "job_completion_time"]
    assert header[7:12] == ["speed_value", "speed_unit", "speed_ref", "speed_lower_thres", "speed_upper_thres"]
    line = dict(zip(header, first, strict=True))
    assert (line["result"], line["job_nodelist"], line["speed_unit"], line["speed_ref"]) == (
        "pass",
        "n1",
        "tokens/s/device",
        "0",
    )
    assert float(line["efficiency_value"]) == made_up.weekly(1)[0]["energy"]["tokens_per_wh"]
    limited = made_up.weekly(1, seed=2)[0]
    limited["energy"]["channels"][0]["limits"] = {"power_limit_w": 500.0, "limits_set_by": "jpwr"}
    add(db, made_up.store(tmp_path / "limited", [limited]))
    assert main(["history", "export", "--db", str(db), "--format", "reframe", "-o", str(tmp_path / "logs")]) == 0
    [own] = (tmp_path / "logs" / "H200" / "default").glob("*_500_W.log")
    assert len(own.read_text().splitlines()) == 2
    assert bad.read_text().splitlines()[1].startswith("fail|") and bad.read_text().count("null") >= 4


@pytest.mark.parametrize(
    ("created", "words"),
    [
        ("2036-01-05T00:00:00+00:00", "is of 2036-01-05, after it was added"),
        ("1970-01-01T00:00:12+00:00", "is of 1970-01-01, before this suite"),
        ("yesterday", "is of 'yesterday', which is no time"),
    ],
)
def test_a_run_of_an_impossible_time_changes_no_verdict(tmp_path, db, capsys, created, words):
    weekly = made_up.weekly(60)
    assert add(db, made_up.store(tmp_path / "good", weekly))[0] == 60
    before = main(["history", "check", "--db", str(db)])
    odd = made_up.weekly(1)[0] | {"run_id": "odd"}
    odd["provenance"] = {**odd["provenance"], "created": created}
    new, known, [sentence] = add(db, made_up.store(tmp_path / "odd", [odd]))
    assert (new, known) == (0, 0) and words in sentence
    text = json.dumps(odd).encode()
    sql(
        db,
        "UPDATE records SET created = ?, record = ?, record_sha256 = ? WHERE id = 1",
        created,
        text,
        hashlib.sha256(text).hexdigest(),
    )
    capsys.readouterr()
    assert main(["history", "check", "--db", str(db)]) == (before or 3)
    assert words in capsys.readouterr().err
    assert len(database.read([db]).records) == 60
