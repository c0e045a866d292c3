"""Numbers of a record that follow from others, computed again, and numbers that no machine can have."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeGuard

from jpwr.device_ids import same_ids
from results.stated import statements

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
PERCENTILES = {"step_time_median_s": 50, "step_time_p5_s": 5, "step_time_p95_s": 95}
SAMPLES = {"sequence_length": "tokens", "image_size": "pixels"}  # in words, by the key of the layout
AROUND, INSIDE = ("node", "supply"), ("device", "module")  # scopes that contain all devices, and those of devices
JOULES_PER_WH = 3600.0
# By which readings a channel's energy is, by its method.
WITNESSES = {
    "integral": ("integral_wh",),
    "counter": ("counter_wh",),
    "counter+integral": ("counter_wh", "integral_wh"),
}
# Of an energy what is the sum of its channels.
SUMS = ("energy_wh", "idle_power_w", "samples", "missing")


def contradictions(record: dict[str, Any]) -> list[str]:
    """What cannot be in a record of a good run, a sentence each; empty for one that did not end well.

    What its throughput follows from has to be there; any other number is looked at where the record has what it
    follows from.
    """
    if record["status"] != "ok":
        return []
    return [
        *_unsaid(record),
        *_impossible(record),
        *_wrong(record),
        *_otherwise(record),
        *_not_as_stated(record),
        *_of_its_nodes(record),
        *_of_its_windows(record),
        *_beside_its_windows(record),
        *_beside_its_steps(record),
        *_of_its_channels(record),
        *_beyond_the_device(record),
        *_beyond_what_was_read(record),
    ]


def _unsaid(record: dict[str, Any]) -> Iterator[str]:
    """What throughputs follow from, and the share of the peak, where the record does not say it."""
    unit, layout, metrics = record["work_unit"], record["layout"], record.get("metrics") or {}
    kinds = ["measured"]
    throughput = [f"measured_{unit}", "measured_s", "measured_steps", f"{unit}_per_s", f"{unit}_per_s_per_device"]
    if is_number(metrics.get(f"effective_{unit}_per_s")):
        throughput += [f"effective_{unit}", "effective_s"]
        kinds.append("effective")
    share = ["peak_tflops_per_device", "mfu"]
    if any(is_number(metrics.get(name)) for name in share):
        throughput += [f"model_flops_per_{unit[:-1]}", "tflops_per_device", *share]
    missing = [f"metrics.{name}" for name in throughput if not is_number(metrics.get(name))]
    missing += ["layout.work_per_sample"] * (not is_number(layout.get("work_per_sample")))
    missing += [f"{kind} windows" for kind in kinds if not windows_of(record, kind)]
    missing += ["step_times_s"] * (not any(map(is_number, record.get("step_times_s") or [])))
    for name in missing:
        yield f"the record does not say {name}, from which its throughput follows"


def _impossible(record: dict[str, Any]) -> Iterator[str]:
    """Numbers that are not above 0."""
    unit, layout, metrics = record["work_unit"], record["layout"], record.get("metrics") or {}
    energy = record.get("energy") or {}
    for where, values, names in (
        ("layout", layout, ("num_devices", "num_nodes", "global_batch_size")),
        ("metrics", metrics, (f"measured_{unit}", "measured_s", f"{unit}_per_s", f"{unit}_per_s_per_device")),
        ("metrics", metrics, ("tflops_per_device", "mfu", "step_time_median_s")),
        ("energy", energy, ("energy_wh", "avg_power_w", f"{unit}_per_wh", "window_s")),
    ):
        for name in names:
            value = values.get(name)
            if is_number(value) and not value > 0:
                yield f"{where}.{name} is {value:g}, which it cannot be"
    if any(is_number(time_s) and time_s <= 0 for time_s in record.get("step_times_s") or []):
        yield "a step takes no time, or less"


def _wrong(record: dict[str, Any]) -> Iterator[str]:
    """Numbers that are not what those they follow from make."""
    for name, stored, again, of in _relations(record):
        if not (is_number(stored) and again is not None):
            continue
        if not math.isclose(stored, again, rel_tol=TOLERANCE):
            yield f"{name} is stored as {stored:.10g}, but {of} make {again:.10g}"


def _relations(record: dict[str, Any]) -> Iterator[tuple[str, Any, float | None, str]]:
    """A number's name, how it is stored, what it should be (None: not known), and from what."""
    unit, layout, metrics = record["work_unit"], record["layout"], record.get("metrics") or {}
    devices = layout.get("num_devices")
    for kind, seconds in (("", "measured_s"), ("effective_", "effective_s"), ("epcc_", "epcc_s")):
        work, speed = metrics.get(f"{kind or 'measured_'}{unit}"), metrics.get(f"{kind}{unit}_per_s")
        yield f"metrics.{kind}{unit}_per_s", speed, _ratio(work, metrics.get(seconds)), "its work and time"
        name = f"{kind}{unit}_per_s_per_device"
        yield f"metrics.{name}", metrics.get(name), _ratio(speed, devices), "its throughput and devices"
    flops, per_device = metrics.get(f"model_flops_per_{unit[:-1]}"), metrics.get(f"{unit}_per_s_per_device")
    rate = flops * per_device / 1e12 if is_number(flops) and is_number(per_device) else None
    yield "metrics.tflops_per_device", metrics.get("tflops_per_device"), rate, "its throughput and FLOPs"
    share = _ratio(metrics.get("tflops_per_device"), metrics.get("peak_tflops_per_device"))
    yield "metrics.mfu", metrics.get("mfu"), share, "its FLOP/s and the device's peak"
    steps, batch = metrics.get("measured_steps"), layout.get("global_batch_size")
    sample = layout.get("work_per_sample")
    if is_number(steps) and is_number(batch) and is_number(sample):
        yield f"metrics.measured_{unit}", metrics.get(f"measured_{unit}"), steps * batch * sample, "its steps and batch"
    if unit == "tokens":
        yield "layout.sequence_length", layout.get("sequence_length"), sample, "its work per sample"
    sizes = [size for name in ("data", "tensor", "pipeline") if is_number(size := layout.get(f"{name}_parallel_size"))]
    if len(sizes) == 3:
        yield "layout.num_devices", devices, math.prod(sizes), "its parallel sizes"
    micro, replicas = layout.get("micro_batch_size"), layout.get("data_parallel_size")
    per_pass = micro * replicas if is_number(micro) and is_number(replicas) else None
    yield "layout.grad_accum_steps", layout.get("grad_accum_steps"), _ratio(batch, per_pass), "its batch sizes"
    shares = _shares(record)
    for name, region in (("io_percent", "IO"), ("comm_percent", "Comm")):
        yield f"metrics.{name}", metrics.get(name), shares.get(region), "its regions"
    if shares:
        yield "the sum of its regions' shares in percent", math.fsum(shares.values()), 100.0, "the parts of a step"
    times_s = record.get("step_times_s") or []
    if times_s and all(map(is_number, times_s)):
        for name, percent in PERCENTILES.items():
            yield f"metrics.{name}", metrics.get(name), _percentile(times_s, percent), "its steps"
    for key, kind in (("energy", "measured"), ("energy_effective", "effective")):
        yield from _of_energy(key, record.get(key) or {}, metrics.get(f"{kind}_{unit}"), unit, devices)


def _shares(record: dict[str, Any]) -> dict[str, float]:
    """Of each region of the measured window its part of a step, in percent."""
    regions = ((record.get("regions") or {}).get("measured") or {}).get("regions") or {}
    return {name: share for name, one in regions.items() if is_number(share := one.get("share_percent"))}


def _of_energy(
    key: str, energy: dict[str, Any], work: Any, unit: str, devices: Any
) -> Iterator[tuple[str, Any, float | None, str]]:
    energy_wh = energy.get("energy_wh")
    yield f"{key}.{unit}_per_wh", energy.get(f"{unit}_per_wh"), _ratio(work, energy_wh), "its work and energy"
    random_wh, systematic_wh = energy.get("random_wh"), energy.get("systematic_wh")
    if is_number(random_wh) and is_number(systematic_wh):
        yield f"{key}.uncertainty_wh", energy.get("uncertainty_wh"), random_wh + systematic_wh, "its components"
    per_device = energy.get("energy_wh_per_device")
    yield f"{key}.energy_wh_per_device", per_device, _ratio(energy_wh, devices), "its energy and devices"
    power_w = _ratio(energy_wh * JOULES_PER_WH if is_number(energy_wh) else None, energy.get("window_s"))
    yield f"{key}.avg_power_w", energy.get("avg_power_w"), power_w, "its energy and time"
    states = energy.get("states") or {}
    closing = _ratio(states.get("all_wh"), energy_wh)
    if closing is not None:
        yield f"{key}.states.closing_percent", states.get("closing_percent"), 100 * (closing - 1), "all states' energy"
    told = [row.get("energy_wh") for row in states.get("states") or []]
    if told and all(map(is_number, told)):
        yield f"{key}.states.all_wh", states.get("all_wh"), math.fsum(told), "its states"
    channels = energy.get("channels") or []
    for name in SUMS:
        parts = [part for channel in channels if is_number(part := channel.get(name))]
        if parts and len(parts) == len(channels):
            yield f"{key}.{name}", energy.get(name), math.fsum(parts), "its channels"
    for channel in channels:
        name, counter_wh = f"{key}.channels: {channel.get('name')}", channel.get("counter_wh")
        of_method = WITNESSES.get(channel.get("method") or "", ())
        if len(of_method) == 1:
            words = f"its readings by {channel.get('method')}"
            yield f"{name}, energy_wh", channel.get("energy_wh"), channel.get(of_method[0]), words
        # Of a number near 0 the relation would be rounding's.
        factor = _ratio(channel.get("integral_wh"), counter_wh)
        difference = channel.get("integral_vs_counter")
        stored = 1 + difference if is_number(difference) else None
        yield f"{name}, 1 + integral_vs_counter", stored, factor, "its integral and counter"


def _otherwise(record: dict[str, Any]) -> Iterator[str]:
    """Words and counts of the record that say something else than its options, layout, devices and channels."""
    layout, config = record["layout"], record.get("config") or {}
    listed, devices = len(record.get("devices") or []), layout.get("num_devices")
    if is_number(devices) and listed != devices:
        yield f"it lists {listed} devices, and layout.num_devices is {devices}"
    micro, replicas = layout.get("micro_batch_size"), layout.get("data_parallel_size")
    batch = layout.get("global_batch_size")
    if batch and micro and replicas and batch % (micro * replicas):
        yield f"its global batch {batch} is not a multiple of its micro batch {micro} on {replicas} replicas"
    ids = [device["device_id"] for device in record.get("devices") or [] if device.get("device_id")]
    if ids and (config.get("compute") or {}).get("device") == "cpu":
        yield f"processors trained by its options, but {ids[0]} is an accelerator"
    told = [
        (f"layout.{name}", f"{layout[name]} {words}", "sample", record.get("sample"))
        for name, words in SAMPLES.items()
        if layout.get(name) is not None and (words != "tokens" or record["work_unit"] == words)
    ]
    for key in ("energy", "energy_effective"):
        energy = record.get(key) or {}
        if channels := energy.get("channels"):
            scope = "+".join(sorted({str(channel.get("scope")) for channel in channels}))
            kind = "estimated" if any(channel.get("estimated") for channel in channels) else "measured"
            told += [
                (f"{key}.channels", kind, f"{key}.power_kind", energy.get("power_kind")),
                (f"{key}.channels", scope, f"{key}.power_scope", energy.get("power_scope")),
            ]
            if energy.get("power_source") is not None:
                source = f"{kind.upper() if kind == 'estimated' else kind}, {scope}"
                told.append((f"{key}.channels", source, f"{key}.power_source", energy["power_source"]))
    for origin, value, name, stored in told:
        if value != stored:
            yield f"{name} is stored as {stored!r}, but {origin} says {value!r}"


def _not_as_stated(record: dict[str, Any]) -> Iterator[str]:
    """Values that differ from what the record's options, its workload or the table of systems state."""
    for name, stored, value, source in statements(record):
        is_close = is_number(stored) and is_number(value) and math.isclose(stored, value, rel_tol=TOLERANCE)
        if stored is not None and stored != value and not is_close:
            yield f"{name} is stored as {stored!r}, but {source} says {value!r}"


def _of_its_nodes(record: dict[str, Any]) -> Iterator[str]:
    """Nodes that have devices and no windows, or windows and no devices, and more or fewer of them than are said."""
    hosts = {device.get("hostname") for device in record.get("devices") or []}
    num_nodes = record["layout"].get("num_nodes")
    if hosts and is_number(num_nodes) and len(hosts) != num_nodes:
        yield f"its devices are of {len(hosts)} nodes, and layout.num_nodes is {num_nodes}"
    for kind in ("measured", "effective"):
        nodes = windows_of(record, kind)
        if nodes and hosts and nodes.keys() != hosts:
            apart = ", ".join(sorted(map(str, nodes.keys() ^ hosts)))
            yield f"its devices and its {kind} windows are of unlike nodes: {apart}"
        times_s = {hostname: longest_s({hostname: windows}) for hostname, windows in nodes.items()}
        if times_s and min(times_s.values()) < NODES_SHARE * max(times_s.values()):
            least, most = min(times_s, key=times_s.__getitem__), max(times_s, key=times_s.__getitem__)
            yield (
                f"its {kind} window is {times_s[least]:.4g} s on node {least} and {times_s[most]:.4g} s on node {most}"
            )


def _of_its_windows(record: dict[str, Any]) -> Iterator[str]:
    """Windows that end before they begin, and those of one node and kind that overlap."""
    for kind in ("measured", "effective"):
        for hostname, windows in windows_of(record, kind).items():
            edges = sorted((window["start_s"], window["end_s"]) for window in windows)
            if any(end_s <= start_s for start_s, end_s in edges):
                yield f"a {kind} window of node {hostname} does not end after it begins"
            elif any(after[0] < before[1] for before, after in pairwise(edges)):
                yield f"{kind} windows of node {hostname} overlap"


def _beside_its_windows(record: dict[str, Any]) -> Iterator[str]:
    """Times of throughput and steps against the windows in which they were."""
    metrics = record.get("metrics") or {}
    for kind, name in (("measured", "throughput"), ("effective", "effective throughput")):
        time_s, nodes = metrics.get(f"{kind}_s"), windows_of(record, kind)
        window_s = longest_s(nodes)
        if nodes and is_number(time_s) and not math.isclose(window_s, time_s, rel_tol=WINDOW_TOLERANCE):
            yield f"its {name} is over {time_s:.4g} s, but its window is {window_s:.4g} s"
    speed, effective = (metrics.get(f"{kind}{record['work_unit']}_per_s") for kind in ("", "effective_"))
    if is_number(speed) and is_number(effective) and effective > FASTER_WITH_INPUT * speed > 0:
        yield f"with its input path it is {effective / speed:.3g} times as fast as without"
    measured_s, steps = metrics.get("measured_s"), metrics.get("measured_steps")
    times_s = [time_s for time_s in record.get("step_times_s") or [] if is_number(time_s)]
    if not times_s or not is_number(measured_s):
        return
    steps_s = math.fsum(times_s) * (steps / len(times_s) if is_number(steps) else 1.0)
    if steps_s > (1 + STEPS_TOLERANCE) * measured_s or (is_number(steps) and steps_s < (1 - IDLE_SHARE) * measured_s):
        yield f"its steps take {steps_s:.4g} s, but the window that they fill is {measured_s:.4g} s"


def _beside_its_steps(record: dict[str, Any]) -> Iterator[str]:
    """Times of regions that no step of the measured window has room for."""
    metrics, found = record.get("metrics") or {}, (record.get("regions") or {}).get("measured") or {}
    mean_s = _ratio(metrics.get("measured_s"), metrics.get("measured_steps"))
    regions = list((found.get("regions") or {}).values())
    medians_s = math.fsum(time_s for one in regions if is_number(time_s := one.get("median_s")))
    of_ranks_s = [one["by_rank_s"] for one in regions if one.get("by_rank_s")]
    longest_rank_s = max(
        (math.fsum(filter(is_number, of_rank)) for of_rank in zip(*of_ranks_s, strict=False)), default=0.0
    )
    for name, time_s in (
        ("steps with regions take", found.get("step_s")),
        ("regions' medians take", medians_s),
        ("regions of one process take", longest_rank_s),
    ):
        if mean_s is not None and is_number(time_s) and time_s > REGIONS_TOLERANCE * mean_s:
            yield f"its {name} {time_s:.4g} s, but a step takes {mean_s:.4g} s"


def _of_its_channels(record: dict[str, Any]) -> Iterator[str]:
    """Channels that are counted twice, have no readings or measured nothing, and sums that their parts contradict."""
    for key in ("energy", "energy_effective"):
        energy = record.get(key) or {}
        channels = energy.get("channels") or []
        for (hostname, name), times in Counter((one.get("hostname"), one.get("name")) for one in channels).items():
            if times > 1:
                yield f"channel {name} of node {hostname} is in {key} {times} times"
        for one in channels:
            energy_wh = one.get("energy_wh")
            # Memory may be said to use nothing where nothing measures it.
            is_told = is_number(energy_wh) and not one.get("estimated") and one.get("scope") != "dram"
            if is_told and energy_wh <= 0:
                yield f"channel {one.get('name')} measured {energy_wh:g} Wh, which it cannot have"
            yield from _without_witness(one, f"{key}.channels: {one.get('name')}")
        parts_wh = [part for one in channels if is_number(part := one.get("uncertainty_wh"))]
        least_wh, uncertainty_wh = math.fsum(parts_wh), energy.get("uncertainty_wh")
        if _exceeds(least_wh, uncertainty_wh):
            yield f"{key}.uncertainty_wh is {uncertainty_wh:.6g}, but its channels make {least_wh:.6g} or more"
        yield from _more_than_sampled(energy, key)
        if apart := apart_from_inside(energy):
            yield f"{key} is {apart}"


def _without_witness(channel: dict[str, Any], name: str) -> Iterator[str]:
    """What a channel's energy was not read from."""
    method, energy_wh = channel.get("method"), channel.get("energy_wh")
    witnesses = WITNESSES.get(method or "")
    if witnesses is None:
        yield f"{name}, its energy is by {method!r}, which is none of {', '.join(WITNESSES)}"
        return
    read_wh = [channel.get(witness) for witness in witnesses]
    if not all(map(is_number, read_wh)):
        yield f"{name}, the record does not say {' and '.join(witnesses)}, from which its energy is"
    elif _exceeds(energy_wh, math.fsum(filter(is_number, read_wh))):
        yield f"{name}, its energy is {energy_wh:.6g} Wh, more than it read"


def _more_than_sampled(energy: dict[str, Any], key: str) -> Iterator[str]:
    """Channels of a scope that have used more than all of that scope."""
    used_wh: dict[str, float] = {}
    for one in energy.get("channels") or []:
        if is_number(one.get("energy_wh")):
            used_wh[one.get("scope")] = used_wh.get(one.get("scope"), 0.0) + one["energy_wh"]
    for scope, part_wh in used_wh.items():
        if _exceeds(part_wh, whole_wh := (energy.get("sampled_by_scope") or {}).get(f"{scope}_wh")):
            yield f"{key} has {part_wh:.6g} Wh of channels of scope {scope}, and {whole_wh:.6g} Wh were sampled of all"


def apart_from_inside(energy: dict[str, Any]) -> str:
    """Describe how whole nodes used less than what is inside of them, beyond the interval of the energy and what two
    sensors may differ by, or far more; empty where they did not.
    """
    inside, scope = energy.get("sampled_by_scope") or {}, energy.get("power_scope")
    energy_wh, uncertainty_wh = energy.get("energy_wh"), energy.get("uncertainty_wh")
    if scope not in (*AROUND, *INSIDE) or not is_number(energy_wh):
        return ""
    unsure_wh = uncertainty_wh if is_number(uncertainty_wh) else 0.0
    words = f"{energy_wh:.4g} Wh at the {scope}"
    if scope in INSIDE:
        for around in AROUND:
            around_wh = inside.get(f"{around}_wh")
            if is_number(around_wh) and energy_wh - unsure_wh > (1 + SENSOR_TOLERANCE) * around_wh:
                return f"{words}s, more than the {around_wh:.4g} Wh at the {around} that contains them"
        return ""
    most_wh = (energy_wh + unsure_wh) * (1 + SENSOR_TOLERANCE)
    for scope in INSIDE:
        inside_wh = inside.get(f"{scope}_wh")
        if _exceeds(inside_wh, most_wh):
            return f"{words}, less than the {inside_wh:.4g} Wh of its {scope}s"
        if is_number(inside_wh) and inside_wh > 0 and energy_wh > MOST_AROUND * inside_wh:
            return f"{words}, {energy_wh / inside_wh:.3g} times the {inside_wh:.4g} Wh of its {scope}s"
    return ""


def busier_elsewhere(energy: dict[str, Any]) -> str:
    """Describe that the run took clearly more power outside of its windows, as found in the trace; empty otherwise."""
    most_w, own_w = energy.get("elsewhere_w"), energy.get("windows_w")
    if not (is_number(most_w) and is_number(own_w)):
        return ""
    return f"{own_w:.0f} W from the first to the last window, and {most_w:.0f} W over as long a time of the same run"


def _beyond_the_device(record: dict[str, Any]) -> Iterator[str]:
    """Rates above the device's peak, powers above the board's limit, and both above what any device has."""
    metrics = record.get("metrics") or {}
    mfu, hfu, tflops_per_device = (metrics.get(name) for name in ("mfu", "hfu", "tflops_per_device"))
    if any(is_number(share) and share > 1 for share in (mfu, hfu)):
        yield f"{max(filter(is_number, (mfu, hfu))):.0%} of the device's peak FLOP/s are more than it has"
    asked = ((record.get("config") or {}).get("parallel") or {}).get("recompute")
    most = mfu * (1.0 if asked == "none" else MOST_RECOMPUTED) if is_number(mfu) else None
    if _exceeds(mfu, hfu) or _exceeds(hfu, most):
        yield f"metrics.hfu is {hfu:.4g}, but with metrics.mfu {mfu:.4g} it is {mfu:.4g} to {most:.4g}"
    limits_w = _limits_w(record)
    for key in ("energy", "energy_effective"):
        energy = record.get(key) or {}
        for channel in energy.get("channels") or []:
            energy_wh, several = channel.get("energy_wh"), channel.get("num_devices") or 1
            power_w = _ratio(energy_wh * JOULES_PER_WH if is_number(energy_wh) else None, energy.get("window_s"))
            limit_w = _limit_w(channel, limits_w)
            if limit_w and power_w is not None and power_w > BOARD_TOLERANCE * limit_w:
                yield (
                    f"channel {channel.get('name')} has {power_w:.0f} W on average, and its board's limit is "
                    f"{limit_w:.0f} W"
                )
            elif channel.get("scope") in INSIDE and power_w is not None and power_w > MOST_W * several:
                yield f"channel {channel.get('name')} has {power_w / several:.3g} W of a device, which none has"
        power_w = _ratio(energy.get("avg_power_w"), record["layout"].get("num_devices"))
        flop_per_j = _ratio(tflops_per_device * 1e12 if is_number(tflops_per_device) else None, power_w)
        if energy.get("power_kind") == "measured" and flop_per_j is not None and flop_per_j > MOST_FLOP_PER_J:
            yield f"{power_w:.3g} W of a device for {tflops_per_device:.4g} TFLOP/s are less than any chip takes"


def _limit_w(channel: dict[str, Any], limits_w: dict[str, float]) -> float:
    """Of a channel, the lowest of what its sensor and its vendor's tool said; 0 where that is not known."""
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
    """What the vendor's tool said of each device of all nodes; older records know one node."""
    origin = record.get("provenance") or {}
    nodes = [node for node in origin.get("nodes") or [origin] if isinstance(node, dict)]
    found = [node.get("devices") or [] for node in nodes]
    # Newer versions of amd-smi put the list of devices into an object.
    lists = [one.get("gpu_data") or [] if isinstance(one, dict) else one for one in found]
    return [device for one in lists if isinstance(one, list) for device in one if isinstance(device, dict)]


def _beyond_what_was_read(record: dict[str, Any]) -> Iterator[str]:
    """Parts of what was read that are more than the whole."""
    found = record.get("io") or {}
    job, windows = found.get("job") or {}, found.get("windows") or {}
    for kind, one in windows.items():
        for name, whole in (("bytes", job.get("bytes")), ("reads", job.get("reads"))):
            if _exceeds(one.get(name), whole):
                yield f"io has {one[name]:,} {name} of its {kind} windows, and {whole:,} of the whole job"
        parts = [size for size in (one.get("by_region") or {}).values() if is_number(size)]
        if _exceeds(math.fsum(parts) - len(parts), one.get("bytes")):  # each is rounded
            yield f"the regions of its {kind} windows have more bytes than were read in them"
        window_s = longest_s(windows_of(record, kind))
        if _exceeds(one.get("reading_s"), window_s):
            yield f"something was read in {one['reading_s']:.4g} s of its {kind} windows, which are {window_s:.4g} s"
    if _exceeds(job.get("sequential_reads"), job.get("reads")):
        yield f"io has {job['sequential_reads']:,} sequential reads of {job['reads']:,}"


def _exceeds(part: Any, whole: Any) -> bool:
    return is_number(part) and is_number(whole) and part > whole + TOLERANCE * abs(whole)


def _percentile(values: Sequence[float], percent: float) -> float:
    """As a benchmark tells it: interpolated between neighbours."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def windows_of(record: dict[str, Any], kind: str) -> dict[str, list[dict[str, Any]]]:
    """The windows of one kind, node by node."""
    found: dict[str, list[dict[str, Any]]] = {}
    for window in record.get("windows") or []:
        if window["kind"] == kind:
            found.setdefault(window["hostname"], []).append(window)
    return found


def longest_s(nodes: dict[str, list[dict[str, Any]]]) -> float:
    """Of all nodes the longest time in such windows, in seconds; 0 without any."""
    times_s = (sum(window["end_s"] - window["start_s"] for window in windows) for windows in nodes.values())
    return max(times_s, default=0.0)


def is_number(value: Any) -> TypeGuard[float]:
    """A truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ratio(value: Any, by: Any) -> float | None:
    return value / by if is_number(value) and is_number(by) and by else None
