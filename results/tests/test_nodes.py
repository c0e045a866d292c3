"""Slow devices and nodes in made node checks, and the share of the achievable FLOP/s that a run reaches."""

from __future__ import annotations

import json

import pytest

from caraml.cli import main
from record.model import Record
from results.achievable import published_rates as published
from results.files.typed_files import stated
from results.tests import builder
from results.tests.builder import PER_NODE, REPEATS, check, figure
from results.tests.of_dicts import add_achievable, differences, judge
from results.verdicts.nodes import Subject, outcomes
from results.verdicts.outcome import Outcome, exit_code


def named(records, outcome=Outcome.FAILED, baseline=(), threshold=95.0):
    return [(str(one.subject), one.kind.name) for one in judge(records, baseline, threshold) if one.outcome is outcome]


NODES_1_2_8 = [("n1",), ("n1", "n2"), tuple(f"n{number}" for number in range(8))]


@pytest.mark.parametrize("hosts", NODES_1_2_8, ids=len)
def test_of_equal_devices_none_is_slow(hosts):
    verdicts = judge([check(hosts)], [], 95.0)
    assert exit_code(outcomes(verdicts)) == 0
    assert {one.outcome for one in verdicts if one.subject.device} == {Outcome.PASSED}
    assert stated(Record, check(hosts), "check")


@pytest.mark.parametrize("hosts", NODES_1_2_8, ids=len)
def test_a_slow_device_is_named_with_its_share_of_the_median(hosts):
    rank = len(hosts) * PER_NODE - 2
    verdicts = judge([check(hosts, {("matmul_bf16", rank): 0.9})], [], 95.0)
    [slow] = [one for one in verdicts if one.outcome is Outcome.FAILED]
    assert (str(slow.subject), slow.kind.name) == (f"{hosts[-1]}, device 0000:02:00.0", "matmul_bf16")
    assert slow.percent == pytest.approx(90.0)
    assert exit_code(outcomes(verdicts)) == 1


def test_a_slow_link_is_that_of_its_device_and_a_slow_collective_that_of_its_node():
    hosts = NODES_1_2_8[-1]
    slow = {("send_network", 5): 0.5, ("all_reduce_node", 8): 0.7}
    assert sorted(named([check(hosts, slow)])) == [
        ("n1, device 0000:01:00.0", "send_network"),
        ("n2", "all_reduce_node"),
    ]


def test_nodes_of_separate_runs_are_one_group():
    records = [check((f"n{number}",), {("triad", 3): 0.8} if number == 6 else {}) for number in range(8)]
    assert named(records) == [("n6, device 0000:03:00.0", "triad")]
    # A device of two runs has the repeats of both: one fast run does not hide the slow one from the sum of verdicts.
    records.append(check(("n6",)))
    assert named(records, Outcome.UNDECIDED) == [("n6, device 0000:03:00.0", "triad")]


@pytest.mark.parametrize(
    ("share", "spread", "outcome"),
    [
        (0.951, REPEATS, Outcome.PASSED),
        (0.94, REPEATS, Outcome.FAILED),
        (0.949, REPEATS, Outcome.UNDECIDED),  # its interval reaches the threshold
        (0.94, [0.9, 0.9, 0.9, 1.0, 1.0, 1.0, 1.0, 1.1, 1.1, 1.1], Outcome.UNDECIDED),
        (0.5, REPEATS[:5], Outcome.UNDECIDED),  # five repeats have no 95 % interval
    ],
)
def test_a_device_is_slow_if_its_whole_interval_is_below_the_threshold(share, spread, outcome):
    record = check(spread=spread, slow={("matmul_bf16", 1): share})
    [one] = [
        one
        for one in judge([record], [], 95.0)
        if one.subject.device.startswith("0000:01") and one.kind.name == "matmul_bf16"
    ]
    assert one.outcome is outcome
    assert (one.interval is None) is (len(spread) < 6)


def test_a_single_device_is_compared_with_a_baseline_or_with_nothing():
    alone = check(per_node=1)
    assert exit_code(outcomes(judge([alone], [], 95.0))) == 3
    assert exit_code(outcomes(judge([alone], [alone], 95.0))) == 0
    slower = check(per_node=1, slow={("matmul_bf16", 0): 0.9})
    [slow] = [one for one in judge([slower], [alone], 95.0) if one.outcome is Outcome.FAILED]
    assert (slow.against, slow.percent) == ("the baseline", pytest.approx(90.0))
    # Not of this system.
    assert exit_code(outcomes(judge([slower], [check(per_node=1, system="H200")], 95.0))) == 3


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_device_just_below_the_threshold_of_the_others_is_slow_in_a_group_of_any_size(count):
    record = check(per_node=count, slow={("triad", 1): 0.94})
    assert named([record]) == [("n1, device 0000:01:00.0", "triad")]
    [slow] = [one for one in judge([record], [], 95.0) if one.outcome is Outcome.FAILED]
    assert (slow.against, slow.percent) == (
        "the faster of 2" if count == 2 else f"the median of {count}",
        pytest.approx(94.0),
    )


def undecided(records):
    found = [one for one in judge(records, [], 95.0) if one.outcome is Outcome.UNDECIDED]
    return [(one.subject, one.kind.name, one.reason) for one in found]


def without(record, name, host=None):
    """A check without a figure."""
    figures = [one for one in record["node_check"]["figures"] if one["name"] != name]
    return record | {"node_check": record["node_check"] | {"figures": figures}}


def test_a_figure_that_only_the_baseline_has_is_undecided():
    verdicts = judge([without(check(("n1", "n2")), "matmul_bf16")], [check()], 95.0)
    lacking = [one for one in verdicts if one.kind.name == "matmul_bf16"]
    assert len(lacking) == 2 * PER_NODE
    assert {one.reason for one in lacking} == {"it has none, and the baseline has one"}


def test_a_node_with_fewer_devices_is_undecided():
    found = undecided([check(), check(("n2",), per_node=PER_NODE - 1)])
    assert ("n2", "3 of its devices were checked, 4 of another node's") in [
        (str(one), words) for one, _, words in found
    ]


def test_figures_of_one_node_are_not_those_of_another():
    copied = check(("n3",))
    copied["node_check"] = check(("n1",))["node_check"]
    found = undecided([check(("n1", "n2")), copied])
    assert {one.hostname for one, *_ in found} == {"n1", "n3"}
    assert all("to the last digit" in words for *_, words in found)


def test_a_device_that_was_slow_once_is_not_good():
    once = check(slow={("triad", 1): 0.8})
    found = undecided(
        [once, check(spread=[one + 1e-6 for one in REPEATS]), check(spread=[one - 1e-6 for one in REPEATS])]
    )
    assert [(name, words) for _, name, words in found] == [("triad", "it was slow in 1 of 3 checks: measure again")]


def test_nodes_that_were_not_checked_are_missing(tmp_path, capsys):
    folder = builder.store(tmp_path, [check(("n1", "n2"))])
    assert main(["check-nodes", str(folder), "--nodes", "2"]) == 0
    assert main(["check-nodes", str(folder), "--nodes", "3"]) == 3
    assert "3 nodes were to be checked, but the results are of 2 nodes" in capsys.readouterr().out


def test_checks_with_matrices_of_different_sizes_are_compared_in_what_is_equal():
    small = check(("n2",), {("matmul_bf16", rank): 0.5 for rank in range(PER_NODE)}, model="matrices of 512")
    assert {(name, words) for _, name, words in undecided([check(), small])} == {
        ("matmul_bf16", f"no other node was checked with matrices of {size}") for size in (512, 8192)
    }
    assert named([small], baseline=[check()]) == []
    assert named([check(("n2",), {("triad", 1): 0.5}, model="matrices of 512")], baseline=[check()])
    run = builder.result("WAIH100", tokens_per_s=20_000.0, model="800M")
    assert "800.0 TFLOP/s" in add_achievable([run], [check(), small])[0]  # the fastest


def test_a_baseline_with_nothing_to_compare_is_refused_and_what_it_lacks_is_named(tmp_path, capsys):
    builder.store(tmp_path / "good", [check(("n1", "n2"))])
    builder.store(tmp_path / "other", [check(system="H200")])
    builder.store(tmp_path / "one", [check(per_node=1, model="matrices of 512")])
    assert main(["check-nodes", str(tmp_path / "good"), "--baseline", str(tmp_path / "other")]) == 2
    assert "other has no figure of WAIH100 to compare with: give a check of the same system" in capsys.readouterr().err
    command = ["check-nodes", str(tmp_path / "good"), "--baseline", str(tmp_path / "one")]
    assert main(command) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    assert told.startswith(
        "not compared with the baseline, which lacks them: bf16 [TFLOP/s] of matrices of 8192, all reduce"
    )
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_in_baseline"] == ["matmul_bf16", "all_reduce_node"]


def test_devices_that_are_all_slow_are_found_by_the_baseline():
    all_slow = check(slow={("triad", rank): 0.9 for rank in range(PER_NODE)})
    assert named([all_slow]) == []
    assert len(named([all_slow], baseline=[check()])) == PER_NODE


def test_a_figure_that_one_device_lacks_is_undecided_and_one_that_all_lack_is_left_out():
    record = check()
    figures = record["node_check"]["figures"]
    figures[1] |= {"values": [], "reason": "it broke"}
    figures += [figure("matmul_fp8", rank, None, reason="no such arithmetic") for rank in range(PER_NODE)]
    assert named([record], Outcome.UNDECIDED) == [("n1, device 0000:01:00.0", "matmul_bf16")]
    [reason] = [one.reason for one in judge([record], [], 95.0) if one.outcome is Outcome.UNDECIDED]
    assert reason == "it has none, and others have one: it broke"
    assert "matmul_fp8" not in {one.kind.name for one in judge([record], [], 95.0)}


def test_what_differs_on_a_device_is_said():
    uuids = [f"GPU-1111111{rank}-2222-3333-4444-555555555555" for rank in range(PER_NODE)]
    record = check()
    [channel] = record["energy"]["channels"]
    limits = [{"uuid": uuid, "power.limit": "700.00 W"} for uuid in uuids]
    clocks = [{"mean_mhz": 1980.0 + rank, "throttled": {}} for rank in range(PER_NODE)]
    channels = [channel | {"device_id": uuid, "clocks": one} for uuid, one in zip(uuids, clocks, strict=True)]
    ids = {f"devices.{rank}.device_id": uuid for rank, uuid in enumerate(uuids)}
    builder.altered(record, ids | {"provenance.nodes": [{"devices": limits}], "energy.channels": channels})
    held_back = {"mean_mhz": 1200.0, "throttled": {"power limit": 80.0}}
    builder.altered(record, {"node_check.devices.2.pcie_width": "8", "energy.channels.2.clocks": held_back})
    record["provenance"]["nodes"][0]["devices"][2]["power.limit"] = "500.00 W"
    found = differences([record])
    assert found[Subject("WAIH100", "n1", uuids[2])] == [
        "pcie width 8 (others: 16)",
        "power.limit 500.00 W (others: 700.00 W)",
        "mean mhz 1200 (others: 1980)",
        "percent throttled by power limit 80 (others: 0)",
    ]
    assert [facts for subject, facts in found.items() if subject.device != uuids[2]] == [[], [], []]


def test_the_command_prints_a_row_for_each_device_and_names_the_slow_one(tmp_path, capsys):
    folder = builder.store(tmp_path, [check(("n1", "n2"), {("triad", 6): 0.8})])
    assert main(["check-nodes", str(folder)]) == 1
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1].startswith("n2, device 0000:02:00.0: slow: triad 2,400")
    assert printed.splitlines()[-1].endswith("is 80.0 % of the median of 8")
    rows = [line.split("|") for line in printed.splitlines() if "|" in line]
    assert [title.strip() for title in rows[0]][:5] == ["system", "node", "device", "bf16 [TFLOP/s]", "triad [GB/s]"]
    assert [row[-1].strip() for row in rows[1:]].count("✗ slow") == 1
    assert len(rows) == 1 + 2 * PER_NODE + 2  # and one for each node
    assert main(["check-nodes", str(folder), "--threshold", "70"]) == 0
    capsys.readouterr()
    assert main(["check-nodes", str(folder), "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    [slow] = [one for one in data["figures"] if one["outcome"] == "slow"]
    assert (slow["hostname"], slow["name"], data["exit_code"]) == ("n2", "triad", 1)


def test_a_check_that_failed_leaves_the_verdict_open(tmp_path, capsys):
    failed = builder.failed("WAIH100", 4, 1, benchmark="node_check", work_unit="products", model="matrices of 8192")
    folder = builder.store(tmp_path, [check(("n1", "n2")), failed])
    assert main(["check-nodes", str(folder)]) == 3
    assert "failed: the node burned" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trained"], "has no node check: run jube/node_check.yaml"),
        (["good", "--baseline", "trained"], "has no good node check: give a result of jube/node_check.yaml"),
        (["good", "--baseline", "nothing"], "does not exist"),
        (["good", "--threshold", "0.95"], "'0.95' is not a percentage from 1 to 100"),
    ],
)
def test_what_cannot_be_checked_is_one_sentence(arguments, message, tmp_path, capsys, monkeypatch):
    builder.store(tmp_path / "trained", [builder.result()])
    builder.store(tmp_path / "good", [check()])
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["check-nodes", *arguments])
    except SystemExit as error:
        code = error.code
    assert code == 2
    assert message in capsys.readouterr().err


def test_a_run_says_how_much_of_the_achievable_it_reaches():
    run = builder.result("A100", tokens_per_s=20_000.0, model="800M")
    tflops = run["metrics"]["tflops_per_device"]
    [source] = add_achievable([run])
    assert run["metrics"]["achievable_percent"] == pytest.approx(100 * tflops / 271.2)
    assert source.startswith("achievable on A100 in bf16: 271.2 TFLOP/s, from stas00/ml-engineering")
    own = check(system="A100")
    assert add_achievable([run], [own]) == ["achievable on A100 in bf16: 800.0 TFLOP/s, from its node check"]
    assert run["metrics"]["achievable_percent"] == pytest.approx(100 * tflops / 800)
    assert add_achievable([own]) == []  # not of itself
    assert add_achievable([builder.result("V100", precision="fp16"), builder.failed("A100")]) == []


def test_published_figures_are_below_the_peaks_of_their_systems():
    from results.files.systems import peak_of

    for place, (tflops, _) in published().items():
        assert 0.4 * peak_of(*place) < tflops < peak_of(*place)


def test_the_table_finds_the_node_check_among_its_folders_or_by_an_option(tmp_path, capsys):
    runs = builder.store(tmp_path / "runs", [builder.result("WAIH100", tokens_per_s=60_000.0, model="800M")])
    checks = builder.store(tmp_path / "checks", [check()])
    for arguments in ([str(runs), str(checks), "--all"], [str(runs), "--node-check", str(checks)]):
        assert main(["table", *arguments]) == 0
        printed = capsys.readouterr().out
        assert "of achievable [%]" in printed
        assert "achievable on WAIH100 in bf16: 800.0 TFLOP/s, from its node check" in printed
    assert main(["table", str(runs), "--repeats", "--format", "csv"]) == 0
    assert "achievable_percent" in capsys.readouterr().out
