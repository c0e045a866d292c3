"""Limits, defaults and sizes in the documentation are those of the code, and its results those of the records."""

from __future__ import annotations

import re

import pytest

import results
from jpwr.backends import ipmi, nvml
from jpwr.energy import counter, window
from jpwr.intervals import ASSUMED_ACCURACY, SAMPLES_FOR_A_PEAK
from jpwr.report.notes import REPEATED
from record.model import SCHEMA_VERSION
from results import predict
from results.files.systems import System
from results.files.workloads import workloads
from results.join.nodes import MOST_PARTS
from results.points import judged, repeats
from results.points.estimate import MEDIAN_ERROR, students_t
from results.verdicts import power_level, quality
from results.verdicts.requirements import MOST
from tests.conftest import REPOSITORY
from tools.bench import coverage, mutants

RULES, REQUIREMENTS = "docs/reference/rules.md", "docs/reference/requirements.md"
ENERGY, EVIDENCE = "docs/explanation/energy.md", "docs/explanation/evidence.md"
PREDICTION, SYSTEM = "docs/explanation/prediction.md", "docs/explanation/whole_system.md"
THROUGHPUT = "docs/explanation/throughput.md"
NUMBERS = {3: "three"}


def percent(share: float) -> str:
    return f"{100 * share:g} %"


def gflop(benchmark: str, model: str, sample: str) -> str:
    return f"{workloads()[benchmark].flops[model][sample] / 1e9:.3g} GFLOP"


def half_width(runs: int) -> float:
    """Half-width of the interval of a point's median, in standard deviations between its runs."""
    return students_t(runs - 1) / runs**0.5 * (MEDIAN_ERROR if runs > 4 else 1)


def made_up_runs() -> int:
    return coverage.TRIALS * len(coverage.LOADS) * len(coverage.CASES)


STATED = [
    (
        RULES,
        f"at least {quality.MIN_RATE_HZ:g} samples per second and {quality.MIN_SAMPLES} in all; "
        f"no gap above {quality.MAX_GAP_S:g} s; at most {percent(quality.MAX_MISSING)} missing",
    ),
    (RULES, f"counter and integral differ by at most {percent(quality.MAX_DIFFERENCE)}"),
    (RULES, f"uncertainty at most ±{percent(quality.MAX_UNCERTAINTY)}"),
    (RULES, f"energies differ by at most a factor of {quality.MOST_UNLIKE:g}"),
    (RULES, f"at most {percent(quality.MAX_IDLE_SHARE)} of the window's power"),
    (
        RULES,
        f"at least {repeats.FEWEST_STEPS}; no shift above {percent(repeats.SHIFT)}; "
        f"outliers cost at most {percent(repeats.OUTLIER_COST)} of the time",
    ),
    (RULES, f"a window of {quality.MIN_WINDOW_S:g} s or more"),
    (RULES, f"| runs | {quality.MIN_REPEATS}, with one unchanged version"),
    (RULES, f"throttled during at most {percent(quality.MAX_THROTTLED)} of the window"),
    (RULES, f"held its clocks back for more than {judged.MOST_SLOWED_PERCENT:g} % of the window"),
    *((RULES, f"| {runs} | {half_width(runs):.2g} |") for runs in (3, 9)),
    (RULES, f"| 2 | {half_width(2):.1f} |"),
    (RULES, f"{MEDIAN_ERROR:.2f} times that of the mean from five runs on"),
    (REQUIREMENTS, f"above {MOST['ttft_p99'][0]:g} s (TTFT) or {MOST['tpot_p99'][0]:g} s (TPOT)"),
    (REQUIREMENTS, f"| `mfu` | share of the peak | 0 to {MOST['mfu'][0]:g} |"),
    (REQUIREMENTS, f"on `from_devices` | 0 to {MOST['scaling_efficiency'][0]:g} |"),
    (ENERGY, f"there are fewer than {SAMPLES_FOR_A_PEAK} samples"),
    (ENERGY, f"highest of {SAMPLES_FOR_A_PEAK} or more readings"),
    (ENERGY, f"more than {percent(window.MOST_MISSING)} of readings failed or were frozen"),
    (ENERGY, f"*assumed*: ±{percent(ASSUMED_ACCURACY)}."),
    (ENERGY, f"A difference above {percent(quality.MAX_DIFFERENCE)} breaks a [rule]"),
    (ENERGY, f"{1000 * nvml.SEEN_SHARE * nvml.REFRESH_S:g} of every {1000 * nvml.REFRESH_S:g} ms"),
    (ENERGY, f"`ipmi` assumes means over {ipmi.AVERAGED_S:g} s (`{ipmi.AVERAGING_VARIABLE}`)"),
    (ENERGY, f"otherwise {NUMBERS[counter.UNSEEN]} times the stated interval"),
    (ENERGY, f"if more than {'half' if REPEATED == 0.5 else percent(REPEATED)} of the samples repeat"),
    ("README.md", f"±{percent(ASSUMED_ACCURACY)} is assumed"),
    (THROUGHPUT, f"at least {System.measured_steps} steps and {System.min_measured_s:g} s"),
    (THROUGHPUT, f"each point runs {NUMBERS[System.default_repeats]} times"),
    (THROUGHPUT, gflop("llm_training", "800M", "2048 tokens")),
    (THROUGHPUT, gflop("resnet50", "ResNet-50 v1.5", "224 pixels")),
    (PREDICTION, f"to at least {predict.FEWEST_POINTS} points"),
    (PREDICTION, f"more than {predict.FURTHEST} times or less than half of a measured one"),
    (PREDICTION, f"with fewer than {predict.FEWEST_SYSTEMS} systems"),
    (SYSTEM, f"| window of {power_level.MIN_CORE_S:g} s |"),
    (SYSTEM, f"A gap of more than {2 * power_level.MAX_STEP_S:g} s"),
    (
        SYSTEM,
        f"| 1/{1 / power_level.SHARE[1]:g}, {power_level.LEAST_W[1] / 1000:g} kW and {power_level.LEAST_NODES} nodes; "
        f"or {power_level.ENOUGH_W / 1000:g} kW; or all | 1/{1 / power_level.SHARE[2]:g}, "
        f"{power_level.LEAST_W[2] / 1000:g} kW and",
    ),
    (SYSTEM, f"| accuracy of the meter | {' | '.join(map(percent, power_level.ACCURACY.values()))} |"),
    (SYSTEM, f"by the root of k, up to {percent(power_level.MOST_OF_SEVERAL)}"),
    (SYSTEM, f"or a {MOST_PARTS}th of the window"),
    ("docs/reference/record.md", f"The schema has version {SCHEMA_VERSION};"),
    (EVIDENCE, f"{made_up_runs():,} made-up runs"),
    (EVIDENCE, f"of known energy, {coverage.TRIALS} for each case"),
]


@pytest.mark.parametrize(("page", "stated"), STATED)
def test_a_number_of_a_page_is_that_of_the_code(page, stated):
    assert stated in " ".join((REPOSITORY / page).read_text().split())


def test_the_number_of_mistakes_is_that_of_the_program():
    default = re.search(r'"--number", type=int, default=(\d+)', (REPOSITORY / str(mutants.__file__)).read_text())
    assert f"it puts {default[1]} mistakes" in (REPOSITORY / EVIDENCE).read_text()


def test_results_of_the_first_page_are_those_of_the_records():
    runs = results.frame(REPOSITORY / "results" / "records" / "H200")
    stated = re.findall(
        r"^\| GPT-(\w+), .* \| ([\d,]+) \| (\d+) % \| (\d+) W \| ([\d,]+) ±([\d.]+) % \|$",
        (REPOSITORY / "README.md").read_text(),
        re.MULTILINE,
    )
    recorded = {
        (
            run.model,
            f"{float(f'{run.work_per_s:.3g}'):,.0f}",
            f"{100 * run.mfu:.0f}",
            f"{run.avg_power_w:.0f}",
            f"{round(run.work_per_wh, -3):,.0f}",
            f"{100 * run.energy_uncertainty_wh / run.energy_wh:.2f}",
        )
        for run in runs.itertuples()
    }
    assert len(stated) == 3
    assert set(stated) <= recorded


@pytest.mark.parametrize("target", ["demo", "test"])
def test_times_of_the_first_page_are_those_that_make_prints(target):
    [minutes] = re.findall(
        rf"^{target}: .* ([\d.]+) minutes on two cores", (REPOSITORY / "Makefile").read_text(), re.MULTILINE
    )
    assert f"| `make {target}` after set-up | {minutes} minutes |" in (REPOSITORY / "README.md").read_text()
