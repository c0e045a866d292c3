"""Where the energy of a step goes: rows, over a point's runs."""

from __future__ import annotations

import json

import pytest

from caraml.cli import main
from results.points.repeats import by_point
from results.record.checks import contradictions
from results.record.values import plain
from results.show.tables.states import closing_notes, state_rows
from results.tests.made_up import result


def told(energy_wh, refused="", time_s=0.1, names=("Forward",)):
    known = not refused
    return {
        "states": list(names),
        "time_s": time_s,
        "energy_wh": energy_wh if known else None,
        "low_wh": 0.9 * energy_wh if known else None,
        "high_wh": 1.1 * energy_wh if known else None,
        "avg_power_w": 300.0 if known else None,
        "refused": refused,
    }


def run(*states, closing_percent=0.5):
    record = result()
    of_wh = record["energy"]["energy_wh"]
    states = [one | {key: one[key] and one[key] * of_wh for key in one if key.endswith("_wh")} for one in states]
    record["energy"]["states"] = {
        "closing_percent": closing_percent,
        "all_wh": of_wh * (1 + closing_percent / 100),
        "states": states,
        "sensors": [],
    }
    return record


def rows_of(*records):
    rows = state_rows(by_point(records), plain)
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def test_a_row_says_power_share_and_how_sure_it_is():
    [row] = rows_of(run(told(0.25)))
    assert row["state (experimental)"] == "Forward"
    assert [float(row[key]) for key in ("time [ms]", "power [W/device]", "energy [%]")] == pytest.approx([100, 300, 25])
    assert float(row["± [%]"]) == pytest.approx(10)
    assert row["not told, as"] == ""


def test_a_point_tells_the_median_of_its_runs_largest_first_and_what_is_refused_last():
    runs = [
        run(told(0.1, names=("IO",)), told(share), told(0.0, "it is short", names=("Update",)))
        for share in (0.5, 0.7, 0.4)
    ]
    assert [(row["state (experimental)"], row["energy [%]"][:2]) for row in rows_of(*runs)] == [
        ("Forward", "50"),
        ("IO", "10"),
        ("Update", ""),
    ]
    assert rows_of(*runs)[-1]["not told, as"] == "it is short"


def test_what_one_run_refuses_is_not_told_of_the_point():
    [row] = rows_of(run(told(0.5)), run(told(0.5, "its interval is ±30 %")))
    assert (row["energy [%]"], row["not told, as"]) == ("", "its interval is ±30 %")


def test_runs_of_which_one_does_not_tell_are_not_told():
    assert state_rows(by_point([run(told(0.5)), result()])) == []
    assert state_rows(by_point([result()])) == []
    assert state_rows([]) == []
    assert closing_notes(by_point([result()])) == []


def test_the_closing_error_is_said():
    [note] = closing_notes(by_point([run(told(0.5), closing_percent=-0.31), run(told(0.5), closing_percent=1.2)]))
    assert "-0.3 to +1.2 % off the windows' own energy" in note


def test_the_table_of_states_and_a_sentence_where_there_is_none(tmp_path, capsys):
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps(run(told(0.25), told(0.0, "it is short", names=("Update",)))))
    assert main(["table", str(folder), "--states"]) == 0
    out = capsys.readouterr().out
    assert "power [W/device]" in out
    assert "off the windows' own energy" in out
    assert main(["table", str(folder), "--states", "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main(["report", str(folder), "-o", str(tmp_path / "report.html")]) == 0
    report = (tmp_path / "report.html").read_text()
    assert "Experimental: where the energy of a step goes, state by state" in report
    assert "off the windows&#39; own energy" in report or "off the windows' own energy" in report
    assert main(["table", str(folder), "--states", "--sort", "devices"]) == 2
    assert "--states has its own order" in capsys.readouterr().err
    (folder / "result.json").write_text(json.dumps(result()))
    assert main(["table", str(folder), "--states"]) == 2
    assert "the tag 'states'" in capsys.readouterr().err
    without = result()
    without["energy"]["notes"] = ["no energy of states: power was estimated, and not measured"]
    (folder / "result.json").write_text(json.dumps(without))
    assert main(["table", str(folder), "--states"]) == 2
    assert "no good run tells its states' energy: power was estimated, and not measured" in capsys.readouterr().err


def test_a_closing_error_or_a_sum_that_was_made_up_is_a_contradiction():
    record = run(told(0.25), told(0.755, names=("Backward",)))
    assert contradictions(record) == []
    record["energy"]["states"]["closing_percent"] = 0.1
    assert any("energy.states.closing_percent" in one for one in contradictions(record))
    record = run(told(0.25), told(0.8, names=("Backward",)))
    assert any("energy.states.all_wh" in one for one in contradictions(record))
