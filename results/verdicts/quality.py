"""How good a measurement is: a grade for where its energy was measured, and the rules it keeps or breaks, in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from jpwr.report.rules import MAX_GAP_S, MAX_MISSING, MIN_RATE_HZ, MIN_SAMPLES
from results.points.repeats import PointResults, step_times_s, unsteady
from results.points.sensors import accuracy_text, sampling_share
from results.record.checks.energy import busier_elsewhere
from results.record.checks.run import INSIDE
from results.record.parts import total_s, windows_of
from results.record.records import Record
from results.record.values import count, is_accelerated, value_at

ESTIMATE = "Q0"
GRADES = {
    ESTIMATE: "estimate: modelled from load, no measurement",
    "Q1": "device: the accelerator's or processor's own sensor",
    "Q2": "node: the node's own or its management controller's sensor",
    "Q3": "supply: a meter in the supply line",
}
SAME_WINDOW = 0.01  # relative
MAX_DIFFERENCE = 0.05  # of counter and integral
MAX_UNCERTAINTY = 0.05  # of energy, of sampling
MAX_HELD_BACK = 0.01  # of the window, by whatever throttles a device
MAX_IDLE_SHARE = 0.9  # of the window's power
MOST_UNLIKE = 2.0  # times the power of another device: all do the same work; an idle H200 takes an eighth of a busy one
MIN_REPEATS = 3
# 50 samples at the usual interval. A shorter window is a burst, which boost clocks and caches flatter.
MIN_WINDOW_S = 5.0
QUOTA = "CPU quota"
STATED = ("data sheet", "documentation")  # of an accuracy, by the vendor
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
        return ESTIMATE
    return {"supply": "Q3", "node": "Q2"}.get(found["power_scope"], "Q1")


def energy_kind(record: Record) -> str | None:
    """Energies of one kind may be ranked with each other; those of two never are."""
    found = grade(record)
    if found is None:
        return None
    return ", ".join([found, *(["ESTIMATED"] if found == ESTIMATE else []), value_at(record, "energy.power_scope")])


def energy_rules(record: Record, of: str = "energy") -> list[Rule]:
    """The rules of an energy that counts, one by one; none for a record without it."""
    energy = record.get(of)
    if not energy:
        return []
    channels, layout = energy["channels"], record["layout"]
    window_s = energy.get("window_s")
    samples, lost, gaps = (_of_all(channels, key) for key in ("samples", "missing", "largest_gap_s"))
    rates = [number / window_s for number in samples] if window_s else []
    missing = [one / max(1, one + there) for one, there in zip(lost, samples, strict=False)]
    differences = [abs(one) for channel in channels if (one := channel.get("integral_vs_counter")) is not None]
    nodes = len({channel["hostname"] for channel in channels})
    rules = [
        _limit("sampling rate", rates, min, MIN_RATE_HZ, "{:.1f} samples/s of the slowest channel", at_least=True),
        _limit("samples", samples, min, MIN_SAMPLES, "{:.0f} samples of the slowest channel", at_least=True),
        _limit("gaps", gaps, max, MAX_GAP_S, "the longest time without a sample is {:.1f} s"),
        _limit("missing samples", missing, max, MAX_MISSING, "{:.1%} of the samples of the worst channel"),
        _same_window(record, window_s, "measured" if of == "energy" else "effective"),
        Rule("all nodes", nodes == layout["num_nodes"], f"{nodes} of {layout['num_nodes']} nodes"),
        _all_devices(record, channels),
    ]
    if differences:
        rules.append(_limit("counter and integral", differences, max, MAX_DIFFERENCE, "they differ by {:.1%}"))
    inside = [one for one in channels if one["scope"] in INSIDE and one["energy_wh"]]
    used_wh = [one["energy_wh"] / (one.get("num_devices") or 1) for one in inside]
    if len(used_wh) > 1:
        unlike = [max(used_wh) / min(used_wh)]
        rules.append(_limit("devices alike", unlike, max, MOST_UNLIKE, "one took {:.1f} times the power of another"))
    if words := busier_elsewhere(energy):
        rules.append(Rule("window of the work", False, words))
    share = sampling_share(record, of)
    rules.append(_limit("interval", [] if share is None else [share], max, MAX_UNCERTAINTY, "±{:.1%} of the energy"))
    rules.append(_idle_power(energy.get("idle_power_w"), energy.get("avg_power_w")))
    return rules


def _idle_power(idle_w: float | None, power_w: float | None) -> Rule:
    if idle_w is None:
        return Rule(IDLE_POWER, False, "not known")
    if power_w and idle_w > MAX_IDLE_SHARE * power_w:
        why = "little of it is for the work, or the devices were at work before"
        return Rule(IDLE_POWER, False, f"{idle_w:.1f} W, beside {power_w:.1f} W in the window: {why}")
    return Rule(IDLE_POWER, True, f"{idle_w:.1f} W")


def why_not_ranked(results: PointResults, energy: str = "energy") -> str:
    """Return the reason why a point's energy is not ranked or costed, in words; empty if it is."""
    for record in results.good:
        found = grade(record, energy)
        if found is None:
            return "there is none"
        if found == ESTIMATE:
            return "it is an estimate from load, and no measurement"
        for rule in energy_rules(record, energy):
            if not rule.kept and rule.name != IDLE_POWER:
                return f"{rule.name}: {rule.words}"
    return ""


def _of_all(channels: Sequence[dict[str, Any]], key: str) -> list[float]:
    """A value of each channel; none where one of them does not have it."""
    found = [channel.get(key) for channel in channels]
    return [value for value in found if value is not None] if None not in found else []


def _limit(name: str, values: Sequence[float], worst: Any, limit: float, words: str, at_least: bool = False) -> Rule:
    if not values:
        return Rule(name, None, "the record does not say")
    value = worst(values)
    bound = words[words.index("{") : words.index("}") + 1].format(limit)
    kept = value >= limit if at_least else value <= limit
    return Rule(name, kept, f"{words.format(value)}, {'at least' if at_least else 'at most'} {bound} wanted")


def _same_window(record: Record, window_s: float | None, kind: str) -> Rule:
    speed_of = "" if kind == "measured" else f"{kind}_"
    work, speed = (value_at(record, f"metrics.{key}") for key in (f"{kind}_{{unit}}", f"{speed_of}{{unit}}_per_s"))
    if not (work and speed and window_s):
        return Rule("same window", None, "the record does not say")
    of_throughput_s = work / speed
    of_nodes_s = [total_s(windows) for windows in windows_of(record, kind).values()]
    shortest_s, most_s = min(of_nodes_s, default=0.0), max(of_nodes_s, default=0.0)
    words = f"throughput over {of_throughput_s:.2f} s, energy over {window_s:.2f} s"
    if not math.isclose(shortest_s, most_s, rel_tol=SAME_WINDOW):
        return Rule("same window", False, f"{words}, on one node {shortest_s:.2f} s and on another {most_s:.2f} s")
    return Rule("same window", math.isclose(of_throughput_s, window_s, rel_tol=SAME_WINDOW), words)


def _all_devices(record: Record, channels: Sequence[dict[str, Any]]) -> Rule:
    """Is the energy that of each device which trained, and of no other? Of a whole node, that is not asked."""
    name, num_devices = "all devices", record["layout"]["num_devices"]
    scopes = {channel["scope"] for channel in channels}
    if scopes <= {"cpu", "dram"} and scopes:
        if "cpu" not in scopes:
            return Rule(name, False, "the energy is of memory alone")
        told = {
            None: "whether the processors or accelerators trained is not known",
            True: "accelerators trained, and the energy is of processors alone",
            False: "the processors trained",
        }
        accelerated = is_accelerated(record)
        return Rule(name, None if accelerated is None else not accelerated, told[accelerated])
    if len(scopes) > 1:
        return Rule(name, False, f"the sensors are of unlike scopes: {', '.join(sorted(scopes))}")
    if scopes & {"node", "supply"}:
        return Rule(name, True, f"the sensors are of scope {scopes.pop()}, which contains them")
    counted = Counter[str]()
    for channel in channels:
        counted[channel["hostname"]] += channel.get("num_devices") or 1
    if counted.total() > num_devices:  # sensors without ids, such as IPUs', and cards of two devices
        return Rule(name, False, f"the energy of {counted.total()} devices is counted, {num_devices} trained")
    trained = Counter(device.get("hostname") for device in record.get("devices") or [])
    if counted.total() == num_devices == trained.total() and counted != trained:
        known = ", ".join(f"{counted[host]} of {number} devices of {host}" for host, number in sorted(trained.items()))
        return Rule(name, False, known)
    return Rule(name, counted.total() == num_devices, f"{counted.total()} of {num_devices} devices")


def window_too_short(results: PointResults, path: str = "") -> str:
    """Say that the shortest window of a point's runs, in which the value at a path was measured, is too short."""
    kind = "effective" if "effective" in path else "measured"
    times_s = [time_s for record in results.good if (time_s := value_at(record, f"metrics.{kind}_s"))]
    shortest_s = min(times_s, default=math.inf)
    return f"its window is {shortest_s:.2g} s, at least {MIN_WINDOW_S:g} s wanted" if shortest_s < MIN_WINDOW_S else ""


def deviations(results: PointResults, with_energy: bool = True) -> list[str]:
    """How the runs of a point deviate from the rules of a run that counts, in words."""
    found = list(filter(None, [window_too_short(results)]))
    if results.good and len(results.good) < MIN_REPEATS:
        found.append(f"{count(len(results.good), 'run')}, {MIN_REPEATS} wanted")
    if results.bad and results.good:
        found.append(f"{len(results.bad)} of {len(results.bad) + len(results.good)} runs failed")
    for record in results.good:
        origin = record.get("provenance") or {}
        found += unsteady(step_times_s(record))
        found += _held_back(record)
        if with_energy:
            found += [f"energy, {rule.name}: {rule.words}" for rule in energy_rules(record) if not rule.kept]
            if grade(record) == ESTIMATE:
                found.append("energy is an estimate")
            elif record.get("energy") and record["energy"].get("accuracy_from") not in STATED:
                found.append(f"energy, accuracy of the sensor: {accuracy_text(record)}")
        if value_at(record, "metrics.comparable") is False:
            found.append("not the workload of the comparison: smaller samples")
        found += _rising(record)
        found += _origin(origin)
    if with_energy and len({energy_kind(record) for record in results.good}) > 1:
        found.append("its runs have energies of different kinds: there is none of the point")
    commits = {(record.get("provenance") or {}).get("git_commit") for record in results.good}
    if len(commits) > 1:
        found.append(f"its runs are of {len(commits)} versions of the code")
    return list(dict.fromkeys(found))


def _held_back(record: Record) -> list[str]:
    """Return the throttle reasons active for more than MAX_HELD_BACK of the window, each on its most affected device.

    Also reports an accelerator whose sensor does not record throttling.
    """
    worst: dict[str, float] = {QUOTA: value_at(record, "metrics.cpu_throttled_percent") or 0.0}
    of_channels = [
        (channel.get("clocks") or {}).get("throttled") for channel in value_at(record, "energy.channels") or []
    ]
    for throttled in of_channels:
        for reason, percent in (throttled or {}).items():
            worst[reason] = max(worst.get(reason, 0.0), percent)
    is_untold = bool(is_accelerated(record)) and None in of_channels
    unknown = ["whether something held clocks back is not known"] * is_untold
    return unknown + [
        f"throttled: {reason} held {'threads' if reason == QUOTA else 'clocks'} back for {percent:.0f} % of the window"
        for reason, percent in worst.items()
        if percent > 100 * MAX_HELD_BACK
    ]


def _rising(record: Record) -> list[str]:
    """Report a loss that is higher over the last quarter of the steps than over the first."""
    losses = [loss for loss in record.get("losses") or [] if loss is not None]
    quarter = max(1, len(losses) // 4)
    first, last = (math.fsum(part) / quarter for part in (losses[:quarter], losses[-quarter:]))
    return [f"the loss rises over the run, from {first:.4g} to {last:.4g}"] if last > first else []


def _origin(origin: dict[str, Any]) -> list[str]:
    """Return the deviations of a run's code and node, and the unknown facts about them."""
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
