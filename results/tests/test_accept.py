"""Requirements on made-up vendors: what is passed, failed, and undecided."""

from __future__ import annotations

from functools import partial

import pytest

from caraml.cli import main
from results.find.records import RecordError
from results.points.estimate import Outcome, exit_code
from results.tests import builder
from results.tests.builder import needs, verdicts
from results.tests.of_dicts import by_point
from results.verdicts.accept import accept
from results.verdicts.score import ranking_of

GPT = "workloads: {gpt: {benchmark: llm_training}}\n"
PASSED, FAILED, OPEN = Outcome.PASSED, Outcome.FAILED, Outcome.UNDECIDED


runs = partial(builder.runs, "V")


def judged(folder, records, item, workloads=GPT):
    """Return the verdict on one requirement."""
    [verdict] = verdicts(folder, records, f"{workloads}must: [{{of: gpt, {item}}}]")
    return verdict


THREE = runs(100.0, 101.0, 99.0)
FOUR = [*THREE, *runs(300.0, 303.0, 297.0, devices=4)]
NO_MEMORY = builder.failed("V", status="out_of_memory")
SCALES = "what: scaling_efficiency, devices: 4"
MIDDLE = "of_runs: 5, without_fastest: 1, without_slowest: 1"


@pytest.mark.parametrize(
    ("records", "item", "outcome", "value", "why"),
    [
        (THREE, "what: throughput, at_least: 90", PASSED, 100.0, ""),
        (THREE, "what: throughput, at_least: 100", OPEN, 100.0, "the limit is within the interval, 97"),
        (THREE[:1], "what: throughput, at_least: 1", OPEN, 100.0, "one run gives no interval"),
        (
            THREE,
            "what: throughput, devices: 2, at_least: 1",
            OPEN,
            None,
            "no run at this point, only at 1 device, batch 8",
        ),
        (FOUR, "what: scaling_efficiency, at_least: 0.7", PASSED, 0.75, ""),
        (FOUR, f"{SCALES}, from_devices: 2, at_least: 0.7", OPEN, None, "no run on 2 devices"),
        (THREE, "what: scaling_efficiency, at_least: 0.1", OPEN, None, "runs on 1 device alone"),
        ([*THREE, *runs(0.0, devices=4)], f"{SCALES}, at_least: 0.1", OPEN, None, "no run has this number"),
        (THREE, "what: work_per_energy, at_least: 3000", PASSED, 3600.0, ""),
        (runs(1.0, 1.0, energy=None), "what: work_per_energy, at_least: 1", OPEN, None, "there is none"),
        (THREE, "what: time_to_solution, work: 720000, at_most: 2.1", PASSED, 2.0, ""),
        (THREE, "what: time_to_solution, unit: days, at_most: 3", PASSED, 20e6 / 100 / 86400, ""),
        (THREE, "what: energy_grade, at_least: Q2", FAILED, "Q1", ""),
        (runs(1.0, estimated=True), "what: energy_grade, at_least: Q1", FAILED, "Q0", ""),
        ([*THREE, *runs(1.0, energy=None)], "what: energy_grade, at_least: Q0", OPEN, None, "runs without an energy"),
        (THREE, "what: failed_runs, at_most: 0", PASSED, 0, ""),
        ([*THREE, builder.failed("V")], "what: failed_runs, at_most: 0", FAILED, 1, ""),
        ([NO_MEMORY] * 3, "what: throughput, at_least: 1", FAILED, None, "all 3 runs: out of memory"),
        (THREE, "what: effective_throughput, at_least: 1", OPEN, None, "no run has this number"),
        (THREE, "what: mfu, at_least: 0.2", PASSED, 0.3, ""),
        (THREE, "what: throughput, of_runs: 5, at_least: 1", OPEN, None, "3 good runs, 5 wanted"),
        (runs(100.0, 101.0, 99.0, 100.5, 1.0), f"what: throughput, {MIDDLE}, at_least: 95", PASSED, 299.5 / 3, ""),
    ],
)
def test_verdicts(tmp_path, records, item, outcome, value, why):
    verdict = judged(tmp_path, records, item)
    assert (verdict.outcome, verdict.answer.value) == (outcome, pytest.approx(value) if value != "" else value)
    assert (verdict.item.of, verdict.system) == ("gpt", "V")
    assert why in verdict.reason
    assert bool(verdict.reason) == bool(why)
    assert exit_code([verdict.outcome]) == {PASSED: 0, FAILED: 1, OPEN: 3}[outcome]


def test_the_best_point_is_that_of_what_is_asked(tmp_path):
    # The fastest of all is not the most efficient, and neither the fastest per device.
    records = [*runs(100.0, 101.0, 99.0, power_w=50.0), *runs(150.0, 151.0, 149.0, devices=2, batch=16, power_w=200.0)]
    for what, value in (("throughput", 150.0), ("throughput_per_device", 100.0), ("work_per_energy", 7200.0)):
        assert judged(tmp_path, records, f"what: {what}, at_least: 1").answer.value == pytest.approx(value)


def setup(torch: str = "2.13.0", **changes):
    provenance = builder.result()["provenance"]
    return {"provenance": {**provenance, "packages": {"torch": torch}}, **changes}


OVERLAPPED = {"data": {"data": "text"}, "compute": {"precision": "bf16"}, "parallel": {"overlap": True}}
SCALING = f"{GPT}must: [{{of: gpt, what: scaling_efficiency, at_least: 0.9}}]"


@pytest.mark.parametrize(
    ("of_few", "of_many", "words"),
    [
        (setup("2.0.1"), setup(), ("torch 2.0.1", "torch 2.13.0")),
        (setup(), setup(config=OVERLAPPED), ("parallel.overlap not known", "parallel.overlap True")),
        (setup(variant=["compiled layers"]), setup(), ("choices compiled layers", "choices as usual")),
        (setup("2.0.1", precision="fp16"), setup(), ("precision fp16, torch 2.0.1", "precision bf16, torch 2.13.0")),
    ],
)
def test_how_a_system_scales_is_not_told_across_setups(tmp_path, of_few, of_many, words):
    unlike = [*runs(50.0, 50.5, 49.5, **of_few), *runs(800.0, 808.0, 792.0, devices=8, **of_many)]
    [verdict] = verdicts(tmp_path, unlike, SCALING)
    told = f"the runs on 1 device have {words[0]}, those on 8 devices have {words[1]}"
    assert (verdict.outcome, verdict.answer.value, verdict.reason) == (OPEN, None, told)
    # Of the setups that have both, it is that in which many are fastest; of one, whatever else was run.
    like = [*unlike, *runs(125.0, 126.0, 124.0, **of_many), *runs(300.0, 303.0, 297.0, devices=2, **of_few)]
    [verdict] = verdicts(tmp_path, like, SCALING)
    assert (verdict.outcome, verdict.answer.value) == (FAILED, pytest.approx(0.8))
    more = [*like, *runs(390.0, 390.5, 389.5, devices=8, **of_few)]
    [verdict] = verdicts(tmp_path, more, SCALING)
    assert verdict.answer.value == pytest.approx(0.8)
    # Of two that are as fast, one of which has a single run, either is.
    alone = [*runs(50.0, **of_few), *runs(400.0, devices=8, **of_few)]
    level = [*alone, *runs(50.0, 50.0, **of_many), *runs(400.0, 400.0, devices=8, **of_many)]
    for records in (level, level[::-1]):
        [verdict] = verdicts(tmp_path, records, SCALING)
        assert verdict.answer.value == pytest.approx(1.0)


def test_what_goes_with_the_number_of_devices_is_no_other_setup(tmp_path):
    few, many = runs(100.0, 101.0, 99.0, batch=8), runs(760.0, 768.0, 752.0, devices=8, batch=64)
    for records, devices in ((few, 1), (many, 8)):
        for record in records:
            layout = {"tensor_parallel_size": min(2, devices), "micro_batch_size": 2 * devices, "num_nodes": devices}
            record["layout"] |= layout
            parallel = {**layout, "devices": devices, "nodes": devices, "global_batch_size": 8 * devices}
            record["config"] = {**record["config"], "parallel": parallel}
    [verdict] = verdicts(tmp_path, [*few, *many], SCALING)
    assert (verdict.outcome, verdict.answer.value) == (PASSED, pytest.approx(0.95))
    # Of a batch that is asked for.
    text = f"{GPT}must: [{{of: gpt, what: scaling_efficiency, global_batch: 64, at_least: 0.9}}]"
    faster = runs(790.0, 798.0, 782.0, devices=8, batch=128)
    for record in faster:
        record["layout"] |= {"tensor_parallel_size": 2, "micro_batch_size": 16, "num_nodes": 8}
        record["config"] = many[0]["config"]
    [verdict] = verdicts(tmp_path, [*few, *many, *faster], text)
    assert verdict.answer.value == pytest.approx(0.95)


def test_a_mean_without_ends_of_a_time_leaves_out_the_shortest_as_the_fastest(tmp_path):
    records = runs(60.0, 50.0, 40.0, 30.0, 20.0)
    item = "what: time_to_solution, work: 3600, unit: s, of_runs: 5, without_fastest: 2, at_most: 1"
    verdict = judged(tmp_path, records, item)
    assert verdict.answer.value == pytest.approx((90 + 120 + 180) / 3)


@pytest.mark.parametrize("ends", [(0, 0), (1, 1)])
@pytest.mark.parametrize(
    ("sensor", "margin", "outcome"), [(0.045, 0.01, OPEN), (0.03, 0.02, OPEN), (0.003, 0.01, PASSED)]
)
def test_a_mean_without_ends_is_no_surer_than_its_sensor(tmp_path, ends, sensor, margin, outcome):
    records = runs(100.0, 100.1, 99.9, 100.05, 99.95)
    for record in records:
        record["energy"] |= dict.fromkeys(("uncertainty_wh", "random_wh"), sensor * record["energy"]["energy_wh"])
    ends = f"of_runs: 5, without_fastest: {ends[0]}, without_slowest: {ends[1]}"
    verdict = judged(tmp_path, records, f"what: work_per_energy, {ends}, at_least: {3600 * (1 - margin)}")
    speed = judged(tmp_path, records, f"what: throughput, {ends}, at_least: 99")
    assert verdict.outcome == outcome
    assert verdict.answer.interval.half >= sensor * verdict.answer.value
    assert speed.outcome == PASSED  # it has no sensor


def test_a_limit_on_energy_that_is_met_only_without_the_accuracy_of_the_sensor_is_undecided(tmp_path):
    records = runs(100.0, 100.1, 99.9)
    for accuracy, outcome in ((0.05, OPEN), (None, PASSED)):
        for record in records:
            record["energy"] |= {"accuracy": accuracy} | dict.fromkeys(("uncertainty_wh", "random_wh"), 0.0)
        verdict = judged(tmp_path, records, "what: work_per_energy, at_least: 3500")
        assert verdict.outcome == outcome
        assert verdict.reason.startswith("it passes only without the accuracy of the sensor; with it, 3,") == bool(
            accuracy
        )


FAST = {"precision": "fp8"}
SIZES = [*runs(100.0, model="117M"), *runs(100.0, model="800M")]


@pytest.mark.parametrize(
    ("records", "facts", "outcome", "value", "why"),
    [
        (SIZES, "model: 800m", OPEN, None, "no run has the model '800m': did you mean '800M'?"),
        (SIZES, "model: 13B", OPEN, None, "no run has the model '13B': they have 117M, 800M"),
        (SIZES, "filled: true, model: 800m", OPEN, None, "no run of this workload"),
        ([*THREE, *runs(500.0, 501.0, 499.0, **FAST)], "precision: bf16", PASSED, 100.0, ""),
        ([*THREE, *runs(500.0, precision="")], "weight: 1", PASSED, 100.0, ""),
        (runs(500.0, 505.0, precision=""), "precision: bf16", OPEN, None, "no run of this workload"),
        (runs(500.0, 505.0, precision=""), "weight: 1", OPEN, None, "no run that counts: its precision is not known"),
        ([builder.failed("V")], "precision: bf16", FAILED, None, "the one run: failed"),
        (THREE, "data: text", PASSED, 100.0, ""),
        (runs(500.0, 505.0, data=""), "data: text", OPEN, None, "no run of this workload"),
        (runs(500.0, 505.0, benchmark="resnet50"), "weight: 1", OPEN, None, "no run of this workload"),
    ],
)
def test_facts_of_a_workload_choose_the_runs_that_are_judged(tmp_path, records, facts, outcome, value, why):
    workloads = f"workloads: {{gpt: {{benchmark: llm_training, {facts}}}}}\n"
    verdict = judged(tmp_path, records, "what: throughput, at_least: 1", workloads)
    assert (verdict.outcome, verdict.answer.value, verdict.reason) == (outcome, value, why)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "13B"}, "of gpt are of 13B and tiny: set 'model' of the workload"),
        ({"data": "synthetic"}, "of gpt are of synthetic and text: set 'data' of the workload"),
    ],
)
def test_unlike_runs_are_no_one_workload(tmp_path, changes, message):
    text = f"{GPT}must: [{{of: gpt, what: throughput, at_least: 1}}]"
    unlike = by_point([*THREE, *runs(500.0, 501.0, 499.0, **changes)])
    with pytest.raises(RecordError, match=message):
        accept(unlike, needs(tmp_path, text))
    with pytest.raises(RecordError, match=message):
        ranking_of(unlike, needs(tmp_path, text), None)
    small = [one | {"metrics": {**one["metrics"], "comparable": False}} for one in runs(9.0, 9.0, **changes)]
    [verdict] = verdicts(tmp_path, [*THREE, *small], text)
    assert verdict.answer.value == 100.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks 'workloads'"),
        (GPT + "must: [{of: gpt, what: throughput}]", "either 'at_least' or 'at_most'"),
        (GPT + "must: [{of: bert, what: throughput, at_least: 1}]", "no workload of the file: choose one of gpt"),
        (GPT + "must: [{of: gpt, what: throughput, at_least: much}]", "'much' is not a number"),
        (
            GPT + "must: [{of: gpt, what: mfu, at_least: 25}]",
            "is too large: write 0.25 for 25 %",
        ),
        (GPT + "must: [{of: gpt, what: tpot_p99, global_batch: 1, at_most: 50}]", "is too large: write it in seconds"),
        (GPT + "must: [{of: gpt, what: mfu, at_least: 80.000}]", "limit 80 of mfu is too large: write 0.25 for 25 %"),
        (GPT + "must: [{of: gpt, what: throughput, at_least: 80.000}]", "must 1: at_least is 80.000, where the point"),
        ("workloads: {gpt: {benchmark: llm_training, fixed: true}}", "fixed is True, but must be keys"),
        (GPT + "must: [{of: gpt, what: mfu, at_least: 0.1, unit: h}]", "only a time_to_solution has one"),
        (
            GPT + "must: [{of: gpt, what: time_to_solution, at_most: 1, work_unit: images}]",
            "GPT training counts tokens",
        ),
        (GPT + "must: [{of: gpt, what: throughput, at_least: '90'}]", "'90' is not a number: leave out its quotes"),
        (GPT + "must: [{of: gpt, what: energy_grade, at_least: good}]", "one of Q0, Q1, Q2, Q3"),
        (
            GPT + "must: [{of: gpt, what: mfu, at_least: 1, without_fastest: 1}]",
            "must be larger than the number of runs left out",
        ),
        (GPT + "must: [&a {of: gpt, what: mfu, at_least: 1}, *a]", "occurs twice"),
        (
            GPT + "score: {formula: R, better: higher, terms: {R: {of: gpt, what: energy_grade}}}",
            "energy_grade is not a number",
        ),
        (GPT + "score: {formula: 1 + X, better: lower, terms: {R: {of: gpt, what: mfu}}}", "it has no term 'X'"),
    ],
)
def test_a_mistake_in_requirements_is_one_sentence(tmp_path, text, message):
    with pytest.raises(RecordError) as error:
        needs(tmp_path, text)
    assert message in str(error.value)
    assert str(tmp_path / "requirements.yaml") in str(error.value)
    assert "\n" not in str(error.value)


DIRECTIONS = {
    "at_least": "throughput throughput_per_device effective_throughput work_per_energy mfu goodput scaling_efficiency",
    "at_most": "time_to_solution machine_time ttft_p99 tpot_p99 energy_per_token power failed_runs",
}


@pytest.mark.parametrize(
    ("what", "good"), [(what, good) for good, names in DIRECTIONS.items() for what in names.split()]
)
def test_a_limit_is_on_the_side_that_a_buyer_wants(tmp_path, what, good):
    [bad] = DIRECTIONS.keys() - {good}
    text = GPT + f"must: [{{of: gpt, what: {what}, global_batch: 8, SIDE: 1}}]"
    assert needs(tmp_path, text.replace("SIDE", good)).must
    with pytest.raises(RecordError, match=f"{what} has '{bad}', but (more|less) is better: write '{good}: 1'"):
        needs(tmp_path, text.replace("SIDE", bad))


def test_nothing_to_be_reached_is_no_pass(tmp_path, capsys):
    needs(tmp_path, GPT)
    runs = builder.store(tmp_path / "runs", THREE)
    assert main(["accept", str(runs), "--requirements", str(tmp_path / "requirements.yaml")]) == 2
    assert "have no list 'must'" in capsys.readouterr().err
