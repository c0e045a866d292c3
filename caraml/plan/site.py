"""Settings of a site: accounts, partitions, folders, modules.

They come from `site.yaml` in the checkout, where a block under `systems` overrides keys for one system, and the
environment variable CARAML_KEY overrides each key.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from caraml.errors import SiteError
from caraml.installation import checkout
from jpwr.messages import near
from record.files import RecordError
from results.files.systems import Runtime, Submit, System, read_systems
from results.files.typed_files import keys_of, like, read_mapping, reader, stated
from results.files.workloads import names

# Separators of JUBE's values, of mounts and of lists of folders, and special characters of a shell.
SPECIAL = re.compile(r"[\s,:;|$\"'`\\&<>(){}\[\]*?!#]")
SBATCH_FLAGS = ("account", "partition", "reservation", "qos")
# Variables that are no settings of a site: those of a job's programs, of `make setup`, and of tests.
OF_JOBS = "COPIES COPIES_FOLDER COPY CORES EXCLUSIVE GIT_COMMIT GIT_DIRTY IMAGE IMAGE_DIGEST NODES POD RESERVED"
OF_OTHERS = "TORCH ARM64 EMULATED KUBERNETES_PROGRAMS REQUIRE_ALL"
OTHER_VARIABLES = {f"CARAML_{name}" for name in f"{OF_JOBS} {OF_OTHERS}".split()}
LimitFlag = Annotated[
    str, like(r"(--[\w-]+=\{\}[\w,=-]*)?", "a flag of sbatch and srun with {}, such as --gpu-power={}")
]
Folder = Annotated[str, "a path"]
Nodes = Annotated[str, like("([1-9][0-9]*)?", "a whole number from 1 on")]
Label = Annotated[str, like("[^=]+=.*", "LABEL=VALUE")]
Minutes = Annotated[str, like(r"[0-9]*\.?[0-9]+", "a number from 0 on")]


@dataclass(frozen=True)
class Site:
    """Settings of a site for one system.

    Each field is a key of site.yaml, which examples/site.yaml explains. An empty value leaves the choice to the
    system's block or to the scheduler.
    """

    submit: Submit | Literal[""] = ""
    account: str = ""
    partition: str = ""
    reservation: str = ""
    qos: str = ""
    sbatch: tuple[str, ...] = ()
    srun: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    network_interface: str = ""
    container_runtime: Runtime | Literal[""] = ""
    container_mounts: tuple[Folder, ...] = ()
    container_folder: Folder = "containers/images"
    data_folder: Folder = "data"
    checkpoint_folder: Folder = ""
    training_references: Folder = ""
    devices: str = ""
    batches: str = ""
    limits_set_by: Literal["jpwr", "slurm", "none"] = "none"
    power_limits: str = ""
    clocks: str = ""
    slurm_power_flag: LimitFlag = ""
    slurm_clock_flag: LimitFlag = "--gpu-freq={}"
    fill_nodes: Nodes = ""
    kubernetes_context: str = ""
    kubernetes_namespace: str = ""
    kubernetes_registry: str = ""
    kubernetes_image: str = ""
    kubernetes_claim: str = ""
    kubernetes_claim_path: Folder = ""
    kubernetes_queue: str = ""
    kubernetes_node_selector: tuple[Label, ...] = ()
    kubernetes_cpus: str = ""
    kubernetes_memory: str = ""
    kubernetes_pod: Folder = ""
    kubernetes_patience_min: Minutes = "30"

    def submit_of(self, block: System) -> Submit:
        """Return how jobs of a system are started: as the site states, else as the system's block does."""
        return self.submit or block.submit

    def flags_of(self, benchmark: str) -> str:
        """Return the site's further flags of a benchmark."""
        return str(getattr(self, f"{benchmark}_flags", ""))


FLAGS: Any = [(f"{one}_flags", str, "") for one in names()]  # further options of each workload
SiteFile: Any = make_dataclass("SiteFile", FLAGS, bases=(Site,), frozen=True, namespace={"__doc__": Site.__doc__})
KEYS = keys_of(SiteFile)
PATHS = [name for name, kind in KEYS.items() if kind in (Folder, tuple[Folder, ...])]


def read_site(system: str, file: Path | None = None, environ: Mapping[str, str] = os.environ) -> Site:
    """Return the settings for a system; its paths are absolute.

    Raises SiteError for an unknown key or system and for a wrong value.
    """
    root = checkout()
    if wrong := wrong_path(root, "the checkout"):
        raise SiteError(wrong)
    values: dict[str, Any] = {}
    try:
        for name, block in _blocks(file or root / "site.yaml"):
            if name in ("", system):
                values |= block
        values |= stated(SiteFile, _of_environment(environ), "the environment")
    except RecordError as error:
        raise SiteError(str(error)) from error
    for key in PATHS:
        value = values.get(key, getattr(SiteFile, key))
        is_several = isinstance(value, tuple)
        whole = tuple(_absolute(key, one, root) for one in (value if is_several else (value,)))
        values[key] = whole if is_several else whole[0]
    return SiteFile(**values)  # type: ignore[no-any-return]


def _blocks(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the stated values of the whole site, under an empty name, and then of each system."""
    whole = read_mapping(file, "site settings") if file.exists() else {}
    systems = reader(Mapping[str, Mapping[str, Any] | None])(whole.pop("systems", None) or {}, str(file), "systems")
    known = read_systems() if systems else {}
    yield "", _expanded(whole, str(file))
    for name, block in systems.items():
        if name not in known:
            raise RecordError(f"{file}, systems: there is no system '{name}': {near(name, known)}")
        yield name, _expanded(block or {}, f"{file}, system {name}")


def _of_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the variables CARAML_KEY that are set; raises RecordError for one that nothing reads."""
    variables = {f"CARAML_{key.upper()}": key for key in KEYS}
    values: dict[str, Any] = {}
    for name, text in environ.items():
        if name in variables and text:
            key = variables[name]
            values[key] = text.split() if getattr(SiteFile, key) == () else text
        elif name.startswith("CARAML_") and name not in (*variables, *OTHER_VARIABLES):
            found = f"the environment has {name}={text}, which nothing reads"
            raise RecordError(f"{found}: unset it, or {near(name, variables)}")
    return values


def _expanded(block: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the values of a block, with those of environment variables in them."""
    return stated(SiteFile, {key: _value(key, value) for key, value in block.items()}, where)


def _value(key: str, value: Any) -> Any:
    """Return a value, or the default if there is none; ~ is a home folder where there is a path, and null elsewhere."""
    default = getattr(SiteFile, str(key), None)
    if not value or (value == "~" and not (key in PATHS and default)):
        return default
    if isinstance(value, list):
        return [_value("", one) or one for one in value]
    return os.path.expandvars(value) if isinstance(value, str) else value


def _absolute(key: str, text: str, root: Path) -> str:
    """Return a path as an absolute one; raises SiteError if it cannot be used."""
    whole = os.path.expanduser(text)  # noqa: PTH111 - that of Path raises an error for an unknown user
    if whole.startswith("~") or "$" in whole:
        raise SiteError(f"{key} is {text}: there is no such user or environment variable")
    if wrong := wrong_path(root / whole, key):
        raise SiteError(wrong)
    return str(root / whole) if text else ""


def wrong_path(path: Path | str, what: str) -> str:
    """Return one sentence on a path that a shell, JUBE or a container's runtime would change; empty if it is good."""
    found = SPECIAL.search(str(path))
    if not found:
        return ""
    name = "a space" if found[0] == " " else repr(found[0])
    return f"{what} is '{path}', with {name} in its name: take a path of letters, digits and . _ - + = @ alone"


def sbatch_flags(site: Site) -> list[str]:
    """Return the options for sbatch in addition to the job script."""
    values = {key: getattr(site, key) for key in SBATCH_FLAGS}
    return [*(f"--{key}={value}" for key, value in values.items() if value), *site.sbatch]


def job_lines(site: Site) -> list[str]:
    """Return the lines of shell that a job's script runs first."""
    lines = [f'. "$repo/jube/include/load_module.sh" {shlex.quote(name)} || exit' for name in site.modules]
    lines.append(f"export CARAML_CONTAINER_FOLDER={shlex.quote(site.container_folder)}")
    lines.append(f"export CARAML_DATA_FOLDER={shlex.quote(site.data_folder)}")
    if site.container_mounts:
        lines.append(f"export CARAML_CONTAINER_MOUNTS={shlex.quote(' '.join(site.container_mounts))}")
    if site.network_interface:
        interface = shlex.quote(site.network_interface)
        lines.append(f"export NCCL_SOCKET_IFNAME={interface} GLOO_SOCKET_IFNAME={interface}")
    if site.srun:
        lines.append(f"((${{#launcher[@]}})) && launcher+=({shlex.join(site.srun)})")
    return [*lines, "true"]
