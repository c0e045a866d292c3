"""Requirements on made-up vendors: what is passed, failed, and undecided."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from caraml.cli import main
from results.find.records import RecordError
from results.tests import builder
from results.tests.of_dicts import by_point
from results.verdicts.accept import accept
from results.verdicts.outcome import Outcome, exit_code
from results.verdicts.requirements import read_requirements
from results.verdicts.score import scores

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/requirements.yaml"
GPT = "workloads: {gpt: {benchmark: llm_training}}\n"
PASSED, FAILED, OPEN = Outcome.PASSED, Outcome.FAILED, Outcome.UNDECIDED


def runs(*speeds: float, devices: int = 1, batch: int = 8, power_w: float = 100.0, **changes):
    return [builder.result("V", devices, batch, speed, power_w, **changes) for speed in speeds]


def requirements(folder: Path, text: str):
    path = folder / "requirements.yaml"
    path.write_text(text)
    return read_requirements(path)


THREE = runs(100.0, 101.0, 99.0)
GAPS = runs(100.0, 101.0, 99.0)
for record in GAPS:
    record["energy"]["channels"][0]["largest_gap_s"] = 9.0
NOISY = runs(100.0, 130.0, 70.0)


@pytest.mark.parametrize(
    ("records", "item", "outcome", "value", "why"),
    [
        (THREE, "what: throughput, at_least: 90", PASSED, 100.0, ""),
        (THREE, "what: throughput, at_least: 110", FAILED, 100.0, ""),
        (THREE, "what: throughput, at_least: 100", OPEN, 100.0, "the limit is within the interval, 97"),
        (NOISY, "what: throughput, at_least: 60", OPEN, 100.0, "the limit is within the interval"),
        (THREE[:1], "what: throughput, at_least: 1", OPEN, 100.0, "one run gives no interval"),
        (
            THREE,
            "what: throughput, devices: 2, at_least: 1",
            OPEN,
            None,
            "no run at this point, only at 1 device, batch 8",
        ),
        (THREE, "what: throughput, global_batch: 16, at_least: 1", OPEN, None, "no run at this point"),
        (
            [*THREE, *runs(300.0, 303.0, 297.0, devices=4)],
            "what: throughput_per_device, devices: 4, at_least: 70",
            PASSED,
            75.0,
            "",
        ),
        (
            [*THREE, *runs(300.0, 303.0, 297.0, devices=4)],
            "what: scaling_efficiency, at_least: 0.7",
            PASSED,
            0.75,
            "",
        ),
        (
            [*THREE, *runs(300.0, 303.0, 297.0, devices=4)],
            "what: scaling_efficiency, devices: 4, from_devices: 2, at_least: 0.7",
            OPEN,
            None,
            "no run on 2 devices",
        ),
        (THREE, "what: scaling_efficiency, at_least: 0.1", OPEN, None, "runs on 1 device alone"),
        (
            [*THREE, *[one | {"precision": "fp8"} for one in runs(900.0, 909.0, 891.0, devices=4)]],
            "what: scaling_efficiency, devices: 4, at_least: 0.1",
            OPEN,
            None,
            "the runs on 1 device have precision bf16, those on 4 devices have precision fp8",
        ),
        *(
            (records, "what: scaling_efficiency, devices: 4, at_least: 0.1", OPEN, None, "no run has this number")
            for records in (
                [*THREE, *runs(0.0, devices=4)],
                [*runs(0.0), *runs(300.0, devices=4)],
                [*THREE, *runs(300.0, devices=4, metrics={})],
            )
        ),
        (THREE, "what: work_per_energy, at_least: 3000", PASSED, 3600.0, ""),
        (THREE, "what: work_per_energy, at_least: 3590", OPEN, 3600.0, "the limit is within the interval"),
        (
            runs(1.0, 1.0, 1.0, estimated=True),
            "what: work_per_energy, at_least: 1",
            OPEN,
            None,
            "an estimate from load",
        ),
        (runs(1.0, 1.0, energy=None), "what: work_per_energy, at_least: 1", OPEN, None, "there is none"),
        (THREE, "what: time_to_solution, work: 720000, at_most: 2.1", PASSED, 2.0, ""),
        (THREE, "what: time_to_solution, work: 6000, unit: s, at_most: 50", FAILED, 60.0, ""),
        (THREE, "what: time_to_solution, unit: days, at_most: 3", PASSED, 20e6 / 100 / 86400, ""),
        (THREE, "what: energy_grade, at_least: Q1", PASSED, "Q1", ""),
        (THREE, "what: energy_grade, at_least: Q2", FAILED, "Q1", ""),
        (runs(1.0, estimated=True), "what: energy_grade, at_least: Q1", FAILED, "Q0", ""),
        (
            GAPS,
            "what: energy_grade, at_least: Q1",
            OPEN,
            None,
            "no energy that counts: gaps: the longest time without a sample is 9.0 s",
        ),
        ([*THREE, *runs(1.0, energy=None)], "what: energy_grade, at_least: Q0", OPEN, None, "runs without an energy"),
        (THREE, "what: failed_runs, at_most: 0", PASSED, 0, ""),
        ([*THREE, builder.failed("V")], "what: failed_runs, at_most: 0", FAILED, 1, ""),
        ([*THREE, builder.failed("V")], "what: failed_runs, at_most: 1", PASSED, 1, ""),
        (
            [builder.failed("V", status="out_of_memory")] * 3,
            "what: throughput, at_least: 1",
            FAILED,
            None,
            "all 3 runs: out of memory",
        ),
        (
            runs(9.0, 9.0, metrics={**THREE[0]["metrics"], "comparable": False}),
            "what: throughput, at_least: 1",
            OPEN,
            None,
            "smaller workload",
        ),
        (THREE, "what: effective_throughput, at_least: 1", OPEN, None, "no run has this number"),
        (THREE, "what: mfu, at_least: 0.2", PASSED, 0.3, ""),
        (THREE, "what: throughput, of_runs: 5, at_least: 1", OPEN, None, "3 good runs, 5 wanted"),
        (
            runs(100.0, 101.0, 99.0, 100.5, 1.0),
            "what: throughput, of_runs: 5, without_fastest: 1, without_slowest: 1, at_least: 95",
            PASSED,
            299.5 / 3,
            "",
        ),
    ],
)
def test_verdicts(tmp_path, records, item, outcome, value, why):
    [verdict] = accept(by_point(records), requirements(tmp_path, f"{GPT}must: [{{of: gpt, {item}}}]"))
    assert (verdict.outcome, verdict.answer.value) == (outcome, pytest.approx(value) if value != "" else value)
    assert (verdict.item.of, verdict.system) == ("gpt", "V")
    assert why in verdict.reason
    assert bool(verdict.reason) == bool(why)
    assert exit_code([verdict.outcome]) == {PASSED: 0, FAILED: 1, OPEN: 3}[outcome]


FOUR = [*THREE, *runs(300.0, 303.0, 297.0, devices=4)]


@pytest.mark.parametrize(
    ("records", "item", "unit", "at"),
    [
        (THREE, "what: throughput, at_least: 1", "tokens/s", "1 device, batch 8, bf16, micro batch 4"),
        (THREE, "what: work_per_energy, at_least: 1", "tokens/Wh", "1 device, batch 8, bf16, micro batch 4"),
        (THREE, "what: mfu, at_least: 0", "", "1 device, batch 8, bf16, micro batch 4"),
        (THREE, "what: time_to_solution, unit: min, at_most: 1", "min", "1 device, batch 8, bf16, micro batch 4"),
        (THREE, "what: throughput, of_runs: 9, at_least: 1", "", "1 device, batch 8, bf16, micro batch 4"),
        (
            FOUR,
            "what: scaling_efficiency, at_least: 0",
            "",
            "4 devices, batch 8, bf16, micro batch 2 over 1 device, batch 8, bf16, micro batch 4",
        ),
        ([*THREE, builder.failed("V")], "what: failed_runs, at_most: 0", "of 4 runs", ""),
    ],
)
def test_an_answer_has_its_unit_and_its_place(tmp_path, records, item, unit, at):
    [verdict] = accept(by_point(records), requirements(tmp_path, f"{GPT}must: [{{of: gpt, {item}}}]"))
    assert (verdict.answer.unit, verdict.answer.at) == (unit, at)
    assert verdict.answer.energy_kind == ("Q1, device" if "energy" in item else "")


def test_the_best_point_is_that_of_what_is_asked(tmp_path):
    # The fastest of all is not the most efficient, and neither the fastest per device.
    records = [*runs(100.0, 101.0, 99.0, power_w=50.0), *runs(150.0, 151.0, 149.0, devices=2, batch=16, power_w=200.0)]
    for what, value in (("throughput", 150.0), ("throughput_per_device", 100.0), ("work_per_energy", 7200.0)):
        text = f"{GPT}must: [{{of: gpt, what: {what}, at_least: 1}}]"
        [verdict] = accept(by_point(records), requirements(tmp_path, text))
        assert verdict.answer.value == pytest.approx(value)


def setup(torch: str = "2.13.0", **changes):
    provenance = builder.result()["provenance"]
    return {"provenance": {**provenance, "packages": {"torch": torch}}, **changes}


OVERLAPPED = {"data": {"data": "text"}, "compute": {"precision": "bf16"}, "parallel": {"overlap": True}}
SCALING = f"{GPT}must: [{{of: gpt, what: scaling_efficiency, at_least: 0.9}}]"


@pytest.mark.parametrize(
    ("of_few", "of_many", "words"),
    [
        (setup("2.0.1"), setup(), ("torch 2.0.1", "torch 2.13.0")),
        (setup(), setup(config=OVERLAPPED), ("overlap not known", "overlap True")),
        (setup(variant=["compiled layers"]), setup(), ("choices compiled layers", "choices as usual")),
        (setup("2.0.1", precision="fp16"), setup(), ("precision fp16, torch 2.0.1", "precision bf16, torch 2.13.0")),
    ],
)
def test_how_a_system_scales_is_not_told_across_setups(tmp_path, of_few, of_many, words):
    asked = requirements(tmp_path, SCALING)
    unlike = [*runs(50.0, 50.5, 49.5, **of_few), *runs(800.0, 808.0, 792.0, devices=8, **of_many)]
    [verdict] = accept(by_point(unlike), asked)
    told = f"the runs on 1 device have {words[0]}, those on 8 devices have {words[1]}"
    assert (verdict.outcome, verdict.answer.value, verdict.reason) == (OPEN, None, told)
    # Of the setups that have both, it is that in which many are fastest; of one, whatever else was run.
    like = [*unlike, *runs(125.0, 126.0, 124.0, **of_many), *runs(300.0, 303.0, 297.0, devices=2, **of_few)]
    [verdict] = accept(by_point(like), asked)
    assert (verdict.outcome, verdict.answer.value) == (FAILED, pytest.approx(0.8))
    more = [*like, *runs(390.0, 390.5, 389.5, devices=8, **of_few)]
    [verdict] = accept(by_point(more), asked)
    assert verdict.answer.value == pytest.approx(0.8)
    # Of two that are as fast, one of which has a single run, either is.
    alone = [*runs(50.0, **of_few), *runs(400.0, devices=8, **of_few)]
    level = [*alone, *runs(50.0, 50.0, **of_many), *runs(400.0, 400.0, devices=8, **of_many)]
    for records in (level, level[::-1]):
        [verdict] = accept(by_point(records), asked)
        assert verdict.answer.value == pytest.approx(1.0)


@pytest.mark.parametrize("changes", [{}, {"metrics": {}}])
def test_of_runs_of_unlike_setups_the_fastest_are_told(tmp_path, changes):
    few = [setup("1.0.0"), setup("1.1.0"), setup("1.2.0")][: 1 if changes else 3]
    many = [setup("2.0.0"), setup("2.1.0"), setup("2.2.0")][: 1 if changes else 3]
    records = [
        *(one for index, of in enumerate(few) for one in runs((50.0, 70.0, 60.0)[index], **of, **changes)),
        *(
            one
            for index, of in enumerate(many)
            for one in runs((300.0, 400.0, 350.0)[index], devices=8, **of, **changes)
        ),
    ]
    [verdict] = accept(by_point(records), requirements(tmp_path, SCALING))
    told = ("1.0.0", "2.0.0") if changes else ("1.1.0", "2.1.0")
    words = "the runs on 1 device have torch {}, those on 8 devices have torch {}"
    assert (verdict.outcome, verdict.reason) == (OPEN, words.format(*told))


def test_runs_that_tell_of_no_choice_are_as_usual(tmp_path):
    few, many = runs(100.0, 101.0, 99.0), runs(800.0, 801.0, 799.0, devices=8)
    for record in few:
        del record["variant"]
    [verdict] = accept(by_point([*few, *many]), requirements(tmp_path, SCALING))
    assert (verdict.outcome, verdict.answer.value) == (PASSED, pytest.approx(1.0))


def test_what_goes_with_the_number_of_devices_is_no_other_setup(tmp_path):
    few, many = runs(100.0, 101.0, 99.0, batch=8), runs(760.0, 768.0, 752.0, devices=8, batch=64)
    for records, devices in ((few, 1), (many, 8)):
        for record in records:
            layout = {"tensor_parallel_size": min(2, devices), "micro_batch_size": 2 * devices, "num_nodes": devices}
            record["layout"] |= layout
            parallel = {**layout, "devices": devices, "nodes": devices, "global_batch_size": 8 * devices}
            record["config"] = {**record["config"], "parallel": parallel}
    [verdict] = accept(by_point([*few, *many]), requirements(tmp_path, SCALING))
    assert (verdict.outcome, verdict.answer.value) == (PASSED, pytest.approx(0.95))
    # Of a batch that is asked for.
    text = f"{GPT}must: [{{of: gpt, what: scaling_efficiency, global_batch: 64, at_least: 0.9}}]"
    faster = runs(790.0, 798.0, 782.0, devices=8, batch=128)
    for record in faster:
        record["layout"] |= {"tensor_parallel_size": 2, "micro_batch_size": 16, "num_nodes": 8}
        record["config"] = many[0]["config"]
    [verdict] = accept(by_point([*few, *many, *faster]), requirements(tmp_path, text))
    assert verdict.answer.value == pytest.approx(0.95)


def test_a_long_list_of_places_is_left_out(tmp_path):
    records = [one for batch in range(8, 40) for one in runs(100.0, batch=batch)]
    text = f"{GPT}must: [{{of: gpt, what: failed_runs, devices: 3, at_most: 0}}]"
    [verdict] = accept(by_point(records), requirements(tmp_path, text))
    assert (verdict.outcome, verdict.reason) == (OPEN, "no run at this point")


@pytest.mark.parametrize(("count", "words"), [(1, "the one run: failed"), (2, "all 2 runs: failed")])
def test_runs_that_failed_are_counted_in_words(tmp_path, count, words):
    text = f"{GPT}must: [{{of: gpt, what: throughput, at_least: 1}}]"
    [verdict] = accept(by_point([builder.failed("V")] * count), requirements(tmp_path, text))
    assert (verdict.outcome, verdict.reason) == (FAILED, words)


def test_the_fastest_of_a_throughput_is_the_largest(tmp_path):
    records = runs(60.0, 50.0, 40.0, 30.0, 20.0)
    item = "what: throughput, of_runs: 5, without_fastest: 2, at_least: 1"
    [verdict] = accept(by_point(records), requirements(tmp_path, f"{GPT}must: [{{of: gpt, {item}}}]"))
    assert verdict.answer.value == pytest.approx(30.0)


def test_a_mean_without_ends_of_a_time_leaves_out_the_shortest_as_the_fastest(tmp_path):
    records = runs(60.0, 50.0, 40.0, 30.0, 20.0)
    item = "what: time_to_solution, work: 3600, unit: s, of_runs: 5, without_fastest: 2, at_most: 1"
    [verdict] = accept(by_point(records), requirements(tmp_path, f"{GPT}must: [{{of: gpt, {item}}}]"))
    assert verdict.answer.value == pytest.approx((90 + 120 + 180) / 3)


@pytest.mark.parametrize("ends", [(0, 0), (1, 0), (1, 1), (0, 2)])
@pytest.mark.parametrize(
    ("sensor", "margin", "outcome"), [(0.045, 0.01, OPEN), (0.03, 0.02, OPEN), (0.003, 0.01, PASSED)]
)
def test_a_mean_without_ends_is_no_surer_than_its_sensor(tmp_path, ends, sensor, margin, outcome):
    records = runs(100.0, 100.1, 99.9, 100.05, 99.95)
    for record in records:
        record["energy"] |= dict.fromkeys(("uncertainty_wh", "random_wh"), sensor * record["energy"]["energy_wh"])
    item = f"of_runs: 5, without_fastest: {ends[0]}, without_slowest: {ends[1]}, at_least: {3600 * (1 - margin)}"
    [verdict, speed] = accept(
        by_point(records),
        requirements(
            tmp_path,
            f"{GPT}must: [{{of: gpt, what: work_per_energy, {item}}}, {{of: gpt, what: throughput, of_runs: 5, "
            f"without_fastest: {ends[0]}, without_slowest: {ends[1]}, at_least: 99}}]",
        ),
    )
    assert verdict.outcome == outcome
    assert verdict.interval.half >= sensor * verdict.answer.value
    assert speed.outcome == PASSED  # it has no sensor


def test_a_limit_on_energy_that_is_met_only_without_the_accuracy_of_the_sensor_is_undecided(tmp_path):
    records = runs(100.0, 100.1, 99.9)
    asked = requirements(tmp_path, f"{GPT}must: [{{of: gpt, what: work_per_energy, at_least: 3500}}]")
    for accuracy, outcome in ((0.05, OPEN), (None, PASSED)):
        for record in records:
            record["energy"] |= {"accuracy": accuracy} | dict.fromkeys(("uncertainty_wh", "random_wh"), 0.0)
        [verdict] = accept(by_point(records), asked)
        assert verdict.outcome == outcome
        assert verdict.reason.startswith("it passes only without the accuracy of the sensor; with it, 3,") == bool(
            accuracy
        )


def test_a_system_that_did_not_run_a_workload_is_not_passed(tmp_path):
    asked = requirements(tmp_path, "workloads: {r: {benchmark: resnet50}}\nmust: [{of: r, what: mfu, at_least: 0}]")
    [verdict] = accept(by_point(THREE), asked)
    assert (verdict.outcome, verdict.reason) == (OPEN, "no run of this workload")


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        ("model: 800m", "no run has the model '800m': did you mean '800M'?"),
        ("model: 13B", "no run has the model '13B': they have 117M, 800M"),
        ("precision: BF16", "no run has the precision 'BF16': did you mean 'bf16'?"),
        ("filled: true, model: 800m", "no run of this workload"),
    ],
)
def test_a_fact_that_no_run_has_is_named_with_the_one_that_may_be_meant(tmp_path, fact, reason):
    text = f"workloads: {{gpt: {{benchmark: llm_training, {fact}}}}}\nmust: [{{of: gpt, what: mfu, at_least: 0}}]"
    known = [builder.result("V", model=model, tokens_per_s=100.0, precision="bf16") for model in ("117M", "800M")]
    [verdict] = accept(by_point(known), requirements(tmp_path, text))
    assert (verdict.outcome, verdict.reason) == (OPEN, reason)


def test_a_precision_that_is_asked_for_is_the_one_that_is_judged(tmp_path):
    fast = [one | {"precision": "fp8"} for one in runs(500.0, 501.0, 499.0)]
    text = (
        "workloads: {gpt: {benchmark: llm_training, precision: bf16}}\nmust: [{of: gpt, what: throughput, at_least: 1}]"
    )
    [verdict] = accept(by_point([*THREE, *fast]), requirements(tmp_path, text))
    assert verdict.answer.value == 100.0


@pytest.mark.parametrize(
    ("precision", "of_none"),
    [(", precision: bf16", "no run of this workload"), ("", "no run that counts: its precision is not known")],
)
def test_a_good_run_of_unknown_precision_is_none_of_what_is_asked(tmp_path, precision, of_none):
    unknown = runs(500.0, 505.0, 495.0, precision="")
    text = f"workloads: {{gpt: {{benchmark: llm_training{precision}}}}}\n"
    text += "must: [{of: gpt, what: throughput, at_least: 1}]"
    [verdict] = accept(by_point([*THREE, *unknown]), requirements(tmp_path, text))
    assert (verdict.outcome, verdict.answer.value) == (PASSED, 100.0)
    [verdict] = accept(by_point(unknown), requirements(tmp_path, text))
    assert (verdict.outcome, verdict.reason) == (OPEN, of_none)
    [verdict] = accept(by_point([builder.failed("V")]), requirements(tmp_path, text))
    assert (verdict.outcome, verdict.reason) == (FAILED, "the one run: failed")


@pytest.mark.parametrize("fact", ["data", "sample"])
def test_a_good_run_that_does_not_say_what_is_asked_for_is_none_of_it(tmp_path, fact):
    wanted = str(THREE[0][fact])
    text = f"workloads: {{gpt: {{benchmark: llm_training, {fact}: {wanted}}}}}\n"
    text += "must: [{of: gpt, what: throughput, at_least: 1}]"
    [verdict] = accept(by_point(runs(500.0, 505.0, 495.0, **{fact: ""})), requirements(tmp_path, text))
    assert (verdict.outcome, verdict.reason) == (OPEN, "no run of this workload")
    [verdict] = accept(by_point(THREE), requirements(tmp_path, text))
    assert verdict.outcome == PASSED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "13B"}, "of gpt are of 13B and tiny: set 'model' of the workload"),
        ({"data": "synthetic"}, "of gpt are of synthetic and text: set 'data' of the workload"),
        ({"sample": "1024 tokens"}, "of gpt are of 1024 tokens and 2048 tokens"),
    ],
)
def test_unlike_runs_are_no_one_workload(tmp_path, changes, message):
    text = f"{GPT}must: [{{of: gpt, what: throughput, at_least: 1}}]"
    unlike = by_point([*THREE, *runs(500.0, 501.0, 499.0, **changes)])
    with pytest.raises(RecordError, match=message):
        accept(unlike, requirements(tmp_path, text))
    with pytest.raises(RecordError, match=message):
        scores(unlike, requirements(tmp_path, text), None)
    small = [one | {"metrics": {**one["metrics"], "comparable": False}} for one in runs(9.0, 9.0, **changes)]
    [verdict] = accept(by_point([*THREE, *small]), requirements(tmp_path, text))
    assert verdict.answer.value == 100.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no workloads"),
        ("- 1", "is not a file of requirements"),
        (GPT + "musts: []", "unknown key 'musts': did you mean 'must'?"),
        ("workloads: {gpt: {benchmark: gpt}}", "benchmark is 'gpt', but must be one of cosmoflow"),
        ("workloads: {gpt: {benchmark: llm_training, weight: -1}}", "weight is -1, but must be a number from 0"),
        (GPT + "must:\nreference: [1]", "reference is [1], but must be a text"),
        (GPT + "must: [{of: gpt, what: throughput}]", "either 'at_least' or 'at_most'"),
        (GPT + "must: [{of: gpt, what: throughput, at_least: 1, at_most: 2}]", "either 'at_least' or 'at_most'"),
        (GPT + "must: [{of: gpt, what: throughputs, at_least: 1}]", "did you mean 'throughput'?"),
        (GPT + "must: [{of: bert, what: throughput, at_least: 1}]", "no workload of the file: choose one of gpt"),
        (GPT + "must: [{of: ggt, what: throughput, at_least: 1}]", "no workload of the file: did you mean 'gpt'?"),
        (GPT + "must: [{of: gpt, what: mfu, devices: [1, 4], at_least: 0.1}]", "did you mean '1' or '4'?"),
        (GPT + "must: [{of: gpt, what: throughput, at_least: much}]", "'much' is not a number"),
        (
            GPT + "must: [{of: gpt, what: mfu, at_least: 25}]",
            "is too large: write 0.25 for 25 %",
        ),
        (GPT + "must: [{of: gpt, what: mfu, at_least: 1.1}]", "the limit 1.1 of mfu is too large"),
        (GPT + "must: [{of: gpt, what: tpot_p99, global_batch: 1, at_most: 50}]", "is too large: write it in seconds"),
        (GPT + "must: [{of: gpt, what: ttft_p99, global_batch: 1, at_most: 500}]", "is too large: write it in seconds"),
        (GPT + "must: [{of: gpt, what: scaling_efficiency, at_least: 90}]", "of scaling_efficiency is too large"),
        (GPT + "must: [{of: gpt, what: throughput, at_least: .nan}]", "at_least is nan, but must be a number from 0"),
        (GPT + "must: [{of: gpt, what: throughput, at_least: true}]", "at_least is True, but must be a number from 0"),
        (
            GPT + "must: [{of: gpt, what: throughput, devices: 1.5, at_least: 1}]",
            "devices is 1.5, but must be a whole number",
        ),
        (GPT + "must: [{of: gpt, what: throughput, devices: 0, at_least: 1}]", "devices is 0"),
        (GPT + "must: [{of: gpt, what: throughput, at_least: '90'}]", "'90' is not a number: leave out its quotes"),
        (GPT + "must: [{of: gpt, what: throughput, at_least: 80.000}]", "write 80000 or 80.0000"),
        (GPT + "must: [{of: gpt, what: throughput, devices: '8', at_least: 8}]", "devices is '8', but must be a whole"),
        (GPT + "must: [{of: gpt, what: time_to_solution, work: 20.000, at_most: 8}]", "write 20000 or 20.0000"),
        (GPT + "budget: {money: 100.000}", "money is 100.000, where the point may separate thousands or decimals"),
        (GPT + "must: [{of: chat, what: ttft_p99, global_batch: 1, at_most: 900}]", "write it in seconds"),
        (GPT + "reference: H200\u200b", "'H200\\u200b' has U+200B ZERO WIDTH SPACE"),
        (GPT + "must: [{of: g\u0440t, what: throughput, at_least: 1}]", "has U+0440 CYRILLIC SMALL LETTER ER"),
        ("workloads: {\u0455: {benchmark: llm_training}}", "has U+0455 CYRILLIC SMALL LETTER DZE"),
        ("workloads: {gpt: {benchmark: llm_training, model: 800\u041c}}", "has U+041C CYRILLIC CAPITAL LETTER EM"),
        ("workloads: {gpt: {benchmark: llm_training, fixed: true}}", "fixed is True, but must be facts, such as"),
        ("workloads: {gpt: {benchmark: llm_training, fixed: [model]}}", "fixed is ['model'], but must be facts"),
        ("workloads: {gpt: {benchmark: llm_training, fixed: }}", "fixed is None, but must be facts"),
        ("workloads: {gpt: {benchmark: llm_training, fixed: {model: true}}}", "model is True, but must be"),
        (GPT + "budget: true", "budget: True is not a mapping"),
        (GPT + "score: true", "score: True is not a mapping"),
        (GPT + "must: true", "must is True, but must be a list"),
        ("workloads: true", "has no workloads: write"),
        (GPT + "must: [{of: gpt, what: energy_grade, at_least: good}]", "one of Q0, Q1, Q2, Q3"),
        (
            GPT + "must: [{of: gpt, what: time_to_solution, unit: weeks, at_most: 1}]",
            "unit is 'weeks', but must be one of s, min",
        ),
        (GPT + "must: [{what: throughput, at_least: 1}]", "lacks 'of'"),
        (GPT + "must: [5]", "requirement 1: 5 is not a mapping"),
        (GPT + "must: 5", "must is 5, but must be a list"),
        (
            GPT + "must: [{of: gpt, what: mfu, at_least: 1, without_fastest: 1}]",
            "must be larger than the number of runs left out",
        ),
        (GPT + "must: [&a {of: gpt, what: mfu, at_least: 1}, *a]", "occurs twice"),
        (GPT + "budget: {devices: 0}", "devices is 0, but must be a whole number from 1 on"),
        (
            GPT + "score: {formula: R, better: higher, terms: {R: {of: gpt, what: energy_grade}}}",
            "a grade is not a number",
        ),
        (GPT + "score: {formula: R, terms: {R: {of: gpt, what: mfu}}, better: more}", "must be higher or lower"),
        (GPT + "score: {formula: R}", "score lacks 'terms' and 'better'"),
        (GPT + "score: {formula: 1 + X, better: lower, terms: {R: {of: gpt, what: mfu}}}", "it has no term 'X'"),
    ],
)
def test_a_mistake_in_requirements_is_one_sentence(tmp_path, text, message):
    with pytest.raises(RecordError) as error:
        requirements(tmp_path, text)
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
    assert requirements(tmp_path, text.replace("SIDE", good)).must
    with pytest.raises(RecordError, match=f"{what} has '{bad}', but (more|less) is better: write '{good}: 1'"):
        requirements(tmp_path, text.replace("SIDE", bad))


@pytest.mark.parametrize("limit", ["0.125", "1.25", "80.0", "80000", "1.1234", "1.250e+3"])
def test_a_number_that_can_mean_one_thing_alone_is_taken(tmp_path, limit):
    [item] = requirements(tmp_path, GPT + f"must: [{{of: gpt, what: throughput, at_least: {limit}}}]").must
    assert item.at_least == float(limit)


def test_three_decimals_of_a_latency_and_a_share_are_decimals(tmp_path):
    text = GPT + "must: [{of: gpt, what: ttft_p99, global_batch: 1, at_most: 1.250}]"
    assert requirements(tmp_path, text).must[0].at_most == 1.25


def test_nothing_to_be_reached_is_no_pass(tmp_path):
    with pytest.raises(RecordError, match="have no list 'must'"):
        accept(by_point(THREE), requirements(tmp_path, GPT))


def _accepted(tmp_path, capsys, records, *more: str) -> tuple[int, str]:
    builder.store(tmp_path / "runs", records)
    code = main(["accept", str(tmp_path / "runs"), "--requirements", str(EXAMPLE), *more])
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("vendors", "code", "counts"),
    [
        ((("H200", 85e3, 690.0),), 1, "H200: 5 passed, 2 failed"),
        ((("B", 1e3, 400.0), ("H200", 85e3, 690.0)), 1, "H200: 7 passed"),
    ],
)
def test_the_example_judges_made_vendors(tmp_path, capsys, vendors, code, counts):
    found, text = _accepted(tmp_path, capsys, builder.many(vendors))
    assert found == code
    assert counts in text


def test_the_example_has_an_answer_for_the_shipped_records(capsys):
    assert (
        main(["accept", str(EXAMPLE.parents[1] / "results" / "records" / "H200"), "--requirements", str(EXAMPLE)]) == 3
    )
    text = capsys.readouterr().out
    assert "H200: 2 passed, 5 undecided" in text
    assert "no run at this point" not in text


def test_a_vendor_that_passes_ends_with_0_and_a_program_can_read_why(tmp_path, capsys):
    records = [one for one in builder.many((("H200", 85e3, 690.0),)) if one["status"] == "ok"]
    for repeat in (-1, 0, 1):
        records.append(builder.result("H200", 4, 256, 310e3 * (1 + 0.004 * repeat), 690.0, model="800M"))
    code, text = _accepted(tmp_path, capsys, records, "--json")
    told = json.loads(text)
    assert (code, told["exit_code"]) == (0, 0)
    assert {one["outcome"] for one in told["requirements"]} == {"passed"}
    first = told["requirements"][0]
    assert first["low"] <= first["value"] <= first["high"]
    assert (first["unit"], first["at_least"]) == ("tokens/s", 70000)
    assert first["value"] == pytest.approx(85e3 * 64 / 72)


def test_a_vendor_of_one_run_each_cannot_be_told(tmp_path, capsys):
    records = [one for one in builder.many((("H200", 85e3, 690.0),)) if one["status"] == "ok"][::3]
    records.append(builder.result("H200", 4, 256, 300e3, 690.0, model="800M"))
    code, text = _accepted(tmp_path, capsys, records)
    assert code == 3
    assert "one run gives no interval" in text


def test_filters_choose_what_is_judged(tmp_path, capsys):
    records = builder.many((("B", 1e3, 400.0), ("H200", 85e3, 690.0)))
    code, text = _accepted(tmp_path, capsys, records, "--filter", "system=H200")
    assert (code, "B " in text) == (0, False)
