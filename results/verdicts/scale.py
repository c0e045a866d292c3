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


def power_at_supply(one: PointResults, costs: Costs) -> Estimate | str:
    """Return the power of one device at the supply, in watts, with what its sensors do not cover and the site's PUE.

    Else why there is none: the energy does not count, or there is no price, whose entry states the uncovered power.
    """
    power = one.estimate(POWER, with_accuracy=True)
    if one.system not in costs.systems:
        return costs.no_price(one.system)
    if why := why_not_ranked(one):
        return str(why)
    if power is None:
        return "its runs have energies of different kinds"
    per_device = power / one.point.devices
    overhead = uncovered_w(one, costs)
    whole_w = per_device.value + overhead.value_w
    at_supply = per_device * exactly(whole_w / per_device.value * costs.pue, overhead.error_w / whole_w)
    return at_supply.of_source((one.system, POWER))  # one power in all workloads


def devices_per_node(results: Iterable[PointResults], price: Price | None) -> int:
    """Return the devices of a node from the prices file, else from runs over several nodes; 1 without either."""
    if price and price.devices_per_node:
        return price.devices_per_node
    layouts = [(one.any.layout.num_devices or 0, one.any.layout.num_nodes or 0) for one in results]
    return max((devices // nodes for devices, nodes in layouts if nodes > 1), default=1)


class Total(NamedTuple):
    """Cost of a machine over its lifetime, in money; values that need an unknown power are None."""

    purchase: float
    power_kw: float | None  # at the supply, while it works
    total: float | None  # purchase and electricity


class Offer:
    """One system that may be bought: its points by workload, its price, and its power at the supply."""

    def __init__(
        self,
        system: str,
        results: Sequence[PointResults],
        points: Mapping[str, Sequence[PointResults]],
        costs: Costs | None,
    ) -> None:
        self.points, self._system, self._costs = points, system, costs
        self.price = costs.systems.get(system) if costs else None
        self.per_node = devices_per_node(results, self.price)
        best = {name: _on_most_devices(every) for name, every in points.items()}
        self.kinds = {kind for one in best.values() if one and (kind := energy_kind(one.any))}
        self.power = _hungriest(best, costs)
        self.unlike = ""  # why no size depends on its power, which is of another kind than that of others

    def size(self, budget: Budget) -> Size:
        """Return the size within all limits of the budget, of which the tightest binds."""
        sizes, price = [], self.price
        no_price = self._costs.no_price(self._system) if self._costs else ""
        if budget.devices:
            sizes.append(self._whole_nodes("devices", budget.devices))
        if budget.money and price and price.price_per_device:
            sizes.append(self._whole_nodes("money", budget.money / price.price_per_device))
        elif budget.money:
            sizes.append(Size(None, f"a device of {self._system} has the price 0" if price else no_price))
        power = self.unlike or self.power
        if budget.power_kw and price and isinstance(power, Estimate):
            size = self._whole_nodes("power", 1000 * budget.power_kw / power.value)
            sizes.append(size._replace(power=power))
        elif budget.power_kw:
            sizes.append(Size(None, str(power) if price else no_price))
        return min(sizes, key=lambda size: size.devices or -1, default=Size(None))

    def _whole_nodes(self, limit: str, devices: float) -> Size:
        """Return the size in whole nodes that a limit of the budget allows, given its number of devices."""
        if devices < 1:
            return Size(None, f"the budget of {limit} is too small for one device")
        if devices < self.per_node:
            return Size(None, f"{devices_text(math.floor(devices))} are less than a node of {self.per_node}")
        return Size(math.floor(devices) // self.per_node * self.per_node, limit=limit)

    def total(self, size: Size) -> Total | None:
        """Return the total for a machine of a size; None without a price or a size."""
        if self._costs is None or self.price is None or size.devices is None:
            return None
        purchase = self.price.price_per_device * size.devices
        if isinstance(self.power, str):
            return Total(purchase, None, None)
        power_kw = self.power.value * size.devices / 1000
        hours = HOURS_PER_YEAR * self._costs.lifetime_years * self._costs.utilisation
        return Total(purchase, power_kw, purchase + power_kw * hours * self._costs.electricity_per_kwh)


def _on_most_devices(results: Sequence[PointResults]) -> PointResults | None:
    """Return the best point on the most devices, if possible on full nodes."""
    return next(reversed(best_by_devices(ranked_points(results)).values()), None)


def _hungriest(best: Mapping[str, PointResults | None], costs: Costs | None) -> Estimate | str:
    """Return one system's power at the workload with the highest, or why not every workload has one."""
    powers = {
        name: power_at_supply(one, costs) if one and costs else "no run that counts" for name, one in best.items()
    }
    missing = [f"{name}: {power}" for name, power in powers.items() if isinstance(power, str)]
    if missing:
        return f"{NO_ENERGY} ({'; '.join(missing)})"
    return max((power for power in powers.values() if isinstance(power, Estimate)), key=lambda one: one.value)
