"""Power of a run's nodes at the wall: measured, by a model fitted to runs with a sensor, or a published estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jpwr.intervals import BOUND
from results.files.systems import System, system_of
from results.points.node_model import modelled
from results.points.sensors import standard_uncertainty
from results.record.findings import Finding, finding
from results.record.model import NodePower, Record, Wall, changed
from results.record.parts import JOULES_PER_WH

MEASURED, MODEL, ESTIMATE = "measured", "model", "estimate"
WHOLE_NODE = ("node", "supply")  # scopes that include processors, fans and network
# MLPerf Endpoints, endpoints-submission-cli 1.5.3.0, section 4.5: watts of a processor, of which a node has two, and of
# the network card of each accelerator; supplied with air cooling is half as much again.
PROCESSORS, PROCESSOR_W, NETWORK_W, PROVISIONED = 2, 350.0, 75.0, 1.5
# InferenceX-app, docs/powerx-system-power.md at 06b5ae8: shares of their maximum at which they work.
PROCESSORS_USED, NETWORK_USED = 0.20, 0.05
SUPERCHIP = "aarch64"  # accelerator and processor share a module: neither source covers it


def with_wall(records: Sequence[Record]) -> list[Record]:
    """Return the records with the power of their nodes at the wall, where boards or nodes were measured."""
    sensed: dict[tuple[str, ...], list[NodePower]] = {}
    for record in records:
        if record.is_good and record.energy:
            mine = [one for one in record.energy.nodes or () if one.node_w]
            sensed.setdefault(_kind(record), []).extend(mine)
    return [_with_wall(record, sensed.get(_kind(record), [])) for record in records]


def _kind(record: Record) -> tuple[str, ...]:
    """Return what nodes of one kind share."""
    return record.system, record.provenance.cpu or ""


def _with_wall(record: Record, sensed: Sequence[NodePower]) -> Record:
    energy = record.energy
    if not (record.is_good and energy and energy.window_s and energy.power_kind == MEASURED):
        return record
    found = _measured(record) or _modelled(record, sensed)
    return changed(record, wall=_with_rest(record, found if isinstance(found, Wall) else _estimate(record, found)))


def _with_rest(record: Record, wall: Wall) -> Wall:
    """Return the power with that of all but the boards, for each device of the nodes, whether it trained or not."""
    boards_w, block, nodes = _boards_w(record), system_of(record.system), record.layout.num_nodes or 1
    devices = max(record.layout.num_devices or 1, nodes * block.devices_per_node if block else 0)
    if boards_w is None or wall.power_w is None or wall.relative is None or wall.power_w <= boards_w:
        return wall
    rest_w = wall.power_w - boards_w
    return changed(wall, rest_w=rest_w / devices, rest_relative=wall.relative * wall.power_w / rest_w)


def _measured(record: Record) -> Wall | None:
    """Return the power by the run's own meter or node sensors; None without."""
    energy = record.energy
    assert energy and energy.window_s
    if energy.power_scope in WHOLE_NODE:
        relative = standard_uncertainty(record)
    elif not energy.nodes or not all(one.node_w for one in energy.nodes):
        return None
    else:
        relative = 0.0
    name = energy.power_scope if energy.power_scope in WHOLE_NODE else "node"
    power_w = _mean_w(record, name) or energy.avg_power_w
    return _wall(power_w, math.hypot(relative, _accuracy(record) / BOUND), MEASURED) if power_w else None


def _modelled(record: Record, sensed: Sequence[NodePower]) -> Wall | Finding:
    """Return the power by the model, or why there is none."""
    energy, nodes = record.energy, record.layout.num_nodes or 1
    boards_w = _boards_w(record)
    if energy is None or boards_w is None:
        return finding("no_boards")
    processors_w = _mean_w(record, "cpu")
    if processors_w is not None:
        processors_w = (processors_w + (_mean_w(record, "dram") or 0.0)) / nodes
    found = modelled(sensed, boards_w / nodes, processors_w, _accuracy(record), nodes)
    if isinstance(found, Finding):
        return found
    half = found.half_w / found.power_w
    wall = _wall(
        nodes * found.power_w, math.sqrt(math.fsum(one.variance for one in found.parts)) / found.power_w, MODEL
    )
    return changed(
        wall, low_w=nodes * found.power_w * (1 - half), high_w=nodes * found.power_w * (1 + half), nodes=found.nodes
    )


def _estimate(record: Record, why_not: Finding) -> Wall:
    """Return the published estimate: between what surely works, and what a supply is sized for."""
    boards_w, block = _boards_w(record), system_of(record.system)
    if boards_w is None or block is None or not _is_covered(block):
        lacking = finding("no_estimate", what=block.accelerator if block else f"the system {record.system}")
        return Wall(why_not=lacking if boards_w is not None else finding("no_boards"))
    nodes = record.layout.num_nodes or 1
    processors_w, network_w = nodes * PROCESSORS * PROCESSOR_W, nodes * block.devices_per_node * NETWORK_W
    low_w = boards_w + PROCESSORS_USED * processors_w + NETWORK_USED * network_w
    high_w = PROVISIONED * (boards_w + processors_w + network_w)
    middle_w = math.sqrt(low_w * high_w)
    wall = _wall(middle_w, math.log(high_w / middle_w) / BOUND, ESTIMATE)
    return changed(wall, low_w=low_w, high_w=high_w, why_not=why_not)


def _is_covered(block: System) -> bool:
    return block.cpu_arch != SUPERCHIP and block.vendor in ("nvidia", "amd")


def _wall(power_w: float, relative: float, how: str) -> Wall:
    half_w = 2 * relative * power_w
    return Wall(power_w=power_w, low_w=power_w - half_w, high_w=power_w + half_w, relative=relative, how=how)


def _accuracy(record: Record) -> float:
    """Return the bound on the error of the node's sensor, as a share, as its site states it; 0 if it does not."""
    return ((record.energy and record.energy.site.number("accuracy_percent")) or 0.0) / 100


def _boards_w(record: Record) -> float | None:
    """Return the mean power of all boards of all nodes in watts; None if it was not measured."""
    return next((power_w for scope in ("device", "module") if (power_w := _mean_w(record, scope))), None)


def _mean_w(record: Record, scope: str) -> float | None:
    energy = record.energy
    energy_wh = energy.sampled_by_scope.number(f"{scope}_wh") if energy else None
    return energy_wh * JOULES_PER_WH / energy.window_s if energy and energy_wh and energy.window_s else None
