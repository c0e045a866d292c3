"""The energy of a step's states: real nvidia-ml-py over a stand-in of known power, and what collects a job's result."""

from __future__ import annotations

import itertools
import json
import random
import sys
from collections import Counter

import numpy as np
import pytest

from jpwr.regions.times import State
from jpwr.tests.conftest import nvml_folder as nvml_folder
from jpwr.tests.conftest import run
from results.archive import _check_run
from results.collect import collect, main
from results.join.state_power import Readings, fit_states
from results.record.records import RESULT_NAME, find_records, write_record
from results.tests.conftest import make_record
from results.tests.steps import PAUSE, USUAL, Made, made_steps

pytestmark = pytest.mark.long

START_S = 1000.0  # of the stand-in's clock
WINDOW_S = (1002.0, 1012.0)
BLOCK_S = 1018.0
STEPS = 45
SENSORS = {
    "instant": {"STAND_IN_INSTANT": "1", "STAND_IN_FAULT": "no-counter"},
    "100 ms counter": {"STAND_IN_COUNTED_S": "0.1"},
    "1 s average": {"STAND_IN_MEAN_S": "1", "STAND_IN_FAULT": "no-counter"},
    "25 of 100 ms": {"STAND_IN_MEAN_S": "0.025", "STAND_IN_HELD_S": "0.1", "STAND_IN_FAULT": "no-counter"},
}


def steps_of_window():
    return {name: [share * (WINDOW_S[1] - WINDOW_S[0]) / STEPS] for name, (share, _) in USUAL.items()}


def window_levels(powers=USUAL):
    """The window's steps, one after the other without pauses, and some before and after it."""
    step_s = (WINDOW_S[1] - WINDOW_S[0]) / STEPS
    first_s = WINDOW_S[0] - 8 * step_s
    return made_steps(
        random.Random(0), first_s, (STEPS + 12) * step_s - 1e-6, step_s, longest_pause=0, uneven=0, powers=powers
    ).levels[1:]


def job(folder, nvml_folder, made: Made, sensor, interval_s=0.02, window=None, ranks=(0,)):
    """A job's folder with record, states and the trace that the sampler made; its result. `ranks` of the devices."""
    levels = [(START_S - 10.0, 110.0), *(window or window_levels()), *made.levels[1:]]
    (folder / "levels").write_text("\n".join(f"{moment_s:.6f} {watts:.3f}" for moment_s, watts in levels))
    done = run(
        sys.executable, "-m", "jpwr.tests.simulate", "pynvml", str(interval_s), str(made.end_s + 2),
        "power/n1/trace.csv", cwd=folder, LD_LIBRARY_PATH=str(nvml_folder), STAND_IN_DEVICES=str(len(ranks)),
        STAND_IN_SHAPE="levels", STAND_IN_LEVELS=str(folder / "levels"), STAND_IN_LIMIT_W="1400", **SENSORS[sensor],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    names = sorted({state.name for state in made.states})
    states = {
        "names": names,
        "which": [names.index(state.name) for state in made.states],
        "edges_s": [*(state.start_s for state in made.states), made.end_s],
    }
    (folder / "record.states.json").write_text(json.dumps([states] * len(set(ranks))))
    step_s = {name: own * len(set(ranks)) for name, own in steps_of_window().items()}
    record = make_record(
        states={"step_s": step_s, "paused_steps": 200},
        devices=[
            {"hostname": "n1", "rank": rank, "name": "GPU", "device_id": f"GPU-{number}", "peak_memory_bytes": 1}
            for number, rank in enumerate(ranks)
        ],
    )
    record["step_times_s"] = [(WINDOW_S[1] - WINDOW_S[0]) / STEPS] * STEPS
    speeds = dict.fromkeys(("tokens_per_s", "tokens_per_s_per_device"), 100.0 * STEPS)
    record["metrics"] |= {"measured_steps": STEPS, "measured_tokens": 1000 * STEPS, **speeds}
    [window_of] = record["windows"]
    window_of.update(start_s=WINDOW_S[0], end_s=WINDOW_S[1])
    write_record(record, folder / "record.json")
    result = collect(folder)
    write_record(result, folder / RESULT_NAME)
    return result


def told(result):
    return {" and ".join(one["states"]): one for one in result["energy"]["states"]["states"]}


@pytest.mark.slow
def test_intervals_hold_the_truth_whatever_the_sensor(tmp_path, nvml_folder):
    tried = {sensor: Counter() for sensor in SENSORS}
    for sensor, number in itertools.product(SENSORS, range(3)):
        folder = tmp_path / f"{sensor} {number}".replace(" ", "_")
        folder.mkdir()
        chance = random.Random(f"{sensor} {number}")
        made = made_steps(chance, BLOCK_S, unlike=0.03, smoothed_s=0.03, step_s=chance.uniform(0.12, 0.4))
        found = told(job(folder, nvml_folder, made, sensor))
        for name, (share, watts) in USUAL.items():
            truth_wh = share * watts * (WINDOW_S[1] - WINDOW_S[0]) / 3600
            one = found[name]
            if one["refused"]:
                tried[sensor][f"{name} refused"] += 1
            else:
                tried[sensor]["held" if one["low_wh"] <= truth_wh <= one["high_wh"] else "missed"] += 1
    every = sum(tried.values(), Counter())
    assert every["held"] >= 9 * every["missed"], tried
    # What most of the energy is of has to be told, and not refused to be on the safe side.
    assert all(tried[sensor][f"{name} refused"] <= 1 for sensor in SENSORS for name in ("Forward", "Backward")), tried
    assert every["held"] >= 45, tried


def test_a_record_with_states_is_read_and_says_what_sensor_it_found(tmp_path, nvml_folder, capsys):
    made = made_steps(random.Random(1), BLOCK_S, 30.0, smoothed_s=0.03)
    result = job(tmp_path, nvml_folder, made, "instant")
    assert main([str(tmp_path)]) == 0
    assert "collect: all states (experimental) are" in capsys.readouterr().err
    [sensor] = result["energy"]["states"]["sensors"]
    assert (sensor["channel"], sensor["by"]) == ("pynvml:0", "power")
    assert sensor["lag_s"] == pytest.approx(0, abs=0.005)
    assert sensor["smoothing_s"] == pytest.approx(0.03, abs=0.005)
    found = find_records([tmp_path])
    assert found.skipped == []
    assert [record["energy"]["states"] for record in found.records] == [result["energy"]["states"]]
    backward = told(result)["Backward"]
    assert backward["avg_power_w"] == pytest.approx(560, rel=0.02)
    assert backward["time_s"] == pytest.approx(0.45 * 10 / STEPS)


@pytest.mark.slow
def test_energy_that_is_not_what_the_readings_give_is_found(tmp_path, nvml_folder):
    made = made_steps(random.Random(10), BLOCK_S, 30.0)
    result = job(tmp_path, nvml_folder, made, "instant")
    assert not [problem for problem in _check_run(tmp_path / RESULT_NAME) if "states" in problem]
    forward = told(result)["Forward"]
    forward["energy_wh"] *= 0.9
    write_record(result, tmp_path / RESULT_NAME)
    problems = list(_check_run(tmp_path / RESULT_NAME))
    assert any(problem.startswith("energy.states of Forward is stored as") for problem in problems)
    forward["states"] = ["Sum"]
    write_record(result, tmp_path / RESULT_NAME)
    problems = list(_check_run(tmp_path / RESULT_NAME))
    assert any("energy.states of Sum is stored as" in problem and "gives none" in problem for problem in problems)


@pytest.mark.parametrize("sensor", ["100 ms counter", "25 of 100 ms"])
def test_steps_in_time_with_the_sensor_are_refused(tmp_path, nvml_folder, sensor):
    made = made_steps(random.Random(2), BLOCK_S, 30.0, step_s=0.1, longest_pause=0, uneven=0)
    result = job(tmp_path, nvml_folder, made, sensor)
    assert result["status"] == "ok"
    assert "states" not in result["energy"]
    [note] = [note for note in result["energy"]["notes"] if "no energy of states" in note]
    assert "in time with the sensor" in note


def in_pieces(made: Made, piece_s: float, watts: dict[str, float]) -> Made:
    """Comm in pieces, in turn of each of the names."""
    states, levels = [], made.levels[:1]
    for state, level in zip(made.states, made.levels[1:], strict=False):
        if state.name != "Comm":
            states.append(state)
            levels.append(level)
            continue
        for number, name in zip(range(round((state.end_s - state.start_s) / piece_s)), itertools.cycle(watts)):
            start_s = state.start_s + number * piece_s
            states.append(State(name, start_s, start_s + piece_s))
            levels.append((start_s, watts[name]))
    ends_s = [*(state.start_s for state in states[1:]), made.end_s]
    joined = [state._replace(end_s=end_s) for state, end_s in zip(states, ends_s, strict=True)]
    return Made(joined, [*levels, made.levels[-1]])


@pytest.mark.parametrize("seed", [32, 49, 55, 57])
@pytest.mark.slow
def test_a_sensor_of_single_moments_is_found_where_steps_are_short(seed):
    chance = random.Random(seed)
    made = made_steps(chance, BLOCK_S, 40.0, step_s=0.07)
    moments_s = np.arange(made.start_s, made.end_s, 0.02)
    moments_s += 0.02 * np.array([chance.random() for _ in moments_s])
    edges_s, levels_w = np.array(made.levels).T
    power_w = levels_w[np.searchsorted(edges_s, moments_s, side="right") - 1]
    fit = fit_states(made.states, Readings(None, moments_s, power_w))
    assert fit.mean_s < 0.003
    _, low_w, high_w = fit.energy({"Backward": 1.0})
    assert low_w <= USUAL["Backward"][1] <= high_w


@pytest.mark.slow
def test_states_as_short_as_a_moment_is_known_are_refused_and_leave_the_others_alone(tmp_path, nvml_folder):
    watts = {"Comm": 250.0, "Sum": 250.0}
    made = in_pieces(made_steps(random.Random(3), BLOCK_S, 40.0, uneven=0.02), 0.0015, watts)
    found = told(job(tmp_path, nvml_folder, made, "instant"))
    assert found["Comm"]["refused"] == "it lasts less than 2 ms at a time"
    assert found["Comm"]["energy_wh"] is None
    assert not found["Backward"]["refused"]


@pytest.mark.parametrize("ranks", [(0, 1), (0, 0)])
@pytest.mark.slow
def test_devices_of_several_processes_and_of_one_are_added_up(tmp_path, nvml_folder, ranks):
    """The second device of the stand-in draws twice as much."""
    made = made_steps(random.Random(13), BLOCK_S, 30.0, smoothed_s=0.03)
    result = job(tmp_path, nvml_folder, made, "100 ms counter", ranks=ranks)
    share, watts = USUAL["Backward"]
    backward = told(result)["Backward"]
    assert backward["energy_wh"] == pytest.approx(3 * share * watts * (WINDOW_S[1] - WINDOW_S[0]) / 3600, rel=0.03)
    assert backward["avg_power_w"] == pytest.approx(1.5 * watts, rel=0.03)
    assert backward["time_s"] == pytest.approx(share * (WINDOW_S[1] - WINDOW_S[0]) / STEPS)
    assert [one["rank"] for one in result["energy"]["states"]["sensors"]] == list(ranks)


def test_power_that_is_another_between_pauses_is_refused_as_a_whole(tmp_path, nvml_folder):
    """The devices were slower in the window, say: what the steps with pauses tell is not of it."""
    powers = {name: (share, 0.9 * watts) for name, (share, watts) in USUAL.items()}
    made = made_steps(random.Random(4), BLOCK_S, 30.0)
    result = job(tmp_path, nvml_folder, made, "instant", window=window_levels(powers=powers))
    assert result["energy"]["states"]["closing_percent"] == pytest.approx(100 * (1 / 0.9 - 1), abs=3)
    rows = result["energy"]["states"]["states"]
    assert {row["states"][0] for row in rows} == set(USUAL)
    assert all("off the window's energy" in row["refused"] and row["energy_wh"] is None for row in rows)


def test_a_sampler_that_reads_too_seldom_is_told_so(tmp_path, nvml_folder):
    made = made_steps(random.Random(5), BLOCK_S, 20.0)
    result = job(tmp_path, nvml_folder, made, "instant", interval_s=0.1)
    assert result["status"] == "ok"
    [note] = [note for note in result["energy"]["notes"] if "no energy of states" in note]
    assert "too seldom to tell states apart: sample with --interval 20" in note


@pytest.mark.slow
def test_a_state_of_nearly_no_time_and_one_that_was_not_there_are_refused(tmp_path, nvml_folder):
    made = made_steps(random.Random(6), BLOCK_S, 30.0)
    job(tmp_path, nvml_folder, made, "instant")
    record = json.loads((tmp_path / "record.json").read_text())
    record["states"]["step_s"] |= {"Validation": [0.02], "Other": [0.0005]}
    write_record(record, tmp_path / "record.json")
    found = told(collect(tmp_path))
    assert found["Other"]["refused"].startswith("it has 0.2 % of the time")
    # What is not known of is missing from the sum, which then tells of it.
    assert found["Validation"]["refused"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "[{}]",
        '[{"names": ["IO"], "which": [1], "edges_s": [0, 1]}]',
        "{",
        "3",
        "[[1]]",
        '[{"names": ["IO"], "which": [0], "edges_s": [0, 1e9]}]',
        '[{"names": ["IO"], "which": [0], "edges_s": [2, 1]}]',
    ],
)
def test_damaged_states_are_a_sentence_and_the_run_is_good(tmp_path, nvml_folder, content):
    made = made_steps(random.Random(7), BLOCK_S, 8.0)
    job(tmp_path, nvml_folder, made, "instant")
    (tmp_path / "record.states.json").write_text(content)
    result = collect(tmp_path)
    assert result["status"] == "ok"
    assert any("record.states.json cannot be used" in note for note in result["energy"]["notes"])


@pytest.mark.parametrize(
    "states",
    [
        {"paused_steps": 3},
        {"step_s": 3},
        {"step_s": {}},
        {"step_s": {"IO": []}},
        {"step_s": {"IO": [0.0]}},
        {"step_s": {"IO": [-1.0], "Forward": [2.0]}},
        {"step_s": {"IO": [None]}},
        {"step_s": {"IO": ["1"]}},
        {"step_s": {"IO": [1.0, 2.0], "Forward": [1.0]}},
    ],
)
def test_a_record_that_lies_about_its_states_is_a_sentence(tmp_path, nvml_folder, states):
    made = made_steps(random.Random(12), BLOCK_S, 8.0)
    job(tmp_path, nvml_folder, made, "instant")
    record = json.loads((tmp_path / "record.json").read_text())
    write_record(record | {"states": states}, tmp_path / "record.json")
    result = collect(tmp_path)
    assert result["status"] == "ok"
    assert any("no energy of states" in note for note in result["energy"]["notes"])


def test_several_processes_on_one_channel_are_refused(tmp_path, nvml_folder):
    made = made_steps(random.Random(8), BLOCK_S, 8.0)
    job(tmp_path, nvml_folder, made, "instant")
    record = json.loads((tmp_path / "record.json").read_text())
    record["devices"] = [dict(record["devices"][0], rank=rank) for rank in range(2)]
    record["states"]["step_s"] = {name: own * 2 for name, own in record["states"]["step_s"].items()}
    write_record(record, tmp_path / "record.json")
    assert any("pynvml:0 measures 2 processes" in note for note in collect(tmp_path)["energy"]["notes"])


@pytest.mark.slow
def test_a_state_that_no_reading_is_of_leaves_the_others_alone(tmp_path, nvml_folder):
    made = made_steps(random.Random(11), BLOCK_S, 30.0)
    last = len(made.states) - 1
    states = [
        state._replace(name="Validation") if number == 2 else state._replace(name="Saving") if number == last else state
        for number, state in enumerate(made.states)
    ]
    assert states[2].end_s < states[0].start_s + 1
    found = told(job(tmp_path, nvml_folder, Made(states, made.levels), "instant"))
    assert not found["Backward"]["refused"]
    assert not found["Forward"]["refused"]


def test_pauses_are_no_state_of_the_window(tmp_path, nvml_folder):
    made = made_steps(random.Random(9), BLOCK_S, 30.0)
    assert PAUSE not in told(job(tmp_path, nvml_folder, made, "instant"))
