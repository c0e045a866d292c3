from __future__ import annotations

import pandas
import pytest

import results
from caraml.cli import main
from results.find.records import RecordError
from results.frames import alike, points_frame
from results.tests import builder
from results.tests.of_dicts import by_point


@pytest.fixture
def runs(tmp_path):
    return builder.store(tmp_path / "runs", builder.many((("H200", 85e3, 690.0),)))


def test_each_run_is_a_row_with_typed_columns(runs):
    found = results.frame(runs)
    assert len(found) == 25
    assert found.devices.dtype == "Int64"
    assert found.work_per_s.dtype == "Float64"
    assert str(found.created.dtype) == "datetime64[us, UTC]"
    [failed] = found[found.status != "ok"].itertuples()
    assert (failed.status, failed.error, failed.devices) == ("out_of_memory", "no memory", 4)
    assert failed.work_per_s is pandas.NA  # and not 0
    good = found[found.status == "ok"]
    assert set(good.energy_grade) == {"Q1"}
    speeds = good[(good.devices == 1) & (good.global_batch == 256)].work_per_s.sort_values()
    assert list(speeds) == pytest.approx([85e3 * 256 / 264 * share for share in (0.996, 1.0, 1.004)])
    assert (good.work_per_s / good.devices).to_list() == pytest.approx(good.work_per_s_per_device.to_list())


def test_the_same_frame_comes_back_from_parquet(runs, tmp_path, capsys):
    path = tmp_path / "runs.parquet"
    assert main(["table", str(runs), "--format", "parquet", "--out", str(path), "--filter", "devices=4"]) == 0
    wanted = results.frame(runs)
    wanted = wanted[wanted.devices == 4].reset_index(drop=True)
    found = pandas.read_parquet(path)
    pandas.testing.assert_frame_equal(
        found.sort_values("path", ignore_index=True), wanted.sort_values("path", ignore_index=True)
    )
    assert "out_of_memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags", [[], ["--out", "x.parquet", "--regions"], ["--out", "x.parquet", "--titles", "caraml"]]
)
def test_parquet_is_a_file_with_a_row_for_each_run(runs, flags, capsys):
    assert main(["table", str(runs), "--format", "parquet", *flags]) == 2
    assert "--format parquet has a row for each run" in capsys.readouterr().err


def test_what_cannot_be_used_is_warned_of_and_nothing_at_all_is_an_error(runs, tmp_path):
    (runs / "000000_benchmark" / "work" / "result.json").write_text("{}")
    with pytest.warns(UserWarning, match="no schema_version"):
        assert len(results.frame(runs)) == 24
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordError, match="no result below"):
        results.frame(tmp_path / "empty")


def test_points_are_compared_with_their_like_alone():
    records = [builder.result(name, tokens_per_s=speed) for name in "AB" for speed in (100.0, 101.0)]
    records += [builder.result("C", tokens_per_s=300.0, precision="fp8"), builder.result("D", estimated=True)]
    frame = points_frame(by_point(records))
    assert list(frame.work_per_s_low < frame.work_per_s)[:2] == [True, True]
    speeds = [(words, list(group.system)) for words, group in alike(frame, "work_per_s")]
    assert speeds == [("", ["A", "B", "D"])]  # a point in fp8 is alone
    energies = [(words, list(group.system)) for words, group in alike(frame, "work_per_wh")]
    assert energies == [("bf16, Q1, device", ["A", "B"])]
    assert list(alike(frame[:1], "work_per_s")) == []
