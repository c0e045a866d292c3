"""Operating points: made sweeps whose best point is known, ties, single runs, and who may name a point."""

from __future__ import annotations

import random

import pytest

from caraml.cli import main
from results.points.operating import OperatingLimits, at_limits, sweeps_of, unsettled
from results.record.records import RecordError
from results.show.plots.operating import operating_charts
from results.show.plots.style import styles_of_systems
from results.show.tables.machine.operating import operating_sentences, operating_table
from results.show.tables.points import point_table
from results.tests import made_up
from results.tests.of_dicts import by_point, contradictions, limits_of
from results.tests.words import deviations
from results.verdicts.accept import accept
from results.verdicts.cost import Costs, Price, cheapest, why_not_costed
from results.verdicts.outcome import Outcome
from results.verdicts.requirements import Item, Requirements, Selection, read_requirements

pytestmark = pytest.mark.arithmetic

FULL_W, FULL_MHZ, STANDING_W = 700.0, 1980.0, 150.0
CAPS = (700.0, 595.0, 490.0, 385.0)
CLOCKS = (1980.0, 1680.0, 1380.0, 1080.0)


def modelled(power_limit_w=FULL_W, clock_limit_mhz=None, compute_share=1.0):
    """Speed and power of a stated model: 150 W, and 550 W times the cube of the clock; a cap lowers the clock.

    A share of the time is that of computing, which takes longer at a lower clock; the rest waits for memory.
    """
    x = min((clock_limit_mhz or FULL_MHZ) / FULL_MHZ, ((power_limit_w - STANDING_W) / (FULL_W - STANDING_W)) ** (1 / 3))
    speed = 1 / (compute_share / x + 1 - compute_share)
    return 1000 * speed, STANDING_W + (FULL_W - STANDING_W) * x**3


def run(power_limit_w=FULL_W, clock_limit_mhz=None, noise=0.0, speed_and_power=None, seed=None, **changes):
    """One run at an operating point; `noise` is the relative standard deviation of its speed and its power."""
    speed, power_w = speed_and_power or modelled(power_limit_w, clock_limit_mhz)
    chance = random.Random(seed)
    record = made_up.result(
        tokens_per_s=speed * chance.gauss(1, noise), power_w=power_w * chance.gauss(1, noise), **changes
    )
    [channel] = record["energy"]["channels"]
    channel["limits"] = {"power_limit_w": power_limit_w, "clock_limit_mhz": clock_limit_mhz, "limits_set_by": "jpwr"}
    channel["clocks"] = {"throttled": {"power limit": 100.0 * (clock_limit_mhz is None and power_limit_w < FULL_W)}}
    return record


def swept(limits, noise=0.003, repeats=3, model=modelled, **changes):
    """Runs at some limits, each a pair of watts and MHz."""
    return [
        run(*pair, noise=noise, speed_and_power=model(*pair), seed=str((pair, number)), **changes)
        for pair in limits
        for number in range(repeats)
    ]


def sweep_of(records):
    [sweep] = sweeps_of(by_point(records))
    return sweep


def test_the_known_best_points_of_a_made_sweep_are_found():
    clocks = [(FULL_W, mhz) for mhz in CLOCKS]
    sweep = sweep_of(swept(clocks))
    assert sweep.full.limits == OperatingLimits(FULL_W, FULL_MHZ)
    # Energy of the model is 150 / x + 550 x^2, least at x = (150 / 1100) ** (1 / 3) = 0.515: the lowest clock is best.
    best = sweep.choice()
    assert best.best.limits.clock_mhz == 1080.0
    exact = modelled(*clocks[-1])[0] / modelled(*clocks[-1])[1] / (1000 / FULL_W)
    assert best.saved_share == pytest.approx(1 - 1 / exact, abs=0.01)
    assert best.saved.low < 1 - 1 / exact < best.saved.high
    assert best.ties == []
    # In this model speed is the clock: none but full speed keeps 95 % of it.
    for share in (0.95, 0.97):
        assert sweep.choice(share).best is sweep.full


def test_the_best_within_a_share_of_the_speed_is_found_where_memory_takes_most_of_the_time():
    def model(*limits):
        return modelled(*limits, compute_share=0.1)

    records = swept([(FULL_W, mhz) for mhz in CLOCKS], noise=0.001, model=model)
    sweep = sweep_of(records)
    # Speeds of the model: 1, 0.9824, 0.9583, 0.9231.
    assert sweep.choice(0.95).best.limits.clock_mhz == 1380.0
    assert sweep.choice(0.97).best.limits.clock_mhz == 1680.0
    assert sweep.choice().best.limits.clock_mhz == 1080.0
    said = " ".join(operating_sentences(by_point(records)))
    assert "Best with at least 97% of the full speed: 700 W, 1680 MHz at 98." in said
    delay = sweep.points[-1].energy_delay.value
    speed, power_w = model(FULL_W, CLOCKS[-1])
    assert delay == pytest.approx(power_w / FULL_W * (1000 / speed) ** 2, rel=0.02)


def test_a_speed_that_may_be_below_the_share_does_not_keep_it():
    def model(power_limit_w, clock_limit_mhz):
        return (955.0, 400.0) if clock_limit_mhz else (1000.0, 700.0)

    noisy = sweep_of(swept([(FULL_W, None), (FULL_W, 1680.0)], noise=0.02, model=model))
    assert noisy.choice(0.95).best is noisy.full
    quiet = sweep_of(swept([(FULL_W, None), (FULL_W, 1680.0)], noise=0.0001, model=model))
    assert quiet.choice(0.95).best.limits.clock_mhz == 1680.0


@pytest.mark.parametrize(("noise", "repeats"), [(0.01, 3), (0.0, 1)])
def test_ties_are_reported_as_ties_and_a_saving_within_the_intervals_is_none(noise, repeats):
    def model(power_limit_w, clock_limit_mhz):
        return 1000.0, 700.0 - 0.5 * (power_limit_w < FULL_W)

    records = swept([(watts, None) for watts in (700.0, 595.0)], noise=noise, repeats=repeats, model=model)
    choice = sweep_of(records).choice()
    assert choice.saved is None or choice.saved.low <= 0
    assert len(choice.ties) == 1
    said = " ".join(operating_sentences(by_point(records)))
    assert "not distinguishable from" in said
    assert ("single runs have no interval" in said) == (repeats == 1)
    assert "saves" not in said


def test_a_tie_is_named_in_most_made_sweeps_whose_points_are_alike():
    """Among equal points one sweep in twenty may claim a saving, as all intervals hold at the same time."""

    def model(*_):
        return 1000.0, 500.0

    claimed = 0
    for number in range(100):
        records = [
            run(watts, noise=0.005, speed_and_power=model(), seed=f"{number} {watts} {one}")
            for watts in CAPS
            for one in range(3)
        ]
        saved = sweep_of(records).choice().saved
        claimed += saved is not None and saved.low > 0
    assert claimed <= 12  # of 100 trials at 5 %, more than that has a probability of 0.1 %


def test_where_a_cap_binds_and_a_clock_does_not_is_said():
    both = [*[(watts, None) for watts in CAPS], *[(FULL_W, mhz) for mhz in CLOCKS[1:]]]
    said = " ".join(operating_sentences(by_point(swept(both))))
    assert "full speed is at 700 W." in said
    assert "The power limit binds at: 595 W; 490 W; 385 W." in said
    assert "The power limit does not bind at: 700 W; 700 W, 1680 MHz; 700 W, 1380 MHz; 700 W, 1080 MHz." in said
    slack = swept([(watts, None) for watts in CAPS], model=lambda *_: (1000.0, 300.0))
    for record in slack:
        record["energy"]["channels"][0]["clocks"] = {"throttled": {"power limit": 0.2}}
    said = " ".join(operating_sentences(by_point(slack)))
    assert "The power limit does not bind at: 700 W; 595 W; 490 W; 385 W." in said
    assert "limit binds" not in said


def test_runs_at_unlike_limits_are_no_repeats_and_a_sweep_is_of_one_setup():
    caps = swept([(watts, None) for watts in CAPS])
    points = by_point(caps)
    assert [len(one.good) for one in points] == [3] * 4
    assert sorted(limits_of(one.any).power_w for one in points) == sorted(CAPS)
    # What nvidia-smi says of the limit follows it, and is no other setup; another driver is one.
    for record in caps:
        watts = limits_of(record).power_w
        record["provenance"]["devices"] = [{"name": "one", "power.limit": f"{watts:.2f} W", "driver_version": "1"}]
    assert len(sweep_of(caps).points) == 4
    for record in caps:
        if limits_of(record).power_w == 385:
            record["provenance"]["devices"][0]["driver_version"] = "2"
    assert len(sweep_of(caps).points) == 3
    assert sweeps_of(by_point(swept([(FULL_W, None)]))) == []
    assert not operating_table(by_point(swept([(FULL_W, None)])))


def test_a_record_of_an_older_version_names_its_limit_already():
    old = [run(watts, noise=0.002, seed=f"{watts} {one}") for watts in (700.0, 490.0) for one in range(2)]
    for record in old:
        [channel] = record["energy"]["channels"]
        watts = channel.pop("limits")["power_limit_w"]
        channel["clocks"] = {"power_limit_w": watts, "throttled": {"power limit": 40.0}}
    sweep = sweep_of(old)
    assert [one.limits.power_w for one in sweep.points] == [700.0, 490.0]
    assert [one.limited_percent for one in sweep.points] == [40.0, 40.0]


def test_a_limit_below_the_measured_power_is_a_contradiction():
    record = run(power_limit_w=500.0)
    assert contradictions(record) == []
    record["energy"]["channels"][0]["limits"]["power_limit_w"] = 400.0
    assert contradictions(record) == ["channel made:0 has 500 W on average, but its board's limit is 400 W"]


def with_limits(record, **values):
    """The record with limits over time, in watts, of its one channel."""
    channel = record["energy"]["channels"][0]
    channel["limits"] = channel["limits"] | {f"power_limit_{name}_w": value for name, value in values.items()}
    channel["limits"]["power_limit_w"] = values.get("most", channel["limits"]["power_limit_w"])
    return record


OVER_TIME = {"least": 490.0, "most": 700.0}


@pytest.mark.parametrize(
    ("power_w", "limits", "words"),
    [
        # a limit that was lowered at the end, or put back by another tool
        (650.0, OVER_TIME | {"mean": 665.0}, ""),
        (650.0, OVER_TIME | {"mean": 560.0}, "has 650 W on average, but its board's limit is 560 W"),
        # one that held, as it was set
        (660.0, {"least": 650.0, "most": 650.0, "mean": 650.0}, ""),
        (688.0, {"least": 650.0, "most": 650.0, "mean": 650.0}, "has 688 W on average, but its board's limit is 650 W"),
        (500.0, OVER_TIME | {"mean": 720.0}, "power_limit_mean_w is 720, outside of those in force"),
        (470.0, OVER_TIME | {"mean": 480.0}, "power_limit_mean_w is 480, outside of those in force"),
    ],
)
def test_the_mean_power_is_compared_with_the_limit_over_the_time(power_w, limits, words):
    found = contradictions(with_limits(run(speed_and_power=(1000.0, power_w)), **limits))
    assert [words in one for one in found] == [True] * bool(words), found


@pytest.mark.parametrize(
    ("changes", "devices", "says"),
    [
        ({"limits_set_by": ""}, {}, ""),  # a board's own limit
        ({"limits_set_by": ""}, {"power.limit": "650.00 W", "power.default_limit": "650.00 W"}, ""),
        ({"limits_set_by": ""}, {"power.limit": "650.00 W", "power.default_limit": "700.00 W"}, "limit is 650 W"),
        ({"limits_set_by": "scheduler"}, {}, "limit is 650 W"),
    ],
)
def test_a_limit_below_the_boards_own_is_kept_more_closely(changes, devices, says):
    record = run(650.0, speed_and_power=(1000.0, 688.0))
    record["energy"]["channels"][0]["limits"] |= changes
    record["provenance"]["devices"] = [{"uuid": "GPU-1", **devices}]
    assert [says in one for one in contradictions(record)] == [True] * bool(says)


def test_a_limit_below_the_lowest_in_the_windows_is_a_contradiction():
    record = run(650.0, speed_and_power=(1000.0, 600.0))
    record["energy"]["channels"][0]["clocks"]["power_limit_w"] = 700.0
    [found] = contradictions(record)
    assert "limits.power_limit_w is 650, outside of those in force in the windows" in found


def test_a_run_whose_limit_varied_is_noted_and_at_no_operating_point():
    records = swept([(watts, None) for watts in CAPS[:2]])
    varied = with_limits(run(seed="varied"), **OVER_TIME, mean=665.0)
    assert limits_of(varied) == OperatingLimits(None, None)
    points = by_point([*records, varied])
    [sweep] = sweeps_of(points)
    assert [len(one.results.good) for one in sweep.points] == [3, 3]
    said = "the power limit did not hold (490 W to 700 W, mean 665 W): no operating point"
    assert [said in deviations(one) for one in points].count(True) == 1


@pytest.mark.parametrize(
    ("model", "throttled", "said"),
    [
        (modelled, {}, ""),
        (modelled, {"power limit": 100.0}, ""),
        (modelled, {"power brake": 40.0}, "throttled: power brake held clocks back for 40 % of the window"),
        (lambda watts, _: (1000.0 if watts == 700 else 1217.0, watts / 2), {}, "595 W has 121."),
    ],
)
@pytest.mark.parametrize("repeats", [1, 3])
def test_a_full_speed_that_was_held_back_is_in_doubt(model, throttled, said, repeats):
    records = swept([(watts, None) for watts in CAPS[:2]], model=model, repeats=repeats)
    for record in records:
        if limits_of(record).power_w == FULL_W:
            record["energy"]["channels"][0]["clocks"] = {"throttled": throttled}
    found = [one for one in operating_sentences(by_point(records)) if one.startswith("Full speed is in doubt")]
    assert [said in one for one in found] == [True] * bool(said)


@pytest.mark.parametrize(("percent", "is_bound"), [(0.5, False), (2.0, True)])
def test_a_power_limit_binds_from_one_percent_of_the_window_on(percent, is_bound):
    records = swept([(700.0, None), (490.0, None)])
    for record in records:
        record["energy"]["channels"][0]["clocks"]["throttled"]["power limit"] = percent
    assert {one.is_bound for one in sweep_of(records).points} == {is_bound}


def test_devices_with_different_limits_are_at_no_operating_point():
    record = run()
    other = {**record["energy"]["channels"][0], "name": "made:1", "limits": {"power_limit_w": 400.0}}
    record["energy"]["channels"].append(other)
    assert limits_of(record) == OperatingLimits(None, None)
    assert sweeps_of(by_point([record, run(490.0)])) == []


def test_the_table_has_a_row_for_each_point_with_what_bound_and_what_drifted():
    records = swept([(watts, None) for watts in CAPS])
    records[0]["energy"] |= {"clock_drift_percent": -4.0, "temperature_drift_c": 6.0}
    header, *rows = operating_table(by_point(records)).texts()
    cells = [dict(zip(header, row, strict=True)) for row in rows]
    assert [one["power limit [W]"] for one in cells] == ["700.0", "595.0", "490.0", "385.0"]
    assert [one["limit bound [%]"] for one in cells] == ["0", "100.0", "100.0", "100.0"]
    assert cells[0]["settled"] == "the clock changed by -4.0 % and the temperature changed by +6 °C"
    assert {one["settled"] for one in cells[1:]} == {"yes"}
    assert "clock limit [MHz]" not in header
    [titles, *_] = point_table(by_point(records)).filled().texts()
    assert "power limit bound [%]" in titles


@pytest.mark.parametrize(
    ("drift", "said"), [((1.9, 2.9), ""), ((-2.1, 0.0), "the clock changed by -2.1 %"), ((None, None), "")]
)
def test_small_drifts_are_none(drift, said):
    record = run()
    record["energy"] |= {"clock_drift_percent": drift[0], "temperature_drift_c": drift[1]}
    assert unsettled(by_point([record])[0]) == said


def test_a_clock_above_its_limit_is_a_contradiction():
    """The sampler cannot check on an idle device whether a scheduler has set a clock."""
    record = run(clock_limit_mhz=1380.0)
    [channel] = record["energy"]["channels"]
    for mean_mhz, words in (
        (1400.0, []),
        (1700.0, ["channel made:0 has 1700 MHz on average, but its clock limit is 1380 MHz"]),
    ):
        channel["clocks"]["mean_mhz"] = mean_mhz
        assert contradictions(record) == words


def test_sweeps_that_differ_in_an_option_have_names_and_rows_of_their_own():
    def of(micro_batch_size):
        records = swept([(watts, None) for watts in CAPS[:2]])
        for record in records:
            record["layout"]["micro_batch_size"] = micro_batch_size
        return records

    points = by_point([*of(2), *of(4)])
    assert len({sweep.name for sweep in sweeps_of(points)}) == 2
    said = operating_sentences(points)
    for size in (2, 4):
        assert f"A100, tiny, 1 device, batch 8, bf16, micro batch {size}: full speed is at 700 W." in said
    header, *rows = operating_table(points).texts()
    assert {row[header.index("options")] for row in rows} == {"bf16, micro batch 2", "bf16, micro batch 4"}
    styles = styles_of_systems([*by_point([made_up.result("another")]), *points])
    for chart in operating_charts(points, styles):
        assert "micro batch 2" in chart.words
        assert "micro batch 4" in chart.words
        lines = [bars.lines[0] for axes in chart.figure.axes for bars in axes.containers]
        assert {line.get_color() for line in lines} == {styles["A100"]["color"]}
        assert len({line.get_marker() for line in lines}) == 2


def test_failed_runs_are_counted():
    records = swept([(watts, None) for watts in CAPS])
    for record in records[-3:]:
        record |= {"status": "failed", "reason": "made"}
        del record["energy"]
    elsewhere = {**records[-1], "model": "another"}
    said = operating_sentences(by_point([*records, elsewhere]))
    assert said[-1] == "3 runs failed: their operating points may be missing here."
    assert "385" not in " ".join(said)


def test_estimates_choose_no_operating_point():
    records = swept([(watts, None) for watts in CAPS], estimated=True)
    assert operating_charts(by_point(records), {}) == []
    assert ["missing, an estimate, or of several kinds" in said for said in operating_sentences(by_point(records))] == [
        True
    ]


def test_a_requirement_may_name_an_operating_point():
    points = by_point(swept([(watts, None) for watts in CAPS]))
    wanted = {"gpt": Selection("llm_training")}

    def outcome(**named):
        item = Item("gpt", "work_per_energy", at_least=6000.0, **named)
        [verdict] = accept(points, Requirements(wanted, (item,)))
        return verdict

    # 385 W: 0.75 of the speed at 0.55 of the power. Full speed: 5143 tokens/Wh.
    assert outcome(power_limit_w=385.0).outcome is Outcome.PASSED
    assert outcome(power_limit_w=700.0).outcome is Outcome.FAILED
    missing = outcome(power_limit_w=500.0)
    assert missing.outcome is Outcome.UNDECIDED
    assert "no run at this point, only at" in missing.reason
    assert "490 W" in missing.reason
    item = Item("gpt", "work_per_energy", at_least=1.0, power_limit_w=385.0, clock_limit_mhz=1380.0)
    assert str(item).endswith("work per energy at a power limit of 385 W and a clock limit of 1380 MHz at least 1")


def test_costs_use_the_operating_point_that_is_named_and_no_other():
    points = by_point(swept([(watts, None) for watts in CAPS]))
    for power_limit_w in (595.0, 385.0):
        costs = Costs("EUR", 0.25, {"A100": Price(20000.0, power_limit_w=power_limit_w)})
        [best] = cheapest(points, costs).values()
        assert limits_of(best["A100"][0].any).power_w == power_limit_w
    assert len(at_limits(points, 595.0, None)) == 1
    costs = Costs("EUR", 0.25, {"A100": Price(20000.0, power_limit_w=500.0)})
    assert cheapest(points, costs) == {}
    assert {why_not_costed(one, costs) for one in points} == {"not at the operating point that the prices file names"}


def test_the_command_prints_the_table_and_draws_two_plots(tmp_path, capsys):
    made_up.store(tmp_path / "runs", swept([(watts, None) for watts in CAPS]))
    assert main(["operating-points", str(tmp_path / "runs"), "--plots", str(tmp_path / "plots")]) == 0
    said = capsys.readouterr().out
    assert "Most work per energy: 385 W at" in said
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["operating_points.png", "over_limit.png"]
    made_up.store(tmp_path / "one", [run()])
    assert main(["operating-points", str(tmp_path / "one")]) == 2
    assert "no runs of one system differ in their limits alone" in capsys.readouterr().err


def test_a_named_limit_is_above_0(tmp_path):
    file = tmp_path / "requirements.yaml"
    file.write_text(
        "workloads: {gpt: {benchmark: llm_training}}\n"
        "must: [{of: gpt, what: work_per_energy, clock_limit_mhz: 0, at_least: 1}]\n"
    )
    with pytest.raises(RecordError, match="clock_limit_mhz is 0, but must be a number above 0"):
        read_requirements(file)
