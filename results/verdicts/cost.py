"""Cost of training: money and carbon dioxide per amount of work, from prices that the user gives.

The cost is the price of the electricity, times the site's PUE (power usage effectiveness), and the share of the
machine's price for the time that the work takes.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from jpwr.intervals import BOUND
from record.arithmetic import ratio, sum_of_all
from record.checks.energy import OUTER
from record.part import Allowed, changed
from record.values import THROUGHPUT, WORK
from results.files.systems import SOURCE, system_of
from results.files.typed_files import FILLED, Above0, From1, NotNegative
from results.files.workloads import facts_about
from results.find.records import Record, RecordError
from results.points.estimate import Estimate, Part, of_runs
from results.points.repeats import PointResults
from results.verdicts.quality import energy_kind, why_not_ranked
from results.verdicts.ranking import why_left_out

# Usual electricity is 0.03 to 0.5 of these currencies per kWh; in others, a large number may be right.
CURRENCIES, MOST_PER_KWH = ("EUR", "€", "EURO", "USD", "$", "US$", "GBP", "£", "CHF", "CAD", "AUD"), 2.0
HOURS_PER_YEAR = 365.25 * 24
LIFETIME = Allowed("years above 0 and at most 15; usual are 3 to 8", lambda years: 0 < years <= 15)
SHARE = Allowed("a number above 0 and at most 1; usual are 0.6 to 0.95: write 0.95 for 95 %", lambda own: 0 < own <= 1)
PUE = Allowed("a number from 1 to 3; usual are 1.05 to 1.6", lambda pue: 1 <= pue <= 3)
# Electricity of water has 10 to 25 g per kWh, and of coal 1,000 g.
CO2_G = Allowed("0 or 1 to 2000; usual are 10 to 1,000: write it in grams", lambda g: g == 0 or 1 <= g <= 2000)


@dataclass(frozen=True)
class Price:
    """Price of one device with its share of node, network and storage."""

    price_per_device: Annotated[NotNegative, "including its share of node, network and storage"]
    overhead_w_per_device: Annotated[
        float,
        Allowed("a number from 0 to 10000", lambda power_w: 0 <= power_w <= 10_000),
        "of processors, fans and network, where no sensor of a node shows it",
    ] = 0.0
    devices_per_node: Annotated[From1 | None, "nodes are bought whole"] = None
    power_limit_w: Annotated[Above0 | None, "of the operating point that counts; without it any"] = None
    clock_limit_mhz: Annotated[Above0 | None, "of the operating point that counts; without it any"] = None
    overhead_low_w_per_device: Annotated[NotNegative | None, "with it or overhead_high, costs are less certain"] = None
    overhead_high_w_per_device: NotNegative | None = None
    provisioned_w_per_device: Annotated[NotNegative, "that a system is built to draw, for throughput by it"] = 0.0
    provisioned_source: Annotated[str, "of that power"] = ""

    @property
    def overhead_range_w(self) -> tuple[float, float]:
        """Ends of the stated overhead, in watts."""
        stated_w, low_w, high_w = (getattr(self, f"overhead_{end}w_per_device") for end in ("", "low_", "high_"))
        return stated_w if low_w is None else low_w, stated_w if high_w is None else high_w

    def check(self, where: str) -> None:
        """Raise RecordError for an overhead outside its range, and for a stated power without its source."""
        (low_w, high_w), stated_w = self.overhead_range_w, self.overhead_w_per_device
        if not low_w <= stated_w <= high_w:
            found = f"the overhead and its range are {low_w:g}, {stated_w:g}, {high_w:g} W"
            raise RecordError(f"{where}: {found}: give them in ascending order")
        if self.provisioned_w_per_device and not self.provisioned_source.strip():
            raise RecordError(f"{where}: provisioned_w_per_device needs its source: {SOURCE}")


class Overhead(NamedTuple):
    """Power of a device's share of its node that an energy does not include, and its standard uncertainty, in watts."""

    value_w: float = 0.0
    error_w: float = 0.0


@dataclass(frozen=True)
class Costs:
    """Content of the prices file."""

    currency: str
    electricity_per_kwh: NotNegative
    systems: Annotated[Mapping[str, Price], FILLED]
    lifetime_years: Annotated[float, LIFETIME] = 5.0
    utilisation: Annotated[float, SHARE, "of its life that the machine works"] = 0.8
    pue: Annotated[float, PUE, "power usage effectiveness; not in percent"] = 1.2
    co2_g_per_kwh: Annotated[float | None, CO2_G] = None

    def check(self, where: str) -> None:
        """Raise RecordError for a price in another unit."""
        price = self.electricity_per_kwh
        if set(self.currency.upper().split()) & set(CURRENCIES) and price > MOST_PER_KWH:
            found = f"electricity_per_kwh is {price:g}, but usual are 0.03 to 0.5 {self.currency}"
            raise RecordError(f"{where}: {found}: write 0.25 for 25 cents, and the price of 1 kWh, not of 1 MWh")

    def no_price(self, system: str) -> str:
        """Return the message that the file has no price of a system."""
        return f"{system} has no price: add it to the prices file, which has {', '.join(self.systems)}"

    def assumptions(self) -> list[str]:
        """Return the assumptions of the costs, as text."""
        lines = [
            f"electricity {self.electricity_per_kwh:g} {self.currency}/kWh, PUE {self.pue:g}",
            f"lifetime {self.lifetime_years:g} years, used {self.utilisation:.0%} of the time",
        ]
        if self.co2_g_per_kwh is not None:
            lines.append(f"{self.co2_g_per_kwh:g} g CO₂ per kWh")
        return lines + [
            f"{name}: {price.price_per_device:,.0f} {self.currency} per device, "
            f"{_overhead_words(price)} per device besides the measured power, unless a node's sensor shows it"
            for name, price in self.systems.items()
        ]


class Cost(NamedTuple):
    """Cost of an amount of work on one system."""

    energy_kwh: float  # at the supply: with overhead and PUE
    electricity: float
    machine: float
    co2_kg: float | None
    estimate: Estimate | None = None  # of the total, by the runs and their sensor; None if it is 0, or without runs

    @property
    def total(self) -> float:
        """Money for electricity and machine."""
        return self.electricity + self.machine


def _overhead_words(price: Price) -> str:
    low_w, high_w = price.overhead_range_w
    return f"{price.overhead_w_per_device:g} W" + (f" ({low_w:g} W to {high_w:g} W)" if low_w < high_w else "")


def cost(
    work: float, units_per_s: float, units_per_wh: float, devices: int, price: Price, costs: Costs, uncovered_w: float
) -> Cost:
    """Return the cost of an amount of work, from throughput and work per watt-hour of all devices together.

    uncovered_w: power per device that this energy does not include, in watts.
    """
    hours = work / units_per_s / 3600
    energy_kwh = (work / units_per_wh + uncovered_w * devices * hours) / 1000 * costs.pue
    paid_hours = costs.lifetime_years * HOURS_PER_YEAR * costs.utilisation
    return Cost(
        energy_kwh,
        energy_kwh * costs.electricity_per_kwh,
        price.price_per_device * devices * hours / paid_hours,
        None if costs.co2_g_per_kwh is None else energy_kwh * costs.co2_g_per_kwh / 1000,
    )


def uncovered_w(one: PointResults, costs: Costs) -> Overhead:
    """Return the power per device that the energy's sensors do not cover; none for whole nodes and meters.

    It is measured where a node's sensor was read next to its boards', else as stated.
    """
    price, energy = costs.systems.get(one.system), one.any.energy
    if price is None or (energy and set(energy.power_scope.split("+")) & set(OUTER)):
        return Overhead()
    measured = [_rest_of_node(record) for record in one.good]
    known = [rest for rest in measured if rest]
    if not known or len(known) < len(measured):
        stated_w, (low_w, high_w) = price.overhead_w_per_device, price.overhead_range_w
        return Overhead(stated_w, max(stated_w - low_w, high_w - stated_w) / BOUND)
    return Overhead(*map(statistics.median, zip(*known, strict=True)))


def _rest_of_node(record: Record) -> Overhead | None:
    """Return the power of a run's nodes by their own sensor, without what its energy includes, for each device."""
    energy = record.energy
    if not energy or energy.power_kind != "measured" or not energy.window_s:
        return None
    inside = [energy.sampled_by_scope.number(f"{scope}_wh") for scope in energy.power_scope.split("+")]
    node_wh, inside_wh = energy.sampled_by_scope.number("node_wh"), sum_of_all(inside)
    if node_wh is None or inside_wh is None or node_wh <= inside_wh:
        return None
    block, nodes = system_of(record.system), record.layout.num_nodes or 1
    devices = max(record.layout.num_devices or 1, nodes * block.devices_per_node if block else 0)
    error_wh = node_wh * (energy.site.number("accuracy_percent") or 0.0) / 100 / BOUND
    return Overhead(*(3600 * wh / energy.window_s / devices for wh in (node_wh - inside_wh, error_wh)))


Kind = tuple[str, str]  # precision and kind of energy, which costs must share to be ranked together
Cheapest = Mapping[str, tuple[PointResults, Cost]]  # by system, at its cheapest point


def cheapest(results: Sequence[PointResults], costs: Costs) -> dict[Kind, Cheapest]:
    """Return the cheapest point of each system with a cost, for each precision and kind of energy."""
    by_kind: dict[Kind, dict[str, tuple[PointResults, Cost]]] = {}
    for one in results:
        at = cost_of(one, costs)
        if isinstance(at, Cost):
            systems = by_kind.setdefault((one.precision, energy_kind(one.any) or ""), {})
            if one.system not in systems or at.total < systems[one.system][1].total:
                systems[one.system] = (one, at)
    return dict(by_kind)


def tied_with_cheapest(best: Cheapest) -> list[str]:
    """Return the cheapest system, followed by those that do not exceed its cost by more than their uncertainty."""
    first, *others = sorted(best, key=lambda system: best[system][1].total)
    least, tied = best[first][1].estimate, [first]
    for system in others:
        estimate = best[system][1].estimate
        interval = (estimate / least).interval if estimate and least else None
        if not interval or interval.low <= 1:
            tied.append(system)
    return tied


def cost_of(one: PointResults, costs: Costs) -> Cost | str:
    """Return the cost at one point of its workload's amount of work, or why it has none."""
    price = costs.systems.get(one.system)
    if price is None:
        return costs.no_price(one.system)
    if not one.good:
        return "no good run"
    if not one.limits.are(price.power_limit_w, price.clock_limit_mhz):
        return "not at the operating point that the prices file names"
    if why := why_left_out(one):
        return f"no cost: {why}"
    amount, speed, work = facts_about(one.point.benchmark).costed.amount, one.value(THROUGHPUT), one.value(WORK)
    if not amount:
        return "no cost is stated for this workload"
    if not speed:
        return "no throughput"
    if (why := why_not_ranked(one)) or not work:
        return f"no energy that counts: {why or 'its runs have energies of different kinds'}"
    uncovered = uncovered_w(one, costs)

    def at(speed: float, work: float, uncovered_w: float = uncovered.value_w) -> Cost:
        return cost(amount, speed, work, one.point.devices, price, costs, uncovered_w)

    stated = at(speed, work)
    totals = [at(*run).total for run in zip(one.values(THROUGHPUT), one.values(WORK), strict=True)]
    if not stated.total or not min(totals):
        return stated
    shared = [
        part._replace(error=at(speed, work / (1 + abs(part.error))).total / stated.total - 1)
        for part in one.sensor_parts(WORK, with_accuracy=True)
    ]
    shared.append(Part(at(speed, work, sum(uncovered)).total / stated.total - 1))
    return stated._replace(estimate=of_runs(totals, shared)._replace(value=stated.total))


class Crossing(NamedTuple):
    """Device price at which a system costs as much as another, all else equal; below 0: no such price."""

    system: str
    price: float
    against: str


def crossings(best: Cheapest, costs: Costs) -> list[Crossing]:
    """Return the prices at which the order of the systems changes, at their cheapest points.

    These are the price at which the cheapest loses its place, and the price at which each other system gets it. Systems
    that tie with the cheapest are omitted.
    """
    first, *tied = tied_with_cheapest(best)
    dearer = [system for system in best if system not in (first, *tied)]
    next_one = min(dearer, key=lambda system: best[system][1].total, default="")
    pairs = [*([(first, next_one)] if next_one and not tied else []), *((system, first) for system in dearer)]
    return [
        Crossing(system, costs.systems[system].price_per_device * (wanted - ours.electricity) / ours.machine, against)
        for system, against in pairs
        if (ours := best[system][1]).machine and (wanted := best[against][1].total)
    ]


def with_provisioned(record: Record, costs: Costs | None, tag: str) -> Record:
    """Return a record with throughput by provisioned power, which its system is built to draw, and the power's source.

    The prices count before the system's block, which has the name `tag`.
    """
    prices = [costs.systems.get(name) for name in (record.system, tag)] if costs else []
    stated = next((one for one in (*prices, system_of(tag)) if one and one.provisioned_w_per_device), None)
    rate, devices = record.metrics.number(f"{record.work_unit}_per_s"), record.layout.num_devices
    per_kw = words = None
    if stated and devices:
        each_w = stated.provisioned_w_per_device
        per_kw = ratio(rate, each_w * devices / 1000)
        words = f"{record.system}: {each_w:,g} W per device, by {stated.provisioned_source}"
    values: dict[str, Any] = {f"{record.work_unit}_per_s_per_kw": per_kw, "provisioned_by": words}
    return changed(record, metrics=changed(record.metrics, **values)) if record.is_good else record


def provisioned_sources(records: Sequence[Record]) -> list[str]:
    """Return a sentence on each provisioned power of the records."""
    known = dict.fromkeys(vars(one.metrics).get("provisioned_by") for one in records if one.is_good)
    return [f"provisioned power of {words}" for words in known if words]
