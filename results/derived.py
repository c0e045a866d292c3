"""Numbers of a record that follow from others, computed again, and numbers that no machine can have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeGuard

TOLERANCE = 1e-6  # relative, of a number that follows from others
WINDOW_TOLERANCE = 0.01  # of the time of a throughput and that of its window
STEPS_TOLERANCE = 0.02  # by so much steps may be longer than the window that they are in
IDLE_SHARE = 0.2  # of a window, which may be no step's
BOARD_TOLERANCE = 1.1  # of a board's limit, which it holds over some time
JOULES_PER_WH = 3600.0


def contradictions(record: dict[str, Any]) -> list[str]:
    """What cannot be in a record of a good run, a sentence each; empty for one that did not end well.

    A number is looked at where the record has what it follows from.
    """
    if record["status"] != "ok":
        return []
    return [
        *_impossible(record),
        *_wrong(record),
        *_beside_its_windows(record),
        *_beyond_the_device(record),
        *_beyond_what_was_read(record),
    ]


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
    shares = _shares(record)
    for name, region in (("io_percent", "IO"), ("comm_percent", "Comm")):
        yield f"metrics.{name}", metrics.get(name), shares.get(region), "its regions"
    if shares:
        yield "the sum of its regions' shares in percent", math.fsum(shares.values()), 100.0, "the parts of a step"
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
    parts = [part for channel in channels if is_number(part := channel.get("energy_wh"))]
    if parts and len(parts) == len(channels):
        yield f"{key}.energy_wh", energy_wh, math.fsum(parts), "its channels"


def _beside_its_windows(record: dict[str, Any]) -> Iterator[str]:
    """Times of throughput and steps against the windows in which they were."""
    measured_s = (record.get("metrics") or {}).get("measured_s")
    if not is_number(measured_s):
        return
    nodes = windows_of(record, "measured")
    window_s = longest_s(nodes)
    if nodes and not math.isclose(window_s, measured_s, rel_tol=WINDOW_TOLERANCE):
        yield f"its throughput is over {measured_s:.4g} s, but its window is {window_s:.4g} s"
    steps = (record.get("metrics") or {}).get("measured_steps")
    times_s = [time_s for time_s in record.get("step_times_s") or [] if is_number(time_s)]
    if not times_s:
        return
    steps_s = math.fsum(times_s) * (steps / len(times_s) if is_number(steps) else 1.0)
    if steps_s > (1 + STEPS_TOLERANCE) * measured_s or (is_number(steps) and steps_s < (1 - IDLE_SHARE) * measured_s):
        yield f"its steps take {steps_s:.4g} s, but the window that they fill is {measured_s:.4g} s"


def _beyond_the_device(record: dict[str, Any]) -> Iterator[str]:
    """Rates above the device's peak, and powers above the board's limit."""
    mfu = (record.get("metrics") or {}).get("mfu")
    if is_number(mfu) and mfu > 1:
        yield f"{mfu:.0%} of the device's peak FLOP/s are more than it has"
    limits_w = _limits_w(record)
    for key in ("energy", "energy_effective"):
        energy = record.get(key) or {}
        window_s = energy.get("window_s")
        for channel in energy.get("channels") or []:
            limit_w = limits_w.get(channel.get("device_id") or "", 0.0) * (channel.get("num_devices") or 1)
            energy_wh = channel.get("energy_wh")
            power_w = _ratio(energy_wh * JOULES_PER_WH if is_number(energy_wh) else None, window_s)
            if limit_w and power_w is not None and power_w > BOARD_TOLERANCE * limit_w:
                yield (
                    f"channel {channel.get('name')} has {power_w:.0f} W on average, and its board's limit is "
                    f"{limit_w:.0f} W"
                )


def _limits_w(record: dict[str, Any]) -> dict[str, float]:
    """The power limit of each device by its id, as nvidia-smi writes both."""
    found = {}
    for device in devices_of(record):
        if device.get("uuid"):
            try:
                found[str(device["uuid"])] = float(str(device.get("power.limit", "")).split()[0])
            except (ValueError, IndexError):
                continue  # [N/A]
    return found


def devices_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """What the vendor's tool said of each device of all nodes; older records know one node."""
    origin = record.get("provenance") or {}
    nodes = [node for node in origin.get("nodes") or [origin] if isinstance(node, dict)]
    return [device for node in nodes for device in node.get("devices") or [] if isinstance(device, dict)]


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
    return is_number(part) and is_number(whole) and part > whole * (1 + TOLERANCE)


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
