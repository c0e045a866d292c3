"""How good a measurement is: a grade for where its energy was measured, and the rules it keeps or breaks, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jpwr.rules import MAX_GAP_S, MAX_MISSING, MIN_RATE_HZ, MIN_SAMPLES
from results.points.repeats import PointResults, unsteady
from results.records import Record
from results.values import value_at

GRADES = {
    "Q0": "estimate: modelled from load, no measurement",
    "Q1": "device: the accelerator's or processor's own sensor",
    "Q2": "node: the node's own or its management controller's sensor",
    "Q3": "supply: a meter in the supply line",
}
SAME_WINDOW = 0.01  # relative
MAX_DIFFERENCE = 0.05  # of counter and integral
MAX_UNCERTAINTY = 0.05  # of energy, of sampling
MAX_HELD_BACK = 0.01  # of the window, by whatever throttles a device
MIN_REPEATS = 3
IDLE_POWER = "idle power"  # of no rank: it is not in the energy of the work


class Rule(NamedTuple):
    """One rule, applied; `kept` is None where the record does not say."""

    name: str
    kept: bool | None
    words: str


def grade(record: Record, energy: str = "energy") -> str | None:
    """The grade of a record's energy, None where it has none."""
    found = record.get(energy)
    if not found:
        return None
    if found["power_kind"] == "estimated":
        return "Q0"
    return {"supply": "Q3", "node": "Q2"}.get(found["power_scope"], "Q1")


def energy_kind(record: Record) -> str | None:
    """Energies of one kind may be ranked with each other; those of two never are."""
    found = grade(record)
    if found is None:
        return None
    return ", ".join([found, *(["ESTIMATED"] if found == "Q0" else []), value_at(record, "energy.power_scope")])


def energy_rules(record: Record) -> list[Rule]:
    """The rules of an energy that counts, one by one; none for a record without energy."""
    energy = record.get("energy")
    if not energy or not energy["channels"]:
        return []
    channels, layout = energy["channels"], record["layout"]
    window_s = energy.get("window_s")
    samples = [channel["samples"] for channel in channels if channel.get("samples") is not None]
    rates = [count / window_s for count in samples] if window_s else []
    gaps = [channel["largest_gap_s"] for channel in channels if channel.get("largest_gap_s") is not None]
    missing = [
        channel["missing"] / max(1, channel["missing"] + channel["samples"])
        for channel in channels
        if channel.get("missing") is not None and channel.get("samples") is not None
    ]
    differences = [abs(one) for channel in channels if (one := channel.get("integral_vs_counter")) is not None]
    nodes = len({channel["hostname"] for channel in channels})
    rules = [
        _limit("sampling rate", rates, min, MIN_RATE_HZ, "{:.1f} samples/s of the slowest channel", at_least=True),
        _limit("samples", samples, min, MIN_SAMPLES, "{:.0f} samples of the slowest channel", at_least=True),
        _limit("gaps", gaps, max, MAX_GAP_S, "the longest time without a sample is {:.1f} s"),
        _limit("missing samples", missing, max, MAX_MISSING, "{:.1%} of the samples of the worst channel"),
        _same_window(record, window_s),
        Rule("all nodes", nodes == layout["num_nodes"], f"{nodes} of {layout['num_nodes']} nodes"),
        _all_devices(channels, layout["num_devices"]),
    ]
    if differences:
        rules.append(_limit("counter and integral", differences, max, MAX_DIFFERENCE, "they differ by {:.1%}"))
    energy_wh, uncertainty_wh = energy["energy_wh"], energy.get("uncertainty_wh")
    unsure = [uncertainty_wh / energy_wh] if energy_wh and uncertainty_wh is not None else []
    rules.append(_limit("interval", unsure, max, MAX_UNCERTAINTY, "±{:.1%} of the energy"))
    idle_w = energy.get("idle_power_w")
    rules.append(Rule(IDLE_POWER, idle_w is not None, "not known" if idle_w is None else f"{idle_w:.1f} W"))
    return rules


def why_not_ranked(results: PointResults) -> str:
    """What keeps a point's energy from being ranked or costed, in words; empty where nothing does."""
    for record in results.good:
        found = grade(record)
        if found is None:
            return "there is none"
        if found == "Q0":
            return "it is an estimate from load, and no measurement"
        for rule in energy_rules(record):
            if not rule.kept and rule.name != IDLE_POWER:
                return f"{rule.name}: {rule.words}"
    return ""


def _limit(name: str, values: Sequence[float], worst: Any, limit: float, words: str, at_least: bool = False) -> Rule:
    if not values:
        return Rule(name, None, "the record does not say")
    value = worst(values)
    bound = words[words.index("{") : words.index("}") + 1].format(limit)
    kept = value >= limit if at_least else value <= limit
    return Rule(name, kept, f"{words.format(value)}, {'at least' if at_least else 'at most'} {bound} wanted")


def _same_window(record: Record, window_s: float | None) -> Rule:
    work, speed = (value_at(record, f"metrics.{key}") for key in ("measured_{unit}", "{unit}_per_s"))
    if not (work and speed and window_s):
        return Rule("same window", None, "the record does not say")
    of_throughput_s = work / speed
    return Rule(
        "same window",
        math.isclose(of_throughput_s, window_s, rel_tol=SAME_WINDOW),
        f"throughput over {of_throughput_s:.2f} s, energy over {window_s:.2f} s",
    )


def _all_devices(channels: Sequence[dict[str, Any]], num_devices: int) -> Rule:
    if any(channel["scope"] != "device" for channel in channels):
        return Rule("all devices", True, f"the sensors are of scope {channels[0]['scope']}, which contains them")
    counted = sum(channel.get("num_devices") or 1 for channel in channels)
    words = f"{counted:g} of {num_devices} devices"
    if counted > num_devices:  # sensors without ids, such as IPUs', and cards of two devices
        words = f"the energy of {counted:g} devices is counted, {num_devices} trained"
    return Rule("all devices", counted == num_devices, words)


def deviations(results: PointResults) -> list[str]:
    """How the runs of a point deviate from the rules of a run that counts, in words."""
    found = []
    if results.good and len(results.good) < MIN_REPEATS:
        found.append(f"{_repeats(len(results.good))}, {MIN_REPEATS} wanted")
    if results.bad and results.good:
        found.append(f"{len(results.bad)} of {len(results.bad) + len(results.good)} runs failed")
    for record in results.good:
        origin = record.get("provenance") or {}
        found += unsteady([time_s for time_s in record.get("step_times_s", []) if time_s])
        found += [f"energy, {rule.name}: {rule.words}" for rule in energy_rules(record) if not rule.kept]
        found += _held_back(record)
        if grade(record) == "Q0":
            found.append("energy is an estimate")
        if value_at(record, "metrics.comparable") is False:
            found.append("not the workload of the comparison: smaller samples")
        found += _origin(origin)
    if len({energy_kind(record) for record in results.good}) > 1:
        found.append("its runs have energies of different kinds: there is none of the point")
    commits = {(record.get("provenance") or {}).get("git_commit") for record in results.good}
    if len(commits) > 1:
        found.append(f"its runs are of {len(commits)} versions of the code")
    return list(dict.fromkeys(found))


def _held_back(record: Record) -> list[str]:
    """What held clocks back for more than MAX_HELD_BACK of the window, by the device that it held back most."""
    worst: dict[str, float] = {}
    for channel in value_at(record, "energy.channels") or []:
        for reason, percent in ((channel.get("clocks") or {}).get("throttled") or {}).items():
            worst[reason] = max(worst.get(reason, 0.0), percent)
    return [
        f"throttled: {reason} held clocks back for {percent:.0f} % of the window"
        for reason, percent in worst.items()
        if percent > 100 * MAX_HELD_BACK
    ]


def _origin(origin: dict[str, Any]) -> list[str]:
    """What speaks against the code and the node of a run, or is not known of them."""
    changed = {"True": "the code had local changes", "False": ""}
    shared = {"no": "the node was shared with other jobs", "yes": ""}
    return [
        words
        for words in (
            "" if origin.get("git_commit") else "the version of the code is not known",
            changed.get(str(origin.get("git_dirty")), "whether the code had local changes is not known"),
            shared.get(str(origin.get("exclusive")), "nothing kept other jobs off the node, as far as is known"),
        )
        if words
    ]


def _repeats(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"
