"""Power of a run's nodes at the wall: measured, by a model fitted to runs with a sensor, or a published estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jpwr.intervals import BOUND
from results.files.system_power import OVERHEAD, default_of
from results.files.systems import system_of
from results.points.node_model import modelled, not_following
from results.points.sensors import standard_uncertainty
from results.record.derived import mean_power_w
from results.record.findings import Finding, finding
from results.record.model import Energy, NodePower, Record, Wall, changed
from results.record.values import grouped

MEASURED, MODEL, ESTIMATE = "measured", "model", "estimate"
BOARDS = ("device", "module")
WHOLE_NODE = ("node", "supply")  # scopes that include processors, fans and network
PROCESSORS, PROCESSOR = 2, "x86 64-core"  # of a node, which has a network card for each accelerator
# InferenceX-app, docs/powerx-system-power.md at 06b5ae8: shares of their maximum at which they work.
PROCESSORS_USED, NETWORK_USED = 0.20, 0.05
SUPERCHIP = "aarch64"  # accelerator and processor share a module: neither source covers it


def with_wall(records: Sequence[Record]) -> list[Record]:
    """Return the records with the power of their nodes at the wall, where boards or nodes were measured."""
    by_kind = grouped((one for one in records if one.is_good and one.energy), _kind)
    sensed = {
        kind: [node for one in mine for node in (one.energy and one.energy.nodes) or () if node.node_w]
        for kind, mine in by_kind.items()
    }
    return [changed(one, wall=_wall_of(one, sensed.get(_kind(one), []))) for one in records]


def _kind(record: Record) -> tuple[str, str, int]:
    """Return what nodes of one kind share: system, processor and boards that are read."""
    nodes = (record.energy and record.energy.nodes) or ()
    return record.system, record.provenance.cpu or "", nodes[0].num_boards if nodes else 0


def _wall_of(record: Record, sensed: Sequence[NodePower]) -> Wall:
    energy = record.energy
    if not (record.is_good and energy and energy.window_s and energy.power_kind == MEASURED):
        return Wall()
    boards_w = next((power_w for scope in BOARDS if (power_w := _mean_w(energy, scope))), None)
    found = _measured(record, energy) or _modelled(record, energy, boards_w, sensed)
    if isinstance(found, Finding):
        found = _estimate(record, boards_w, found)
    return _with_rest(record, found, boards_w)


def _measured(record: Record, energy: Energy) -> Wall | None:
    """Return the power by the run's own meter or node sensors; None without, or if one does not follow its boards."""
    if any(not_following([one]) for one in energy.nodes or ()):
        return None
    accuracy = _accuracy(energy) / BOUND
    if energy.power_scope in WHOLE_NODE and energy.avg_power_w:
        return _wall(energy.avg_power_w, math.hypot(standard_uncertainty(record), accuracy), MEASURED)
    power_w = _mean_w(energy, "node")
    is_sensed = bool(energy.nodes) and all(one.node_w for one in energy.nodes or ())
    return _wall(power_w, accuracy, MEASURED) if is_sensed and power_w else None


def _modelled(record: Record, energy: Energy, boards_w: float | None, sensed: Sequence[NodePower]) -> Wall | Finding:
    """Return the power by the model, or why there is none."""
    if boards_w is None:
        return finding("no_boards")
    nodes, processors_w = record.layout.num_nodes or 1, _mean_w(energy, "cpu")
    if not all(one.processors_w for one in energy.nodes or ()):  # an estimate, or of some nodes
        processors_w = None
    if processors_w is not None:
        processors_w = (processors_w + (_mean_w(energy, "dram") or 0.0)) / nodes
    found = modelled(sensed, boards_w / nodes, processors_w, _accuracy(energy), nodes)
    if isinstance(found, Finding):
        return found
    relative = math.sqrt(math.fsum(one.variance for one in found.parts)) / found.power_w
    low_w, high_w = (nodes * (found.power_w + sign * found.half_w) for sign in (-1, 1))
    return changed(_wall(nodes * found.power_w, relative, MODEL), low_w=low_w, high_w=high_w, nodes=found.nodes)


def _estimate(record: Record, boards_w: float | None, why_not: Finding) -> Wall:
    """Return the published estimate: between what surely works, and what a supply is sized for."""
    block = system_of(record.system)
    if boards_w is None:
        return Wall(why_not=why_not)
    if block is None or block.cpu_arch == SUPERCHIP or block.vendor not in ("nvidia", "amd"):
        return Wall(why_not=finding("no_estimate", what=block.accelerator if block else f"the system {record.system}"))
    nodes = record.layout.num_nodes or 1
    processors_w = nodes * PROCESSORS * _default_w("processor", PROCESSOR)
    network_w = nodes * block.devices_per_node * _default_w("network card")
    low_w = boards_w + PROCESSORS_USED * processors_w + NETWORK_USED * network_w
    high_w = (1 + OVERHEAD["air"]) * (boards_w + processors_w + network_w)
    middle_w = math.sqrt(low_w * high_w)
    wall = _wall(middle_w, math.log(high_w / middle_w) / BOUND, ESTIMATE)
    return changed(wall, low_w=low_w, high_w=high_w, why_not=why_not)


def _default_w(kind: str, model: str | None = None) -> float:
    """Return a power by appendix D of MLPerf Endpoints, in watts."""
    known = default_of(kind, model)
    return (known.watts if known else None) or math.nan


def _with_rest(record: Record, wall: Wall, boards_w: float | None) -> Wall:
    """Return a power that is no estimate with that of all but the boards, for each device of the nodes."""
    is_known = wall.how in (MEASURED, MODEL) and boards_w and wall.power_w and wall.power_w > boards_w
    if not is_known or wall.power_w is None or wall.relative is None or boards_w is None:
        return wall
    block, nodes = system_of(record.system), record.layout.num_nodes or 1
    devices = max(record.layout.num_devices or 1, nodes * block.devices_per_node if block else 0)
    rest_w = wall.power_w - boards_w
    return changed(wall, rest_w=rest_w / devices, rest_relative=wall.relative * wall.power_w / rest_w)


def _wall(power_w: float, relative: float, how: str) -> Wall:
    half_w = 2 * relative * power_w
    return Wall(power_w=power_w, low_w=power_w - half_w, high_w=power_w + half_w, relative=relative, how=how)


def _accuracy(energy: Energy) -> float:
    """Return the bound on the error of the node's sensor, as a share, as its site states it; 0 if it does not."""
    return (energy.site.number("accuracy_percent") or 0.0) / 100


def _mean_w(energy: Energy, scope: str) -> float | None:
    energy_wh = energy.sampled_by_scope.number(f"{scope}_wh")
    return mean_power_w(energy_wh, energy.window_s) if energy_wh else None
