"""Throughput by provisioned power, which a system is built to draw: stated in the prices or in the system's block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from record.derived import ratio
from record.model import Record
from record.part import changed
from results.files.systems import system_of
from results.verdicts.cost import Costs


def with_provisioned(
    records: Sequence[Record], costs: Costs | None = None, tags: Mapping[str, str] | None = None
) -> list[Record]:
    """Return records with throughput by provisioned power, and the source of that power.

    The prices count before the block. tags: of systems that have another name.
    """
    return [_with_provisioned(one, costs, (tags or {}).get(one.system, one.system)) for one in records]


def _with_provisioned(record: Record, costs: Costs | None, tag: str) -> Record:
    systems = costs.systems if costs else {}
    price, block = systems.get(record.system, systems.get(tag)), system_of(tag)
    stated = next((one for one in (price, block) if one and one.provisioned_w_per_device), None)
    rate, devices = record.metrics.number(f"{record.work_unit}_per_s"), record.layout.num_devices
    rate_per_kw = words = None
    if stated and record.is_good and devices:
        rate_per_kw = ratio(rate, stated.provisioned_w_per_device * devices / 1000)
        words = f"{record.system}: {stated.provisioned_w_per_device:,g} W per device, by {stated.provisioned_source}"
    values = {f"{record.work_unit}_per_s_per_kw": rate_per_kw, "provisioned_by": words}
    return changed(record, metrics=changed(record.metrics, **values)) if record.is_good else record


def sources_of(records: Sequence[Record]) -> list[str]:
    """Return a sentence on each provisioned power of the records."""
    known = dict.fromkeys(vars(one.metrics).get("provisioned_by") for one in records if one.is_good)
    return [f"provisioned power of {words}" for words in known if words]
