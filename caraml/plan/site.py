"""Settings of a site: accounts, partitions, folders, modules.

They come from `site.yaml` in the checkout, where a block under `systems` overrides keys for one system, and the
environment variable CARAML_KEY overrides each key. submit.sh runs this module as a command, which writes site.sh and
sbatch.flags into the current folder:

    python -m caraml.plan.site SYSTEM
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from caraml.errors import CaramlError, SiteError
from caraml.installation import checkout, missing_package
from caraml.plan.kinds import ANY_TEXT, FIGURE, FROM_1, RUNTIME, SUBMIT, Kind, one_of
from caraml.plan.paths import wrong_path
from caraml.plan.systems import read_systems
from jpwr.messages import near
from results.record.records import RecordError
from results.workloads import names
from results.yaml_files import YamlError, read_yaml

SBATCH_FLAGS = ("account", "partition", "reservation", "qos")
TOLERATION = r"(?P<key>[\w./-]+)(=(?P<value>[\w.-]*))?(:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?"
TOLERATIONS = Kind("KEY, KEY:EFFECT or KEY=VALUE:EFFECT, with NoSchedule, PreferNoSchedule or NoExecute", TOLERATION)
LIMIT_FLAG = Kind("a flag of sbatch and srun with {}, such as --gpu-power={}", r"--[\w-]+=\{\}[\w,=-]*")
PATH = Kind("a path")
Value = str | tuple[str, ...]


def _key(kind: Kind, default: Any = "") -> Any:
    """Return the field of a key, whose value, if any, or each item of it is of a kind."""
    return field(default=default, metadata={"kind": kind})


@dataclass(frozen=True)
class Site:
    """Settings of a site for one system.

    Each field but the last is a key of site.yaml, which site.example.yaml explains. An empty value leaves the choice to
    the system's block or to the scheduler.
    """

    submit: str = _key(SUBMIT)
    account: str = ""
    partition: str = ""
    reservation: str = ""
    qos: str = ""
    sbatch: tuple[str, ...] = ()
    srun: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    network_interface: str = ""
    container_runtime: str = _key(RUNTIME)
    container_mounts: tuple[str, ...] = _key(PATH, ())
    container_folder: str = _key(PATH, "containers/images")
    data_folder: str = _key(PATH, "data")
    history_db: str = _key(PATH, "history.db")
    devices: str = ""
    batches: str = ""
    limits_set_by: str = _key(one_of("jpwr", "slurm", "none"), "none")
    power_limits: str = ""
    clocks: str = ""
    slurm_power_flag: str = _key(LIMIT_FLAG)
    slurm_clock_flag: str = _key(LIMIT_FLAG, "--gpu-freq={}")
    fill_nodes: str = _key(FROM_1)
    kubernetes_context: str = ""
    kubernetes_namespace: str = ""
    kubernetes_registry: str = ""
    kubernetes_image: str = ""
    kubernetes_pull_secret: str = ""
    kubernetes_claim: str = ""
    kubernetes_claim_path: str = _key(PATH)
    kubernetes_queue: str = ""
    kubernetes_node_selector: tuple[str, ...] = _key(Kind("LABEL=VALUE", r"[^=]+=.*"), ())
    kubernetes_tolerations: tuple[str, ...] = _key(TOLERATIONS, ())
    kubernetes_cpus: str = ""
    kubernetes_memory: str = ""
    kubernetes_user: str = _key(Kind("numbers, such as 1000 or 1000:100", r"[0-9]+(:[0-9]+)?"))
    kubernetes_pod: str = _key(PATH)
    kubernetes_patience_min: str = _key(FIGURE, "30")
    workload_flags: Mapping[str, str] = field(default_factory=dict)  # by workload: its key is WORKLOAD_flags

    def submit_of(self, block: Mapping[str, Any]) -> str:
        """Return how jobs of a system are started: as the site states, else as the system's block does."""
        return str(self.submit or block["submit"])


KEYS = {one.name: one for one in fields(Site) if one.name != "workload_flags"}
DEFAULTS: dict[str, Value] = {name: one.default for name, one in KEYS.items()}  # type: ignore[misc]
KINDS: dict[str, Kind] = {name: one.metadata.get("kind", ANY_TEXT) for name, one in KEYS.items()}


def defaults() -> dict[str, Value]:
    """Return every key of site.yaml with its default: the fields of Site, and the flags of each workload."""
    return {**DEFAULTS, **{f"{name}_flags": "" for name in names()}}


def read_site(system: str, file: Path | None = None, environ: Mapping[str, str] = os.environ) -> Site:
    """Return the settings for a system; its paths are absolute.

    Raises SiteError for an unknown key or system and for a wrong value, and NoCheckout outside of a checkout.
    """
    root = checkout()
    if wrong := wrong_path(root, "the checkout"):
        raise SiteError(wrong)
    values = defaults()
    for name, block in _blocks(file or root / "site.yaml"):
        if name in ("", system):
            values.update(block)
    for key, default in defaults().items():
        if text := environ.get(f"CARAML_{key.upper()}"):
            values[key] = tuple(text.split()) if isinstance(default, tuple) else text
    for key, kind in KINDS.items():
        value = values[key]
        items = [_checked(key, kind, one, root) for one in (value if isinstance(value, tuple) else (value,))]
        values[key] = tuple(items) if isinstance(value, tuple) else items[0]
    flags = {name: str(values.pop(f"{name}_flags")) for name in names()}
    return Site(**values, workload_flags=flags)  # type: ignore[arg-type]


def _blocks(file: Path) -> Iterator[tuple[str, dict[str, Value]]]:
    """Find the stated values of the whole site, under an empty name, and then of each system."""
    whole = _read(file)
    systems = whole.pop("systems", None) or {}
    if not isinstance(systems, dict):
        raise SiteError(f"{file}: 'systems' must hold a block of keys for each system")
    known = read_systems() if systems else {}
    yield "", _stated(whole, f"{file}, at the top")
    for name, block in systems.items():
        where = f"{file}, under systems: {name}"
        if name not in known:
            raise SiteError(f"{file}, under systems: there is no system '{name}': {near(name, known)}")
        if block and not isinstance(block, dict):
            raise SiteError(f"{where}: must hold a block of keys, got {block!r}")
        yield name, _stated(block or {}, where)


def _read(file: Path) -> dict[str, Any]:
    """Return the file's content with each value as a text, so that an account 0123 is not a number."""
    if not file.exists():
        return {}
    try:
        found = read_yaml(file, as_text=True)
    except YamlError as error:
        raise SiteError(f"{file} cannot be read: {error}") from error
    if found is not None and not isinstance(found, dict):
        raise SiteError(f"{file} must hold keys with values, such as 'account: hpc1'")
    return found or {}


def _stated(block: Mapping[str, Any], where: str) -> dict[str, Value]:
    """Return the values of a block, texts or tuples of texts; raises SiteError for another key or type."""
    known = defaults()
    found: dict[str, Value] = {}
    for key, value in block.items():
        if key not in known:
            raise SiteError(f"{where}: there is no key '{key}': {near(key, known)}")
        is_home = value == "~" and known[key] and KINDS.get(key) is PATH
        if not value or (value == "~" and not is_home):  # null in YAML
            found[key] = known[key]
        elif isinstance(known[key], tuple):
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise SiteError(f"{where}: '{key}' must be a list of texts, such as ['one', 'two']")
            found[key] = tuple(map(os.path.expandvars, value))
        elif isinstance(value, str):
            found[key] = os.path.expandvars(value)
        else:
            raise SiteError(f"{where}: '{key}' must be a text, got {value!r}")
    return found


def _checked(key: str, kind: Kind, text: str, root: Path) -> str:
    """Return a value, with a path as an absolute one; raises SiteError if it is not of its kind."""
    if text and kind is PATH:
        return _absolute(key, text, root)
    if text and not kind.allows(text):
        raise SiteError(f"{key} is {text!r}: write {kind.words}")
    return text


def _absolute(key: str, text: str, root: Path) -> str:
    whole = os.path.expanduser(text)  # noqa: PTH111 - that of Path raises an error for an unknown user
    if whole.startswith("~") or "$" in whole:
        raise SiteError(f"{key} is {text}: there is no such user or environment variable")
    if wrong := wrong_path(root / whole, key):
        raise SiteError(wrong)
    return str(root / whole)


def sbatch_flags(site: Site) -> list[str]:
    """Return the options for sbatch in addition to the job script."""
    values = {key: getattr(site, key) for key in SBATCH_FLAGS}
    return [*(f"--{key}={value}" for key, value in values.items() if value), *site.sbatch]


def job_lines(site: Site) -> list[str]:
    """Return the lines of shell that a job's script runs first."""
    lines = [f"module load {shlex.quote(name)} || exit" for name in site.modules]
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


def main(argv: Sequence[str] | None = None) -> int:
    """Write the site's lines for a job, and its flags for sbatch, into the current folder; return the exit code."""
    [system] = sys.argv[1:] if argv is None else argv
    try:
        site = read_site(system)
    except (CaramlError, RecordError, ImportError) as error:
        print(f"site: {missing_package(error) if isinstance(error, ImportError) else error}", file=sys.stderr)
        return 2
    for name, lines in (("site.sh", job_lines(site)), ("sbatch.flags", sbatch_flags(site))):
        text = "".join(f"{line}\n" for line in lines)
        Path(name).write_text(text, encoding="utf-8", errors="surrogateescape")  # names of files as they are
    return 0


if __name__ == "__main__":
    sys.exit(main())
