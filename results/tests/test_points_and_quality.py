from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from scipy import stats

from record.model import Record
from record.values import rounded
from results.find.duplicates import cpus_in
from results.points.repeats import unsteady
from results.tests import builder
from results.tests.builder import altered
from results.tests.of_dicts import (
    by_point,
    energy_kind,
    energy_rules,
    grade,
    point_of,
    sort_key,
)
from results.verdicts.quality import deviations, rising, why_not_ranked


def test_repeats_become_one_row_with_the_median_and_scipys_interval():
    speeds = [100.0, 103.0, 101.0]
    [one] = by_point([builder.result(tokens_per_s=speed) for speed in speeds])
    estimate = one.estimate("metrics.{unit}_per_s")
    low, high = np.exp(stats.t.interval(0.95, 2, loc=math.log(101.0), scale=stats.sem(np.log(speeds))))
    assert estimate.value == 101.0
    assert estimate.interval == pytest.approx((low, high), rel=1e-9)
    [none] = by_point([builder.result(tokens_per_s=0.0)])
    assert none.estimate("metrics.tokens_per_s") is None


def test_a_job_that_never_began_is_at_no_place():
    point = point_of({**builder.failed(), "layout": {}})
    assert (point.devices, point.global_batch, point.data, point.sample) == (0, 0, "", "")
    assert sort_key({**builder.failed(), "layout": {}})[-2:] == (0, 0)


def test_a_failed_run_that_may_be_of_several_points_is_of_none_of_them():
    def of(precision, torch="2.13.0"):
        record = builder.result(precision=precision)
        record["provenance"]["packages"] = {"torch": torch}
        return record

    bf16, fp8 = of("bf16"), of("fp8")
    apart = [(one.precision, len(one.good), len(one.bad)) for one in by_point([bf16, fp8, builder.failed()])]
    assert sorted(apart) == [("", 0, 1), ("bf16", 1, 0), ("fp8", 1, 0)]
    told = by_point([bf16, fp8, builder.failed(precision="fp8")])
    assert sorted((one.precision, len(one.good), len(one.bad)) for one in told) == [("bf16", 1, 0), ("fp8", 1, 1)]
    both = [builder.failed(), builder.failed(precision="fp8")]
    for records in (both, both[::-1]):
        assert sorted((one.precision, len(one.bad)) for one in by_point(records)) == [("", 1), ("fp8", 1)]
    versions = [of("bf16", torch) for torch in ("2.12.1", "2.13.0")]
    known = {**versions[1], "status": "failed", "error": "late"}
    found = by_point([*versions, known])
    assert [(one.any.provenance.packages["torch"], len(one.bad)) for one in found] == [
        ("2.12.1", 0),
        ("2.13.0", 1),
    ]


@pytest.mark.parametrize(("text", "cpus"), [("0-3,8-11", 8), ("2,4-5", 3), (None, 0), ("all of them", 0)])
def test_a_list_of_cpus_is_counted(text, cpus):
    assert len(cpus_in(text)) == cpus


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (85012.3, 240.0, "85,010"),
        (0.123456, 0.0012, "0.1235"),
        (0.0, None, "0"),
        (None, None, ""),
        (math.nan, None, ""),
    ],
)
def test_a_number_has_the_digits_that_its_interval_supports(value, half, text):
    assert rounded(value, half) == text


def kinds(findings):
    return [one.kind for one in findings]


NOISE = np.random.default_rng(1).normal(0, 0.005, 60)
SLOW = 1 + NOISE
SLOW[[10, 30, 50]] = 3.0  # 6 of 66 s more than others


@pytest.mark.parametrize(
    ("times_s", "found"),
    [
        (1 + NOISE, {}),
        (SLOW, {"outliers": {"slow": 3, "steps": 60, "cost": pytest.approx(6 / 66, rel=0.01)}}),
        (
            [1 + 0.1 * step for step in range(12)],
            {"shift": {"change": pytest.approx(1.75 / 1.15 - 1), "first": 4, "steps": 12}},
        ),
        ([1 + 0.0005 * step for step in range(12)], {}),  # sure, and 0.4 %
        ([1.2, 1.0, 1.0, 1.2, 1.1, 1.2, 1.0, 1.1, 1.2, 1.2, 1.0, 1.2], {}),  # 9 %, by chance
        (
            [1 + NOISE[index] / 4 + 0.4 * (index >= 4) for index in range(12)],
            {"shift": {"change": pytest.approx(0.4, rel=0.02), "first": 4, "steps": 12}},
        ),
        # After a third and after half of the steps, of which the first is more.
        (
            [1.0] * 40 + [1.2 - 0.001 * index for index in range(80)],
            {"shift": {"change": pytest.approx(0.1605), "first": 40, "steps": 120}},
        ),
        (
            [1.0, 5.0, 1.0],
            {
                "outliers": {"slow": 1, "steps": 3, "cost": pytest.approx(4 / 7)},
                "few_steps": {"steps": 3, "wanted": 12},
            },
        ),
    ],
)
def test_a_shift_and_outliers_of_step_times_are_found(times_s, found):
    assert {one.kind: dict(one.values) for one in unsteady(list(times_s))} == found


@pytest.mark.parametrize("share", [1 / 3, 1 / 2, 2 / 3])
@pytest.mark.parametrize(("steps", "change"), [(12, 0.4), (15, -0.1), (20, 1.0), (24, 0.05), (200, 0.04)])
def test_a_shift_anywhere_is_found(steps, change, share):
    at = round(steps * share)
    times_s = [(1 + change * (index >= at)) * (1 + NOISE[index % 60] / 4) for index in range(steps)]
    assert kinds(unsteady(times_s))[0] == "shift"


def test_grades_tell_where_energy_was_measured():
    energy = builder.result()["energy"]
    assert grade(builder.result()) == "Q1"
    assert grade(builder.result(estimated=True)) == "Q0"
    assert grade(builder.result(energy={**energy, "power_scope": "node"})) == "Q2"
    assert grade(builder.failed()) is None
    assert energy_kind(builder.result()) == "Q1, device"
    assert energy_kind(builder.result(estimated=True)) == "Q0, ESTIMATED, cpu"
    assert grade(builder.result(energy={**energy, "power_scope": "device+supply"})) == "Q1"


def test_values_of_a_point_are_those_of_all_runs_or_none():
    [one] = by_point([builder.result(tokens_per_s=speed) for speed in (100.0, 103.0)])
    assert one.values("metrics.{unit}_per_s") == [100.0, 103.0]
    assert one.values("metrics.effective_{unit}_per_s") == []


@pytest.mark.parametrize("changes", [{"devices": 2}, {"batch": 16}, {"system": "H200"}, {"model": "800M"}])
def test_a_run_that_failed_elsewhere_in_the_sweep_is_a_point_of_its_own(changes):
    assert [(len(one.good), len(one.bad)) for one in by_point([builder.result(), builder.failed()])] == [(1, 1)]
    found = by_point([builder.result(), builder.failed(**changes)])
    assert sorted((len(one.good), len(one.bad)) for one in found) == [(0, 1), (1, 0)]


def broken(record):
    return {rule.finding.topic: rule.finding.words for rule in energy_rules(record) if rule.kept is False}


def changed(**changes):
    record = builder.result()
    record["energy"]["channels"][0].update(changes)
    return record


def test_an_energy_that_is_missing_is_not_ranked():
    found = [why_not_ranked(one) for energy in ({}, {"energy": None}) for one in by_point([builder.result(**energy)])]
    assert (found[0], found[1].kind) == (None, "no_energy")


@pytest.mark.parametrize(
    ("record", "rules"),
    [
        (builder.result(), set()),
        (changed(scope="node", largest_gap_s=2.0, samples=60), set()),
        (changed(samples=59), {"samples"}),
        (changed(samples=30), {"samples", "sampling rate"}),
        (changed(largest_gap_s=7.5), {"gaps"}),
        (changed(missing=200), {"missing samples"}),
        (changed(num_devices=4), {"all devices"}),
        (altered(builder.result(), {"layout.num_devices": 2}), {"all devices"}),
        (altered(builder.result(), {"layout.num_nodes": 2}), {"all devices"}),
        (altered(builder.result(), {"energy.idle_power_w": None}), {"idle power"}),
    ],
)
def test_a_measurement_breaks_the_rules_beyond_their_limits(record, rules):
    assert broken(record).keys() == rules


@pytest.mark.parametrize(
    ("left_out", "unknown"),
    [
        ("largest_gap_s", {"gaps"}),
        ("missing", {"missing samples"}),
        ("samples", {"sampling rate", "samples", "missing samples"}),
        ("window_s", {"sampling rate"}),
        ("uncertainty_wh", {"interval"}),
    ],
)
def test_what_an_old_record_does_not_say_is_unknown_and_not_kept(left_out, unknown):
    record = builder.result()
    energy = record["energy"]
    del (energy if left_out in ("window_s", "uncertainty_wh") else energy["channels"][0])[left_out]
    assert {rule.finding.topic for rule in energy_rules(record) if rule.kept is None} == unknown


def of_channels(devices, *channels):
    """A run of devices on nodes, by their names, and the channels of its energy: node, scope and number of devices."""
    record = builder.result(devices=len(devices))
    [known], [device, *_] = record["energy"]["channels"], record["devices"]
    record["layout"]["num_nodes"] = len(set(devices))
    record["devices"] = [{**device, "hostname": name, "rank": rank} for rank, name in enumerate(devices)]
    record["energy"]["channels"] = [
        {**known, "name": f"c{index}", "hostname": name, "scope": scope, "num_devices": number}
        for index, (name, scope, number) in enumerate(channels)
    ]
    return record


def on_unknown(record):
    return {**record, "config": {}}


def on_gpu(record):
    return {**record, "config": {"compute": {"device": "gpu"}}}


@pytest.mark.parametrize(
    ("record", "kept"),
    [
        (of_channels("ab", ("a", "device", 1), ("b", "device", 1)), True),
        (of_channels("aaaa", ("a", "module", 2), ("a", "module", 2)), True),
        (of_channels("aa", ("a", "module", 4)), False),
        (of_channels("a", ("a", "cpu", 1), ("a", "dram", 1)), True),
        (on_unknown(of_channels("a", ("a", "cpu", 1))), None),
        (of_channels("aabb", ("a", "device", 3), ("b", "device", 1)), False),
        (of_channels("ab", ("a", "device", 1), ("b", "cpu", 1)), False),
        (on_gpu(of_channels("a", ("a", "cpu", 1), ("a", "dram", 1))), False),
        (on_gpu(of_channels("aaaa", ("a", "node", 1))), True),
    ],
)
def test_the_energy_is_of_all_devices_that_trained_and_of_no_other(record, kept):
    [rule] = [rule for rule in energy_rules(record) if rule.finding.topic == "all devices"]
    assert rule.kept is kept


def test_the_worst_of_several_channels_decides():
    record = builder.result(devices=2)
    [first] = record["energy"]["channels"]
    good = first | {"num_devices": 1, "integral_vs_counter": 0.01}
    bad = good | {"name": "made:1", "samples": 0, "missing": 1, "largest_gap_s": 60.0, "integral_vs_counter": -0.06}
    for channels in ([good, bad], [bad, good]):
        record["energy"]["channels"] = channels
        assert broken(record).keys() == {"sampling rate", "samples", "gaps", "missing samples", "counter and integral"}


def test_deviations_of_a_point_are_listed():
    origin = builder.result()["provenance"]
    [one] = by_point(
        [
            builder.result(estimated=True, provenance={**origin, "git_dirty": True, "exclusive": "no"}),
            builder.result(estimated=True, provenance={**origin, "git_commit": "other"}),
            builder.failed(),
        ]
    )
    assert kinds(deviations(one)) == ["shared", "few_runs", "some_failed", "estimate", "code", "code"]
    assert deviations(by_point([builder.result() for _ in range(3)])[0]) == []
    [alone] = by_point([builder.result(metrics=builder.result()["metrics"] | {"comparable": False})])
    assert kinds(deviations(alone)) == ["few_runs", "smaller_workload"]
    records = [builder.result() for _ in range(3)]
    del records[1]["step_times_s"]
    assert kinds(deviations(by_point(records)[0])) == ["few_steps"]


@pytest.mark.parametrize(
    ("left_out", "kind"), [("git_commit", "code"), ("git_dirty", "code"), ("exclusive", "exclusive_unknown")]
)
def test_what_is_not_known_of_a_run_is_said_as_what_is_broken(left_out, kind):
    origin = builder.result()["provenance"]
    del origin[left_out]
    [one] = by_point([builder.result(provenance=origin) for _ in range(3)])
    assert kinds(deviations(one)) == [kind]


def amd(*limits_w, serial="0x1"):
    """Return output of amd-smi for devices with different serial numbers."""
    return [
        {
            "gpu": index,
            "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": f"{serial}{index}"},
            "bus": {"bdf": f"0000:0{index}:00.0"},
            "limit": {"max_power": {"value": limit_w, "unit": "W"}},
        }
        for index, limit_w in enumerate(limits_w)
    ]


OF_750_W = {"provenance.nodes": [{"devices": amd(750, 750)}]}
KERNELS = {"config.kernels": {"layers": "megatron"}, "config.model": {"layers": 16}}


@pytest.mark.parametrize(
    ("usual", "path", "value", "words"),
    [
        ({}, "provenance.packages.torch", "2.14.0", ("torch 2.13.0", "torch 2.14.0")),
        (
            {},
            "provenance.nodes",
            [{"devices": [{"driver_version": "570.1"}]}],
            ("driver_version not known", "driver_version 570.1"),
        ),
        ({}, "provenance.nodes", [{"cpu": "a CPU"}, {"cpu": "an EPYC"}], ("cpu a processor", "cpu a CPU and an EPYC")),
        ({}, "provenance.environment", {"NCCL_ALGO": "Ring"}, ("NCCL_ALGO not known", "NCCL_ALGO Ring")),
        ({}, "layout.num_nodes", 2, ("1 node", "2 nodes")),
        ({}, "layout.pipeline_parallel_size", 4, ("micro batch 4", "PP4")),
        ({}, "metrics.model_flops_per_token", 8e9, [f"model_flops_per_token {n}" for n in (56623104, 8000000000)]),
        # whatever a container hides from the vendor's tool
        ({"devices.0.name": "A100"}, "devices.0.name", "A100-80GB", ("device A100", "device A100-80GB")),
        ({"devices.0.cpus": "0-3,8-11"}, "devices.0.cpus", "0-127", ("CPUs bound 8", "CPUs bound 128")),
        (
            {"energy.channels.0.limits": {"power_limit_w": 300.0}},
            "energy.channels.0.limits.power_limit_w",
            700.0,
            ("power limit 300 W", "power limit 700 W"),
        ),
        # of AMD's tool, serial numbers and addresses do not count
        (OF_750_W, "provenance.nodes", [{"devices": amd(750, 750, serial="0x2")}], None),
        (
            OF_750_W,
            "provenance.nodes",
            [{"devices": {"gpu_data": amd(750, 650)}}],
            ("limit.max_power 750 W", "limit.max_power 650 W and 750 W"),
        ),
        (KERNELS, "config.model.layers", 32, ("model.layers 16", "model.layers 32")),
        ({"provenance.environment": {}}, "provenance.environment.SLURM_JOB_ID", "1", None),
        ({"provenance.environment": {}}, "provenance.environment.CUDA_VISIBLE_DEVICES", "1", None),
    ],
)
def test_runs_that_differ_in_what_counts_are_no_repeats(usual, path, value, words):
    records = [altered(builder.result(), usual) for _ in range(3)]
    altered(records[1], {path: value})
    found = [(len(one.good), one.variant[-1]) for one in by_point(records)]
    assert found == list(zip((2, 1), words, strict=True)) if words else [number for number, _ in found] == [3]


def test_a_run_of_other_options_is_no_repeat_and_one_that_failed_spoils_no_other():
    config = builder.result()["config"]
    other = {**config, "training": {"learning_rate": 0.1}}
    fp8 = {**config, "compute": {"precision": "fp8"}}
    records = [
        *(builder.result() for _ in range(3)),
        builder.result(config=other),
        {**builder.failed(), "config": fp8, "precision": "fp8"},
        {**builder.failed(), "config": config},
        {**builder.failed(), "config": {}},
    ]
    found = {one.variant: (len(one.good), len(one.bad)) for one in by_point(records)}
    plain, changed, failed, unknown = found
    assert (unknown, found[unknown]) == ((), (0, 1))
    assert found[plain] == (3, 1)
    assert changed[-1] == "training.learning_rate 0.1"
    assert found[changed] == (1, 0)
    assert failed[0] == "fp8"
    assert found[failed] == (0, 1)


FALLING = [10 - step / 2 for step in range(16)]


@pytest.mark.parametrize(
    ("losses", "found"),
    [
        ([3.0, 2.0], None),
        ([], None),
        ([2.0, 2.1], None),  # chance
        (
            [*FALLING, None, *(10.0**step for step in range(2, 10))],
            {"first": 8.25, "last": pytest.approx(1.389e8, rel=1e-3)},
        ),
        (
            [2.0 + step / 1e3 for step in range(16)],
            {"first": pytest.approx(2.0035), "last": pytest.approx(2.0115)},
        ),
    ],
)
def test_a_loss_that_rises_over_the_run_is_a_doubt(losses, found):
    [one] = by_point([builder.result(losses=losses)])
    rising = [dict(each.values) for each in deviations(one) if "loss" in each.kind]
    assert rising == ([found] if found else [])


def test_flat_losses_with_noise_rise_in_one_of_a_thousand_at_most():
    chance, tried = Random(1), 2000
    flat = [[7 + chance.gauss(0, 0.014) for _ in range(chance.choice((16, 20, 40, 300)))] for _ in range(tried)]
    assert sum(bool(rising(Record.of(builder.result(losses=losses)))) for losses in flat) <= tried / 1000


@pytest.mark.parametrize(
    ("scope", "used_wh", "kind"),
    [
        ("device", [4.0, 2.1], None),
        ("device", [4.0, 1.9], "devices_alike"),
        ("module", [4.0, 4.0, 0.5, 0.5], "devices_alike"),
        ("cpu", [4.0, 0.5], None),  # a run may be on one of several sockets
    ],
)
def test_energies_of_devices_that_are_unlike_are_not_ranked(scope, used_wh, kind):
    [record] = builder.of_scope(scope, [builder.result(devices=len(used_wh))])
    [channel] = record["energy"]["channels"]
    record["energy"]["channels"] = [channel | {"energy_wh": wh, "num_devices": 1} for wh in used_wh]
    why = why_not_ranked(by_point([record])[0])
    assert (why and why.kind) == kind
