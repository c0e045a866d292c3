"""What a site decides: accounts, partitions, folders, modules.

From `site.yaml` in the checkout (site.example.yaml shows all keys), each key overridden by the environment variable
CARAML_KEY, and for one system by a block under `systems`. Also a command, for the workflow:

    python -m caraml.site SYSTEM --sbatch|--job|--get KEY
"""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
SITE_FILE = REPOSITORY / "site.yaml"
RUNTIMES = ("apptainer", "podman", "charliecloud", "none")
DEFAULTS: dict[str, str | list[str]] = {
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
    "container_folder": str(REPOSITORY / "containers" / "images"),
    "data_folder": str(REPOSITORY / "data"),
    "devices": "",
    "batches": "",
    "llm_training_flags": "",
    "resnet50_flags": "",
}
SBATCH_FLAGS = ("account", "partition", "reservation", "qos")

Site = dict[str, Any]


class SiteError(Exception):
    """The site's facts cannot be used: one sentence with what was found and what to do."""


def read_site(system: str, file: Path = SITE_FILE, environ: Mapping[str, str] = os.environ) -> Site:
    """Every key of DEFAULTS with its value for a system; raises SiteError for a key that there is not."""
    whole = _read(file)
    systems = whole.pop("systems", None) or {}
    if not isinstance(systems, dict) or not all(isinstance(block, dict) for block in systems.values()):
        raise SiteError(f"{file}: 'systems' must hold a block of keys for each system")
    site: Site = {**DEFAULTS}
    for found, where in ((whole, "at the top"), (systems.get(system, {}), f"under systems: {system}")):
        for key, value in found.items():
            site[key] = _checked(key, value, f"{file}, {where}")
    for key, default in DEFAULTS.items():
        value = environ.get(f"CARAML_{key.upper()}")
        if value:
            site[key] = value.split() if isinstance(default, list) else value
    if site["container_runtime"] not in ("", *RUNTIMES):
        raise SiteError(f"container_runtime is {site['container_runtime']!r}: choose one of {', '.join(RUNTIMES)}")
    return site


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    import yaml

    try:
        found = yaml.safe_load(file.read_text()) or {}
    except (OSError, yaml.YAMLError) as error:
        raise SiteError(f"{file} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise SiteError(f"{file} must hold keys with values, such as 'account: hpc1'")
    return found


def _checked(key: str, value: Any, where: str) -> Any:
    if key not in DEFAULTS:
        near = difflib.get_close_matches(key, DEFAULTS, n=1)
        raise SiteError(
            f"{where}: there is no key '{key}'"
            + (f": did you mean '{near[0]}'?" if near else f": the keys are {', '.join(DEFAULTS)}")
        )
    if isinstance(DEFAULTS[key], list):
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
        raise SiteError(f"{where}: '{key}' must be a list of texts, such as ['one', 'two']")
    if value is None:
        return ""
    if not isinstance(value, str | int):
        raise SiteError(f"{where}: '{key}' must be a text, got {value!r}")
    return os.path.expandvars(str(value))


def sbatch_flags(site: Site) -> list[str]:
    """What sbatch is given beside the job script."""
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
    """Run from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m caraml.site", description="The site's facts, for the workflow.")
    parser.add_argument("system")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--sbatch", action="store_true", help="flags of sbatch, one a line")
    what.add_argument("--job", action="store_true", help="lines for the job's script")
    what.add_argument("--get", metavar="KEY", choices=DEFAULTS, help="one value")
    parser.add_argument("--default", default="", help="what --get prints where the site says nothing")
    options = parser.parse_args(argv)
    try:
        site = read_site(options.system)
    except SiteError as error:
        print(f"site: {error}", file=sys.stderr)
        return 2
    if options.get:
        print(site[options.get] or options.default, end="")
    else:
        for line in sbatch_flags(site) if options.sbatch else job_lines(site):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
