"""Comparison, against scipy where it is statistics, and against hand-made records where it is matching."""

from __future__ import annotations

import json
import math

import pytest
from scipy import stats

from caraml.cli import main
from results.points.repeats import compare_values, geometric_mean, point_of, summarise
from results.records import RecordError
from results.tests.conftest import make_record
from results.verdicts.compare import broken, compare, comparison_text, read_requirement


def result(speed, batch=8, devices=1, system="A", source="measured, device", per_wh=10.0, **changes):
    record = make_record(system=system, **changes)
    record["layout"] |= {"global_batch_size": batch, "num_devices": devices, "data_parallel_size": devices}
    record["metrics"] |= {"tokens_per_s": speed, "tokens_per_s_per_device": speed / devices}
    energy_wh = record["metrics"]["measured_tokens"] / per_wh
    record["energy"] = {"energy_wh": energy_wh, "power_kind": "measured", "power_scope": "device", "channels": []}
    record["energy"] |= {"tokens_per_wh": per_wh, "power_source": source}
    return record


def test_repeats_are_summarised_as_scipy_does():
    values = [10.0, 11.0, 13.0]
    found = summarise(values)
    assert (found.repeats, found.median, found.smallest, found.largest) == (3, 11.0, 10.0, 13.0)
    low, high = stats.t.interval(0.95, 2, loc=sum(values) / 3, scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)
    assert summarise([5.0])[-2:] == (None, None)
    with pytest.raises(ValueError, match="at least one"):
        summarise([])


def test_a_ratio_has_welchs_interval_of_the_logarithms():
    base, other = [10.0, 11.0, 12.0], [20.0, 21.0, 24.0]
    found = compare_values(base, other)
    assert found.ratio == pytest.approx(21 / 11)
    logs = [[math.log(value) for value in values] for values in (other, base)]
    interval = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)), rel=1e-9)
    assert found.low < found.ratio < found.high
    assert compare_values([10.0], [20.0, 30.0]).low is None
    assert compare_values([10.0, 10.0], [20.0, 20.0]) == (2.0, 2.0, 2.0)
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0, rel=1e-9)


def test_points_are_matched_and_the_rest_is_listed():
    base = [result(100.0, 8), result(110.0, 8), result(100.0, 16), result(50.0, 32)]
    other = [result(210.0, 8, system="B"), result(400.0, 16, system="B"), result(1.0, 64, system="B")]
    found = compare(base, other)
    assert [line.point.global_batch for line in found.lines] == [8, 16]
    assert [line.ratios[0].ratio for line in found.lines] == pytest.approx([2.0, 4.0])
    assert found.means()[0] == pytest.approx(math.sqrt(8))
    assert [point.global_batch for point in found.only_base] == [32]
    assert [point.global_batch for point in found.only_other] == [64]
    text = comparison_text(found, "a", "b")
    assert "geometric mean of throughput over 2 points: 2.828" in text
    assert "only a has" in text


def test_of_several_sets_of_options_the_fastest_is_compared():
    base = [result(100.0), result(102.0)]
    other = [result(150.0), result(152.0), result(300.0), result(304.0)]
    for record in other[2:]:
        record["layout"]["micro_batch_size"] = 8
    [line] = compare(base, other).lines
    assert line.ratios[0].ratio == pytest.approx(302 / 101)
    other += [result(200.0), result(9000.0, status="failed")]
    for record in other[4:]:
        record["layout"]["micro_batch_size"] = 16
    for records in (other, other[::-1]):
        assert compare(base, records).lines[0].ratios[0].ratio == pytest.approx(302 / 101)
    assert "micro batch 4 against 8" in line.remarks


def test_options_of_which_no_run_has_a_speed_are_never_the_fastest():
    slow = result(0.5)
    unknown = result(1.0)
    unknown["config"]["kernels"] = {"compile": "layers"}
    unknown["metrics"]["tokens_per_s"] = None
    for base in ([slow, unknown], [unknown, slow]):
        [line] = compare(base, [result(1.0, system="B")]).lines
        assert line.ratios[0].ratio == pytest.approx(2.0)


def test_software_that_one_side_does_not_tell_is_not_known():
    known, silent = result(1.0), result(1.0, system="B")
    known["provenance"]["cuda"] = "12.4"
    silent["provenance"].pop("cuda", None)
    assert "cuda 12.4 against not known" in compare([known], [silent]).software
    assert "cuda not known against 12.4" in compare([silent], [known]).software


def test_a_run_that_failed_without_a_word_is_named():
    record = result(1.0, status="failed")
    record.pop("error", None)
    [failed] = compare([record], []).failed
    assert failed.endswith(": failed: ")


def test_an_estimate_is_never_set_against_a_measurement():
    found = compare([result(100.0)], [result(100.0, source="ESTIMATED, cpu")])
    assert found.lines[0].ratios[0].ratio == 1.0
    assert found.lines[0].ratios[1] is None
    assert "energies are not compared: measured, device against ESTIMATED, cpu" in found.lines[0].remarks
    assert math.isnan(found.means()[1])


def test_estimates_are_not_compared_with_each_other():
    sides = [[result(100.0, source="ESTIMATED, cpu")] for _ in "ab"]
    for [record] in sides:
        record["energy"]["power_kind"] = "estimated"
    [line] = compare(*sides).lines
    assert line.ratios[1] is None
    assert "energies are not compared: there is an estimate among them" in line.remarks


@pytest.mark.parametrize(
    ("part", "key", "words"),
    [
        ("choices", {"attention": "cudnn"}, "attention unknown against cudnn"),
        ("choices", {"made-up kernel": "on"}, "made-up kernel unknown against on"),
        ("layout", {"tensor_parallel_size": 4}, "tensor parallel over 1 against 4"),
        ("layout", {"pipeline_parallel_size": 2}, "pipeline parallel over 1 against 2"),
    ],
)
def test_another_way_to_train_is_a_remark(part, key, words):
    other = result(1.0)
    other[part] = {**other[part], **key}
    assert words in compare([result(1.0)], [other]).lines[0].remarks


def test_a_requirement_is_not_kept_where_a_point_is_missing():
    base, other = [result(100.0), result(100.0, 16)], [result(200.0, system="B")]
    [sentence] = broken([read_requirement("ratio>=1.5")], compare(base, other), other)
    assert sentence.startswith("a point is missing: ")
    assert "global batch 16" in sentence


def test_other_software_of_the_two_sides_is_said_once():
    def of(torch, driver, commit, batch):
        record = result(100.0, batch)
        origin = {"packages": {"torch": torch, "numpy": "2.1"}, "cuda": "12.8", "git_commit": commit}
        record["provenance"] = origin | {"nodes": [{"devices": [{"driver_version": driver}]}]}
        return record

    base = [of("2.8.0", "550.1", "a" * 40, 8), of("2.8.0", "550.1", "a" * 40, 16)]
    same = compare(base, base)
    assert same.software == []
    assert "other software" not in comparison_text(same, "a", "b")
    other = [of("2.9.0", "560.2", "b" * 40, 8), of("2.9.1", None, "b" * 40, 16)]
    found = compare(base, other)
    assert found.software == [
        "commit aaaaaaaaaaaa against bbbbbbbbbbbb",
        "driver_version 550.1 against 560.2",
        "torch 2.8.0 against 2.9.0 and 2.9.1",
    ]
    assert comparison_text(found, "a", "b").count("torch 2.8.0") == 1
    bare = result(100.0)
    bare["provenance"] = {}
    assert "cuda 12.8 against not known" in compare(base, [bare]).software


def test_what_differs_between_the_sides_is_said():
    base, other = result(1.0), result(1.0)
    base["precision"], other["precision"] = "fp32", "bf16"
    base["choices"], other["choices"] = ({"layers of": name} for name in ("megatron", "transformer-engine"))
    assert compare([base], [other]).lines[0].remarks == [
        "precision fp32 against bf16",
        "layers of megatron against transformer-engine",
    ]


def test_other_input_is_another_point():
    small, large = result(1.0), result(1.0)
    small["sample"], large["sample"] = "64 pixels", "224 pixels"
    assert point_of(small) != point_of(large)
    assert compare([small], [large]).lines == []


@pytest.mark.parametrize(
    ("requirement", "kept"),
    [
        ("ratio>=1.9", True),
        ("ratio>=2.1", False),
        ("energy_ratio >= 1", True),
        ("tokens_per_s>=200", True),
        ("tokens_per_s>=201", False),
        ("energy.tokens_per_wh<11", True),
        ("no_such_number>=0", False),
    ],
)
def test_requirements_are_kept_or_broken(requirement, kept):
    base, other = [result(100.0)], [result(200.0, system="B")]
    found = broken([read_requirement(requirement)], compare(base, other), other)
    assert (found == []) is kept
    assert all("is not kept" in sentence for sentence in found)


def test_every_requirement_is_looked_at():
    base, other = [result(100.0)], [result(200.0, system="B")]
    requirements = [read_requirement(text) for text in ("ratio>=2.1", "ratio>=1.9", "tokens_per_s>=201", "ratio>=3")]
    assert [sentence.split(" is not kept")[0] for sentence in broken(requirements, compare(base, other), other)] == [
        "ratio>=2.1",
        "tokens_per_s>=201",
        "ratio>=3",
    ]
    nothing = broken([read_requirement("tokens_per_s>=1")], compare(base, []), [])
    assert nothing[0] == "tokens_per_s>=1 is not kept: no record has a number tokens_per_s"


def test_a_ratio_that_there_is_not_is_a_dash():
    bare = result(200.0, system="B")
    del bare["energy"]
    text = comparison_text(compare([result(100.0)], [bare]), "a", "b")
    assert "global batch 8: throughput 2.000, work per energy -\n" in text
    assert "geometric mean of work per energy" not in text


def test_a_failed_run_keeps_no_requirement():
    failed = result(200.0, 16, system="B", status="failed", error="burned")
    found = broken([read_requirement("ratio>=1")], compare([result(100.0)], [result(200.0), failed]), [failed])
    assert any("burned" in sentence for sentence in found)


@pytest.mark.parametrize("text", ["ratio=1", "ratio>=", ">=1", "ratio>=1e", "a b>=1"])
def test_a_requirement_that_is_none_is_refused(text):
    with pytest.raises(RecordError) as told:
        read_requirement(text)
    examples = "'tokens_per_s_per_device>=40000' or 'ratio>=1.5'"
    assert str(told.value) == f"--require {text!r} is no requirement: write it as {examples}"


def test_the_command_compares_folders_and_exits_with_1_when_a_requirement_is_broken(tmp_path, capsys):
    for name, speed in (("old", 100.0), ("new", 150.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(json.dumps(result(speed, system=name)))
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    assert main(["compare", old, new, "--require", "ratio>=1.5"]) == 0
    assert "throughput 1.500" in capsys.readouterr().out
    assert main(["compare", old, new, "--baseline", new]) == 0
    assert "throughput 0.667" in capsys.readouterr().out
    assert main(["compare", old, new, "--require", "ratio>=1.6"]) == 1
    assert "ratio>=1.6 is not kept: the geometric mean is 1.5" in capsys.readouterr().err
    assert main(["compare", old, str(tmp_path)]) == 0
    assert main(["compare", old, new, "--baseline", "other"]) == 2
    assert main(["compare", old, str(tmp_path / "none")]) == 2
