"""The workflow of node checks with real JUBE: a row, a verdict and an archive."""

from __future__ import annotations

import pytest

from caraml.cli import main
from tests.conftest import called, make_checkout, results, sweep

pytestmark = pytest.mark.long

SMALL = "--size 64 --products-per-step 64 --array-mb 4 --largest-message-mb 1 --figure-s 0.2 --min-measured-s 1"


@pytest.mark.slow
def test_a_check_has_a_row_a_verdict_and_an_archive(tmp_path, jube_command, capsys):
    checkout = make_checkout(tmp_path / "caraml", site=f"node_check_flags: {SMALL}\n")
    out = sweep(jube_command, checkout, "CPU", workflow="node_check")
    [record] = results(out)
    assert (record["status"], record["error"], record["layout"]["num_devices"]) == ("ok", "", 2)
    done = called(jube_command, "result", out, "-i", "last", "-a")
    [row] = [line.split("|") for line in done.stdout.splitlines() if " matrices of 64 " in line]
    assert (row[2].strip(), row[4].strip(), row[-2].strip()) == ("2", "products", "ok")
    assert float(row[5]) == pytest.approx(record["metrics"]["products_per_s"], rel=1e-3)
    # Which of them is slow depends on the machine.
    assert main(["check-nodes", str(out), "--baseline", str(out)]) in (0, 1, 3)
    assert main(["check-nodes", str(out), "--baseline", str(out), "--threshold", "1"]) == 0
    assert main(["archive", str(out), "-o", str(tmp_path / "a.zip")]) == 0
    assert main(["verify", str(tmp_path / "a.zip")]) == 0, capsys.readouterr()
