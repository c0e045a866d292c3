"""Whose energy of states is asked for: the channel of each rank, on each node, and what is refused before any fit."""

from __future__ import annotations

import sys

import pytest

from jpwr.channel import ChannelInfo, Scope
from results.archive import _other_states
from results.collect import collect, main
from results.join import state_energy
from results.tests.conftest import CPU, GPU0, GPU1, PACKAGE, make_record


def device(rank, device_id, hostname="n1"):
    return {"hostname": hostname, "rank": rank, "name": "GPU", "device_id": device_id, "peak_memory_bytes": 1}


def two_devices(**changes):
    layout = {**make_record()["layout"], "num_devices": 2}
    metrics = {**make_record()["metrics"], "tokens_per_s_per_device": 50.0}
    return {"layout": layout, "metrics": metrics, "states": {"states": []}, **changes}


@pytest.fixture
def asked(monkeypatch):
    """What the fit was asked for: (record's run, channels, folder), without the fit."""
    found = []

    def fit(record, channels, folder):
        found.append((record["system"], channels, folder))
        return {"told": len(channels), "closing_percent": 0.84}

    monkeypatch.setattr(state_energy, "energy_of_states", fit)
    return found


def test_each_rank_has_the_channel_of_its_device(job, asked, capsys):
    job.record(**two_devices(devices=[device(0, "GPU-1"), device(1, "GPU-0")]))
    # A counter that runs with the power, and one that stands still while it is drawn: the second is not believed.
    job.trace(
        [CPU, GPU0, GPU1], lambda channel, _: 100.0, lambda channel, time_s: 100 * time_s if channel == 1 else 5.0
    )
    result = collect(job.path)
    assert result["energy"]["states"]["told"] == 2
    assert main([str(job.path)]) == 0
    assert capsys.readouterr().err == "collect: all states (experimental) are +0.8 % off the window's energy\n"
    asked.pop()
    [(system, channels, folder)] = asked
    assert (system, folder) == ("CPU", job.path)
    assert {(one.rank, one.name, one.by_counter) for one in channels} == {(1, "nvml:0", True), (0, "nvml:1", False)}
    methods = {one["name"]: one["method"] for one in result["energy"]["channels"]}
    assert {one.name: one.by_counter for one in channels} == {name: by == "counter" for name, by in methods.items()}
    assert channels[0].curve is not channels[1].curve


def test_each_node_has_its_own_trace(job, asked):
    window = make_record()["windows"][0]
    windows = [window, {**window, "hostname": "n2", "boot_id": "boot-2"}]
    devices = [device(0, "GPU-0"), device(1, "GPU-0", "n2")]
    layout = {**two_devices()["layout"], "num_nodes": 2}
    job.record(**two_devices(devices=devices, windows=windows, layout=layout))
    job.trace([GPU0], lambda channel, _: 100.0)
    job.trace([GPU0], lambda channel, _: 300.0, hostname="n2", boot_id="boot-2")
    collect(job.path)
    [(_, channels, _)] = asked
    assert [(one.rank, one.name) for one in channels] == [(0, "nvml:0"), (1, "nvml:0")]


def test_a_device_without_an_id_is_that_of_the_only_rank(job, asked):
    job.record(states={"states": []}, devices=[device(3, "")])
    job.trace([ChannelInfo("gc:0", Scope.DEVICE, "a sensor")], lambda channel, _: 100.0)
    collect(job.path)
    assert [(one.rank, one.name) for one in asked[0][1]] == [(3, "gc:0")]


def test_a_processors_channel_is_none_of_an_accelerators_rank(job, asked):
    job.record(states={"states": []}, devices=[device(0, "GPU-0")])
    job.trace([PACKAGE, ChannelInfo("node:0", Scope.NODE, "a sensor")], lambda channel, _: 100.0)
    collect(job.path)
    assert [one.name for one in asked[0][1]] == ["node:0"]


def test_a_channel_of_several_ranks_is_refused(job, asked):
    job.record(**two_devices(devices=[device(0, "GPU-0"), device(1, "GPU-0")]))
    job.trace([GPU0], lambda channel, _: 100.0)
    notes = collect(job.path)["energy"]["notes"]
    assert "no energy of states: channel nvml:0 measures 2 processes, each with steps of its own" in notes
    assert not asked


def test_power_that_was_estimated_tells_of_no_state(job, asked):
    job.record(states={"states": []})
    job.trace([CPU], lambda channel, _: 100.0)
    notes = collect(job.path)["energy"]["notes"]
    assert notes == ["no energy of states: power was estimated, and not measured"]
    assert not asked


def test_what_the_fit_needs_is_named_where_it_is_missing(job, monkeypatch):
    monkeypatch.setitem(sys.modules, "results.join.state_energy", None)
    job.record(states={"states": []}, devices=[device(0, "GPU-0")])
    job.trace([GPU0], lambda channel, _: 100.0)
    result = collect(job.path)
    assert result["status"] == "ok"
    assert result["energy"]["notes"] == [
        "no energy of states: results.join.state_energy is not installed where jobs are collected"
    ]


def state(*names, energy_wh=1.0, low_wh=0.9, high_wh=1.1):
    return {"states": list(names), "energy_wh": energy_wh, "low_wh": low_wh, "high_wh": high_wh}


def other(ours, theirs):
    return list(_other_states({"states": {"states": ours}}, {"states": {"states": theirs}}))


def test_states_that_were_fitted_again_may_differ_by_a_fifth_of_their_interval():
    ours = [state("Forward"), state("Backward", "Comm")]
    assert other(ours, ours) == []
    near = [state("Forward", energy_wh=1.0 + 0.039), state("Backward", "Comm", low_wh=0.9 - 0.043, high_wh=1.1)]
    assert other(ours, near) == []
    for changed in ({"energy_wh": 1.041}, {"low_wh": 0.8}, {"high_wh": 1.3}):
        [words] = other(ours, [state("Forward"), state("Backward", "Comm", **changed)])
        again = changed.get("energy_wh", 1.0)
        assert words == (f"energy.states of Backward and Comm is stored as 1 Wh, but its origin gives {again:.6g} Wh")


def test_a_state_that_its_origin_does_not_tell_is_named():
    [words] = other([state("Forward", energy_wh=0.123456789)], [state("Forward", energy_wh=None)])
    assert words == "energy.states of Forward is stored as 0.123457 Wh, but its origin gives none"
    unknown = {"states": ["Forward"], "energy_wh": None, "low_wh": None, "high_wh": None}
    assert other([unknown], [state("Forward")]) == []
    assert "energy.states of Update is stored as 1 Wh, but its origin gives none" in other([state("Update")], [])


def test_other_states_than_the_stored_ones_are_a_difference():
    assert other([state("Forward")], [state("Forward"), state("Update")]) == [
        "energy.states is stored as ['Forward'], but its origin gives ['Forward', 'Update']"
    ]
    assert other([], [state("Forward")])
    assert list(_other_states({}, {})) == []
    assert list(_other_states({"states": None}, {"states": {"states": None}})) == []
