"""Choose a system by its name, and print the table of all."""

from __future__ import annotations

from collections.abc import Mapping

from caraml.errors import SiteError
from caraml.installation import REFUSED, checkout
from jpwr.messages import near
from results.files.systems import System, read_systems
from results.files.typed_files import Text, read_file

COLUMNS = {
    "system": "system_name",
    "accelerator": "accelerator",
    "per node": "devices_per_node",
    "memory [GB]": "memory_gb_per_device",
    "fp8 [TFLOP/s]": "peak_tflops_fp8",
    "bf16 [TFLOP/s]": "peak_tflops_bf16",
    "fp16 [TFLOP/s]": "peak_tflops_fp16",
    "power methods": "power_methods",
    "runs by": "submit",
    "source of the figures": "hardware_source",
}


def read_system(name: str) -> System:
    """Return one system; raises SiteError if it is unknown, or known and cannot be run."""
    systems = read_systems()
    if name not in systems and name in (reasons := read_refused()):
        raise SiteError(refusal(name, reasons[name]))
    if not name:
        raise SiteError("no system was given: add its tag, such as --tag CPU; 'caraml systems' lists all")
    if name not in systems:
        raise SiteError(f"there is no system '{name}': {near(name, systems)}")
    return systems[name]


def read_refused() -> dict[str, str]:
    """Return the reason for each known system that cannot be run; raises RecordError if the file cannot be used."""
    return read_file(Mapping[str, Text], checkout() / REFUSED, "refused systems")  # type: ignore[no-any-return]


def refusal(name: str, reason: str) -> str:
    """Return the sentence for a user who asked for a refused system."""
    return f"{name} was asked for, but {reason}"


def systems_table(systems: dict[str, System]) -> str:
    """Return a table of systems; a figure of 0 is not known."""
    from results.files.quantities import Quantity
    from results.show.tables.cells import Table, rendered

    rows = [[block.values[key] or "-" for key in COLUMNS.values()] for block in systems.values()]
    return rendered(Table([Quantity(title, form="g") for title in COLUMNS], rows), "text", str.ljust)
