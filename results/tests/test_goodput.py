"""Goodput of training: the formula against simulated failures, and requirements and tables on made-up checkpoints."""

from __future__ import annotations

import itertools
import math
import statistics
from pathlib import Path
from random import Random

import pytest
from scipy.optimize import minimize_scalar

from caraml.cli import main
from results.record.checks import contradictions
from results.record.model import Record
from results.record.records import RecordError
from results.tests import made_up
from results.tests.of_dicts import by_point
from results.tests.time_line import time_line
from results.verdicts.accept import accept
from results.verdicts.goodput import LEAST_SHARE, Failures, Goodput, JobTimes, goodput_of
from results.verdicts.outcome import Outcome
from results.verdicts.requirements import read_requirements
from results.verdicts.score import scores

PASSED, FAILED, OPEN = Outcome.PASSED, Outcome.FAILED, Outcome.UNDECIDED
BATCHES, CHECKPOINTS = 25, 1000  # independent simulations, and the checkpoints that each completes
ERRORS = 4.5  # standard errors of a mean of 25: with Student's t, chance exceeds them in 1 of 7,000 cases

JOBS = {
    "rare failures": (JobTimes(86400.0, 300.0, 60.0, 30.0), 2000.0),
    "a failure each half hour": (JobTimes(1800.0, 300.0, 60.0, 30.0), 300.0),
    "a failure in most restarts": (JobTimes(200.0, 300.0, 60.0, 30.0), 100.0),
    "a long interval": (JobTimes(1000.0, 10.0, 5.0, 2.0), 3000.0),
    "written while it trains": (JobTimes(1800.0, 300.0, 60.0, 3.0, 200.0), 300.0),
    "no pause": (JobTimes(1800.0, 0.0, 0.0, 0.0, 100.0), 100.0),
}


def simulated(times: JobTimes, work_s: float, random: Random) -> tuple[float, float]:
    """Share of useful time, and time per failure that is lost, of one job with random failures."""
    between_s = (random.expovariate(1 / times.mean_s) for _ in itertools.count())
    found = time_line(times, work_s, between_s, CHECKPOINTS)
    useful_s = CHECKPOINTS * work_s
    return useful_s / found.clock_s, (found.clock_s - useful_s - CHECKPOINTS * times.pause_s) / found.failures


@pytest.mark.parametrize(("times", "work_s"), JOBS.values(), ids=JOBS)
def test_simulated_failures_cost_what_the_formula_states(times, work_s):
    random = Random(7)
    runs = [simulated(times, work_s, random) for _ in range(BATCHES)]
    expected = times.useful(work_s), times.failure_s(work_s)
    for found, value in zip(zip(*runs, strict=True), expected, strict=True):
        error = statistics.stdev(found) / math.sqrt(BATCHES)
        assert abs(statistics.fmean(found) - value) < ERRORS * error
        assert error < 0.03 * value


@pytest.mark.parametrize(("times", "_"), JOBS.values(), ids=JOBS)
def test_the_best_interval_has_the_largest_useful_share(times, _):
    bounds = (max(times.delay_s, 1e-9), 20 * times.mean_s)
    found = minimize_scalar(
        lambda log_s: -times.useful(math.exp(log_s)),
        [*map(math.log, bounds)],
        method="bounded",
        bounds=[*map(math.log, bounds)],
        options={"xatol": 1e-9},
    )
    assert max(times.best_s, times.delay_s) == pytest.approx(math.exp(found.x), rel=1e-4)
    step_s = max(times.best_s, times.delay_s) / 3.3
    steps = times.steps(step_s)
    allowed = [one for one in range(1, 30) if one * step_s >= times.delay_s]
    assert steps == max(allowed, key=lambda one: times.useful(one * step_s))
    assert times.steps(1e9) == 1


@pytest.mark.parametrize("pause_s", [1e-4, 1e-2, 1.0, 30.0])
def test_the_best_interval_is_that_of_published_approximations(pause_s):
    mean_s = 86400.0
    best_s, share = JobTimes(mean_s, 0.0, 0.0, pause_s).best_s, pause_s / (2 * mean_s)
    # Daly 2006, equation 37.
    daly_s = math.sqrt(2 * pause_s * mean_s) * (1 + math.sqrt(share) / 3 + share / 9) - pause_s
    assert best_s == pytest.approx(daly_s, rel=2 * share + 1e-6)
    # Young 1974, and arXiv 2410.18124, which counts from the begin of a checkpoint to the next.
    assert best_s == pytest.approx(math.sqrt(2 * pause_s * mean_s), rel=2 * math.sqrt(share) + 1e-6)
    started_s = pause_s + math.sqrt(2 * mean_s * pause_s + pause_s**2)
    assert best_s + pause_s == pytest.approx(started_s, rel=2 * math.sqrt(share) + 1e-6)


@pytest.mark.parametrize(("mean_min", "best_min"), [(24 * 60, 117), (6 * 60, 57), (15, 9.1)])
def test_the_best_interval_is_that_of_dalys_examples(mean_min, best_min):
    # Daly 2006, figures 3 to 5: a checkpoint takes 5 min, a restart 10 min.
    assert JobTimes(60 * mean_min, 600, 0, 300).best_s / 60 == pytest.approx(best_min, rel=0.01)


def test_a_job_that_hardly_ever_gets_to_a_checkpoint_has_a_share_above_0():
    times = JobTimes(1.0, 1e4, 1e4, 10.0)
    assert times.useful(1e6) == LEAST_SHARE
    assert times.failure_s(1e6) == pytest.approx(1.0, rel=1e-5)


SPEED = 8 * 2048 / 4.0  # tokens/s, with which a step takes 4 s
GPT = "workloads: {gpt: {benchmark: llm_training}}\n"
STATED = "{mttf_h: 50000, restart_s: 300, devices: 1000"  # a failure in 50 h
CHECKPOINTS_OF_RUN = {
    **{f"checkpoint_write{end}_s": time_s for end, time_s in (("", 10.0), ("_least", 9.0), ("_most", 11.0))},
    **{f"checkpoint_restore{end}_s": time_s for end, time_s in (("", 60.0), ("_least", 50.0), ("_most", 70.0))},
    "checkpoint_pause_s": 10.0,
    "checkpoint_rounds": 5,
    "checkpoint_async": 0,
    "checkpoint_cold": 1,
    "step_time_median_s": 4.0,
}


def runs(number: int = 3, devices: int = 8, **changes):
    found = [made_up.result("V", devices, 8, SPEED, 100.0 + run) for run in range(number)]
    for record in found:
        metrics = record["metrics"] = record["metrics"] | CHECKPOINTS_OF_RUN | changes
        kinds = {} if metrics["checkpoint_async"] else {"checkpoint": metrics["checkpoint_write_s"]}
        start_s = 1e4
        for kind, time_s in (kinds | {"restore": metrics["checkpoint_restore_s"] or 1.0}).items():
            for _ in range(metrics["checkpoint_rounds"]):
                times = {"start_s": start_s, "end_s": start_s + time_s, "kind": kind}
                record["windows"] += [one | times for one in record["windows"] if one["kind"] == "measured"]
                start_s += time_s
    return found


@pytest.mark.parametrize(
    ("forged", "words"),
    [
        ({}, ""),
        ({"checkpoint_write_s": 5.0}, "its rounds took 9 s to 11 s"),
        ({"checkpoint_restore_s": 51.0}, "gives 255 s in 5 rounds, but their windows take 300 s"),
        ({"checkpoint_write_s": 10.5}, "gives 52.5 s in 5 rounds, but their windows take 50 s"),
        ({"checkpoint_rounds": 4}, "must have 4 windows of the kind checkpoint, got 5"),
        ({"checkpoint_pause_s": 1.0}, "does not go with a write of 10 s"),
        ({"checkpoint_async": 1}, "must have 0 windows of the kind checkpoint, got 5"),
        ({"checkpoint_bytes": 9e9, "checkpoint_write_gb_per_s": 1.1}, "its bytes and times give at most 1"),
    ],
)
def test_times_of_checkpoints_that_go_with_nothing_else_are_refused(forged, words):
    [record] = runs(1)
    record["metrics"] |= forged
    found = contradictions(Record.of(record))
    assert bool(found) == bool(words)
    assert words in "".join(found)


def requirement(stated: str = "", limit: float = 0.5) -> str:
    return f"must: [{{of: gpt, what: goodput_of_training, failures: {STATED}, {stated}}}, at_least: {limit}}}]"


def goodput(records, **stated):
    [point] = by_point(records)
    return goodput_of(point, Failures(50000.0, 300.0, **{"devices": 1000} | stated))


def requirements(folder: Path, text: str):
    path = folder / "requirements.yaml"
    path.write_text(text)
    return read_requirements(path)


WITHOUT = [made_up.result("V", 2, 8, 100.0, 100.0) for _ in range(3)]
ONE_ROUND = {"checkpoint_rounds": 1}
WARM = {"checkpoint_cold": 0}
SLOW = {
    "checkpoint_async": 1,
    "checkpoint_pause_s": 1.0,
    **{f"checkpoint_write{end}_s": 90.0 for end in ("", "_least", "_most")},
}


@pytest.mark.parametrize(
    ("records", "stated", "limit", "outcome", "why"),
    [
        (runs(), "", 0.97, PASSED, ""),
        (runs(1), "", 0.97, PASSED, ""),
        (runs(), "", 0.99, FAILED, ""),
        (runs(), "", 0.9875, OPEN, "the limit is within the interval, 0.986"),
        (runs(), "interval_s: 20", 0.97, FAILED, ""),
        (runs(), "mttf_h_low: 20000, mttf_h_high: 60000", 0.98, OPEN, "the limit is within the interval, 0.976"),
        (runs(**ONE_ROUND), "", 0.5, PASSED, ""),
        (runs(1, **ONE_ROUND), "", 0.5, OPEN, "one run gives no interval"),
        (WITHOUT, "", 0.5, OPEN, "no checkpoint was measured"),
        ([*WITHOUT, *runs(devices=4)], "", 0.5, PASSED, ""),
        (runs(checkpoint_restore_s=None), "", 0.5, OPEN, "no checkpoint was measured"),
        (runs(**SLOW), "", 0.97, PASSED, ""),
        (runs(**SLOW | {"checkpoint_pause_s": -0.1}), "", 0.97, PASSED, ""),
        (runs(**SLOW), "interval_s: 40", 0.99, FAILED, ""),
        (runs(), "interval_s: 1e9", 0.5, FAILED, ""),
        (runs(), "mttf_h_low: 1", 0.5, OPEN, "the limit is within the interval, 0.0"),
    ],
)
def test_a_requirement_on_goodput_is_judged_by_its_whole_interval(tmp_path, records, stated, limit, outcome, why):
    [verdict] = accept(by_point(records), requirements(tmp_path, GPT + requirement(stated, limit)))
    assert (verdict.outcome, why in verdict.reason) == (outcome, True), verdict.reason
    assert bool(verdict.reason) == bool(why)
    assert "a device fails every 50,000 h" in str(verdict.item)
    if verdict.answer.estimate:
        assert "a checkpoint every" in verdict.answer.at


def test_an_interval_is_not_shorter_than_the_write_of_a_checkpoint():
    found = goodput(runs(**SLOW), interval_s=40)
    assert (found.steps, found.interval_s) == (23, 92.0)  # 89 s after its pause of 1 s, a checkpoint is complete


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("must: [{of: gpt, what: goodput_of_training, at_least: 0.9}]", "goodput_of_training needs 'failures' with"),
        ("must: [{of: gpt, what: goodput_of_training, failures: {mttf_h: 9}, at_least: 0.9}]", "lacks 'restart_s'"),
        (f"must: [{{of: gpt, what: mfu, failures: {STATED}}}, at_least: 0.9}}]", "and nothing else has it"),
        (requirement("mttf_h_low: 60000", 0.9), "60000, 50000, None: give them in ascending order"),
        (requirement("", 95), "is too large"),
        (requirement("", 1).replace("least", "most"), "more is better"),
    ],
)
def test_a_mistake_in_failures_is_one_sentence(tmp_path, text, message):
    with pytest.raises(RecordError, match=message):
        requirements(tmp_path, GPT + text)


def test_a_failure_costs_half_an_interval_the_restart_and_the_restore(tmp_path):
    found = goodput(runs())
    assert isinstance(found, Goodput)
    # Rare failures, to first order: half of the interval and its checkpoint, 300 s and 60 s, at 1000 x 101 W.
    lost_s = (found.interval_s + 10) / 2 + 300 + 60
    assert found.failure_wh.value == pytest.approx(101e3 * lost_s / 3600, rel=0.01)
    assert found.wh_per_day.value == pytest.approx(found.failure_wh.value * 24 / 50)
    assert found.useful.value == pytest.approx(1 - 10 / found.interval_s - lost_s / 50 / 3600, rel=1e-3)
    assert found.steps * 4.0 == found.interval_s
    for estimate in (found.useful, found.failure_wh, found.wh_per_day):
        assert estimate.interval.low < estimate.value < estimate.interval.high


def test_a_restore_has_its_own_energy():
    plain, frugal = runs(), runs()
    for record in frugal:
        record["energy"]["checkpoint_restore_wh"] = 4.0  # of 8 devices, which need 13.5 Wh in 60 s of training
    saved_wh = (8 * 101 * 60 / 3600 - 4.0) * 1000 / 8
    difference = goodput(plain).failure_wh.value - goodput(frugal).failure_wh.value
    assert difference == pytest.approx(saved_wh, rel=0.01)


def test_a_score_can_have_goodput_as_a_term(tmp_path):
    quantity = f"{{of: gpt, what: goodput_of_training, failures: {STATED}}}}}"
    terms = f"terms: {{G: {quantity}, E: {{of: gpt, what: work_per_energy}}}}"
    records = runs()
    for record in records:
        record["energy"]["channels"][0]["accuracy"] = record["energy"]["accuracy"] = 0.05
    with_energy, alone = (
        scores(by_point(records), requirements(tmp_path, f"{GPT}score: {score}"), None)[0]
        for score in (
            f"{{formula: G * E, {terms}, better: higher}}",
            "{formula: E, terms: {E: {of: gpt, what: work_per_energy}}, better: higher}",
        )
    )
    [both], [energy] = with_energy.scores, alone.scores
    assert both.value == pytest.approx(goodput(records).useful.value * energy.value)
    # The accuracy of the sensor is part of both.
    assert both.interval.half / both.value > 0.99 * energy.interval.half / energy.value > 0.05


@pytest.mark.parametrize(
    ("records", "stated", "doubt"),
    [
        (runs(), {}, "checkpoint times of 8 devices are taken for a job on 1000"),
        (runs(), {"devices": None}, ""),
        (runs(**WARM), {"devices": 8}, "checkpoints may have been read from memory"),
    ],
)
def test_what_the_goodput_takes_for_granted_is_a_doubt(records, stated, doubt):
    doubts = goodput(records, **stated).doubts
    assert (len(doubts), doubt in "".join(map(str, doubts))) == (bool(doubt), True)


def test_a_table_has_the_best_and_the_stated_interval_with_what_is_assumed(tmp_path, capsys):
    folder = made_up.store(tmp_path / "runs", [*runs(), *runs(devices=4, **SLOW), *WITHOUT])
    path = tmp_path / "requirements.yaml"
    path.write_text(GPT + requirement("interval_s: 600"))
    assert main(["table", str(folder), "--goodput", str(path)]) == 0
    text = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()[2:6]]
    at = [("4", "best", "600.0"), ("", "stated", "600.0"), ("8", "best", "1,892"), ("", "stated", "600.0")]
    assert [(row[0], row[2], row[3]) for row in rows] == at
    assert "a device fails every 50,000 h, 300 s to restart" in text


@pytest.mark.parametrize(
    ("records", "text", "message"),
    [
        (runs(), "", "no run has times of a checkpoint"),
        (WITHOUT, requirement(), "no run has times of a checkpoint"),
    ],
)
def test_a_table_without_failures_or_checkpoints_is_refused(tmp_path, capsys, records, text, message):
    folder = made_up.store(tmp_path / "runs", records)
    (tmp_path / "requirements.yaml").write_text(GPT + text)
    assert main(["table", str(folder), "--goodput", str(tmp_path / "requirements.yaml")]) == 2
    assert message in capsys.readouterr().err


def test_the_report_shows_the_goodput_with_what_is_assumed(tmp_path, capsys):
    folder, path = made_up.store(tmp_path / "runs", runs()), tmp_path / "requirements.yaml"
    path.write_text(GPT + requirement())
    page = tmp_path / "report.html"
    assert main(["report", str(folder), "--requirements", str(path), "--out", str(page)]) == 0
    text = page.read_text()
    assert "GPT training, tiny: useful time of jobs that fail" in text
    assert "a device fails every 50,000 h" in text
