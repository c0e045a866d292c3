"""Predictions against machines whose truth is known, and against what was published."""

from __future__ import annotations

import csv
import math
import random
from itertools import product
from pathlib import Path

import pytest

from results.predict.curve import Curve, Measured
from results.predict.datasheet import Datasheet, Example, Hardware
from results.predict.examples import TRAINING, hardware, read_training
from results.predict.leave_out import (
    BETWEEN,
    BEYOND,
    CALIBRATED,
    DATASHEET,
    DEVICES,
    INTERPOLATED,
    NEXT,
    SCALING,
    SPARSE,
    distance,
    disturbed,
    half_interval,
    left_out,
)
from results.predict.predict import (
    Power,
    PredictionError,
    groups_of,
    not_measured,
    published_left_out,
    published_sweeps,
)
from results.predict.step_work import Layout, Shape, decoder_work, image_work
from results.predict.unmeasured import KNOWN_SOFTWARE, OTHER_SOFTWARE, OWN, Missed, half_of, predict_step
from results.predict.validate import errors_of, validated, validated_datasheets, validated_points
from results.record.records import RecordError
from results.show.tables.prediction import disturbed_words, error_table, prediction_table
from results.tests.made_up import failed, result
from results.tests.of_dicts import by_point, write_report

pytestmark = pytest.mark.arithmetic

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
    "bound by launching": {"launch": 3.0},
    "a large step": {"step": 2.0},
    "scales badly": {"slower": 0.6},
    "fast and small": {"launch": 1e-4, "sample": 1e-5, "step": 1e-5},
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_curve_finds_what_lies_between_and_beyond(name):
    machine = Machine(**MACHINES[name])
    curve = Curve(machine.sweep())
    for devices, batch in ((1, 48), (2, 200), (4, 700), (3, 96), (4, 2048), (8, 1024)):
        assert curve.per_s(devices, batch) == pytest.approx(machine.point(devices, batch).per_s, rel=0.03)


def test_one_disturbed_point_does_not_bend_a_curve():
    machine = Machine()
    points = machine.sweep()
    points[3] = points[3]._replace(per_s=points[3].per_s / 3)
    for devices, batch in ((2, 48), (4, 700), (4, 2048)):
        assert Curve(points).per_s(devices, batch) == pytest.approx(machine.point(devices, batch).per_s, rel=0.05)


def test_a_curve_needs_two_points():
    with pytest.raises(ValueError, match="1 points are fewer"):
        Curve([Measured(1, 16, 100.0)])


@pytest.mark.parametrize(
    ("devices", "batch", "far"),
    [
        (1, 32, BETWEEN),
        (1, 256, SPARSE),
        (1, 2048, NEXT),
        (1, 4096, BEYOND),
        (1, 4, BEYOND),
        (2, 64, DEVICES),
        (16, 64, DEVICES),
    ],
)
def test_how_far_a_question_is_from_what_was_measured(devices, batch, far):
    points = Machine().sweep((1, 4), (16, 64, 1024))
    assert distance(points, devices, batch) == far


def test_scaling_from_one_number_of_devices_is_told_apart():
    assert distance(Machine().sweep((4,)), 8, 64) == SCALING


@pytest.mark.parametrize(("devices", "batch"), [(17, 64), (1, 4097), (1, 3), (64, 1024), (2, 5000)])
def test_what_is_too_far_is_refused(devices, batch):
    with pytest.raises(ValueError, match="more than 4 times above or below"):
        distance(Machine().sweep((1, 4), (16, 64, 1024)), devices, batch)


def test_a_point_that_is_left_out_does_not_tell_of_itself():
    points = Machine(noise=0.02).sweep()
    changed = [*points[:5], points[5]._replace(per_s=points[5].per_s * 2), *points[6:]]
    before, after = (
        [one for one in left_out(sweep) if one.point[:2] == points[5][:2] and one.kept == len(points) - 1]
        for sweep in (points, changed)
    )
    assert after[0].error == pytest.approx(before[0].error - math.log(2), abs=1e-9)


def test_every_way_of_asking_is_tried():
    assert {one.distance for one in left_out(Machine().sweep())} == {BETWEEN, SPARSE, NEXT, BEYOND, DEVICES, SCALING}


def test_half_of_an_interval_is_the_conformal_quantile():
    assert half_interval([0.1] * 18) == math.inf
    assert half_interval([*[0.1] * 18, -0.7]) == 0.7
    assert half_interval([0.01 * index for index in range(1, 101)]) == pytest.approx(0.96)


def test_intervals_hold_the_next_error_in_95_of_100_cases():
    generator = random.Random(5)
    held = 0
    for _ in range(2000):
        *known, asked = (generator.gauss(0, 0.1) ** 3 for _ in range(61))
        held += abs(asked) <= half_interval(known)
    assert 0.93 < held / 2000 < 0.975


def published(benchmark, *distances):
    return [
        one
        for (name, _), mine in published_left_out().items()
        if name == benchmark
        for one in mine
        if one.distance in distances
    ]


@pytest.mark.parametrize(
    ("benchmark", "distances", "geometric_mean", "mean", "largest"),
    [
        ("resnet50", (BETWEEN, NEXT), 0.026, 0.043, 0.38),
        ("llm_training", (BETWEEN, NEXT), 0.0075, 0.02, 0.27),
        ("resnet50", (DEVICES,), 0.044, 0.071, 0.26),
    ],
)
def test_published_points_are_predicted_as_well_as_is_claimed(benchmark, distances, geometric_mean, mean, largest):
    found = errors_of("", "", "", [(one.error, math.inf) for one in published(benchmark, *distances)])
    assert found.geometric_mean <= geometric_mean
    assert found.mean <= mean
    assert found.largest <= largest


def test_intervals_hold_points_of_systems_that_they_do_not_know():
    found = list(validated())
    assert {one.level for one in found} == {INTERPOLATED, CALIBRATED}
    assert sum(one.held for one in found) / sum(one.points for one in found) > 0.9
    for one in found:
        if one.points > 100:
            assert one.held / one.points > 0.89, one


def test_datasheets_tell_as_much_as_is_claimed():
    known = {one.of: one for one in validated_datasheets() if one.what == KNOWN_SOFTWARE}
    foundry = [one for of, one in known.items() if "llm-foundry, 16bit" in of]
    assert sum(one.points for one in foundry) == 209
    assert all(one.median < 0.09 and one.mean < 0.1 and one.largest < 0.4 for one in foundry)
    caraml = [one for of, one in known.items() if "CARAML, 16bit" in of]
    assert sum(one.points * one.mean for one in caraml) / sum(one.points for one in caraml) < 0.12


@pytest.mark.parametrize("what", [KNOWN_SOFTWARE, OTHER_SOFTWARE])
def test_intervals_hold_points_of_sources_that_they_do_not_know(what):
    """The points of a source are held by an interval that no point of it made, and each of its devices' as well."""
    found = [one for one in validated_datasheets() if one.what == what and "16bit" in one.of]
    assert {one.level for one in found} == {DATASHEET}
    assert sum(one.held for one in found) / sum(one.points for one in found) >= 0.95
    for one in found:
        assert one.held / one.points > 0.94, one


def test_a_precision_that_too_few_sources_published_has_no_interval():
    found = {one.of: one.held for one in validated_datasheets() if "16bit" not in one.of}
    assert {of.split(", ")[2] for of in found} == {"fp8", "fp4"}
    assert set(found.values()) == {None}


@pytest.mark.parametrize("precision", ["fp8", "fp4"])
def test_a_step_in_a_precision_that_too_few_sources_published_is_refused(precision):
    work = decoder_work(SHAPE, Layout(8, 64, 4))
    asked = hardware("b200", precision, 8)
    with pytest.raises(PredictionError, match=f"b200 in {precision} was asked for .* are known .* measure on it"):
        predict_step("llm_training", work, asked, 8)
    own = [Example(OWN, hardware("gb200", "bf16", 4), 8, work, 0.5)]
    with pytest.raises(PredictionError, match="sources are known"):  # runs in 16 bit do not make fp8 known
        predict_step("llm_training", work, asked, 8, own)
    assert predict_step("llm_training", work, hardware("b200", "bf16", 8), 8, own).what == KNOWN_SOFTWARE


@pytest.mark.parametrize("source", ["mosaicml", "FZJ-JSC", "NVIDIA-NeMo"])
def test_points_that_are_given_do_not_make_their_own_interval(source, tmp_path):
    with TRAINING.open(newline="") as file:
        mine = [row for row in csv.DictReader(file) if row["source"].startswith(source)]
    found = list(validated_points(write_rows(tmp_path / "points.csv", *mine)))
    assert {one.what for one in found} == {OTHER_SOFTWARE}
    assert {one.held for one in found} == {None}  # two sources are left in 16 bit, and fewer in others


def test_points_of_a_source_that_nobody_knows_are_held(tmp_path):
    """Points of torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, as if its H100 had 700 W and HBM3."""
    llama = {
        "source": "pytorch/torchtitan",
        "model": "Llama 3.1 8B",
        "params_total": 8.03e9,
        "layers": 32,
        "hidden": 4096,
        "ffn": 14336,
        "heads": 32,
        "kv_heads": 8,
        "vocab": 128256,
        "seq": 8192,
        "mbs": 2,
        "recompute": "",
    }
    rows = [
        rows_of_training(**llama, precision=precision, gpus=gpus, gbs=2 * gpus, tokens_s_gpu=speed)
        for precision, gpus, speed in (
            ("bf16", 8, 5762),
            ("bf16", 8, 6667),
            ("bf16", 128, 5605),
            ("bf16", 128, 6514),
            ("fp8", 8, 8532),
            ("fp8", 128, 8380),
        )
    ]
    found = list(validated_points(write_rows(tmp_path / "points.csv", *rows)))
    assert [(one.points, one.held) for one in found] == [(4, 4), (2, None)]


def test_the_documentation_has_the_coverage_that_is_found():
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "prediction_coverage.md").read_text()
    shown = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in page.splitlines() if line[:1] == "|"]
    found = error_table([*validated(), *validated_datasheets()]).texts()
    places = [(*row[1:4], row[-1]) for row in shown if len(row) == len(found[0]) and row[0] != "---"]
    assert places == [(*row[1:4], row[-1]) for row in found], (
        "make it again: caraml predict --validate --format markdown"
    )


def test_published_points_of_another_regime_are_named():
    named = set()
    for (benchmark, system), points in published_sweeps().items():
        found = disturbed(published_left_out()[benchmark, system], len(points))
        named |= {(benchmark, system, one.point.devices, one.point.batch) for one in found}
    assert {("llm_training", "JURECA-GH200", 1, 16), ("resnet50", "JURECA-M2000", 2, 16)} <= named
    assert len(named) < 0.05 * sum(map(len, published_sweeps().values()))


def records(machine, devices=(1, 2, 4), batches=BATCHES, without=(), **changes):
    made = []
    for one in machine.sweep(devices, batches):
        if one[:2] not in without:
            power_w = 100 + 0.02 * one.per_s / one.devices
            made.append(result("A100", *one, power_w=power_w, **changes))
    return made


def test_a_third_of_a_sweep_is_predicted_from_the_rest_with_its_energy():
    truth = {
        (one.point.devices, one.point.global_batch): one
        for one in by_point(records(Machine(sample=1e-5, step=5e-5, launch=1e-4)))
    }
    places = list(truth)[1::3]
    points = by_point(records(Machine(sample=1e-5, step=5e-5, launch=1e-4), without=places))
    [group] = groups_of(points)
    assert not_measured(group, points) == sorted(places)
    for place in places:
        found = group.predict(*place)
        for value, interval, path in (
            (found.per_s, found.per_s_interval, "metrics.tokens_per_s"),
            (found.per_wh, found.per_wh_interval, "energy.tokens_per_wh"),
        ):
            known = truth[place].value(path)
            assert value == pytest.approx(known, rel=0.03)
            assert interval.low < known < interval.high
        assert found.energy_kind == "Q1, device"


def test_a_failed_point_is_one_that_was_not_measured():
    points = by_point([*records(Machine(), without=[(2, 64)]), failed("A100", 2, 64, model="tiny")])
    [group] = groups_of(points)
    assert not_measured(group, points) == [(2, 64)]


def test_other_software_and_precision_make_another_group():
    points = by_point([*records(Machine()), *records(Machine(sample=0.02), variant=["fp8"], precision="fp8")])
    assert len(groups_of(points)) == 2


def test_software_that_shares_no_point_makes_another_group():
    newer = {**result()["provenance"], "packages": {"torch": "2.20.0"}}
    older = records(Machine(), batches=BATCHES[:4])
    made = by_point([*older, *records(Machine(sample=0.005), batches=BATCHES[3:], provenance=newer)])
    found = groups_of(made)
    assert [(len(group.points), group.variant[-1]) for group in found] == [(12, "torch 2.13.0"), (12, "torch 2.20.0")]
    with pytest.raises(PredictionError, match="more than 4 times above or below"):
        found[0].predict(4, 1024)


@pytest.mark.parametrize(
    ("devices", "batch", "words"),
    [
        (0, 64, "both must be at least 1"),
        (2, 0, "both must be at least 1"),
        (64, 64, "64 devices are more than 4 times above or below the measured 1 to 4: measure nearer"),
        (4, 8192, "batch 8192 is more than 4 times above or below the measured 16 to 1024: measure nearer"),
    ],
)
def test_what_cannot_be_told_is_refused_in_a_sentence(devices, batch, words):
    [group] = groups_of(by_point(records(Machine())))
    with pytest.raises(PredictionError, match=words):
        group.predict(devices, batch)


def of_hosts(made, hosts, name="CPU, 2 threads"):
    """Records whose processes run on so many nodes, in turn."""
    for one in made:
        one["devices"] = [
            {**one["devices"][0], "rank": rank, "name": name, "hostname": f"n{rank % hosts}"}
            for rank in range(one["layout"]["num_devices"])
        ]
    return made


@pytest.mark.parametrize("devices", [(1, 2), (1,)])
def test_processes_that_share_cores_are_not_predicted_as_more_devices(devices):
    [group] = groups_of(by_point(of_hosts(records(Machine(), devices), 1)))
    with pytest.raises(PredictionError, match=f"share the cores of one node: ask for at most {max(devices)}"):
        group.predict(2 * max(devices), 64)
    assert group.predict(max(devices), 48).per_s > 0


@pytest.mark.parametrize(("hosts", "name"), [(4, "CPU, 2 threads"), (2, "CPU, 2 threads"), (1, "NVIDIA A100")])
def test_processors_of_more_nodes_and_accelerators_are_more_devices(hosts, name):
    [group] = groups_of(by_point(of_hosts(records(Machine()), hosts, name)))
    assert group.predict(8, 64).per_s > 0


def test_two_points_are_too_few():
    [group] = groups_of(by_point(records(Machine(), (1,), (16, 32))))
    with pytest.raises(PredictionError, match="has 2 good points, but a prediction needs 3"):
        group.predict(1, 64)


def test_a_point_that_its_neighbours_predict_otherwise_is_named():
    made = records(Machine(noise=0.004), without=[(2, 128)])
    slow = Machine().point(2, 128)
    [group] = groups_of(by_point([*made, result("A100", 2, 128, slow.per_s / 1.4)]))
    [words] = disturbed_words(group)
    assert "2 devices, batch 128: outlier" in words


def test_a_sweep_as_it_should_be_names_nothing():
    for seed in range(5):
        [group] = groups_of(by_point(records(Machine(noise=0.01, seed=seed))))
        assert not group.disturbed()


def test_power_is_what_rests_and_what_each_unit_takes():
    known = [(speed, 80 + 0.5 * speed) for speed in (100.0, 200.0, 400.0)]
    power = Power(known)
    assert power.at(300.0) == pytest.approx(230)
    assert power.half == pytest.approx(0, abs=1e-6)
    assert power.at(4000.0) == 280  # never above what was measured


def test_without_a_measured_energy_none_is_predicted():
    [group] = groups_of(by_point(records(Machine(), estimated=True)))
    found = group.predict(1, 48)
    assert (found.power_w, found.per_wh, found.energy_kind) == (None, None, "")


SHAPE = Shape(16, 2048, 8192, 50304, 2048, 0.91e9)


def test_flops_of_a_decoder_are_those_of_the_paper():
    work = decoder_work(SHAPE, Layout(1, 16, 4))
    tokens, (layers, h) = 16 * 2048, SHAPE[:2]
    assert work.matmul_flops == pytest.approx(tokens * (72 * layers * h**2 + 6 * SHAPE.vocab * h))
    assert work.attention_flops == pytest.approx(tokens * 6 * layers * h * 2048)
    assert decoder_work(SHAPE, Layout(1, 16, 4, recompute=True)).attention_flops == pytest.approx(
        work.attention_flops * 4 / 3
    )


def test_devices_share_work_and_exchange():
    one, four = (decoder_work(SHAPE, Layout(devices, 64, 4)) for devices in (1, 4))
    assert four.matmul_flops == pytest.approx(one.matmul_flops / 4)
    assert one.exchanged_bytes == 0 < four.exchanged_bytes
    pipeline = decoder_work(SHAPE, Layout(4, 64, 4, pipeline=4))
    assert pipeline.bubble == pytest.approx(3 / 16)
    assert decoder_work(SHAPE, Layout(4, 64, 4, pipeline=4, interleaved=2)).bubble == pytest.approx(3 / 32)


def devices_of_all_kinds():
    generator = random.Random(3)
    return [
        Hardware(f"D{index}", generator.uniform(1, 9) * 1e14, generator.uniform(1, 8) * 1e12, 3e11, 0.0, 8, 500.0)
        for index in range(8)
    ]


def true_step_s(work, hardware, start_s):
    return (
        1.5 * work.matmul_flops / hardware.peak_flops
        + 60 * work.activation_bytes / hardware.memory_b_per_s
        + start_s * work.layers_started
    )


def test_a_device_that_is_known_by_its_datasheet_is_predicted():
    *known, asked = devices_of_all_kinds()
    works = [decoder_work(SHAPE, Layout(1, batch, micro)) for batch, micro in ((16, 1), (64, 4), (256, 16))]
    examples = [
        Example(source, one, 1, work, true_step_s(work, one, start_s))
        for source, start_s in (("slow to start", 2e-3), ("quick", 2e-4))
        for one in known
        for work in works
    ]
    sheet = Datasheet(examples)
    for work in works:
        for source, start_s in (("slow to start", 2e-3), ("quick", 2e-4)):
            assert sheet.step_s(work, asked, 1, source) == pytest.approx(true_step_s(work, asked, start_s), rel=1e-3)
        middle = sheet.step_s(work, asked, 1, "nobody knows it")
        assert middle == pytest.approx(true_step_s(work, asked, 1.1e-3), rel=1e-3)


def test_a_datasheet_needs_an_example():
    with pytest.raises(ValueError, match="needs measured points"):
        Datasheet([])


def test_a_device_with_many_points_tells_no_more_than_one_with_few():
    errors = [
        Missed(KNOWN_SOFTWARE, "S", "16bit", device, error)
        for device, error, number in (("A", 0.1, 1000), ("B", -0.5, 3), ("C", 0.1, 1))
        for _ in range(number)
    ]
    spread = math.sqrt((0.1**2 + 0.5**2 + 0.1**2) / 3)
    assert half_of(errors) == pytest.approx(3.182 * spread, rel=1e-3)  # Student's t of 3, from tables
    assert half_of(errors[:1003]) == math.inf
    assert half_of([one._replace(what=OTHER_SOFTWARE) for one in errors]) == math.inf  # one source
    assert half_of([]) == math.inf


def test_intervals_over_few_devices_hold_the_next_one_in_95_of_100_cases():
    generator = random.Random(5)

    def device(name):
        off = generator.gauss(0, 0.2)
        return [Missed(KNOWN_SOFTWARE, "S", "16bit", name, off + generator.gauss(0, 0.05)) for _ in range(6)]

    held = 0
    for _ in range(1000):
        half = half_of([one for name in "ABC" for one in device(name)])
        held += sum(abs(one.error) <= half for one in device("D")) / 6
    assert 0.93 < held / 1000 < 0.98


def test_work_of_pictures_goes_with_their_number():
    one, two = (image_work(24e9, 25e6, 1, batch) for batch in (32, 64))
    assert two.matmul_flops == pytest.approx(2 * one.matmul_flops)
    assert two.optimizer_bytes == one.optimizer_bytes


def test_rows_name_what_is_predicted_and_from_what():
    [group] = groups_of(by_point(records(Machine())))
    header, row = prediction_table([group.predict(2, 48)]).filled().texts()
    told = dict(zip(header, row, strict=True))
    assert (told["level"], told["from what was measured"]) == (INTERPOLATED, BETWEEN)
    low, middle, high = (float(told[title].replace(",", "")) for title in ("low tokens/s", "tokens/s", "high tokens/s"))
    assert low < middle < high


def test_a_report_shows_what_was_taken_away_and_ranks_none_of_it(tmp_path):
    without = [(2, 64), (4, 256)]
    made = records(Machine(), without=without, model="800M")
    files = write_report(made, [], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Points that were not measured: PREDICTED, and in no ranking" in page
    names = {path.name for path in files}
    assert {"llm_training_0_measured_predicted.png", "llm_training_0_scaling_beyond.png"} <= names
    whole = write_report(records(Machine(), model="800M"), [], tmp_path / "whole.html")
    assert "Points that were not measured" not in (tmp_path / "whole.html").read_text()
    assert len(whole) == len(files)


def test_effective_throughput_is_the_smaller_of_computing_and_reading():
    machine = Machine()

    def effective(devices, batch):
        reading_s = 0.02 * batch / devices * devices**0.5
        return batch / (reading_s**4 + (batch / machine.point(devices, batch).per_s) ** 4) ** 0.25

    made = records(machine, without=[(2, 128)])
    for one in made:
        devices, batch = (one["layout"][name] for name in ("num_devices", "global_batch_size"))
        one["metrics"]["effective_tokens_per_s"] = effective(devices, batch)
    [group] = groups_of(by_point(made))
    for devices, batch in ((2, 128), (8, 512)):
        found = group.predict(devices, batch)
        assert found.effective_per_s == pytest.approx(effective(devices, batch), rel=0.03)
        assert found.effective_interval.low < effective(devices, batch) < found.effective_interval.high
    assert groups_of(by_point(records(machine)))[0].predict(8, 512).effective_per_s is None


@pytest.mark.slow
def test_two_groups_of_one_system_are_told_apart_in_a_plot(tmp_path):
    both = [*records(Machine(), model="800M"), *records(Machine(sample=0.02), model="800M", precision="fp8")]
    write_report(both, [], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "A100, bf16, micro batch 4: 21 of 21 intervals" in page
    assert "A100, fp8, micro batch 4: 21 of 21 intervals" in page


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


def test_another_micro_batch_is_another_option_where_gradients_are_summed_up():
    made = [*records(Machine(), (1,)), *records(Machine(sample=0.02), (2, 4))]
    for one in made[len(BATCHES) :]:
        one["layout"]["micro_batch_size"] = 8
    assert {group.variant for group in groups_of(by_point(made))} == {("micro batch 4",), ("micro batch 8",)}


def rows_of_training(**changes):
    with TRAINING.open(newline="") as file:
        row = next(csv.DictReader(file))
    return {**row, **changes}


def write_rows(path, *rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_what_a_published_row_does_not_say_is_what_is_usual(tmp_path):
    whole = rows_of_training(gbs="4096", mbs="8", gpus="512", kv_heads="64", heads="64", tp="1", pp="1")
    bare = {**whole, "gbs": "", "kv_heads": "", "vp": "n/a", "tp": "", "pp": ""}
    [first, second] = read_training(write_rows(tmp_path / "rows.csv", whole, bare))
    assert first == second


def test_rows_that_tell_nothing_are_left_out(tmp_path):
    rows = rows_of_training(layers=""), rows_of_training(tokens_s_gpu=""), rows_of_training(section="LoRA Performance")
    assert read_training(write_rows(tmp_path / "rows.csv", *rows)) == []


@pytest.mark.parametrize(
    "name",
    ["h100_96gb_hbm2e_500w", "h100_nvl", "h200", "H200_NVL", "b200_pcie", "gb200_nvl4", "mi300x", "a100", "abacus"],
)
def test_a_variant_of_a_device_is_taken_for_no_other(name, tmp_path):
    for ask in (
        lambda: hardware(name, "bf16", 8),
        lambda: read_training(write_rows(tmp_path / "rows.csv", rows_of_training(gpu=name))),
    ):
        with pytest.raises(
            RecordError, match=f"device '{name}' was asked for, .* has only a100_40gb, .*: add a row of its"
        ):
            ask()


def test_a_device_is_found_by_its_name_and_precision():
    assert hardware("H200_141GB", "bf16", 8) == hardware("h200_141gb", "amp_bf16", 8)
    assert hardware("h100_80gb", "amp_fp8", 8).peak_flops == 2 * hardware("h100_80gb", "bf16", 8).peak_flops + 1e12
    assert hardware("b200", "MXFP8", 8) == hardware("b200", "fp8", 8)


@pytest.mark.parametrize(
    ("name", "precision"),
    [("a100_80gb", "fp8"), ("v100_16gb", "amp_fp8"), ("h100_80gb", "NVFP4"), ("h100_80gb", "fp32")],
)
def test_a_precision_without_a_peak_is_taken_for_no_other(name, precision):
    with pytest.raises(RecordError, match=f"precision '{precision}' was asked for, but .* has no peak of {name} in it"):
        hardware(name, precision, 8)


def test_where_nothing_was_published_own_runs_on_three_systems_tell():
    *known, asked = devices_of_all_kinds()[:5]
    own = [
        Example(OWN, one, 1, work, true_step_s(work, one, 1e-3))
        for one in known
        for work in (image_work(1e12, 8e6, 1, batch) for batch in (4, 8, 16, 32, 64))
    ]
    work = image_work(1e12, 8e6, 1, 24)
    step = predict_step("cosmoflow", work, asked, 1, own)
    assert step.step_s == pytest.approx(true_step_s(work, asked, 1e-3), rel=1e-3)
    assert step.half < 0.01
    for few, words in (
        (own[:10], "10 points of 2 devices"),
        (own[2::5], "4 points of 4 devices"),
        ([], "0 points of 0"),
    ):
        with pytest.raises(PredictionError, match=f"D4 in 16bit was asked for .* {words} .* at least 19 points"):
            predict_step("cosmoflow", work, asked, 1, few)
