"""Formulas of derived numbers of a record: a run computes them, and whoever reads the record, by one formula.

Functions of plain numbers, with the standard library alone; a benchmark imports them, too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from jpwr.energy.estimate import JOULES_PER_WH
from jpwr.median import percentile
from record.part import is_number

PERCENTILES = (50, 90, 99)  # of the latencies of requests
POWER_PERCENTILES = (75, 90, 99)
SMOOTHED_LOSSES = 10  # in a mean, whose noise is a third of that of a step's loss
TENTHS = 10  # mean powers of the core phase in the power measurement methodology of the EEHPCWG


class Formula(NamedTuple):
    """Formula of a derived number."""

    name: str
    of: Callable[..., float | None]
    inputs: tuple[str, ...]  # names of the numbers that it is computed from

    def __call__(self, values: Mapping[str, Any]) -> float | None:
        """Return the derived number; None if one of the values is missing."""
        return self.of(*map(values.get, self.inputs))


def computed(formulas: Iterable[Formula], values: Mapping[str, Any]) -> dict[str, float | None]:
    """Return derived numbers, each from values and the derived numbers before it."""
    known, found = dict(values), {}
    for one in formulas:
        known[one.name] = found[one.name] = one(known)
    return found


def sum_of_all(values: Sequence[Any]) -> float | None:
    """Return the sum; None without values, or if one is not a number."""
    return math.fsum(values) if values and all(map(is_number, values)) else None


def median_of_all(values: Sequence[float | None]) -> float | None:
    """Return the median; None without values, or if one is unknown."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def ratio(value: Any, by: Any) -> float | None:
    """Return the quotient; None unless both are numbers and the divisor is not 0."""
    return value / by if is_number(value) and is_number(by) and by else None


def product(*values: Any) -> float | None:
    """Return the product; None if a value is not a number."""
    return math.prod(values) if all(map(is_number, values)) else None


def mean_power_w(energy_wh: Any, time_s: Any) -> float | None:
    """Return the mean power in watts."""
    return ratio(product(energy_wh, JOULES_PER_WH), time_s)


def power_over_time(parts_w: Sequence[float], time_s: float) -> dict[str, Any]:
    """Return percentiles over time of power, and its means in tenths, from the means in equal parts of a time."""
    number = len(parts_w)
    if number < TENTHS:
        return {}
    edges = [number * one // TENTHS for one in range(TENTHS + 1)]
    tenths = [math.fsum(parts_w[low:high]) / (high - low) for low, high in pairwise(edges)]
    percentiles = {f"p{one}_power_w": percentile(parts_w, one) for one in POWER_PERCENTILES}
    return {"part_s": time_s / number, "tenths": tenths, **percentiles}


@cache
def throughput(unit: str, kind: str = "") -> tuple[Formula, ...]:
    """Return the formulas of work per time; `kind` is empty, "effective_" with the input path, or "epcc_"."""
    rate, of = f"{kind}{unit}_per_s", kind or "measured_"
    return (
        Formula(rate, ratio, (f"{of}{unit}", f"{of}s")),
        Formula(f"{rate}_per_device", ratio, (rate, "num_devices")),
    )


@cache
def flops(unit: str) -> tuple[Formula, ...]:
    """Return the formulas of a device's rate in 10^12 FLOP/s, and of its shares of the peak."""
    inputs = f"model_flops_per_{unit[:-1]}", f"{unit}_per_s_per_device"
    return (
        Formula("tflops_per_device", lambda each, rate: product(each, rate, 1e-12), inputs),
        Formula("mfu", ratio, ("tflops_per_device", "peak_tflops_per_device")),
        Formula("hfu", _with_recomputed, ("mfu", f"recomputed_flops_per_{unit[:-1]}", inputs[0])),
    )


@cache
def of_energy(unit: str, kind: str) -> tuple[Formula, ...]:
    """Return the formulas of an energy over the windows of a kind."""
    return (
        Formula(f"{unit}_per_wh", ratio, (f"{kind}_{unit}", "energy_wh")),
        Formula("tflop_per_j", _tflop_per_j, (f"model_flops_per_{unit[:-1]}", f"{unit}_per_wh")),
        Formula("energy_wh_per_device", ratio, ("energy_wh", "num_devices")),
        Formula("avg_power_w", mean_power_w, ("energy_wh", "window_s")),
    )


def _tflop_per_j(flops: Any, per_wh: Any) -> float | None:
    return ratio(product(flops, per_wh, 1e-12), JOULES_PER_WH)


def _with_recomputed(mfu: Any, recomputed: Any, flops: Any) -> float | None:
    share = ratio(recomputed, flops)
    return None if share is None else product(mfu, 1 + share)


def smoothed(losses: Sequence[Any] | None) -> float | None:
    """Return the mean of the last SMOOTHED_LOSSES losses; None with fewer, or if one is no number."""
    last = (losses or ())[-SMOOTHED_LOSSES:]
    return ratio(sum_of_all(last), SMOOTHED_LOSSES) if len(last) == SMOOTHED_LOSSES else None


def _if_reached(value: Any, loss: Any, target: Any) -> float | None:
    return value if is_number(loss) and is_number(target) and loss <= target else None


REACHED = ("reached_loss", "target_loss")
TO_LOSS = Formula("energy_to_loss_wh", _if_reached, ("energy_wh", *REACHED))


@cache
def goal(unit: str) -> tuple[Formula, ...]:
    """Return the formulas of the loss of a training, and of what it took to its target: the whole of its window."""
    names = {"time_to_loss_s": "measured_s", f"{unit}_to_loss": f"measured_{unit}", "steps_to_loss": "measured_steps"}
    took = (Formula(name, _if_reached, (of, *REACHED)) for name, of in names.items())
    return (Formula("reached_loss", smoothed, ("losses",)), *took)


def _all_tokens(output: Any, inputs: Any, time_s: Any) -> float | None:
    return ratio(sum_of_all([output, inputs]), time_s)


def _goodput(requests: Any, time_s: Any, share: Any) -> float | None:
    return product(ratio(requests, time_s), share)


REQUESTS = "measured_requests", "measured_s"
SERVED = (
    Formula("total_tokens_per_s", _all_tokens, ("measured_tokens", "input_tokens", "measured_s")),
    Formula("requests_per_s", ratio, REQUESTS),
    Formula("goodput_requests_per_s", _goodput, (*REQUESTS, "goodput_share")),
    Formula("tokens_per_s_per_user", lambda time_s: ratio(1.0, time_s), ("tpot_p50_s",)),
)


def joules_per(energy_wh: Any, half_wh: Any, metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Return joules per output token, per token, and per request, each with half of its 95 % interval.

    All are the energy of the window by what was done in it: output tokens that arrived, and with those of prompts whose
    first answer arrived, all tokens. A request is as many output tokens as one had in the mean, so that those that the
    window's edges cut count by their share. Tokens are counted and not estimated: the uncertainty is the energy's.
    """
    output, inputs, each = map(metrics.get, ("measured_tokens", "input_tokens", "output_tokens_per_request"))
    counts = {"output_token": output, "total_token": sum_of_all([output, inputs]), "request": ratio(output, each)}
    found: dict[str, float | None] = {}
    for name, count in counts.items():
        found[f"j_per_{name}"] = ratio(product(energy_wh, JOULES_PER_WH), count)
        found[f"j_per_{name}_half_width"] = ratio(product(half_wh, JOULES_PER_WH), count)
    return found


def step_times(times_s: Sequence[float]) -> dict[str, float]:
    """Return the percentiles of the times of steps."""
    return {f"step_time_{name}_s": percentile(times_s, at) for name, at in (("p5", 5), ("median", 50), ("p95", 95))}


def region_shares(
    percent: Mapping[str, float | None], devices: int | None, all_communication: bool
) -> dict[str, float | None]:
    """Return the shares of a step that wait for data and for other devices, from those of its regions, in percent.

    One device does not communicate; of several, the share is known if all communication has regions.
    """
    comm = percent.get("Comm")
    if devices == 1 and percent:
        comm = comm or 0.0
    return {"io_percent": percent.get("IO"), "comm_percent": comm if devices == 1 or all_communication else None}


def spread_percent(rates: Sequence[float]) -> float:
    """Return by how much the slowest of several copies is behind the fastest, in percent."""
    return 100 * (1 - min(rates) / max(rates))


def ttft(due: float, times: Sequence[float]) -> float:
    """Return the time to the first token of a request, from when it was due, and in a closed loop was sent.

    `times` are those of events with tokens. Source: kubernetes-sigs/inference-perf, docs/metrics.md at 7de5ef2; due
    times as in MLPerf's server scenario.
    """
    return times[0] - due


def tpot(times: Sequence[float], tokens: Sequence[int]) -> float | None:
    """Return the time per output token after the first event, so that several tokens in it shorten nothing.

    None for a request of one event. With one token in each event this is (end-to-end time - TTFT) / (tokens - 1), as in
    inference-perf and MLPerf; aiperf and guidellm call it inter-token latency.
    """
    later = sum(tokens[1:])
    return (times[-1] - times[0]) / later if later else None


def arrived(times: Sequence[float], tokens: Sequence[int], start: float, end: float) -> Iterator[tuple[float, int]]:
    """Return the time and number of tokens of each of a request's events in a window."""
    return ((time, count) for time, count in zip(times, tokens, strict=True) if start <= time < end)
