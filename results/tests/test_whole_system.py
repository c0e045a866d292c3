"""Level of a power measurement, percentiles of power, and power of the rest of a node."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest

from caraml.cli import main
from caraml.plan.job import Point, job, planned_result
from caraml.plan.plan import plan
from jpwr.channel import ChannelInfo, Scope
from record.model import Record
from record.part import as_json
from results.collect import collect
from results.files.systems import read_systems
from results.find.records import RecordError, read_checked, write_record
from results.join.energy import power_over_time
from results.tests import builder
from results.tests.builder import GPU0, GPU1, PACKAGE, JobFolder, on_gpus, on_nodes, window
from results.tests.of_dicts import contradictions
from results.verdicts.power_level import power_level

SITE = {"accuracy_percent": 1.0, "losses": "upstream", "measured": ["network", "storage", "cooling"]}
WHOLE = {"site": SITE, "run_wh": 100.0, "run_s": 90.0, "tenths": [100.0] * 10}


def at_node(scope="node", method="integral", site=SITE, nodes=1, **energy):
    """A run of 60 s whose energy is that of whole nodes."""
    [record] = builder.of_scope(scope, [builder.result(power_w=3000.0)])
    [channel] = record["energy"]["channels"]
    channels = [channel | {"method": method, "hostname": f"n{number}"} for number in range(nodes)]
    record["layout"]["num_nodes"] = nodes
    record["energy"] |= {**WHOLE, "site": site, "channels": channels, "avg_power_w": 3000.0 * nodes, **energy}
    return Record.of(record)


def one_of_two(**energy):
    """A run on two nodes, one of which was measured."""
    [first, _] = as_json(at_node(nodes=2))["energy"]["channels"]
    return at_node(nodes=2, channels=[first], **energy)


@pytest.mark.parametrize(
    ("record", "level", "lacking"),
    [
        (Record.of(builder.result()), 0, ["the power of the node or the supply: the energy is of scope device"]),
        (at_node(method="counter"), 3, []),
        (at_node(), 2, ["an energy that the meter integrates itself"]),
        (at_node("supply", site=SITE | {"losses": ""}), 2, ["an energy that the meter integrates itself"]),
        (at_node(window_s=59.9), 0, ["a window of 60 s: it has 59.9 s"]),
        (at_node(run_wh=None), 1, ["the energy of the whole run, and ten means of power in the window"]),
        (at_node(idle_power_w=None), 1, ["the idle power"]),
        (
            at_node(site=SITE | {"losses": "maker"}),
            1,
            ["conversion losses: maker, upstream or offline or together wanted"],
        ),
        (at_node(site={**SITE, "losses": ""}), 0, ["conversion losses: not stated"]),
        (at_node(site={**SITE, "accuracy_percent": 2.5}), 1, ["a meter within 2%: this one is within 2.5%"]),
        # Four meters: each may be off by twice as much, at most by 3 %.
        (at_node(site={**SITE, "accuracy_percent": 2.5}, nodes=4), 2, ["integrates", "a meter within 2%"]),
        (at_node(accuracy_from="assumed", site={**SITE, "accuracy_percent": None}), 0, ["its accuracy is not stated"]),
        *((at_node(site={**SITE, "accuracy_percent": one}), 0, ["not stated"]) for one in (-1.0, math.nan)),
        (at_node(site={**SITE, "measured": ["network"]}), 1, ["storage, cooling in it"]),
        (at_node("node", "counter", {**SITE, "estimated": ["storage"]}), 2, ["storage measured"]),
        (at_node(site={**SITE, "machine_nodes": 100}), 0, ["a larger part of the machine: 1 of 100 nodes, 3000 W"]),
        (one_of_two(site={**SITE, "machine_nodes": 1}), 0, ["a larger part of the machine: 1 of 2 nodes"]),
        (at_node(site={**SITE, "machine_nodes": 100}, nodes=15), 2, ["integrates", "15 of 100 nodes"]),
        (at_node(site={**SITE, "machine_nodes": 400}, nodes=14), 1, ["a larger part of the machine"]),  # 42 kW
    ],
)
def test_the_level_of_a_measurement_follows_from_the_facts_of_its_record(record, level, lacking):
    found = power_level(record)
    assert found.level == level
    assert len(found.lacking) == len(lacking)
    assert all(words in str(one) for words, one in zip(lacking, found.lacking, strict=True))


@pytest.mark.parametrize(
    ("readings", "level", "words"),
    [
        ({"samples": 58}, 0, "there are 0.97 a second"),
        ({"samples": 59}, 2, ""),
        ({"samples": 600, "largest_gap_s": 2.1}, 0, "there is none for 2.1 s"),
        ({"samples": 600, "largest_gap_s": 1.9}, 2, ""),
    ],
)
def test_a_level_needs_a_reading_each_second(readings, level, words):
    channels = [{**as_json(channel), **readings} for channel in at_node().energy.channels]
    found = power_level(at_node(channels=channels))
    assert found.level == level
    assert words in str(found.lacking[0])


@pytest.mark.parametrize(
    ("records", "limit", "code", "words"),
    [
        ([as_json(at_node()) for _ in range(3)], "at_least: 2", 0, "passed"),
        ([as_json(at_node()) for _ in range(3)], "at_least: 3", 1, "failed"),
        ([builder.result() for _ in range(3)], "at_least: 1", 1, "the energy is of scope device"),
        ([builder.result()], "at_least: 4", 2, "needs at_least with one of 1, 2, 3"),
        ([builder.result()], "at_most: 2", 2, "needs at_least with one of 1, 2, 3"),
    ],
)
def test_a_level_can_be_required(tmp_path, capsys, records, limit, code, words):
    builder.store(tmp_path / "runs", records)
    (tmp_path / "needs.yaml").write_text(
        f"workloads: {{gpt: {{benchmark: llm_training}}}}\nmust: [{{of: gpt, what: power_level, {limit}}}]"
    )
    assert main(["accept", str(tmp_path / "runs"), "--requirements", str(tmp_path / "needs.yaml")]) == code
    found = capsys.readouterr()
    assert words in found.out + found.err


def test_percentiles_are_of_the_sum_over_nodes_at_the_same_time(tmp_path):
    """Two nodes are busy one after the other: their sum is even, although each of them is not."""
    boots = ("boot-1", "boot-2")
    job = JobFolder(tmp_path)
    job.record(**on_nodes([("n0", "boot-1"), ("n1", "boot-2")], ("GPU-0", "GPU-1"), end_s=30.0))
    for number, info in enumerate((GPU0, GPU1)):
        info = info._replace(has_counter=False, limit_w=500.0)
        times_s = [0.1 * step for step in range(351)]
        job.trace(
            [info],
            lambda _, t, number=number: 400.0 if (t > 20) == number else 100.0,
            times_s=times_s,
            hostname=f"n{number}",
            boot_id=boots[number],
            interval_s=0.1,
        )
    energy = collect(job.path)["energy"]
    assert [energy[f"p{one}_power_w"] for one in (75, 90, 99)] == pytest.approx([500.0] * 3, rel=0.01)
    assert energy["part_s"] == pytest.approx(0.1)
    assert energy["tenths"] == pytest.approx([500.0] * 10, rel=0.01)


def test_percentiles_are_of_time_whatever_the_samples():
    """A tenth of the window at 900 W, in which the sensor is read ten times as often."""
    found = power_over_time([100.0] * 90 + [900.0] * 10, 50.0)
    assert (found["p75_power_w"], found["p99_power_w"], found["part_s"]) == (100.0, 900.0, 0.5)
    assert power_over_time([1.0] * 9, 5.0) == {}


@pytest.mark.parametrize(
    ("energy", "words"),
    [
        ({"run_wh": 1.0}, "more than the 1 of energy.run_wh"),
        ({"run_s": 59.0}, "energy.window_s is 60, more than the 59 of energy.run_s"),
        (
            {"p75_power_w": 200.0, "p90_power_w": 100.0},
            "more than the 100 of energy.p90_power_w",
        ),
    ],
)
def test_what_is_stored_of_a_run_must_agree(energy, words):
    record = builder.result()
    record["energy"] |= energy
    assert any(words in sentence for sentence in contradictions(record))


def test_boards_and_nodes_that_several_methods_read_count_once(tmp_path):
    """NVML and DCGM read the same boards; each of two packages has a RAPL counter of half of the platform."""
    names = ("dcgm:0", "rapl:psys", "rapl:psys-1", "ipmi:node", "estimate:cpu")
    scopes = (Scope.DEVICE, *[Scope.NODE] * 3, Scope.CPU)
    more = [ChannelInfo(*one, "other", estimated=one[1] is Scope.CPU) for one in zip(names, scopes, strict=True)]
    gpu = GPU0._replace(has_counter=False, limit_w=700.0)
    job = JobFolder(tmp_path)
    job.record(windows=[window(end_s=60.0)], devices=on_gpus("GPU-0"))
    shown_w = (300.0, 301.0, 400.0, 410.0, 820.0, 50.0)
    job.trace(
        [gpu, *(one._replace(device_id="GPU-0") if one.name == "dcgm:0" else one for one in more)],
        lambda channel, time_s: shown_w[channel] + time_s % 7 + channel * (time_s % 3),
        times_s=[0.25 * step for step in range(300)],
    )
    energy = Record.of(collect(job.path)).energy
    of_scope = vars(energy.sampled_by_scope)
    assert of_scope["device_wh"] == pytest.approx(energy.energy_wh)
    assert of_scope["node_wh"] * 3600 / 50 == pytest.approx(810 + 2 * 3 + 3, rel=0.01)


def test_a_record_has_what_the_block_of_its_system_stated_when_the_run_was_planned(tmp_path, monkeypatch):
    table = tmp_path / "jube" / "include" / "systems.yaml"
    table.parent.mkdir(parents=True)
    stated = {"meter_accuracy_percent": "1", "meter_losses": "maker", "meter_covers": "network storage"}
    lines = "".join(f"\n  {name}: {value}" for name, value in stated.items())
    name = "\nH200:"
    text = (Path.cwd() / "jube" / "include" / "systems.yaml").read_text()
    assert name in text
    table.write_text(text.replace(name, name + lines))
    monkeypatch.setattr("results.files.systems.ROOT", tmp_path)
    (tmp_path / "run").mkdir()
    point = Point(plan("H200", "llm_training"), "", "800M", 1, 1, 1, 16, "", "", 1)
    write_record(planned_result(job(point)), tmp_path / "run" / "result.json")
    assert read_checked(tmp_path / "run" / "result.json").status == "unfinished"
    JobFolder(tmp_path / "run").record().trace([PACKAGE], lambda *_: 100.0)
    assert collect(tmp_path / "run")["energy"]["site"] == {
        "accuracy_percent": 1.0,
        "losses": "maker",
        "measured": ["network", "storage"],
    }
    table.write_text(text.replace(name, name + lines.replace("network storage", "network roof")))
    with pytest.raises(RecordError, match="meter_covers is 'network roof', but must be of network, storage, cooling"):
        read_systems(table)


def test_throughput_by_provisioned_power_is_by_what_the_prices_state_or_else_the_block(tmp_path, monkeypatch, capsys):
    """Eight devices of 1,250 W, a part of a node's of 1,250 W, and with prices of 2,000 W."""
    table = tmp_path / "jube" / "include" / "systems.yaml"
    table.parent.mkdir(parents=True)
    text = (Path.cwd() / "jube" / "include" / "systems.yaml").read_text()
    block = "\nB200:\n  provisioned_w_per_device: 1250"
    table.write_text(text.replace("\nB200:", block))
    with pytest.raises(RecordError, match="system B200: provisioned_w_per_device needs its source: add prov"):
        read_systems(table)
    table.write_text(text.replace("\nB200:", f"{block}\n  provisioned_source: a data sheet"))
    monkeypatch.setattr("results.files.systems.ROOT", tmp_path)
    runs = [builder.result("B200", 8, 64, speed) for speed in (1000.0, 1010.0, 1020.0)]
    forged = builder.result("H200", 8, 64, 900.0)
    forged["metrics"] |= {"tokens_per_s_per_kw": 1e6, "provisioned_by": "nobody"}
    builder.store(tmp_path / "runs", [*runs, builder.result("B200", 4, 64, 700.0), forged])
    assert main(["table", str(tmp_path / "runs"), "--repeats", "--format", "csv"]) == 0
    shown = capsys.readouterr()
    found = {(row["system"], row["devices"]): row for row in csv.DictReader(io.StringIO(shown.out))}
    value, low, high = (float(found["B200", "8"][f"work_per_s_per_kw{end}"]) for end in ("", "_low", "_high"))
    assert value == pytest.approx(1010 / 10)
    # 4.303 is Student's t of three runs.
    assert (high - low) / 2 == pytest.approx(4.303 * 10 / 3**0.5 / 10, rel=1e-3)
    assert float(found["B200", "4"]["work_per_s_per_kw"]) == pytest.approx(700 / 5)
    assert found["H200", "8"]["work_per_s_per_kw"] == ""
    sentence = "provisioned power of B200: {} W per device, by {}"
    assert sentence.format("1,250", "a data sheet") in shown.err
    assert "nobody" not in shown.err
    stated = "{price_per_device: 1, provisioned_w_per_device: 2000, provisioned_source: an offer}"
    (tmp_path / "prices.yaml").write_text(f"{{currency: EUR, electricity_per_kwh: 0.2, systems: {{B200: {stated}}}}}")
    given = ["--prices", str(tmp_path / "prices.yaml")]
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "report.html"), *given]) == 0
    assert sentence.format("2,000", "an offer") in (tmp_path / "report.html").read_text()
