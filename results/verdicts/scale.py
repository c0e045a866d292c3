"""Largest size of each system within a budget: the number of devices, and their total throughput.

A machine is assumed to run several jobs of the largest measured number of devices that fits at the same time; the rest
of its devices is idle. Both are reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from record.findings import Finding, finding
from record.values import PER_DEVICE, devices_text, is_accelerated
from results.points.estimate import Estimate, exactly
from results.points.facts import CPUS, DEVICE, FLOPS, Setup, as_key, differences, facts_of, own_name
from results.points.repeats import PointResults
from results.verdicts.cost import HOURS_PER_YEAR, Costs, Price, uncovered_w
from results.verdicts.quality import energy_kind, why_not_ranked
from results.verdicts.ranking import best_by_devices, ranked_points
from results.verdicts.requirements import Budget

POWER = "energy.avg_power_w"
NO_ENERGY = "not every workload has an energy that counts"


class Speed(NamedTuple):
    """Throughput of a number of devices at one workload."""

    estimate: Estimate | None
    words: str  # how it was derived, or why it was not; empty if it was measured
    measured: int | None = None  # number of devices whose measurement it is derived from


class Size(NamedTuple):
    """Size of a system; `devices` is None if `why_not` gives a reason."""

    devices: int | None
    why_not: str = ""
    power: Estimate | None = None  # per device at the supply, if the size depends on it
    limit: str = ""  # of the budget, which binds it: devices, money or power

    def speed(self, results: Sequence[PointResults]) -> Speed:
        """Return the throughput of all devices at a workload with these points."""
        if self.devices is None:
            return Speed(None, self.why_not)
        speed = speed_of(results, self.devices)
        if speed.estimate and self.power:  # the number of devices has the relative error of the power
            return speed._replace(estimate=speed.estimate * (exactly(self.power.value) / self.power))
        return speed


def setup_at_scale(one: PointResults) -> Setup:
    """Return a point's setup without what depends on the number of devices: nodes, batches, parallel sizes.

    Only points with the same setup show how a system scales.
    """
    record = one.any
    with_number = {"devices", "nodes", CPUS, *vars(record.layout)}
    if not is_accelerated(record):  # threads are divided among processes
        with_number.add(DEVICE)
    options = {
        name: value
        for name, value in facts_of(record).setup
        if own_name(name) not in with_number and not name.startswith(FLOPS)
    }
    chosen = {"precision": one.precision, "choices": ", ".join(record.variant) or "as usual"}
    return as_key(options | chosen)


def unlike_setups(few: PointResults, many: PointResults) -> Finding:
    """Return the differences between the setups of two points on different numbers of devices."""
    few_setup, many_setup = (", ".join(words) for words in differences([setup_at_scale(one) for one in (few, many)]))
    of_few = f"the runs on {devices_text(few.point.devices)} have {few_setup}"
    return finding("other_setups", why=f"{of_few}, those on {devices_text(many.point.devices)} have {many_setup}")


def speed_of(results: Sequence[PointResults], devices: int) -> Speed:
    """Return the throughput of one system on a number of devices, from its best point for each measured number."""
    every = ((number, one.estimate(PER_DEVICE)) for number, one in best_by_devices(ranked_points(results)).items())
    best = {number: estimate for number, estimate in every if estimate}
    if not best:
        return Speed(None, "no good run")
    most = max((number for number in best if number <= devices), default=None)
    if most is None:
        return Speed(None, f"measured on no fewer than {devices_text(min(best))}")
    jobs, idle = divmod(devices, most)
    rest = f", {devices_text(idle)} idle" if idle else ""
    words = f"concurrent jobs of {devices_text(most)}, the most that were measured and fit{rest}"
    return Speed(best[most] * (jobs * most), "" if devices == most else words, most)


class Power(NamedTuple):
    """Power of one device at the supply, in watts, including what its sensors do not cover and the site's overhead."""

    estimate: Estimate | None
    why_not: str = ""


def power_at_supply(one: PointResults, costs: Costs) -> Power:
    """Return the power at a point, in watts.

    None if the energy does not count, or without a price, whose entry states the power that sensors do not cover.
    """
    power = one.estimate(POWER, with_accuracy=True)
    if one.system not in costs.systems:
        return Power(None, costs.no_price(one.system))
    if why := why_not_ranked(one):
        return Power(None, str(why))
    if power is None:
        return Power(None, "its runs have energies of different kinds")
    per_device = power / one.point.devices
    overhead = uncovered_w(one, costs)
    whole_w = per_device.value + overhead.value_w
    at_supply = per_device * exactly(whole_w / per_device.value * costs.pue, overhead.error_w / whole_w)
    return Power(at_supply.of_source((one.system, POWER)))  # one power in all workloads


def devices_per_node(results: Iterable[PointResults], price: Price | None) -> int:
    """Return the devices of a node from the prices file, else from runs over several nodes; 1 without either."""
    if price and price.devices_per_node:
        return price.devices_per_node
    layouts = [(one.any.layout.num_devices or 0, one.any.layout.num_nodes or 0) for one in results]
    return max((devices // nodes for devices, nodes in layouts if nodes > 1), default=1)


def sizes(power: Power, system: str, budget: Budget, costs: Costs | None, per_node: int = 1) -> dict[str, Size]:
    """Return the size of a system within the budget: by each of its limits, and by all of them together."""
    by_limit = {}
    price = costs.systems.get(system) if costs else None
    no_price = costs.no_price(system) if costs else "no prices are given"
    if budget.devices:
        by_limit["devices"] = _whole_nodes("devices", budget.devices, per_node)
    if budget.money:
        each = price.price_per_device if price else 0.0
        why_not = f"a device of {system} has the price 0" if price else no_price
        by_limit["money"] = _whole_nodes("money", budget.money / each, per_node) if each else Size(None, why_not)
    if budget.power_kw:
        by_limit["power"] = Size(None, power.why_not if price else no_price)
        if price and power.estimate:
            size = _whole_nodes("power", 1000 * budget.power_kw / power.estimate.value, per_node)
            by_limit["power"] = size._replace(power=power.estimate)
    if len(by_limit) > 1:
        by_limit = {"budget": min(by_limit.values(), key=lambda size: size.devices or -1), **by_limit}
    return by_limit


def _whole_nodes(limit: str, devices: float, per_node: int) -> Size:
    """Return the size in whole nodes that a limit of the budget allows, given its number of devices."""
    if devices < 1:
        return Size(None, f"the budget of {limit} is too small for one device")
    if devices < per_node:
        return Size(None, f"{devices_text(math.floor(devices))} are less than a node of {per_node}")
    return Size(math.floor(devices) // per_node * per_node, limit=limit)


def hungriest(by_workload: Mapping[str, Sequence[PointResults]], costs: Costs | None) -> Power:
    """Return one system's power at the workload with the highest; none unless every workload has one."""
    powers = {name: _power(results, costs) for name, results in by_workload.items()} if costs else {}
    missing = [f"{name}: {power.why_not}" for name, power in powers.items() if power.estimate is None]
    known = [power for power in powers.values() if power.estimate]
    if missing or not known:
        return Power(None, f"{NO_ENERGY} ({'; '.join(missing)})")
    return max(known, key=lambda one: one.estimate.value if one.estimate else 0.0)


def _power(results: Sequence[PointResults], costs: Costs) -> Power:
    """Return the power at a workload's best point on the most devices, if possible on full nodes."""
    best = _on_most_devices(results)
    return power_at_supply(best, costs) if best else Power(None, "no run that counts")


def energy_kinds(by_workload: Mapping[str, Sequence[PointResults]]) -> set[str]:
    """Return the kinds of energy that a system's power is derived from."""
    best = [one for results in by_workload.values() if (one := _on_most_devices(results))]
    return {kind for one in best if (kind := energy_kind(one.any))}


def _on_most_devices(results: Sequence[PointResults]) -> PointResults | None:
    return next(reversed(best_by_devices(ranked_points(results)).values()), None)


class Total(NamedTuple):
    """Cost of a machine over its lifetime, in money; values that need an unknown power are None."""

    purchase: float
    power_kw: float | None  # at the supply, while it works
    electricity: float | None

    @property
    def total(self) -> float | None:
        """Purchase and electricity."""
        return None if self.electricity is None else self.purchase + self.electricity


def total_of(size: Size, system: str, power: Power, costs: Costs | None) -> Total | None:
    """Return the total for a system of that size; None without a price or a size."""
    price = costs.systems.get(system) if costs else None
    if costs is None or price is None or size.devices is None:
        return None
    purchase = price.price_per_device * size.devices
    if power.estimate is None:
        return Total(purchase, None, None)
    power_kw = power.estimate.value * size.devices / 1000
    hours = HOURS_PER_YEAR * costs.lifetime_years * costs.utilisation
    return Total(purchase, power_kw, power_kw * hours * costs.electricity_per_kwh)
