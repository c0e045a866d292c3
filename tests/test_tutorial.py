"""docs/howto/add_a_system.md and add_a_workload.md, executed."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, SYSTEMS, called, make_checkout, run_in_place_of_training

pytestmark = pytest.mark.long

TUTORIAL = REPOSITORY / "docs" / "howto" / "add_a_system.md"
WORKLOAD = REPOSITORY / "docs" / "howto" / "add_a_workload.md"
MOST_LINES = 170  # of all that a workload adds


def run_in(checkout, script):
    """What a script says that ends well."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {"PATH": path, "PYTHONPATH": str(checkout), "COLUMNS": "300"}
    done = called("bash", "-euo", "pipefail", "-c", script, cwd=checkout, **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def with_machines(tmp_path_factory, jube_command):
    """A checkout with the systems of the tutorial, and what its commands print."""
    parts = re.findall(r"```(yaml|sh)\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    assert [kind for kind, _ in parts] == ["yaml", "yaml", "sh", "sh"]
    checkout = make_checkout(tmp_path_factory.mktemp("machines") / "caraml")
    # The training takes the options of the new block, but is not run: it is in other tests.
    quick = f"python3 {checkout}/tests/quick_run.py"
    run_in_place_of_training(checkout, f"""sh -c 'python3 "$@" --dry-run && exec {quick}' - {{{{ program }}}}""")
    said = ""
    for kind, text in parts:
        if kind == "yaml":
            with (checkout / SYSTEMS).open("a") as file:
                file.write("\n" + text)
            continue
        said += run_in(checkout, text)
    return checkout, said


def test_a_machine_is_added_by_what_the_tutorial_says(with_machines):
    checkout, said = with_machines
    assert re.search(r"^MYBOX +\| the CPU under my desk", said, re.MULTILINE)
    assert re.search(r"^MYGPUS +\| NVIDIA L40S 48GB", said, re.MULTILINE)
    assert "1 point: 1 ok" in said
    [result] = (checkout / "jube" / "llm_run").glob("*/*_benchmark/work/result.json")
    assert json.loads(result.read_text())["system"] == "MYBOX"


@pytest.mark.slow
def test_a_workload_is_added_by_what_the_tutorial_says(tmp_path, jube_command):
    text = WORKLOAD.read_text()
    files = dict(re.findall(r"^`([\w/.]+)`:\n\n```\w+\n(.*?)```", text, re.DOTALL | re.MULTILINE))
    assert {Path(name).parts[0] for name in files} == {"benchmarks", "jube"}
    assert sum(len(content.splitlines()) for content in files.values()) <= MOST_LINES
    checkout = make_checkout(tmp_path / "caraml")
    for name, content in files.items():
        assert not (checkout / name).exists()
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text(content)
    alone, in_jube, known = (run_in(checkout, script) for script in re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    assert "matmul: model      64 on unnamed, 1 device, global batch 8: ok" in alone
    rows = [row for row in in_jube.splitlines() if row.startswith("|   256 |")]
    assert [[field.strip() for field in row.split("|")][2:5] for row in rows] == [
        [devices, batch, "products"] for devices in "12" for batch in ("8", "16")
    ]
    assert all(row.endswith("| ok |") for row in (re.sub(" +", " ", row) for row in rows)), in_jube
    assert "matmul.yaml" in known
    assert "sample 256 x 256" in known
    assert "geometric mean of throughput over 4 points: 1.000" in known
    assert "Matrix products: 256, synthetic, 256 x 256" in (checkout / "matmul.html").read_text()
    # The tests that look at every workload and every workflow find nothing wrong with one more.
    looks = "imports or framework or every_workload or arithmetic"
    files = ["tests/test_imports.py", "caraml/tests/test_workloads.py"]
    run_in(checkout, shlex.join([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", looks, *files]))
