"""Operating points of a sweep: power limits and clocks, and the flags that put one in force.

A share such as 70% is of the device's own default power limit or highest clock, which jpwr asks the device for. Slurm
takes amounts alone: a share is of the system block's figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from caraml.errors import SiteError
from caraml.plan.site import Site
from caraml.plan.tags import CAPS, CLOCKS, OBSERVE
from jpwr.errors import JpwrError
from jpwr.limits.setting import CLOCK, OPTIONS, POWER, checked
from results.files.systems import System

METHODS = ("pynvml", "rocm")  # of jpwr, for devices whose limits can be set
# By tag: the kind of limit, the key of site.yaml with the values, the figure of the system's block, Slurm's flag.
SWEEPS = {
    CAPS: (POWER, "power_limits", "tdp_w_per_device", "slurm_power_flag"),
    CLOCKS: (CLOCK, "clocks", "highest_clock_mhz", "slurm_clock_flag"),
}


def planned_limits(tags: Iterable[str], block: System, site: Site) -> dict[str, Any]:
    """Return the values of the sweep for each tag, and the flags of the sampler and of Slurm for each value.

    Raises SiteError if the tags ask for what the site does not offer.
    """
    asked = [tag for tag in SWEEPS if tag in tags]
    if asked and not any(method in block.power_methods for method in METHODS):
        raise SiteError(f"the tag {asked[0]} was asked for on {block.accelerator}, which has no limits to set")
    if asked and site.limits_set_by == "none":
        raise SiteError(
            f"the tag {asked[0]} sets limits, but limits_set_by is none in site.yaml: write jpwr or slurm there, or "
            f"use the tag {OBSERVE}"
        )
    if asked and site.limits_set_by == "slurm" and site.submit_of(block) != "sbatch":
        raise SiteError(f"limits_set_by is slurm, but jobs are started by {site.submit_of(block)}: write jpwr")
    found: dict[str, Any] = {"limit_flags": {}, "slurm_limits": {}}
    for tag, (kind, key, figure, flag) in SWEEPS.items():
        values = _values(kind, key, block, site) if tag in asked else []
        if site.limits_set_by == "slurm":
            values = [_amount(value, kind, getattr(block, figure), figure) for value in values]
            if values and not getattr(site, flag):
                raise SiteError(f"the tag {tag} needs {flag} in site.yaml, such as --gpu-power={{}}")
            found["slurm_limits"] |= {f"{tag} {value}": getattr(site, flag).format(value) for value in values}
        by = " --limits-set-by scheduler" if site.limits_set_by == "slurm" else ""
        found["limit_flags"] |= {f"{tag} {value}": f"{OPTIONS[kind]} {value}{by}" for value in values}
        found[key] = ",".join(values)
    return found


def _values(kind: str, key: str, block: System, site: Site) -> list[str]:
    words = getattr(site, key).replace(",", " ").split() or [f"{share}%" for share in block.limit_shares.split()]
    try:
        return list(dict.fromkeys(checked(kind, word) for word in words))
    except JpwrError as error:
        raise SiteError(f"{key}: {str(error).removeprefix(f'{OPTIONS[kind]} ')}") from error


def _amount(value: str, kind: str, full: float, figure: str) -> str:
    if not value.endswith("%"):
        return value
    if not full:
        raise SiteError(f"the {kind} {value} is a share, but the system's block has no {figure}: give amounts")
    return f"{full * float(value[:-1]) / 100:.0f}"
