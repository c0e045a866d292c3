"""Derivation of every number of a record that follows from others, with the standard library alone."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from jpwr.intervals import with_accuracy
from jpwr.median import median_interval
from record.asked import as_asked
from record.derived import (
    SERVED,
    TO_LOSS,
    computed,
    flops,
    goal,
    joules_per,
    of_energy,
    product,
    ratio,
    region_shares,
    spread_percent,
    step_times,
    sum_of_all,
    throughput,
)
from record.model import Channel, Energy, Figure, Fill, NodeCheck, Record
from record.part import changed, with_known
from record.parts import longest_s, windows_of
from record.values import grouped

ENERGIES = {"energy": "measured", "energy_effective": "effective"}  # kinds of their windows
SUMS = ("energy_wh", "uncertainty_wh", "random_wh", "systematic_wh", "idle_power_w", "samples", "missing")
FIGURE_UNITS = {"TFLOP/s": "tflops", "GB/s": "gb_per_s"}  # in names of metrics
POWER_BOUND = "power limit"  # among the reasons for throttling


def derive(record: Record, figures: Mapping[str, float] | None = None) -> Record:
    """Return a record with each derived number computed from what was asked and seen, whatever is stored.

    `figures` are metrics that count in place of the recorded ones, such as a corrected peak. A number stays as it is
    where the record lacks one that it is computed from. Of a failed run, only what follows from its options is derived.
    """
    record = as_asked(record)
    record = with_known(record, {"layout": with_known(record.layout, _layout(record))})
    if not record.is_good:
        return record
    record = with_known(record, {"fill": _fill(record), "node_check": _node_check(record)})
    metrics = {**vars(record.metrics), **_spans(record), **_of_copies(record), **(figures or {})}
    for values in (_work, _training, _times, _goal, _rates, _figures):
        metrics |= {name: value for name, value in values(record, metrics).items() if value is not None}
    record = with_known(record, {"metrics": with_known(record.metrics, metrics)})
    for key, kind in ENERGIES.items():
        if energy := record.energy_of(key):
            record = changed(record, **{key: derived_energy(record, energy, kind)})
    return with_known(record, {"fill": _power_of_copies(record)})


def _layout(record: Record) -> dict[str, Any]:
    layout = record.layout
    sizes = [layout.number(f"{kind}_parallel_size") for kind in ("data", "tensor", "pipeline")]
    passes = ratio(
        layout.number("global_batch_size"), product(layout.micro_batch_size, layout.number("data_parallel_size"))
    )
    return {
        "num_devices": product(*sizes, layout.context_parallel_size or 1),
        "grad_accum_steps": int(passes) if passes and passes == int(passes) else None,
        "work_per_sample": layout.sequence_length if record.work_unit == "tokens" else None,
    }


def _fill(record: Record) -> Fill | None:
    fill = record.fill
    rates = [one.rate for one in fill.per_copy] if fill else []
    if not fill or not rates:
        return fill
    return with_known(fill, {"slowest": min(rates), "spread_percent": spread_percent(rates)})


def _spans(record: Record) -> dict[str, float]:
    """Return the time of each throughput, in seconds: that of the windows, on the node where they take longest."""
    longest = {kind: longest_s(windows_of(record, kind)) for kind in ENERGIES.values()}
    return {f"{kind}_s": time_s for kind, time_s in longest.items() if time_s}


def _of_copies(record: Record) -> dict[str, float | None]:
    """Return the work of copies that ran at once: that of the slowest one, times their number."""
    fill = record.fill
    rate = product(fill.slowest, fill.copies) if fill else None
    if fill is None or rate is None or fill.common_s is None:
        return {}
    work = rate * fill.common_s
    per_step = product(record.layout.global_batch_size, record.layout.work_per_sample)
    steps = {} if (number := ratio(work, per_step)) is None else {"measured_steps": number}
    return {f"measured_{record.work_unit}": work, **steps}


def _work(record: Record, metrics: Mapping[str, Any]) -> dict[str, Any]:
    layout = record.layout
    steps = None if record.fill else metrics.get("measured_steps")
    return {f"measured_{record.work_unit}": product(steps, layout.global_batch_size, layout.work_per_sample)}


def _training(record: Record, _: Mapping[str, Any]) -> dict[str, Any]:
    if not (losses := record.losses):
        return {}
    layout = record.layout
    is_counted = record.work_unit == "tokens" and not record.fill
    batch = layout.global_batch_size if is_counted else None
    trained = product(len(losses), batch, layout.work_per_sample)
    return {"first_loss": losses[0], "last_loss": losses[-1], "trained_tokens": trained}


def _times(record: Record, _: Mapping[str, Any]) -> dict[str, Any]:
    times_s = [time_s for time_s in record.step_times_s if time_s is not None]
    found: dict[str, Any] = step_times(times_s) if times_s and len(times_s) == len(record.step_times_s) else {}
    if "measured" in record.regions:
        steps = record.regions["measured"]
        shares = {name: region.share_percent for name, region in steps.regions.items()}
        found |= region_shares(shares, record.layout.num_devices, steps.all_communication)
    return found


def _goal(record: Record, metrics: Mapping[str, Any]) -> dict[str, Any]:
    return computed(goal(record.work_unit), {**metrics, "losses": record.losses}) if metrics.get("target_loss") else {}


def _rates(record: Record, metrics: Mapping[str, Any]) -> dict[str, Any]:
    unit = record.work_unit
    formulas = [*(one for kind in ("", "effective_", "epcc_") for one in throughput(unit, kind)), *flops(unit)]
    return computed([*formulas, *SERVED] if record.serving else formulas, {**vars(record.layout), **metrics})


def _node_check(record: Record) -> NodeCheck | None:
    """Return a node check whose figures have the median of their repeats with its 95 % interval."""
    if not record.node_check:
        return None
    return changed(record.node_check, figures=list(map(_figure, record.node_check.figures)))


def _figure(figure: Figure) -> Figure:
    if not figure.values:
        return figure
    low, high = median_interval(figure.values)
    return with_known(figure, {"value": statistics.median(figure.values), "low": low, "high": high})


def _figures(record: Record, _: Mapping[str, Any]) -> dict[str, Any]:
    """Return the median of each figure over all devices, or links with the largest message, by name and unit."""
    known = [figure for figure in record.node_check.figures if figure.value is not None]
    alike = grouped(known, lambda figure: f"{figure.name}_{FIGURE_UNITS[figure.unit]}")
    medians = {}
    for name, figures in alike.items():
        largest = max(figure.bytes or 0 for figure in figures)
        medians[name] = statistics.median(figure.value or 0.0 for figure in figures if (figure.bytes or 0) == largest)
    return medians


def derived_energy(record: Record, energy: Energy, kind: str) -> Energy:
    """Return an energy over the windows of a kind with the sums over its channels, and what follows from them."""
    unit, channels = record.work_unit, list(map(_channel, energy.channels))
    sums: dict[str, float | None] = {name: sum_of_all([one.number(name) for one in channels]) for name in SUMS}
    sums["window_s"] = longest_s(windows_of(record, kind)) or None
    energy = changed(with_known(energy, sums), channels=channels, **_place(channels))
    known = {**vars(record.metrics), **vars(record.layout), **vars(energy)}
    derived = computed([*of_energy(unit, kind), *[TO_LOSS] * (record.metrics.target_loss is not None)], known)
    derived["epoch_wh"] = ratio(record.metrics.number(f"{unit}_per_epoch") or None, derived[f"{unit}_per_wh"])
    if record.serving and kind == "measured":
        derived |= joules_per(energy.energy_wh, energy.uncertainty_wh, vars(record.metrics))
    return changed(with_known(energy, derived), **limits_of_all(energy.sensor_channels or channels))


def _channel(channel: Channel) -> Channel:
    """Return a channel whose energy is that of its source, and the difference of its two sources."""
    source = {"integral": channel.integral_wh, "counter": channel.counter_wh}.get(channel.method or "")
    difference = None
    if channel.integral_vs_counter is not None and channel.integral_wh is not None and channel.counter_wh:
        difference = (channel.integral_wh - channel.counter_wh) / channel.counter_wh
    return with_known(channel, {"energy_wh": source, "integral_vs_counter": difference})


def _place(channels: Sequence[Channel]) -> dict[str, Any]:
    """Return where and how an energy was measured, and the accuracy of the sum, if that of each sensor is stated."""
    kind = "estimated" if any(one.estimated for one in channels) else "measured"
    scope = "+".join(sorted({one.scope for one in channels}))
    words = kind.upper() if kind == "estimated" else kind
    found: dict[str, Any] = {"power_kind": kind, "power_scope": scope, "power_source": f"{words}, {scope}"}
    bound_wh = sum_of_all([product(one.accuracy, one.energy_wh) for one in channels])
    accuracy = ratio(bound_wh, sum_of_all([one.energy_wh for one in channels]))
    sources = dict.fromkeys(one.accuracy_from or "" for one in channels)
    return found | {"accuracy": accuracy, "accuracy_from": "" if accuracy is None else " and ".join(sources)}


def limits_of_all(channels: Sequence[Channel]) -> dict[str, Any]:
    """Return the limits that all channels share, None if they differ or varied, and how the devices kept to them.

    The shares, in percent, are those of the device that is affected most.
    """
    clocks = [one.clocks for one in channels]
    reasons = [one.throttled for one in clocks if one.throttled is not None]
    shared = {key: {one.limits.number(key) for one in channels} for key in ("power_limit_w", "clock_limit_mhz")}
    shared["power_limit_w"] |= {None for one in channels if one.limits.varied}
    drifts = {
        name: [value for one in clocks if (value := one.number(key)) is not None]
        for name, key in (("clock_drift_percent", "drift_percent"), ("temperature_drift_c", "drift_c"))
    }
    return {
        **{key: values.pop() if len(values) == 1 else None for key, values in shared.items()},
        "power_limited_percent": max((one.get(POWER_BOUND, 0.0) for one in reasons), default=None),
        **{name: max(values, key=abs, default=None) for name, values in drifts.items()},
    }


def _power_of_copies(record: Record) -> Fill | None:
    fill, energy = record.fill, record.energy
    if not fill or not energy or energy.uncertainty_wh is None:
        return fill
    share = with_accuracy(energy.uncertainty_wh / energy.energy_wh, energy.accuracy or 0.0)
    return with_known(fill, {"power_W": energy.avg_power_w, "power_uncertainty_percent": 100 * share})
