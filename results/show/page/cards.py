"""Cards of the first screen: the key figures of one system, and the machine that the budget allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from results.points.repeats import PointResults
from results.points.sensors import accuracy_text
from results.record.values import PER_DEVICE, WORK, devices_text, rounded
from results.show.page.columns import percent, power_per_device_w
from results.verdicts.cost import Costs
from results.verdicts.quality import GRADES, grade
from results.verdicts.requirements import Budget
from results.verdicts.scale import devices_per_node
from results.verdicts.score import Scored

UNKNOWN = "unknown"


class Card(NamedTuple):
    """One key figure; `note` is its uncertainty, or why it is unknown."""

    name: str
    unit: str
    value: str
    note: str


def figures(speed: PointResults, work: PointResults | None) -> Iterator[Card]:
    """Return the key figures of one system, at its fastest point and at its most efficient one."""
    unit = str(speed.any["work_unit"])
    yield Card("Speed", f"{unit}/s/device", rounded(speed.value(PER_DEVICE)), _interval(speed, PER_DEVICE))
    if work:
        accuracy = accuracy_text(work.any)
        sensor = f"sensor {accuracy}" if accuracy.startswith("±") else f"sensor accuracy {accuracy}"
        yield Card("Efficiency", f"{unit}/Wh", rounded(work.value(WORK)), f"{_interval(work, WORK)}; {sensor}")
        yield Card("Power", "W/device", rounded(power_per_device_w(work)), "mean of the window")
    else:
        yield Card("Efficiency", f"{unit}/Wh", UNKNOWN, "no run has an energy")
    mfu, tflops = speed.value("metrics.mfu"), speed.value("metrics.tflops_per_device")
    if mfu and tflops:
        note = f"{rounded(tflops)} of {rounded(tflops / mfu)} TFLOP/s"
        yield Card("MFU", "% of peak", f"{100 * mfu:.3g}", note)
    elif not speed.any.get("serving"):
        yield Card("MFU", "% of peak", UNKNOWN, "the peak of this device is not known")
    yield Card("Repeats", "runs", str(len(speed.good)), f"at {speed.point.place}")
    found = grade(work.any) if work else None
    yield Card(
        "Energy grade", "", found or "none", GRADES[found].partition(":")[0] if found else "no run has an energy"
    )


def _interval(one: PointResults, path: str) -> str:
    share = percent(one.half_width(path), one.value(path))
    return f"± {share} %" if share else "one run: no interval" if len(one.good) == 1 else "no interval"


def machine(first: Scored, mine: Sequence[PointResults], budget: Budget, costs: Costs | None) -> Iterator[Card]:
    """Return the size, the power and the cost of the machine that the budget allows of a system with these points."""
    if not first.devices or not (budget.devices or budget.racks or budget.money or budget.power_kw):
        return
    yield nodes(first.devices, mine, costs)
    total = first.total
    if costs is None or total is None:
        yield Card("Total cost", "", UNKNOWN, "needs prices of the machines (--prices FILE)")
        return
    if total.power_kw is None or total.total is None or total.electricity is None:
        yield Card("Power", "kW at the supply", UNKNOWN, "no energy that counts for each workload")
        yield Card("Total cost", costs.currency, UNKNOWN, f"purchase {money(total.purchase)}; electricity {UNKNOWN}")
        return
    limit = f"of at most {rounded(budget.power_kw)}" if budget.power_kw else "while the machine works"
    yield Card("Power", "kW at the supply", rounded(total.power_kw), limit)
    of_money = f" of at most {money(budget.money)}" if budget.money else ""
    in_all = budget.money_covers == "ownership"
    parts = f"purchase {money(total.purchase)}{'' if in_all else of_money}"
    parts += f", electricity {money(total.electricity)} in {costs.lifetime_years:g} years{of_money if in_all else ''}"
    yield Card("Total cost", costs.currency, money(total.total), parts)


def nodes(devices: int, mine: Sequence[PointResults], costs: Costs | None) -> Card:
    """Return how many whole nodes a number of devices is; unknown where nothing states the size of a node."""
    price = costs.systems.get(mine[0].system) if costs else None
    spans_nodes = any(one.any["layout"]["num_nodes"] > 1 for one in mine)
    if not (price and price.devices_per_node) and not spans_nodes:
        return Card("Machine", "devices", f"{devices:,}", "whole nodes: state devices_per_node in the prices file")
    per_node = devices_per_node(mine, price)
    return Card("Machine", "nodes", f"{-(-devices // per_node):,}", f"{devices_text(devices)}, {per_node} in each node")


def money(amount: float) -> str:
    """Return an amount of money with three or four digits, in millions where it is as many."""
    return f"{amount / 1e6:,.3g} M" if amount >= 1e6 else rounded(amount)
