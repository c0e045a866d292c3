"""A checkout with a system that is made up for the tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.needs import need
from tests.waiting import PATIENCE_S

REPOSITORY = Path(__file__).resolve().parents[1]
SYSTEMS = Path("jube") / "include" / "systems.yaml"
# A system that a user adds need not be in golden files, nor in the pages on what has run.
SHIPPED = {"A100", "H100", "WAIH100", "GH200", "JEDI", "MI250", "GC200", "CPU", "H200", "MI300X", "MI300A", "GB200"}
SHIPPED |= {"ARCHER2", "MI210", "V100", "BOW", "B200", "B300", "GB300", "MI325X", "MI355X", "HGX-A100", "HGX-H100"}
# The site's facts for a checkout that trains: what is tested takes no long steps.
SMALL = "llm_training_flags: --sequence-length 64\nresnet50_flags: --image-size 32\n"


class InCheckout:
    """Commands that run in a checkout, with its environment."""

    checkout: Path
    environ: dict[str, str]

    def call(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.checkout, env=self.environ, capture_output=True, text=True, timeout=PATIENCE_S
        )

    def caraml(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.call(sys.executable, "-m", "caraml", *arguments)


def read_blocks() -> list[dict]:
    """Return the blocks of all systems, with the types that JUBE reads."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((REPOSITORY / SYSTEMS).read_text(), loader)["parameterset"]


def made_up_system(**values: str) -> str:
    """The block of a system TESTBED, as a user adds it: that of the CPU with other values."""
    [block] = [block for block in read_blocks() if block["tag"] == "CPU"]
    kept = [one for one in block["parameter"] if one.get("tag", "").startswith("!") or "tag" not in one]
    changed = {"system_name": "TESTBED", **values}
    for parameter in kept:
        parameter.pop("tag", None)
        if parameter["name"] in changed:
            parameter["_"] = changed.pop(parameter["name"])
            parameter.pop("mode", None)
    assert not changed, f"there are no such keys: {changed}"
    return yaml.safe_dump([{"name": "system", "tag": "TESTBED", "parameter": kept}], sort_keys=False)


def write_systems(checkout: Path, *blocks: dict) -> None:
    """Keep only some systems in a checkout: JUBE reads the file of all several times in a run, and slowly."""
    (checkout / SYSTEMS).write_text(yaml.safe_dump({"parameterset": blocks}, sort_keys=False))


def make_checkout(folder: Path, block: str = "", site: str = "") -> Path:
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
        cpu = [one for one in read_blocks() if one["tag"] == "CPU"]
        write_systems(folder, *cpu, *yaml.safe_load(block))
    if site:
        (folder / "site.yaml").write_text(site)
    return folder


def run_in_place_of_training(checkout: Path, program: str) -> None:
    """Let jobs run another program under the sampler, which does not look at the idle machine first."""
    node = checkout / "jube" / "include" / "node.sh.in"
    text = node.read_text()
    assert text.count(" #PROCESS_STARTER# ") == text.count("#IDLE_S#") == 1
    node.write_text(text.replace(" #PROCESS_STARTER# ", f" {program} # ").replace("#IDLE_S#", "0"))


@pytest.fixture(scope="session")
def jube_command():
    need("jube")
    return "jube"
