"""Find the system that a machine is, and what its first job lacks."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.common.node.programs import ProgramError, ask, words
from caraml.errors import CaramlError, SiteError
from caraml.installation import checkout
from caraml.machine.devices import BAD, GOOD, TOOLS, WARNING, Check, Device, candidates, find_devices
from caraml.machine.images import image_path
from caraml.plan.site import Site, read_site
from caraml.plan.systems import read_system
from caraml.plan.workloads import reason_against, refusal, workload_of, workload_on
from caraml.schedulers.kubernetes.cluster import check_access
from caraml.schedulers.kubernetes.kubectl import Kubectl
from caraml.schedulers.kubernetes.submit import SHARED, image_of
from caraml.schedulers.slurm import ask_slurm
from jpwr.messages import near
from results.files.systems import System, read_systems
from results.files.workloads import Facts, workloads

OLDEST_JUBE = (2, 5, 1)
FIRST_INDEXED_MINOR = 24  # of Kubernetes
LIMIT_S = 60  # of one program
HOW_TO_DESCRIBE = "describe this machine in ten minutes: docs/howto/add_a_system.md"

Used = Sequence[Facts]  # workloads; none: all


def examine(name: str, workload: str | None = None) -> list[Check]:
    """Return what the first job on a system lacks, for all workloads or for one.

    Raises SiteError for an unknown system or workload, if it does not run there, and for a wrong site.yaml.
    """
    block = read_system(name)
    used = [workload_on(workload_of(workload), block)[0]] if workload else []
    if used and (why := refusal(used[0], block)):
        raise SiteError(f"{used[0].title} was asked for on {name}, but {why}")
    site = read_site(name)
    block = replace(block, submit=site.submit_of(block))
    if block.submit == "kubernetes":
        runtime = "pod"
        here = [*kubernetes(block, site, images_of(block, used))]
    else:
        runtime = site.container_runtime or block.container_runtime
        here = [*scheduler(block, site), *container(block, site, runtime, used), *host_name()]
    lacking = [*jube(), *here, *sensors(block, runtime), *data(site)]
    return lacking or [Check("system", GOOD, f"{name}: its first job lacks nothing")]


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
    fitting = [name for name, differences in close.items() if not differences]
    if len(fitting) == 1:
        yield Check("system", GOOD, fitting[0], f"caraml doctor --system {fitting[0]}: what is missing for its jobs")
        return
    if fitting:
        values = [systems[name].values for name in fitting]
        keys = [key for key in values[0] if len({str(one.get(key)) for one in values}) > 1]
        found = f"{' and '.join(fitting)} have such devices, and differ in {', '.join(keys)}"
        yield Check("system", WARNING, found, f"choose by 'caraml systems --system {fitting[0]}'")
        return
    for name, differences in close.items():
        yield Check("system", WARNING, f"{name} is similar, but {'; '.join(differences)}")
    if close:
        to_do = f"{HOW_TO_DESCRIBE}, from the block of {next(iter(close))}"
        yield Check("system", WARNING, "none that is described is like this machine", to_do)
    else:
        yield Check("system", WARNING, f"none is described with {alike[0].name}", HOW_TO_DESCRIBE)
    yield _to_try(systems)


def _to_try(systems: Mapping[str, System]) -> Check:
    """Suggest the systems that need no accelerator and no scheduler."""
    names = [name for name, block in systems.items() if not block.device_words and block.submit == "bash"]
    return Check("system", GOOD, f"{' or '.join(names)}, to try the suite on the processor")


def report(findings: list[Check]) -> str:
    """Return a line for each finding, followed by what to do about it."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:4}  {finding.what}: {finding.found}")
        if finding.to_do:
            lines.append(f"      -> {finding.to_do}")
    return "\n".join(lines)


def jube() -> Iterator[Check]:
    """Yield what JUBE lacks: it is installed and new enough."""
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


def scheduler(block: System, site: Site) -> Iterator[Check]:
    """Yield what the scheduler lacks: it answers, and has the site's partition with the system's devices."""
    if site.submit_of(block) != "sbatch":
        return
    if shutil.which("sbatch") is None:
        to_do = "run on a login node of the system, or state 'submit: bash' in site.yaml to run jobs on this machine"
        yield Check("scheduler", BAD, "there is no sbatch", to_do)
        return
    try:
        done = ask_slurm("sinfo", "-h", "-o", "%R %l %G")
        trouble = words(done) if done.returncode else ""
    except CaramlError as error:
        trouble = str(error)
    if trouble:
        yield Check("scheduler", BAD, trouble, "is Slurm up, and SLURM_CONF right?")
        return
    offers: dict[str, list[str]] = {}  # of each partition, the devices of each kind of node
    for partition, _, devices in map(str.split, filter(str.strip, done.stdout.splitlines())):
        offers.setdefault(partition, []).append(devices)
    wanted = site.partition or os.environ.get("SBATCH_PARTITION", "")
    if not wanted:
        to_do = f"state 'partition' in site.yaml: one of {', '.join(offers)}"
        yield Check("partition", WARNING, "none is stated: Slurm uses its default", to_do)
    elif wanted not in offers:
        yield Check("partition", BAD, f"Slurm knows no {wanted}", near(wanted, offers))
    # NAME:COUNT or NAME:TYPE:COUNT of each resource, such as craynetwork:4,gpu:a100:4(S:0-1)
    elif block.gres and not any(re.search(rf"(^|,){re.escape(block.gres)}(:|,|$)", one) for one in offers[wanted]):
        found = f"partition {wanted} offers no {block.gres}, but {' and '.join(dict.fromkeys(offers[wanted]))}"
        yield Check("devices", BAD, found, "state another 'partition' in site.yaml")
    if not site.account and not os.environ.get("SBATCH_ACCOUNT"):
        yield Check("account", WARNING, "none is stated: Slurm uses yours", "state 'account' in site.yaml")


def kubernetes(block: System, site: Site, images: Sequence[str]) -> Iterator[Check]:
    """Yield what the cluster lacks for the jobs of a system."""
    kubectl = Kubectl(site.kubernetes_context, site.kubernetes_namespace)
    try:
        modes, server = check_access(site), kubectl.json("version")["serverVersion"]
        is_old = int(server["minor"].strip("+")) < FIRST_INDEXED_MINOR
        if max(map(int, block.devices_sweep.split())) > block.devices_per_node and (is_old or SHARED not in modes):
            needed = f"need Indexed Jobs, of Kubernetes 1.{FIRST_INDEXED_MINOR}, and a claim with {SHARED}"
            yield Check("several nodes", BAD, needed, "choose the points of one node by CARAML_DEVICES")
        for name in images:
            image_of(name, site)
    except CaramlError as error:
        yield Check("Kubernetes", BAD, str(error), "docs/howto/kubernetes.md shows what a cluster needs")


def container(block: System, site: Site, runtime: str, used: Used = ()) -> Iterator[Check]:
    """Yield what jobs lack to run in: the container runtime with the system's images, or .venv without one."""
    if runtime == "none":
        if not (checkout() / ".venv" / "bin" / "python").exists():
            yield Check("software", BAD, "there is no .venv", "make setup")
        return
    program = {"charliecloud": "ch-run"}.get(runtime, runtime)
    if shutil.which(program) is None:
        if site.submit_of(block) == "bash":
            to_do = "install it, or state another 'container_runtime' in site.yaml"
            yield Check("container", BAD, f"there is no {program} here", to_do)
        else:
            yield Check("container", WARNING, f"there is no {program} here", "the compute nodes must have it")
    for name in images_of(block, used):
        path = image_path(Path(site.container_folder), name, runtime)
        if not path.exists():
            yield Check("image", BAD, f"{path} is missing", f"caraml image {name} --runtime {runtime}")


def sensors(block: System, runtime: str) -> Iterator[Check]:
    """Yield each power method that cannot be used here; those of a login node may differ from the compute nodes'."""
    python = str(checkout() / "jube" / "include" / "python.sh")
    try:
        seen = ask(python, "-m", "jpwr", "list", limit_s=LIMIT_S).stdout.splitlines()
    except ProgramError as error:
        yield Check("sensors", BAD, str(error), "python3 -m jpwr list")
        return
    for methods in block.power_methods.split():  # of a/b, one is enough
        lacking = [_sensor(method, seen, block, runtime) for method in methods.split("/")]
        bad = [check for check in lacking if check and check.state == BAD]
        yield from bad or ([] if None in lacking else filter(None, lacking))


def _sensor(method: str, seen: list[str], block: System, runtime: str) -> Check | None:
    """Return what a power method lacks; None if it can be used."""
    what = f"sensor {method}"
    line = next((line for line in seen if re.match(rf"\s*{re.escape(method)}\b", line)), "")
    if package := re.search(r"no module \S+: pip install (\S+?),?(\s|$)", line):
        if runtime != "none":  # the image's package counts
            return None
        to_do = f"make setup, on a machine that has the device; or .venv/bin/pip install {package[1]}"
        return Check(what, BAD, f"its package {package[1]} is not installed", to_do)
    if not line and runtime == "none":
        known = [other.split(":")[0].strip() for other in seen if ": " in other]
        return Check(what, BAD, "jpwr has no such method", near(method, known))
    if line and ": unavailable: " not in line:
        return None
    to_do = "normal on a login node: try 'srun python3 -m jpwr list'" if block.submit == "sbatch" else ""
    return Check(what, WARNING, line.removeprefix(f"{method}: ") or "not listed", to_do)


def images_of(block: System, used: Used = ()) -> list[str]:
    """Return the names of a system's images, one for each framework of the workloads."""
    needed = {facts.framework for facts in used or workloads().values() if not reason_against(facts, block)}
    return list(dict.fromkeys(map(block.image_of, sorted(needed))))


def host_name() -> Iterator[Check]:
    """Yield a host name that does not resolve, as processes that train together find each other by it."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError) as error:
        to_do = f"add its address and name to /etc/hosts, such as '127.0.0.1 {name}' for a machine that trains alone"
        found = f"{name} does not resolve ({error}): torchrun would wait for minutes for this name"
        yield Check("host name", WARNING, found, to_do)


def data(site: Site) -> Iterator[Check]:
    """Yield a folder of data that cannot be used."""
    folder = Path(site.data_folder)
    if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Check("data", BAD, f"{folder} cannot be read and written", "choose another data_folder in site.yaml")
