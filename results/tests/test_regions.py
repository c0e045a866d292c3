"""Regions of steps: rows of the table, and charts."""

from __future__ import annotations

import pytest

from results.points.regions import timed_by
from results.show.plots.workload import charts_of
from results.show.tables.regions import region_table, split_notes
from results.tests.builder import result
from results.tests.of_dicts import by_point, regions_of


def told(step_s=1.0, parts=None, clock="host", **shares):
    """What a record says of its steps, from shares in percent."""
    return {
        "clock": clock,
        "steps": 10,
        "step_s": step_s,
        **({"in_parts": {"steps": 3, "longer_percent": parts}} if parts is not None else {}),
        "regions": {
            name: {
                "median_s": step_s * share / 100,
                "p95_s": 2 * step_s * share / 100,
                "share_percent": share,
                "whole_s": None if name == "Other" else step_s * share / 100,
                "imbalance_percent": 1.0,
                "by_rank_s": [step_s * share / 100],
                **({"from": "in parts"} if parts is not None and name != "IO" else {}),
            }
            for name, share in shares.items()
        },
    }


def run(measured, effective=None, **changes_of_result):
    record = result(**changes_of_result)
    record["regions"] = {"measured": measured} | ({"effective": effective} if effective else {})
    shares = {name: one["share_percent"] for name, one in measured["regions"].items()}
    record["metrics"] |= {"io_percent": shares.get("IO"), "comm_percent": shares.get("Comm")}
    return record


def test_runs_of_a_point_are_told_as_one_in_the_order_of_a_step():
    runs = [
        run(told(step_s, Update=10.0, Forward=85.0, Other=share, own=5.0 - share))
        for step_s, share in ((2.0, 1.0), (4.0, 2.0), (3.0, 3.0))
    ]
    [(window, steps)] = regions_of(runs).items()
    assert (window, steps.step_s, steps.in_parts.number("longer_percent")) == ("measured", 3.0, None)
    assert list(steps.regions) == ["Forward", "Update", "own", "Other"]
    forward, *_, other = steps.regions.values()
    assert (forward.median_s, forward.p95_s) == pytest.approx((2.55, 5.1))
    assert timed_by(forward, steps) == "host's clock"
    assert other.share_percent == pytest.approx(2.0)
    assert other.whole_s is None


def test_a_row_has_milliseconds_and_who_told():
    rows = region_table(
        by_point([run(told(2.0, 12.0, IO=25.0, Forward=75.0), told(4.0, clock="device", IO=100.0))])
    ).texts()
    rows = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    assert [(row["window"], row["region"]) for row in rows] == [
        ("measured", "IO"),
        ("measured", "Forward"),
        ("effective", "IO"),
    ]
    assert [row["timed by"] for row in rows] == ["host's clock", "split steps", "device's events"]
    assert (rows[1]["median [ms]"], rows[1]["95th percentile [ms]"], rows[1]["share [%]"]) == (
        "1,500",
        "3,000",
        "75.00",
    )


def test_it_is_said_how_much_longer_split_steps_were():
    points = by_point([run(told(parts=share, Forward=100.0), batch=batch) for share, batch in ((-2.0, 8), (80.6, 16))])
    [note] = split_notes(points)
    assert note.endswith("those took -2 to +81 % longer.")
    assert split_notes(by_point([run(told(Forward=100.0))])) == []


def test_there_is_a_bar_for_each_point_and_window_with_names_that_tell_them_apart():
    runs = [
        run(told(1.0, Forward=60.0, Comm=30.0, own=10.0), told(3.0, IO=70.0, Forward=30.0)),
        run(told(0.5, 5.0, Forward=100.0), system="H100"),
        run(told(0.5, Forward=100.0), system="H100", precision="fp32"),
    ]
    [chart] = (one for one in charts_of(by_point(runs), {}) if one.name == "regions")
    [axes] = chart.figure.axes
    names = [" ".join(text.get_text().split()) for text in axes.get_yticklabels()]
    assert names[0].startswith("A100, 1 device, batch 8")
    assert names[1].endswith("through the input path")
    assert len(set(names)) == 4
    assert "Forward 60 %, Comm 30 %, own 10 %" in chart.words
    assert sum(round(bar.get_width()) for bars in axes.containers for bar in bars) == 4 * 100
