"""Changes in made series of which each change is known."""

from __future__ import annotations

import math
from random import Random

import pytest

pytest.importorskip("ruptures", reason="needs the package ruptures: scripts/setup.sh history")

from results.history.changes import DRIFT_SIGNIFICANCE, FEWEST, SIGNIFICANCE, fit, trend_of, without_outliers
from results.history.judge import Known, read_known, verdict_data, verdict_of
from results.history.series import EFFICIENCY, SPEED, time_d
from results.record.records import RecordError
from results.tests import made_up
from results.tests.of_dicts import series_of
from results.verdicts.outcome import Outcome

pytestmark = pytest.mark.arithmetic
NOISE = 0.005


def noise(weeks, seed=1, size=NOISE):
    random = Random(seed)
    return [random.gauss(0, size) for _ in range(weeks)]


def weeks_d(logs):
    return [7.0 * week for week in range(len(logs))]


def fitted(logs, **more):
    return fit(weeks_d(logs), logs, **more)


def stepped(logs, *steps):
    return [log + sum(math.log(ratio) for at, ratio in steps if week >= at) for week, log in enumerate(logs)]


def speed_of(records):
    return next(one for one in series_of(made_up.as_read(records)) if one.quantity == SPEED)


@pytest.fixture(scope="module")
def two_years():
    return {one.quantity: one for one in series_of(made_up.as_read(made_up.weekly()))}


def test_three_changes_a_drift_and_a_driver_are_judged(two_years):
    verdict = verdict_of(two_years[SPEED], 0.02)
    *changes, drift = verdict.findings
    assert [one.first_run for one in changes] == ["2024-07-01", "2024-12-30", "2025-06-30"]
    for one, ratio in zip(changes, made_up.CHANGES.values(), strict=True):
        assert one.outcome is Outcome.FAILED
        low, high = one.ratio.interval
        assert low < ratio < high and high - low < 0.012
    assert [one.causes for one in changes] == [[], ["driver_version 570.1 → 580.2"], ["clock in MHz 1980 → 1755"]]
    assert drift.kind == "drift"
    low, high = drift.ratio.interval
    assert low < 0.98 < high
    assert drift.outcome is Outcome.UNDECIDED  # 2 % a year and a threshold of 2 %
    assert verdict.outcome is Outcome.FAILED


def test_the_efficiency_is_judged_too(two_years):
    verdict = verdict_of(two_years[EFFICIENCY], 0.02)
    assert [one.first_run for one in verdict.findings if one.kind == "change"] == [
        "2024-07-01",
        "2024-12-30",
        "2025-06-30",
    ]


@pytest.mark.parametrize("ratio", [0.97, 0.9, 1.03])
def test_a_change_is_found_from_its_third_week_on(ratio):
    logs = stepped(noise(43), (40, ratio))
    assert not fitted(logs[:41]).steps
    [step] = fitted(logs).steps
    assert step.at == 40
    assert step.ratio.interval.low < ratio < step.ratio.interval.high


def test_one_or_two_bad_weeks_are_outliers():
    logs = noise(60)
    logs[20] -= 0.1
    logs[40] -= 0.1
    logs[41] -= 0.1
    found = fitted(logs)
    assert (found.steps, found.outliers) == ([], [20, 40, 41])


def test_a_bad_last_week_cannot_be_decided_until_it_is_confirmed():
    records = made_up.weekly(40, {39: 0.9}, 1.0)
    verdict = verdict_of(speed_of(records), 0.02)
    assert verdict.outcome is Outcome.UNDECIDED
    assert verdict.reasons == ["-11.3 % on 2024-09-30, not confirmed: run the point again"]
    assert verdict_of(speed_of(made_up.weekly(40, {39: 1.1}, 1.0)), 0.02).outcome is Outcome.PASSED


def test_few_runs_and_runs_that_scatter_cannot_decide():
    few = verdict_of(speed_of(made_up.weekly(FEWEST - 1, {})), 0.02)
    assert (few.outcome, few.reasons) == (Outcome.UNDECIDED, ["7 days with good runs, 8 needed"])
    wide = verdict_of(speed_of(made_up.weekly(20, {}, 1.0, noise=0.03)), 0.02)
    assert wide.outcome is Outcome.UNDECIDED
    assert wide.reasons == [
        "runs scatter by 2.3 %: 3 of them show a change of 3.1 % at best; "
        "run the point 3 times as often, or judge by --threshold 3.1"
    ]


def test_a_change_that_may_be_worse_than_the_threshold_cannot_be_decided():
    series = speed_of(made_up.weekly(60, {40: 0.97}, 1.0))
    outcomes = {limit: verdict_of(series, limit).outcome for limit in (0.02, 0.03, 0.05)}
    assert outcomes == {0.02: Outcome.FAILED, 0.03: Outcome.UNDECIDED, 0.05: Outcome.PASSED}


def test_small_changes_are_judged_together():
    small = {30: 0.985, 50: 0.985, 70: 0.985}
    verdict = verdict_of(speed_of(made_up.weekly(100, small, 1.0, noise=0.002)), 0.02)
    assert verdict.outcome is Outcome.FAILED
    assert [one.outcome.value for one in verdict.findings] == ["passed", "passed", "passed", "failed"]
    low, high = verdict.findings[-1].ratio.interval
    assert low < 0.985**3 < high
    assert verdict.findings[-1].text.endswith("by the changes from 2024-07-29 on together")
    after_gain = verdict_of(speed_of(made_up.weekly(100, {10: 1.05, **small}, 1.0, noise=0.002)), 0.02)
    assert after_gain.findings[-1].first_run == "2024-07-29"  # a gain does not make up for what was lost later
    for regained in ({30: 0.985, 50: 0.985, 70: 1.03}, {30: 0.985, 60: 1.0}):
        series = speed_of(made_up.weekly(100, regained, 1.0, noise=0.002))
        assert verdict_of(series, 0.02).outcome is Outcome.PASSED
    known = [Known("2024-07-29"), Known("2024-12-16")]
    assert (
        verdict_of(speed_of(made_up.weekly(100, small, 1.0, noise=0.002)), 0.02, known=known).outcome is Outcome.PASSED
    )


def test_a_gain_is_reported_and_passes():
    verdict = verdict_of(speed_of(made_up.weekly(60, {40: 1.05}, 1.0)), 0.02)
    assert verdict.outcome is Outcome.PASSED
    assert verdict.findings[0].outcome is Outcome.PASSED and "from 2024-10-07" in verdict.text


def test_a_drift_alone_is_no_change_of_level():
    logs = [log - 0.04 * week / 52 for week, log in enumerate(noise(104))]
    found = fitted(logs)
    assert found.steps == []
    assert found.drift.interval.low < math.exp(-0.04 * 365.25 / 364) < found.drift.interval.high
    verdict = verdict_of(speed_of(made_up.weekly(104, {}, 0.96)), 0.02)
    assert verdict.outcome is Outcome.FAILED and "a year, since 2024-01-01" in verdict.text


def test_no_drift_is_stated_for_a_few_days():
    logs = [log - 0.01 * day for day, log in enumerate(noise(20, size=0.001))]
    assert fit([float(day) for day in range(20)], logs).drift is None


def test_a_drift_is_stated_from_two_months_on():
    assert fitted([log - 0.01 * week for week, log in enumerate(noise(10, size=0.001))]).drift is not None


def test_values_without_scatter():
    assert fitted([1.0] * 20).steps == []
    [step] = fitted([1.0] * 10 + [1.1] * 10).steps
    assert step.at == 10 and step.ratio.value == pytest.approx(math.exp(0.1))


def test_values_that_are_alike_widen_the_interval():
    own = noise(80)
    alike = [own[0]]
    for log in own[1:]:
        alike.append(0.6 * alike[-1] + 0.8 * log)
    half, half_alike = (fitted(stepped(logs, (40, 0.9))).steps[0].ratio.interval.half for logs in (own, alike))
    assert half_alike > 1.4 * half


def test_the_uncertainty_of_the_values_is_the_least_scatter():
    logs = stepped(noise(40, size=0.001), (20, 0.97))
    assert fitted(logs).scatter == pytest.approx(0.001, rel=0.3)
    assert fitted(logs, own=[0.01**2] * 40).scatter == pytest.approx(0.01)


def test_failed_runs_after_the_last_good_one_cannot_decide():
    records = made_up.as_read(made_up.weekly(40, {}, 1.0))
    failed = made_up.failed("H200", 1, 64)
    failed["file"] = {"path": "made up", "created": "2025-01-01T00:00:00"}
    [_, speed] = series_of([*records, failed])
    assert speed.failed == 1
    verdict = verdict_of(speed, 0.02)
    assert (verdict.outcome, verdict.reasons) == (Outcome.UNDECIDED, ["its last 1 run failed"])
    failed["file"]["created"] = "2024-02-01T00:00:00"
    assert verdict_of(series_of([*records, failed])[1], 0.02).outcome is Outcome.PASSED


def test_a_failed_run_is_of_the_points_with_its_options():
    """In fp8 the point fails each week, before its run in bf16: that one is fine, and the other one is named."""
    good, failed = made_up.as_read(made_up.weekly(10, {}, 1.0)), []
    for one in good:
        config = {"compute": {**one["config"]["compute"], "precision": "fp8"}}
        file = {"path": "made up", "created": one["file"]["created"].replace("T03", "T02")}
        failed.append(made_up.failed("H200", 1, 64, config=config, precision="fp8", file=file))
    never, _, speed = series_of([*good, *failed])
    assert (never.failed, never.observations, speed.failed) == (10, [], 0)
    assert verdict_of(never, 0.02).outcome is Outcome.UNDECIDED
    failed[-1]["file"]["created"] = ""  # in an archive, a run that failed early has no time
    assert series_of([*good, *failed])[0].failed == 10


def test_each_operating_point_has_its_own_level():
    records = []
    for watts, speed in ((700.0, 1.0), (350.0, 0.7)):
        for one in made_up.as_read(made_up.weekly(40, {30: 0.9 * speed, 0: speed}, 1.0, seed=int(watts))):
            limits = {"power_limit_w": watts, "clock_limit_mhz": None, "limits_set_by": "jpwr"}
            channels = [{**channel, "limits": limits} for channel in one["energy"]["channels"]]
            records.append({**one, "energy": {**one["energy"], "channels": channels}})
    found = [one for one in series_of(records) if one.quantity == SPEED]
    assert [one.variant[-1] for one in found] == ["350 W", "700 W"]
    assert {verdict_of(one, 0.02).findings[0].first_run for one in found} == {"2024-07-29"}
    for one in records:
        one["energy"]["channels"][0]["limits"]["limits_set_by"] = ""  # observed: what may have changed
    [both] = [one for one in series_of(records) if one.quantity == SPEED]
    assert len(both.observations) == 80 and not both.variant[-1].endswith("W")


def test_a_server_that_answers_slower_at_the_same_load_got_worse():
    records = made_up.as_read(made_up.weekly(40, {}, 1.0))
    slower = made_up.as_read(made_up.weekly(40, {30: 0.9}, 1.0, seed=2))
    for one, other in zip(records, slower, strict=True):
        one["metrics"]["tokens_per_s_per_user"] = other["metrics"]["tokens_per_s_per_device"] / 20
    found = {one.quantity: verdict_of(one, 0.02).outcome for one in series_of(records)}
    assert found == {EFFICIENCY: Outcome.PASSED, SPEED: Outcome.PASSED, "speed per user": Outcome.FAILED}


def test_a_point_without_a_good_run_cannot_be_decided():
    file = {"path": "made up", "created": "2025-01-01T00:00:00"}
    bad = [made_up.failed("H200", devices, 64, file=file) for devices in (1, 1, 2)]
    verdicts = [verdict_of(one, 0.02) for one in series_of([*made_up.as_read(made_up.weekly(3)), *bad])]
    assert {one.outcome for one in verdicts} == {Outcome.UNDECIDED}
    assert verdicts[0].text.startswith("H200, llm_training, tiny, 2 devices, global batch 64, speed: undecided\n")
    assert [one.reasons for one in verdicts] == [
        ["its last 1 run failed", "0 days with good runs, 8 needed"],
        *[["its last 2 runs failed", "3 days with good runs, 8 needed"]] * 2,
    ]


def test_runs_on_several_nodes_of_one_day_are_one_value():
    random, records = Random(1), []
    for week, one in enumerate(made_up.weekly(30, {}, 1.0, noise=0.0)):
        day = random.gauss(0, 0.01)  # all nodes share it
        for node in range(6):
            speed = 1000 * math.exp(day + random.gauss(0, 0.001))
            origin = {**one["provenance"], "hostname": f"n{node}"}
            metrics = {**one["metrics"], "tokens_per_s_per_device": speed}
            records.append({**one, "run_id": f"{week}, {node}", "provenance": origin, "metrics": metrics})
    series = speed_of(records)
    assert (len(series.observations), series.observations[0].facts["node"]) == (
        30,
        "n0 and n1 and n2 and n3 and n4 and n5",
    )
    assert verdict_of(series, 0.02).findings == []


def test_setups_at_one_time_have_no_drift():
    assert fit([1.0] * 10, noise(10)).drift is None


def test_changes_before_a_day_do_not_count(two_years):
    found = verdict_of(two_years[SPEED], 0.02, since_d=time_d("2025-01-01"))
    assert [one.first_run for one in found.findings] == ["2025-06-30", "2024-01-01"]


def test_a_known_change_is_not_counted_again(two_years, tmp_path):
    file = tmp_path / "known.yaml"
    file.write_text(
        "known:\n- {first_run: 2024-07-01, note: 'more power for the CPU'}\n"
        "- {first_run: 2024-12-26, system: H200, point: tiny, quantity: speed}\n"
        "- {first_run: 2025-06-30}\n- {first_run: 2024-01-01}\n"
    )
    known = read_known(file)
    assert verdict_of(two_years[SPEED], 0.02, known=known).outcome is Outcome.PASSED
    assert [one.is_known for one in verdict_of(two_years[EFFICIENCY], 0.02, known=known).findings][:3] == [
        True,
        False,
        True,
    ]
    for other in (Known("2024-12-20"), Known("2024-12-30", system="A100"), Known("2024-12-30", point="atch 64")):
        assert verdict_of(two_years[SPEED], 0.02, known=[known[0], other, *known[2:]]).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    "text, words",
    [
        ("[1, 2]", "is not a file of known changes"),
        ("changes: []", "unknown key 'changes'"),
        ("known: 3", "known is 3, but must be a list"),
        ("known: [{system: A100}]", "known change 1 lacks 'first_run'"),
        ("known: [{first_run: soon}]", "first_run is 'soon', write it as 2026-03-09"),
        ("known: [{first_run: 2024-07-01, where: here}]", "unknown key 'where'"),
        ("known: [{first_run: 2024-07-01, quantity: sped}]", "quantity is 'sped', but must be one of speed"),
        ("known: [", "cannot be read as known changes"),
    ],
)
def test_a_mistake_in_the_file_of_known_changes_is_a_sentence(tmp_path, text, words):
    (tmp_path / "known.yaml").write_text(text)
    with pytest.raises(RecordError, match=words.replace("[", r"\[")):
        read_known(tmp_path / "known.yaml")
    (tmp_path / "known.yaml").write_text("")
    assert read_known(tmp_path / "known.yaml") == []


def test_a_verdict_is_also_data(two_years):
    data = verdict_data(verdict_of(two_years[SPEED], 0.02))
    assert (data["system"], data["quantity"], data["unit"], data["outcome"]) == (
        "H200",
        "speed",
        "tokens/s/device",
        "failed",
    )
    assert data["findings"][1]["causes"] == ["driver_version 570.1 → 580.2"]
    low, high = data["findings"][1]["interval"]
    assert low < data["findings"][1]["ratio"] < high


def test_a_trend_needs_three_values_and_four_weeks():
    logs = [-0.1 * week / 52 for week in range(20)]
    trend = trend_of(weeks_d(logs), logs)
    assert trend.value == pytest.approx(math.exp(-0.1 * 365.25 / 364))
    assert trend_of([0.0, 40.0], [0.0, 0.0]) is None
    assert trend_of([0.0, 1.0, 2.0], [0.0, 0.0, 0.0]) is None


def test_an_outlier_at_either_end_is_found():
    for index in (0, 1, 28, 29):
        logs = noise(30)
        logs[index] = 10 * NOISE
        cleaned, outliers = without_outliers(logs)
        assert outliers == [index] and abs(cleaned[index]) < 0.02


def alarms(series, weeks=104):
    """Series, looked at every week, in which anything was found, and in which it was worse than 2 %."""
    found = worse = 0
    for seed in range(series):
        logs = noise(weeks, seed, size=0.02)
        fits = [fitted(logs[:end]) for end in range(FEWEST, weeks + 1)]
        ratios = [one for each in fits for one in (*(step.ratio for step in each.steps), each.drift) if one]
        found += bool(ratios)
        worse += any(ratio.interval.high < 0.98 for ratio in ratios)
    return found, worse


def test_without_a_change_nothing_is_found():
    assert alarms(20) == (0, 0)
    assert (SIGNIFICANCE, DRIFT_SIGNIFICANCE) == (1e-6, 1e-5)  # for which the false alarms were counted


@pytest.mark.slow
def test_at_100_points_chance_makes_at_most_one_alarm_a_year():
    """1,000 series of two years; 100 points have 200 series, of speed and of efficiency."""
    found, worse = alarms(1000)
    assert found * 200 / 2 / 1000 <= 1
    assert worse <= found


@pytest.mark.parametrize(("a_year", "outcome"), [(0.985, Outcome.FAILED), (0.997, Outcome.PASSED)])
def test_a_slow_fall_is_judged_against_the_level_at_acceptance(a_year, outcome):
    verdict = verdict_of(speed_of(made_up.weekly(208, {}, a_year, noise=0.004)), 0.02)
    assert verdict.outcome is outcome
    assert ["since acceptance" in one.kind for one in verdict.findings if one.outcome is Outcome.FAILED] == [True] * (
        outcome is Outcome.FAILED
    )


def test_a_gain_in_between_does_not_hide_a_slow_fall_and_an_accepted_change_is_left_out():
    falling = speed_of(made_up.weekly(208, {100: 0.95}, 0.985, noise=0.004))
    assert verdict_of(falling, 0.02).outcome is Outcome.FAILED
    known = [Known(first_run=verdict_of(falling, 0.02).findings[0].first_run)]
    assert verdict_of(falling, 0.08, known=known).outcome is Outcome.PASSED
    assert verdict_of(falling, 0.04, known=known).outcome is Outcome.FAILED  # 6 % by the drift alone


def test_the_interval_of_a_change_that_is_seldom_found_has_its_size():
    found, held = 0, 0
    for seed in range(150):
        random = Random(seed)
        logs = [(math.log(0.992) if week >= 40 else 0.0) + random.gauss(0, 0.005) for week in range(60)]
        steps = fit([7.0 * week for week in range(60)], logs).steps
        for step in (one for one in steps if abs(one.at - 40) <= 2):
            found += 1
            held += step.ratio.interval.low <= 0.992 <= step.ratio.interval.high
    assert 10 < found < 75  # of 150, and those are found that noise made larger
    assert held >= 0.9 * found
