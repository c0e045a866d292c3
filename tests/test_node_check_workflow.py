"""The workflow of node checks with real JUBE: a good check, and one that fails."""

from __future__ import annotations

import json
import subprocess

import pytest

from caraml.cli import main
from tests.conftest import make_checkout
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

SMALL = "--size 64 --products-per-step 64 --array-mb 4 --largest-message-mb 1 --figure-s 0.2 --min-measured-s 1"


def checked(folder, jube, flags):
    """Run the check of a CPU with further flags; return its folder and its only result."""
    checkout, out = make_checkout(folder / "caraml", site=f"node_check_flags: {flags}\n"), folder / "run"
    command = [jube, "run", "jube/node_check.yaml", "--tag", "CPU", "--outpath", str(out)]
    subprocess.run(command, cwd=checkout, capture_output=True, timeout=PATIENCE_S)
    [result] = out.glob("*/*_benchmark/work/result.json")
    return out, json.loads(result.read_text())


@pytest.mark.slow
def test_a_check_has_a_row_a_verdict_and_an_archive(tmp_path, jube_command, capsys):
    out, record = checked(tmp_path, jube_command, SMALL)
    assert (record["status"], record["error"], record["layout"]["num_devices"]) == ("ok", "", 2)
    done = subprocess.run([jube_command, "result", str(out), "-i", "last", "-a"], capture_output=True, text=True)
    [row] = [line.split("|") for line in done.stdout.splitlines() if " matrices of 64 " in line]
    assert (row[2].strip(), row[4].strip(), row[-2].strip()) == ("2", "products", "ok")
    assert float(row[5]) == pytest.approx(record["metrics"]["products_per_s"], rel=1e-3)
    # Which of them is slow depends on the machine.
    assert main(["check-nodes", str(out), "--baseline", str(out)]) in (0, 1, 3)
    assert main(["check-nodes", str(out), "--baseline", str(out), "--threshold", "1"]) == 0
    assert main(["archive", str(out), "-o", str(tmp_path / "a.zip")]) == 0
    assert main(["verify", str(tmp_path / "a.zip")]) == 0, capsys.readouterr()


@pytest.mark.slow
def test_a_check_that_fails_is_a_row_with_the_cause(tmp_path, jube_command, capsys):
    out, record = checked(tmp_path, jube_command, f"{SMALL} --effective")
    assert record["status"] == "failed"
    assert "node_check has no input path" in record["error"]
    assert main(["check-nodes", str(out)]) == 3
    assert "node_check has no input path" in capsys.readouterr().out
