"""Check what the first job on a system needs: each check with what was found, and what to do."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.common.node.programs import ProgramError, ask, words
from caraml.check import BAD, GOOD, WARNING, Check
from caraml.errors import CaramlError, SiteError
from caraml.installation import checkout
from caraml.machine.devices import TOOLS, Device, candidates, find_devices
from caraml.machine.images import image_path, read_image
from caraml.plan.points import sweep
from caraml.plan.site import Site, read_site
from caraml.plan.systems import read_system
from caraml.plan.workloads import Workload, refusal, workload_of
from caraml.schedulers.kubernetes.cluster import check_cluster
from caraml.schedulers.slurm import ask_slurm
from jpwr.messages import near
from record.values import count
from results.files.systems import System, read_systems
from results.files.workloads import Facts, workloads

OLDEST_JUBE = (2, 5, 1)
ENOUGH_GB = 20  # for the small data sets and the results of several sweeps
LIMIT_S = 60  # of one program
WITHOUT_SLURM = "or state 'submit: bash' in site.yaml to run jobs on this machine"
HOW_TO_DESCRIBE = "describe this machine in ten minutes: docs/howto/add_a_system.md"


Used = Sequence[Facts]  # workloads; none: all


def examine(name: str, workload: str | None = None) -> list[Check]:
    """Return all findings for a system, and for all workloads or for one.

    Raises SiteError for an unknown system or workload, and for a wrong site.yaml.
    """
    block, used = read_system(name), [workload_of(workload)] if workload else []
    site = read_site(name)
    block = replace(block, submit=site.submit_of(block))
    if block.submit == "kubernetes":
        runtime = "pod"
        here = [*check_cluster(block, site, images_of(block, used))]
    else:
        runtime = site.container_runtime or block.container_runtime
        here = [*scheduler(block, site), *container(block, site, runtime, used), *host_name()]
    return [*jube(), *here, *data(site, used), *sensors(block, runtime, used), *space(site), *jobs(block, site, used)]


def identify() -> list[Check]:
    """Return findings on the systems that this machine may be, by its accelerators."""
    systems = read_systems()
    devices, found = find_devices()
    kinds: dict[str, list[Device]] = {}
    for device in devices:
        kinds.setdefault(str(device), []).append(device)
    for alike in kinds.values():
        found += _which_system(systems, alike)
    if len(kinds) > 1:
        to_do = "choose those of one kind, such as with CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES"
        found.append(
            Check("devices", WARNING, f"there are {len(kinds)} kinds: a run takes the first that it finds", to_do)
        )
    if not kinds:
        has_tool = any(map(shutil.which, TOOLS))
        why = "" if has_tool else f", as there is none of {', '.join(TOOLS)}; a login node may have no accelerator"
        found.append(Check("devices", WARNING if has_tool else GOOD, f"no accelerator is found{why}"))
        found.append(_to_try(systems))
    return found


def _which_system(systems: Mapping[str, System], alike: list[Device]) -> Iterator[Check]:
    where = ", those of this job" if "SLURM_JOB_ID" in os.environ else ""
    yield Check("devices", GOOD, f"{len(alike)} x {alike[0]}{where}")
    if any(device.is_divided for device in alike):
        to_do = "a run on an instance of MIG is not one of the device that a system describes"
        yield Check("devices", WARNING, "MIG divides them", to_do)
    close = candidates(systems, alike)
    fitting = [one.system for one in close if not one.differences]
    if len(fitting) == 1:
        yield Check("system", GOOD, fitting[0], f"caraml doctor --system {fitting[0]}: what is missing for its jobs")
        return
    if fitting:
        values = [systems[name].values for name in fitting]
        keys = [key for key in values[0] if len({str(one.get(key)) for one in values}) > 1]
        found = f"{' and '.join(fitting)} have such devices, and differ in {', '.join(keys)}"
        yield Check("system", WARNING, found, f"choose by 'caraml systems --system {fitting[0]}'")
        return
    for one in close:
        yield Check("system", WARNING, f"{one.system} is similar, but {'; '.join(one.differences)}")
    if close:
        to_do = f"{HOW_TO_DESCRIBE}, from the block of {close[0].system}"
        yield Check("system", WARNING, "none that is described is like this machine", to_do)
    else:
        yield Check("system", WARNING, f"none is described with {alike[0].name}", HOW_TO_DESCRIBE)
    yield _to_try(systems)


def _to_try(systems: Mapping[str, System]) -> Check:
    """Suggest the systems that need no accelerator and no scheduler."""
    names = [name for name, block in systems.items() if not block.device_words and block.submit == "bash"]
    return Check("system", GOOD, f"{' or '.join(names)}, to try the suite on the processor")


def jobs(block: System, site: Site, used: Used = ()) -> Iterator[Check]:
    """Yield the number of jobs and runs of each workflow without further tags, and how to run one point alone."""
    for facts in used or workloads().values():
        workflow = f"jube/{facts.workflow}.yaml"
        if why := refusal(facts, block):
            yield Check(workflow, WARNING, why)
            continue
        try:
            model = facts.default_model(block.values)
            points = sweep(Workload(facts), block, site, model)
        except SiteError as error:
            to_do = "correct the block in systems.yaml, CARAML_DEVICES or CARAML_BATCHES"
            yield Check(workflow, BAD, str(error), to_do)
            continue
        devices, batches = next(iter(points.items()))
        number = sum(map(len, points.values()))
        runs = number * block.default_repeats
        found = f"{f'{model}: ' if model else ''}{count(number, 'job')} with {count(runs, 'run')}"
        point = f"CARAML_DEVICES={devices} CARAML_BATCHES={batches[0]}"
        to_do = f"for one run of one point: {point} jube run {workflow} --tag {block.system_name} once"
        yield Check(workflow, GOOD, found, to_do if runs > 1 else "")


def report(findings: list[Check]) -> str:
    """Return a line for each finding, followed by what to do about it."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:4}  {finding.what}: {finding.found}")
        if finding.to_do:
            lines.append(f"      -> {finding.to_do}")
    return "\n".join(lines)


def jube() -> Iterator[Check]:
    """Check that JUBE is installed and new enough."""
    command = os.environ.get("JUBE", "jube")
    try:
        done = ask(command, "--version", limit_s=LIMIT_S)
        found = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout + done.stderr)
    except ProgramError:
        found = None
    if not found:
        yield Check("JUBE", BAD, f"there is no {command}", "apt-get install jube, or load your site's module")
    elif tuple(map(int, found.groups())) < OLDEST_JUBE:
        yield Check("JUBE", BAD, found[0], f"install {'.'.join(map(str, OLDEST_JUBE))} or newer")
    else:
        yield Check("JUBE", GOOD, found[0])


def scheduler(block: System, site: Site) -> Iterator[Check]:
    """Check that the scheduler answers, and has the site's partition and account."""
    if site.submit_of(block) != "sbatch":
        yield Check("scheduler", GOOD, "none is needed: jobs run here")
        return
    if shutil.which("sbatch") is None:
        yield Check("scheduler", BAD, "there is no sbatch", f"run on a login node of the system, {WITHOUT_SLURM}")
        return
    try:
        done = ask_slurm("sinfo", "-h", "-o", "%R %l %G")
        trouble = words(done) if done.returncode else ""
    except CaramlError as error:
        trouble = str(error)
    if trouble:
        yield Check("scheduler", BAD, trouble, "is Slurm up, and SLURM_CONF right?")
        return
    partitions: dict[str, list[tuple[str, str]]] = {}  # a line for each kind of node
    for partition, time_limit, devices in map(str.split, filter(str.strip, done.stdout.splitlines())):
        partitions.setdefault(partition, []).append((time_limit, devices))
    yield Check("scheduler", GOOD, f"Slurm with partitions {', '.join(partitions)}")
    wanted = site.partition or os.environ.get("SBATCH_PARTITION", "")
    if not wanted:
        yield Check("partition", WARNING, "none is stated: Slurm uses its default", "state 'partition' in site.yaml")
    elif wanted not in partitions:
        yield Check("partition", BAD, f"Slurm knows no {wanted}", near(wanted, partitions))
    else:
        yield Check("partition", GOOD, f"{wanted}, at most {partitions[wanted][0][0]}")
        offered = list(dict.fromkeys(devices for _, devices in partitions[wanted]))
        # NAME:COUNT or NAME:TYPE:COUNT of each resource, such as craynetwork:4,gpu:a100:4(S:0-1)
        if block.gres and not any(re.search(rf"(^|,){re.escape(block.gres)}(:|,|$)", devices) for devices in offered):
            found = f"partition {wanted} offers no {block.gres}, but {' and '.join(offered)}"
            yield Check("devices", BAD, found, "state another 'partition' in site.yaml")
    if not site.account and not os.environ.get("SBATCH_ACCOUNT"):
        yield Check("account", WARNING, "none is stated: Slurm uses yours", "state 'account' in site.yaml")


def container(block: System, site: Site, runtime: str, used: Used = ()) -> Iterator[Check]:
    """Check the software that jobs run in: the container runtime with the system's images, or .venv without one."""
    if runtime == "none":
        if (checkout() / ".venv" / "bin" / "python").exists():
            yield Check("software", GOOD, ".venv")
        else:
            yield Check("software", BAD, "there is no .venv", "make setup")
        return
    program = {"charliecloud": "ch-run"}.get(runtime, runtime)
    if shutil.which(program) is None:
        here = site.submit_of(block) == "bash"
        to_do = (
            "install it, or state another 'container_runtime' in site.yaml"
            if here
            else "the compute nodes must have it"
        )
        yield Check("container", BAD if here else WARNING, f"there is no {program} here", to_do)
    for name in images_of(block, used):
        yield _check_image(name, block, Path(site.container_folder), runtime)


def _check_image(name: str, block: System, folder: Path, runtime: str) -> Check:
    path, image = image_path(folder, name, runtime), read_image(name)
    to_make = f"caraml image {name} --runtime {runtime}"
    if not path.exists():
        return Check("image", BAD, f"{path} is missing", to_make)
    if block.cpu_arch not in (image.arch, "uname -m"):
        found = f"{name} is for {image.arch}, the system is {block.cpu_arch}"
        return Check("image", BAD, found, "correct containers/images.yaml")
    return Check("image", GOOD, f"{path}")


def data(site: Site, used: Used = ()) -> Iterator[Check]:
    """Check that the data folder can be used, and list its data sets."""
    folder = Path(site.data_folder)
    if not folder.exists():
        yield Check("data", WARNING, f"{folder} does not exist yet", "the first run makes small sets in it")
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Check("data", BAD, f"{folder} cannot be read and written", "choose another data_folder in site.yaml")
        return
    for needed in (facts.data for facts in used or workloads().values() if facts.data):
        what, present = needed.what, sorted(path.name for path in folder.glob(needed.files))
        if present:
            yield Check(f"data, {what}", GOOD, f"{folder}: {', '.join(present)}")
        else:
            to_do = f"the first run makes a small set; python -m {needed.prepare} --help shows how to get more"
            yield Check(f"data, {what}", WARNING, f"none in {folder}", to_do)


def sensors(block: System, runtime: str, used: Used = ()) -> Iterator[Check]:
    """Yield the sensors of this machine; those of a login node may differ from those of the compute nodes."""
    python = str(checkout() / "jube" / "include" / "python.sh")
    try:
        seen = ask(python, "-m", "jpwr", "list", limit_s=LIMIT_S).stdout.splitlines()
    except ProgramError as error:
        yield Check("sensors", BAD, str(error), "python3 -m jpwr list")
        return
    for method in re.split(r"[ /]", block.power_methods):
        line = next((line for line in seen if re.match(rf"\s*{re.escape(method)}\b", line)), "")
        package = re.search(r"no module \S+: pip install (\S+?),?(\s|$)", line)
        if package:
            yield _without_package(method, package[1], block, runtime, used)
            continue
        if not line and runtime == "none":
            known = [one.split(":")[0].strip() for one in seen if ": " in one]
            yield Check(f"sensor {method}", BAD, "jpwr has no such method", near(method, known))
            continue
        unused = ": unavailable: " in line or not line
        is_submitted = unused and block.submit == "sbatch"
        to_do = "normal on a login node: try 'srun python3 -m jpwr list'" if is_submitted else ""
        found = line.removeprefix(f"{method}: ") or "not listed"
        yield Check(f"sensor {method}", WARNING if unused else GOOD, found, to_do)


def _without_package(method: str, package: str, block: System, runtime: str, used: Used = ()) -> Check:
    """Return the finding on a sensor without its Python package here; in a container, the image's package counts."""
    what = f"sensor {method}"
    if runtime == "none":
        to_do = f"make setup, on a machine that has the device; or .venv/bin/pip install {package}"
        return Check(what, BAD, f"its package {package} is not installed", to_do)
    without = [name for name in images_of(block, used) if not any(package in one for one in read_image(name).pip)]
    if not without:
        return Check(what, GOOD, f"its package {package} is in the images")
    found = f"its package {package} is not here, and not added to {', '.join(without)}"
    return Check(what, WARNING, found, f"does the image have it? If not, add it to containers/images.yaml: {package}")


def images_of(block: System, used: Used = ()) -> list[str]:
    """Return the names of a system's images, one for each framework of the workloads."""
    needed = {facts.framework for facts in used or workloads().values() if block.vendor not in facts.refused}
    return list(dict.fromkeys(block.image.replace("$framework", framework) for framework in sorted(needed)))


def host_name(resolve: Callable[..., Any] = socket.getaddrinfo) -> Iterator[Check]:
    """Check that the host name resolves, as processes that train together find each other by it."""
    name = socket.gethostname()
    try:
        resolve(name, None)
    except (OSError, UnicodeError) as error:
        to_do = f"add its address and name to /etc/hosts, such as '127.0.0.1 {name}' for a machine that trains alone"
        found = f"{name} does not resolve ({error}): torchrun would wait for minutes for this name"
        yield Check("host name", WARNING, found, to_do)
    else:
        yield Check("host name", GOOD, name)


def space(site: Site) -> Iterator[Check]:
    """Check the free space for results and data."""
    for what, folder in (("results", checkout() / "jube"), ("data", Path(site.data_folder))):
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        free_gb = shutil.disk_usage(existing).free / 1e9
        state = GOOD if free_gb > ENOUGH_GB else WARNING
        yield Check(f"disk, {what}", state, f"{free_gb:.0f} GB free", "" if state == GOOD else "make room")
