from __future__ import annotations

import csv
import math
import re
from random import Random

import numpy as np
import pytest
from scipy import stats

from caraml.cli import main
from record.model import Record
from record.values import cpus_in, rounded
from results.points.estimate import Estimate, Part
from results.points.repeats import energy_of_path
from results.points.setups import _own_name
from results.show.tables.cells import Amount, for_programs, text_of
from results.show.tables.points import place_of, point_table
from results.tests import builder
from results.tests.of_dicts import (
    by_point,
    deviations,
    energy_kind,
    energy_rules,
    grade,
    origin_table,
    point_of,
    sort_key,
    unsteady,
    value_at,
    why_not_ranked,
)
from results.verdicts.quality import rising


def test_repeats_become_one_row_with_the_median_and_scipys_interval():
    speeds = [100.0, 103.0, 101.0]
    [one] = by_point([builder.result(tokens_per_s=speed) for speed in speeds])
    estimate = one.estimate("metrics.{unit}_per_s")
    low, high = np.exp(stats.t.interval(0.95, 2, loc=math.log(101.0), scale=stats.sem(np.log(speeds))))
    assert estimate.value == 101.0
    assert estimate.interval == pytest.approx((low, high), rel=1e-9)
    assert one.half_width("metrics.{unit}_per_s") == pytest.approx((high - low) / 2, rel=1e-9)
    header, row = point_table([one]).filled().texts()
    assert row[header.index("tokens/s")] == "101.0"
    assert row[header.index("± 95 %")] == "3.8"
    assert row[header.index("runs")] == "3"
    assert row[header.index("MFU [%]")] == "0.001833"
    assert row[header.index("sampling ± [%]")] == "1.000"
    [two] = by_point([builder.result(tokens_per_s=speed) for speed in (100.0, 102.0)])
    low, high = np.exp(stats.t.interval(0.95, 1, loc=math.log(101.0), scale=stats.sem(np.log([100.0, 102.0]))))
    assert two.estimate("metrics.tokens_per_s").interval == pytest.approx((low, high), rel=1e-9)


def test_what_a_point_does_not_tell_has_no_column():
    bare = builder.result()
    del bare["metrics"]["mfu"]
    bare["metrics"]["step_time_median_s"] = 2.0
    bare["devices"][0]["peak_memory_bytes"] = 0
    bare["energy"]["channels"][0]["clocks"] = {"mean_mhz": 1400.0}
    [one] = by_point([bare])
    header, row = point_table([one]).filled().texts()
    assert not {"MFU [%]", "p95 step over median [%]", "peak memory [GiB]"} & set(header)
    assert "throttled [%]" not in header
    bare["energy"]["channels"][0]["clocks"] = {"throttled": {}}
    header, row = point_table(by_point([bare])).filled().texts()
    assert float(row[header.index("throttled [%]")]) == 0
    del bare["energy"]["channels"][0]["clocks"]
    assert "throttled [%]" not in point_table(by_point([bare])).filled().texts()[0]
    assert place_of(one) == ["A100", "tiny", 1, 8, ("bf16", "micro batch 4")]


def test_a_throughput_of_nothing_has_no_estimate():
    [one] = by_point([builder.result(tokens_per_s=0.0)])
    assert one.estimate("metrics.tokens_per_s") is None


def test_a_job_that_never_began_is_at_no_place():
    point = point_of({**builder.failed(), "layout": {}})
    assert (point.devices, point.global_batch, point.data, point.sample) == (0, 0, "", "")
    assert sort_key({**builder.failed(), "layout": {}})[-2:] == (0, 0)


def test_a_table_of_points_for_machines_has_the_numbers_as_they_are(tmp_path, capsys):
    builder.store(tmp_path, [builder.result(tokens_per_s=speed) for speed in (100.125, 103.0, 90.0)])
    assert main(["table", str(tmp_path), "--repeats", "--format", "csv"]) == 0
    header, row = csv.reader(capsys.readouterr().out.splitlines())
    assert float(row[header.index("tokens/s")]) == 100.125
    assert main(["table", str(tmp_path), "--repeats"]) == 0
    assert " 100 " in capsys.readouterr().out


def test_other_options_are_another_point_and_a_failed_run_joins_its_point():
    layout = builder.result()["layout"]
    results = by_point(
        [
            builder.result(),
            builder.result(batch=32),
            builder.result(batch=32, layout={**layout, "global_batch_size": 32, "micro_batch_size": 8}),
            builder.failed(),
            builder.failed(batch=16),
        ]
    )
    assert [(one.point.global_batch, len(one.good), len(one.bad)) for one in results] == [
        (8, 1, 1),
        (16, 0, 1),
        (32, 1, 0),
        (32, 1, 0),
    ]
    header, *rows = point_table(results).filled().texts()
    assert [row[header.index("status")] for row in rows] == ["1 of 2 failed", "failed", "ok", "ok"]


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


def test_what_a_run_is_split_over_is_in_its_variant_and_failed_places_are_kept_apart():
    layout = {**builder.result()["layout"], "tensor_parallel_size": 2, "pipeline_parallel_size": 4}
    layout |= {"context_parallel_size": 2, "expert_parallel_size": 8}
    [one] = by_point([builder.result(layout=layout)])
    assert one.variant == ("bf16", f"micro batch {layout['micro_batch_size']}", "TP2", "PP4", "CP2", "EP8")
    both = by_point([builder.failed(batch=8), builder.failed(batch=16)])
    assert [(one.point.global_batch, len(one.bad)) for one in both] == [(8, 1), (16, 1)]


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3,8-11", 8), ("5", 1), ("2,4-5", 3), (None, 0), ("", 0), ("all of them", 0), ("0-9" * 9, 0)]
)
def test_a_list_of_cpus_is_counted(text, cpus):
    assert len(cpus_in(text)) == cpus


def test_a_value_of_an_energy_is_told_by_the_first_of_its_path():
    paths = ("energy.states.energy_wh", "energy_effective.energy_wh", "metrics.mfu", "system")
    assert [energy_of_path(path) for path in paths] == ["energy", "energy_effective", "", ""]


def test_an_options_own_name_is_the_last_of_its_path():
    assert [_own_name(path) for path in ("seed", "run.seed", "a.b.c")] == ["seed", "seed", "c"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda record: record["devices"][0].update(name="A100-80GB"), "device A100-80GB"),
        (lambda record: record["devices"][0].update(cpus="0-127"), "CPUs bound 128"),
        (
            lambda record: record["energy"]["channels"][0]["clocks"].update(power_limit_w=700.0),
            "power limit 700 W",
        ),
        (lambda record: record["metrics"].update(model_flops_per_token=8e9), "model_flops_per_token 8000000000.0"),
    ],
)
def test_what_a_container_hides_from_the_vendors_tool_makes_runs_unlike_all_the_same(change, words):
    records = [builder.result() for _ in range(4)]
    for record in records:
        record["devices"][0] |= {"name": "A100-40GB", "cpus": "0-3,8-11"}
        record["energy"]["channels"][0]["clocks"] = {"power_limit_w": 300.0}
    assert len(by_point(records)) == 1
    change(records[0])
    usual, other = sorted(by_point(records), key=lambda one: -len(one.good))
    assert (len(usual.good), len(other.good)) == (3, 1)
    assert other.variant[-1] == words


def test_other_kernels_are_another_point_and_are_named():
    config = builder.result()["config"]
    usual = builder.result(config=config | {"kernels": {"layers": "megatron", "cuda_graph": False}})
    kernels = {"layers": "transformer-engine", "cuda_graph": True}
    other = builder.result(config=config | {"kernels": kernels}, variant=["TransformerEngine", "CUDA graph"])
    results = by_point([usual, other, usual, usual])
    assert [(one.variant, len(one.good)) for one in results] == [
        (("bf16", "micro batch 4"), 3),
        (("bf16", "micro batch 4", "TransformerEngine", "CUDA graph"), 1),
    ]


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (85012.3, 240.0, "85,010"),
        (85012.3, None, "85,010"),
        (0.123456, 0.0012, "0.1235"),
        (1234.5678, 0.5, "1,234.57"),
        (0.0, None, "0"),
        (None, None, ""),
        (math.nan, None, ""),
    ],
)
def test_a_number_has_the_digits_that_its_interval_supports(value, half, text):
    assert rounded(value, half) == text


def test_a_number_for_machines_has_all_digits():
    values = (85012.345678, 0.1, None, math.nan, math.inf)
    for cells in (values, map(Amount, values)):
        assert [text_of(cell, ".1f", for_programs) for cell in cells] == ["85012.345678", "0.1", "", "", ""]


def test_a_trend_and_outliers_in_step_times_are_told():
    noise = np.random.default_rng(1).normal(0, 0.005, 60)
    assert unsteady(list(1 + noise)) == []
    [trend] = unsteady(list(1 + noise + np.linspace(0, 0.2, 60)))
    assert trend.startswith("trend: steps take +1")
    slow = 1 + noise
    slow[[10, 30, 50]] = 3.0
    [outliers] = unsteady(list(slow))
    assert outliers == "outliers: 3 of 60 steps are slow and cost 9% of the time"
    for steps, change in ((12, 0.4), (15, -0.1), (20, 1.0), (24, 0.05), (200, 0.04)):
        for share in (1 / 3, 1 / 2, 2 / 3):
            at = round(steps * share)
            shifted = [(1 + change * (index >= at)) * (1 + noise[index % 60] / 4) for index in range(steps)]
            words = unsteady(shifted)[0]
            assert re.match(r"(trend|shift): steps take [+-]", words)
    assert unsteady([1 + noise[index] / 4 + 0.4 * (index >= 4) for index in range(12)]) == [
        "shift: steps take +40% after the first 4 of 12"
    ]
    # Within its halves it falls, so that it has no trend and no other shift.
    halves = [level - 0.01 * index for level in (1.05, 1.15) for index in range(6)]
    assert unsteady(halves) == ["shift: steps take +10% after the first 6 of 12"]
    # After a third and after half of the steps, of which the first is more.
    assert unsteady([1.0] * 40 + [1.2 - 0.001 * index for index in range(80)]) == [
        "shift: steps take +16% after the first 40 of 120"
    ]
    assert unsteady([1.0, 1.4, 1.0]) == ["3 steps are too few to check whether they are steady, 12 wanted"]
    assert unsteady([]) == ["0 steps are too few to check whether they are steady, 12 wanted"]
    few = unsteady([1.0, 5.0, 1.0])
    assert few == [
        "outliers: 1 of 3 steps are slow and cost 57% of the time",
        "3 steps are too few to check whether they are steady, 12 wanted",
    ]


def test_a_trend_is_of_the_thirds_and_neither_small_nor_chance():
    assert unsteady([1 + 0.1 * step for step in range(12)]) == ["trend: steps take +70% at the end"]
    assert unsteady([10 - 0.1 * step for step in range(12)]) == ["trend: steps take -8% at the end"]
    assert unsteady([1 + 0.0005 * step for step in range(12)]) == []  # sure, and 0.4 %
    assert unsteady([1.2, 1.0, 1.0, 1.2, 1.1, 1.2, 1.0, 1.1, 1.2, 1.2, 1.0, 1.2]) == []  # 9 %, by chance


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_an_outlier_is_one_on_any_scale(scale):
    steps = [scale, 1.4 * scale] * 10
    assert unsteady([*steps, *steps]) == []
    [words] = unsteady([*steps, 4 * scale, *steps])
    assert words.startswith("outliers: 1 of 41 steps are slow and cost ")


@pytest.mark.parametrize("steps", [12, 13, 14, 20])
def test_a_trend_is_found_in_as_few_steps_as_are_wanted(steps):
    [trend] = unsteady([1 + 0.2 * step / steps for step in range(steps)])
    assert trend.startswith("trend")


def test_grades_tell_where_energy_was_measured():
    energy = builder.result()["energy"]
    assert grade(builder.result()) == "Q1"
    assert grade(builder.result(estimated=True)) == "Q0"
    assert grade(builder.result(energy={**energy, "power_scope": "node"})) == "Q2"
    assert grade(builder.failed()) is None
    assert energy_kind(builder.result()) == "Q1, device"
    assert energy_kind(builder.result(estimated=True)) == "Q0, ESTIMATED, cpu"
    assert grade(builder.result(energy={**energy, "power_scope": "device+supply"})) == "Q1"


def test_points_and_ratios_are_told_in_words():
    assert (
        str(point_of(builder.result(devices=2))) == "llm_training, tiny, text, 2048 tokens, 2 devices, global batch 8"
    )
    several, one = (Estimate(2.0, parts) for parts in ((Part(0.01),), None))
    assert (several.text, one.text) == ("2.000 [1.961, 2.040]", "2.000")


def test_of_several_paths_the_first_with_a_value_counts():
    record = builder.result(tokens_per_s=5.0)
    assert value_at(record, "metrics.none|metrics.{unit}_per_s|system") == 5.0
    assert value_at(record, "metrics.none|system.none") is None


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
    return {rule.name: rule.words for rule in energy_rules(record) if rule.kept is False}


def changed(**changes):
    record = builder.result()
    record["energy"]["channels"][0].update(changes)
    return record


def same_window(record, of="energy"):
    [rule] = [rule for rule in energy_rules(record, of) if rule.name == "same window"]
    return rule.kept, rule.words


def with_windows(record, kind, *lengths_s):
    """Of a node each."""
    first = record["windows"][0]
    record["windows"] += [
        {**first, "kind": kind, "hostname": f"n{number}", "end_s": first["start_s"] + length_s}
        for number, length_s in enumerate(lengths_s, 1)
    ]
    return record


@pytest.mark.parametrize(
    ("lengths_s", "told"),
    [
        ((), (True, "")),
        ((60.0, 60.01), (True, "")),
        ((60.0, 50.0, 55.0), (False, ", on one node 50.00 s and on another 60.00 s")),
    ],
)
def test_energy_is_over_one_window_on_all_nodes(lengths_s, told):
    record = with_windows(builder.result(), "measured", *lengths_s)
    del record["windows"][0]
    kept, more = told
    assert same_window(record) == (kept, f"throughput over 60.00 s, energy over 60.00 s{more}")


def test_energy_with_the_input_path_is_over_the_window_of_that_throughput():
    record = with_windows(builder.result(), "effective", 90.0)
    record["metrics"] |= {"effective_tokens": 7200.0, "effective_tokens_per_s": 80.0}
    record["energy_effective"] = {**record["energy"], "window_s": 90.0}
    assert same_window(record) == (True, "throughput over 60.00 s, energy over 60.00 s")
    assert same_window(record, "energy_effective") == (True, "throughput over 90.00 s, energy over 90.00 s")
    [results] = by_point([record])
    assert why_not_ranked(results, "energy_effective") == ""
    record["energy_effective"]["window_s"] = 60.0
    [results] = by_point([record])
    assert why_not_ranked(results) == ""
    words = "same window: throughput over 90.00 s, energy over 60.00 s"
    assert why_not_ranked(results, "energy_effective") == words
    del record["energy_effective"]
    [results] = by_point([record])
    assert why_not_ranked(results, "energy_effective") == "there is none"


def test_a_good_measurement_keeps_every_rule_and_says_by_how_much():
    assert {rule.name: rule.words for rule in energy_rules(builder.result()) if rule.kept} == {
        "sampling rate": "10.0 samples/s of the slowest channel, at least 0.9 wanted",
        "samples": "600 samples of the slowest channel, at least 60 wanted",
        "gaps": "the longest time without a sample is 0.2 s, at most 2.0 wanted",
        "missing samples": "0.0% of the samples of the worst channel, at most 1.0% wanted",
        "same window": "throughput over 60.00 s, energy over 60.00 s",
        "all nodes": "1 of 1 nodes",
        "all devices": "1 of 1 devices",
        "interval": "±1.0% of the energy, at most 5.0% wanted",
        "idle power": "30.0 W",
    }
    [of_node] = [rule for rule in energy_rules(changed(scope="node")) if rule.name == "all devices"]
    assert (of_node.kept, of_node.words) == (True, "the sensors are of scope node, which contains them")
    unsaid = builder.result()
    del unsaid["energy"]["channels"][0]["num_devices"]
    assert broken(unsaid) == {}


@pytest.mark.parametrize(
    ("record", "rule", "words"),
    [
        (changed(samples=30), "sampling rate", "0.5 samples/s of the slowest channel, at least 0.9 wanted"),
        (changed(samples=59), "samples", "59 samples of the slowest channel, at least 60 wanted"),
        (changed(largest_gap_s=7.5), "gaps", "the longest time without a sample is 7.5 s, at most 2.0 wanted"),
        (changed(missing=200), "missing samples", "25.0% of the samples of the worst channel, at most 1.0% wanted"),
        (changed(integral_vs_counter=-0.2), "counter and integral", "they differ by 20.0%, at most 5.0% wanted"),
        (
            changed(num_devices=1) | {"layout": {**builder.result()["layout"], "num_devices": 2}},
            "all devices",
            "1 of 2 devices",
        ),
        (changed(num_devices=4), "all devices", "the energy of 4 devices is counted, 1 trained"),
        (builder.result() | {"layout": {**builder.result()["layout"], "num_nodes": 2}}, "all nodes", "1 of 2 nodes"),
        (
            builder.result(energy={**builder.result()["energy"], "uncertainty_wh": 0.1}),
            "interval",
            "±6.0% of the energy, at most 5.0% wanted",
        ),
        (builder.result(energy={**builder.result()["energy"], "idle_power_w": None}), "idle power", "not known"),
        (
            builder.result(energy={**builder.result()["energy"], "idle_power_w": 90.6}),
            "idle power",
            "90.6 W, compared with 100.0 W in the window: little of it is for the work, or the devices were busy "
            "before",
        ),
        (
            builder.result(energy={**builder.result()["energy"], "window_s": 90.0}),
            "same window",
            "throughput over 60.00 s, energy over 90.00 s",
        ),
    ],
)
def test_a_broken_rule_is_said_in_words(record, rule, words):
    assert broken(record)[rule] == words


@pytest.mark.parametrize(
    ("left_out", "unknown"),
    [
        ("largest_gap_s", {"gaps"}),
        ("missing", {"missing samples"}),
        ("samples", {"sampling rate", "samples", "missing samples"}),
        ("window_s", {"sampling rate", "same window"}),
        ("uncertainty_wh", {"interval"}),
    ],
)
def test_what_an_old_record_does_not_say_is_unknown_and_not_kept(left_out, unknown):
    record = builder.result()
    energy = record["energy"]
    del (energy if left_out in ("window_s", "uncertainty_wh") else energy["channels"][0])[left_out]
    assert {rule.name for rule in energy_rules(record) if rule.kept is None} == unknown
    assert {rule.words for rule in energy_rules(record) if rule.kept is None} == {"the record lacks the data"}


@pytest.mark.parametrize(
    "changes",
    [
        {"largest_gap_s": 2.0},
        {"samples": 60},
        {"samples": 990, "missing": 10},
        {"integral_vs_counter": -0.05},
    ],
)
def test_rules_are_kept_up_to_their_limits(changes):
    assert broken(changed(**changes)) == {}


@pytest.mark.parametrize(("window_s", "is_kept"), [(60.5, True), (59.5, True), (61.0, False)])
def test_windows_are_the_same_within_a_hundredth(window_s, is_kept):
    record = builder.result(energy={**builder.result()["energy"], "window_s": window_s})
    assert ("same window" not in broken(record)) is is_kept


@pytest.mark.parametrize(("percent", "is_told"), [(0.4, False), (1.0, False), (1.004, True), (40.0, True)])
def test_what_held_clocks_back_is_told_beyond_its_limit(percent, is_told):
    records = [changed(clocks={"mean_mhz": 1400.0, "throttled": {"power": percent}}) for _ in range(3)]
    found = deviations(by_point(records)[0])
    assert found == [f"throttled: power held clocks back for {percent:.0f} % of the window"] * is_told


def test_an_energy_without_channels_keeps_no_rule_of_them():
    record = builder.result()
    record["energy"]["channels"] = []
    kept = {rule.name for rule in energy_rules(record) if rule.kept}
    assert kept == {"same window", "interval", "idle power"}
    assert why_not_ranked(by_point([record])[0]) == "sampling rate: the record lacks the data"
    assert energy_rules(builder.failed()) == []


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
    ("record", "kept", "words"),
    [
        (of_channels("aa", ("a", "device", 1), ("a", "device", 1)), True, "2 of 2 devices"),
        (of_channels("ab", ("a", "device", 1), ("b", "device", 1)), True, "2 of 2 devices"),
        (of_channels("aaaa", ("a", "module", 1)), False, "1 of 4 devices"),
        (of_channels("aaaa", ("a", "module", 2), ("a", "module", 2)), True, "4 of 4 devices"),
        (of_channels("aa", ("a", "module", 4)), False, "the energy of 4 devices is counted, 2 trained"),
        (of_channels("a", ("a", "cpu", 1), ("a", "dram", 1)), True, "the processors trained"),
        (of_channels("a", ("a", "dram", 1)), False, "the energy is of memory alone"),
        (
            on_unknown(of_channels("a", ("a", "cpu", 1))),
            None,
            "whether the processors or accelerators trained is not known",
        ),
        (
            of_channels("aabb", ("a", "device", 3), ("b", "device", 1)),
            False,
            "3 of 2 devices of a, 1 of 2 devices of b",
        ),
        (
            of_channels("ab", ("a", "device", 1), ("b", "cpu", 1)),
            False,
            "the sensors have different scopes: cpu, device",
        ),
        (of_channels("a", ("a", "cpu", 1), ("a", "dram", 1)), True, "the processors trained"),
        (
            on_gpu(of_channels("a", ("a", "cpu", 1), ("a", "dram", 1))),
            False,
            "accelerators trained, and the energy is of processors alone",
        ),
        (on_gpu(of_channels("aaaa", ("a", "node", 1))), True, "the sensors are of scope node, which contains them"),
    ],
)
def test_the_energy_is_of_all_devices_that_trained_and_of_no_other(record, kept, words):
    [rule] = [rule for rule in energy_rules(record) if rule.name == "all devices"]
    assert (rule.kept, rule.words) == (kept, words)


@pytest.mark.parametrize("key", ["samples", "missing", "largest_gap_s"])
def test_what_one_of_several_channels_does_not_say_is_unknown(key):
    record = builder.result(devices=2)
    [first] = record["energy"]["channels"]
    second = {name: value for name, value in first.items() if name != key}
    record["energy"]["channels"] = [{**first, "num_devices": 1}, {**second, "num_devices": 1, "name": "made:1"}]
    assert any(rule.kept is None for rule in energy_rules(record))


def test_the_worst_of_several_channels_decides():
    record = builder.result(devices=2)
    [first] = record["energy"]["channels"]
    good = first | {"num_devices": 1, "integral_vs_counter": 0.01}
    bad = good | {"name": "made:1", "samples": 0, "missing": 1, "largest_gap_s": 60.0, "integral_vs_counter": -0.06}
    for channels in ([good, bad], [bad, good]):
        record["energy"]["channels"] = channels
        assert broken(record) == {
            "sampling rate": "0.0 samples/s of the slowest channel, at least 0.9 wanted",
            "samples": "0 samples of the slowest channel, at least 60 wanted",
            "gaps": "the longest time without a sample is 60.0 s, at most 2.0 wanted",
            "missing samples": "100.0% of the samples of the worst channel, at most 1.0% wanted",
            "counter and integral": "they differ by 6.0%, at most 5.0% wanted",
        }


def test_runs_with_energies_of_different_kinds_have_none_together():
    [one] = by_point([builder.result(), builder.result(), builder.result(estimated=True)])
    assert one.value("metrics.{unit}_per_s") == 100.0
    assert one.value("energy.{unit}_per_wh") is None
    assert "its runs have energies of different kinds: the point has none" in deviations(one)


def test_deviations_of_a_point_are_listed():
    origin = builder.result()["provenance"]
    [one] = by_point(
        [
            builder.result(estimated=True, provenance={**origin, "git_dirty": True, "exclusive": "no"}),
            builder.result(estimated=True, provenance={**origin, "git_commit": "other"}),
            builder.failed(),
        ]
    )
    assert deviations(one) == [
        "the node was shared with other jobs",
        "2 runs, 3 wanted",
        "1 of 3 runs failed",
        "energy is an estimate",
        "the code had local changes",
        "its runs are of 2 versions of the code",
    ]
    assert deviations(by_point([builder.result() for _ in range(3)])[0]) == []
    [alone] = by_point([builder.result(metrics=builder.result()["metrics"] | {"comparable": False})])
    assert deviations(alone) == ["1 run, 3 wanted", "not the workload of the comparison: smaller samples"]
    records = [builder.result() for _ in range(3)]
    del records[1]["step_times_s"]
    assert deviations(by_point(records)[0]) == ["0 steps are too few to check whether they are steady, 12 wanted"]


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        ("git_commit", "the version of the code is not known"),
        ("git_dirty", "whether the code had local changes is not known"),
        ("exclusive", "exclusive use of the node is not known"),
    ],
)
def test_what_is_not_known_of_a_run_is_said_as_what_is_broken(left_out, words):
    origin = builder.result()["provenance"]
    del origin[left_out]
    [one] = by_point([builder.result(provenance=origin) for _ in range(3)])
    assert deviations(one) == [words]


def test_a_rule_that_a_record_does_not_answer_is_said():
    records = [builder.result() for _ in range(3)]
    for record in records:
        del record["energy"]["channels"][0]["largest_gap_s"]
    [one] = by_point(records)
    assert deviations(one) == ["energy, gaps: the record lacks the data"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"packages": {"torch": "2.14.0"}}, ("torch 2.13.0", "torch 2.14.0")),
        ({"container": "image:2"}, ("container not known", "container image:2")),
        ({"devices": [{"driver_version": "570.1"}]}, ("driver_version not known", "driver_version 570.1")),
        ({"nodes": [{"devices": [{"power.limit": "300.00 W"}]}]}, ("power.limit not known", "power.limit 300.00 W")),
    ],
)
def test_runs_that_were_made_with_something_else_are_no_repeats(changes, words):
    origin = builder.result()["provenance"]
    records = [*(builder.result() for _ in range(3)), *(builder.result(provenance={**origin, **changes}) for _ in "ab")]
    points = by_point(records)
    assert sorted((len(one.good), one.variant[-1]) for one in points) == sorted(zip((3, 2), words, strict=True))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes": [{"cpu": "an EPYC"}]}, ("cpu a processor", "cpu an EPYC")),
        ({"nodes": [{"cpu": "a processor"}, {"cpu": "an EPYC"}]}, ("cpu a processor", "cpu a processor and an EPYC")),
        ({"environment": {"NVIDIA_TF32_OVERRIDE": "0"}}, ("NVIDIA_TF32_OVERRIDE not known", "NVIDIA_TF32_OVERRIDE 0")),
        ({"environment": {"NCCL_ALGO": "Ring"}}, ("NCCL_ALGO not known", "NCCL_ALGO Ring")),
        ({"environment": {"OMP_NUM_THREADS": "8"}}, ("OMP_NUM_THREADS not known", "OMP_NUM_THREADS 8")),
        ({"devices": [{"pcie.link.gen.max": "4"}]}, ("pcie.link.gen.max not known", "pcie.link.gen.max 4")),
    ],
)
def test_runs_on_something_else_or_told_something_else_are_no_repeats(changes, words):
    test_runs_that_were_made_with_something_else_are_no_repeats(changes, words)


def test_processors_of_one_architecture_are_different_setups_and_are_shown_by_name():
    names = ("AWS Graviton4 (Arm Neoverse V2)", "NVIDIA Grace (Arm Neoverse V2)")
    origin = builder.result()["provenance"]
    nodes = [[{"cpu": name, "architecture": "aarch64"}] for name in names]
    records = [builder.result(provenance={**origin, "nodes": one}) for one in nodes]
    assert [one.variant[-1][:18] for one in by_point(records)] == ["cpu AWS Graviton4 ", "cpu NVIDIA Grace ("]
    assert sorted(row[2] for row in origin_table(records).rows) == list(names)


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "SLURM_JOB_NODELIST", "CUDA_VISIBLE_DEVICES", "NCCL_DEBUG"])
def test_what_differs_from_job_to_job_makes_no_other_run(name):
    origin = builder.result()["provenance"]
    records = [builder.result(provenance={**origin, "environment": {name: value}}) for value in ("1", "2", "3")]
    assert [len(one.good) for one in by_point(records)] == [3]


def amd(*limits_w, driver="6.10.5", vbios="022.040.003", serial="0x1"):
    """What amd-smi says of a device for each limit, each with a serial number and a place of its own."""
    return [
        {
            "gpu": index,
            "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": f"{serial}{index}"},
            "bus": {"bdf": f"0000:0{index}:00.0", "pcie_interface_version": "Gen 5"},
            "vbios": {"version": vbios},
            "driver": {"name": "amdgpu", "version": driver},
            "limit": {"max_power": {"value": limit_w, "unit": "W"}},
        }
        for index, limit_w in enumerate(limits_w)
    ]


@pytest.mark.parametrize("wrap", [lambda devices: devices, lambda devices: {"gpu_data": devices}])
@pytest.mark.parametrize(
    ("other", "words"),
    [
        (amd(750, 750, serial="0x2"), None),
        (amd(550, 550), ("limit.max_power 750 W", "limit.max_power 550 W")),
        (amd(750, 650), ("limit.max_power 750 W", "limit.max_power 650 W and 750 W")),
        (amd(750, 750, driver="6.12.1"), ("driver.version 6.10.5", "driver.version 6.12.1")),
        (amd(750, 750, vbios="022.040.009"), ("vbios.version 022.040.003", "vbios.version 022.040.009")),
    ],
)
def test_amds_devices_are_told_apart_by_what_their_tool_says(wrap, other, words):
    origin = builder.result()["provenance"]
    records = [
        builder.result(provenance={**origin, "nodes": [{"devices": wrap(devices)}]})
        for devices in (amd(750, 750), amd(750, 750), other)
    ]
    found = [(len(one.good), one.variant[-1]) for one in by_point(records)]
    assert found == ([(3, "micro batch 4")] if words is None else list(zip((2, 1), words, strict=True)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_nodes": 2}, ("1 node", "2 nodes")),
        ({"grad_accum_steps": 4}, ("grad_accum_steps not known", "grad_accum_steps 4")),
    ],
)
def test_runs_that_were_laid_out_otherwise_are_no_repeats(changes, words):
    layout = builder.result(devices=8)["layout"]
    records = [builder.result(devices=8), builder.result(devices=8, layout=layout | changes), builder.result(devices=8)]
    assert [(len(one.good), one.variant[-1]) for one in by_point(records)] == list(zip((2, 1), words, strict=True))


@pytest.mark.parametrize(("group", "words"), [("model", "model.layers"), ("kernels", "kernels.layers")])
def test_options_of_one_name_in_several_groups_are_all_looked_at(group, words):
    config = {**builder.result()["config"], "model": {"layers": 16}, "kernels": {"layers": 16, "name": "x"}}
    other = {**config, group: {**config[group], "layers": 32}}
    points = by_point([builder.result(config=config), builder.result(config=config), builder.result(config=other)])
    assert [(len(one.good), one.variant[-1]) for one in points] == [(2, f"{words} 16"), (1, f"{words} 32")]


def test_an_option_is_not_hidden_by_what_else_has_its_name():
    origin = builder.result()["provenance"] | {"python": "3.11"}
    config = builder.result()["config"]
    records = [
        builder.result(config={**config, "data": {"data": "text", "python": value}}, provenance=origin)
        for value in ("fast", "slow")
    ]
    assert [one.variant[-1] for one in by_point(records)] == ["option python fast", "option python slow"]


def test_devices_of_one_kind_differ_in_nothing_that_counts():
    origin = builder.result()["provenance"]
    found = [[{"uuid": f"GPU-{index}", "power.limit": "700.00 W"} for index in pair] for pair in ((0, 1), (2, 3))]
    records = [builder.result(provenance={**origin, "devices": devices}) for devices in found]
    assert [len(one.good) for one in by_point(records)] == [2]


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
    assert changed[-1] == "learning_rate 0.1"
    assert found[changed] == (1, 0)
    assert failed[0] == "fp8"
    assert found[failed] == (0, 1)


def test_points_are_in_the_order_of_a_column_smallest_first_unless_it_is_said():
    results = by_point([builder.result(batch=batch, tokens_per_s=speed) for batch, speed in ((8, 3), (16, 1), (32, 2))])

    def order(*largest_first):
        table = point_table(results).in_order("tokens/s", *largest_first)
        return [row[table.at("tokens/s")].value for row in table.rows]

    assert order() == order(False) == [1, 2, 3]
    assert order(True) == [3, 2, 1]


FALLING = [10 - step / 2 for step in range(16)]


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([3.0, 2.0], []),
        ([2.0, 2.0], []),
        ([], []),
        ([2.0, 2.1], []),  # chance
        ([2.0] * 8 + [9.0] * 16 + [1.0] * 8, []),
        (
            [*FALLING, None, *(10.0**step for step in range(2, 10))],
            ["the loss rises over the run, from 8.25 to 1.389e+08"],
        ),
        ([2.0 + step / 1e3 for step in range(16)], ["the loss rises over the run, from 2.003 to 2.011"]),
    ],
)
def test_a_loss_that_rises_over_the_run_is_a_doubt(losses, words):
    [one] = by_point([builder.result(losses=losses)])
    assert [found for found in deviations(one) if "loss" in found] == words


def test_flat_losses_with_noise_rise_in_one_of_a_thousand_at_most():
    chance, tried = Random(1), 2000
    flat = [[7 + chance.gauss(0, 0.014) for _ in range(chance.choice((16, 20, 40, 300)))] for _ in range(tried)]
    assert sum(bool(rising(Record.of(builder.result(losses=losses)))) for losses in flat) <= tried / 1000


@pytest.mark.parametrize(
    ("scope", "used_wh", "words"),
    [
        ("device", [4.0, 2.1], ""),
        ("device", [4.0, 1.9], "devices alike: one used 2.1 times the energy of another, at most 2.0 wanted"),
        ("module", [4.0, 4.0, 0.5, 0.5], "devices alike: one used 8.0 times the energy of another, at most 2.0 wanted"),
        ("cpu", [4.0, 0.5], ""),  # a run may be on one of several sockets
    ],
)
def test_energies_of_devices_that_are_unlike_are_not_ranked(scope, used_wh, words):
    [record] = builder.of_scope(scope, [builder.result(devices=len(used_wh))])
    [channel] = record["energy"]["channels"]
    record["energy"]["channels"] = [channel | {"energy_wh": wh, "num_devices": 1} for wh in used_wh]
    [one] = by_point([record])
    assert why_not_ranked(one) == words


def test_an_energy_of_a_window_that_is_not_of_the_work_is_not_ranked():
    record = builder.result()
    record["energy"] |= {"windows_w": 126.0, "elsewhere_w": 690.0}
    [one] = by_point([record])
    words = "126 W from the first to the last window, and 690 W over another time of the same length"
    assert why_not_ranked(one) == f"window of the work: {words}"
