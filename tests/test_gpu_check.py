"""The check of a GPU on a machine without one: what fails is a record that says so."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

from tests.conftest import REPOSITORY, make_checkout

pytestmark = pytest.mark.long


def gpu_check(checkout, *arguments, path):
    environ = {**os.environ, "PATH": f"{path}:{checkout}/.venv/bin:{os.environ['PATH']}"}
    return subprocess.run(
        [checkout / "scripts" / "gpu_check.sh", *arguments], cwd=checkout, env=environ, capture_output=True, text=True
    )


def test_a_check_without_a_gpu_or_a_known_system_is_refused(tmp_path):
    done = gpu_check(REPOSITORY, "A100", path=tmp_path)
    assert done.returncode == 1
    assert "nvidia-smi shows no GPU" in done.stderr
    assert "there is no system 'X'" in gpu_check(REPOSITORY, "X", path=tmp_path).stderr
    assert "state the system of the GPU" in gpu_check(REPOSITORY, path=tmp_path).stderr


@pytest.mark.slow
def test_a_gpu_that_pytorch_does_not_see_leaves_a_failed_record_and_exit_code_1(tmp_path):
    checkout = make_checkout(tmp_path / "caraml")
    script = checkout / "scripts" / "gpu_check.sh"
    one_of_each = 'points=("800M 4 16 30" "117M 16 64 50")'
    script.write_text(re.sub(r"^points=\(\n.*?^\)", one_of_each, script.read_text(), flags=re.MULTILINE | re.DOTALL))
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: made up'\nexit 14\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    done = gpu_check(checkout, "A100", path=tmp_path)
    assert done.returncode == 1
    found = [
        json.loads(path.read_text()) for path in (checkout / "jube" / "gpu_check_run" / "A100").glob("*/result.json")
    ]
    assert sorted({record["model"] for record in found}) == ["117M", "800M"]
    assert {(record["status"], record["system"]) for record in found} == {("failed", "A100")}
    assert "NVIDIA driver" in found[0]["error"]
    assert "Published:" in done.stdout
    assert 'caraml archive "jube/gpu_check_run/A100" -o A100_20' in done.stdout
