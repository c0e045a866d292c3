"""docs/add_a_machine.md, executed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, SYSTEMS, make_checkout, run_in_place_of_training
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

TUTORIAL = REPOSITORY / "docs" / "add_a_machine.md"


def test_a_machine_is_added_by_what_the_tutorial_says(tmp_path, jube_command):
    parts = re.findall(r"```(yaml|sh)\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    assert [kind for kind, _ in parts] == ["yaml", "sh", "sh"]
    checkout = make_checkout(tmp_path / "caraml")
    # The training takes the options of the new block, but is not run: it is in other tests.
    quick = f"python3 {checkout}/tests/quick_run.py"
    run_in_place_of_training(checkout, f"""sh -c 'python3 "$@" --dry-run && exec {quick}' - #PROGRAM#""")
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(checkout),
    }
    said = ""
    for kind, text in parts:
        if kind == "yaml":
            with (checkout / SYSTEMS).open("a") as file:
                file.write("\n" + text)
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail"],
            input=text,
            cwd=checkout,
            env=environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        said += done.stdout
    assert re.search("^MYBOX +the CPU under my desk", said, re.MULTILINE)
    assert "1 points: 1 ok" in said
    [result] = (checkout / "jube" / "llm_run").glob("*/*_benchmark/work/result.json")
    assert json.loads(result.read_text())["system"] == "MYBOX"
    # The tests that look at every system find nothing wrong with one more.
    looks = "same_keys or described or every_system or place_in_a_table or other_file or every_workload"
    files = ["tests/test_systems.py", "tests/test_containers.py", "tests/test_docs.py", "caraml/tests"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", looks, *files]
    done = subprocess.run(command, cwd=checkout, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
