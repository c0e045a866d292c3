"""A checkout with a system that is made up for the tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from caraml.plan.job import POINT, Point, write
from caraml.plan.plan import plan
from tests.needs import need
from tests.waiting import PATIENCE_S

REPOSITORY = Path(__file__).resolve().parents[1]
SYSTEMS = Path("jube") / "include" / "systems.yaml"
# A system that a user adds need not be in golden files, nor in the pages on what has run.
SHIPPED = {"A100", "H100", "WAIH100", "GH200", "JEDI", "MI250", "GC200", "CPU", "H200", "MI300X", "MI300A", "GB200"}
SHIPPED |= {"ARCHER2", "MI210", "V100", "BOW", "B200", "B300", "GB300", "MI325X", "MI355X"}
SHIPPED |= {"HGX-A100", "HGX-H100", "JUPITER", "MILA"}
STARTER, IDLE = " {{ process_starter }} ", "--idle 4"  # in node.sh.j2
# The site's facts for a checkout that trains: what is tested takes no long steps.
SMALL = "llm_training_flags: --sequence-length 64\nresnet50_flags: --image-size 32\n"


def called(*command: object, cwd: Path = REPOSITORY, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with variables in addition to those of this process."""
    environ = {**os.environ, **environ}
    words = [*map(str, command)]
    return subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)


def caraml(*arguments: object, cwd: Path = REPOSITORY, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process."""
    return called(sys.executable, "-m", "caraml", *arguments, cwd=cwd, **environ)


def sweep(jube: str, checkout: Path, *tags: str, workflow: str = "llm", **environ: str) -> Path:
    """Run a workflow in a checkout; return the folder of its runs."""
    command = [jube, "run", f"jube/{workflow}.yaml", "--outpath", checkout / "run", "--tag", *tags]
    done = called(*command, cwd=checkout, **environ)
    assert done.returncode == 0, done.stdout + done.stderr  # JUBE exits with 0 even if points failed
    return checkout / "run"


def cells_of(shown: str) -> list[list[str]]:
    """Return the header and the rows of JUBE's table."""
    lines = [line.strip("|").split("|") for line in shown.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines]


def results(out: Path) -> list[dict]:
    """Return the result of each point of a sweep."""
    return [json.loads(path.read_text()) for path in sorted(out.glob("*/*_benchmark/work/result.json"))]


class InCheckout:
    """Commands that run in a checkout, with its environment."""

    checkout: Path
    environ: dict[str, str]

    def call(self, *command: str) -> subprocess.CompletedProcess[str]:
        return called(*command, cwd=self.checkout, **self.environ)

    def caraml(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.call(sys.executable, "-m", "caraml", *arguments)


def read_blocks() -> dict[str, dict]:
    """Return the block of each system by its tag."""
    return yaml.load((REPOSITORY / SYSTEMS).read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def made_up_system(**values: object) -> dict[str, dict]:
    """Return the block of a system TESTBED, as a user adds it: that of the CPU with other values."""
    return {"TESTBED": {**read_blocks()["CPU"], "devices_sweep": "1 2", **values}}


def write_systems(checkout: Path, blocks: dict[str, dict]) -> None:
    """Keep only some systems in a checkout: JUBE reads the file of all several times in a run, and slowly."""
    (checkout / SYSTEMS).write_text(yaml.safe_dump(blocks, sort_keys=False))


def make_checkout(folder: Path, block: dict[str, dict] | None = None, site: str = "") -> Path:
    """Copy this checkout as git has it, with its environment and a site.yaml; a given block is added to the CPU's."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        if (REPOSITORY / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / name)
    if (REPOSITORY / ".venv").exists():
        (folder / ".venv").symlink_to(REPOSITORY / ".venv")
    if block:
        write_systems(folder, {"CPU": read_blocks()["CPU"], **block})
    if site:
        (folder / "site.yaml").write_text(site)
    return folder


def run_in_place_of_training(checkout: Path, program: str) -> None:
    """Let jobs run another program under the sampler, which does not look at the idle machine first."""
    node = checkout / "jube" / "include" / "node.sh.j2"
    text = node.read_text()
    assert text.count(STARTER) == text.count(IDLE) == 1
    node.write_text(text.replace(STARTER, f" {program} # ").replace(IDLE, "--idle 0"))


def write_job(
    folder: Path, program: str, num_devices: int = 1, power_limit: str = "", clock_limit: str = "", **planned: object
) -> Path:
    """Write the job of a point of a CPU, which does not look at the idle machine first; return its folder."""
    values = plan("CPU", "llm_training") | {"power_methods": "estimate"} | planned
    point = Point(values, program, "tiny", 1, 1, num_devices, 1, power_limit, clock_limit, 1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / POINT).write_text("".join(f"{name}: {value}\n" for name, value in point._asdict().items()))
    write(folder)
    node = folder / "node.sh"
    node.write_text(node.read_text().replace(IDLE, "--idle 0"))
    return folder


@pytest.fixture(scope="session")
def jube_command():
    need("jube")
    return "jube"
