"""Answers to requirements from a system's runs: a number with its interval, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from record.findings import Finding, finding
from record.values import PER_DEVICE, count, devices_text, grouped
from results.find.records import RecordError
from results.points.estimate import Estimate, Interval, exactly, trimmed_mean
from results.points.facts import Setup
from results.points.repeats import PointResults
from results.verdicts.power_level import LEVELS, lowest_level
from results.verdicts.quality import ESTIMATE, deviations, grade, missed, why_not_ranked, window_too_short
from results.verdicts.ranking import fastest, ranked_points, why_left_out
from results.verdicts.requirements import LATENCIES, MEASURED, SECONDS, TIMES, TO_LOSS, Quantity, Selection
from results.verdicts.scale import setup_at_scale, unlike_setups

GOODPUT_OF_REQUESTS = "goodput"
LONGEST = 200  # characters of the names of places in one sentence
NO_NUMBER = "no run has this number"


class Answer(NamedTuple):
    """Value of a quantity: a number with its interval, or one that is exact; none if there is a reason, `why_not`."""

    value: float | str | None = None  # a number, or a grade
    interval: Interval | None = None  # none of a single run
    unit: str = ""
    at: str = ""  # the point, as text
    why_not: Finding | None = None
    is_failure: bool = False  # there is no number because all runs failed, or break the limits asked for
    is_exact: bool = False
    points: int = 1  # number of points that it is the best of
    doubts: tuple[Finding, ...] = ()  # limitations of its runs
    estimate: Estimate | None = None
    by_sampling: Interval | None = None  # for an energy: without the accuracy of its sensor
    best: PointResults | None = None  # the point
    award: float | None = None  # for a score: its points in the tender, those at the minimum x score / minimum


def check_alike(results: Sequence[PointResults], workloads: Mapping[str, Selection]) -> None:
    """Raise RecordError if the runs of a workload differ in model or data, as the best of them would be ambiguous."""
    for name, wanted in workloads.items():
        points = [one.point for one in ranked_points(wanted.of(results))]
        for fact in ("model", "data", "sample"):
            values = sorted({getattr(point, fact) for point in points})
            if len(values) > 1:
                raise RecordError(f"the runs of {name} are of {' and '.join(values)}: set '{fact}' of the workload")


def answer(mine: Sequence[PointResults], quantity: Quantity, machine: int | None) -> Answer:
    """Return a system's value of a quantity from its points of the workload, or why it has none.

    machine: devices of the whole machine, if they are known.
    """
    if not mine:
        return Answer(why_not=finding("no_run", why="no run of this workload"))
    at_place = at(mine, quantity)
    if quantity.what == "machine_time":
        if not machine:
            unknown = "the devices of the machine are not known: give a pledge, or a budget"
            return Answer(why_not=finding("unclear", why=unknown))
        if (filled := max((one.point.devices for one in at_place if one.point.copies), default=machine)) < machine:
            return Answer(why_not=finding("part_filled", filled=filled, devices=machine))
        at_place = [one for one in at_place if not one.point.copies or one.point.devices >= machine]
    if quantity.what == "failed_runs":
        runs = sum(len(one.good) + len(one.bad) for one in at_place)
        if not runs:
            return Answer(why_not=_nothing_there(mine))
        return Answer(sum(len(one.bad) for one in at_place), unit=f"of {count(runs, 'run')}", is_exact=True)
    if quantity.what in TO_LOSS:
        return _to_loss([one for one in at_place if one.point.to_loss], quantity)
    good = ranked_points(at_place)
    if not good:
        return _no_run(mine, at_place)
    if quantity.within_limits:
        is_known = any(one.keeps_limits is not None for one in good)
        good = [one for one in good if one.keeps_limits]
        if not good:
            return Answer(why_not=finding("no_load_within_limits"), is_failure=is_known)
    if quantity.what in ("energy_grade", "power_level"):
        return _of_energies(good, quantity.what)
    if quantity.what == "scaling_efficiency":
        return _scaling(mine, good, quantity)
    return _best(good, quantity, machine)


def _to_loss(trained: Sequence[PointResults], quantity: Quantity) -> Answer:
    """Return the answer at the best of the points that were trained to one loss."""
    if not trained:
        return Answer(why_not=finding("not_to_loss"))
    targets = sorted({one.point.to_loss for one in trained})
    if len(targets) > 1:
        words = " and ".join(f"{one:g}" for one in targets)
        return Answer(why_not=finding("unclear", why=f"its runs are trained to the losses {words}: fix window.to_loss"))
    if why := next(filter(None, map(missed, trained)), None):
        return Answer(why_not=why, is_failure=True)
    good = [one for one in trained if one.good and not one.wrong]
    return _best(good, quantity) if good else _no_run(trained, trained)


def _of_energies(good: Sequence[PointResults], what: str) -> Answer:
    """Return the lowest grade of the runs' energies, or the lowest level of the methodology with what it lacks."""
    records = [record for one in good for record in one.good]
    worst = lowest_level(records)
    known = [one for one in map(grade, records) if one is not None]
    if worst is None or len(known) < len(records):
        return Answer(why_not=finding("no_energy", why="runs without an energy"))
    is_none = min(known) == ESTIMATE if what == "energy_grade" else not worst.level
    reasons = [] if is_none else list(filter(None, map(why_not_ranked, good)))
    if reasons:
        return Answer(why_not=finding("energy_left_out", reasons=(reasons[0],)))
    if what == "energy_grade":
        return Answer(min(known), is_exact=True)
    return Answer(worst.level, unit=f"of {LEVELS[-1]}", is_exact=True, doubts=worst.lacking)


def at(results: Sequence[PointResults], quantity: Quantity) -> list[PointResults]:
    """Return the points on the devices and at the batch size of a quantity."""
    return [
        one
        for one in results
        if one.limits.are(quantity.power_limit_w, quantity.clock_limit_mhz)
        if quantity.devices in (None, one.point.devices) and quantity.global_batch in (None, one.point.global_batch)
    ]


def _nothing_there(mine: Sequence[PointResults]) -> Finding:
    limits = {one.limits for one in mine}
    every = [f"{one.point.place}, {one.limits}" if len(limits) > 1 else one.point.place for one in mine]
    places = ", ".join(dict.fromkeys(every))
    return finding("no_run", why="no run at this point" + (f", only at {places}" if len(places) < LONGEST else ""))


def _no_run(mine: Sequence[PointResults], at_place: Sequence[PointResults]) -> Answer:
    if not at_place:
        return Answer(why_not=_nothing_there(mine))
    left_out = dict.fromkeys(why for one in at_place if one.good and (why := why_left_out(one)))
    if left_out:
        return Answer(why_not=finding("runs_left_out", reasons=tuple(left_out)))
    bad = [record for one in at_place for record in one.bad]
    states = " and ".join(dict.fromkeys(record.status.replace("_", " ") for record in bad))
    runs = f"all {len(bad)} runs" if len(bad) > 1 else "the one run"
    return Answer(why_not=finding("repeats_needed", why=f"{runs}: {states}"), is_failure=True)


def _best(good: Sequence[PointResults], quantity: Quantity, machine: int | None = None) -> Answer:
    """Return the answer at the best of the points."""
    measured = (TIMES | MEASURED)[quantity.what]
    path = measured.path
    is_energy = path.startswith("energy.")
    left_out = [window_too_short(one, path) or (why_not_ranked(one) if is_energy else None) for one in good]
    usable = [one for one, why in zip(good, left_out, strict=True) if not why]
    if not usable:
        reasons = tuple(dict.fromkeys(filter(None, left_out)))
        return Answer(why_not=finding("energy_left_out" if is_energy else "runs_left_out", reasons=reasons))
    best = fastest(usable, path, is_least=measured.better == "less")
    if best is None or best.estimate(path) is None:
        return Answer(why_not=finding("no_run", why=NO_NUMBER))
    if len(best.good) < quantity.of_runs:
        few = finding("repeats_needed", why=f"{len(best.good)} good runs, {quantity.of_runs} wanted")
        return Answer(why_not=few, at=_where(best))
    estimate = _estimate(best, path, quantity, machine, with_accuracy=True)
    interval = estimate.interval_of_best(len(usable))
    if interval and quantity.what in LATENCIES:
        own = best.own_interval(path)
        interval = Interval(min(interval.low, own.low), max(interval.high, own.high))
    by_sampling = _estimate(best, path, quantity, machine, with_accuracy=False) if is_energy else None
    return Answer(
        estimate.value,
        interval,
        unit=quantity.unit if quantity.what in TIMES else measured.of(best.any.work_unit).unit,
        at=_where(best),
        points=len(usable),
        doubts=(*_own_marks(best, quantity), *deviations(best, is_energy)),
        estimate=estimate,
        by_sampling=by_sampling.interval_of_best(len(usable)) if by_sampling else None,
        best=best,
    )


def _own_marks(best: PointResults, quantity: Quantity) -> Iterator[Finding]:
    """Yield what a quantity is measured by and the runs themselves state."""
    if quantity.within_limits or quantity.what == GOODPUT_OF_REQUESTS:
        slo = best.any.serving.slo
        yield finding("own_mark", what="the preset of limits of TTFT and TPOT", value=slo, option="load.slo")
    if quantity.what in TO_LOSS:
        target = f"{best.point.to_loss:g}"
        yield finding("own_mark", what="the loss to train to", value=target, option="window.to_loss")


def _estimate(best: PointResults, path: str, quantity: Quantity, machine: int | None, with_accuracy: bool) -> Estimate:
    estimate, values = best.estimate(path, with_accuracy), best.values(path)
    assert estimate
    is_time = quantity.what in TIMES
    if is_time:
        devices = (machine or math.nan) if quantity.what == "machine_time" else 1
        seconds = (quantity.work or math.nan) / SECONDS[quantity.unit] / devices
        estimate, values = exactly(seconds) / estimate, [seconds / value for value in values]
    if any(ends := (quantity.without_fastest, quantity.without_slowest)):
        shared = best.sensor_parts(path, with_accuracy)
        estimate = trimmed_mean(values, *(ends if is_time else ends[::-1]), shared)
    return estimate


def _scaling(mine: Sequence[PointResults], good: Sequence[PointResults], quantity: Quantity) -> Answer:
    """Return the throughput per device on many devices over that on few, each at its best batch size, in one setup.

    If there are several setups, the one in which many devices are fastest counts.
    """
    ranked = ranked_points(mine)
    few_devices = quantity.from_devices or min(one.point.devices for one in ranked)
    many_devices = max(one.point.devices for one in good)
    if many_devices == few_devices:
        return Answer(why_not=finding("more_devices", devices=few_devices))
    small = [one for one in ranked if one.point.devices == few_devices]
    large = [one for one in good if one.point.devices == many_devices]
    if not small:
        return Answer(why_not=finding("no_run", why=f"no run on {devices_text(few_devices)}"))
    few, many = map(_best_by_setup, (small, large))
    if not few or not many:
        return Answer(why_not=finding("no_run", why=NO_NUMBER))
    pairs = [(many[setup], few[setup]) for setup in many if setup in few]
    if not pairs:
        return Answer(why_not=unlike_setups(max(few.values(), key=_speed), max(many.values(), key=_speed)))
    of_many, of_few = max(pairs, key=lambda pair: _speed(pair[0]))
    ratio = of_many.over(of_few, PER_DEVICE)
    if ratio is None:
        return Answer(why_not=finding("no_run", why=NO_NUMBER))
    doubts = tuple(dict.fromkeys([*deviations(of_many, False), *deviations(of_few, False)]))
    interval, where = ratio.interval_of_best(len(large)), f"{_where(of_many)} over {_where(of_few)}"
    return Answer(ratio.value, interval, at=where, points=len(large), doubts=doubts, estimate=ratio)


def _best_by_setup(points: Sequence[PointResults]) -> dict[Setup, PointResults]:
    best = {setup: fastest(alike) for setup, alike in grouped(points, setup_at_scale).items()}
    return {setup: one for setup, one in best.items() if one}


def _speed(one: PointResults) -> float:
    return one.value(PER_DEVICE) or 0.0


def _where(one: PointResults) -> str:
    return ", ".join([one.point.place, *one.variant])
