"""Cards of the first screen: the key figures of one system, and the machine that the budget allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from record.values import PER_DEVICE, WORK, devices_text, rounded
from results.points.repeats import PointResults
from results.points.sensors import accuracy_text
from results.show.page.columns import percent, power_per_device_w
from results.verdicts.cost import Costs, cheapest, costed_work, why_not_costed
from results.verdicts.quality import GRADES, grade
from results.verdicts.requirements import Budget
from results.verdicts.scale import devices_per_node
from results.verdicts.score import Scored

UNKNOWN = "unknown"


class Card(NamedTuple):
    """One key figure of a system; `note` is its uncertainty, or why it is unknown."""

    system: str
    name: str
    unit: str
    value: str
    note: str


def figures(speed: PointResults, work: PointResults | None) -> Iterator[Card]:
    """Return the key figures of one system, at its fastest point and at its most efficient one."""
    unit, of = str(speed.any.work_unit), partial(Card, speed.system)
    yield of("Speed", f"{unit}/s/device", rounded(speed.value(PER_DEVICE)), _interval(speed, PER_DEVICE))
    if work:
        accuracy = accuracy_text(work.any)
        sensor = f"sensor {accuracy}" if accuracy.startswith("±") else f"sensor accuracy {accuracy}"
        yield of("Efficiency", f"{unit}/Wh", rounded(work.value(WORK)), f"{_interval(work, WORK)}; {sensor}")
        yield of("Power", "W/device", rounded(power_per_device_w(work)), "mean of the window")
    else:
        yield of("Efficiency", f"{unit}/Wh", UNKNOWN, "no run has an energy")
    mfu, tflops = speed.value("metrics.mfu"), speed.value("metrics.tflops_per_device")
    if mfu and tflops:
        note = f"{rounded(tflops)} of {rounded(tflops / mfu)} TFLOP/s"
        yield of("MFU", "% of peak", f"{100 * mfu:.3g}", note)
    elif not speed.any.serving:
        yield of("MFU", "% of peak", UNKNOWN, "the peak of this device is not known")
    yield of("Repeats", "runs", str(len(speed.good)), f"at {speed.point.place}")
    found = grade(work.any) if work else None
    yield of("Energy grade", "", found or "none", GRADES[found].partition(":")[0] if found else "no run has an energy")


def _interval(one: PointResults, path: str) -> str:
    return _share(one, one.half_width(path), one.value(path))


def _share(one: PointResults, half_width: float | None, value: float | None) -> str:
    share = percent(half_width, value)
    return f"± {share:.2g} %" if share is not None else "one run: no interval" if len(one.good) == 1 else "no interval"


def cost_of_a_million(mine: Sequence[PointResults], costs: Costs) -> Card:
    """Return the cost of a million units of work of one system, such as tokens, at its cheapest point."""
    any_point = mine[0]
    title = any_point.system, "Cost", f"{costs.currency} per million {any_point.any.work_unit}"
    found = [pair for systems in cheapest(mine, costs).values() for pair in systems.values()]
    if not found:
        return Card(*title, UNKNOWN, why_not_costed(next((one for one in mine if one.good), any_point), costs))
    one, at = min(found, key=lambda pair: pair[1].total)
    each = 1e6 / costed_work(one).amount
    interval = at.estimate.interval if at.estimate else None
    note = f"{_share(one, interval.half if interval else None, at.total)}; electricity {rounded(each * at.electricity)}"
    return Card(*title, rounded(each * at.total), note)


def machine(first: Scored, mine: Sequence[PointResults], budget: Budget, costs: Costs | None) -> Iterator[Card]:
    """Return the size, the power and the cost of the machine that the budget allows of a system with these points."""
    if not first.devices or not (budget.devices or budget.money or budget.power_kw):
        return
    of = partial(Card, first.system)
    yield nodes(first.devices, mine, costs)
    total = first.total
    if costs is None or total is None:
        yield of("Purchase", "", UNKNOWN, "needs prices of the machines (--prices FILE)")
        return
    limit = f"of at most {_amount(budget.money)}" if budget.money else ""
    years = f"in {costs.lifetime_years:g} years"
    electricity = f"electricity {rounded(total.electricity) or UNKNOWN} {years}"
    in_all = f"total {rounded(total.total)}" if total.total else ""
    note = "; ".join(filter(None, [limit, electricity, in_all]))
    yield of("Purchase", costs.currency, _amount(total.purchase), note)
    if total.power_kw is None:
        yield of("Power", "kW at the supply", UNKNOWN, "no energy that counts for each workload")
        return
    note = f"of at most {rounded(budget.power_kw)}" if budget.power_kw else "while the machine works"
    yield of("Power", "kW at the supply", rounded(total.power_kw), note)


def nodes(devices: int, mine: Sequence[PointResults], costs: Costs | None) -> Card:
    """Return how many whole nodes a number of devices is; unknown where nothing states the size of a node."""
    of = partial(Card, mine[0].system, "Machine")
    price = costs.systems.get(mine[0].system) if costs else None
    spans_nodes = any((one.any.layout.num_nodes or 1) > 1 for one in mine)
    if not (price and price.devices_per_node) and not spans_nodes:
        return of("devices", f"{devices:,}", "whole nodes: state devices_per_node in the prices file")
    per_node = devices_per_node(mine, price)
    return of("nodes", f"{-(-devices // per_node):,}", f"{devices_text(devices)}, {per_node} in each node")


def _amount(money: float) -> str:
    """Return a price with all its digits: rounded, it could seem to reach the limit that it keeps."""
    return f"{money:,.0f}"
