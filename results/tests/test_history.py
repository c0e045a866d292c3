"""Changes of a machine over time, from made-up runs of known speed."""

from __future__ import annotations

import math
from random import Random

import pytest

from caraml.cli import main
from results.tests import builder


def runs(levels, noise=0.002, seed=1, **changes):
    """Return a run each week with these levels of speed and scatter."""
    random, found = Random(seed), []
    for week, level in enumerate(levels):
        record = builder.result("H200", 1, 64, 1000 * level * math.exp(random.gauss(0, noise)), 400.0, **changes)
        record["run_id"] = f"week {week}"
        record["provenance"]["created"] = f"2026-{1 + week // 4:02d}-{1 + 7 * (week % 4):02d}T03:04:05+00:00"
        found.append(record)
    return found


@pytest.mark.parametrize(
    ("levels", "more", "code", "words"),
    [
        ([1.0] * 10, [], 0, "throughput: passed"),
        ([1.0] * 5 + [0.9] * 5, [], 1, "throughput: failed 0.9"),
        ([1.0] * 5 + [1.1] * 5, [], 0, "throughput: passed 1.1"),
        ([1.0] * 5 + [0.98] * 5, [], 3, "throughput: undecided 0.9"),
        ([1.0] * 5 + [0.9] * 10, ["--baseline", "2026-02-08"], 0, "throughput: passed"),
        ([0.9] * 3 + [1.0] * 4 + [0.9] * 3, ["--last", "3"], 0, "throughput: passed"),
        ([1.0], [], 3, "1 first and 0 last runs, at least 2"),
    ],
)
def test_the_last_runs_are_judged_against_the_first(tmp_path, capsys, levels, more, code, words):
    builder.store(tmp_path / "runs", runs(levels))
    assert main(["history", str(tmp_path / "runs"), *more]) == code
    assert words in capsys.readouterr().out


def test_what_else_changed_is_printed_and_a_failed_last_run_leaves_it_undecided(tmp_path, capsys):
    records = runs([1.0] * 10)
    for record in records[5:]:
        record["provenance"]["nodes"] = [{"devices": [{"driver_version": "580.2"}]}]
    [bad] = runs([1.0], status="failed", error="the node burned")
    bad["run_id"] = "last"
    bad["provenance"]["created"] = "2026-12-01T00:00:00+00:00"
    builder.store(tmp_path / "runs", [*records, bad])
    assert main(["history", str(tmp_path / "runs"), "-o", str(tmp_path / "plot.png")]) == 3
    out = capsys.readouterr().out
    assert "its last 1 run failed" in out
    assert "driver_version" in out
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_archives_are_read_next_to_folders(tmp_path, capsys):
    first, last = tmp_path / "first", tmp_path / "last"
    records = runs([1.0] * 5 + [0.9] * 5)
    builder.store_run(first / "run", records[0])
    builder.store(last, records[1:])
    assert main(["archive", str(first), "-o", str(tmp_path / "one.zip")]) == 0
    assert main(["history", str(tmp_path / "one.zip"), str(last)]) == 1


@pytest.mark.parametrize(
    ("more", "words"), [(["--last", "1"], "at least 2 runs"), (["--baseline", "soon"], "is no day")]
)
def test_a_mistake_is_one_sentence(tmp_path, capsys, more, words):
    builder.store(tmp_path / "runs", runs([1.0]))
    assert main(["history", str(tmp_path / "runs"), *more]) == 2
    assert words in capsys.readouterr().err
