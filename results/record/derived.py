"""Checks of a record's numbers: those that follow from others are computed again, and none is beyond any machine.

One function for each rule, which yields a sentence for each number that breaks it.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeGuard, TypeVar

from jpwr.process.device_ids import same_ids
from results.record.stated import statements

TOLERANCE = 1e-6  # relative, of a number that follows from others
WINDOW_TOLERANCE = 0.01  # of the time of a throughput and that of its window
STEPS_TOLERANCE = 0.02  # by so much steps may be longer than the window that they are in
IDLE_SHARE = 0.2  # of a window, which may be no step's
BOARD_TOLERANCE = 1.1  # of a board's limit, which it holds over some time
SENSOR_TOLERANCE = 0.1  # by so much two sensors of the same energy may differ
NODES_SHARE = 0.5  # of the longest window of a run's nodes, which all wait for each other
FASTER_WITH_INPUT = 4.0  # times: by so much a disturbed machine may be faster with an input path than without
MOST_AROUND = 50.0  # times what devices use may be used around them, where they are small
MOST_W = 10e3  # of a device: several times what any has
MOST_FLOP_PER_J = 50e12  # several times what any chip has, in the lowest precision
MOST_RECOMPUTED = 4 / 3  # of a step's FLOPs, as the forward pass is a third of them
REGIONS_TOLERANCE = 2.0  # medians of a step's parts do not add up to its mean
PERCENTILES = {"step_time_p5_s": 0, "step_time_median_s": 9, "step_time_p95_s": 18}  # which of 19 cuts of the steps
SAMPLES = {"sequence_length": "tokens", "image_size": "pixels"}  # in words, by the key of the layout
AROUND, INSIDE = ("node", "supply"), ("device", "module")  # scopes that contain all devices, and those of devices
KINDS = ("measured", "effective")  # of windows
ENERGIES = {"energy": "measured", "energy_effective": "effective"}
JOULES_PER_WH = 3600.0
# The readings that a channel's energy comes from, by its method.
SOURCES = {
    "integral": ("integral_wh",),
    "counter": ("counter_wh",),
    "counter+integral": ("counter_wh", "integral_wh"),
}
# Values of an energy that are the sum over its channels.
SUMS = ("energy_wh", "idle_power_w", "samples", "missing")

Sentences = Iterator[str]
Relations = Iterator[tuple[str, Any, Any, str]]  # a number's name, how it is stored, what it should be, and from what
Found = TypeVar("Found")


class _Run:
    """A record whose missing parts are empty."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record, self.unit, self.layout = record, record["work_unit"], record["layout"]
        self.metrics: dict[str, Any] = record.get("metrics") or {}
        self.devices: list[dict[str, Any]] = record.get("devices") or []
        self.step_times_s: list[Any] = record.get("step_times_s") or []
        self.energies: dict[str, dict[str, Any]] = {key: record.get(key) or {} for key in ENERGIES}
        measured = (record.get("regions") or {}).get("measured") or {}
        self.step_with_regions_s = measured.get("step_s")
        self.regions: dict[str, dict[str, Any]] = measured.get("regions") or {}

    def channels(self) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Yield each channel with its energy and that one's key."""
        for key, energy in self.energies.items():
            yield from ((key, energy, channel) for channel in energy.get("channels") or [])


def contradictions(record: dict[str, Any]) -> list[str]:
    """Return what cannot be in a record of a good run, a sentence each; empty for one that did not end well.

    What its throughput follows from has to be there; any other number is checked where the record has what it
    follows from.
    """
    if record["status"] != "ok":
        return []
    run = _Run(record)
    return [sentence for rule in RULES for sentence in rule(run)]


# Values that must be there, above 0, as computed again, and as stated.


def _what_throughput_follows_from_is_there(run: _Run) -> Sentences:
    unit, metrics = run.unit, run.metrics
    names = [f"measured_{unit}", "measured_s", "measured_steps", f"{unit}_per_s", f"{unit}_per_s_per_device"]
    is_effective = is_number(metrics.get(f"effective_{unit}_per_s"))
    names += [f"effective_{unit}", "effective_s"] * is_effective
    of_peak = ["peak_tflops_per_device", "mfu"]
    if any(is_number(metrics.get(name)) for name in of_peak):
        names += [f"model_flops_per_{unit[:-1]}", "tflops_per_device", *of_peak]
    missing = [f"metrics.{name}" for name in names if not is_number(metrics.get(name))]
    missing += ["layout.work_per_sample"] * (not is_number(run.layout.get("work_per_sample")))
    missing += [f"{kind} windows" for kind in KINDS[: 1 + is_effective] if not windows_of(run.record, kind)]
    missing += ["step_times_s"] * (not any(map(is_number, run.step_times_s)))
    for name in missing:
        yield f"the record does not say {name}, from which its throughput follows"


def _numbers_are_above_0(run: _Run) -> Sentences:
    unit, speed = run.unit, f"{run.unit}_per_s"
    for where, values, names in (
        ("layout", run.layout, ("num_devices", "num_nodes", "global_batch_size")),
        ("metrics", run.metrics, (f"measured_{unit}", "measured_s", speed, f"{speed}_per_device")),
        ("metrics", run.metrics, ("tflops_per_device", "mfu", "step_time_median_s")),
        ("energy", run.energies["energy"], ("energy_wh", "avg_power_w", f"{unit}_per_wh", "window_s")),
    ):
        for name in names:
            if is_number(value := values.get(name)) and not value > 0:
                yield f"{where}.{name} is {value:g}, which it cannot be"
    if any(is_number(time_s) and time_s <= 0 for time_s in run.step_times_s):
        yield "a step takes no time, or less"


def _numbers_are_what_others_make(run: _Run) -> Sentences:
    for relations in RELATIONS:
        for name, stored, again, of in relations(run):
            if is_number(stored) and is_number(again) and not math.isclose(stored, again, rel_tol=TOLERANCE):
                yield f"{name} is stored as {stored:.10g}, but {of} make {again:.10g}"


def _values_are_as_stated_elsewhere(run: _Run) -> Sentences:
    for name, stored, value, source in statements(run.record):
        is_close = is_number(stored) and is_number(value) and math.isclose(stored, value, rel_tol=TOLERANCE)
        if stored is not None and stored != value and not is_close:
            yield f"{name} is stored as {stored!r}, but {source} says {value!r}"


# Throughput, layout and steps.


def _throughputs(run: _Run) -> Relations:
    unit, metrics = run.unit, run.metrics
    for kind, seconds in (("", "measured_s"), ("effective_", "effective_s"), ("epcc_", "epcc_s")):
        work, speed = metrics.get(f"{kind or 'measured_'}{unit}"), metrics.get(f"{kind}{unit}_per_s")
        yield f"metrics.{kind}{unit}_per_s", speed, _ratio(work, metrics.get(seconds)), "its work and time"
        name = f"{kind}{unit}_per_s_per_device"
        devices = run.layout.get("num_devices")
        yield f"metrics.{name}", metrics.get(name), _ratio(speed, devices), "its throughput and devices"
    flops, rate = metrics.get(f"model_flops_per_{unit[:-1]}"), metrics.get("tflops_per_device")
    made = _product(flops, metrics.get(f"{unit}_per_s_per_device"), 1e-12)
    yield "metrics.tflops_per_device", rate, made, "its throughput and FLOPs"
    share = _ratio(rate, metrics.get("peak_tflops_per_device"))
    yield "metrics.mfu", metrics.get("mfu"), share, "its FLOP/s and the device's peak"


def _layouts(run: _Run) -> Relations:
    layout, name = run.layout, f"measured_{run.unit}"
    batch, sample = layout.get("global_batch_size"), layout.get("work_per_sample")
    work = _product(run.metrics.get("measured_steps"), batch, sample)
    yield f"metrics.{name}", run.metrics.get(name), work, "its steps and batch"
    if run.unit == "tokens":
        yield "layout.sequence_length", layout.get("sequence_length"), sample, "its work per sample"
    sizes = [layout.get(f"{kind}_parallel_size") for kind in ("data", "tensor", "pipeline")]
    yield "layout.num_devices", layout.get("num_devices"), _product(*sizes), "its parallel sizes"
    per_pass = _product(layout.get("micro_batch_size"), layout.get("data_parallel_size"))
    yield "layout.grad_accum_steps", layout.get("grad_accum_steps"), _ratio(batch, per_pass), "its batch sizes"


def _steps(run: _Run) -> Relations:
    times_s = run.step_times_s
    if times_s and all(map(is_number, times_s)):
        cuts_s = statistics.quantiles(times_s, n=20, method="inclusive") if len(times_s) > 1 else times_s * 19
        for name, cut in PERCENTILES.items():
            yield f"metrics.{name}", run.metrics.get(name), cuts_s[cut], "its steps"


def _regions(run: _Run) -> Relations:
    shares = {name: share for name, one in run.regions.items() if is_number(share := one.get("share_percent"))}
    for name, region in (("io_percent", "IO"), ("comm_percent", "Comm")):
        yield f"metrics.{name}", run.metrics.get(name), shares.get(region), "its regions"
    if shares:
        yield "the sum of its regions' shares in percent", math.fsum(shares.values()), 100.0, "the parts of a step"


def _as_many_devices_as_trained(run: _Run) -> Sentences:
    devices = run.layout.get("num_devices")
    if is_number(devices) and len(run.devices) != devices:
        yield f"it lists {len(run.devices)} devices, and layout.num_devices is {devices}"


def _batches_are_whole(run: _Run) -> Sentences:
    names = ("global_batch_size", "micro_batch_size", "data_parallel_size")
    batch, micro, replicas = (run.layout.get(name) for name in names)
    if batch and micro and replicas and batch % (micro * replicas):
        yield f"its global batch {batch} is not a multiple of its micro batch {micro} on {replicas} replicas"


def _processors_have_no_accelerator(run: _Run) -> Sentences:
    ids = [device["device_id"] for device in run.devices if device.get("device_id")]
    if ids and ((run.record.get("config") or {}).get("compute") or {}).get("device") == "cpu":
        yield f"processors trained by its options, but {ids[0]} is an accelerator"


def _sample_is_that_of_the_layout(run: _Run) -> Sentences:
    for name, words in SAMPLES.items():
        if run.layout.get(name) is not None and (words != "tokens" or run.unit == words):
            yield from _differs("sample", run.record.get("sample"), f"layout.{name}", f"{run.layout[name]} {words}")


def _flops_are_below_the_peak(run: _Run) -> Sentences:
    mfu, hfu = (run.metrics.get(name) for name in ("mfu", "hfu"))
    if (most := max(filter(is_number, (mfu, hfu)), default=0.0)) > 1:
        yield f"{most:.0%} of the device's peak FLOP/s are more than it has"
    asked = ((run.record.get("config") or {}).get("parallel") or {}).get("recompute")
    limit = _product(mfu, 1.0 if asked == "none" else MOST_RECOMPUTED)
    if _exceeds(mfu, hfu) or _exceeds(hfu, limit):
        yield f"metrics.hfu is {hfu:.4g}, but with metrics.mfu {mfu:.4g} it is {mfu:.4g} to {limit:.4g}"


def _no_chip_takes_so_little(run: _Run) -> Sentences:
    tflops = run.metrics.get("tflops_per_device")
    for energy in run.energies.values():
        power_w = _ratio(energy.get("avg_power_w"), run.layout.get("num_devices"))
        most = _product(power_w, MOST_FLOP_PER_J, 1e-12)
        if energy.get("power_kind") == "measured" and power_w and is_number(tflops) and most and tflops > most:
            yield f"{power_w:.3g} W of a device for {tflops:.4g} TFLOP/s are less than any chip takes"


# Windows, and the times in them.


def _nodes_are_those_of_the_devices(run: _Run) -> Sentences:
    hosts, num_nodes = {device.get("hostname") for device in run.devices}, run.layout.get("num_nodes")
    if hosts and is_number(num_nodes) and len(hosts) != num_nodes:
        yield f"its devices are of {len(hosts)} nodes, and layout.num_nodes is {num_nodes}"
    for kind in KINDS:
        nodes = windows_of(run.record, kind)
        if nodes and hosts and nodes.keys() != hosts:
            apart = ", ".join(sorted(map(str, nodes.keys() ^ hosts)))
            yield f"its devices and its {kind} windows are of unlike nodes: {apart}"


def _windows_of_nodes_are_alike(run: _Run) -> Sentences:
    for kind in KINDS:
        times_s = [(longest_s({host: windows}), host) for host, windows in windows_of(run.record, kind).items()]
        if times_s and min(times_s)[0] < NODES_SHARE * max(times_s)[0]:
            (least_s, least), (most_s, most) = min(times_s), max(times_s)
            yield f"its {kind} window is {least_s:.4g} s on node {least} and {most_s:.4g} s on node {most}"


def _windows_follow_each_other(run: _Run) -> Sentences:
    for kind in KINDS:
        for hostname, windows in windows_of(run.record, kind).items():
            edges = sorted((window["start_s"], window["end_s"]) for window in windows)
            if any(end_s <= start_s for start_s, end_s in edges):
                yield f"a {kind} window of node {hostname} does not end after it begins"
            elif any(after[0] < before[1] for before, after in pairwise(edges)):
                yield f"{kind} windows of node {hostname} overlap"


def _throughput_is_over_its_window(run: _Run) -> Sentences:
    for kind, name in zip(KINDS, ("throughput", "effective throughput"), strict=True):
        time_s, window_s = run.metrics.get(f"{kind}_s"), longest_s(nodes := windows_of(run.record, kind))
        if nodes and is_number(time_s) and not math.isclose(window_s, time_s, rel_tol=WINDOW_TOLERANCE):
            yield f"its {name} is over {time_s:.4g} s, but its window is {window_s:.4g} s"


def _input_makes_nothing_faster(run: _Run) -> Sentences:
    speed, effective = (run.metrics.get(f"{kind}{run.unit}_per_s") for kind in ("", "effective_"))
    if is_number(speed) and is_number(effective) and effective > FASTER_WITH_INPUT * speed > 0:
        yield f"with its input path it is {effective / speed:.3g} times as fast as without"


def _steps_fill_their_window(run: _Run) -> Sentences:
    measured_s, steps = (run.metrics.get(f"measured_{word}") for word in ("s", "steps"))
    times_s = list(filter(is_number, run.step_times_s))
    if not times_s or not is_number(measured_s):
        return
    steps_s = math.fsum(times_s) * (steps / len(times_s) if is_number(steps) else 1.0)
    if steps_s > (1 + STEPS_TOLERANCE) * measured_s or (is_number(steps) and steps_s < (1 - IDLE_SHARE) * measured_s):
        yield f"its steps take {steps_s:.4g} s, but the window that they fill is {measured_s:.4g} s"


def _regions_fit_into_a_step(run: _Run) -> Sentences:
    mean_s = _ratio(run.metrics.get("measured_s"), run.metrics.get("measured_steps"))
    of_ranks = zip(*(one["by_rank_s"] for one in run.regions.values() if one.get("by_rank_s")), strict=False)
    for name, time_s in (
        ("steps with regions take", run.step_with_regions_s),
        ("regions' medians take", _sum(one.get("median_s") for one in run.regions.values())),
        ("regions of one process take", max(map(_sum, of_ranks), default=0.0)),
    ):
        if mean_s is not None and is_number(time_s) and time_s > REGIONS_TOLERANCE * mean_s:
            yield f"its {name} {time_s:.4g} s, but a step takes {mean_s:.4g} s"


# Energy.


def _energies(run: _Run) -> Relations:
    for key, energy in run.energies.items():
        energy_wh, work = energy.get("energy_wh"), run.metrics.get(f"{ENERGIES[key]}_{run.unit}")
        parts_wh = [energy.get(name) for name in ("random_wh", "systematic_wh")]
        devices, window_s = run.layout.get("num_devices"), energy.get("window_s")
        for name, again, of in (
            (f"{run.unit}_per_wh", _ratio(work, energy_wh), "its work and energy"),
            ("uncertainty_wh", _sum_of_all(parts_wh), "its components"),
            ("energy_wh_per_device", _ratio(energy_wh, devices), "its energy and devices"),
            ("avg_power_w", _ratio(_product(energy_wh, JOULES_PER_WH), window_s), "its energy and time"),
        ):
            yield f"{key}.{name}", energy.get(name), again, of
        channels = energy.get("channels") or []
        for name in SUMS:
            parts = [channel.get(name) for channel in channels]
            yield f"{key}.{name}", energy.get(name), _sum_of_all(parts), "its channels"


def _energies_of_states(run: _Run) -> Relations:
    for key, energy in run.energies.items():
        states = energy.get("states") or {}
        closing = _ratio(states.get("all_wh"), energy.get("energy_wh"))
        percent = None if closing is None else 100 * (closing - 1)
        yield f"{key}.states.closing_percent", states.get("closing_percent"), percent, "all states' energy"
        parts_wh = [row.get("energy_wh") for row in states.get("states") or []]
        yield f"{key}.states.all_wh", states.get("all_wh"), _sum_of_all(parts_wh), "its states"


def _energies_of_channels(run: _Run) -> Relations:
    for key, _, channel in run.channels():
        name, method = f"{key}.channels: {channel.get('name')}", channel.get("method")
        if len(sources := SOURCES.get(method or "", ())) == 1:
            yield f"{name}, energy_wh", channel.get("energy_wh"), channel.get(sources[0]), f"its readings by {method}"
        # Of a number near 0 the relation would be rounding's.
        factor = _ratio(channel.get("integral_wh"), channel.get("counter_wh"))
        difference = channel.get("integral_vs_counter")
        stored = 1 + difference if is_number(difference) else None
        yield f"{name}, 1 + integral_vs_counter", stored, factor, "its integral and counter"


def _energy_is_named_after_its_channels(run: _Run) -> Sentences:
    for key, energy in run.energies.items():
        if channels := energy.get("channels"):
            scope = "+".join(sorted({str(channel.get("scope")) for channel in channels}))
            kind = "estimated" if any(channel.get("estimated") for channel in channels) else "measured"
            words = {"power_kind": kind, "power_scope": scope}
            if energy.get("power_source") is not None:
                words["power_source"] = f"{kind.upper() if kind == 'estimated' else kind}, {scope}"
            for name, value in words.items():
                yield from _differs(f"{key}.{name}", energy.get(name), f"{key}.channels", value)


def _channels_count_once(run: _Run) -> Sentences:
    names = Counter((key, one.get("hostname"), one.get("name")) for key, _, one in run.channels())
    for (key, hostname, name), times in names.items():
        if times > 1:
            yield f"channel {name} of node {hostname} is in {key} {times} times"


def _channels_have_measured(run: _Run) -> Sentences:
    for key, _, channel in run.channels():
        energy_wh, method = channel.get("energy_wh"), channel.get("method")
        name = f"{key}.channels: {channel.get('name')}"
        # Memory may be said to use nothing where nothing measures it.
        is_measured = not channel.get("estimated") and channel.get("scope") != "dram"
        if is_measured and is_number(energy_wh) and energy_wh <= 0:
            yield f"channel {channel.get('name')} measured {energy_wh:g} Wh, which it cannot have"
        sources = SOURCES.get(method or "")
        read_wh = [channel.get(source) for source in sources or ()]
        if sources is None:
            yield f"{name}, its energy is by {method!r}, which is none of {', '.join(SOURCES)}"
        elif not all(map(is_number, read_wh)):
            yield f"{name}, the record does not say {' and '.join(sources)}, from which its energy is"
        elif _exceeds(energy_wh, _sum(read_wh)):
            yield f"{name}, its energy is {energy_wh:.6g} Wh, more than it read"


def _energy_is_no_surer_than_its_channels(run: _Run) -> Sentences:
    for key, energy in run.energies.items():
        least_wh = _sum(one.get("uncertainty_wh") for one in energy.get("channels") or [])
        if _exceeds(least_wh, uncertainty_wh := energy.get("uncertainty_wh")):
            yield f"{key}.uncertainty_wh is {uncertainty_wh:.6g}, but its channels make {least_wh:.6g} or more"


def _channels_are_part_of_what_was_sampled(run: _Run) -> Sentences:
    for key, energy in run.energies.items():
        channels = energy.get("channels") or []
        for scope in dict.fromkeys(one.get("scope") for one in channels):
            part_wh = _sum(one.get("energy_wh") for one in channels if one.get("scope") == scope)
            whole_wh = (energy.get("sampled_by_scope") or {}).get(f"{scope}_wh")
            if _exceeds(part_wh, whole_wh):
                words = f"{part_wh:.6g} Wh of channels of scope {scope}, and {whole_wh:.6g} Wh were sampled of all"
                yield f"{key} has {words}"


def _nodes_contain_their_devices(run: _Run) -> Sentences:
    for key, energy in run.energies.items():
        if apart := apart_from_inside(energy):
            yield f"{key} is {apart}"


def apart_from_inside(energy: dict[str, Any]) -> str:
    """Describe how whole nodes used less than what is inside of them, beyond the interval of the energy and what two
    sensors may differ by, or far more; empty where they did not.
    """
    sampled, scope = energy.get("sampled_by_scope") or {}, energy.get("power_scope")
    energy_wh, uncertainty_wh = energy.get("energy_wh"), energy.get("uncertainty_wh")
    if not is_number(energy_wh):
        return ""
    unsure_wh = uncertainty_wh if is_number(uncertainty_wh) else 0.0
    words = f"{energy_wh:.4g} Wh at the {scope}"
    for around in AROUND if scope in INSIDE else ():
        around_wh = sampled.get(f"{around}_wh")
        if is_number(around_wh) and energy_wh - unsure_wh > (1 + SENSOR_TOLERANCE) * around_wh:
            return f"{words}s, more than the {around_wh:.4g} Wh at the {around} that contains them"
    for inside in INSIDE if scope in AROUND else ():
        inside_wh = sampled.get(f"{inside}_wh")
        if _exceeds(inside_wh, (energy_wh + unsure_wh) * (1 + SENSOR_TOLERANCE)):
            return f"{words}, less than the {inside_wh:.4g} Wh of its {inside}s"
        if is_number(inside_wh) and inside_wh > 0 and energy_wh > MOST_AROUND * inside_wh:
            return f"{words}, {energy_wh / inside_wh:.3g} times the {inside_wh:.4g} Wh of its {inside}s"
    return ""


def busier_elsewhere(energy: dict[str, Any]) -> str:
    """Describe that the run took clearly more power outside of its windows, as found in the trace; empty otherwise."""
    most_w, own_w = energy.get("elsewhere_w"), energy.get("windows_w")
    if not (is_number(most_w) and is_number(own_w)):
        return ""
    return f"{own_w:.0f} W from the first to the last window, and {most_w:.0f} W over as long a time of the same run"


def _power_is_below_the_boards_limit(run: _Run) -> Sentences:
    limits_w = _limits_w(run.record)
    for _, energy, channel in run.channels():
        power_w = _ratio(_product(channel.get("energy_wh"), JOULES_PER_WH), energy.get("window_s"))
        if power_w is None:
            continue
        name, several, limit_w = channel.get("name"), channel.get("num_devices") or 1, _limit_w(channel, limits_w)
        if limit_w and power_w > BOARD_TOLERANCE * limit_w:
            yield f"channel {name} has {power_w:.0f} W on average, and its board's limit is {limit_w:.0f} W"
        elif channel.get("scope") in INSIDE and power_w > MOST_W * several:
            yield f"channel {name} has {power_w / several:.3g} W of a device, which none has"


def _limit_w(channel: dict[str, Any], limits_w: dict[str, float]) -> float:
    """The lowest of what a channel's sensor and its vendor's tool said; 0 where that is not known."""
    several = channel.get("num_devices") or 1
    of_devices_w = [several * limits_w[one] for one in same_ids(channel.get("device_id") or "") if one in limits_w]
    if not of_devices_w and channel.get("scope") == "device":
        of_devices_w = [several * max(limits_w.values(), default=0.0)]  # whichever of them it is
    own_w = [channel.get("limit_w"), (channel.get("clocks") or {}).get("power_limit_w")]
    return min((limit_w for limit_w in [*of_devices_w, *own_w] if is_number(limit_w) and limit_w > 0), default=0.0)


def _limits_w(record: dict[str, Any]) -> dict[str, float]:
    """The power limit of each device by its id, as nvidia-smi writes both; amd-smi writes limits without an id."""
    found = {}
    for number, device in enumerate(devices_of(record)):
        limit = device.get("limit")
        most = limit.get("max_power") if isinstance(limit, dict) else None
        watts = most.get("value") if isinstance(most, dict) else None
        if is_number(watts):
            found[f"device {number}"] = watts
        for one in same_ids(str(device.get("uuid") or "")):
            try:
                found[one] = float(str(device.get("power.limit", "")).split()[0])
            except (ValueError, IndexError):
                continue  # [N/A]
    return found


def devices_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the vendor's tool said of each device of all nodes; older records know one node."""
    origin = record.get("provenance") or {}
    nodes = [node for node in origin.get("nodes") or [origin] if isinstance(node, dict)]
    found = [node.get("devices") or [] for node in nodes]
    # Newer versions of amd-smi put the list of devices into an object.
    lists = [one.get("gpu_data") or [] if isinstance(one, dict) else one for one in found]
    return [device for one in lists if isinstance(one, list) for device in one if isinstance(device, dict)]


# What was read.


def _reads_are_part_of_the_jobs(run: _Run) -> Sentences:
    found = run.record.get("io") or {}
    job = found.get("job") or {}
    for kind, one in (found.get("windows") or {}).items():
        for name in ("bytes", "reads"):
            if _exceeds(one.get(name), job.get(name)):
                yield f"io has {one[name]:,} {name} of its {kind} windows, and {job[name]:,} of the whole job"
        parts = list(filter(is_number, (one.get("by_region") or {}).values()))
        if _exceeds(math.fsum(parts) - len(parts), one.get("bytes")):  # each is rounded
            yield f"the regions of its {kind} windows have more bytes than were read in them"
        window_s = longest_s(windows_of(run.record, kind))
        if _exceeds(one.get("reading_s"), window_s):
            yield f"something was read in {one['reading_s']:.4g} s of its {kind} windows, which are {window_s:.4g} s"
    if _exceeds(job.get("sequential_reads"), job.get("reads")):
        yield f"io has {job['sequential_reads']:,} sequential reads of {job['reads']:,}"


RELATIONS: tuple[Callable[[_Run], Relations], ...] = (
    *(_throughputs, _layouts, _steps, _regions),
    *(_energies, _energies_of_states, _energies_of_channels),
)
RULES: tuple[Callable[[_Run], Sentences], ...] = (
    _what_throughput_follows_from_is_there,
    _numbers_are_above_0,
    _numbers_are_what_others_make,
    _values_are_as_stated_elsewhere,
    _as_many_devices_as_trained,
    _batches_are_whole,
    _processors_have_no_accelerator,
    _sample_is_that_of_the_layout,
    _flops_are_below_the_peak,
    _no_chip_takes_so_little,
    _nodes_are_those_of_the_devices,
    _windows_of_nodes_are_alike,
    _windows_follow_each_other,
    _throughput_is_over_its_window,
    _input_makes_nothing_faster,
    _steps_fill_their_window,
    _regions_fit_into_a_step,
    _energy_is_named_after_its_channels,
    _channels_count_once,
    _channels_have_measured,
    _energy_is_no_surer_than_its_channels,
    _channels_are_part_of_what_was_sampled,
    _nodes_contain_their_devices,
    _power_is_below_the_boards_limit,
    _reads_are_part_of_the_jobs,
)


def _differs(name: str, stored: Any, origin: str, value: Any) -> Sentences:
    if value != stored:
        yield f"{name} is stored as {stored!r}, but {origin} says {value!r}"


def _exceeds(part: Any, whole: Any) -> bool:
    return is_number(part) and is_number(whole) and part > whole + TOLERANCE * abs(whole)


def windows_of(record: dict[str, Any], kind: str) -> dict[str, list[dict[str, Any]]]:
    """Return the windows of one kind, node by node."""
    found: dict[str, list[dict[str, Any]]] = {}
    for window in record.get("windows") or []:
        if window["kind"] == kind:
            found.setdefault(window["hostname"], []).append(window)
    return found


def of_node(
    window: Mapping[str, Any], found: Sequence[Found], facts: Callable[[Found], Mapping[str, Any]]
) -> Found | None:
    """Return the trace or profile of a window's node; None without one.

    A node's name can differ in and outside of a container; its kernel's boot id cannot.
    """
    same_boot = [one for one in found if facts(one).get("boot_id") == window["boot_id"]]
    same_name = [one for one in same_boot if facts(one).get("hostname") == window["hostname"]]
    return next(iter(same_name or (same_boot if window["boot_id"] else [])), None)


def longest_s(nodes: dict[str, list[dict[str, Any]]]) -> float:
    """Return the longest time of any node in such windows, in seconds; 0 without any."""
    times_s = (sum(window["end_s"] - window["start_s"] for window in windows) for windows in nodes.values())
    return max(times_s, default=0.0)


def is_number(value: Any) -> TypeGuard[float]:
    """Check for a number, which a truth value is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _sum(values: Iterable[Any]) -> float:
    """The sum of those values that are numbers."""
    return math.fsum(filter(is_number, values))


def _sum_of_all(values: Sequence[Any]) -> float | None:
    """The sum; None without values, and unless all are numbers."""
    return math.fsum(values) if values and all(map(is_number, values)) else None


def _ratio(value: Any, by: Any) -> float | None:
    return value / by if is_number(value) and is_number(by) and by else None


def _product(*values: Any) -> float | None:
    return math.prod(values) if all(map(is_number, values)) else None
