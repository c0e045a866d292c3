"""Quality of a measurement: a grade by the place of its power sensor, and the rules that it meets or breaks."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from record.arithmetic import ratio
from record.checks.energy import INNER, busier_elsewhere
from record.findings import Finding, finding
from record.model import Channel, Provenance
from record.values import is_accelerated, once, value_at
from results.find.duplicates import Repeated
from results.find.records import Record
from results.points.judged import shown_by
from results.points.repeats import PointResults, unsteady

# After the Green500 (EE HPC Working Group, level 1), for the length of the run.
MIN_RATE_HZ = 0.9  # one per second, less some for random moments and a window's edges
MIN_SAMPLES = 60
MAX_GAP_S = 2.0
MAX_MISSING = 0.01  # share of a channel's readings; our own rule
STATED = ("data sheet", "documentation")  # sources of an accuracy that the vendor states
ESTIMATE = "Q0"
GRADES = {
    ESTIMATE: "estimate: modelled from load, no measurement",
    "Q1": "device: the accelerator's or processor's own sensor",
    "Q2": "node: the node's own or its management controller's sensor",
    "Q3": "supply: a meter in the supply line",
}
GRADES_OF_SCOPES = {"supply": "Q3", "node": "Q2"}  # else Q1
MAX_DIFFERENCE = 0.05  # relative, between counter and integral
MAX_UNCERTAINTY = 0.05  # relative half-width of the energy by sampling
MAX_THROTTLED = 0.01  # share of the window, by any one reason
MAX_IDLE_SHARE = 0.9  # idle power over the power in the window
MOST_UNLIKE = 2.0  # ratio of two devices' energies: all do the same work; an idle H200 takes an eighth of a busy one
MIN_REPEATS = 3
# 50 samples at the default interval; boost clocks and caches make a shorter window faster than a long run.
MIN_WINDOW_S = 5.0
FEWEST_LOSSES = 8  # at each end, with fewer of which chance alone makes 1 in 1,000 flat losses rise
RISE_P_VALUE, RISING_PAIRS = 2e-4, 0.98
IDLE_POWER = "idle power"  # does not affect ranking, as it is not part of the energy of the work


class Rule(NamedTuple):
    """Result of one rule; `kept` is None if the record lacks the data."""

    kept: bool | None
    finding: Finding


def grade(record: Record) -> str | None:
    """Return the grade of a record's energy; None without an energy."""
    energy = record.energy
    if not energy:
        return None
    return ESTIMATE if energy.power_kind == "estimated" else GRADES_OF_SCOPES.get(energy.power_scope, "Q1")


def energy_kind(record: Record) -> str | None:
    """Return the kind of a record's energy; only energies of one kind may be ranked with each other."""
    if not record.energy:
        return None
    letter, scope = grade(record), record.energy.power_scope
    return f"{letter}, ESTIMATED, {scope}" if letter == ESTIMATE else f"{letter}, {scope}"


def accuracy_text(record: Record) -> str:
    """Return the accuracy of the energy's sensor with its source, as text."""
    energy = record.energy
    return f"±{100 * energy.accuracy:.2g} % ({energy.accuracy_from})" if energy and energy.accuracy else "not stated"


@once
def energy_rules(record: Record) -> list[Rule]:
    """Return the result of each rule on an energy; empty for a record without it."""
    energy = record.energy
    if not energy:
        return []
    channels, window_s = energy.channels, energy.window_s
    samples, lost, gaps = (_of_all(channels, name) for name in ("samples", "missing", "largest_gap_s"))
    rates = [number / window_s for number in samples] if window_s else []
    missing = [one / max(1, one + read) for one, read in zip(lost, samples, strict=False)]
    differences = [abs(one) for channel in channels if (one := channel.integral_vs_counter) is not None]
    rules = [
        _within("sampling_rate", rates, least=MIN_RATE_HZ),
        _within("samples", samples, least=MIN_SAMPLES),
        _within("gaps", gaps, most=MAX_GAP_S),
        _within("missing_samples", missing, most=MAX_MISSING),
        _all_devices(record, channels),
    ]
    if differences:
        rules.append(_within("counter_and_integral", differences, most=MAX_DIFFERENCE))
    inside = [one for one in channels if one.scope in INNER and one.energy_wh]
    used_wh = [(one.energy_wh or 0.0) / (one.num_devices or 1) for one in inside]
    if len(used_wh) > 1:
        rules.append(_within("devices_alike", [max(used_wh) / min(used_wh)], most=MOST_UNLIKE))
    if busier := busier_elsewhere(energy):
        rules.append(Rule(False, busier))
    share = ratio(energy.uncertainty_wh, energy.energy_wh)
    rules.append(_within("interval", [] if share is None else [share], most=MAX_UNCERTAINTY))
    idle_w, power_w = energy.idle_power_w, energy.avg_power_w
    if idle_w is None:
        return [*rules, Rule(False, finding("idle_power"))]
    if power_w and idle_w > MAX_IDLE_SHARE * power_w:
        return [*rules, Rule(False, finding("idle_high", idle_w=idle_w, power_w=power_w))]
    return [*rules, Rule(True, finding("idle_power", idle_w=idle_w))]


def why_not_ranked(results: PointResults) -> Finding | None:
    """Return the reason why a point's energy is not ranked or costed; None if it is."""
    for record in results.good:
        kind = grade(record)
        if kind is None:
            return finding("no_energy", why="there is none")
        if kind == ESTIMATE:
            return finding("is_estimate")
        for rule in energy_rules(record):
            if not rule.kept and rule.finding.topic != IDLE_POWER:
                return rule.finding
    return None


def _of_all(channels: Sequence[Channel], key: str) -> list[float]:
    """Return a value of each channel; empty if one of them lacks it."""
    values = [channel.number(key) for channel in channels]
    return [value for value in values if value is not None] if None not in values else []


def _within(kind: str, values: Sequence[float], least: float = -math.inf, most: float = math.inf) -> Rule:
    """Return the rule that the worst of some values is within a limit, the least or the most that is allowed."""
    if not values:
        return Rule(None, finding(kind))
    value, limit = (max(values), most) if math.isfinite(most) else (min(values), least)
    return Rule(least <= value <= most, finding(kind, value=value, limit=limit))


def _all_devices(record: Record, channels: Sequence[Channel]) -> Rule:
    """Check that the energy is that of exactly the devices that trained; an energy of a whole node contains them."""
    scopes, num_devices = {channel.scope for channel in channels}, record.layout.num_devices or 0
    nodes, num_nodes = len({channel.hostname for channel in channels}), record.layout.num_nodes
    known = f"the sensors are of scope {' and '.join(sorted(scopes))}"
    if nodes != num_nodes:
        is_all, known = False, f"{nodes} of {num_nodes} nodes"
    elif scopes <= {"cpu", "dram"}:
        accelerated = is_accelerated(record)
        if accelerated is None:
            return Rule(None, finding("all_devices"))
        is_all = "cpu" in scopes and not accelerated
        known += ", and accelerators trained" if accelerated else ", and processors trained"
    elif len(scopes) > 1:
        is_all, known = False, f"the sensors have different scopes: {', '.join(sorted(scopes))}"
    elif scopes & {"node", "supply"}:
        is_all = True
    else:
        counted = Counter[str]()
        for channel in channels:
            counted[channel.hostname] += int(channel.num_devices or 1)
        trained = Counter(device.hostname for device in record.devices)
        is_all, known = counted.total() == num_devices, f"{counted.total()} of {num_devices} devices"
        if counted.total() > num_devices:  # sensors without ids, such as IPUs', and cards of two devices
            known = f"the energy of {counted.total()} devices is counted, {num_devices} trained"
        elif trained.total() == num_devices and counted != trained:
            is_all, of_nodes = False, sorted(trained.items())
            known = ", ".join(f"{counted[host]} of {number} devices of {host}" for host, number in of_nodes)
    return Rule(is_all, finding("all_devices", known=known))


def window_too_short(results: PointResults, path: str = "") -> Finding | None:
    """Return a finding if the shortest window in which the value at a path was measured is too short."""
    kind = "effective" if "effective" in path else "measured"
    times_s = [time_s for record in results.good if (time_s := value_at(record, f"metrics.{kind}_s"))]
    shortest_s = min(times_s, default=math.inf)
    is_short = shortest_s < MIN_WINDOW_S
    return finding("short_window", window_s=shortest_s, least_s=MIN_WINDOW_S) if is_short else None


def missed(one: PointResults) -> Finding | None:
    """Return why what a point's runs take to their loss does not count; None if it does."""
    runs, most = len(one.good) + len(one.bad), one.may_miss
    return finding("missed_loss", missed=one.missed, runs=runs, most=most) if one.missed > most else None


def deviations(results: PointResults, with_energy: bool = True) -> list[Finding]:
    """Return the deviations of a point's runs from the rules."""
    found = list(filter(None, [window_too_short(results), missed(results), results.wrong]))
    if results.good and len(results.good) < MIN_REPEATS:
        found.append(finding("few_runs", runs=len(results.good), wanted=MIN_REPEATS))
    if results.bad and results.good:
        found.append(finding("some_failed", failed=len(results.bad), runs=len(results.bad) + len(results.good)))
    for record in results.good:
        if not results.point.to_loss:  # whose window begins with the first step
            found += [] if record.serving else unsteady(record.step_times_s)
        found += _throttled(record)
        found += _of_energy(record) if with_energy else []
        if record.metrics.comparable is False:
            found.append(finding("smaller_workload"))
        found += [*record.corrected, *shown_by(record)]
        found += rising(record)
        found += _origin(record.provenance)
    lost = Repeated(lambda record: record.losses)
    if same := sum(lost.twin(record) is not None for record in results.good):
        found.append(finding("same_losses", runs=same))
    if with_energy and len({energy_kind(record) for record in results.good}) > 1:
        found.append(finding("mixed_energies"))
    commits = {record.provenance.git_commit for record in results.good}
    if len(commits) > 1:
        found.append(finding("code", what=f"its runs are of {len(commits)} versions of the code"))
    return list(dict.fromkeys(found))


def _of_energy(record: Record) -> list[Finding]:
    """Return the rules that an energy breaks, and what is not known about its sensor."""
    found = [
        finding("idle" if rule.finding.topic == IDLE_POWER else "energy_rule", reasons=(rule.finding,))
        for rule in energy_rules(record)
        if not rule.kept
    ]
    if grade(record) == ESTIMATE:
        found.append(finding("estimate"))
    elif record.energy and record.energy.accuracy_from not in STATED:
        found.append(finding("accuracy", accuracy=accuracy_text(record)))
    return found


def _throttled(record: Record) -> list[Finding]:
    """Return the throttle reasons active for more than MAX_THROTTLED of the window, each on its most affected device.

    Also reports an accelerator whose sensor does not record throttling, and the first device whose power limit varied.
    """
    found, channels = [], record.sensor_channels
    by_channel = [channel.clocks.throttled for channel in channels]
    if is_accelerated(record) and None in by_channel:
        found.append(finding("throttling_unknown"))
    if limits := next((channel.limits for channel in channels if channel.limits.varied), None):
        watts = {f"{name}_w": limits.number(f"power_limit_{name}_w") for name in ("least", "mean", "most")}
        found.append(finding("limit_changed", **watts))
    quota_percent = value_at(record, "metrics.cpu_throttled_percent") or 0.0
    if quota_percent > 100 * MAX_THROTTLED:
        found.append(finding("quota", percent=quota_percent))
    worst: dict[str, float] = {}
    for throttled in filter(None, by_channel):
        for reason, percent in throttled.items():
            worst[reason] = max(worst.get(reason, 0.0), percent)
    held_back = {reason: percent for reason, percent in worst.items() if percent > 100 * MAX_THROTTLED}
    return found + [finding("throttled", reason=reason, percent=percent) for reason, percent in held_back.items()]


def rising(record: Record) -> list[Finding]:
    """Report a loss that is higher over the last quarter of the steps than over the first, and not by chance.

    By the test of Mann and Whitney, which assumes no distribution of the noise. Nearly every pair of losses must rise,
    as the noise of steps next to each other may be alike.
    """
    losses = [loss for loss in record.losses if loss is not None]
    quarter = max(FEWEST_LOSSES, len(losses) // 4)
    first, last = losses[:quarter], losses[-quarter:]
    if len(losses) < 2 * quarter or statistics.fmean(last) <= statistics.fmean(first):
        return []
    from scipy import stats

    found = stats.mannwhitneyu(last, first, alternative="greater")
    is_rising = found.pvalue <= RISE_P_VALUE and found.statistic >= RISING_PAIRS * quarter**2
    return [finding("rising_loss", first=statistics.fmean(first), last=statistics.fmean(last))] if is_rising else []


def _origin(origin: Provenance) -> list[Finding]:
    """Return the deviations of a run's code, and the unknown facts about code and node."""
    found = []
    if not origin.git_commit:
        found.append(finding("code", what="the version of the code is not known"))
    if origin.git_dirty is not False:
        unknown = "whether the code had local changes is not known"
        found.append(finding("code", what="the code had local changes" if origin.git_dirty else unknown))
    if origin.exclusive not in ("yes", "no"):  # on a shared node the run is wrong
        found.append(finding("exclusive_unknown"))
    return found
