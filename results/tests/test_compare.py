"""Comparison, against scipy where it is statistics, and against hand-made records where it is matching."""

from __future__ import annotations

import json
import math

import pytest

from caraml.cli import main
from results.show.tables.verdicts import comparison_text
from results.tests import builder
from results.tests.of_dicts import by_point, compare
from results.verdicts.quality import rank


def result(speed, batch=8, devices=1, system="A", scope="device", per_wh=10.0, **changes):
    """Return a run with a throughput and a work per energy."""
    options = {"config": {}, "provenance": {}, **changes}
    made = builder.result(system, devices, batch, speed, 3600 * speed / per_wh / devices, **options)
    return builder.of_scope(scope, [made])[0]


def thrice(speed, batch=8, **options):
    return [result(speed * share, batch, **options) for share in (0.99, 1.0, 1.01)]


def of_sensor(source, accuracy, per_wh, **options):
    records = thrice(100.0, per_wh=per_wh, **options)
    for record in records:
        record["energy"] |= {"accuracy": accuracy, "accuracy_from": "assumed" if accuracy else ""}
        record["energy"]["channels"][0]["source"] = source
    return records


@pytest.mark.parametrize(
    ("source", "accuracy", "low", "remarks"),
    [
        ("one", 0.05, 1.035, []),  # the same model: its error cancels, and 1 % of sampling on each side stays
        ("other", 0.05, 0.97, ["±5 % (assumed) against ±5 % (assumed)"]),
        ("other", None, 1.035, ["not stated against not stated"]),
    ],
)
def test_the_accuracy_of_sensors_counts_between_two_models_of_them(source, accuracy, low, remarks):
    ours, theirs = of_sensor("one", accuracy, 10.0), of_sensor(source, accuracy, 10.5, system="B")
    found = compare(ours, theirs)
    words = "two models of sensors, whose accuracy the interval includes where it is known: "
    assert [one for one in found.lines[0].remarks if "accuracy" in one] == [words + one for one in remarks]
    assert found.lines[0].ratios[1].interval.low == pytest.approx(low, abs=0.01)
    ranking = rank(by_point([*ours, *theirs]), "energy.{unit}_per_wh")
    assert bool(ranking.by_accuracy) == bool(ranking.tied) == (low < 1)


def test_points_are_matched_and_the_rest_is_listed():
    base = [result(100.0, 8), result(110.0, 8), result(100.0, 16), result(50.0, 32)]
    other = [result(210.0, 8, system="B"), result(400.0, 16, system="B"), result(1.0, 64, system="B")]
    found = compare(base, other)
    assert [line.point.global_batch for line in found.lines] == [8, 16]
    assert [line.ratios[0].value for line in found.lines] == pytest.approx([2.0, 4.0])
    assert found.means()[0].value == pytest.approx(math.sqrt(8))
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
    assert line.ratios[0].value == pytest.approx(302 / 101)
    other += [result(200.0), result(9000.0, status="failed")]
    for record in other[4:]:
        record["layout"]["micro_batch_size"] = 16
    for records in (other, other[::-1]):
        assert compare(base, records).lines[0].ratios[0].value == pytest.approx(302 / 101)
    assert "micro_batch_size 4 against 8" in line.remarks


def test_a_side_that_was_disturbed_is_said_beside_the_ratio():
    usual, disturbed = ({**result(100.0), "step_times_s": [1.0, 1.0, slow, 1.0]} for slow in (1.0, 9.0))
    words = "outliers: 1 of 4 steps are slow and cost 67% of the time"
    assert compare([usual], [usual]).lines[0].remarks == []
    assert compare([usual], [usual, disturbed]).lines[0].remarks == [f"other, {words}"]
    assert compare([disturbed], [usual]).lines[0].remarks == [f"base, {words}"]


def test_a_point_of_which_no_run_has_a_speed_has_no_ratio():
    unknown = result(1.0)
    unknown["metrics"]["tokens_per_s"] = None
    for sides in (([unknown], [result(1.0)]), ([result(1.0)], [unknown])):
        [line] = compare(*sides).lines
        assert line.ratios[0] is None


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("config", "model", "vocab_size"), "model.vocab_size 5 against 6"),
        (("metrics", "model_flops_per_token"), "model_flops_per_token 5 against 6"),
        (("provenance", "nodes", 0, "devices", 0, "power.limit"), "power.limit 5 against 6"),
        (("provenance", "nodes", 0, "devices", 0, "name"), "name 5 against 6"),
    ],
)
def test_every_difference_in_the_setup_is_printed(keys, words):
    sides = []
    for value in ("5", "6"):
        *above, last = keys
        values = {last: value}
        for key in reversed(above[1:]):
            values = [values] if key == 0 else {key: values}
        record = result(1.0)
        record[keys[0]] = record[keys[0]] | values
        sides.append([record])
    found = compare(*sides)
    assert [*found.machines, *found.lines[0].remarks] == [words]


@pytest.mark.parametrize(
    ("dirty", "words"), [(True, "local changes no against yes"), (None, "local changes no against not known")]
)
def test_code_with_local_changes_is_a_difference(dirty, words):
    sides = [[builder.result() | {"provenance": {"git_commit": "a", "git_dirty": one}}] for one in (False, dirty)]
    assert compare(*sides).machines == [words]


def test_sides_without_a_common_point_are_an_error(tmp_path, capsys):
    store(tmp_path, old=100.0, new=150.0)
    for path in (tmp_path / "new").rglob("result.json"):
        path.write_text(path.read_text().replace('"model": "tiny"', '"model": "small"'))
    assert main(["compare", str(tmp_path / "old"), str(tmp_path / "new")]) == 1
    assert f"{tmp_path}/new has no point in common with {tmp_path}/old: nothing was compared" in capsys.readouterr().err


def store(folder, **sides):
    for name, speed in sides.items():
        builder.store(folder / name, [builder.result(name, tokens_per_s=speed * share) for share in (0.99, 1.0, 1.01)])


def test_the_command_compares_folders(tmp_path, capsys):
    store(tmp_path, old=100.0, new=150.0)
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    assert main(["compare", old, new]) == 0
    assert "throughput 1.500 [" in capsys.readouterr().out
    assert main(["compare", old, new, "--baseline", new]) == 0
    assert "throughput 0.667" in capsys.readouterr().out
    assert main(["compare", old, str(tmp_path)]) == 0
    for wrong in (["--baseline", "other"], [str(tmp_path / "none")], ["--filter", "devices=7"]):
        assert main(["compare", old, new, *wrong]) == 2
    assert main(["compare", old]) == 2
    assert "is the only folder" in capsys.readouterr().err


def test_three_folders_are_each_compared_with_the_reference(tmp_path, capsys):
    store(tmp_path, a=100.0, b=150.0, c=90.0)
    folders = [str(tmp_path / name) for name in "abc"]
    assert main(["compare", *folders, "--filter", "devices=1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["other"] for one in told] == folders[1:]
    for one, ratio in zip(told, (1.5, 0.9), strict=True):
        assert one["geometric_means"]["throughput"]["ratio"] == pytest.approx(ratio)
        [point] = one["points"]
        assert point["throughput"]["low"] < ratio < point["throughput"]["high"]
        assert (point["global_batch"], point["remarks"]) == (8, [])
