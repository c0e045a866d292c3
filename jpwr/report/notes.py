"""Notes on the limits of a summary's numbers: one function for each kind."""

from __future__ import annotations

from itertools import groupby
from typing import Iterator, Sequence

from jpwr.channel import ChannelInfo
from jpwr.energy import EnergyEstimate
from jpwr.messages import number_of, short
from jpwr.report.sums import Sums
from jpwr.trace.trace import NO_STATUS

WIDE = 1.0  # half-width as a share of the energy above which an interval has a note
LATE_END_S = 2.0  # longest usual time from the last reading to a command's end, for short sampling intervals
# Half-width of the integral, as a share, up to which it detects an error of 20 % of the counter: with 5 % for the
# sensor's accuracy, an E_n test allows sqrt(0.07^2 + 0.05^2) = 0.09, and twice that is below 20 %.
CHECKED = 0.07
# What an energy is from, by its method, in the words of a note.
USED = {
    "counter": "the counter",
    "integral": "the integral",
    "counter+integral": "the counter with the integral for that time",
}
REPEATED = 0.5  # share of samples that repeat the one before, above which the sensor probably holds its values


def notes(summary: Sums) -> list[str]:
    """Return all notes on a summary, one sentence each."""
    return [sentence for kind in KINDS for sentence in kind(summary)]


def _known(summary: Sums) -> list[tuple[ChannelInfo, EnergyEstimate]]:
    return [(info, one) for info, one in zip(summary.infos, summary.command) if not one.unknown]


def _doubted_sources(summary: Sums) -> Iterator[str]:
    for info, estimate in _known(summary):
        if estimate.reason:
            yield f"{info.name}: {estimate.reason}; {USED[estimate.method]} is used"


def _faulty_counters_without_power(summary: Sums) -> Iterator[str]:
    for info, estimate, fault in zip(summary.infos, summary.command, summary.counter_faults):
        if estimate.unknown and fault:
            yield f"{info.name}: no energy, because the counter {fault} and there is no power to integrate"


def _integral_too_wide_to_check(summary: Sums) -> Iterator[str]:
    shares = {
        info: estimate.integral_uncertainty_j / abs(estimate.integral_j)
        for info, estimate in _known(summary)
        if estimate.method == "counter" and estimate.integral_j and not info.from_counter and info.seen_share >= 1
    }
    unchecked = [info for info, share in shares.items() if share > CHECKED]
    if unchecked:
        yield (
            f"{first_of(unchecked)}: the integral of power has an uncertainty of ±{100 * max(shares.values()):.2g} %, "
            "too much to check the counter: sample faster or run longer"
        )


def _sensors_that_hold_values(summary: Sums) -> Iterator[str]:
    for info, estimate, (times_s, power_w) in zip(summary.infos, summary.command, summary.trace.power()):
        if estimate.unknown or estimate.method == "counter" or info.estimated:
            continue
        if (repeats := repeated_share(times_s, power_w, info.held_s)) > REPEATED:
            longer = f" for longer than its hold time of {info.held_s:g} s" if info.held_s else ""
            yield (
                f"{info.name}: {repeats:.0%} of its samples repeat the one before{longer}: if the sensor holds its "
                "values, the interval is too narrow"
            )


def _wide_intervals(summary: Sums) -> Iterator[str]:
    wide = [
        (info, estimate)
        for info, estimate in _known(summary)
        if not estimate.reason and estimate.uncertainty_j > WIDE * abs(estimate.energy_j) > 0
    ]
    if not wide:
        return
    widest, estimate = max(wide, key=lambda one: one[1].uncertainty_j / abs(one[1].energy_j))
    names = first_of([widest, *(info for info, _ in wide if info is not widest)])
    share = estimate.uncertainty_j / abs(estimate.energy_j)
    missing = f", and {estimate.missing} are missing" if estimate.missing else ": sample faster or run longer"
    yield f"{names}: the energy has an uncertainty of ±{100 * share:.0f} %, by {estimate.samples} samples{missing}"


def _slopes_of_counters(summary: Sums) -> Iterator[str]:
    if slopes := [info for info in summary.infos if info.from_counter]:
        yield f"{first_of(slopes)}: power is the slope of the counter, so nothing checks the counter"


def _brief_regions(summary: Sums) -> Iterator[str]:
    for info in summary.infos:
        resolves_s = max(info.period_s, info.averaging_s, summary.interval_s)
        brief = [region for region in summary.regions.values() if region.shortest_s < resolves_s]
        if brief:
            shortest = min(brief, key=lambda region: region.shortest_s)
            others = f"; so did {number_of(len(brief) - 1, 'other region')}" if len(brief) > 1 else ""
            yield (
                f"region '{short(shortest.name)}' lasted {shortest.shortest_s:.3f} s, "
                f"less than {info.name} can resolve ({resolves_s:g} s){others}"
            )


def _unknown_ends(summary: Sums) -> Iterator[str]:
    if "started" in summary.cut_short:
        yield "the trace has no start of the command: energies are those of the whole trace"
        return
    ended_s = summary.trace.event_time_s("command_ended")
    beyond_s = 0.0 if ended_s is None else ended_s - summary.trace.end_s
    if beyond_s > max(LATE_END_S, 2 * max((info.period_s for info in summary.infos), default=0.0)):
        yield f"the command ended {beyond_s:.4g} s after the last reading: the power of that time is unknown"
    elif "ended" in summary.cut_short:
        yield (
            "the trace has no end of the command: it still runs, the sampler was killed, or the disk was full; "
            "energies are those up to the last reading"
        )


def _loads_in_step(summary: Sums) -> Iterator[str]:
    alone = [info for info, _ in _known(summary) if not info.has_counter and info.seen_share >= 1]
    if holding := [info for info in alone if info.held_s]:
        yield (
            f"{first_of(holding)}: without a counter, a load in step with the sensor's hold time of "
            f"{holding[0].held_s:g} s is not detected"
        )


def _partial_sensors(summary: Sums) -> Iterator[str]:
    counted = {info.name for info, estimate in _known(summary) if estimate.method == "counter"}
    partly = [info for info in summary.infos if info.seen_share < 1]
    for some, consequence in (
        ([info for info in partly if info.name in counted], "too little to check the counter"),
        (
            [info for info in partly if not info.has_counter],
            "and there is no counter: for the rest of the time, power may have been anything from 0 to its limit",
        ),
    ):
        if some:
            yield f"{first_of(some)}: the power sensor has a duty cycle of {some[0].seen_share:.0%}, {consequence}"


def _silent_status(summary: Sums) -> Iterator[str]:
    """The first of a trace: while one does not answer, none is read."""
    for event in summary.trace.events:
        if event.name == NO_STATUS:
            at_s = event.time_s - summary.trace.start_s
            yield (
                f"{event.details.get('channel')}: its status, asked for at second {at_s:.0f} of the trace, did not "
                "answer: no device's clocks, limits and throttling are known until a later status"
            )
            return


def _faulty_marks(summary: Sums) -> Iterator[str]:
    for fault, names in summary.trace.faulty_marks().items():
        yield f"{_counted(names)} {fault}: no energy"


def _regions_at_once(summary: Sums) -> Iterator[str]:
    if at_once := [region for region in summary.regions.values() if region.at_once]:
        more = len(at_once) - 1
        others = f"; so {'were' if more > 1 else 'was'} {number_of(more, 'other region')}" if more else ""
        yield (
            f"region '{short(at_once[0].name)}' was open several times at once{others}: the energy of that time is "
            "counted several times"
        )


def _regions_outside(summary: Sums) -> Iterator[str]:
    if summary.outside:
        yield f"{_counted(summary.outside)} is outside of the trace: no energy"


KINDS = (
    _doubted_sources,
    _faulty_counters_without_power,
    _integral_too_wide_to_check,
    _sensors_that_hold_values,
    _wide_intervals,
    _slopes_of_counters,
    _brief_regions,
    _unknown_ends,
    _loads_in_step,
    _partial_sensors,
    _silent_status,
    _faulty_marks,
    _regions_at_once,
    _regions_outside,
)


def repeated_share(times_s: Sequence[float], values: Sequence[float], held_s: float) -> float:
    """Return the share of values that repeat the one before, in rows that last longer than a hold time."""
    repeats, first = 0, 0
    for _, row in groupby(values):
        number = sum(1 for _ in row)
        if number > 1 and times_s[first + number - 1] - times_s[first] > held_s:
            repeats += number - 1
        first += number
    return repeats / max(1, len(values) - 1)


def first_of(infos: Sequence[ChannelInfo]) -> str:
    """Return the name of the first channel, and the number of others."""
    return infos[0].name + (f" and {number_of(len(infos) - 1, 'other')}" if len(infos) > 1 else "")


def _counted(names: dict[str, int]) -> str:
    """Return the first names with their counts, and the number of others."""
    shown = [f"'{short(name)}'" + (f" ({times} times)" if times > 1 else "") for name, times in list(names.items())[:3]]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"region {', '.join(shown)}{more}"
