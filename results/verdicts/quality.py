"""Quality of a measurement: a grade by the place of its power sensor, and the rules that it meets or breaks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from jpwr.report.rules import MAX_GAP_S, MAX_MISSING, MIN_RATE_HZ, MIN_SAMPLES
from results.points.repeats import PointResults, step_times_s, unsteady
from results.points.sensors import accuracy_text, sampling_share
from results.record.checks.energy import busier_elsewhere
from results.record.checks.run import INNER
from results.record.parts import sensor_channels, total_s, windows_of
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
MAX_DIFFERENCE = 0.05  # relative, between counter and integral
MAX_UNCERTAINTY = 0.05  # relative half-width of the energy by sampling
MAX_THROTTLED = 0.01  # share of the window, by any one reason
MAX_IDLE_SHARE = 0.9  # idle power over the power in the window
MOST_UNLIKE = 2.0  # ratio of two devices' energies: all do the same work; an idle H200 takes an eighth of a busy one
MIN_REPEATS = 3
# 50 samples at the default interval; boost clocks and caches make a shorter window faster than a long run.
MIN_WINDOW_S = 5.0
MAX_LOSS_DIFFERENCE = 0.01  # relative, of fp8 to bf16: about ten times what runs of either differ by
MIN_COMPARED_STEPS = 20
QUOTA = "CPU quota"
STATED = ("data sheet", "documentation")  # sources of an accuracy that the vendor states
IDLE_POWER = "idle power"  # does not affect ranking, as it is not part of the energy of the work


class Rule(NamedTuple):
    """Result of one rule; `kept` is None if the record lacks the data."""

    name: str
    kept: bool | None
    words: str


def grade(record: Record, energy: str = "energy") -> str | None:
    """Return the grade of a record's energy; None without an energy."""
    values = record.get(energy)
    if not values:
        return None
    if values["power_kind"] == "estimated":
        return ESTIMATE
    return {"supply": "Q3", "node": "Q2"}.get(values["power_scope"], "Q1")


def energy_kind(record: Record) -> str | None:
    """Return the kind of a record's energy; only energies of one kind may be ranked with each other."""
    letter = grade(record)
    if letter is None:
        return None
    return ", ".join([letter, *(["ESTIMATED"] if letter == ESTIMATE else []), value_at(record, "energy.power_scope")])


def energy_rules(record: Record, key: str = "energy") -> list[Rule]:
    """Return the result of each rule on an energy; empty for a record without it."""
    energy = record.get(key)
    if not energy:
        return []
    channels, layout = energy["channels"], record["layout"]
    window_s = energy.get("window_s")
    samples, lost, gaps = (_of_all(channels, name) for name in ("samples", "missing", "largest_gap_s"))
    rates = [number / window_s for number in samples] if window_s else []
    missing = [one / max(1, one + read) for one, read in zip(lost, samples, strict=False)]
    differences = [abs(one) for channel in channels if (one := channel.get("integral_vs_counter")) is not None]
    nodes = len({channel["hostname"] for channel in channels})
    rules = [
        _limit("sampling rate", rates, min, MIN_RATE_HZ, "{:.1f} samples/s of the slowest channel", at_least=True),
        _limit("samples", samples, min, MIN_SAMPLES, "{:.0f} samples of the slowest channel", at_least=True),
        _limit("gaps", gaps, max, MAX_GAP_S, "the longest time without a sample is {:.1f} s"),
        _limit("missing samples", missing, max, MAX_MISSING, "{:.1%} of the samples of the worst channel"),
        _same_window(record, window_s, "measured" if key == "energy" else "effective"),
        Rule("all nodes", nodes == layout["num_nodes"], f"{nodes} of {layout['num_nodes']} nodes"),
        _all_devices(record, channels),
    ]
    if differences:
        rules.append(_limit("counter and integral", differences, max, MAX_DIFFERENCE, "they differ by {:.1%}"))
    inside = [one for one in channels if one["scope"] in INNER and one["energy_wh"]]
    used_wh = [one["energy_wh"] / (one.get("num_devices") or 1) for one in inside]
    if len(used_wh) > 1:
        unlike = [max(used_wh) / min(used_wh)]
        rules.append(_limit("devices alike", unlike, max, MOST_UNLIKE, "one used {:.1f} times the energy of another"))
    if words := busier_elsewhere(energy):
        rules.append(Rule("window of the work", False, words))
    share = sampling_share(record, key)
    rules.append(_limit("interval", [] if share is None else [share], max, MAX_UNCERTAINTY, "±{:.1%} of the energy"))
    rules.append(_idle_power(energy.get("idle_power_w"), energy.get("avg_power_w")))
    return rules


def _idle_power(idle_w: float | None, power_w: float | None) -> Rule:
    if idle_w is None:
        return Rule(IDLE_POWER, False, "not known")
    if power_w and idle_w > MAX_IDLE_SHARE * power_w:
        why = "little of it is for the work, or the devices were busy before"
        return Rule(IDLE_POWER, False, f"{idle_w:.1f} W, compared with {power_w:.1f} W in the window: {why}")
    return Rule(IDLE_POWER, True, f"{idle_w:.1f} W")


def why_not_ranked(results: PointResults, energy: str = "energy") -> str:
    """Return the reason why a point's energy is not ranked or costed; empty if it is."""
    for record in results.good:
        kind = grade(record, energy)
        if kind is None:
            return "there is none"
        if kind == ESTIMATE:
            return "it is an estimate from load, and no measurement"
        for rule in energy_rules(record, energy):
            if not rule.kept and rule.name != IDLE_POWER:
                return f"{rule.name}: {rule.words}"
    return ""


def _of_all(channels: Sequence[dict[str, Any]], key: str) -> list[float]:
    """Return a value of each channel; empty if one of them lacks it."""
    values = [channel.get(key) for channel in channels]
    return [value for value in values if value is not None] if None not in values else []


def _limit(name: str, values: Sequence[float], worst: Any, limit: float, words: str, at_least: bool = False) -> Rule:
    if not values:
        return Rule(name, None, "the record lacks the data")
    value = worst(values)
    bound = words[words.index("{") : words.index("}") + 1].format(limit)
    kept = value >= limit if at_least else value <= limit
    return Rule(name, kept, f"{words.format(value)}, {'at least' if at_least else 'at most'} {bound} wanted")


def _same_window(record: Record, window_s: float | None, kind: str) -> Rule:
    speed_of = "" if kind == "measured" else f"{kind}_"
    work, speed = (value_at(record, f"metrics.{key}") for key in (f"{kind}_{{unit}}", f"{speed_of}{{unit}}_per_s"))
    if not (work and speed and window_s):
        return Rule("same window", None, "the record lacks the data")
    throughput_s = work / speed
    nodes_s = [total_s(windows) for windows in windows_of(record, kind).values()]
    shortest_s, most_s = min(nodes_s, default=0.0), max(nodes_s, default=0.0)
    words = f"throughput over {throughput_s:.2f} s, energy over {window_s:.2f} s"
    if not math.isclose(shortest_s, most_s, rel_tol=SAME_WINDOW):
        return Rule("same window", False, f"{words}, on one node {shortest_s:.2f} s and on another {most_s:.2f} s")
    return Rule("same window", math.isclose(throughput_s, window_s, rel_tol=SAME_WINDOW), words)


def _all_devices(record: Record, channels: Sequence[dict[str, Any]]) -> Rule:
    """Check that the energy is that of exactly the devices that trained; an energy of a whole node contains them."""
    name, num_devices = "all devices", record["layout"]["num_devices"]
    scopes = {channel["scope"] for channel in channels}
    if scopes <= {"cpu", "dram"} and scopes:
        if "cpu" not in scopes:
            return Rule(name, False, "the energy is of memory alone")
        words = {
            None: "whether the processors or accelerators trained is not known",
            True: "accelerators trained, and the energy is of processors alone",
            False: "the processors trained",
        }
        accelerated = is_accelerated(record)
        return Rule(name, None if accelerated is None else not accelerated, words[accelerated])
    if len(scopes) > 1:
        return Rule(name, False, f"the sensors have different scopes: {', '.join(sorted(scopes))}")
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
    """Return a sentence if the shortest window in which the value at a path was measured is too short; else empty."""
    kind = "effective" if "effective" in path else "measured"
    times_s = [time_s for record in results.good if (time_s := value_at(record, f"metrics.{kind}_s"))]
    shortest_s = min(times_s, default=math.inf)
    return f"its window is {shortest_s:.2g} s, at least {MIN_WINDOW_S:g} s wanted" if shortest_s < MIN_WINDOW_S else ""


def deviations(results: PointResults, with_energy: bool = True) -> list[str]:
    """Return the deviations of a point's runs from the rules, as sentences."""
    sentences = list(filter(None, [window_too_short(results)]))
    if results.good and len(results.good) < MIN_REPEATS:
        sentences.append(f"{count(len(results.good), 'run')}, {MIN_REPEATS} wanted")
    if results.bad and results.good:
        sentences.append(f"{len(results.bad)} of {len(results.bad) + len(results.good)} runs failed")
    for record in results.good:
        origin = record.get("provenance") or {}
        served = record.get("serving") or {}
        sentences += served.get("notes", []) if served else unsteady(step_times_s(record))
        sentences += _throttled(record)
        if with_energy:
            sentences += [f"energy, {rule.name}: {rule.words}" for rule in energy_rules(record) if not rule.kept]
            if grade(record) == ESTIMATE:
                sentences.append("energy is an estimate")
            elif record.get("energy") and record["energy"].get("accuracy_from") not in STATED:
                sentences.append(f"energy, accuracy of the sensor: {accuracy_text(record)}")
        if value_at(record, "metrics.comparable") is False:
            sentences.append("not the workload of the comparison: smaller samples")
        sentences += _rising(record)
        sentences += _origin(origin)
    if with_energy and len({energy_kind(record) for record in results.good}) > 1:
        sentences.append("its runs have energies of different kinds: the point has none")
    commits = {(record.get("provenance") or {}).get("git_commit") for record in results.good}
    if len(commits) > 1:
        sentences.append(f"its runs are of {len(commits)} versions of the code")
    return list(dict.fromkeys(sentences))


def _throttled(record: Record) -> list[str]:
    """Return the throttle reasons active for more than MAX_THROTTLED of the window, each on its most affected device.

    Also reports an accelerator whose sensor does not record throttling.
    """
    worst: dict[str, float] = {QUOTA: value_at(record, "metrics.cpu_throttled_percent") or 0.0}
    by_channel = [(channel.get("clocks") or {}).get("throttled") for channel in sensor_channels(record)]
    for throttled in by_channel:
        for reason, percent in (throttled or {}).items():
            worst[reason] = max(worst.get(reason, 0.0), percent)
    is_unknown = bool(is_accelerated(record)) and None in by_channel
    unknown = ["throttling of clocks is not known"] * is_unknown
    return unknown + [
        f"throttled: {reason} held {'threads' if reason == QUOTA else 'clocks'} back for {percent:.0f} % of the window"
        for reason, percent in worst.items()
        if percent > 100 * MAX_THROTTLED
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
            shared.get(str(origin.get("exclusive")), "exclusive use of the node is not known"),
        )
        if words
    ]


def not_work_of_bf16(one: PointResults, results: Sequence[PointResults]) -> str:
    """Return why a point in a narrower precision is not the same work as in bf16; empty if it is.

    It is where, over the same steps on the same data, its mean loss in the last quarter is within MAX_LOSS_DIFFERENCE
    of that in bf16.
    """
    in_bf16 = (other for other in results if other.good and other.precision == "bf16" and other.point == one.point)
    reference = next(in_bf16, None)
    if reference is None:
        return "there is no good run of this point in bf16 to compare its losses with"
    ours, theirs = (side.any.get("losses") or [] for side in (one, reference))
    steps = min(len(ours), len(theirs))
    if steps < MIN_COMPARED_STEPS:
        return f"its losses can be compared with those in bf16 over {steps} steps only, {MIN_COMPARED_STEPS} wanted"
    for name, path in (("options of training", "config.training"), ("data", "provenance.data")):
        if value_at(one.any, path) != value_at(reference.any, path):
            return f"its {name} are not those of the runs in bf16"
    quarter = slice(steps - steps // 4, steps)
    difference = math.fsum(ours[quarter]) / math.fsum(theirs[quarter]) - 1
    if not abs(difference) <= MAX_LOSS_DIFFERENCE:
        most = f"at most {100 * MAX_LOSS_DIFFERENCE:g} %"
        return f"its loss differs by {100 * difference:+.1f} % from that in bf16, {most}"
    return ""
