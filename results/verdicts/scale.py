"""Largest size of each system within a budget: the number of devices, and their total throughput.

A machine is assumed to run several jobs of the largest measured number of devices that fits at the same time; the rest
of its devices is idle. Both are reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from record.findings import Finding, finding
from record.values import PER_DEVICE, devices_text, is_accelerated
from results.points.estimate import Estimate, exactly
from results.points.facts import CPUS, DEVICE, FLOPS, Setup, as_key, differences, facts_of, own_name
from results.points.repeats import PointResults
from results.verdicts.cost import HOURS_PER_YEAR, Costs, Price, uncovered_w
from results.verdicts.quality import best_by_devices, fastest, ranked_points, why_not_ranked
from results.verdicts.requirements import Budget

POWER = "energy.avg_power_w"
NOT_SHARED = "no good run in a precision that all systems have"
NO_ENERGY = "not every workload has an energy that counts"


class Speed(NamedTuple):
    """Throughput of a number of devices at one workload."""

    estimate: Estimate | None
    words: str  # how it was derived, or why it was not; empty if it was measured
    measured: int | None = None  # number of devices whose measurement it is derived from


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


@dataclass(frozen=True)
class Machine:
    """One system that may be bought: its points by workload, its power, and its size within a budget."""

    system: str
    points: Mapping[str, Sequence[PointResults]] = field(default_factory=dict)
    costs: Costs | None = None
    per_node: int | None = None  # devices; None: not known
    power: Estimate | str = ""  # of a device at the supply, or why not every workload has one
    unlike: str = ""  # why no size depends on its power, which is of another kind than that of others
    devices: int | None = None  # None without a budget, and if `why_not` gives a reason
    limit: str = ""  # of the budget, which binds the size: devices, money or power
    why_not: str = ""

    @property
    def price(self) -> Price | None:
        """Price of a device; None without one."""
        return self.costs.systems.get(self.system) if self.costs else None

    @property
    def purchase(self) -> float | None:
        """Price of all devices; None without a price or a size."""
        return self.price.price_per_device * self.devices if self.price and self.devices else None

    @property
    def power_kw(self) -> float | None:
        """Power at the supply while it works; None if it is not known."""
        if self.price is None or self.devices is None or isinstance(self.power, str):
            return None
        return self.power.value * self.devices / 1000

    @property
    def total(self) -> float | None:
        """Price and electricity over its lifetime; None if its power is not known."""
        if self.costs is None or self.purchase is None or self.power_kw is None:
            return None
        hours = HOURS_PER_YEAR * self.costs.lifetime_years * self.costs.utilisation
        return self.purchase + self.power_kw * hours * self.costs.electricity_per_kwh

    @cached_property
    def speeds(self) -> dict[str, Speed]:
        """Throughput of all devices at each workload; per device, at the best point, without a budget."""
        return {name: self._speed(points) for name, points in self.points.items()}

    def _speed(self, points: Sequence[PointResults]) -> Speed:
        if self.why_not:
            return Speed(None, self.why_not)
        if self.devices is None:
            best = fastest(ranked_points(points))
            return Speed(best.estimate(PER_DEVICE), best.point.place) if best else Speed(None, NOT_SHARED)
        speed = speed_of(points, self.devices)
        if speed.estimate and self.limit == "power" and isinstance(self.power, Estimate):
            # The number of devices has the relative error of the power.
            return speed._replace(estimate=speed.estimate * (exactly(self.power.value) / self.power))
        return speed

    def within(self, budget: Budget) -> Machine:
        """Return the machine in the largest size within all limits of the budget, of which the tightest binds."""
        sizes, price, power = list[Machine](), self.price, self.unlike or self.power
        no_price = self.costs.no_price(self.system) if self.costs and not price else ""
        if budget.devices:
            sizes.append(self._sized("devices", budget.devices))
        if budget.money and price and price.price_per_device:
            sizes.append(self._sized("money", budget.money / price.price_per_device))
        elif budget.money:
            sizes.append(self._sized("money", 0, no_price or f"a device of {self.system} has the price 0"))
        if budget.power_kw and price and isinstance(power, Estimate):
            sizes.append(self._sized("power", 1000 * budget.power_kw / power.value))
        elif budget.power_kw:
            sizes.append(self._sized("power", 0, no_price or str(power)))
        return min(
            sizes, key=lambda machine: machine.devices or -1, default=replace(self, devices=None, limit="", why_not="")
        )

    def _sized(self, limit: str, devices: float, why_not: str = "") -> Machine:
        """Return the machine in the whole nodes that a limit of the budget allows, given its number of devices."""
        per_node = self.per_node or 1
        if not why_not and devices < 1:
            why_not = f"the budget of {limit} is too small for one device"
        elif not why_not and devices < per_node:
            why_not = f"{devices_text(math.floor(devices))} are less than a node of {per_node}"
        if why_not:
            return replace(self, devices=None, limit="", why_not=why_not)
        return replace(self, devices=math.floor(devices) // per_node * per_node, limit=limit, why_not="")


def devices_per_node(results: Iterable[PointResults], price: Price | None) -> int | None:
    """Return the devices of a node from the prices file, else from runs over several nodes; None without either."""
    if price and price.devices_per_node:
        return price.devices_per_node
    layouts = [(one.any.layout.num_devices or 0, one.any.layout.num_nodes or 0) for one in results]
    return max((devices // nodes for devices, nodes in layouts if nodes > 1), default=None)


def on_most_devices(points: Mapping[str, Sequence[PointResults]]) -> dict[str, PointResults | None]:
    """Return a system's best point of each workload on the most devices, if possible on full nodes."""
    best = {name: best_by_devices(ranked_points(results)) for name, results in points.items()}
    return {name: next(reversed(by_devices.values()), None) for name, by_devices in best.items()}


def hungriest(best: Mapping[str, PointResults | None], costs: Costs | None) -> Estimate | str:
    """Return one system's power at the workload with the highest, or why not every workload has one."""
    powers = {
        name: power_at_supply(one, costs) if one and costs else "no run that counts" for name, one in best.items()
    }
    missing = [f"{name}: {power}" for name, power in powers.items() if isinstance(power, str)]
    if missing:
        return f"{NO_ENERGY} ({'; '.join(missing)})"
    return max((power for power in powers.values() if isinstance(power, Estimate)), key=lambda one: one.value)
