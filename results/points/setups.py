"""What a run was made with: runs that were made with something else are no repeats of each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from results.derived import devices_of
from results.records import Record

# Of the configuration: where a record goes is no option of what is measured.
NO_OPTIONS = ("run",)
SOFTWARE = ("container", "container_digest", "cuda", "cudnn", "nccl", "rocm", "python")
DRIVER = "driver_version"
# Of each device, by the names of nvidia-smi; what tells one device of a kind from another is none of them.
OF_A_DEVICE = (
    "name",
    "vbios_version",
    "memory.total",
    "power.limit",
    "clocks.applications.graphics",
    "clocks.max.sm",
    "clocks.max.memory",
    "ecc.mode.current",
    "mig.mode.current",
)
UNKNOWN = "not known"
LONGEST = 24  # of a value in words, such as a digest

Setup = tuple[tuple[str, str], ...]


def options_of(record: Record) -> Setup:
    """The options of a run, as they were given; empty where it did not get so far."""
    config = record.get("config") or {}
    return tuple(sorted(_flat({name: options for name, options in config.items() if name not in NO_OPTIONS})))


def software_of(record: Record) -> dict[str, str]:
    """The version of each part of the software and of the drivers; what a record does not say is not in it."""
    origin = record.get("provenance") or {}
    found = {name: str(origin[name]) for name in SOFTWARE if origin.get(name)}
    return found | dict(_flat(origin.get("packages") or {})) | _of_devices(record, (DRIVER,))


def platform_of(record: Record) -> Setup:
    """Software and devices, each by its name; what a record does not say is not in it."""
    return tuple(sorted((software_of(record) | _of_devices(record, OF_A_DEVICE)).items()))


def setup_of(record: Record) -> Setup:
    """Options, and software and devices, each by its name; what a record does not say is not in it."""
    return tuple(sorted((dict(options_of(record)) | dict(platform_of(record))).items()))


def _of_devices(record: Record, names: Sequence[str]) -> dict[str, str]:
    """What the devices are by those names, several values beside each other; what none of them says is not in it."""
    devices = devices_of(record)
    found = {name: sorted({str(one[name]) for one in devices if one.get(name) is not None}) for name in names}
    return {name: " and ".join(values) for name, values in found.items() if values}


def differences(setups: Sequence[Setup]) -> list[tuple[str, ...]]:
    """For each of several setups, in words, what it has where they differ."""
    known = [dict(setup) for setup in setups]
    names = sorted(
        name for name in {name for one in known for name in one} if len({one.get(name) for one in known}) > 1
    )
    return [tuple(f"{name} {one.get(name, UNKNOWN)[:LONGEST]}" for name in names) for one in known]


def _flat(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is in each other by its own name; what is not given is left out."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
        elif value is not None:
            yield name, str(value)
