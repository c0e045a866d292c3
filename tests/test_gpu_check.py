"""The check of a GPU: with a stand-in for the GPU and its training, and on a machine without either."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest

from jpwr.tests.conftest import nvml_folder as nvml_folder
from tests.conftest import REPOSITORY, called, caraml, make_checkout

pytestmark = pytest.mark.long


def gpu_check(checkout, *arguments, path, **environ):
    path = f"{path}:{checkout}/.venv/bin:{os.environ['PATH']}"
    return called(checkout / "scripts" / "gpu_check.sh", *arguments, cwd=checkout, PATH=path, **environ)


def with_points(checkout, *points: str) -> None:
    """Leave only some points of the check, which does not look at the idle GPU first."""
    script = checkout / "scripts" / "gpu_check.sh"
    listed = " ".join(f'"{point}"' for point in points)
    text = re.sub(r"^points=\(\n.*?^\)", f"points=({listed})", script.read_text(), flags=re.MULTILINE | re.DOTALL)
    script.write_text(text.replace("--idle 4", "--idle 0"))


def program(folder, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def records(checkout) -> list[dict]:
    found = sorted((checkout / "jube" / "gpu_check_run" / "A100").glob("*/result.json"))
    return [json.loads(path.read_text()) for path in found]


def test_a_check_without_a_gpu_or_a_known_system_is_refused(tmp_path):
    done = gpu_check(REPOSITORY, "A100", path=tmp_path)
    assert done.returncode == 1
    assert "nvidia-smi shows no GPU" in done.stderr
    assert "there is no system 'X'" in gpu_check(REPOSITORY, "X", path=tmp_path).stderr
    assert "state the system of the GPU" in gpu_check(REPOSITORY, path=tmp_path).stderr


def test_a_stand_in_is_measured_and_the_printed_command_makes_an_archive(tmp_path, nvml_folder):
    checkout = make_checkout(tmp_path / "caraml")
    with_points(checkout, "800M 4 16 30")
    (tmp_path / "state").mkdir()
    program(tmp_path, "nvidia-smi", "echo 'GPU 0: a stand-in'")
    quick = f'[ "$2" = benchmarks.llm_training ] && exec {sys.executable} {checkout}/tests/quick_run.py'
    program(tmp_path, "python3", f'{quick}\nexec {sys.executable} "$@"')
    environ = {"LD_LIBRARY_PATH": str(nvml_folder), "STAND_IN_STATE": str(tmp_path / "state"), "STAND_IN_DEVICES": "1"}
    done = gpu_check(checkout, "A100", path=tmp_path, **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = records(checkout)
    assert (record["status"], record["system"]) == ("ok", "A100")
    assert record["energy"]["avg_power_w"] == pytest.approx(400, rel=0.01)  # of the stand-in at its full speed
    [archive] = re.findall(r'caraml (archive "\S+" -o A100_\S+)', done.stdout)
    assert caraml(*archive.replace('"', "").split(), cwd=checkout).returncode == 0


@pytest.mark.slow
def test_a_gpu_that_pytorch_does_not_see_leaves_a_failed_record_and_exit_code_1(tmp_path):
    checkout = make_checkout(tmp_path / "caraml")
    with_points(checkout, "800M 4 16 30", "117M 16 64 50")
    program(tmp_path, "nvidia-smi", "echo 'GPU 0: made up'\nexit 14")
    done = gpu_check(checkout, "A100", path=tmp_path)
    assert done.returncode == 1
    found = records(checkout)
    assert sorted(record["model"] for record in found) == ["117M", "800M"]
    assert {(record["status"], record["system"]) for record in found} == {("failed", "A100")}
    assert "NVIDIA driver" in found[0]["error"]
    assert "Published:" in done.stdout
