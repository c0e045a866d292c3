"""Derived numbers, which follow from others whatever is stored, and rules of what no run can have."""

from __future__ import annotations

from copy import deepcopy

import pytest

from record.derivation import derive
from record.model import Record
from record.part import as_json
from results.tests import builder
from results.tests.builder import checkpoints
from results.tests.of_dicts import contradictions

STEPS, STEP_S = 60, 1.0
FLOPS = 6_255_280_128.0  # to train the 800M model on a token of a sample of 2048 tokens


def run(**changes):
    """A good one, of 60 steps of 8 sequences in 60 s on two devices, with all that its numbers follow from."""
    record = builder.result(devices=2, model="800M", steps=STEPS, tokens_per_s=8 * 2048 / STEP_S)
    record["metrics"] |= {
        "measured_steps": STEPS,
        "model_flops_per_token": FLOPS,
        "tflops_per_device": 8 * 1024 * FLOPS / 1e12,
        "peak_tflops_per_device": 312.0,
        "mfu": 8 * 1024 * FLOPS / 1e12 / 312.0,
    }
    record["energy"]["channels"][0]["device_id"] = "GPU-1"
    record["provenance"]["nodes"] = [{"devices": [{"uuid": "GPU-1", "power.limit": "700.00 W"}]}]
    return record | changes


def run_with_all():
    """The same with all that may follow from others: an effective throughput and energy, EPCC's, and regions."""
    record = run()
    [window], metrics = record["windows"], record["metrics"]
    record["windows"] = [window, window | {"kind": "effective", "start_s": 70.0, "end_s": 130.0}]
    for kind, share in (("effective", 0.5), ("epcc", 0.75)):
        speed = share * metrics["tokens_per_s"]
        metrics |= {f"{kind}_tokens": share * metrics["measured_tokens"], f"{kind}_s": metrics["measured_s"]}
        metrics |= {f"{kind}_tokens_per_s": speed, f"{kind}_tokens_per_s_per_device": speed / 2}
    metrics |= {"io_percent": 25.0, "comm_percent": 15.0, "step_time_median_s": STEP_S}
    regions = {
        name: {"median_s": None, "share_percent": share}
        for name, share in (("IO", 25.0), ("Comm", 15.0), ("Other", 60.0))
    }
    record["regions"] = {"measured": {"steps": STEPS, "step_s": STEP_S, "regions": regions}}
    effective = deepcopy(record["energy"])
    return record | {"energy_effective": effective | {"tokens_per_wh": 0.5 * effective["tokens_per_wh"]}}


def place(record, path):
    """Where a path ends: the object, and the name in it."""
    *above, last = path.split(".")
    for name in above:
        record = record[int(name) if isinstance(record, list) else name]
    return record, last


def changed(path, change):
    record = run()
    inside, last = place(record, path)
    inside[last] = change(inside[last])
    return record


def changed_energy(**changes):
    """The same, and with all that follows from the energy."""
    record = run()
    [channel] = record["energy"]["channels"]
    record["energy"] |= {"channels": [channel | changes]}
    return record


@pytest.mark.parametrize("record", [run(), run_with_all()], ids=["plain", "with_all"])
def test_a_good_record_contradicts_nothing(record):
    assert contradictions(record) == []


def edited(record, path, change):
    """Return what a record shows at a path whose stored value was changed."""
    record = deepcopy(record)
    inside, last = place(record, path)
    inside[last] = change(inside[last])
    inside, last = place(as_json(derive(Record.of(record))), path)
    return inside[last]


@pytest.mark.parametrize("change", [lambda value: 2 * value, lambda _: None])
@pytest.mark.parametrize(
    "path",
    [
        *("metrics.tokens_per_s", "metrics.effective_tokens_per_s", "metrics.effective_tokens_per_s_per_device"),
        *("metrics.epcc_tokens_per_s", "metrics.epcc_tokens_per_s_per_device", "energy_effective.tokens_per_wh"),
        *("metrics.io_percent", "metrics.comm_percent", "energy_effective.energy_wh_per_device"),
    ],
)
def test_a_derived_number_that_was_edited_is_shown_as_it_is(path, change):
    record = run_with_all()
    inside, last = place(record, path)
    assert edited(record, path, change) == pytest.approx(inside[last])


MEASURED = {
    "measured_tokens": 8000,
    "model_flops_per_token": 6e9,
    "peak_tflops_per_device": 24.0,
    "recomputed_flops_per_token": 2e9,
    "input_tokens": 4000,
    "measured_requests": 40,
    "goodput_share": 0.5,
    "tpot_p50_s": 0.02,
    "output_tokens_per_request": 200,
}
FOLLOWING = {
    "tokens_per_s": 2000.0,
    "tokens_per_s_per_device": 1000.0,
    "tflops_per_device": 6.0,
    "mfu": 0.25,
    "hfu": 1 / 3,
    "total_tokens_per_s": 3000.0,
    "requests_per_s": 10.0,
    "goodput_requests_per_s": 5.0,
    "tokens_per_s_per_user": 50.0,
    "tokens_per_wh": 16000.0,
    "tflop_per_j": 2 * 6.0 / 450.0,
    "energy_wh_per_device": 0.25,
    "avg_power_w": 450.0,
    "j_per_output_token": 0.225,
    "j_per_total_token": 0.15,
    "j_per_request": 45.0,
}


def following(metrics):
    """Derived numbers of 4 s of a server on two devices, which used 0.5 Wh."""
    window = {"hostname": "n1", "kind": "measured", "start_s": 1.0, "end_s": 5.0}
    channel = {"estimated": False, "scope": "device", "method": "counter", "counter_wh": 0.5, "uncertainty_wh": 0.05}
    record = {"status": "ok", "work_unit": "tokens", "serving": {"server": "made up"}, "layout": {"num_devices": 2}}
    record |= {"metrics": metrics, "windows": [window], "energy": {"channels": [channel]}}
    found = derive(Record.of(record))
    return vars(found.metrics) | vars(found.energy)


@pytest.mark.parametrize("missing", [None, *MEASURED])
def test_each_derived_number_follows_from_those_before_it(missing):
    found = following({key: value for key, value in MEASURED.items() if key != missing})
    known = {name: value for name in FOLLOWING if (value := found.get(name)) is not None}
    assert known == pytest.approx({name: FOLLOWING[name] for name in known})
    assert (known.keys() == FOLLOWING.keys()) == (missing is None)


@pytest.mark.parametrize(
    ("options", "path", "value"),
    [
        ({"batch": {"global_batch_size": 4}}, "layout.global_batch_size", 4),
        ({"batch": {"global_batch_size": 0}}, "layout.global_batch_size", 8),
        ({"parallel": {"micro_batch_size": 2}}, "layout.grad_accum_steps", 2),
        ({"model": {"sequence_length": 4096}}, "sample", "4096 tokens"),
        ({"model": {"sequence_length": 4096}}, "metrics.measured_tokens", 2 * 8 * 2048 * STEPS),
        ({"model": {"size": "13B"}}, "model", "13B"),
        ({"compute": {"precision": "fp8"}}, "precision", "fp8"),
        ({"data": {"data": "synthetic"}}, "data", "synthetic"),
        ({"run": {"system": "B200"}}, "system", "B200"),
        ({"run": {"peak_tflops_per_device": 500.0}}, "metrics.peak_tflops_per_device", 500.0),
    ],
)
def test_facts_are_those_of_the_options(options, path, value):
    inside, last = place(as_json(derive(Record.of(run(config=options)))), path)
    assert inside[last] == value


def test_a_number_stays_where_the_record_lacks_what_it_follows_from():
    record = run()
    del record["layout"]["data_parallel_size"], record["metrics"]["peak_tflops_per_device"]
    record["energy"]["channels"][0]["idle_power_w"] = None
    for path in ("layout.num_devices", "metrics.mfu", "energy.idle_power_w"):
        assert edited(record, path, lambda _: 5.0) == 5.0


@pytest.mark.parametrize(
    "path",
    [
        *(f"metrics.{name}" for name in ["measured_steps", "model_flops_per_token"]),
        "metrics.peak_tflops_per_device",
        "step_times_s",
    ],
)
def test_what_a_throughput_follows_from_has_to_be_said(path):
    said = f"the record has no {path}, from which its throughput is computed"
    record = run()
    inside, last = place(record, path)
    del inside[last]
    assert said in contradictions(record)
    assert said in contradictions(changed(path, lambda value: [] if isinstance(value, list) else None))


def test_a_peak_that_is_not_known_is_not_asked_for():
    record = run()
    for name in ("peak_tflops_per_device", "mfu", "tflops_per_device", "model_flops_per_token"):
        record["metrics"][name] = None
    assert contradictions(record) == []


def test_an_effective_throughput_has_work_time_and_windows_of_its_own():
    record = run_with_all()
    record["windows"][1]["end_s"] = 100.0
    assert derive(Record.of(record)).metrics.number("effective_tokens_per_s") == pytest.approx(8 * 2048)
    record["metrics"] |= {"effective_tokens": None, "measured_steps": None}
    names = ("measured_steps", "effective_tokens")
    said = [f"the record has no metrics.{name}, from which its throughput is computed" for name in names]
    assert contradictions(record) == said
    for kind in ("measured", "effective"):
        record = run_with_all()
        record["windows"] = [window for window in record["windows"] if window["kind"] != kind]
        said = f"the record has no {kind} windows, from which its throughput is computed"
        assert contradictions(record) == [said]


@pytest.mark.parametrize(
    ("forged", "words"),
    [
        ({}, ""),
        (
            {"checkpoint_write_s": 1.0},
            "checkpoint_write_least_s is 2, more than the 1 of",
        ),
        (
            {"checkpoint_restore_s": 2.9, "checkpoint_restore_least_s": 2.8},
            "gives 5.8 s in 2 rounds, but",
        ),
        ({"checkpoint_rounds": 3}, "must have 3 windows of the kind checkpoint, got 2"),
        (
            {"checkpoint_bytes": 2e9, "checkpoint_write_gb_per_s": 1.1},
            "is 1.1, more than the 1 of its bytes",
        ),
    ],
)
def test_times_of_checkpoints_are_those_of_their_windows(forged, words):
    record = checkpoints()
    record["metrics"] |= forged
    found = contradictions(record)
    assert bool(found) == bool(words)
    assert words in "".join(found)


@pytest.mark.parametrize(("listed", "is_wrong"), [(1, True), (2, False), (3, True)])
def test_as_many_devices_are_listed_as_trained(listed, is_wrong):
    record = run(devices=[run()["devices"][0] | {"rank": rank} for rank in range(listed)])
    assert contradictions(record) == [f"it lists {listed} devices, but layout.num_devices is 2"] * is_wrong


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("layout.micro_batch_size", 8, "its global batch 8 is not a multiple of its micro batch 8 on 2 replicas"),
        ("devices.0.device_id", "GPU-1", "config.compute.device is 'cpu', but GPU-1 is an accelerator"),
        ("layout.num_nodes", 2, "its devices are on 1 nodes, but layout.num_nodes is 2"),
        ("devices.1.hostname", "n2", "its devices and its measured windows are of different nodes: n2"),
        ("devices.1.hostname", "n2", "its devices and its effective windows are of different nodes: n2"),
        ("energy_effective.channels.0.limit_w", 90.0, "channel made:0 has 200 W on average, but its board's limit is"),
    ],
)
def test_words_that_the_rest_of_the_record_contradicts_are_named(path, value, sentence):
    record = run_with_all()
    inside, last = place(record, path)
    inside[last] = value
    assert any(said.startswith(sentence) for said in contradictions(record))


@pytest.mark.parametrize("kind", ["measured", "effective"])
@pytest.mark.parametrize(
    ("edges", "sentence"),
    [
        ([(5.0, 35.0), (35.0, 65.0)], ""),
        ([(5.0, 35.0), (5.0, 35.0)], "{kind} windows of node n1 overlap"),
        ([(5.0, 65.0), (70.0, 70.0)], "a {kind} window of node n1 does not end after it begins"),
    ],
)
def test_windows_of_a_node_follow_each_other(kind, edges, sentence):
    record = run_with_all()
    [window] = [one for one in record["windows"] if one["kind"] == kind]
    record["windows"].remove(window)
    record["windows"] += [window | {"start_s": start_s, "end_s": end_s} for start_s, end_s in edges]
    assert contradictions(record) == [sentence.format(kind=kind)] * bool(sentence)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, ""),
        ({"of_ranks_s": ([None, 1.1], [0.7, True])}, ""),
        ({"step_s": 3.0}, "its steps with regions take 3 s, but a step takes 1 s on average"),
        ({"medians_s": (1.5, 1.5)}, "its regions' medians take 3 s, but a step takes 1 s on average"),
        (
            {"of_ranks_s": ([0.3, 1.4], [0.7, 1.1])},
            "its regions of one process take 2.5 s, but a step takes 1 s on average",
        ),
    ],
)
def test_regions_of_a_step_take_no_longer_than_it(changes, sentence):
    told = {"step_s": 1.0, "medians_s": (0.3, 0.7), "of_ranks_s": ([0.3, 0.3], [0.7, 0.7])} | changes
    regions = {
        name: {"median_s": median_s, "by_rank_s": of_ranks_s, "share_percent": 50.0}
        for name, median_s, of_ranks_s in zip(("IO", "Other"), told["medians_s"], told["of_ranks_s"], strict=True)
    }
    record = run(regions={"measured": {"steps": 60, "step_s": told["step_s"], "regions": regions}})
    assert contradictions(record) == [sentence] * bool(sentence)


def test_the_energy_of_a_channel_of_two_sources_is_no_more_than_both():
    energy_wh = run()["energy"]["energy_wh"]
    both = {"counter_wh": 0.6 * energy_wh, "integral_wh": 0.5 * energy_wh}
    assert contradictions(changed_energy(method="counter+integral", **both)) == []
    both["counter_wh"] = 0.4 * energy_wh
    assert contradictions(changed_energy(method="counter+integral", **both))


@pytest.mark.parametrize("method", ["counter", "counter+integral", "guess", None])
def test_an_energy_that_was_not_read_is_named(method):
    record = changed_energy(method=method, integral_wh=None, counter_wh=None)
    [sentence] = contradictions(record)
    assert sentence.startswith("energy.channels: made:0, ")


def test_channels_have_used_no_more_than_was_sampled_of_their_scope():
    sentence = "device_wh of energy.channels is 3.33333, more than the 2.5 of energy.sampled_by_scope"
    record = changed("energy.sampled_by_scope.device_wh", lambda value: 0.75 * value)
    assert contradictions(record) == [sentence]
    record["energy"]["channels"] = halves(record["energy"]["channels"][0], name="made:1")
    assert contradictions(record) == [sentence]


def halves(channel, **of_second):
    half = channel | {name: channel[name] / 2 for name in SUMMED}
    return [half, half | of_second]


SUMMED = ("energy_wh", "integral_wh", "uncertainty_wh", "idle_power_w", "samples", "missing")


@pytest.mark.parametrize("key", ["energy", "energy_effective"])
def test_a_channel_counts_once(key):
    record = run_with_all()
    [channel] = record[key]["channels"]
    half, other = halves(channel, hostname="n2")
    record[key]["channels"] = [half, other]
    assert contradictions(record) == []
    record[key]["channels"] = [half, half]
    assert contradictions(record) == [f"channel made:0 of node n1 occurs 2 times in {key}"]


@pytest.mark.parametrize("energy_wh", [0.0, -1.5])
@pytest.mark.parametrize(("scope", "is_wrong"), [("cpu", True), ("dram", False)])
def test_what_is_measured_uses_power(energy_wh, scope, is_wrong):
    record = run()
    [channel] = record["energy"]["channels"]
    one, idle = halves(channel, name="made:1", device_id="", scope=scope, energy_wh=energy_wh, integral_wh=energy_wh)
    record["energy"]["channels"] = [one, idle]
    said = f"the energy of channel made:1 must be greater than 0, got {energy_wh:g} Wh"
    assert contradictions(record) == [said] * is_wrong
    idle["estimated"] = True
    assert contradictions(record) == []


@pytest.mark.parametrize("scope", ["node", "supply"])
@pytest.mark.parametrize(("inside", "is_wrong"), [(0.8, False), (1.05, False), (1.2, True), (1000.0, True)])
def test_a_node_uses_no_less_than_its_devices(scope, inside, is_wrong):
    record = changed_energy(scope=scope)
    energy = record["energy"]
    energy |= {"power_scope": scope, "power_source": f"measured, {scope}"}
    energy["sampled_by_scope"] = {f"{scope}_wh": energy["energy_wh"], "device_wh": inside * energy["energy_wh"]}
    found = contradictions(record)
    assert len(found) == is_wrong
    assert all(f"less than the {inside * energy['energy_wh']:.4g} Wh of its devices" in one for one in found)
    del energy["random_wh"]
    energy["channels"][0]["uncertainty_wh"] = energy["uncertainty_wh"] = None
    assert len(contradictions(record)) == (inside > 1.1)
    energy["uncertainty_wh"] = 2000 * energy["energy_wh"]
    assert contradictions(record) == []


def test_an_energy_of_devices_is_not_held_against_that_of_their_modules():
    record = run()
    record["energy"]["sampled_by_scope"] = {"module_wh": 1000.0}
    assert contradictions(record) == []


@pytest.mark.parametrize("value", [0, -5])
@pytest.mark.parametrize("path", ["layout.num_nodes", "layout.global_batch_size"])
def test_a_number_that_cannot_be_is_named(path, value):
    record = run_with_all()
    record["metrics"]["step_time_median_s"] = STEP_S
    inside, last = place(record, path)
    inside[last] = value
    assert f"{path} must be greater than 0, got {value}" in contradictions(record)


@pytest.mark.parametrize(("step_s", "is_wrong"), [(-1.0, True), (0, True), (1e-6, False), (None, False)])
def test_a_step_takes_time(step_s, is_wrong):
    record = run(step_times_s=[*[1.0] * STEPS, step_s])
    assert contradictions(record) == ["each of step_times_s must be greater than 0"] * is_wrong


def test_more_than_the_device_has_is_named():
    record = run(system="another")
    record["metrics"] |= {"peak_tflops_per_device": 50.0, "mfu": record["metrics"]["tflops_per_device"] / 50.0}
    assert contradictions(record) == ["102% of the device's peak FLOP/s is more than 100 %"]
    record["metrics"] |= {"peak_tflops_per_device": record["metrics"]["tflops_per_device"], "mfu": 1.0}
    assert contradictions(record) == []
    record = changed("provenance.nodes.0.devices", lambda _: [{"uuid": "GPU-1", "power.limit": "50.00 W"}])
    assert contradictions(record) == ["channel made:0 has 200 W on average, but its board's limit is 100 W"]


@pytest.mark.parametrize(
    ("limit", "least_w"),
    [
        ({"limit_w": 90.0}, 90),
        ({"limits": {"power_limit_w": 90.0}}, 90),
        ({"limit_w": 1.0, "limits": {"power_limit_w": 90.0}}, 1),
        ({"limit_w": None, "limits": {"power_limit_w": -1}}, 0),
    ],
)
def test_a_limit_that_the_sensor_itself_has_told_is_one(limit, least_w):
    sentence = f"channel made:0 has 200 W on average, but its board's limit is {least_w} W"
    assert contradictions(changed_energy(**limit)) == [sentence] * bool(least_w)


@pytest.mark.parametrize("wrap", [lambda devices: devices, lambda devices: {"gpu_data": devices}])
@pytest.mark.parametrize(
    ("devices", "limit_w"),
    [
        ([{"limit": {"max_power": {"value": 45, "unit": "W"}}}, {"limit": {"max_power": {"value": 40}}}], 90),
        ([{"limit": {"max_power": {"value": 750, "unit": "W"}}}, {"limit": {"max_power": {"value": 40}}}], 0),
        ([{"limit": {"max_power": "N/A"}}, {"limit": "N/A"}], 0),
        ([{"uuid": "GPU-7", "power.limit": "45.00 W"}], 90),
    ],
)
def test_of_limits_that_name_no_device_of_the_record_the_highest_holds_for_all(devices, limit_w, wrap):
    record = changed("provenance.nodes.0.devices", lambda _: wrap(devices))
    sentence = f"channel made:0 has 200 W on average, but its board's limit is {limit_w} W"
    assert contradictions(record) == [sentence] * bool(limit_w)


def test_a_devices_own_limit_holds_however_its_id_is_written():
    own, other = "GPU-00000000-1111-2222-3333-444444444444", "GPU-9"
    record = changed_energy(device_id=own.upper().replace("GPU", "gpu"))
    limits = [{"uuid": own, "power.limit": "50.00 W"}, {"uuid": other, "power.limit": "500.00 W"}]
    record["provenance"]["nodes"] = [{"devices": limits}]
    assert contradictions(record) == ["channel made:0 has 200 W on average, but its board's limit is 100 W"]


@pytest.mark.parametrize(("more", "is_wrong"), [(0, False), (1, False), (3, True)])
def test_regions_read_no_more_than_their_windows_but_for_rounding(more, is_wrong):
    job = {"bytes": 1000, "reads": 1, "sequential_reads": 1}
    window = {"bytes": 1000, "reads": 1, "reading_s": 1.0, "by_region": {"IO": 600, "Other": 400 + more}}
    record = run(io={"job": job, "windows": {"measured": window}})
    said = f"the sum of io.windows.measured.by_region is {998 + more}, more than the 1000 of io.windows.measured.bytes"
    assert contradictions(record) == [said] * is_wrong


def test_a_run_that_failed_has_nothing_to_contradict():
    assert contradictions(run(status="failed") | {"metrics": {"tokens_per_s": -1.0}}) == []


def test_a_device_is_the_one_of_its_sensor_and_uses_no_more_memory_than_it_has():
    record = run(config={})
    record["devices"][0] |= {"device_id": "GPU-1", "name": "H200", "peak_memory_bytes": 2 * 2**30}
    [channel] = record["energy"]["channels"]
    report = {"uuid": "GPU-1", "name": "A100", "memory.total": "1024 MiB"}
    for source, reports in (("H100, by NVML", []), ("made up", [report]), ("H200, by NVML", [])):
        channel["source"], record["provenance"]["nodes"] = source, [{"devices": reports}]
        name = "A100" if reports else source.partition(",")[0]
        said = [f"device GPU-1 is stored as 'H200', but its sensor reports {name!r}"] * (name != "H200")
        said += ["device GPU-1 used 2 GiB of memory, but has 1 GiB"] * bool(reports)
        assert contradictions(record) == said
