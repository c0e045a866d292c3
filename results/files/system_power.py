"""A system's provisioned power, what it is built to draw: `system_power.json` of MLPerf Endpoints, also as YAML.

The keys are those of appendix E of its rules, as the package endpoints-submission-cli 1.5.3.0 reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from results.errors import RecordError
from results.files.csv_rows import csv_rows
from results.files.typed_files import Above0, From0, From1, NotNegative, Text

DEFAULT: Literal["mlc_default"] = "mlc_default"
ESTIMATED = "MLC Estimated Power"
APPENDIX_D = ("D.1", "D.2", "D.3", "D.4")
DEFAULTS = Path(__file__).parents[1] / "reference" / "power_defaults.csv"  # of appendix D
OVERHEAD = {"liquid": 0.30, "air": 0.50}  # other components over the major ones, section 4.5


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
class Units:
    """Processors or accelerators of a node, as installed."""

    model: Annotated[Text | None, "of a processor with its number of cores, such as 64-core"] = None
    count_per_node: From0 | None = None
    tdp_per_unit: Sourced | None = None
    below_rated_tdp: Annotated[Mapping[str, Any] | None, "evidence of a power limit"] = None


@dataclass(frozen=True, kw_only=True)
class ScaleUp:
    """Network between accelerators, by its switches or by its bandwidth."""

    method: Literal["declared_tdp", "bandwidth_estimate", "none"]
    switch_count: From0 | None = None
    tdp_per_switch: Sourced | None = None
    aggregate_bandwidth_tbps: Annotated[NotNegative | None, "of a node, in terabytes per second"] = None
    energy_per_bit_pj: Sourced | None = None


@dataclass(frozen=True, kw_only=True)
class Components:
    """Major components of a node."""

    cpu: Units | None = None
    accelerator: Units | None = None
    combined_cpu_accelerator: Annotated[Sourced | None, "of a node, in place of the power of both"] = None
    scale_up_network: ScaleUp


@dataclass(frozen=True, kw_only=True)
class NodeSet:
    """Nodes that are alike."""

    node_set_id: From0
    system_node_ensemble_id: From0
    nodes_provisioned: From1
    power_method: Literal["component_sum", "published_system", "node_scaling"]
    published_power: Annotated[Sourced | None, "of a node, or with node_scaling of a rack"] = None
    nodes_in_published_rack: From1 | None = None
    components: Components | None = None
    notes: Text | None = None


@dataclass(frozen=True, kw_only=True)
class Nics:
    """Network cards of a node towards other nodes."""

    count_per_node: From0
    bandwidth_per_nic_gbps: NotNegative
    counted: Annotated[bool | None, "in addition to the nodes' power; default: if a set sums components"] = None
    tdp_per_nic: Sourced | None = None
    excluded_from_published_power: Annotated[Text | None, "evidence that published power lacks them"] = None


@dataclass(frozen=True, kw_only=True)
class Switch:
    """Switches of one model between nodes."""

    model: Text
    count: From1
    bandwidth_tbps: NotNegative
    power_per_switch: Sourced | None = None


@dataclass(frozen=True, kw_only=True)
class ScaleOut:
    """Network between nodes."""

    present: bool
    cabling: Literal["passive", "active_optical"] | None = None
    required_bandwidth_tbps: Annotated[NotNegative | None, "default: that of all network cards"] = None
    nics: Nics | None = None
    switches: Annotated[tuple[Switch, ...], {"title": "switch"}] = ()


@dataclass(frozen=True, kw_only=True)
class SystemPower:
    """Provisioned power of a system."""

    system_desc_id: Text
    cooling: Literal["liquid", "air"]
    node_sets: Annotated[tuple[NodeSet, ...], {"minItems": 1}]
    scale_out: ScaleOut
    declared_provisioned_power: Annotated[Sourced | None, "of the whole system, in place of the sum"] = None
    computed: Annotated[Mapping[str, float] | None, "sums in watts, and the overhead's fraction"] = None
    provisioned_power_kw: NotNegative | None = None
    mlc_estimated_power: bool | None = None
    notes: Text | None = None

    @property
    def nodes(self) -> int:
        """Number of all nodes."""
        return sum(one.nodes_provisioned for one in self.node_sets)


@cache
def default_of(kind: str, model: str | None = None, cabling: str = "") -> Sourced | None:
    """Return the figure of appendix D, the first that fits; None without one."""
    name, cores = (model or "").lower(), re.search(r"(\d+)[ -]*core", (model or "").lower())
    for row in csv_rows(DEFAULTS):
        is_like = re.search(row["pattern"], name if kind == "processor" else re.sub(r"[^a-z0-9]", "", name))
        fits = kind != "processor" or (cores and int(cores[1]) <= float(row["most_cores"] or "inf"))
        if row["kind"] == kind and is_like and fits and row["cabling"] in ("", cabling):
            return Sourced(value_w=float(row["watts"]), source_type=DEFAULT, source=row["part"])
    return None
