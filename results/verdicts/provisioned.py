"""Provisioned power of a system, completed by the block of the system and by appendix D, and throughput by it."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from jpwr.messages import near
from results.files.system_power import DEFAULT, ESTIMATED, OVERHEAD, Components, ScaleOut, Sourced, SystemPower, Units
from results.files.systems import System
from results.files.typed_files import read_file
from results.record.model import changed
from results.record.records import Record, RecordError

STATED = "by public sources"
DEFAULTS = Path(__file__).parents[1] / "reference" / "power_defaults.csv"  # of appendix D of MLPerf Endpoints' rules
TOLERANCE_W, TOLERANCE_KW = 0.5, 0.005  # of figures in a file that are computed again, as MLCommons' checker has them


def _default_w(kind: str, model: str, cabling: str = "") -> Sourced | None:
    """Return the default of appendix D, the first that fits; None without one."""
    cores = re.search(r"(\d+)[ -]*core", model.lower())
    name = model.lower() if kind == "processor" else re.sub(r"[^a-z0-9]", "", model.lower())
    with DEFAULTS.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            is_like = row["kind"] == kind and re.search(row["pattern"], name) and row["cabling"] in ("", cabling)
            fits = kind != "processor" or (cores and int(cores[1]) <= float(row["most_cores"] or "inf"))
            if is_like and fits:
                return Sourced(value_w=float(row["watts"]), source_type=DEFAULT, source=row["part"])
    return None


def _filled(stated: Sourced | None, default: Sourced | None, block_w: float = 0.0) -> Sourced | None:
    """Return a figure with its value: as stated, from the block of the system, or a default of appendix D."""
    is_default = stated is None or stated.source_type == DEFAULT
    if stated is not None and stated.watts is None and not is_default:
        return replace(stated, value_w=block_w) if block_w else stated
    if stated is not None and is_default and default is not None and stated.watts not in (None, default.watts):
        raise RecordError(
            f"{stated.watts:g} W are stated as {DEFAULT} of {stated.source}, which has {default.watts:g} W: name the "
            "public source of your figure, or leave it out"
        )
    return stated if stated is not None and stated.watts is not None else default


def completed(stated: SystemPower, system: System | None = None) -> SystemPower:
    """Return the file with every figure and sum; raises RecordError for what is unknown or contradicts itself."""
    sums = any(one.power_method == "component_sum" for one in stated.node_sets)
    sets = tuple(
        replace(one, components=_with_block(one.components, system)) if one.components else one
        for one in stated.node_sets
    )
    whole = replace(
        stated, node_sets=sets, scale_out=_network(stated, sums) if stated.scale_out.present else stated.scale_out
    )
    _check_nodes(whole, sums)
    try:
        terms = list(whole.terms())
    except RecordError:
        if stated.declared_provisioned_power is None:
            raise
        terms = []  # the declared figure counts, and its parts need not be known
    watts = {
        kind: math.fsum(one.watts for one in terms if one.kind == kind) for kind in ("major", "published", "switch")
    }
    other_w = OVERHEAD[stated.cooling] * watts["major"]
    found = {
        "major_components_w": watts["major"],
        "overhead_fraction": OVERHEAD[stated.cooling],
        "other_components_w": other_w,
        "published_node_power_w": watts["published"],
        "scale_out_switch_power_w": watts["switch"],
        "total_system_power_w": math.fsum([*watts.values(), other_w]),
    }
    declared = stated.declared_provisioned_power
    if declared is not None and declared.watts is None:
        raise RecordError("declared_provisioned_power has no value: give value_kw or value_w")
    kw = round((declared.watts or 0.0 if declared else found["total_system_power_w"]) / 1000, 2)
    if not kw:
        raise RecordError("the provisioned power is 0 kW: a system draws power, add its parts")
    for name, value in (stated.computed or {}).items() if terms else ():
        if name in found and abs(value - found[name]) > (TOLERANCE_W if name.endswith("_w") else 1e-9):
            raise RecordError(f"computed.{name} is {value:g}, but its parts give {found[name]:g}: leave it out")
    if stated.provisioned_power_kw is not None and abs(stated.provisioned_power_kw - kw) > TOLERANCE_KW:
        raise RecordError(f"provisioned_power_kw is {stated.provisioned_power_kw:g}, but it is {kw:g}: leave it out")
    is_estimated = any(
        one.source_type == DEFAULT for one in ([declared] if declared else [one.figure for one in terms])
    )
    computed = found if terms else None
    return replace(whole, computed=computed, provisioned_power_kw=kw, mlc_estimated_power=is_estimated)


def _with_block(stated: Components, system: System | None) -> Components:
    """Return components with what the block of the system has, and with defaults."""
    each_w, each = (system.tdp_w_per_device, system.devices_per_node) if system else (0.0, 0)
    cpu, accelerator, both = stated.cpu, stated.accelerator, stated.combined_cpu_accelerator
    if system and not (accelerator and accelerator.model and accelerator.count_per_node is not None):
        own = accelerator or Units()
        number = each if own.count_per_node is None else own.count_per_node
        accelerator = replace(own, model=own.model or system.accelerator, count_per_node=number)
    if both:
        both = _filled(both, None, each_w * each)
    elif accelerator:
        figure = _filled(accelerator.tdp_per_unit, _default_w("accelerator", accelerator.model or ""), each_w)
        accelerator = replace(accelerator, tdp_per_unit=figure)
    if cpu and not both:
        cpu = replace(cpu, tdp_per_unit=_filled(cpu.tdp_per_unit, _default_w("processor", cpu.model or "")))
    return replace(stated, cpu=cpu, accelerator=accelerator, combined_cpu_accelerator=both)


def _network(stated: SystemPower, sums: bool) -> ScaleOut:
    """Return the network between nodes with defaults."""
    out, nics = stated.scale_out, stated.scale_out.nics
    if nics is None:
        return out
    least_tbps = stated.nodes * nics.count_per_node * nics.bandwidth_per_nic_gbps / 1000
    is_counted = sums if nics.counted is None else nics.counted
    card = _filled(nics.tdp_per_nic, _default_w("network card", "")) if is_counted else nics.tdp_per_nic
    switches = tuple(
        replace(one, power_per_switch=_filled(one.power_per_switch, _default_w("switch", one.model, out.cabling or "")))
        for one in out.switches or ()
    )
    required = least_tbps if out.required_bandwidth_tbps is None else out.required_bandwidth_tbps
    offered = math.fsum(one.count * one.bandwidth_tbps for one in switches)
    if required < least_tbps - 1e-6 or offered < required - 1e-6:
        raise RecordError(
            f"its network cards have {least_tbps:g} Tbit/s, required_bandwidth_tbps is {required:g}, and its switches "
            f"have {offered:g}: none may be less than the one before"
        )
    nics = replace(nics, counted=is_counted, tdp_per_nic=card)
    return replace(out, required_bandwidth_tbps=required, nics=nics, switches=switches)


def _check_nodes(whole: SystemPower, sums: bool) -> None:
    ids = [one.node_set_id for one in whole.node_sets]
    if len(set(ids)) < len(ids):
        raise RecordError("two node sets have the same node_set_id: number them")
    out, nics = whole.scale_out, whole.scale_out.nics
    ups = {one.components.scale_up_network.method if one.components else "" for one in whole.node_sets}
    if not out.present and whole.nodes > 1 and ups == {"none"}:
        raise RecordError(f"nothing joins its {whole.nodes} nodes: describe scale_out or scale_up_network")
    if out.present and nics and nics.counted != sums and not (nics.counted and nics.excluded_from_published_power):
        raise RecordError(
            f"nics.counted is {str(nics.counted).lower()}, but sums of components lack network cards, and published "
            "power has them: leave it out"
        )


def read_system_power(path: Path, name: str | None = None, systems: Mapping[str, System] | None = None) -> SystemPower:
    """Return a file with every figure and sum, also those of the block of a system; raises RecordError."""
    try:
        stated = read_file(SystemPower, path, "system power")
        if name and name not in (systems or {}):
            raise RecordError(f"there is no block of a system '{name}': {near(name, systems or {})}")
        return completed(stated, (systems or {}).get(name or stated.system_desc_id))
    except RecordError as error:
        raise RecordError(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from error


def as_written(value: Any) -> Any:
    """Return a part as JSON has it, without what is unknown."""
    if isinstance(value, SystemPower):
        value = asdict(value)
    if isinstance(value, dict):
        return {name: as_written(one) for name, one in value.items() if one is not None}
    return [as_written(one) for one in value] if isinstance(value, list | tuple) else value


def with_provisioned(records: Sequence[Record], powers: Mapping[str, SystemPower]) -> tuple[list[Record], list[str]]:
    """Return records with throughput by provisioned power, and a sentence on each run that has none.

    The nodes that a run used count as a whole. With several node sets it is unknown which ones: all count.
    """
    found, notes = [], []
    for record in records:
        power, rate = powers.get(record.system), record.metrics.number(f"{record.work_unit}_per_s")
        if power is not None and record.is_good and rate is not None:
            sets = power.node_sets
            try:
                kw = power.kw_of({sets[0].node_set_id: record.layout.num_nodes or 1} if len(sets) == 1 else {})
                origin = ESTIMATED if power.mlc_estimated_power else STATED
                rates = {f"{record.work_unit}_per_s_per_kw": rate / kw}
                record = changed(
                    record, metrics=changed(record.metrics, provisioned_kw=kw, provisioned_by=origin, **rates)
                )
            except RecordError as error:
                notes.append(f"{record.file.path} has no throughput by provisioned power: {error}")
        found.append(record)
    return found, list(dict.fromkeys(notes))
