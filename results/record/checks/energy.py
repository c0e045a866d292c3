"""Rules on energy and power."""

from __future__ import annotations

from collections import Counter
from typing import Any

from jpwr.process.device_ids import same_ids
from results.record.checks.run import (
    AROUND,
    ENERGIES,
    INSIDE,
    Relations,
    Run,
    Sentences,
    differs,
    exceeds,
    product,
    ratio,
    sum_of_all,
    total,
)
from results.record.parts import JOULES_PER_WH, devices_of, is_number

BOARD_TOLERANCE = 1.1  # of a board's limit, which it holds over some time
SENSOR_TOLERANCE = 0.1  # by so much two sensors of the same energy may differ
MOST_AROUND = 50.0  # times what devices use may be used around them, where they are small
MOST_W = 10e3  # of a device: several times what any has
# The readings that a channel's energy comes from, by its method.
SOURCES = {
    "integral": ("integral_wh",),
    "counter": ("counter_wh",),
    "counter+integral": ("counter_wh", "integral_wh"),
}
# Values of an energy that are the sum over its channels.
SUMS = ("energy_wh", "idle_power_w", "samples", "missing")


def _energies(run: Run) -> Relations:
    for key, energy in run.energies.items():
        energy_wh, work = energy.get("energy_wh"), run.metrics.get(f"{ENERGIES[key]}_{run.unit}")
        parts_wh = [energy.get(name) for name in ("random_wh", "systematic_wh")]
        devices, window_s = run.layout.get("num_devices"), energy.get("window_s")
        for name, again, of in (
            (f"{run.unit}_per_wh", ratio(work, energy_wh), "its work and energy"),
            ("uncertainty_wh", sum_of_all(parts_wh), "its components"),
            ("energy_wh_per_device", ratio(energy_wh, devices), "its energy and devices"),
            ("avg_power_w", ratio(product(energy_wh, JOULES_PER_WH), window_s), "its energy and time"),
        ):
            yield f"{key}.{name}", energy.get(name), again, of
        channels = energy.get("channels") or []
        for name in SUMS:
            parts = [channel.get(name) for channel in channels]
            yield f"{key}.{name}", energy.get(name), sum_of_all(parts), "its channels"


def _energies_of_channels(run: Run) -> Relations:
    for key, _, channel in run.channels():
        name, method = f"{key}.channels: {channel.get('name')}", channel.get("method")
        if len(sources := SOURCES.get(method or "", ())) == 1:
            yield f"{name}, energy_wh", channel.get("energy_wh"), channel.get(sources[0]), f"its readings by {method}"
        # Of a number near 0 the relation would be rounding's.
        factor = ratio(channel.get("integral_wh"), channel.get("counter_wh"))
        difference = channel.get("integral_vs_counter")
        stored = 1 + difference if is_number(difference) else None
        yield f"{name}, 1 + integral_vs_counter", stored, factor, "its integral and counter"


def _energy_is_named_after_its_channels(run: Run) -> Sentences:
    for key, energy in run.energies.items():
        if channels := energy.get("channels"):
            scope = "+".join(sorted({str(channel.get("scope")) for channel in channels}))
            kind = "estimated" if any(channel.get("estimated") for channel in channels) else "measured"
            words = {"power_kind": kind, "power_scope": scope}
            if energy.get("power_source") is not None:
                words["power_source"] = f"{kind.upper() if kind == 'estimated' else kind}, {scope}"
            for name, value in words.items():
                yield from differs(f"{key}.{name}", energy.get(name), f"{key}.channels", value)


def _channels_count_once(run: Run) -> Sentences:
    names = Counter((key, one.get("hostname"), one.get("name")) for key, _, one in run.channels())
    for (key, hostname, name), times in names.items():
        if times > 1:
            yield f"channel {name} of node {hostname} is in {key} {times} times"


def _channels_have_measured(run: Run) -> Sentences:
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
        elif exceeds(energy_wh, total(read_wh)):
            yield f"{name}, its energy is {energy_wh:.6g} Wh, more than it read"


def _energy_is_no_surer_than_its_channels(run: Run) -> Sentences:
    for key, energy in run.energies.items():
        least_wh = total(one.get("uncertainty_wh") for one in energy.get("channels") or [])
        if exceeds(least_wh, uncertainty_wh := energy.get("uncertainty_wh")):
            yield f"{key}.uncertainty_wh is {uncertainty_wh:.6g}, but its channels make {least_wh:.6g} or more"


def _channels_are_part_of_what_was_sampled(run: Run) -> Sentences:
    for key, energy in run.energies.items():
        channels = energy.get("channels") or []
        for scope in dict.fromkeys(one.get("scope") for one in channels):
            part_wh = total(one.get("energy_wh") for one in channels if one.get("scope") == scope)
            whole_wh = (energy.get("sampled_by_scope") or {}).get(f"{scope}_wh")
            if exceeds(part_wh, whole_wh):
                words = f"{part_wh:.6g} Wh of channels of scope {scope}, and {whole_wh:.6g} Wh were sampled of all"
                yield f"{key} has {words}"


def _nodes_contain_their_devices(run: Run) -> Sentences:
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
        if exceeds(inside_wh, (energy_wh + unsure_wh) * (1 + SENSOR_TOLERANCE)):
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


def _power_is_below_the_boards_limit(run: Run) -> Sentences:
    limits_w = _limits_w(run.record)
    for _, energy, channel in run.channels():
        power_w = ratio(product(channel.get("energy_wh"), JOULES_PER_WH), energy.get("window_s"))
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


RELATIONS = (_energies, _energies_of_channels)


RULES = (
    _energy_is_named_after_its_channels,
    _channels_count_once,
    _channels_have_measured,
    _energy_is_no_surer_than_its_channels,
    _channels_are_part_of_what_was_sampled,
    _nodes_contain_their_devices,
    _power_is_below_the_boards_limit,
)
