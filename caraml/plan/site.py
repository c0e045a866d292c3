"""Settings of a site: accounts, partitions, folders, modules.

From `site.yaml` in the checkout (site.example.yaml shows all keys), each key overridden by the environment variable
CARAML_KEY, and for one system by a block under `systems`. Also a command, for
submit.sh, which writes site.sh and sbatch.flags into the current folder:

    python -m caraml.plan.site SYSTEM
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from caraml.errors import CaramlError, SiteError, near
from caraml.installation import checkout, missing_package
from caraml.plan.paths import wrong_path
from caraml.plan.systems import FIGURE, KEYS, Kind, read_systems
from results.record.records import RecordError
from results.workloads import names
from results.yaml_files import YamlError, read_yaml

DEFAULTS: dict[str, str | list[str]] = {
    "submit": "",
    "account": "",
    "partition": "",
    "reservation": "",
    "qos": "",
    "sbatch": [],
    "srun": [],
    "modules": [],
    "network_interface": "",
    "container_runtime": "",
    "container_mounts": [],
    "container_folder": "containers/images",
    "data_folder": "data",
    "devices": "",
    "batches": "",
    "kubernetes_context": "",
    "kubernetes_namespace": "",
    "kubernetes_registry": "",
    "kubernetes_image": "",
    "kubernetes_pull_secret": "",
    "kubernetes_claim": "",
    "kubernetes_claim_path": "",
    "kubernetes_queue": "",
    "kubernetes_node_selector": [],
    "kubernetes_tolerations": [],
    "kubernetes_cpus": "",
    "kubernetes_memory": "",
    "kubernetes_user": "",
    "kubernetes_pod": "",
    "kubernetes_patience_min": "30",
}
SBATCH_FLAGS = ("account", "partition", "reservation", "qos")
FOLDERS = ("container_folder", "data_folder", "container_mounts")
PATHS = ("kubernetes_claim_path", "kubernetes_pod")  # where they are given
TOLERATION = r"(?P<key>[\w./-]+)(=(?P<value>[\w.-]*))?(:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?"
# What a value that is given must be, or each one of a list.
KINDS: Mapping[str, Kind] = {
    "submit": KEYS["submit"],
    "container_runtime": KEYS["container_runtime"],
    "kubernetes_node_selector": Kind("LABEL=VALUE", r"[^=]+=.*"),
    "kubernetes_tolerations": Kind(
        "KEY, KEY:EFFECT or KEY=VALUE:EFFECT, with NoSchedule, PreferNoSchedule or NoExecute", TOLERATION
    ),
    "kubernetes_user": Kind("numbers, such as 1000 or 1000:100", r"[0-9]+(:[0-9]+)?"),
    "kubernetes_patience_min": FIGURE,
}

Site = dict[str, Any]


def defaults() -> dict[str, str | list[str]]:
    """Every key with its value where the site says nothing: those of DEFAULTS, and each workload's own flags."""
    return {**DEFAULTS, **{f"{name}_flags": "" for name in names()}}


def read_site(system: str, file: Path | None = None, environ: Mapping[str, str] = os.environ) -> Site:
    """Every key of `defaults` with its value for a system; folders are whole paths.

    Raises SiteError for a key or a system that there is not, and NoCheckout where there is no site.yaml to look for.
    """
    root = checkout()
    if wrong := wrong_path(root, "the checkout"):
        raise SiteError(wrong)
    file = file or root / "site.yaml"
    whole = _read(file)
    systems = whole.pop("systems", None) or {}
    if not isinstance(systems, dict):
        raise SiteError(f"{file}: 'systems' must hold a block of keys for each system")
    known = read_systems() if systems else {}
    known_keys = defaults()
    site: Site = {**known_keys}
    for name, block in {"": whole, **systems}.items():
        where = f"{file}, under systems: {name}" if name else f"{file}, at the top"
        if name and name not in known:
            raise SiteError(f"{file}, under systems: there is no system '{name}': {near(name, known)}")
        if block and not isinstance(block, dict):
            raise SiteError(f"{where}: must hold a block of keys, got {block!r}")
        checked = {key: _checked(key, value, where, known_keys) for key, value in (block or {}).items()}
        if name in ("", system):
            site.update(checked)
    for key, default in known_keys.items():
        value = environ.get(f"CARAML_{key.upper()}")
        if value:
            site[key] = value.split() if isinstance(default, list) else value
    for key in FOLDERS:
        value = site[key]
        site[key] = [_folder(key, one, root) for one in value] if isinstance(value, list) else _folder(key, value, root)
    for key in PATHS:
        if site[key]:
            site[key] = _folder(key, site[key], root)
    for key, kind in KINDS.items():
        for value in site[key] if isinstance(site[key], list) else [site[key]]:
            if value and not re.fullmatch(kind.pattern, value):
                raise SiteError(f"{key} is {value!r}: write {kind.words}")
    return site


def _read(file: Path) -> dict[str, Any]:
    """Each value as it is written: an account 0123 is that, and no number."""
    if not file.exists():
        return {}
    try:
        found = read_yaml(file, as_text=True)
    except YamlError as error:
        raise SiteError(f"{file} cannot be read: {error}") from error
    if found is not None and not isinstance(found, dict):
        raise SiteError(f"{file} must hold keys with values, such as 'account: hpc1'")
    return found or {}


def _checked(key: str, value: Any, where: str, known: Mapping[str, str | list[str]]) -> Any:
    if key not in known:
        raise SiteError(f"{where}: there is no key '{key}': {near(key, known)}")
    if not value or (value == "~" and key not in FOLDERS):  # YAML's ways to say nothing
        return known[key]
    if isinstance(known[key], list):
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return [os.path.expandvars(item) for item in value]
        raise SiteError(f"{where}: '{key}' must be a list of texts, such as ['one', 'two']")
    if not isinstance(value, str):
        raise SiteError(f"{where}: '{key}' must be a text, got {value!r}")
    return os.path.expandvars(value)


def _folder(key: str, text: str, root: Path) -> str:
    """A folder's whole path: jobs run elsewhere, and take it as it is."""
    whole = os.path.expanduser(text)  # noqa: PTH111 - that of Path ends in an error for a user that there is not
    if whole.startswith("~") or "$" in whole:
        raise SiteError(f"{key} is {text}: there is no such user or environment variable")
    if wrong := wrong_path(root / whole, key):
        raise SiteError(wrong)
    return str(root / whole)


def submit_of(site: Site, block: Mapping[str, Any]) -> str:
    """How jobs of a system are started here: as the site says, else as its block does."""
    return str(site["submit"] or block["submit"])


def sbatch_flags(site: Site) -> list[str]:
    """Return the options for sbatch in addition to the job script."""
    return [*(f"--{key}={site[key]}" for key in SBATCH_FLAGS if site[key]), *site["sbatch"]]


def job_lines(site: Site) -> list[str]:
    """Lines that a job's script takes in before it starts anything."""
    lines = [f"module load {shlex.quote(name)} || exit" for name in site["modules"]]
    for key in ("container_folder", "data_folder"):
        if site[key]:
            lines.append(f"export CARAML_{key.upper()}={shlex.quote(site[key])}")
    if site["container_mounts"]:
        lines.append(f"export CARAML_CONTAINER_MOUNTS={shlex.quote(' '.join(site['container_mounts']))}")
    if site["network_interface"]:
        interface = shlex.quote(site["network_interface"])
        lines.append(f"export NCCL_SOCKET_IFNAME={interface} GLOO_SOCKET_IFNAME={interface}")
    if site["srun"]:
        lines.append(f"((${{#launcher[@]}})) && launcher+=({shlex.join(site['srun'])})")
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
