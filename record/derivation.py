"""Derivation of every number of a record that follows from others, with the standard library alone."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from jpwr.energy.estimate import JOULES_PER_WH
from jpwr.median import percentile
from record.arithmetic import product, ratio, smoothed, sum_of_all
from record.asked import as_asked
from record.model import Channel, Energy, Record
from record.part import changed, is_number, with_known
from record.values import grouped

ENERGIES = {"energy": "measured", "energy_effective": "effective"}  # kinds of their windows
KINDS = tuple(ENERGIES.values())
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
    if (fill := record.fill) and (rates := [copy.rate for copy in fill.per_copy]):
        spread_percent = 100 * (1 - min(rates) / max(rates))
        record = changed(record, fill=with_known(fill, {"slowest": min(rates), "spread_percent": spread_percent}))
    # The time of a throughput is that of its windows, on the node where they take longest.
    spans = {f"{kind}_s": time_s for kind in KINDS if (time_s := record.longest_s(kind))}
    metrics = {**vars(record.metrics), **spans, **(figures or {})}
    for values in (_of_copies, _work, _times, _goal, _rates, _figures):
        metrics |= {name: value for name, value in values(record, metrics).items() if value is not None}
    record = with_known(record, {"metrics": with_known(record.metrics, metrics)})
    for key, energy in record.energies.items():
        record = changed(record, **{key: derived_energy(record, energy, ENERGIES[key])})
    return record


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


def _of_copies(record: Record, _: Mapping[str, Any]) -> dict[str, Any]:
    """Return the work of copies that ran at once: that of the slowest one, times their number."""
    if not (fill := record.fill):
        return {}
    work = product(fill.slowest, fill.copies, fill.common_s)
    per_step = product(record.layout.global_batch_size, record.layout.work_per_sample)
    return {f"measured_{record.work_unit}": work, "measured_steps": ratio(work, per_step)}


def _work(record: Record, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the measured work of steps, and the first and last loss."""
    layout, losses = record.layout, record.losses
    per_step = None if record.fill else product(layout.global_batch_size, layout.work_per_sample)
    work: dict[str, Any] = {f"measured_{record.work_unit}": product(metrics.get("measured_steps"), per_step)}
    return work | ({"first_loss": losses[0], "last_loss": losses[-1]} if losses else {})


def _times(record: Record, _: Mapping[str, Any]) -> dict[str, Any]:
    """Return percentiles of the times of steps, and the shares of a step that wait for data and for other devices."""
    times_s = [time_s for time_s in record.step_times_s if time_s is not None]
    found: dict[str, Any] = {}
    if times_s and len(times_s) == len(record.step_times_s):
        percentiles = (("p5", 5), ("median", 50), ("p95", 95))
        found = {f"step_time_{name}_s": percentile(times_s, percent) for name, percent in percentiles}
    if "measured" in record.regions:
        step, devices = record.regions["measured"], record.layout.num_devices
        percent = {name: region.share_percent for name, region in step.regions.items()}
        waited = percent.get("Comm")
        if devices == 1:  # one device does not communicate
            waited = waited or (0.0 if percent else None)
        elif not step.all_communication:
            waited = None
        found |= {"io_percent": percent.get("IO"), "comm_percent": waited}
    return found


def _goal(record: Record, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the loss of a training, and what it took to its target: the whole of its window."""
    if not metrics.get("target_loss"):
        return {}
    unit = record.work_unit
    took = {"time_to_loss_s": "measured_s", f"{unit}_to_loss": f"measured_{unit}"}
    loss = smoothed(record.losses)
    is_reached = loss is not None and is_number(target := metrics["target_loss"]) and loss <= target
    return {"reached_loss": loss, **{name: metrics.get(of) if is_reached else None for name, of in took.items()}}


def _rates(record: Record, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return work per time, a device's rate in 10^12 FLOP/s and its shares of the peak, and rates of a server."""
    unit, found = record.work_unit, dict[str, Any]()
    for kind in ("", "effective_", "epcc_"):
        of = kind or "measured_"
        rate = ratio(metrics.get(f"{of}{unit}"), metrics.get(f"{of}s"))
        each = ratio(rate, record.layout.num_devices)
        found |= {f"{kind}{unit}_per_s": rate, f"{kind}{unit}_per_s_per_device": each}
    flops = metrics.get(f"model_flops_per_{unit[:-1]}")
    tflops = product(flops, found[f"{unit}_per_s_per_device"], 1e-12)
    mfu = ratio(tflops, metrics.get("peak_tflops_per_device"))
    recomputed = ratio(metrics.get(f"recomputed_flops_per_{unit[:-1]}"), flops)
    found |= {"tflops_per_device": tflops, "mfu": mfu, "hfu": product(mfu, sum_of_all([1.0, recomputed]))}
    if record.serving:
        tokens, time_s = metrics.get("measured_tokens"), metrics.get("measured_s")
        requests_per_s = ratio(metrics.get("measured_requests"), time_s)
        found |= {
            "total_tokens_per_s": ratio(sum_of_all([tokens, metrics.get("input_tokens")]), time_s),
            "requests_per_s": requests_per_s,
            "goodput_requests_per_s": product(requests_per_s, metrics.get("goodput_share")),
            "tokens_per_s_per_user": ratio(1.0, metrics.get("tpot_p50_s")),
        }
    return found


def _figures(record: Record, _: Mapping[str, Any]) -> dict[str, Any]:
    """Return the median of each figure over all devices, or links with the largest message, by name and unit."""
    measured = [figure for figure in record.node_check.figures if figure.values]
    alike = grouped(measured, lambda figure: f"{figure.name}_{FIGURE_UNITS[figure.unit]}")
    medians = {}
    for name, figures in alike.items():
        largest = max(figure.bytes or 0 for figure in figures)
        every = [figure.values for figure in figures if (figure.bytes or 0) == largest]
        medians[name] = statistics.median(map(statistics.median, every))
    return medians


def derived_energy(record: Record, energy: Energy, kind: str) -> Energy:
    """Return an energy over the windows of a kind with the sums over its channels, and what follows from them."""
    unit, channels = record.work_unit, list(map(_channel, energy.channels))
    sums: dict[str, float | None] = {name: sum_of_all([one.number(name) for one in channels]) for name in SUMS}
    sums["window_s"] = record.longest_s(kind) or None
    energy = changed(with_known(energy, sums), channels=channels, **_place(channels))
    metrics, energy_wh = record.metrics, energy.number("energy_wh")
    per_wh = ratio(metrics.number(f"{kind}_{unit}"), energy_wh)
    derived = {
        f"{unit}_per_wh": per_wh,
        "tflop_per_j": ratio(product(metrics.number(f"model_flops_per_{unit[:-1]}"), per_wh, 1e-12), JOULES_PER_WH),
        "energy_wh_per_device": ratio(energy_wh, record.layout.num_devices),
        "avg_power_w": ratio(product(energy_wh, JOULES_PER_WH), energy.window_s),
        "epoch_wh": ratio(metrics.number(f"{unit}_per_epoch") or None, per_wh),
    }
    loss, target = metrics.number("reached_loss"), metrics.number("target_loss")
    if loss is not None and target is not None and loss <= target:
        derived["energy_to_loss_wh"] = energy_wh
    if record.serving and kind == "measured":
        derived |= _joules_per(energy_wh, vars(metrics))
    return changed(with_known(energy, derived), **limits_of_all(energy.sensor_channels or channels))


def _joules_per(energy_wh: Any, metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Return joules per output token, per token, and per request.

    All are the energy of the window by what was done in it: output tokens that arrived, and with those of prompts whose
    first answer arrived, all tokens. A request is as many output tokens as one had in the mean, so that those that the
    window's edges cut count by their share.
    """
    output, inputs, each = map(metrics.get, ("measured_tokens", "input_tokens", "output_tokens_per_request"))
    counts = {"output_token": output, "total_token": sum_of_all([output, inputs]), "request": ratio(output, each)}
    return {f"j_per_{name}": ratio(product(energy_wh, JOULES_PER_WH), count) for name, count in counts.items()}


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
    """Return the limits that all channels share, None if they differ or varied, and how often the power limit bound.

    That is the share of the time, in percent, on the device that it bound most.
    """
    reasons = [one.clocks.throttled for one in channels if one.clocks.throttled is not None]
    shared = {key: {one.limits.number(key) for one in channels} for key in ("power_limit_w", "clock_limit_mhz")}
    shared["power_limit_w"] |= {None for one in channels if one.limits.varied}
    return {
        **{key: values.pop() if len(values) == 1 else None for key, values in shared.items()},
        "power_limited_percent": max((one.get(POWER_BOUND, 0.0) for one in reasons), default=None),
    }
