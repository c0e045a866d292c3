"""Predictions against machines whose truth is known, and against what was published."""

from __future__ import annotations

import math
import random
import statistics
from itertools import product

import pytest

from results.files.systems import read_systems
from results.predict import (
    BETWEEN,
    BEYOND,
    OTHER_DEVICES,
    LeftOut,
    Measured,
    PredictionError,
    Ratio,
    curve,
    figure,
    groups_of,
    half_interval,
    half_of_systems,
    left_out,
    misses,
    published,
    source_of,
    too_far,
)
from results.published import throughputs
from results.tests.builder import result
from results.tests.of_dicts import by_point

BATCHES = (16, 32, 64, 128, 256, 512, 1024)


class Machine:
    """A device that starts a step in `launch`, takes `sample` for each and `step` for all, and scales so well."""

    def __init__(self, launch=0.1, sample=0.01, step=0.05, slower=0.03, noise=0.0, seed=1):
        self.launch, self.sample, self.step, self.slower = launch, sample, step, slower
        self.noise, self.random = noise, random.Random(seed)

    def point(self, devices, batch):
        work = self.sample * batch / devices + self.step
        seconds = (work**4 + self.launch**4) ** 0.25 * devices**self.slower
        return Measured(devices, batch, batch / seconds * math.exp(self.random.gauss(0, self.noise)))

    def sweep(self, devices=(1, 2, 4), batches=BATCHES):
        return [self.point(number, batch) for number, batch in product(devices, batches)]


MACHINES = {
    "bound by its work": {},
    "scales badly": {"slower": 0.6},
    "fast and small": {"launch": 1e-4, "sample": 1e-5, "step": 1e-5},
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_curve_finds_what_lies_between_and_beyond(name):
    machine = Machine(**MACHINES[name])
    per_s = curve(machine.sweep())
    for devices, batch in ((1, 48), (2, 200), (4, 700), (3, 96), (4, 2048), (8, 1024)):
        assert per_s(devices, batch) == pytest.approx(machine.point(devices, batch).per_s, rel=0.03)


@pytest.mark.parametrize(
    ("devices", "batch", "source"),
    [(1, 32, BETWEEN), (1, 2048, BEYOND), (1, 8, BEYOND), (2, 64, OTHER_DEVICES), (8, 64, OTHER_DEVICES)],
)
def test_what_predicts_a_point_is_what_was_measured_around_it(devices, batch, source):
    points = Machine().sweep((1, 4), (16, 64, 1024))
    assert not too_far(points, devices, batch)
    assert source_of(points, devices, batch) == source


@pytest.mark.parametrize(("devices", "batch"), [(9, 64), (1, 2049), (1, 7), (2, 4100)])
def test_what_is_too_far_is_refused(devices, batch):
    words = too_far(Machine().sweep((1, 4), (16, 64, 1024)), devices, batch)
    assert "not within 2 times or half of what was measured" in words


def test_a_point_that_is_left_out_does_not_tell_of_itself():
    points = Machine(noise=0.02).sweep()
    changed = [*points[:5], points[5]._replace(per_s=points[5].per_s * 2), *points[6:]]
    before, after = ([one for one in left_out(sweep) if one.point[:2] == points[5][:2]] for sweep in (points, changed))
    assert [one.source for one in after] == [BETWEEN, OTHER_DEVICES]
    for one, other in zip(before, after, strict=True):
        assert other.error == pytest.approx(one.error - math.log(2), abs=0.01)


def errors(*sizes, source=BEYOND, devices=1):
    return [LeftOut(Measured(devices, 2**index, 1.0), source, size) for index, size in enumerate(sizes)]


def test_half_of_an_interval_is_students_t_of_the_errors():
    spread = math.sqrt((0.1**2 + 0.2**2 + 0.1**2) / 3)
    beyond = errors(0.1, -0.2, 0.1)
    assert half_interval(beyond, BEYOND) == pytest.approx(3.182 * spread, rel=1e-3)  # of 3, from tables
    assert half_interval([*beyond, *errors(5.0, source=BETWEEN)], BEYOND) == half_interval(beyond, BEYOND)
    assert half_interval(beyond, BETWEEN) == half_interval(beyond, BEYOND)  # more than it needs
    rows = [*errors(*[0.1] * 50, source=OTHER_DEVICES), *errors(0.3, source=OTHER_DEVICES, devices=2)]
    spread = math.sqrt((0.1**2 + 0.3**2) / 2)
    assert half_interval(rows, OTHER_DEVICES) == pytest.approx(4.303 * spread, rel=1e-3)  # of 2
    assert half_interval(rows[:50], OTHER_DEVICES) == half_interval([], BEYOND) == math.inf


def published_sweeps():
    sweeps = {}
    for benchmark, model in (("llm_training", "800M"), ("resnet50", "ResNet-50")):
        for one in throughputs(benchmark, model):
            if one.figure.benchmark != "mlperf":
                points = sweeps.setdefault((benchmark, one.system), [])
                points.append(Measured(one.devices, one.global_batch, one.units_per_s))
    return {name: points for name, points in sweeps.items() if len(points) > 3}


def test_published_points_are_predicted_as_well_as_the_documentation_says():
    sizes = {}
    for (benchmark, _), points in published_sweeps().items():
        for one in left_out(points):
            sizes.setdefault((benchmark, one.source), []).append(abs(math.expm1(one.error)))
    medians = {key: (len(mine), statistics.median(mine)) for key, mine in sizes.items()}
    assert medians == {
        ("llm_training", BETWEEN): (25, pytest.approx(0.005, abs=0.001)),
        ("llm_training", BEYOND): (12, pytest.approx(0.012, abs=0.002)),
        ("llm_training", OTHER_DEVICES): (13, pytest.approx(0.017, abs=0.002)),
        ("resnet50", BETWEEN): (147, pytest.approx(0.025, abs=0.002)),
        ("resnet50", BEYOND): (48, pytest.approx(0.028, abs=0.002)),
        ("resnet50", OTHER_DEVICES): (188, pytest.approx(0.045, abs=0.002)),
    }


@pytest.mark.slow
def test_intervals_hold_published_points_that_were_left_out():
    """Each interval is made without the point, or without its number of devices."""
    held = []
    for points in published_sweeps().values():
        for one in left_out(points):
            kept = [
                other
                for other in points
                if (other.devices != one.point.devices if one.source == OTHER_DEVICES else other != one.point)
            ]
            half = half_interval(left_out(kept), one.source)
            held += [abs(one.error) <= half] if half < math.inf else []
    assert len(held) > 400
    assert sum(held) / len(held) > 0.92


def known_as(precision="fp16"):
    return {name: figure(block, precision) for name, block in read_systems().items()}


@pytest.mark.parametrize(
    ("benchmark", "model", "held"), [("llm_training", "800M", 1.0), ("resnet50", "ResNet-50", 0.96)]
)
def test_the_ratio_of_data_sheets_holds_published_systems_that_were_left_out(benchmark, model, held):
    first = by_point([result(precision="bf16")])[0]
    series = published_like(first, benchmark, model)
    within = []
    for asked in series:
        half = half_of_systems([{name: mine for name, mine in series.items() if name != asked}])
        within += [abs(error) <= half for (name, _), mine in misses(series).items() if name == asked for error in mine]
    assert len(within) > 80
    assert sum(within) / len(within) >= held


def published_like(one, benchmark, model):
    return published(one._replace(point=one.point._replace(benchmark=benchmark, model=model)))


def test_the_error_of_two_systems_or_of_none_at_the_same_points_is_not_known():
    place, other = {(1, 8): 1.0}, {(1, 16): 1.0}
    assert half_of_systems([]) == half_of_systems([{"A": place, "B": place}]) == math.inf
    assert half_of_systems([{"A": place, "B": other, "C": {(2, 8): 1.0}}]) == math.inf
    assert half_of_systems([{"A": place, "B": place}, {"C": place, "D": place}]) < math.inf


def measured_on(systems, off=0.0, precision="bf16"):
    """Points of which two systems are as fast as their data sheets say, but for a factor, and one is slower by it."""
    figures = known_as(precision)
    return [
        result(name, 4, 64, 10 * figures[name] * math.exp(sign * off), model="tiny", precision=precision)
        for name, sign in zip(systems, (1, -1, 1), strict=False)
    ]


def ratio(made, system="H200"):
    return Ratio(groups_of(by_point(made)), system)


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_a_system_without_runs_is_predicted_by_its_data_sheet(precision):
    systems = ("H100", "JEDI", "WAIH100")
    found = ratio(measured_on(systems, 0.1, precision=precision)).predict(4, 64)
    truth = 10 * known_as(precision)["H200"]
    assert found.per_s == pytest.approx(truth * math.exp(0.1 / 3))  # the geometric mean of what three systems give
    half = 4.303 * math.sqrt((0.2**2 + 0.2**2 + 0.0) / 3)  # Student's t of 2, over the three pairs
    assert math.log(found.interval.high / found.per_s) == pytest.approx(half, rel=1e-3)
    assert found.interval.low < truth < found.interval.high
    assert found.system == "H200"
    assert all(name in found.source for name in systems)


def of_memory(made, used_bytes):
    for one in made:
        one["devices"] = [{**one["devices"][0], "rank": rank, "peak_memory_bytes": used_bytes} for rank in range(4)]
    return made


THREE = ("H100", "JEDI", "WAIH100")


@pytest.mark.parametrize(
    ("make", "system", "place", "words"),
    [
        (lambda: measured_on(THREE[:2]), "H200", (4, 64), "not known for tiny in bf16, which needs 3 systems"),
        (lambda: of_memory(measured_on(THREE), 70e9), "A100", (4, 64), "A100 has 40 GB .* took up to 70"),
    ],
)
def test_a_system_whose_error_or_limits_are_not_known_is_refused(make, system, place, words):
    with pytest.raises(PredictionError, match=words):
        ratio(make(), system).predict(*place)


def newer():
    return {**result()["provenance"], "packages": {"torch": "2.20.0"}}


def records(machine, devices=(1, 2, 4), batches=BATCHES, without=(), **changes):
    made = []
    for one in machine.sweep(devices, batches):
        if one[:2] not in without:
            made.append(result("A100", *one, **changes))
    return made


def test_a_third_of_a_sweep_is_predicted_from_the_rest():
    machine = Machine(sample=1e-5, step=5e-5, launch=1e-4, noise=0.01)
    truth = {(one.point.devices, one.point.global_batch): one for one in by_point(records(machine))}
    places = list(truth)[1::3]
    [group] = groups_of(by_point(records(Machine(sample=1e-5, step=5e-5, launch=1e-4, noise=0.01), without=places)))
    assert not group.places & set(places)
    for place in places:
        found = group.predict(*place)
        known = truth[place].value("metrics.tokens_per_s")
        assert found.per_s == pytest.approx(known, rel=0.04)
        assert found.interval.low < known < found.interval.high


def test_another_precision_makes_another_group():
    points = by_point([*records(Machine()), *records(Machine(sample=0.02), variant=["fp8"], precision="fp8")])
    assert len(groups_of(points)) == 2


def test_software_that_shares_no_point_makes_another_group():
    older = records(Machine(), batches=BATCHES[:4])
    made = by_point([*older, *records(Machine(sample=0.005), batches=BATCHES[3:], provenance=newer())])
    found = groups_of(made)
    assert [(len(group.points), group.variant[-1]) for group in found] == [(12, "torch 2.13.0"), (12, "torch 2.20.0")]
    with pytest.raises(PredictionError, match="not within 2 times"):
        found[0].predict(4, 1024)


def test_one_number_of_devices_tells_of_no_other():
    [group] = groups_of(by_point(records(Machine(), (4,))))
    with pytest.raises(PredictionError, match="predicted from other numbers of devices, is not known: measure"):
        group.predict(8, 64)


def on_one_node(made):
    """Records whose processes share the cores of one node."""
    for one in made:
        one["devices"] = [
            {**one["devices"][0], "rank": rank, "name": "CPU, 2 threads"}
            for rank in range(one["layout"]["num_devices"])
        ]
    return made


@pytest.mark.parametrize("devices", [(1, 2), (1,)])
def test_processes_that_share_cores_are_not_predicted_as_more_devices(devices):
    [group] = groups_of(by_point(on_one_node(records(Machine(), devices))))
    with pytest.raises(PredictionError, match=f"share the cores of one node: ask for at most {max(devices)}"):
        group.predict(2 * max(devices), 64)
    assert group.predict(max(devices), 48).per_s > 0


def test_a_workload_whose_micro_batch_is_that_of_its_batch_is_one_sweep():
    made = records(Machine(), benchmark="resnet50", work_unit="images")
    for one in made:
        layout = one["layout"]
        layout["micro_batch_size"] = layout["global_batch_size"] // layout["num_devices"]
        for group in ("metrics", "energy"):
            one[group] = {name.replace("tokens", "images"): value for name, value in one[group].items()}
    [group] = groups_of(by_point(made))
    assert len(group.points) == 21
    assert group.variant == ()
