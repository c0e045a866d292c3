"""Each limit of what makes a record or an energy good, with a figure on either side of it.

Figures are written out, so that no limit moves by a factor of 2 unseen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from results.collect import collect
from results.tests import builder
from results.tests.builder import GPU0, JobFolder
from results.tests.of_dicts import by_point, contradictions, deviations, energy_rules
from results.tests.test_derived import STEP_S, STEPS, run, run_with_all

Found = list[str]
FIGURE = re.compile(r"\d[\d.]*")


def in_watts(power_w):
    """A run on devices of that power each, of which nobody knows the limit."""
    record = builder.result(devices=2, model="800M", steps=STEPS, tokens_per_s=8 * 2048 / STEP_S, power_w=power_w)
    assert record["metrics"]["tflops_per_device"] == pytest.approx(51.28, rel=1e-3)
    return record


def of_steps(share: float) -> Found:
    return contradictions(run(step_times_s=[share * STEP_S] * STEPS))


def of_board(times: float) -> Found:
    """Two devices of 100 W each, so many times their board's limit."""
    record = in_watts(100.0)
    record["energy"]["channels"][0]["limit_w"] = 200.0 / times
    return contradictions(record)


def of_nodes(share: float) -> Found:
    record = run()
    record["layout"]["num_nodes"] = 2
    record["devices"][1]["hostname"] = "n2"
    [window] = record["windows"]
    record["windows"].append(window | {"hostname": "n2", "end_s": window["start_s"] + 60.0 * share})
    return contradictions(record)


def of_input(times: float) -> Found:
    record = run_with_all()
    record["metrics"]["effective_tokens"] = times * record["metrics"]["measured_tokens"]
    return contradictions(record)


def around(times: float) -> Found:
    """A node that uses so many times what its devices do."""
    [record] = builder.of_scope("node", [run()])
    record["energy"]["sampled_by_scope"] = {"device_wh": record["energy"]["energy_wh"] / times}
    return contradictions(record)


def of_node(share: float) -> Found:
    """Devices that use so many times what was measured of their node."""
    record = run()
    energy = record["energy"]
    energy["channels"][0]["uncertainty_wh"] = energy["uncertainty_wh"] = None
    energy["sampled_by_scope"] = {"node_wh": energy["energy_wh"] / share}
    return contradictions(record)


def of_device_w(power_w: float) -> Found:
    return contradictions(in_watts(power_w))


def of_flop_per_j(flop_per_j: float) -> Found:
    return contradictions(in_watts(51.243e12 / flop_per_j))


def of_hfu(times: float) -> Found:
    record = run()
    record["metrics"]["hfu"] = times * record["metrics"]["mfu"]
    return contradictions(record)


def of_regions(times: float) -> Found:
    record = run_with_all()
    record["regions"]["measured"]["step_s"] = times * STEP_S
    return contradictions(record)


def doubts(record: dict[str, Any]) -> Found:
    [one] = by_point([record])
    return deviations(one)


def of_rules(**energy: Any) -> Found:
    record = builder.result()
    record["energy"] |= energy
    return doubts(record)


def of_channel(**values: Any) -> Found:
    record = builder.result(devices=2)
    [channel] = record["energy"]["channels"]
    halves = [channel | {"num_devices": 1, "device_id": "GPU-1"}, channel | {"num_devices": 1} | values]
    return [
        rule.finding.words
        for rule in energy_rules(record | {"energy": record["energy"] | {"channels": halves}})
        if not rule.kept
    ]


def repeats(number: float) -> Found:
    return deviations(by_point([builder.result() for _ in range(int(number))])[0])


def seen(tmp_path: Path, power_w: Callable[[float], float]) -> dict[str, Any]:
    """A run from 10 s to 20 s of a trace of one device."""
    devices = [{"hostname": "n1", "rank": 0, "name": "an accelerator", "device_id": "GPU-0"}]
    job = JobFolder(tmp_path).record(devices=devices)
    times_s = [step * 0.1 for step in range(401)]
    gpu = GPU0._replace(has_counter=False, limit_w=150.0)
    job.trace([gpu], lambda _, time_s: power_w(time_s), times_s=times_s, started_s=5.0)
    return collect(job.path)


LIMITS: tuple[tuple[str, Callable[[float], Found], float, float, str], ...] = (
    # the limit, what makes a record of a figure, the figure that is good, the one that is not, what is said of that
    ("STEPS_TOLERANCE", of_steps, 1.015, 1.03, "its steps take 61.8 s"),
    ("IDLE_SHARE", of_steps, 0.85, 0.75, "its steps take 45 s"),
    ("BOARD_TOLERANCE", of_board, 1.07, 1.13, "but its board's limit is"),
    ("NODES_SHARE", of_nodes, 0.6, 0.4, "its measured window lasts 24 s on node n2 and 60 s on node n1"),
    ("FASTER_WITH_INPUT", of_input, 3.0, 5.0, "its throughput with the input path is 5 times that without"),
    ("MOST_AROUND", around, 40.0, 60.0, "60 times the"),
    ("SENSOR_TOLERANCE", of_node, 1.07, 1.13, "at the node that contains them"),
    ("MOST_W", of_device_w, 8e3, 12e3, "W per device, more than any device uses"),
    ("MOST_FLOP_PER_J", of_flop_per_j, 40e12, 60e12, "is more than any chip reaches"),
    ("MOST_RECOMPUTED", of_hfu, 1.3, 1.37, "metrics.hfu is"),
    ("MOST_RECOMPUTED", of_hfu, 1.0, 0.999, "metrics.hfu is"),
    ("REGIONS_TOLERANCE", of_regions, 1.7, 2.5, "steps with regions take 2.5 s"),
    ("MAX_UNCERTAINTY", lambda share: of_rules(uncertainty_wh=share * 100 / 60), 0.04, 0.06, "±6.0% of the energy"),
    ("MAX_IDLE_SHARE", lambda share: of_rules(idle_power_w=share * 100.0), 0.85, 0.95, "95.0 W, compared with 100.0 W"),
    ("MAX_DIFFERENCE", lambda share: of_channel(integral_vs_counter=-share), 0.04, 0.06, "they differ by 6.0%"),
    ("MOST_UNLIKE", lambda times: of_channel(energy_wh=100 / 30 / times), 1.7, 2.5, "one used 2.5 times the energy"),
    ("MIN_REPEATS", repeats, 3, 2, "2 runs, 3 wanted"),
)


@pytest.mark.parametrize(("limit", "make", "good", "bad", "words"), LIMITS)
def test_a_limit_is_between_two_figures(limit, make, good, bad, words):
    kind = FIGURE.sub("#", words)
    assert not any(kind in FIGURE.sub("#", found) for found in make(good))
    assert any(words in found for found in make(bad)), make(bad)


@pytest.mark.parametrize(("percent", "is_said"), [(0.7, False), (1.5, True)])
def test_clocks_that_were_held_back_for_a_hundredth_of_the_window_are_a_doubt(percent, is_said):
    record = builder.result()
    record["energy"]["channels"][0]["clocks"] = {"throttled": {"power limit": percent}}
    assert any("power limit held clocks back" in found for found in doubts(record)) is is_said


@pytest.mark.parametrize(("lost_s", "status"), [(0.35, "ok"), (0.75, "failed")])
def test_readings_cover_the_window(tmp_path, lost_s, status):
    result = seen(tmp_path, lambda time_s: math.nan if time_s >= 20 - lost_s else 100.0)
    assert result["status"] == status, result["error"]
    assert ("its other readings failed" in result["error"]) is (status == "failed")


@pytest.mark.parametrize(("times", "is_busier"), [(1.07, False), (1.14, True)])
def test_another_time_of_the_run_may_have_a_little_more_power(tmp_path, times, is_busier):
    energy = seen(tmp_path, lambda time_s: 100.0 if time_s < 22 else 100.0 * times)["energy"]
    assert ("elsewhere_w" in energy) is is_busier
