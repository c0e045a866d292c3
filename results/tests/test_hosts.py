"""Energy of a server on nodes other than its client's, from made-up traces with clocks that differ."""

from __future__ import annotations

import json
import shutil

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.trace.trace import Row
from jpwr.trace.writers import CsvWriter
from record.demand import hosts_of
from record.model import Record
from results.collect import collect
from results.tests.builder import WINDOW_S, served
from results.tests.of_dicts import contradictions

BEGIN_S, EPOCH_S = 30.0, 1e9  # of the window, by the clock of each node; of its start
STEADY_W, FIRST_W, RISE_W_PER_S = 300.0, 100.0, 2.0
ERROR_S = 0.2


def node(folder, host, off_s=0.0, until_s=BEGIN_S + WINDOW_S + 5, **meta):
    """A trace of one device: of n1 constant, of others rising; its wall clock is fast by off_s."""
    known = {"epoch_offset_s": EPOCH_S - BEGIN_S + off_s, "clock_error_s": ERROR_S / 2} | meta
    known = {"hostname": host, "boot_id": f"boot of {host}", "interval_s": 0.1, "jpwr_version": "1"} | known
    channel = ChannelInfo("made:0", Scope.DEVICE, "made up", device_id=f"GPU-{host}")
    known = {name: value for name, value in known.items() if value is not None}
    with CsvWriter(folder / "power" / host / "trace.csv", [channel], known) as writer:
        for row in range(round(until_s * 10)):
            power_w = STEADY_W if host == "n1" else FIRST_W + RISE_W_PER_S * row / 10
            writer.extend([Row(row / 10, [power_w], [None])])


def asked(folder, hosts="n1 n2", devices=2, error_s=ERROR_S / 2):
    """The record of a client on a node of its own."""
    record = served(concurrency=4)
    del record["energy"]
    number = len(hosts_of(hosts))
    record["layout"] |= {"num_devices": devices, "num_nodes": number}
    record["config"] |= {"serve": {"url": "http://n1"}, "run": {"hosts": hosts}}
    record["serving"] |= {"elsewhere": "n1", "clock_error_s": error_s, "server": "server at http://n1"}
    edges = {"start_epoch_s": EPOCH_S, "end_epoch_s": EPOCH_S + WINDOW_S}
    record["windows"] = [record["windows"][0] | edges | {"hostname": "client", "boot_id": "boot of the client"}]
    (folder / "record.json").write_text(json.dumps(record))
    return record


def rising_j(off_s):
    """True energy of the node whose power rises, if its wall clock is fast by that time."""
    begin_s = BEGIN_S + off_s
    return WINDOW_S * (FIRST_W + RISE_W_PER_S * (begin_s + WINDOW_S / 2))


@pytest.mark.parametrize("off_s", [-ERROR_S, 0.0, ERROR_S])
def test_the_interval_of_each_node_has_what_its_clock_may_be_wrong_by(tmp_path, off_s):
    asked(tmp_path)
    node(tmp_path, "n1")
    node(tmp_path, "n2", off_s)
    result = collect(tmp_path)
    assert result["status"] == "ok", result["error"]
    steady, rising = result["energy"]["channels"]
    assert steady["energy_wh"] * 3600 == pytest.approx(STEADY_W * WINDOW_S)
    assert abs(rising["energy_wh"] * 3600 - rising_j(0.0)) <= rising["uncertainty_wh"] * 3600
    # A shift by the clocks' error changes the energy by the rise over it, in the whole window.
    assert rising["systematic_wh"] * 3600 >= RISE_W_PER_S * ERROR_S * WINDOW_S > 2 * steady["systematic_wh"] * 3600
    assert [window["clock_error_s"] for window in result["windows"]] == [ERROR_S] * 2
    of_energy = [one for one in contradictions(result) if "energy" in one or "window" in one or "node" in one]
    assert of_energy == []


def test_energies_of_roles_are_by_the_tokens_of_each(tmp_path):
    asked(tmp_path, "prefill: n1; decode: n2 n3", 3)
    for host in ("n1", "n2", "n3"):
        node(tmp_path, host)
    result = collect(tmp_path)
    energy, metrics = result["energy"], result["metrics"]
    assert energy["j_per_token_read"] == pytest.approx(STEADY_W * WINDOW_S / metrics["input_tokens"])
    assert energy["j_per_token_written"] == pytest.approx(2 * rising_j(0.0) / metrics["measured_tokens"])
    assert energy["prefill_wh"] + energy["decode_wh"] == pytest.approx(energy["energy_wh"])
    assert Record.of(result).layout.num_nodes == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda folder: shutil.rmtree(folder / "power" / "n2"),
            "--hosts names n2, which has 0 power traces, and there",
        ),
        (
            lambda folder: shutil.copytree(folder / "power" / "n2", folder / "power" / "copy"),
            "--hosts names n2, which has 2 power traces, and there are those of n1, n2: run jpwr once on each node",
        ),
        (lambda folder: node(folder, "n2", until_s=BEGIN_S + WINDOW_S - 1), "is not covered by the trace"),
        (lambda folder: node(folder, "n2", clock_error_s=None), "the error of the clock of node n2 is unknown"),
        (lambda folder: asked(folder, error_s=None), "the error of the clock of the client's node is unknown"),
        (
            lambda folder: node(folder, "n2", clock_error_s=4.0),
            "the clocks of node n2 and of the client may differ by 4.1",
        ),
        (lambda folder: asked(folder, devices=4), "--devices 4 was asked for, but the traces of 2 nodes have 2"),
        (lambda folder: node(folder, "n2", boot_id="boot of n1"), ""),
    ],
)
def test_a_node_whose_energy_is_not_known_fails_the_run(tmp_path, change, words):
    asked(tmp_path)
    node(tmp_path, "n1")
    node(tmp_path, "n2")
    change(tmp_path)
    result = collect(tmp_path)
    assert ("energy" in result, result["status"]) == ((False, "failed") if words else (True, "ok"))
    assert words in result["error"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("n1  n2", {"n1": "", "n2": ""}),
        ("prefill: n1; decode: n2 n3", {"n1": "prefill", "n2": "decode", "n3": "decode"}),
        ("prefill: n1", "not those of prefill and decode"),
        ("prefill: n1; decode: n1", "n1 has two roles"),
        (";", "names no nodes"),
    ],
)
def test_hosts_are_read_with_their_roles(text, found):
    if isinstance(found, str):
        with pytest.raises(ValueError, match=found):
            hosts_of(text)
    else:
        assert hosts_of(text) == found
