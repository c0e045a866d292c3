"""Is everything there for the first job on a system? Each thing that is looked at, what was found, and what to do."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from caraml.errors import SiteError, near
from caraml.installation import checkout, find_checkout
from caraml.machine.devices import TOOLS, Device, candidates, find_devices
from caraml.machine.finding import BAD, GOOD, WARNING, Finding
from caraml.machine.images import ENDINGS, architecture_of, image_path, read_image
from caraml.machine.programs import ProgramError, ask, words
from caraml.plan.forecast import forecast
from caraml.plan.site import Site, read_site
from caraml.plan.systems import Block, read_system, read_systems
from caraml.plan.workloads import Workload, refusal
from caraml.schedulers.kubernetes.checks import check_cluster
from results.workloads import FRAMEWORKS, workloads

OLDEST_JUBE = (2, 5, 1)
FREE_GB = 20
LIMIT_S = 60
HOW_TO_DESCRIBE = "describe this machine in ten minutes: docs/howto/add_a_system.md"


def examine(name: str) -> list[Finding]:
    """All findings for a system; raises SiteError when there is none of that name, or site.yaml cannot be used."""
    block = read_system(name)
    if find_checkout() is None:
        missing = Finding("checkout", BAD, f"{Path.cwd()} is in none", "ask in one: it has workflows and site.yaml")
        return [missing, *jube(), *sensors(block, block["container_runtime"])]
    site = read_site(name)
    runtime = site.container_runtime or block["container_runtime"]
    by_kubernetes = site.submit_of(block) == "kubernetes"
    if by_kubernetes:
        runtime = "pod"
    checks = (
        jube(),
        check_cluster(block, site, images_of(block)) if by_kubernetes else scheduler(block, site),
        () if by_kubernetes else container(block, site, runtime),
        data(site),
        sensors(block, runtime),
        () if by_kubernetes else host_name(),
        space(site),
        cost(block, site),
    )
    return [finding for check in checks for finding in check]


def identify() -> list[Finding]:
    """Which system this machine is, by its accelerators."""
    systems = read_systems()
    devices, troubles = find_devices()
    found = [Finding("devices", BAD, trouble, "is the driver loaded? Ask on a compute node") for trouble in troubles]
    kinds: dict[str, list[Device]] = {}
    for device in devices:
        kinds.setdefault(str(device), []).append(device)
    for alike in kinds.values():
        found += _which_system(systems, alike)
    if len(kinds) > 1:
        to_do = "choose those of one kind, such as with CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES"
        found.append(Finding("devices", WARNING, f"there are {len(kinds)} kinds: a run takes the first it sees", to_do))
    if not kinds:
        there = [tool for tool in TOOLS if shutil.which(tool)]
        seen = "" if there else f", as there is none of {', '.join(TOOLS)}; a login node may have no accelerator"
        found.append(Finding("devices", WARNING if there else GOOD, f"no accelerator is seen{seen}"))
        found.append(_to_try(systems))
    return found


def _which_system(systems: Mapping[str, Block], alike: list[Device]) -> Iterator[Finding]:
    where = ", those of this job" if "SLURM_JOB_ID" in os.environ else ""
    yield Finding("devices", GOOD, f"{len(alike)} x {alike[0]}{where}")
    if any(device.is_divided for device in alike):
        to_do = "a run on an instance of MIG is not one of the device that a system describes"
        yield Finding("devices", WARNING, "MIG divides them", to_do)
    close = candidates(systems, alike)
    fitting = [one.system for one in close if not one.differences]
    if len(fitting) == 1:
        yield Finding("system", GOOD, fitting[0], f"caraml doctor --system {fitting[0]}: what is missing for its jobs")
        return
    if fitting:
        keys = [key for key in systems[fitting[0]] if len({str(systems[name][key]) for name in fitting}) > 1]
        found = f"{' and '.join(fitting)} have such devices, and differ in {', '.join(keys)}"
        yield Finding("system", WARNING, found, f"choose by 'caraml systems --system {fitting[0]}'")
        return
    for one in close:
        yield Finding("system", WARNING, f"{one.system} is not quite this: {'; '.join(one.differences)}")
    if close:
        to_do = f"{HOW_TO_DESCRIBE}, from the block of {close[0].system}"
        yield Finding("system", WARNING, "none is described that is as this machine", to_do)
    else:
        yield Finding("system", WARNING, f"none is described with {alike[0].name}", HOW_TO_DESCRIBE)
    yield _to_try(systems)


def _to_try(systems: Mapping[str, Block]) -> Finding:
    """A system that needs no accelerator, and no scheduler."""
    names = [name for name, block in systems.items() if not block["device_words"] and block["submit"] == "bash"]
    return Finding("system", GOOD, f"{' or '.join(names)}, to try the suite on the processor")


def cost(block: Block, site: Site) -> Iterator[Finding]:
    """Yield the expected cost of one run of each workflow, and how to reduce it."""
    for facts in workloads().values():
        workflow = f"jube/{facts.workflow}.yaml"
        if why := refusal(facts, block):
            yield Finding(workflow, WARNING, why)
            continue
        try:
            expected = forecast(Workload(facts), block, site)
        except SiteError as error:
            yield Finding(
                workflow, BAD, str(error), "correct the block in systems.yaml, CARAML_DEVICES or CARAML_BATCHES"
            )
            continue
        fewer = f"CARAML_DEVICES={expected.devices} CARAML_BATCHES={expected.batch} jube run {workflow}"
        to_do = (
            f"for one point and one run of it: {fewer} --tag {block['system_name']} once" if expected.runs > 1 else ""
        )
        yield Finding(workflow, GOOD, str(expected), to_do)


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
    try:
        done = ask(command, "--version", limit_s=LIMIT_S)
        found = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout + done.stderr)
    except ProgramError:
        found = None
    if not found:
        yield Finding("JUBE", BAD, f"there is no {command}", "apt-get install jube, or load your site's module")
    elif tuple(map(int, found.groups())) < OLDEST_JUBE:
        yield Finding("JUBE", BAD, found[0], f"install {'.'.join(map(str, OLDEST_JUBE))} or newer")
    else:
        yield Finding("JUBE", GOOD, found[0])


def scheduler(block: Block, site: Site) -> Iterator[Finding]:
    if site.submit_of(block) != "sbatch":
        yield Finding("scheduler", GOOD, "none is needed: jobs run here")
        return
    if shutil.which("sbatch") is None:
        yield Finding("scheduler", BAD, "there is no sbatch", "run on a login node of the system")
        return
    try:
        done = ask("sinfo", "-h", "-o", "%R %l %G", limit_s=LIMIT_S)
        trouble = words(done) if done.returncode else ""
    except ProgramError as error:
        trouble = str(error)
    if trouble:
        yield Finding("scheduler", BAD, trouble, "is Slurm up, and SLURM_CONF right?")
        return
    partitions = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.strip()}
    yield Finding("scheduler", GOOD, f"Slurm with partitions {', '.join(partitions)}")
    wanted = site.partition or os.environ.get("SBATCH_PARTITION", "")
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
    if not site.account and not os.environ.get("SBATCH_ACCOUNT"):
        yield Finding("account", WARNING, "none is named: your default is used", "state 'account' in site.yaml")


def container(block: Block, site: Site, runtime: str) -> Iterator[Finding]:
    if runtime == "none":
        there = (checkout() / ".venv" / "bin" / "python").exists()
        yield Finding(
            "software", GOOD if there else BAD, ".venv" if there else "no .venv", "" if there else "make setup"
        )
        return
    program = {"charliecloud": "ch-run"}.get(runtime, runtime)
    if shutil.which(program) is None:
        yield Finding("container", WARNING, f"there is no {program} here", "it must be there on the compute nodes")
    folder = Path(site.container_folder)
    for name in images_of(block):
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
    folder = Path(site.data_folder)
    if not folder.exists():
        yield Finding("data", WARNING, f"{folder} is not there yet", "the first run makes small sets in it")
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("data", BAD, f"{folder} cannot be read and written", "choose another data_folder in site.yaml")
        return
    for what, pattern, program in (facts.data for facts in workloads().values() if facts.data):
        there = sorted(path.name for path in folder.glob(pattern))
        if there:
            yield Finding(f"data, {what}", GOOD, f"{folder}: {', '.join(there)}")
        else:
            to_do = f"the first run makes a small set; python -m {program} --help shows how to get more"
            yield Finding(f"data, {what}", WARNING, f"none in {folder}", to_do)


def sensors(block: Block, runtime: str) -> Iterator[Finding]:
    """Yield the sensors of this machine; those of a login node may differ from those of the compute nodes."""
    home = find_checkout()
    python = str(home / "jube" / "include" / "python.sh") if home else sys.executable
    try:
        seen = ask(python, "-m", "jpwr", "list", limit_s=LIMIT_S).stdout.splitlines()
    except ProgramError as error:
        yield Finding("sensors", BAD, str(error), "python3 -m jpwr list")
        return
    for method in re.split(r"[ /]", block["power_methods"]):
        line = next((line for line in seen if re.match(rf"\s*{re.escape(method)}\b", line)), "")
        package = re.search(r"no module \S+: pip install (\S+?),?(\s|$)", line)
        if package:
            yield _without_package(method, package[1], block, runtime)
            continue
        if not line and runtime == "none":
            known = [one.split(":")[0].strip() for one in seen if ": " in one]
            yield Finding(f"sensor {method}", BAD, "jpwr has no such method", near(method, known))
            continue
        unused = "not here" in line or not line
        to_do = "on a login node that is as it should be: try 'srun python3 -m jpwr list'" if unused else ""
        yield Finding(
            f"sensor {method}", WARNING if unused else GOOD, line.removeprefix(f"{method}: ") or "not listed", to_do
        )


def _without_package(method: str, package: str, block: Block, runtime: str) -> Finding:
    """A sensor whose Python package is not here: in a container it is the image's that counts."""
    what = f"sensor {method}"
    if runtime == "none":
        to_do = f"make setup, on a machine that has the device; or .venv/bin/pip install {package}"
        return Finding(what, BAD, f"its package {package} is not installed", to_do)
    without = [name for name in images_of(block) if not any(package in one for one in read_image(name).pip)]
    if not without:
        return Finding(what, GOOD, f"its package {package} is in the images")
    found = f"its package {package} is not here, and not added to {', '.join(without)}"
    return Finding(what, WARNING, found, f"does the image have it? If not, add it to containers/images.yaml: {package}")


def images_of(block: Block) -> list[str]:
    """The names of a system's images, one for each framework."""
    used = {facts.framework for facts in workloads().values()}
    frameworks = [framework for framework in FRAMEWORKS if framework in used]
    return list(dict.fromkeys(block["image"].replace("$framework", framework) for framework in frameworks))


def host_name(resolve: Callable[..., Any] = socket.getaddrinfo) -> Iterator[Finding]:
    """Check that the host name resolves: programs that train together look each other up by it."""
    name = socket.gethostname()
    try:
        resolve(name, None)
    except (OSError, UnicodeError) as error:
        to_do = f"add its address and name to /etc/hosts, such as '127.0.0.1 {name}' for a machine that trains alone"
        found = f"{name} does not resolve ({error}): torchrun waits for minutes where it asks for this name"
        yield Finding("host name", WARNING, found, to_do)
    else:
        yield Finding("host name", GOOD, name)


def space(site: Site) -> Iterator[Finding]:
    for what, folder in (("results", checkout() / "jube"), ("data", Path(site.data_folder))):
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        free_gb = shutil.disk_usage(existing).free / 1e9
        state = GOOD if free_gb > FREE_GB else WARNING
        yield Finding(f"disk, {what}", state, f"{free_gb:.0f} GB free", "" if state == GOOD else "make room")
