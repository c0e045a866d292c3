"""Pledges of made-up vendors: kept, not kept and undecided; rules of change; points of a tender's score."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from caraml.cli import main
from record.findings import finding
from results.find.records import RecordError, Skipped
from results.points.estimate import Outcome, exit_code
from results.show.tables.verdicts import decision_text
from results.tests import builder
from results.tests.builder import altered
from results.tests.of_dicts import by_point, write_report
from results.verdicts.requirements import read_requirements
from results.verdicts.tender import Decision, read_pledge
from tests.needs import need

ROOT = Path(__file__).resolve().parents[2]
PASSED, FAILED, OPEN = Outcome.PASSED, Outcome.FAILED, Outcome.UNDECIDED
SHAPE = {"num_layers": 96, "hidden_size": 12288, "num_heads": 96, "vocab_size": 50257}
FIXED = "fixed: {num_layers: 96, hidden_size: 12288, num_heads: 96, precision: bf16}"
NEEDS = f"workloads: {{gpt: {{benchmark: llm_training, {FIXED}}}}}\n"
WHOLE = NEEDS.replace("{gpt:", "{whole: {benchmark: llm_training, filled: true}, gpt:")
PLEDGE = """
vendor: Example Ltd
date: 2026-11-02
system: V
devices: 16
points:
  - {of: gpt, devices: 8, global_batch: 64, throughput: 1000, work_per_energy: 4300, time_to_solution: 278, work: 1e9}
"""


def runs(*speeds, heads=96, **changes):
    """Runs of V, each with the shape of the model in its record."""
    made = builder.runs("V", *speeds, **{"devices": 8, "batch": 64, "precision": "bf16", **changes})
    for run in made:
        run["config"] = {**run["config"], "model": {**SHAPE, "num_heads": heads}}
    return made


def filled(power_w=7500.0, devices=16, scope="node", speed=2000.0, **changes):
    """A run in which copies filled the machine."""
    [one] = builder.of_scope(
        scope, runs(speed, devices=devices, batch=128, power_w=float(power_w) / devices, **changes)
    )
    copies = devices // 8
    one["fill"] = {"copies": copies, "devices_per_copy": 8, "slowest": speed / copies, "spread_percent": 0.0}
    one["fill"]["common_s"] = builder.WINDOW_S
    one["fill"]["per_copy"] = [{"copy": number + 1, "rate": speed / copies, "windows": []} for number in range(copies)]
    return one


GOOD = runs(1010.0, 1011.0, 1009.0)


def written(folder, text):
    path = folder / "pledge.yaml"
    path.write_text(text)
    return path


def judged(folder, records, pledge=PLEDGE, needed=NEEDS, skipped=()):
    requirements = builder.needs(folder, needed)
    of_vendor = read_pledge(written(folder, pledge), requirements.workloads) if pledge else None
    return Decision(by_point(records), requirements, None, skipped, of_vendor)


def at_limit(watts, speed, power_w):
    found = runs(*(speed * factor for factor in (1.001, 1.0, 0.999)), power_w=power_w)
    for one in found:
        altered(one, {"energy.channels.0.limits": {"power_limit_w": watts, "clock_limit_mhz": None}})
    return found


def test_one_setup_must_keep_all_figures_of_a_point(tmp_path):
    records = [*at_limit(700.0, 1100.0, 100.0), *at_limit(400.0, 800.0, 50.0)]  # 4,950 and 7,200 tokens/Wh
    places = {
        "throughput: 1000, work_per_energy: 4800": [PASSED, PASSED],
        "throughput: 1000, work_per_energy: 6500": [OPEN, OPEN],
        "throughput: 1000, work_per_energy: 9000": [PASSED, FAILED],
        "power_limit_w: 400, throughput: 700, work_per_energy: 6500": [PASSED, PASSED],
        "power_limit_w: 700, throughput: 1000, work_per_energy: 6500": [PASSED, FAILED],
    }
    for place, outcomes in places.items():
        point = f"{{of: gpt, devices: 8, {place}}}"
        tender = judged(
            tmp_path, records, f"{{vendor: E, date: 2026-11-02, system: V, devices: 16, points: [{point}]}}"
        )
        assert [one.outcome for one in tender.pledged] == outcomes, place
        assert all("none of them keeps all" in one.reason for one in tender.pledged if one.outcome is OPEN)


@pytest.mark.parametrize(
    ("records", "code", "outcomes", "why"),
    [
        (GOOD, 0, [PASSED] * 3, ""),
        (runs(970.0, 971.0, 969.0), 1, [FAILED, PASSED, FAILED], ""),  # 3 % too slow
        (runs(1010.0), 3, [OPEN] * 3, "one run gives no interval"),
        (runs(1010.0, 1011.0, 1009.0, heads=48), 1, [FAILED] * 3, "num_heads is 48, fixed at 96"),
        (runs(999.0, 1003.0, 1001.0), 3, [OPEN, PASSED, OPEN], "the limit is within the interval"),
    ],
)
def test_a_pledge_is_kept_or_not_or_undecided(tmp_path, records, code, outcomes, why):
    tender = judged(tmp_path, records)
    assert [one.outcome for one in tender.pledged] == outcomes
    assert exit_code(tender.outcomes) == code
    assert (why in tender.pledged[0].reason, bool(tender.pledged[0].reason)) == (True, bool(why))


def test_a_run_that_changed_what_is_fixed_is_named_and_others_count(tmp_path):
    changed = runs(9000.0, 9001.0, heads=48)
    changed[0]["file"] = {"path": "runs/000001/result.json"}
    tender = judged(tmp_path, [*GOOD, *changed])
    assert exit_code(tender.outcomes) == 0
    assert tender.pledged[0].answer.value == 1010.0
    assert list(tender.left_out.values()) == [
        f"V, {place}: does not count for gpt: num_heads is 48, fixed at 96"
        for place in ("runs/000001/result.json", "8 devices, batch 64")
    ]


def at_commit(commit="0123456789abcdef", dirty=False):
    return {"provenance": {**GOOD[0]["provenance"], "git_commit": commit, "git_dirty": dirty}}


TURNS = {"config": {"turns": {"effective": True, "rate": 0.1}}}


@pytest.mark.parametrize(
    ("fixed", "changes", "outcome", "why"),
    [
        ("precision: bf16", {"precision": "fp8"}, FAILED, "precision is fp8, fixed at bf16 or more bits"),
        ("precision: bf16", {"precision": "mxint"}, OPEN, "precision is mxint, fixed at bf16 or more bits"),
        ('sequence_length: "2048"', {}, PASSED, ""),
        ("model: 175B", {}, FAILED, "model is tiny, fixed at 175B"),
        ("commit: 0123456789a", {}, PASSED, ""),
        ("commit: 0123456", {}, PASSED, ""),  # no number
        ('commit: "0123457"', {}, FAILED, "commit is 0123456789abcdef, fixed at 0123457"),
        ('commit: "0123456"', at_commit(dirty=True), FAILED, "the code had local changes"),
        ('commit: "0123456"', at_commit(dirty=None), OPEN, "whether the code had local changes is not recorded"),
        ('commit: "0123456"', at_commit(None), OPEN, "commit is not recorded"),
        ('turns.effective: "true"', TURNS, PASSED, ""),
        ("turns.effective: false", TURNS, FAILED, "turns.effective is True, fixed at False"),
        ("training.learning_rate: 0.1", {}, OPEN, "training.learning_rate is not recorded, fixed at 0.1"),
    ],
)
def test_what_is_fixed_is_checked_in_each_record(tmp_path, fixed, changes, outcome, why):
    needed = f"workloads: {{gpt: {{benchmark: llm_training, fixed: {{{fixed}}}}}}}\n"
    needed += "must: [{of: gpt, what: throughput, devices: 8, at_least: 1}]"
    [verdict] = judged(tmp_path, runs(1000.0, 1001.0, **changes), None, needed).must
    assert (verdict.outcome, bool(verdict.reason)) == (outcome, bool(why))
    assert why in verdict.reason


def test_a_failed_run_that_changed_something_is_no_failure_of_the_pledge(tmp_path):
    needed = NEEDS + "must: [{of: gpt, what: failed_runs, at_most: 0}]"
    bad = builder.failed("V", 8, 64)
    assert judged(tmp_path, [*GOOD, bad], None, needed).must[0].outcome is FAILED
    changed = bad | {"config": {"model": {"num_heads": 48}}}
    tender = judged(tmp_path, [*GOOD, changed], None, needed)
    assert tender.must[0].outcome is PASSED
    assert "num_heads is 48" in "".join(tender.left_out.values())


def filled_thrice(power_w=7500.0, speed=2000.0, **changes):
    return [filled(power_w, speed=speed * share, **changes) for share in (0.999, 1.0, 1.001)]


@pytest.mark.parametrize(
    ("records", "outcome", "why"),
    [
        (filled_thrice(), PASSED, ""),
        (filled_thrice(8500.0), FAILED, ""),
        (filled_thrice(7950.0), OPEN, "the limit is within the interval"),
        (filled_thrice(scope="device"), OPEN, "the power is of the devices alone"),
        (filled_thrice(9000.0, scope="device"), FAILED, ""),
        (filled_thrice(9000.0, estimated=True, scope="cpu"), OPEN, "it is an estimate from load"),
        (filled_thrice(devices=8), OPEN, "no run at this point, only at 8 devices"),
        ([filled()], OPEN, "one run gives no interval"),
        ([], OPEN, "no run of this workload"),
        # The highest power decides; and a power at which the pledged speed is not reached is not kept.
        ([*filled_thrice(), *filled_thrice(9000.0, variant=["other"])], FAILED, ""),
        (filled_thrice(speed=400.0), PASSED, ""),
    ],
)
def test_the_committed_power_is_that_of_the_filled_machine(tmp_path, records, outcome, why):
    pledge = PLEDGE + "  - {of: whole, devices: 16, throughput: 1900, power: 8000}\n"
    *_, power = judged(tmp_path, [*GOOD, *records], pledge, WHOLE).pledged
    assert (power.outcome, bool(power.reason)) == (outcome, bool(why))
    assert why in power.reason
    assert str(power.item) == "whole: power on 16 devices at most 8,000"


def test_failed_runs_stay_a_failure_next_to_runs_that_do_not_count(tmp_path):
    unknown = runs(1000.0)
    del unknown[0]["config"]["model"]
    assert judged(tmp_path, unknown).pledged[0].outcome is OPEN
    assert judged(tmp_path, [*unknown, builder.failed("V", 8, 64)]).pledged[0].outcome is FAILED


@pytest.mark.parametrize("ordinary", [[], [builder.failed("V", 8, 64)]])
def test_copies_are_no_run_of_a_workload_that_is_not_filled(tmp_path, ordinary):
    needed = NEEDS + "must: [{of: gpt, what: throughput, at_least: 1500}]\n" + SCORE + "budget: {devices: 16}"
    tender = judged(tmp_path, [*ordinary, *(filled(speed=speed) for speed in (2e3, 2001.0, 1999.0))], None, needed)
    assert tender.must[0].outcome is (FAILED if ordinary else OPEN)
    assert tender.scores[0].answer.value is None


def test_a_workload_that_the_pledge_has_no_figure_for_is_said(tmp_path):
    needs = NEEDS.replace("}}}", "}}, r: {benchmark: resnet50}}")
    tender = judged(tmp_path, GOOD, PLEDGE, needs)
    assert tender.without_figure == ["the pledge has no figure for the workload r: ask the vendor for one"]
    assert tender.without_figure[0] in decision_text(tender)
    assert judged(tmp_path, GOOD).without_figure == judged(tmp_path, GOOD, None, needs).without_figure == []


def test_a_point_without_runs_is_undecided_whatever_was_measured_elsewhere(tmp_path):
    more = "  - {of: gpt, devices: 16, throughput: 1900}\n"
    without = judged(tmp_path, GOOD, PLEDGE + more).pledged[-1]
    assert (without.outcome, without.reason) == (OPEN, "no run at this point, only at 8 devices, batch 64")
    assert judged(tmp_path, [*GOOD, *runs(1950.0, 1951.0, devices=16)], PLEDGE + more).pledged[-1].outcome is PASSED


def test_missing_runs_never_help_to_keep_a_pledge(tmp_path):
    lost = Skipped(finding("note", text="a file is damaged"), tmp_path, ("V",))
    found = judged(tmp_path, GOOD, skipped=[lost]).pledged
    assert {one.outcome for one in found} == {OPEN}
    assert all("runs are missing" in one.reason for one in found)
    other = builder.result("W", 8, 64, 1000.0)
    tender = judged(tmp_path, [other], needed=NEEDS + SCORE, skipped=[lost])
    assert ({one.outcome for one in tender.pledged}, tender.scores) == ({OPEN}, [])
    with pytest.raises(RecordError, match="the pledge is for V, but the runs are of W"):
        judged(tmp_path, [other])


def test_the_requirements_of_another_system_decide_nothing_about_a_pledge(tmp_path, capsys):
    others = [builder.result("W", 8, 64, speed) for speed in (10.0, 10.1, 9.9)]
    needed = NEEDS.replace(FIXED, "model: tiny") + "must: [{of: gpt, what: throughput, devices: 8, at_least: 900}]"
    tender = judged(tmp_path, [*GOOD, *others], needed=needed)
    assert [one.outcome for one in tender.must] == [PASSED, FAILED]  # for the ranking of all
    assert ([one.system for one in tender.judged], exit_code(tender.outcomes)) == (["V"], 0)
    assert exit_code(judged(tmp_path, [*GOOD, *others], None, needed).outcomes) == 1
    builder.store(tmp_path / "runs", [*GOOD, *others])
    assert accepted(tmp_path) == 0
    assert not [line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("W")]


SCORE = """score:
  formula: 3600 / (0.5 * A + 0.5 * B)
  better: higher
  minimum: 1.82
  points: 40
  terms:
    A: {of: gpt, what: machine_time, unit: s, work: 3.6e+6}
    B: {of: gpt, what: time_to_solution, unit: s, work: 2.0e+6, devices: 8}
"""


@pytest.mark.parametrize(
    ("speeds", "outcome"), [((1010.0, 1010.5, 1009.5), PASSED), ((800.0, 801.0, 799.0), FAILED), ((1010.0,), OPEN)]
)
def test_points_are_those_of_the_tender_s_formula(tmp_path, speeds, outcome):
    [award] = judged(tmp_path, runs(*speeds), needed=NEEDS + SCORE).scores
    # t n / N: 3.6e6 tokens on 8 devices take 3.6e6 / speed, and the machine has 16 devices.
    value = 3600 / (0.5 * 3.6e6 / speeds[0] * 8 / 16 + 0.5 * 2e6 / speeds[0])
    assert award.answer.value == pytest.approx(value)
    assert award.answer.award == pytest.approx(40 * value / 1.82)
    assert award.outcome is outcome
    assert ("one run" in award.reason) == (outcome is OPEN)


def test_a_formula_without_a_value_next_to_the_found_one_has_no_score(tmp_path):
    at_its_end = SCORE.replace("3600 / (0.5 * A + 0.5 * B)", f"sqrt(B - {2e6 / 1010!r}) + A")
    [award] = judged(tmp_path, GOOD, needed=NEEDS + at_its_end).scores
    assert (award.answer.value, award.outcome) == (None, OPEN)
    assert "has no value" in award.reason


def test_terms_from_the_same_runs_err_together(tmp_path):
    tender = judged(tmp_path, GOOD, needed=NEEDS + SCORE)
    speed, [award] = tender.pledged[0], tender.scores  # both terms, and so the score, are proportional to the speed
    shares = [one.answer.interval.half / one.answer.value for one in (award, speed)]
    assert shares[0] == pytest.approx(shares[1], rel=1e-3)
    slower = runs(500.0, 501.0, 499.0, batch=32)  # the score is of the best of two points, as in a requirement
    [of_two] = judged(tmp_path, [*GOOD, *slower], needed=NEEDS + SCORE).scores
    assert of_two.answer.interval.half > award.answer.interval.half


def test_a_score_without_a_pledge_has_the_budget_s_devices(tmp_path):
    needed = NEEDS + SCORE
    [award] = judged(tmp_path, GOOD, None, needed + "budget: {devices: 16}").scores
    assert award.outcome is PASSED
    [award] = judged(tmp_path, GOOD, None, needed).scores
    assert (award.answer.value, award.outcome) == (None, OPEN)
    assert "the devices of the machine are not known" in award.reason
    assert judged(tmp_path, GOOD, None, NEEDS + SCORE.replace("  minimum: 1.82\n  points: 40\n", "")).scores == []
    lost = Skipped(finding("note", text="a file is damaged"), tmp_path, ("V",))
    assert judged(tmp_path, GOOD, None, needed + "budget: {devices: 16}", [lost]).scores[0].outcome is OPEN


def test_a_filled_machine_is_that_of_the_slowest_copy(tmp_path):
    needed = WHOLE + SCORE.replace("of: gpt, what: machine_time", "of: whole, what: machine_time")
    [award] = judged(tmp_path, GOOD, needed=needed).scores
    assert (award.outcome, award.reason) == (OPEN, "A: no run of this workload")
    part = [filled(devices=8, speed=1000.0) for _ in range(3)]
    [award] = judged(tmp_path, [*GOOD, *part], needed=needed).scores
    assert "the copies filled 8 of 16 devices" in award.reason
    filling = [filled(speed=speed) for speed in (1900.0, 1901.0, 1899.0)]
    [award] = judged(tmp_path, [*GOOD, *filling], needed=needed).scores
    assert award.answer.value == pytest.approx(3600 / (0.5 * 3.6e6 / 1900 + 0.5 * 2e6 / 1010))


ITEM = "points: [{of: gpt, devices: 8, throughput: 1000}]"
HEAD = "vendor: A\ndate: 2026-11-02\nsystem: V\ndevices: 16\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, "lacks 'points'"),
        (HEAD.replace("V", "''") + ITEM, "system is '', but must be a tag in plain letters"),
        (HEAD.replace("16", "4") + ITEM, "a point is on 8 devices, but the whole machine has 4"),
        (HEAD + ITEM.replace("devices: 8, ", ""), "point 1 lacks 'devices'"),
        (HEAD + ITEM.replace(", throughput: 1000", ""), "point 1 lacks a number: give one or more of throughput"),
        (HEAD + ITEM.replace("1000", "1000, work: 1e9"), "work is 1000000000.0, but only a time_to_solution has one"),
        (HEAD + ITEM.replace("1000", "1000, work_unit: images"), "but GPT training counts tokens"),
        (
            HEAD + ITEM.replace("throughput: 1000", "mfu: 45"),
            "the limit 45 of mfu is too large: write 0.25 for 25 %",
        ),
    ],
)
def test_a_mistake_in_a_pledge_is_a_sentence(tmp_path, text, message):
    with pytest.raises(RecordError) as caught:
        judged(tmp_path, GOOD, text or "\n")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NEEDS.replace("bf16", "bf17"), "precision is 'bf17', but must be one of fp4"),
        (NEEDS + SCORE.replace("higher", "lower"), "a minimum must be greater than 0, and needs 'better: higher'"),
        (NEEDS + SCORE.replace("  minimum: 1.82\n", ""), "points are those at the minimum"),
    ],
)
def test_a_mistake_in_the_rules_of_change_or_the_score_is_a_sentence(tmp_path, text, message):
    with pytest.raises(RecordError) as caught:
        builder.needs(tmp_path, text)
    assert message in str(caught.value)


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory):
    """Records, requirements with a score and a pledge in files."""
    folder = tmp_path_factory.mktemp("pledge")
    changed = runs(2000.0, heads=48)
    builder.store(folder / "runs", [*GOOD, *changed])
    builder.needs(folder, NEEDS + SCORE)
    written(folder, PLEDGE)
    return folder


def accepted(folder, *words):
    files = ["--requirements", str(folder / "requirements.yaml"), "--pledge", str(folder / "pledge.yaml")]
    return main(["accept", str(folder / "runs"), *files, *map(str, words)])


def test_the_command_prints_pledge_score_and_what_does_not_count(handed_in, capsys):
    assert accepted(handed_in) == 0
    text = capsys.readouterr().out
    assert "pledge of Example Ltd, 2026-11-02, V of 16 devices, not signed: its author is not known:\n" in text
    assert text.count("✓ kept") == 3
    assert re.search(r"V +\| score at least 1.82 +\| ✓ passed +\| 1.9137 = 42.06 points +\| 1.9090 to 1.9184", text)
    assert "does not count for gpt: num_heads is 48, fixed at 96" in text
    assert accepted(handed_in, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["exit_code"], data["pledge"]["vendor"], data["pledge"]["devices"]) == (0, "Example Ltd", 16)
    assert {one["outcome"] for one in data["pledge"]["items"]} == {"kept"}
    assert data["scores"][0]["points"] == pytest.approx(40 * data["scores"][0]["value"] / 1.82)
    assert [(one["what"], one["at_least"]) for one in data["scores"]] == [("score", 1.82)]
    assert "num_heads is 48" in data["left_out"][0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["accept", "--signers", "s", "--requirements"], "--signers are those of a pledge: give --pledge FILE"),
        (["report", "--pledge", "pledge.yaml", "-o", "r.html"], "--pledge needs --requirements FILE"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(handed_in, words, message, capsys, monkeypatch):
    monkeypatch.chdir(handed_in)
    words = [*words, "requirements.yaml"] if words[-1] == "--requirements" else words
    assert main([*words, "runs"]) == 2
    assert message in capsys.readouterr().err


def test_the_report_has_a_section_on_the_pledge(handed_in, tmp_path):
    requirements = read_requirements(handed_in / "requirements.yaml")
    pledge = read_pledge(handed_in / "pledge.yaml", requirements.workloads)
    records = [*runs(970.0, 971.0, 969.0), *runs(2000.0, heads=48)]
    decision = Decision(by_point(records), requirements, None, pledge=pledge)
    assert [one.outcome for one in decision.pledged] == [FAILED, PASSED, FAILED]
    page, *_ = write_report(records, [], tmp_path / "report.html", requirements=requirements, pledge=pledge)
    text = page.read_text()
    assert '<section id="pledge">' in text
    assert "Pledge of Example Ltd, 2026-11-02, V of 16 devices" in text
    assert "✗ not kept" in text
    assert "score at least 1.82" in text
    assert "num_heads is 48, fixed at 96" in text
    assert "3 runs" in text  # what does not count is in no table and no plot
    page, *_ = write_report(records, [], tmp_path / "other.html", requirements=requirements)
    assert '<section id="pledge">' not in page.read_text()


def test_a_pledge_is_signed_by_an_allowed_signer(handed_in, tmp_path, capsys):
    need("ssh-keygen")
    folder = Path(shutil.copytree(handed_in, tmp_path / "signed"))
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "vendor"], check=True)
    (folder / "signers").write_text(f"sales@vendor.example {(folder / 'vendor.pub').read_text()}")

    def signed(key, purpose="caraml-pledge"):
        (folder / "pledge.yaml.sig").unlink(missing_ok=True)
        command = ["ssh-keygen", "-q", "-Y", "sign", "-n", purpose, "-f", folder / key, folder / "pledge.yaml"]
        subprocess.run(command, check=True, capture_output=True)

    assert accepted(folder, "--signers", folder / "signers") == 2
    assert "is not signed: " in capsys.readouterr().err
    signed("vendor")
    assert accepted(folder) == 0
    assert "signed, but the signer was not checked" in capsys.readouterr().out
    assert accepted(folder, "--signers", folder / "signers") == 0
    assert "signed by sales@vendor.example" in capsys.readouterr().out
    signed("vendor", "caraml-archive")  # a signature for another purpose
    assert accepted(folder, "--signers", folder / "signers") == 2


def test_the_preset_of_jupiter_has_the_tender_s_limit(tmp_path):
    path = ROOT / "examples/tenders" / "jupiter-gpt175b.yaml"
    [item], [gpt] = read_requirements(path).must, read_requirements(path).workloads.values()
    assert (item.work, item.unit, item.at_most) == (20e6, "s", 560)
    assert item.work / 36_055.39 == pytest.approx(554.70, abs=0.005)  # the reference's tokens/s and its time
    from benchmarks.llm_training.config import SIZES

    shape = vars(SIZES["175B"])
    assert {name: gpt.fixed[name] for name in ("hidden_size", "num_layers", "num_heads")}.items() <= shape.items()
    assert not {"tensor_parallel_size", "micro_batch_size"} & gpt.fixed.keys()


@pytest.mark.parametrize(("speed", "heads", "outcome"), [(36e3, 96, PASSED), (35e3, 96, FAILED), (36e3, 80, FAILED)])
def test_runs_are_judged_by_the_preset_of_jupiter(speed, heads, outcome):
    requirements = read_requirements(ROOT / "examples/tenders" / "jupiter-gpt175b.yaml")
    records = runs(speed, speed + 5, speed - 5, heads=heads, devices=384, batch=384, model="175B")
    tender = Decision(by_point(records), requirements)
    assert [one.outcome for one in tender.must] == [outcome]
    assert bool(tender.left_out) == (heads != 96)


def test_the_preset_of_arrhenius_has_the_tender_s_score(tmp_path):
    requirements = read_requirements(ROOT / "examples/tenders" / "arrhenius-like.yaml")
    assert (requirements.score.minimum, requirements.score.points) == (1.82, 40)
    records = [
        filled(speed=speed, model=model, devices=16)
        for model, speeds in (("800M", (20e6, 20.01e6, 19.99e6)), ("13B", (20e6, 20.01e6, 19.99e6)))
        for speed in speeds
    ]
    points = "points: [{of: small, devices: 16, throughput: 1.9e+7}, {of: large, devices: 16, throughput: 2.0e+8}]"
    pledge = read_pledge(written(tmp_path, HEAD + points), requirements.workloads)
    tender = Decision(by_point(records), requirements, pledge=pledge)
    assert [one.outcome for one in tender.pledged] == [PASSED, FAILED]
    [award] = tender.scores
    # P = 3600 s / sum(w t n / N): 20 million tokens took the whole machine 1 s.
    assert award.answer.value == pytest.approx(3600 / (1000 * 1 + 1000 * 1))
    assert award.outcome is FAILED


def test_the_examples_go_with_the_records_of_the_suite(capsys):
    words = ["--requirements", str(ROOT / "examples/requirements.yaml"), "--pledge", str(ROOT / "examples/pledge.yaml")]
    assert main(["accept", str(ROOT / "results" / "records" / "H200"), *words]) == 3
    text = capsys.readouterr().out
    assert "pledge of Example Ltd, 2026-11-02, H200 of 64 devices" in text
    assert "H200 meets 2 of 7 requirements, 5 undecided" in text
