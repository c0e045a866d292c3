"""Is everything there for the first job on a system? Each thing that is looked at, what was found, and what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from caraml.images import ENDINGS, architecture_of, image_path, read_image
from caraml.site import REPOSITORY, Site, read_site
from caraml.systems import Block, read_system

GOOD, WARNING, BAD = "ok", "look", "FAIL"
OLDEST_JUBE = (2, 5, 1)
FREE_GB = 20
FRAMEWORKS = ("pytorch", "tensorflow")
DATA = {"text": ("text-*", "benchmarks.llm_training.prepare"), "images": ("*imagenet*", "benchmarks.resnet50.prepare")}


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    state: str
    found: str
    to_do: str = ""


def examine(name: str) -> list[Finding]:
    """All findings for a system; raises SiteError when there is none of that name, or site.yaml cannot be used."""
    block, site = read_system(name), read_site(name)
    runtime = site["container_runtime"] or block["container_runtime"]
    checks = (jube(), scheduler(block, site), container(block, site, runtime), data(site), sensors(block), space(site))
    return [finding for check in checks for finding in check]


def report(findings: list[Finding]) -> str:
    """One line on each thing, with what to do under what is not as it should be."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:4}  {finding.what}: {finding.found}")
        if finding.to_do:
            lines.append(f"      -> {finding.to_do}")
    return "\n".join(lines)


def jube() -> Iterator[Finding]:
    command = os.environ.get("JUBE", "jube")
    done = _run(command, "--version")
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout + done.stderr) if done else None
    if not found:
        yield Finding("JUBE", BAD, f"there is no {command}", "apt-get install jube, or load your site's module")
    elif tuple(map(int, found.groups())) < OLDEST_JUBE:
        yield Finding("JUBE", BAD, found[0], f"install {'.'.join(map(str, OLDEST_JUBE))} or newer")
    else:
        yield Finding("JUBE", GOOD, found[0])


def scheduler(block: Block, site: Site) -> Iterator[Finding]:
    if block["submit"] != "sbatch":
        yield Finding("scheduler", GOOD, "none is needed: jobs run here")
        return
    if shutil.which("sbatch") is None:
        yield Finding("scheduler", BAD, "there is no sbatch", "run on a login node of the system")
        return
    done = _run("sinfo", "-h", "-o", "%R %l %G")
    if done is None or done.returncode:
        words = (done.stderr.strip().splitlines() if done else [])[-1:] or ["sinfo does not answer"]
        yield Finding("scheduler", BAD, words[0], "is Slurm up, and SLURM_CONF right?")
        return
    partitions = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.strip()}
    yield Finding("scheduler", GOOD, f"Slurm with partitions {', '.join(partitions)}")
    wanted = site["partition"] or os.environ.get("SBATCH_PARTITION", "")
    if not wanted:
        yield Finding("partition", WARNING, "none is named: Slurm's default is used", "state 'partition' in site.yaml")
    elif wanted not in partitions:
        yield Finding("partition", BAD, f"Slurm knows no {wanted}", f"choose one of {', '.join(partitions)}")
    else:
        yield Finding("partition", GOOD, f"{wanted}, at most {partitions[wanted][0]}")
        devices = partitions[wanted][1]
        if block["gres"] and not devices.startswith(block["gres"]):
            yield Finding(
                "devices", BAD, f"partition {wanted} hands out no {block['gres']}: {devices}", "choose another"
            )
    if not site["account"] and not os.environ.get("SBATCH_ACCOUNT"):
        yield Finding("account", WARNING, "none is named: your default is used", "state 'account' in site.yaml")


def container(block: Block, site: Site, runtime: str) -> Iterator[Finding]:
    if runtime == "none":
        there = (REPOSITORY / ".venv" / "bin" / "python").exists()
        yield Finding(
            "software", GOOD if there else BAD, ".venv" if there else "no .venv", "" if there else "make setup"
        )
        return
    program = {"charliecloud": "ch-run"}.get(runtime, runtime)
    if shutil.which(program) is None:
        yield Finding("container", WARNING, f"there is no {program} here", "it must be there on the compute nodes")
    folder = Path(site["container_folder"])
    for name in dict.fromkeys(block["image"].replace("$framework", framework) for framework in FRAMEWORKS):
        path = image_path(folder, name, runtime)
        image = read_image(name)
        if not path.exists():
            yield Finding("image", BAD, f"{path} is not there", f"caraml image {name} --runtime {runtime}")
        elif block["cpu_arch"] not in (image.arch, "uname -m"):
            to_do = "correct containers/images.yaml"
            yield Finding("image", BAD, f"{name} is for {image.arch}, the system is {block['cpu_arch']}", to_do)
        elif (found := architecture_of(path)) and found != image.arch:
            to_do = f"remove it, and make it on a machine of that kind: caraml image {name} --runtime {runtime}"
            yield Finding("image", BAD, f"{path} holds programs for {found}, {name} is for {image.arch}", to_do)
        else:
            yield Finding("image", GOOD, f"{path}")
    others = [one for one in ENDINGS if one != runtime and list(folder.glob(f"*{ENDINGS[one]}"))]
    if others:
        yield Finding("images", WARNING, f"there are images of {', '.join(others)} too", "they are not used")


def data(site: Site) -> Iterator[Finding]:
    folder = Path(site["data_folder"])
    if not folder.exists():
        yield Finding("data", WARNING, f"{folder} is not there yet", "the first run makes small sets in it")
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("data", BAD, f"{folder} cannot be read and written", "choose another data_folder in site.yaml")
        return
    for what, (pattern, program) in DATA.items():
        there = sorted(path.name for path in folder.glob(pattern))
        if there:
            yield Finding(f"data, {what}", GOOD, f"{folder}: {', '.join(there)}")
        else:
            to_do = f"the first run makes a small set; python -m {program} --help tells of more"
            yield Finding(f"data, {what}", WARNING, f"none in {folder}", to_do)


def sensors(block: Block) -> Iterator[Finding]:
    """Of this machine: a login node may have others than the compute nodes."""
    done = _run(str(REPOSITORY / "jube" / "include" / "python.sh"), "-m", "jpwr", "list")
    seen = done.stdout.splitlines() if done else []
    for method in re.split(r"[ /]", block["power_methods"]):
        line = next((line for line in seen if re.match(rf"\s*{re.escape(method)}\b", line)), "")
        unused = "not here" in line or not line
        to_do = "on a login node that is as it should be: try 'srun python3 -m jpwr list'" if unused else ""
        yield Finding(
            f"sensor {method}", WARNING if unused else GOOD, line.removeprefix(f"{method}: ") or "not listed", to_do
        )


def space(site: Site) -> Iterator[Finding]:
    for what, folder in (("results", REPOSITORY / "jube"), ("data", Path(site["data_folder"]))):
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        free_gb = shutil.disk_usage(existing).free / 1e9
        state = GOOD if free_gb > FREE_GB else WARNING
        yield Finding(f"disk, {what}", state, f"{free_gb:.0f} GB free", "" if state == GOOD else "make room")


def _run(*command: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
