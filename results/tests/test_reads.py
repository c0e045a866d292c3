"""What was read, joined with windows and regions."""

from __future__ import annotations

import json
import shutil

import pytest

from caraml.cli import main as caraml
from ioprof.counts import Coverage, FileCounts, ProcessCounts, Profile, Stretch, Stretches
from ioprof.folder import save
from results.collect import collect
from results.find.records import write_record
from results.join.reads import shares
from results.join.serving import differences
from results.show.tables.reads import COLUMNS, file_table, of_reads, read_table
from results.tests import builder
from results.tests.builder import CPU, make_record, window
from results.tests.of_dicts import by_point, contradictions, find_records, reads_of

MB = 1_000_000


def file(path, size_bytes, opens=1, reads=10, read_s=1.0):
    sizes = (0, 0, 0, 0, reads, 0, 0, 0, 0, 0)
    return FileCounts(path, opens, reads, size_bytes * opens, read_s, 0.5, reads, 0, 0, size_bytes, sizes)


def process(files, *stretches, pid=7):
    reads = Stretches()
    for one in stretches:
        reads.append(Stretch(*one))
    return ProcessCounts(pid, 1, 1.0, "python", 0, 0, 0, 0.0, 0, 0, files, reads)


WINDOWS = [window(10.0, 12.0, "measured"), window(12.0, 16.0, "effective"), window(18.0, 20.0, "effective")]


def profile(folder, *processes, hostname="n1", coverage=None):
    about = {
        "source": "ioprof 1",
        "hostname": hostname,
        "boot_id": f"boot-{hostname[1:]}",
        "begin_s": 0.0,
        "end_s": 20.0,
    }
    covered = coverage or Coverage(10 * MB, 10 * MB, (), ())
    save(Profile(about, list(processes), covered), folder / "io" / hostname)


def times(folder, *ranks):
    of_ranks = [
        {"hostname": hostname, "boot_id": f"boot-{hostname[1:]}", "windows": windows} for hostname, windows in ranks
    ]
    (folder / "record.regions.json").write_text(json.dumps(of_ranks))


def effective(*pieces, kind="effective"):
    """Regions of a window, each with its begin, and the end of the last."""
    *told, end_s = pieces
    names = sorted({name for _, name in told})
    return {
        "kind": kind,
        "names": names,
        "which": [names.index(name) for _, name in told],
        "edges_s": [*(begin_s for begin_s, _ in told), end_s],
    }


def test_a_stretch_belongs_to_what_goes_on_while_it_lasts():
    times = [(1.0, 2.0, "IO"), (2.0, 4.0, "Forward"), (6.0, 7.0, "IO")]
    assert list(shares(times, 1.5, 2.5)) == [("IO", 1.5, 2.0, 0.5), ("Forward", 2.0, 2.5, 0.5)]
    assert [share for *_, share in shares(times, 3.0, 7.0)] == [0.25, 0.25]
    assert list(shares(times, 4.5, 5.5)) == []
    assert [name for name, *_ in shares(times, 3.0, 3.0)] == ["Forward"]
    assert list(shares(times, 8.0, 9.0)) == list(shares(times, 0.0, 0.5)) == []


def test_bytes_are_told_by_window_and_by_what_the_step_did(tmp_path):
    data, module = file("/data/part-0", 8 * MB, opens=2), file("/lib/module.py", 1000)
    read = [
        (1, 1.0, 1.1, 1, 1000, 0.1),  # before all windows
        (0, 10.0, 11.0, 4, 2 * MB, 0.5),
        (0, 13.0, 15.0, 4, 4 * MB, 2.0),  # a half of it while the step waits
        (0, 15.0, 17.0, 2, 2 * MB, 1.0),  # a half of it after the window
    ]
    profile(tmp_path, process([data, module], *read))
    times(tmp_path, ("n1", [effective((12.0, "IO"), (14.0, "Forward"), 16.0), effective((18.0, "IO"), 20.0)]))
    found = reads_of(make_record(windows=WINDOWS), tmp_path)
    measured, in_turns = found["windows"]["measured"], found["windows"]["effective"]
    assert (measured["bytes"], measured["reads"], measured["reading_s"], measured["files"]) == (2 * MB, 4, 0.5, 1)
    assert in_turns["files"] == 1
    assert (in_turns["bytes"], in_turns["reads"]) == (5 * MB, 5)
    assert in_turns["by_region"] == {"IO": 2 * MB, "Forward": 3 * MB}
    assert found["job"]["bytes"] == 16 * MB + 1000
    [first, other] = found["files"]
    assert (first["path"], first["window_bytes"], first["waited_for_bytes"]) == ("/data/part-0", 5 * MB, 2 * MB)
    assert (other["path"], other["window_bytes"]) == ("/lib/module.py", 0)
    assert found["coverage_percent"] == 100.0


def test_ranks_of_a_node_share_what_is_read_there_and_nodes_are_added_up(tmp_path):
    windows = [window(10.0, 20.0, "effective"), window(10.0, 20.0, "effective", "n2", "boot-2")]
    for hostname in ("n1", "n2"):
        profile(tmp_path, process([file("/data/part-0", 4 * MB)], (0, 10.0, 20.0, 10, 4 * MB, 1.0)), hostname=hostname)
    waits, computes = effective((10.0, "IO"), 20.0), effective((10.0, "Forward"), 20.0)
    times(tmp_path, ("n1", [waits]), ("n1", [computes]), ("n2", [computes]))
    found = reads_of(make_record(windows=windows), tmp_path)
    assert found["windows"]["effective"]["bytes"] == 8 * MB
    assert found["windows"]["effective"]["by_region"] == {"Forward": 6 * MB, "IO": 2 * MB}
    [one] = found["files"]
    assert (one["opens"], one["size_bytes"]) == (2, 4 * MB)
    assert found["windows"]["effective"]["reading_s"] == pytest.approx(1.0)


def test_a_profile_of_another_boot_says_nothing_of_these_windows(tmp_path):
    profile(tmp_path, process([file("/data/a", MB)], (0, 13.0, 14.0, 1, MB, 1.0)), hostname="n9")
    assert reads_of(make_record(windows=WINDOWS), tmp_path)["windows"]["effective"]["bytes"] == 0


METRICS = {"measured_tokens": 1000, "tokens_per_s": 100.0, "effective_s": 6.0, "input_wait_percent": 25.0}


def run(job, opens=2, **metrics):
    """A good run with its reads, collected."""
    profile(job.path, process([file("/data/part-0", 8 * MB, opens)], (0, 13.0, 15.0, 10, 8 * MB, 2.0)))
    times(job.path, ("n1", [effective((12.0, "IO"), (14.0, "Forward"), 16.0)]))
    windows = [window(10.0, 20.0, "measured"), window(12.0, 16.0, "effective"), window(18.0, 20.0, "effective")]
    metrics = {**make_record()["metrics"], **METRICS, "effective_tokens": 1000, **metrics}
    job.record(windows=windows, metrics=metrics, run_id="0123456789").trace([CPU], lambda channel, time_s: 10.0)
    write_record(collect(job.path), job.path / "result.json")
    [record] = find_records([job.path])[0]
    return record


def test_a_collected_run_tells_what_it_read_and_a_table_shows_it(job, capsys):
    record = run(job)
    assert record["status"] == "ok"
    points = by_point([record])
    header, *rows = read_table(points).texts()
    assert header == [one.heading for one in COLUMNS]
    assert [row[5:] for row in rows] == [
        ["measured window", "1", "8.000", "10", "800.0", "2.000", "4.000", "", "100.0"],
        ["effective window", "1", "8.000", "10", "800.0", "2.000", "4.000", "50.00", "100.0"],
        ["whole job", "1", "16.00", "10", "1,600", "", "", "", "100.0"],
    ]
    assert "/data/part-0" in file_table(points).texts()[1]
    assert caraml(["table", "--reads", "--tier", "8", str(job.path)]) == 0
    out = capsys.readouterr().out
    assert "steps waited 1.5 s for their input (25.0 %): a faster storage saves 1.5 s (25.0 %) at most" in out
    assert "storage of 8 MB/s reads that in 1 s and saves 1 s (16.7 %) at most" in out
    assert caraml(["table", "--reads", "--tier", "32", "--stage-bytes", "8e6", str(job.path)]) == 0
    assert "stage 1 file of 8 MB for 100.0 % of the 1 s of all threads' reads" in capsys.readouterr().out
    assert {caraml(["table", flag, "5", str(job.path)]) for flag in ("--tier", "--stage-bytes")} == {2}


def test_what_was_not_seen_is_told_first(job):
    record = run(job)
    record["io"] |= {"coverage_percent": 60.0, "missing": ["4 MB in 'loader', which is linked statically"]}
    assert any(
        "ONLY 60 % of the bytes that the kernel counted were seen: 4 MB in 'loader'" in text
        for text in of_reads(by_point([record]))
    )


def test_a_damaged_profile_is_said_and_the_run_is_as_good_as_it_was(job, capsys):
    run(job)
    (job.path / "io" / "n1" / "files.csv").write_text("nonsense\n")
    result = collect(job.path)
    assert result["status"] == "ok"
    assert "io" not in result
    assert "collect: the result has no reads of files" in capsys.readouterr().err


def test_runs_without_counted_reads_say_how_to_get_them(job, capsys):
    run(job)
    shutil.rmtree(job.path / "io")
    write_record(collect(job.path), job.path / "result.json")
    assert caraml(["table", "--reads", str(job.path)]) == 2
    assert "run with the tag 'io'" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", '[{"hostname": "n1", "boot_id": "b", "windows": [{}]}]'])
def test_damaged_times_of_regions_are_said(job, capsys, text):
    run(job)
    (job.path / "record.regions.json").write_text(text)
    assert collect(job.path)["status"] == "ok"
    assert "record.regions.json cannot be read" in capsys.readouterr().err


def test_an_archive_has_the_profile_and_its_numbers_are_computed_again(tmp_path):
    work = tmp_path / "runs" / "8_benchmark" / "work"
    run = builder.result(batch=8)
    run["windows"][0]["boot_id"] = "boot-1"
    builder.store_run(work, run)
    [window] = json.loads((work / "record.json").read_text())["windows"]
    begin_s = window["start_s"] + 1
    profile(work, process([file("/data/part-0", MB)], (0, begin_s, begin_s + 1, 10, MB, 1.0)))
    write_record(collect(work), work / "result.json")
    archive = str(tmp_path / "a.zip")
    assert caraml(["archive", str(tmp_path / "runs"), "-o", archive]) == 0
    assert caraml(["verify", archive]) == 0
    assert collect(work)["io"]["windows"]["measured"]["bytes"] == MB


def test_what_older_results_have_is_no_difference_and_other_keys_are(job):
    run(job)
    older, again = collect(job.path), collect(job.path)
    older["energy"]["sampling_interval_s"] = older["io"]["job"]["open_s"] = 1.0
    older["io"] |= {"data": {}, "notes": [], "over_time": [], "source": "ioprof 1.0"}
    older["io"]["windows"]["measured"]["read_s"] = 1.0
    older["node_check"], again["node_check"] = ({"figures": [{"values": [1.0]} | more]} for more in ({"low": 1.0}, {}))
    assert list(differences(older, again, "")) == []
    older["data"] = older["io"]["job"]["notes"] = "x"
    assert len(list(differences(older, again, ""))) == 2


@pytest.mark.parametrize(
    ("path", "lie", "sentence"),
    [
        (
            "windows.effective.bytes",
            10**9,
            "effective.bytes is 1e+09, more than the 1.6e+07 of io.job.bytes",
        ),
        ("windows.effective.reads", 10**9, "io.windows.effective.reads is 1e+09"),
        ("windows.effective.by_region", {"IO": 9 * MB}, "of io.windows.effective.bytes"),
        ("windows.effective.reading_s", 7.0, "io.windows.effective.reading_s is 7, more than the 6 of its windows"),
        ("job.sequential_reads", 11, "io.job.sequential_reads is 11, more than the 10 of io.job.reads"),
    ],
)
def test_parts_that_are_more_than_the_whole_are_found(job, path, lie, sentence):
    record = run(job)
    assert contradictions(record) == []
    altered = builder.altered(record, {f"io.{path}": lie})
    assert any(sentence in found for found in contradictions(altered))
