"""A meter in the supply line of made runs, whose power is known."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

from caraml.cli import main
from jpwr.tests.loads import levels
from results.find.records import RecordError
from results.join.meter import read_meter
from results.points.repeats import OperatingLimits
from results.tests import builder
from results.tests.of_dicts import add_meter, by_point, grade
from results.verdicts.quality import why_not_ranked

EPOCH_S = 1_770_000_000.0  # at which the node's clock is 0
POWER_W = 1500.0
START_S, END_S = builder.IDLE_S, builder.IDLE_S + builder.WINDOW_S


def run(hostnames=("n1",), **options):
    record = builder.result(devices=4, **options)
    [window] = record["windows"]
    for index, device in enumerate(record["devices"]):
        device["hostname"] = hostnames[index % len(hostnames)]
    window |= {f"{end}_epoch_s": EPOCH_S + window[f"{end}_s"] for end in ("start", "end")}
    windows = [window | {"hostname": name, "boot_id": f"boot of {name}"} for name in hostnames]
    created = "2026-02-02T02:00:00+00:00"  # before EPOCH_S
    changes = {"windows": windows, "layout.num_nodes": len(hostnames), "provenance.created": created}
    return builder.altered(record, changes)


def write(folder, rows, header="timestamp,watts"):
    path = folder / "meter.csv"
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def constant(power_w=POWER_W, seconds=range(-60, 180)):
    return [(EPOCH_S + second, power_w) for second in seconds]


def test_energy_is_that_of_the_supply_over_the_window_and_the_sensors_own_stays_beside(tmp_path):
    record = run(power_w=200.0)
    assert add_meter([record], read_meter(write(tmp_path, constant()))) == []
    energy = record["energy"]
    assert energy["energy_wh"] == pytest.approx(POWER_W * 60 / 3600)
    assert energy["tokens_per_wh"] == pytest.approx(100.0 * 60 / (POWER_W * 60 / 3600))
    assert energy["power_source"] == "measured, supply"
    assert energy["sampled_by_scope"] == pytest.approx({"supply_wh": 25.0, "device_wh": 4 * 200 / 60})
    assert grade(record) == "Q3"
    [one] = by_point([record])
    assert why_not_ranked(one) is None


STATED = {"meter_averaging_s": 10, "meter_refresh_s": 2, "meter_resolution_w": 10}


@pytest.mark.parametrize("is_stated", [True, False])
def test_a_systems_block_states_the_facts_of_its_meter(tmp_path, monkeypatch, is_stated):
    if is_stated:
        monkeypatch.setattr("results.join.meter.system_of", lambda _: SimpleNamespace(**STATED))
    record = run()
    # The load begins 5 s before the window, and the meter shows means over 10 s in steps of 10 W.
    begin_s = START_S - 5
    mean_w = [(s, 400 + 600 * min(1.0, max(0.0, (s - begin_s) / 10))) for s in range(-60, 180)]
    add_meter([record], read_meter(write(tmp_path, [(EPOCH_S + s, 10 * round(w / 10)) for s, w in mean_w])))
    energy = record["energy"]
    assert (abs(energy["energy_wh"] - 1000 / 60) <= energy["uncertainty_wh"]) or not is_stated
    assert energy["uncertainty_wh"] * 3600 >= (60 * 5 + 5 * 300 if is_stated else 0)
    assert ("meter_averaging_s" in " ".join(energy["notes"])) != is_stated


def test_the_interval_has_what_the_meters_clock_may_be_wrong_by(tmp_path):
    for seed in range(40):
        chance = random.Random(f"clock {seed}")
        off_s, edges_s = chance.uniform(-1, 1), [-60.0]
        while edges_s[-1] < 180:
            edges_s.append(edges_s[-1] + chance.uniform(0.5, 20))
        load = levels(edges_s, [chance.uniform(900, 2000) for _ in edges_s[1:]])
        record = run(power_w=10.0)
        rows = [(EPOCH_S + second + off_s, load.power_w(second)) for second in range(-60, 180)]
        add_meter([record], read_meter(write(tmp_path, rows)))
        true_wh = load.between_j(START_S, END_S) / 3600
        assert abs(record["energy"]["energy_wh"] - true_wh) <= record["energy"]["uncertainty_wh"], seed


def test_nodes_are_told_apart_by_their_names(tmp_path):
    rows = [(*row, node) for node, power_w in (("n1", 1000.0), ("n2", 500.0)) for row in constant(power_w)]
    record = run(("n1.cluster", "n2"))
    add_meter([record], read_meter(write(tmp_path, rows, "Timestamp,Watts,Node")))
    assert record["energy"]["avg_power_w"] == pytest.approx(1500.0)
    assert {channel["hostname"] for channel in record["energy"]["channels"]} == {"n1.cluster", "n2"}


def test_times_may_be_written_with_their_zone(tmp_path):
    zone = timezone(timedelta(hours=1))
    rows = [(datetime.fromtimestamp(time_s, zone).isoformat(), power_w) for time_s, power_w in constant()]
    record = run()
    add_meter([record], read_meter(write(tmp_path, rows)))
    assert record["energy"]["avg_power_w"] == pytest.approx(POWER_W)


@pytest.mark.parametrize(
    ("hostnames", "rows", "header", "message"),
    [
        (("n1",), constant(seconds=range(600, 700)), "timestamp,watts", "it has no reading from .*; nor any other run"),
        (("n1", "n2"), constant(), "timestamp,watts", "the run had 2 nodes, but the column 'node' is missing"),
        (("n1",), [(*row, "n7") for row in constant()], "timestamp,watts,node", "it has no readings of node n1"),
    ],
)
def test_a_meter_that_measures_no_run_is_refused(tmp_path, hostnames, rows, header, message):
    with pytest.raises(RecordError, match=message):
        add_meter([run(hostnames)], read_meter(write(tmp_path, rows, header)))


def test_a_run_that_the_meter_does_not_cover_keeps_its_own_energy(tmp_path):
    covered, other = run(), run(batch=16)
    for window in other["windows"]:
        window["start_epoch_s"] += 86_400
    before = other["energy"]
    [note] = add_meter([covered, other], read_meter(write(tmp_path, constant())))
    assert "does not measure A100, tiny, batch 16" in note
    assert other["energy"] == before


@pytest.mark.parametrize(("power_w", "is_too_little"), [(780.0, False), (650.0, True)])
def test_a_meter_reads_no_less_than_the_devices_behind_it_used(tmp_path, power_w, is_too_little):
    record = run(power_w=200.0)  # of each of 4 devices
    before = record["energy"]
    meter = read_meter(write(tmp_path, constant(power_w)))
    if is_too_little:
        with pytest.raises(
            RecordError, match=r"less than the 13\.33 Wh of its devices: check that its readings are in watts"
        ):
            add_meter([record], meter)
        assert record["energy"] == before
    else:
        assert add_meter([record], meter) == []


def test_a_meter_that_read_nothing_is_one_sentence(tmp_path, capsys):
    builder.store(tmp_path / "runs", [run()])
    path = str(write(tmp_path, constant(0.0)))
    assert main(["table", str(tmp_path / "runs"), "--meter", path]) == 2
    assert "reported 0 W, or a mark for a missing power, all the time" in capsys.readouterr().err


def test_two_meters_of_one_node_are_refused(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    first, second = (write(tmp_path / name, constant(power_w)) for name, power_w in (("a", 1500.0), ("b", 800.0)))
    record = run()
    add_meter([record], read_meter(first))
    with pytest.raises(RecordError, match=r"b/meter\.csv and a meter .*meter\.csv both measure A100, tiny, batch 8"):
        add_meter([record], read_meter(second))


@pytest.mark.parametrize(("moved_s", "is_refused"), [(-0.9, False), (50.0, True), (-3.0, True)])
def test_when_a_window_was_is_not_told_by_a_clock_that_was_set(tmp_path, moved_s, is_refused):
    record, other = run(), run(batch=16)
    record["windows"][0]["end_epoch_s"] += moved_s
    notes = add_meter([record, other], read_meter(write(tmp_path, constant())))
    told = (
        f"does not measure A100, tiny, batch 8: the wall clock of node n1 was set by {abs(moved_s):.1f} s while it ran"
    )
    assert [told in note for note in notes] == [True] * is_refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs the columns timestamp and watts"),
        ("timestamp;watts\n1;1500,5\n", "needs the columns timestamp and watts"),
        ("timestamp,watts\n", "no reading below its header"),
        ("timestamp,watts\n1,x\n", "line 2, '1,x', is no reading"),
        ("timestamp,watts\n1,1,500\n", "more fields than the first line: write decimals with a point"),
        ("timestamp,watts\n2026-01-01T00:00:00,5\n", "its time has no zone"),
        ("timestamp,watts\n1770000000000,5\n", "is no reading: give watts, and seconds since 1970"),
        ("timestamp,watts\n1,5\n1,6\n", "two readings of 1970-01-01 00:00:01 UTC: add up the supplies of a node"),
        ("timestamp,watts,node\n1,5,n1\n1,6,n1\n", "two readings of node n1 of "),
    ],
)
def test_a_file_that_is_no_meters_is_one_sentence(tmp_path, text, message):
    path = tmp_path / "meter.csv"
    path.write_text(text)
    with pytest.raises(RecordError) as error:
        read_meter(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_commands_take_a_meters_file(tmp_path, capsys):
    builder.store(tmp_path / "runs", [run()])
    path = str(write(tmp_path, constant()))
    assert main(["table", str(tmp_path / "runs"), "--repeats", "--meter", path]) == 0
    assert "Q3, supply" in capsys.readouterr().out
    (tmp_path / "requirements.yaml").write_text(
        "workloads: {gpt: {benchmark: llm_training}}\nmust: [{of: gpt, what: energy_grade, at_least: Q3}]"
    )
    judge = ["accept", str(tmp_path / "runs"), "--requirements", str(tmp_path / "requirements.yaml")]
    assert main(judge) == 1
    assert main([*judge, "--meter", path]) == 0
    assert main([*judge, "--meter", str(tmp_path / "none.csv")]) == 2
    assert "cannot be read as a meter's readings" in capsys.readouterr().err


@pytest.mark.parametrize("odd_w", [0.0, 65535.0])
def test_a_meters_mark_for_no_power_is_missing_and_counted(tmp_path, odd_w):
    record = run(power_w=200.0)
    meter = read_meter(write(tmp_path, [(t, odd_w if t % 7 == 3 else w) for t, w in constant()]))
    with pytest.raises(RecordError, match="no power limit, and more than 1% of its readings failed"):
        add_meter([record], meter)


def test_runs_at_unlike_limits_stay_apart_next_to_a_meter(tmp_path):
    records = [run() for _ in range(2)]
    for record, clock_mhz in zip(records, (1380.0, 1980.0), strict=True):
        [channel] = record["energy"]["channels"]
        channel["limits"] = {"power_limit_w": 700.0, "clock_limit_mhz": clock_mhz}
        channel["clocks"] = {"throttled": {"power limit": 80.0}}
    assert add_meter(records, read_meter(write(tmp_path, constant()))) == []
    points = by_point(records)
    assert [one.limits for one in points] == [OperatingLimits(700.0, 1380.0), OperatingLimits(700.0, 1980.0)]
    assert {one.any.energy.power_scope for one in points} == {"supply"}
