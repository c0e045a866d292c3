"""Counter-examples: results of which a careless reading would make a wrong decision."""

from __future__ import annotations

import json
import random

import pytest

from caraml.cli import main
from results.show.words import changes, cost_words, first_of
from results.tests import builder
from results.tests.builder import thrice
from results.tests.of_dicts import by_point
from results.verdicts.accept import accept
from results.verdicts.cost import Costs, Price
from results.verdicts.tender import Decision

GPT = "workloads: {gpt: {benchmark: llm_training, precision: bf16}}\n"
THROUGHPUT = "must: [{of: gpt, what: throughput, at_least: 90}]\n"


def asked(tmp_path, text=GPT + THROUGHPUT):
    path = tmp_path / "requirements.yaml"
    path.write_text(text)
    return path


def accepted(tmp_path, capsys, folders, text=GPT + THROUGHPUT, *flags):
    code = main(["accept", *map(str, folders), "--requirements", str(asked(tmp_path, text)), "--json", *flags])
    found = json.loads(capsys.readouterr().out)
    assert found["exit_code"] == code
    return code, found


def decided(tmp_path, records, text, costs=None):
    return Decision(by_point(records), builder.needs(tmp_path, text), costs)


def spoil(folder, change):
    """Change what each record of a folder has in its file."""
    for path in folder.rglob("result.json"):
        record = json.loads(path.read_text())
        change(record)
        path.write_text(json.dumps(record))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda record: record.update(step_times_s=[999.0]), id="contradiction"),
        pytest.param(lambda record: record.update(energy=5), id="schema"),
        pytest.param(lambda record: record.pop("schema_version"), id="no record"),
    ],
)
def test_a_record_that_is_left_out_opens_the_verdicts_of_its_system(tmp_path, capsys, change):
    builder.store(tmp_path / "slow", thrice("V", 50.0))
    spoil(tmp_path / "slow", change)
    builder.store(tmp_path / "good", [*thrice("V", 100.0), *thrice("W", 100.0)])
    code, found = accepted(tmp_path, capsys, [tmp_path])
    assert code == 3
    assert {one["system"]: one["outcome"] for one in found["requirements"]} == {"V": "undecided", "W": "passed"}
    assert "runs are missing" in found["requirements"][0]["reason"]
    assert [one["systems"] for one in found["missing"]] == [["V"]] * 3


def test_a_file_that_names_no_system_may_be_a_run_of_any_in_its_folder(tmp_path, capsys):
    for system in "VW":
        builder.store(tmp_path / system, thrice(system, 100.0))
    (tmp_path / "V" / "result.json").write_text('{"system": ')
    code, found = accepted(tmp_path, capsys, [tmp_path / "V", tmp_path / "W"])
    assert (code, [one["outcome"] for one in found["requirements"]]) == (3, ["undecided", "passed"])


def test_a_system_all_of_whose_records_are_left_out_is_listed(tmp_path, capsys):
    builder.store(tmp_path / "slow", thrice("V", 50.0))
    spoil(tmp_path / "slow", lambda record: record.update(step_times_s=[999.0]))
    builder.store(tmp_path / "good", thrice("W", 100.0))
    code, found = accepted(tmp_path, capsys, [tmp_path])
    assert (code, [one["system"] for one in found["requirements"]]) == (3, ["W", "V"])


def test_planned_runs_without_a_result_are_missing(tmp_path, capsys):
    run = builder.store(tmp_path / "llm_run" / "000000", thrice("V", 100.0))
    parameter = '<parameter name="runs_in_job" type="int"><value>2</value></parameter>'
    packages = "".join(f'<workpackage id="{number}">{parameter}</workpackage>' for number in range(3))
    (run / "workpackages.xml").write_text(f"<workpackages>{packages}</workpackages>")
    code, found = accepted(tmp_path, capsys, [run])
    assert code == 3
    assert "results of 3 of 6 planned runs" in found["missing"][0]["reason"]


def test_a_system_that_fails_a_requirement_is_in_no_ranking(tmp_path):
    records = [*thrice("A", 100.0), *thrice("B", 200.0, power_w=900.0)]
    text = GPT + "must: [{of: gpt, what: work_per_energy, at_least: 1000}]\n"
    for more in ("", "score: {formula: R, better: higher, terms: {R: {of: gpt, what: throughput}}}\n"):
        decision = decided(tmp_path, records, text + more)
        assert "B is first" not in first_of(decision)
        assert [one.system for one in decision.ranked.scores if one.value is not None] == ["A"]
        assert "it fails the requirement 'gpt: work per energy" in decision.ranked.scores[1].why_not
    costs = Costs("EUR", 0.2, {"A": Price(1_000), "B": Price(1)})
    words = cost_words(by_point(records), costs, decided(tmp_path, records, text).failed)
    assert words == ["Not compared, as a requirement is failed: B."]


def test_the_ranking_is_within_all_limits_of_the_budget(tmp_path):
    records = [*thrice("A", 100.0, power_w=400.0), *thrice("B", 150.0, power_w=600.0)]
    costs = Costs("EUR", 0.2, {"A": Price(1_000, 0), "B": Price(10_000, 0)}, 5, 0.8, 1.25)
    text = GPT + "budget: {devices: 30, money: 1000000, power_kw: 20}\n"
    decision = decided(tmp_path, records, text, costs)
    scores = decision.ranked.scores
    assert {one.system: (one.machine.devices, one.machine.limit) for one in scores} == {
        "A": (30, "devices"),
        "B": (26, "power"),
    }
    assert first_of(decision).startswith("B is first within the whole budget, ")


@pytest.mark.parametrize(
    ("devices", "per_node", "bought", "speed"),
    [(7, None, 7, 40_000), (8, None, 8, 80_000), (11, 4, 8, 80_000), (7, 6, 6, 40_000), (3, 4, None, None)],
)
def test_whole_jobs_run_on_whole_nodes(tmp_path, devices, per_node, bought, speed):
    records = thrice("A", 40_000.0, devices=4)
    costs = Costs("EUR", 0.2, {"A": Price(1_000, devices_per_node=per_node)})
    decision = decided(tmp_path, records, GPT + f"budget: {{money: {devices * 1000}}}", costs)
    [one] = decision.ranked.scores
    assert one.machine.devices == bought
    estimate = one.machine.speeds["gpt"].estimate
    assert (estimate and estimate.value) == (speed and pytest.approx(speed))


def test_runs_over_several_nodes_say_how_large_a_node_is(tmp_path):
    records = thrice("A", 8_000.0, devices=8)
    for record in records:
        record["layout"]["num_nodes"] = 2
    decision = decided(tmp_path, records, GPT + "budget: {devices: 11}")
    assert decision.ranked.scores[0].machine.devices == 8


def test_one_tag_in_two_offers_is_two_systems(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, speed in (("A", 100.0), ("B", 80.0)):
        builder.store(tmp_path / name, thrice("H200", speed))
    code, found = accepted(tmp_path, capsys, ["A", "B"])
    assert code == 1
    outcomes = {one["system"]: one["outcome"] for one in found["requirements"]}
    assert outcomes == {"H200 (A)": "passed", "H200 (B)": "failed"}
    _, found = accepted(tmp_path, capsys, ["A", "B"], GPT + THROUGHPUT, "--offer", "us=A", "--offer", "them=B")
    assert [one["system"] for one in found["requirements"]] == ["H200 (them)", "H200 (us)"]
    _, found = accepted(tmp_path, capsys, ["A", "B"], GPT + THROUGHPUT, "--offer", "one=A", "--offer", "one=B")
    assert [one["system"] for one in found["requirements"]] == ["H200"]


def test_an_offer_is_of_a_folder_that_is_given(tmp_path, capsys):
    builder.store(tmp_path / "A", thrice("H200", 100.0))
    for text in ("A", "=A", "x=B"):
        command = ["accept", str(tmp_path / "A"), "--requirements", str(asked(tmp_path)), "--offer", text]
        assert main(command) == 2
        assert f"--offer {text}: write NAME=FOLDER, where FOLDER is one of" in capsys.readouterr().err


def test_folders_of_different_benchmarks_are_one_offer(tmp_path, capsys):
    builder.store(tmp_path / "llm", thrice("H200", 100.0))
    builder.store(tmp_path / "images", [one | {"benchmark": "resnet50"} for one in thrice("H200", 100.0)])
    _, found = accepted(tmp_path, capsys, [tmp_path / "llm", tmp_path / "images"])
    assert [one["system"] for one in found["requirements"]] == ["H200"]


def test_an_offer_has_its_own_price_or_that_of_its_tag(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, speed in (("A", 100.0), ("B", 80.0)):
        builder.store(tmp_path / name, thrice("H200", speed))
    prices = "currency: EUR\nelectricity_per_kwh: 0.2\nsystems:\n"
    prices += "  H200: {price_per_device: 10}\n  H200 (B): {price_per_device: 5}\n"
    (tmp_path / "prices.yaml").write_text(prices)
    asked(tmp_path, GPT + "budget: {money: 100}\n")
    command = ["report", "A", "B", "--prices", "prices.yaml", "--requirements", "requirements.yaml", "--out", "r.html"]
    assert main(command) == 0
    assert "H200 (B) is first" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("points", [1, 9])
def test_the_best_of_many_points_passes_no_more_often_than_one(tmp_path, points):
    """With the truth at the limit 2.5 % pass; with nine points and no correction 11 %."""
    needs = builder.needs(tmp_path, GPT + "must: [{of: gpt, what: throughput, at_least: 100}]")
    rng = random.Random(f"best of {points}")
    passed, trials = 0, 400
    for _ in range(trials):
        records = [
            builder.result("V", 1, 8 * (point + 1), rng.gauss(100.0, 1.0)) for point in range(points) for _ in range(3)
        ]
        for record in records:
            record["provenance"] = {}
        [verdict] = decide_verdicts(records, needs)
        passed += verdict.outcome.value == "passed"
    # Five standard deviations of a binomial above 2.5 %.
    assert passed <= 0.025 * trials + 5 * (0.025 * 0.975 * trials) ** 0.5, (
        f"{passed} of {trials}, seed 'best of {points}'"
    )


def decide_verdicts(records, needs):
    return accept(by_point(records), needs)


def test_an_open_verdict_says_that_a_named_point_would_be_narrower(tmp_path, capsys):
    speeds = (97.0, 100.0, 103.0)
    records = [builder.result("V", 1, batch, speed) for batch in (8, 16, 32) for speed in speeds]
    builder.store(tmp_path / "runs", records)
    must = "must: [{of: gpt, what: throughput, %s at_least: 90}]\n"
    code, found = accepted(tmp_path, capsys, [tmp_path / "runs"], GPT + must % "")
    assert code == 3
    assert "for the best of 3 points" in found["requirements"][0]["reason"]
    assert accepted(tmp_path, capsys, [tmp_path / "runs"], GPT + must % "global_batch: 8,")[0] == 0


def short(record):
    factor = 0.5 / builder.WINDOW_S
    record["metrics"] |= {name: record["metrics"][name] * factor for name in ("measured_s", "measured_tokens")}
    return record


def test_a_window_of_half_a_second_decides_nothing(tmp_path):
    [verdict] = builder.verdicts(tmp_path, [short(one) for one in thrice("V", 100.0)], GPT + THROUGHPUT)
    assert (verdict.outcome.value, verdict.reason) == (
        "undecided",
        "no run that counts: its window is 0.5 s, at least 5 s wanted",
    )


def test_what_limits_a_result_is_next_to_its_verdict(tmp_path):
    records = [one | {"step_times_s": [12.0] * 5} for one in thrice("V", 100.0)]
    [verdict] = decide_verdicts(records, builder.needs(tmp_path, GPT + THROUGHPUT))
    assert verdict.outcome.value == "passed"
    assert [one.kind for one in verdict.answer.doubts] == ["few_steps"]


@pytest.mark.parametrize(
    ("named", "speed_in_bf16", "outcome"),
    [("", None, "undecided"), ("", 95.0, "passed"), ("", 1.0, "undecided"), (", precision: fp8", None, "passed")],
)
def test_a_requirement_without_a_precision_is_not_passed_in_fp8(tmp_path, named, speed_in_bf16, outcome):
    needs = builder.needs(tmp_path, f"workloads: {{gpt: {{benchmark: llm_training{named}}}}}\n" + THROUGHPUT)
    records = [one | {"precision": "fp8"} for one in thrice("V", 100.0)]
    records += thrice("V", speed_in_bf16) if speed_in_bf16 else []
    [verdict] = decide_verdicts(records, needs)
    assert verdict.outcome.value == outcome


@pytest.mark.parametrize("systems", [2, 40])
def test_few_sentences_say_what_would_turn_a_ranking(tmp_path, systems):
    records = [run for index in range(systems) for run in thrice(f"S{index:02d}", 100.0 * 1.05**index)]
    costs = Costs("EUR", 0.2, {f"S{index:02d}": Price(1_000) for index in range(systems)})
    decision = decided(tmp_path, records, GPT + "budget: {money: 1000000}", costs)
    best, second = f"S{systems - 1:02d}", f"S{systems - 2:02d}"
    assert first_of(decision).startswith(f"{best} is first at equal money, 5.0 % ahead of {second} (95 % interval ")
    assert changes(decision.ranked)[0] == (second, "discount of 4.8 %")
    assert len(changes(decision.ranked)) == min(3, systems - 1)
