"""A sweep over power limits through JUBE, the sampler and a stand-in GPU whose power and speed follow its limit."""

from __future__ import annotations

import csv
import io
import json

import pytest

from jpwr.tests.conftest import nvml_folder as nvml_folder
from tests.conftest import called, caraml, made_up_system, make_checkout, run_in_place_of_training, sweep
from tests.needs import need

pytestmark = [pytest.mark.long, pytest.mark.slow]

SHARES = {
    "100%": (400.0, 1.0),
    "70%": (280.0, 0.865),
    "55%": (220.0, 0.778),
}  # watts, and speed by the stand-in's model


def test_a_sweep_over_power_limits_has_the_speeds_and_powers_of_the_stand_ins_model(tmp_path, nvml_folder):
    need("jube")
    block = made_up_system(power_methods="pynvml", devices_sweep="1", batch_sweep="8", default_repeats="2")
    checkout = make_checkout(tmp_path / "caraml", block, site="limits_set_by: jpwr\n")
    run_in_place_of_training(checkout, f"python3 {checkout}/tests/quick_run.py")
    (tmp_path / "state").mkdir()
    (tmp_path / "kept").mkdir()
    environ = {
        "LD_LIBRARY_PATH": str(nvml_folder),
        "STAND_IN_STATE": str(tmp_path / "state"),
        "STAND_IN_DEVICES": "1",
        "JPWR_LIMITS_DIR": str(tmp_path / "kept"),
        "CARAML_POWER_LIMITS": " ".join(SHARES),
    }
    out = sweep("jube", checkout, "TESTBED", "synthetic", "caps", **environ)
    found = [json.loads(path.read_text()) for path in out.glob("000000/*_benchmark/work/**/result.json")]
    assert len(found) == 2 * len(SHARES)
    assert {one["status"] for one in found} == {"ok"}
    for watts, speed in SHARES.values():
        mine = [one for one in found if one["energy"]["power_limit_w"] == watts]
        assert len(mine) == 2
        for one in mine:
            assert one["metrics"]["tokens_per_s"] == pytest.approx(100 * speed, abs=0.2)
            assert one["energy"]["avg_power_w"] == pytest.approx(watts, rel=0.01)
            assert one["energy"]["power_limited_percent"] == pytest.approx(100.0 * (watts < 400))
            assert one["energy"]["channels"][0]["limits"]["limits_set_by"].startswith("jpwr, user ")
    assert (tmp_path / "state" / "gpu-0").read_text().split()[0] == "400"
    assert list((tmp_path / "kept").iterdir()) == []
    assert "power limit" in called("jube", "result", out, "--id", "last", "--analyse").stdout
    csv_text = caraml("table", out, "--repeats", "--all", "--format", "csv").stdout
    rows = {float(row["power_limit_w"]): row for row in csv.DictReader(io.StringIO(csv_text))}
    # 220 W at 0.778 of the speed: 29 % less energy for the same work than 400 W.
    per_wh = {watts: float(rows[watts]["work_per_wh"]) for watts in (400.0, 220.0)}
    assert 1 - per_wh[400.0] / per_wh[220.0] == pytest.approx(0.292, abs=0.015)
