"""Provisioned power of a system, completed by its block and by appendix D of MLPerf Endpoints, and throughput by it.

The formulas are those of section 4.5 and appendix E of its rules, as endpoints-submission-cli 1.5.3.0 applies them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from jpwr.messages import near
from results.files.system_power import (
    DEFAULT,
    ESTIMATED,
    OVERHEAD,
    Components,
    NodeSet,
    ScaleOut,
    Sourced,
    SystemPower,
    Units,
    default_of,
)
from results.files.systems import System
from results.files.typed_files import read_file
from results.record.derived import ratio
from results.record.model import changed
from results.record.records import Record, RecordError
from results.record.values import count

STATED = "from public sources"
TOLERANCE = {"overhead_fraction": 1e-9, "provisioned_power_kw": 0.005}  # of stated figures; in watts 0.5


class Term(NamedTuple):
    """A part of the power: its node set (None for switches between nodes), kind, name, number and power of each."""

    node_set: int | None
    kind: str  # major, published or switch
    name: str
    units: float | None
    figure: Sourced | None

    @property
    def is_open(self) -> bool:
        """Whether nothing states its power, which a declared power of the whole system makes up for."""
        return self.units is not None and self.figure is None and self.kind != "published"

    @property
    def watts(self) -> float:
        """Power of all units; raises RecordError for an unknown figure."""
        if self.units is None or self.figure is None or self.figure.watts is None:
            lacks = "number" if self.units is None else "power, also in appendix D"
            whose = "the network" if self.node_set is None else f"node set {self.node_set}"
            raise RecordError(f"{self.name} of {whose} have no {lacks}: add it, a power with its public source")
        return self.units * self.figure.watts


def terms(power: SystemPower) -> Iterator[Term]:
    """Yield the parts of the power, without the other components."""
    nics = power.scale_out.nics if power.scale_out.present else None
    for one in power.node_sets:
        number, nodes, is_sum = one.node_set_id, one.nodes_provisioned, one.power_method == "component_sum"
        if is_sum:
            for name, units, figure in _parts(one):
                yield Term(number, "major", name, None if units is None else nodes * units, figure)
        else:
            rack = one.nodes_in_published_rack if one.power_method == "node_scaling" else 1
            yield Term(number, "published", "nodes", nodes / (rack or math.inf), one.published_power)
        if nics and nics.counted and (is_sum or nics.excluded_from_published_power):
            yield Term(number, "major", "network cards", nodes * nics.count_per_node, nics.tdp_per_nic)
    for switch in power.scale_out.switches if power.scale_out.present else ():
        yield Term(None, "switch", switch.model, switch.count, switch.power_per_switch)


def _parts(one: NodeSet) -> Iterator[tuple[str, float | None, Sourced | None]]:
    if one.components is None:
        raise RecordError(f"node set {one.node_set_id} lacks components, the sum of which is its power: add them")
    up, both = one.components.scale_up_network, one.components.combined_cpu_accelerator
    for name, units in (("processors", one.components.cpu), ("accelerators", one.components.accelerator)):
        if both and units and units.tdp_per_unit:
            raise RecordError(f"combined_cpu_accelerator has the power of the {name}, too: give one of them")
        if not both or (units and units.count_per_node is None):
            yield name, units.count_per_node if units else None, units.tdp_per_unit if units else None
    if both:
        yield "processors and accelerators", 1, both
    if up.method == "declared_tdp":
        yield "scale-up switches", up.switch_count, up.tdp_per_switch
    if up.method == "bandwidth_estimate":
        bit, tbps = up.energy_per_bit_pj, up.aggregate_bandwidth_tbps
        # 1 TB/s x 8 bit x 1 pJ is 8 W.
        in_watts = replace(bit, value_w=bit.value_pj, value_kw=None, value_pj=None) if bit else None
        yield "scale-up network", None if tbps is None else 8 * tbps, in_watts


def kw_of(power: SystemPower, used: Mapping[int, int]) -> float:
    """Return the power of a run in kW, rounded as in section 4.5.3, by the number of nodes of each set.

    A set without a number counts in full. A declared power has no shares: the largest share of a set counts. Raises
    RecordError for more nodes than there are.
    """
    ids = {one.node_set_id: one.nodes_provisioned for one in power.node_sets}
    for number, nodes in used.items():
        if not 1 <= nodes <= ids.get(number, 0):
            raise RecordError(f"a run used {count(nodes, 'node')} of set {number}, which has {ids.get(number, 0)}")
    shares: dict[int | None, float] = {number: used.get(number, nodes) / nodes for number, nodes in ids.items()}
    if power.declared_provisioned_power:
        return round((power.provisioned_power_kw or 0.0) * max(shares.values()), 2)
    shares[None] = sum(shares[number] * nodes for number, nodes in ids.items()) / power.nodes  # of the switches
    factors = {"major": 1 + OVERHEAD[power.cooling]}
    return round(
        math.fsum(shares[one.node_set] * factors.get(one.kind, 1) * one.watts for one in terms(power)) / 1000, 2
    )


def completed(stated: SystemPower, system: System | None = None) -> SystemPower:
    """Return the file with every figure and sum; raises RecordError for what is unknown or contradicts itself."""
    has_sum = any(one.power_method == "component_sum" for one in stated.node_sets)
    sets = tuple(
        replace(one, components=one.components and _with_block(one.components, system)) for one in stated.node_sets
    )
    out = _network(stated, has_sum) if stated.scale_out.present else stated.scale_out
    whole, declared = replace(stated, node_sets=sets, scale_out=out), stated.declared_provisioned_power
    _check_nodes(whole)
    every = list(terms(whole))
    parts = [one for one in every if declared is None or not one.is_open]
    sums = _sums(parts, OVERHEAD[stated.cooling])
    kw = round((declared.watts or 0.0 if declared else sums["total_system_power_w"]) / 1000, 2)
    if not kw:
        raise RecordError("it states a power of 0 kW, or none in watts: every system draws power, state it")
    is_whole = len(parts) == len(every)
    again = {**(sums if is_whole else {}), "provisioned_power_kw": kw}
    for name, value in {**(stated.computed or {}), "provisioned_power_kw": stated.provisioned_power_kw}.items():
        if value is not None and abs(value - again.get(name, value)) > TOLERANCE.get(name, 0.5):
            raise RecordError(f"{name} is {value:g}, but its parts give {again[name]:g}: leave it out")
    counted = [declared] if declared else [one.figure for one in parts]
    is_estimated = any(one and one.source_type == DEFAULT for one in counted)
    computed = sums if is_whole else None
    return replace(whole, computed=computed, provisioned_power_kw=kw, mlc_estimated_power=is_estimated)


def _sums(parts: Sequence[Term], overhead: float) -> dict[str, float]:
    """Return the sums by the names of appendix E."""
    major_w, published_w, switch_w = (
        math.fsum(one.watts for one in parts if one.kind == kind) for kind in ("major", "published", "switch")
    )
    return {
        "major_components_w": major_w,
        "overhead_fraction": overhead,
        "other_components_w": overhead * major_w,
        "published_node_power_w": published_w,
        "scale_out_switch_power_w": switch_w,
        "total_system_power_w": (1 + overhead) * major_w + published_w + switch_w,
    }


def _check_nodes(whole: SystemPower) -> None:
    if len({one.node_set_id for one in whole.node_sets}) < len(whole.node_sets):
        raise RecordError("two node sets have the same node_set_id: number them")
    for one in whole.node_sets:
        if one.power_method == "node_scaling" and (one.nodes_in_published_rack or 0) <= one.nodes_provisioned:
            raise RecordError(
                f"node_scaling of {count(one.nodes_provisioned, 'node')} needs a rack of more, and "
                f"nodes_in_published_rack is {one.nodes_in_published_rack}: take published_system for a whole rack"
            )
    ups = {one.components.scale_up_network.method if one.components else "" for one in whole.node_sets}
    if not whole.scale_out.present and whole.nodes > 1 and ups == {"none"}:
        raise RecordError(f"nothing joins its {whole.nodes} nodes: describe scale_out or scale_up_network")


def _with_block(stated: Components, system: System | None) -> Components:
    """Return components with what the block of the system has, and with defaults."""
    each_w, each = (system.tdp_w_per_device, system.devices_per_node) if system else (0.0, 0)
    cpu, own, both = stated.cpu, stated.accelerator, stated.combined_cpu_accelerator
    if system:
        own = own or Units()
        number = each if own.count_per_node is None else own.count_per_node
        own = replace(own, model=own.model or system.accelerator, count_per_node=number)
    if both:
        both = _filled(both, None, each_w * each)
    else:
        own = own and replace(own, tdp_per_unit=_filled(own.tdp_per_unit, default_of("accelerator", own.model), each_w))
        cpu = cpu and replace(cpu, tdp_per_unit=_filled(cpu.tdp_per_unit, default_of("processor", cpu.model)))
    return replace(stated, cpu=cpu, accelerator=own, combined_cpu_accelerator=both)


def _network(stated: SystemPower, sums: bool) -> ScaleOut:
    """Return the network between nodes with defaults; raises RecordError if it cannot join them."""
    out, nics = stated.scale_out, stated.scale_out.nics
    if not (nics and out.cabling and out.switches):
        raise RecordError("scale_out is present and lacks cabling, nics or switches: add what joins the nodes")
    is_counted = sums if nics.counted is None else nics.counted
    if is_counted != sums and not (is_counted and nics.excluded_from_published_power):
        why = "sums of components lack network cards, and published power has them"
        raise RecordError(f"nics.counted is {str(is_counted).lower()}, but {why}: leave it out")
    least_tbps = stated.nodes * nics.count_per_node * nics.bandwidth_per_nic_gbps / 1000
    required = least_tbps if out.required_bandwidth_tbps is None else out.required_bandwidth_tbps
    offered = math.fsum(one.count * one.bandwidth_tbps for one in out.switches)
    if required < least_tbps - 1e-6 or offered < required - 1e-6:
        raise RecordError(
            f"its network cards have {least_tbps:g} Tbit/s, required_bandwidth_tbps is {required:g}, and its switches "
            f"have {offered:g}: none may be less than the one before"
        )
    switches = tuple(
        replace(one, power_per_switch=_filled(one.power_per_switch, default_of("switch", one.model, out.cabling)))
        for one in out.switches
    )
    nics = replace(nics, counted=is_counted, tdp_per_nic=_filled(nics.tdp_per_nic, default_of("network card")))
    return replace(out, required_bandwidth_tbps=required, nics=nics, switches=switches)


def _filled(stated: Sourced | None, default: Sourced | None, block_w: float = 0.0) -> Sourced | None:
    """Return a figure with its value: as stated, from the block of the system, or a default of appendix D."""
    if stated is None or (stated.source_type == DEFAULT and default):
        if stated and default and stated.watts not in (None, default.watts):
            raise RecordError(
                f"{stated.watts:g} W are stated as {DEFAULT} of {stated.source}, which has {default.watts:g} W: name "
                "the public source of your figure, or leave it out"
            )
        return default
    is_unknown = (stated.value_w, stated.value_kw, stated.value_pj) == (None, None, None)
    return replace(stated, value_w=block_w) if is_unknown and block_w else stated


def read_system_power(path: Path, name: str | None, systems: Mapping[str, System]) -> SystemPower:
    """Return a file with every figure and sum, also those of the block of a system; raises RecordError."""
    stated = read_file(SystemPower, path, "system power")
    try:
        if name and name not in systems:
            raise RecordError(f"there is no block of a system '{name}': {near(name, systems)}")
        return completed(stated, systems.get(name or stated.system_desc_id))
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error


def as_written(value: Any) -> Any:
    """Return a part as JSON has it, without what is unknown."""
    value = asdict(value) if isinstance(value, SystemPower) else value
    if isinstance(value, dict):
        return {name: as_written(one) for name, one in value.items() if one is not None}
    return [as_written(one) for one in value] if isinstance(value, list | tuple) else value


def with_provisioned(records: Sequence[Record], powers: Mapping[str, SystemPower]) -> tuple[list[Record], list[str]]:
    """Return records with throughput by provisioned power, and a sentence on each run that has none.

    The nodes that a run used count as a whole. With several node sets it is unknown which ones: all count.
    """
    found, notes, part = [], [], 0
    for record in records:
        power, rate = powers.get(record.system), record.metrics.number(f"{record.work_unit}_per_s")
        if power is not None and record.is_good and rate is not None:
            nodes, [first, *others] = record.layout.num_nodes or 1, power.node_sets
            try:
                kw = kw_of(power, {} if others else {first.node_set_id: nodes})
                origin = ESTIMATED if power.mlc_estimated_power else STATED
                values: dict[str, Any] = {f"{record.work_unit}_per_s_per_kw": ratio(rate, kw), "provisioned_by": origin}
                record = changed(record, metrics=changed(record.metrics, provisioned_kw=kw, **values))
                installed = (
                    first.components and first.components.accelerator and first.components.accelerator.count_per_node
                )
                part += (record.layout.num_devices or 0) < nodes * (installed or 0)
            except RecordError as error:
                notes.append(f"{record.file.path} has no throughput by provisioned power: {error}")
        found.append(record)
    if part:
        notes.append(
            f"{count(part, 'run')} used a part of a node's devices: provisioned power is that of the whole node"
        )
    return found, notes
