"""Rules on energy and power."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from jpwr.energy.estimate import JOULES_PER_WH
from jpwr.process.device_ids import same_ids
from record.arithmetic import POWER_PERCENTILES, exceeds, product, ratio, rising, total
from record.findings import Finding, finding
from record.model import Channel, Energy, Record
from record.part import is_number

BOARD_TOLERANCE = 1.1  # times a board's limit, which it exceeds for short times
SET_TOLERANCE = 1.03  # times a limit below the default; at one of 700 W, GPUs had 687 W to 693 W on average
SAME_LIMIT = 0.01  # relative difference of one limit by two sources, which round it
SENSOR_TOLERANCE = 0.1  # relative difference of two sensors of the same energy
CLOCK_TOLERANCE = 1.02  # times a clock limit, which drivers round to a step and may exceed for short times
MOST_AROUND = 50.0  # highest ratio of a node's energy to that of its devices, where these are small
MOST_W = 10e3  # power of one device: several times that of any
OUTER, INNER = ("node", "supply"), ("device", "module")  # scopes that contain all devices, and scopes of devices
METHODS = ("integral", "counter", "counter+integral")  # readings that a channel's energy is computed from


def channels(record: Record) -> Iterator[tuple[str, Energy, Channel]]:
    """Yield each channel with its energy and the energy's key."""
    yield from ((key, energy, channel) for key, energy in record.energies.items() for channel in energy.channels)


def _channels_count_once_and_have_measured(run: Record) -> Iterator[str]:
    names = Counter((key, one.hostname, one.name) for key, _, one in channels(run))
    for (key, hostname, name), times in names.items():
        if times > 1:
            yield f"channel {name} of node {hostname} occurs {times} times in {key}"
    for key, _, channel in channels(run):
        energy_wh, method = channel.energy_wh, channel.method
        name = f"{key}.channels: {channel.name}"
        # A processor without a sensor for its memory reports 0 for it.
        is_measured = not channel.estimated and channel.scope != "dram"
        if is_measured and is_number(energy_wh) and energy_wh <= 0:
            yield f"the energy of channel {channel.name} must be greater than 0, got {energy_wh:g} Wh"
        sources = [f"{source}_wh" for source in (method or "").split("+")]
        read_wh = [channel.number(source) for source in sources]
        if method not in METHODS:
            yield f"{name}, method must be one of {', '.join(METHODS)}, got {method!r}"
        elif not all(map(is_number, read_wh)):
            yield f"{name}, the record has no {' and '.join(sources)}, from which its energy is computed"
        elif exceeds(energy_wh, total(read_wh)):
            yield f"{name}, its energy is {energy_wh:.6g} Wh, more than its readings give"


def _parts_use_no_more_than_the_whole(run: Record) -> Iterator[str]:
    """The windows are a part of the run, the channels of all that was sampled, and the devices of their node."""
    for key, energy in run.energies.items():
        least_wh = energy.energy_wh - (energy.uncertainty_wh or 0.0)
        yield from rising({f"the least {key}.energy_wh": least_wh, f"{key}.run_wh": energy.run_wh})
        percentiles = tuple(f"p{percent}_power_w" for percent in POWER_PERCENTILES)
        for names in (("window_s", "run_s"), percentiles):
            yield from rising({f"{key}.{name}": energy.number(name) for name in names})
        for scope in dict.fromkeys(one.scope for one in energy.channels):
            part_wh = total(one.energy_wh for one in energy.channels if one.scope == scope)
            name = f"{scope}_wh"
            whole_wh = energy.sampled_by_scope.number(name)
            yield from rising({f"{name} of {key}.channels": part_wh, f"{key}.sampled_by_scope": whole_wh})
        if text := scope_conflict(energy):
            yield f"{key} is {text}"


def scope_conflict(energy: Energy) -> str:
    """Describe how the energy conflicts with that of another scope; empty if it does not.

    Nodes must not use less than the devices inside them, beyond the energy's uncertainty and SENSOR_TOLERANCE, or more
    than MOST_AROUND times as much.
    """
    sampled, scope = energy.sampled_by_scope, energy.power_scope
    energy_wh, half_width_wh = energy.energy_wh, energy.uncertainty_wh or 0.0
    words = f"{energy_wh:.4g} Wh at the {scope}"
    for around in OUTER if scope in INNER else ():
        around_wh = sampled.number(f"{around}_wh")
        if is_number(around_wh) and energy_wh - half_width_wh > (1 + SENSOR_TOLERANCE) * around_wh:
            return f"{words}s, more than the {around_wh:.4g} Wh at the {around} that contains them"
    for inside in INNER if scope in OUTER else ():
        inside_wh = sampled.number(f"{inside}_wh")
        if exceeds(inside_wh, (energy_wh + half_width_wh) * (1 + SENSOR_TOLERANCE)):
            return f"{words}, less than the {inside_wh:.4g} Wh of its {inside}s"
        if is_number(inside_wh) and inside_wh > 0 and energy_wh > MOST_AROUND * inside_wh:
            return f"{words}, {energy_wh / inside_wh:.3g} times the {inside_wh:.4g} Wh of its {inside}s"
    return ""


def busier_elsewhere(energy: Energy) -> Finding | None:
    """Return a clearly higher power outside of the run's windows; None if the trace has none."""
    most_w, own_w = energy.elsewhere_w, energy.windows_w
    return None if most_w is None or own_w is None else finding("busier_elsewhere", own_w=own_w, most_w=most_w)


def _power_is_below_the_boards_limit(run: Record) -> Iterator[str]:
    limits_w, defaults_w = _limits_w(run), _limits_w(run, "power.default_limit")
    for _, energy, channel in channels(run):
        power_w = ratio(product(channel.energy_wh, JOULES_PER_WH), energy.window_s)
        if power_w is None:
            continue
        name, several, limit_w = channel.name, channel.num_devices or 1, _limit_w(channel, limits_w)
        is_set = channel.limits.limits_set_by or limit_w < (1 - SAME_LIMIT) * _limit_of(channel, defaults_w)
        if limit_w and power_w > (SET_TOLERANCE if is_set else BOARD_TOLERANCE) * limit_w:
            yield f"channel {name} has {power_w:.0f} W on average, but its board's limit is {limit_w:.0f} W"
        elif channel.scope in INNER and power_w > MOST_W * several:
            yield f"channel {name} has {power_w / several:.3g} W per device, more than any device uses"


def _limit_w(channel: Channel, limits_w: dict[str, float]) -> float:
    """Return the lower of the limits by a channel's sensor and by the vendor's tool, in watts; 0 if unknown.

    One that varied is its mean over the time.
    """
    if channel.limits.varied and (mean_w := channel.limits.power_limit_mean_w):
        return mean_w
    every_w = _limit_of(channel, limits_w), channel.limit_w, channel.limits.power_limit_w
    return min((limit_w for limit_w in every_w if is_number(limit_w) and limit_w > 0), default=0.0)


def _limit_of(channel: Channel, limits_w: dict[str, float]) -> float:
    """Return the limit of a channel's devices by the vendor's tool, in watts; 0 if unknown."""
    several = channel.num_devices or 1
    devices_w = [several * limits_w[one] for one in same_ids(channel.device_id or "") if one in limits_w]
    if not devices_w and channel.scope == "device":
        devices_w = [several * max(limits_w.values(), default=0.0)]  # without an id, it may be any of them
    return min((limit_w for limit_w in devices_w if limit_w > 0), default=0.0)


def _limits_w(record: Record, key: str = "power.limit") -> dict[str, float]:
    """Return power limits in watts by device id, as nvidia-smi reports both; amd-smi reports limits without ids."""
    limits_w: dict[str, float] = {}
    for number, device in enumerate(record.reported_devices):
        limit = device.get("limit")
        most = limit.get("max_power") if isinstance(limit, dict) else None
        watts = most.get("value") if isinstance(most, dict) else None
        if is_number(watts):
            limits_w[f"device {number}"] = watts
        for one in same_ids(str(device.get("uuid") or "")):
            if (watts := _number_of(device.get(key))) is not None:
                limits_w[one] = watts
    return limits_w


def _number_of(text: Any) -> float | None:
    """Return the number of a text with its unit; None without one, as of [N/A]."""
    try:
        return float(str(text).split()[0])
    except (ValueError, IndexError):
        return None


def _devices_are_those_of_their_sensors(run: Record) -> Iterator[str]:
    """By nvidia-smi and NVML, which name the device that an id belongs to; a part of a device has a longer name."""
    told = [[one.get(key) for key in ("uuid", "name", "memory.total")] for one in run.reported_devices]
    sensors = [one for _, _, one in channels(run) if "by NVML" in (one.source or "")]
    told += [[one.device_id, (one.source or "").partition(", ")[0], None] for one in sensors]
    for device in run.devices:
        ids = set(same_ids(device.device_id or ""))
        for name, memory in [(name, memory) for its, name, memory in told if ids & set(same_ids(str(its or "")))]:
            if name and device.name and str(name) not in device.name:
                yield f"device {device.device_id} is stored as {device.name!r}, but its sensor reports {name!r}"
            total_bytes = (_number_of(memory) or math.inf) * 2**20
            if exceeds(device.peak_memory_bytes, total_bytes):
                used, has = device.peak_memory_bytes or 0, total_bytes / 2**30
                yield f"device {device.device_id} used {used / 2**30:.4g} GiB of memory, but has {has:.4g} GiB"


def _limits_agree(run: Record) -> Iterator[str]:
    """By the sampler and the vendor's tool, and with the clock.

    On an idle device, the sampler cannot check a limit that a scheduler has set: its clock is low anyway.
    """
    limits_w = _limits_w(run)
    for _, _, channel in channels(run):
        name, limits, mhz = channel.name, channel.limits, channel.clocks.mean_mhz
        for limit in ("power_limit_w", "power_limit_mean_w"):
            order = "power_limit_least_w", limit, "power_limit_most_w"
            yield from rising({f"{name}, limits.{key}": limits.number(key) for key in order})
        changed_w = (limits.number(f"power_limit_{word}_w") for word in ("least", "most"))
        own_w = [one for one in (channel.limit_w, *changed_w, limits.power_limit_w) if one]
        for limit_w in (limits_w[one] for one in same_ids(channel.device_id or "") if one in limits_w):
            if own_w and all(abs(limit_w - watts) > 1 for watts in own_w) and not channel.num_devices > 1:
                yield f"channel {name} has a limit of {own_w[-1]:g} W, but nvidia-smi reports {limit_w:g} W"
        limit_mhz = limits.clock_limit_mhz
        if is_number(mhz) and is_number(limit_mhz) and mhz > CLOCK_TOLERANCE * limit_mhz:
            yield f"channel {name} has {mhz:.0f} MHz on average, but its clock limit is {limit_mhz:.0f} MHz"


RULES = (
    _channels_count_once_and_have_measured,
    _parts_use_no_more_than_the_whole,
    _power_is_below_the_boards_limit,
    _devices_are_those_of_their_sensors,
    _limits_agree,
)
