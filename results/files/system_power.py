"""A system's provisioned power, what it is built to draw: `system_power.json` of MLPerf Endpoints, also as YAML.

Section 4.5 and appendix E of its rules, as the package endpoints-submission-cli 1.5.3.0 applies them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

from results.errors import RecordError
from results.files.typed_files import Above0, From0, From1, NotNegative, Text
from results.record.values import count

DEFAULT: Literal["mlc_default"] = "mlc_default"
ESTIMATED = "MLC Estimated Power"
OVERHEAD = {"liquid": 0.30, "air": 0.50}  # other components over the major ones, section 4.5.2
APPENDIX_D = ("D.1", "D.2", "D.3", "D.4")
NEEDS = {
    "component_sum": ("components",),
    "published_system": ("published_power",),
    "node_scaling": ("published_power", "nodes_in_published_rack"),
    "declared_tdp": ("switch_count", "tdp_per_switch"),
    "bandwidth_estimate": ("aggregate_bandwidth_tbps", "energy_per_bit_pj"),
    "scale_out": ("cabling", "nics", "switches"),
}


@dataclass(frozen=True, kw_only=True)
class Sourced:
    """A figure with its public source; without a value, the block of the system or appendix D has it."""

    value_w: Above0 | None = None
    value_kw: Above0 | None = None
    value_pj: Annotated[Above0 | None, "per bit"] = None
    source_type: Literal["vendor_spec", "publication", "public_statement", "mlc_default"]
    source: Annotated[Text, "its address; of mlc_default a part of appendix D"]

    def check(self, where: str) -> None:
        """Raise RecordError for two values, or for a source that nobody can look up."""
        if sum(value is not None for value in (self.value_w, self.value_kw, self.value_pj)) > 1:
            raise RecordError(f"{where} has two values: give one of value_w, value_kw and value_pj")
        is_address = self.source.startswith(("https://", "http://"))
        if not (self.source in APPENDIX_D if self.source_type == DEFAULT else is_address):
            wanted = f"one of {', '.join(APPENDIX_D)}" if self.source_type == DEFAULT else "an address"
            raise RecordError(
                f"{where} is a {self.source_type} from '{self.source}', which is not {wanted}: name the source, or "
                f"take {DEFAULT}, which marks the result as {ESTIMATED}"
            )

    @property
    def watts(self) -> float | None:
        """Value in watts; None without one."""
        return self.value_kw * 1000 if self.value_kw is not None else self.value_w


@dataclass(frozen=True, kw_only=True)
class Part:
    """Part of a system."""

    notes: Text | None = None

    def check(self, where: str) -> None:
        """Raise RecordError if it lacks a value that its method needs."""
        method = next((one for name, one in vars(self).items() if name in ("method", "power_method")), "")
        for name in NEEDS.get("scale_out" if getattr(self, "present", False) else method, ()):
            if getattr(self, name) is None:
                raise RecordError(f"{where} lacks '{name}', which {method or 'a present network'} needs: add it")


@dataclass(frozen=True, kw_only=True)
class Units(Part):
    """Processors or accelerators of a node, as installed."""

    model: Annotated[Text | None, "of a processor with its number of cores, such as 64-core"] = None
    count_per_node: From0 | None = None
    tdp_per_unit: Sourced | None = None
    below_rated_tdp: Annotated[Mapping[str, Any] | None, "evidence of a power limit"] = None


@dataclass(frozen=True, kw_only=True)
class ScaleUp(Part):
    """Network between accelerators, by its switches or by its bandwidth."""

    method: Literal["declared_tdp", "bandwidth_estimate", "none"]
    switch_count: From0 | None = None
    tdp_per_switch: Sourced | None = None
    aggregate_bandwidth_tbps: Annotated[NotNegative | None, "of a node, in terabytes per second"] = None
    energy_per_bit_pj: Sourced | None = None


@dataclass(frozen=True, kw_only=True)
class Components(Part):
    """Major components of a node."""

    cpu: Units | None = None
    accelerator: Units | None = None
    combined_cpu_accelerator: Annotated[Sourced | None, "of a node, in place of the power of both"] = None
    scale_up_network: ScaleUp

    def check(self, where: str) -> None:
        """Raise RecordError for power that would count twice."""
        alone = [name for name in ("cpu", "accelerator") if (one := getattr(self, name)) and one.tdp_per_unit]
        if self.combined_cpu_accelerator and alone:
            raise RecordError(f"{where} has combined_cpu_accelerator and the power of {alone[0]}: give one of them")


@dataclass(frozen=True, kw_only=True)
class NodeSet(Part):
    """Nodes that are alike."""

    node_set_id: From0
    system_node_ensemble_id: From0
    nodes_provisioned: From1
    power_method: Literal["component_sum", "published_system", "node_scaling"]
    published_power: Annotated[Sourced | None, "of a node, or with node_scaling of a rack"] = None
    nodes_in_published_rack: From1 | None = None
    components: Components | None = None

    def check(self, where: str) -> None:
        """Raise RecordError if the method lacks a value, or a rack has no more nodes."""
        super().check(where)
        if self.power_method == "node_scaling" and (self.nodes_in_published_rack or 0) <= self.nodes_provisioned:
            raise RecordError(
                f"{where}: node_scaling of {count(self.nodes_provisioned, 'node')} needs a rack of more, and "
                f"nodes_in_published_rack is {self.nodes_in_published_rack}: take published_system for a whole rack"
            )


@dataclass(frozen=True, kw_only=True)
class Nics(Part):
    """Network cards of a node towards other nodes."""

    count_per_node: From0
    bandwidth_per_nic_gbps: NotNegative
    counted: Annotated[bool | None, "in addition to the nodes' power; default: if a set sums components"] = None
    tdp_per_nic: Sourced | None = None
    excluded_from_published_power: Annotated[Text | None, "evidence that published power lacks them"] = None


@dataclass(frozen=True, kw_only=True)
class Switch(Part):
    """Switches of one model between nodes."""

    model: Text
    count: From1
    bandwidth_tbps: NotNegative
    power_per_switch: Sourced | None = None


@dataclass(frozen=True, kw_only=True)
class ScaleOut(Part):
    """Network between nodes."""

    present: bool
    cabling: Literal["passive", "active_optical"] | None = None
    required_bandwidth_tbps: Annotated[NotNegative | None, "default: that of all network cards"] = None
    nics: Nics | None = None
    switches: tuple[Switch, ...] | None = None


class Term(NamedTuple):
    """A part of the power: its node set (None for switches between nodes), kind, name, watts and origin."""

    node_set: int | None
    kind: Literal["major", "published", "switch"]
    name: str
    watts: float
    figure: Sourced


@dataclass(frozen=True, kw_only=True)
class SystemPower(Part):
    """Provisioned power of a system, a system_power.json."""

    system_desc_id: Text
    cooling: Literal["liquid", "air"]
    node_sets: Annotated[tuple[NodeSet, ...], {"minItems": 1}]
    scale_out: ScaleOut
    declared_provisioned_power: Annotated[Sourced | None, "of the whole system, in place of the sum"] = None
    computed: Annotated[Mapping[str, float] | None, "sums in watts, and the overhead's fraction"] = None
    provisioned_power_kw: NotNegative | None = None
    mlc_estimated_power: bool | None = None

    @property
    def nodes(self) -> int:
        """Number of all nodes."""
        return sum(one.nodes_provisioned for one in self.node_sets)

    def terms(self) -> Iterator[Term]:
        """Yield the parts of the power, without the other components; raises RecordError for an unknown figure."""
        out = self.scale_out
        nics = out.nics if out.present else None
        for one in self.node_sets:
            number, nodes, is_sum = one.node_set_id, one.nodes_provisioned, one.power_method == "component_sum"
            if one.components and is_sum:
                for name, units, figure in _parts(one.components):
                    yield _term(number, "major", name, nodes * units, figure)
            else:
                rack = one.nodes_in_published_rack if one.power_method == "node_scaling" else None
                yield _term(number, "published", "nodes", nodes / (rack or 1), one.published_power)
            if nics and nics.counted and (is_sum or nics.excluded_from_published_power):
                yield _term(number, "major", "network cards", nodes * nics.count_per_node, nics.tdp_per_nic)
        for switch in (out.switches or ()) if out.present else ():
            yield _term(None, "switch", switch.model, switch.count, switch.power_per_switch)

    def watts(self, *node_sets: int | None) -> float:
        """Return the power of node sets with their other components; None stands for the switches between nodes."""
        factors = {"major": 1 + OVERHEAD[self.cooling]}
        return math.fsum(factors.get(one.kind, 1.0) * one.watts for one in self.terms() if one.node_set in node_sets)

    def kw_of(self, used: Mapping[int, int]) -> float:
        """Return the power of a run in kW, rounded as in section 4.5.3, by the number of nodes of each set.

        A set without a number counts in full. A declared power has no shares: the largest share of a set counts.
        """
        ids = {one.node_set_id: one.nodes_provisioned for one in self.node_sets}
        for number, nodes in used.items():
            if not 1 <= nodes <= ids.get(number, 0):
                raise RecordError(f"a run used {count(nodes, 'node')} of set {number}, which has {ids.get(number, 0)}")
        shares = {number: used.get(number, nodes) / nodes for number, nodes in ids.items()}
        if self.declared_provisioned_power:
            return round((self.provisioned_power_kw or 0.0) * max(shares.values()), 2)
        switches_w = self.watts(None) * sum(shares[number] * nodes for number, nodes in ids.items()) / self.nodes
        return round((math.fsum(share * self.watts(one) for one, share in shares.items()) + switches_w) / 1000, 2)


def _parts(components: Components) -> Iterator[tuple[str, float, Sourced | None]]:
    cpu, accelerator, up = components.cpu, components.accelerator, components.scale_up_network
    if components.combined_cpu_accelerator:
        yield "processors and accelerators", 1, components.combined_cpu_accelerator
    else:
        for name, one in (("processors", cpu), ("accelerators", accelerator)):
            if one is None or one.count_per_node is None:
                raise RecordError(f"a node set has no number of {name}: add count_per_node, 0 for none")
            yield name, one.count_per_node, one.tdp_per_unit
    if up.method == "declared_tdp":
        yield "scale-up switches", up.switch_count or 0, up.tdp_per_switch
    if up.method == "bandwidth_estimate" and (bit := up.energy_per_bit_pj):
        # 1 TB/s x 8 bit x 1 pJ is 8 W.
        in_watts = replace(bit, value_w=bit.value_pj, value_pj=None) if bit.value_pj else None
        yield "scale-up network", 8 * (up.aggregate_bandwidth_tbps or 0), in_watts


def _term(node_set: int | None, kind: Any, name: str, units: float, figure: Sourced | None) -> Term:
    if figure is None or figure.watts is None:
        raise RecordError(
            f"{name} of {'the network' if node_set is None else f'node set {node_set}'} have no power, and appendix D "
            "has none for them: add the figure with its public source"
        )
    return Term(node_set, kind, name, units * figure.watts, figure)
