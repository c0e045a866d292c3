"""Copies of a point that ran at once, as one result: its numbers, and what they are not mixed with."""

from __future__ import annotations

import json

import pytest

from results.collect import collect, failed_result
from results.exchange.archive import verify, write_archive
from results.find.records import RecordError
from results.predict.predict import groups_of
from results.show.page.first_page import first_page
from results.show.plots.style import styles_of_systems
from results.tests.builder import CPU, GPU0, GPU1, altered, make_record, result, window
from results.tests.of_dicts import by_point, contradictions
from results.verdicts.ranking import ranked_points

UUIDS = [f"GPU-{number:08d}-0000-0000-0000-000000000000" for number in (1, 2)]
GPUS = [info._replace(device_id=one) for info, one in zip((GPU0, GPU1), UUIDS, strict=True)]
PLANNED = {
    "status": "unfinished",
    "layout": {"num_devices": 2, "num_nodes": 1, "global_batch_size": 16},
    "fill": {"copies": 2, "devices_per_copy": 1},
}


def copy_of(tokens_per_s=100.0, start_s=10.0, end_s=20.0, device_id="", hostname="n1", ahead_s=0.0, **changes):
    """A copy's record, from a node whose monotonic clock began `ahead_s` earlier than that of another."""
    base = make_record()
    own = window(start_s, end_s, hostname=hostname, boot_id=f"boot-of-{hostname}")
    own |= {key: own[key] - ahead_s for key in ("start_epoch_s", "end_epoch_s")}
    time_s = end_s - start_s
    return base | {
        "metrics": {
            "measured_s": time_s,
            "measured_steps": tokens_per_s * time_s / 1000,
            "measured_tokens": tokens_per_s * time_s,
            "tokens_per_s": tokens_per_s,
            "tokens_per_s_per_device": tokens_per_s,
        },
        "step_times_s": [1000 / tokens_per_s],
        "windows": [own],
        "devices": [{**base["devices"][0], "hostname": hostname, "device_id": device_id}],
        **changes,
    }


@pytest.fixture
def copies(job):
    """Write the copies of a run, and return the job's folder."""

    def write(*records):
        for number, record in enumerate(records, 1):
            folder = job.path / f"copy_{number}"
            folder.mkdir()
            if record:
                (folder / "record.json").write_text(json.dumps(record))
        (job.path / "result.json").write_text(json.dumps(make_record() | PLANNED))
        return job

    return write


def plan(job, **layout):
    planned = make_record() | PLANNED | {"layout": PLANNED["layout"] | layout}
    (job.path / "result.json").write_text(json.dumps(planned))


def of_two_gpus(copies):
    """Copies on two GPUs of 100 W and 300 W in the common window from 11 s to 20 s; elsewhere both have 200 W."""
    job = copies(
        copy_of(100.0, 10.0, 20.0, UUIDS[0]),
        copy_of(80.0, 11.0, 21.0, UUIDS[1]),
    )
    return for_two_gpus(job)


def for_two_gpus(job, regions=()):
    inside = [100.0, 300.0]
    return job.trace(
        [info._replace(has_counter=False, accuracy=0.05, accuracy_from="assumed") for info in GPUS],
        lambda channel, time_s: inside[channel] if 10.9 < time_s < 20.1 else 200.0,
        boot_id="boot-of-n1",
        times_s=[i * 0.1 for i in range(350)],
        regions=regions,
    )


def test_the_group_has_the_slowest_copy_times_their_number(copies):
    found = collect(of_two_gpus(copies).path)
    assert (found["status"], found["error"]) == ("ok", "")
    assert found["metrics"]["tokens_per_s"] == 160.0
    assert found["metrics"]["tokens_per_s_per_device"] == 80.0
    assert found["metrics"]["measured_s"] == pytest.approx(9.0)
    assert PLANNED["layout"].items() <= found["layout"].items()
    assert [device["rank"] for device in found["devices"]] == [0, 1]
    fill = found["fill"]
    assert (fill["copies"], fill["devices_per_copy"], fill["slowest"]) == (2, 1, 80.0)
    assert fill["spread_percent"] == pytest.approx(20.0)
    assert fill["common_s"] == pytest.approx(9.0)
    assert [(one["copy"], one["rate"]) for one in fill["per_copy"]] == [(1, 100.0), (2, 80.0)]
    # Power and energy are those of the common window.
    assert found["energy"]["avg_power_w"] == pytest.approx(400.0, rel=0.01)
    assert found["energy"]["tokens_per_wh"] == pytest.approx(160.0 / 400.0 * 3600, rel=0.01)


@pytest.mark.parametrize("channel", [CPU, GPUS[0]._replace(device_id=" ".join(UUIDS), num_devices=2)])
def test_a_sensor_that_copies_share_counts_once(channel, copies):
    ids = [""] * 2 if channel is CPU else UUIDS
    job = copies(copy_of(device_id=ids[0]), copy_of(start_s=10.01, device_id=ids[1]))
    found = collect(job.trace([channel], lambda _, __: 50.0, boot_id="boot-of-n1").path)
    assert found["status"] == "ok", found["error"]
    assert found["energy"]["avg_power_w"] == pytest.approx(50.0)


def test_windows_with_too_little_in_common_are_refused(copies):
    job = copies(copy_of(start_s=10.0, end_s=20.0), copy_of(start_s=12.5, end_s=22.5)).trace([CPU], lambda _, __: 50.0)
    found = collect(job.path)
    assert found["status"] == "failed"
    assert (
        "the windows of the 2 copies have 7.5 s in common, at least 80% of the longest one's 10.0 s" in found["error"]
    )
    assert found["layout"] == PLANNED["layout"]
    assert "energy" not in found


def test_windows_of_several_nodes_are_compared_by_their_wall_clocks(copies):
    job = copies(copy_of(hostname="n1"), copy_of(60.0, 1011.0, 1020.5, hostname="n2", ahead_s=1000.0))
    plan(job, num_nodes=2)
    for hostname, first_s in (("n1", 0.0), ("n2", 1000.0)):
        times_s = [first_s + 0.5 * i for i in range(71)]
        boot_id = f"boot-of-{hostname}"
        info = CPU._replace(device_id=hostname)
        job.trace([info], lambda _, __: 50.0, times_s=times_s, hostname=hostname, boot_id=boot_id, started_s=first_s)
    found = collect(job.path)
    assert found["status"] == "ok", found["error"]
    windows = [(one["hostname"], one["start_s"], one["end_s"]) for one in found["windows"]]
    assert windows == [("n1", pytest.approx(11.0), 20.0), ("n2", 1011.0, pytest.approx(1020.0))]
    assert found["energy"]["avg_power_w"] == pytest.approx(100.0)
    assert list(contradictions(found)) == []


def test_a_copy_that_failed_is_the_result_with_its_cause(copies):
    bad = copy_of(status="out_of_memory", error="rank 0: no memory")
    job = copies(copy_of(), bad)
    for found in (collect(job.path), failed_by(job, "2 1", 1)):
        assert (found["status"], found["error"]) == ("out_of_memory", "copy 2: rank 0: no memory")
        assert (found["layout"], found["fill"]) == (PLANNED["layout"], PLANNED["fill"])


def failed_by(job, failed, exit_code, reason=""):
    (job.path / "copies").mkdir(exist_ok=True)
    (job.path / "copies" / "failed").write_text(f"{failed}\n")
    return failed_result(job.path, exit_code, reason)


def test_a_copy_that_left_no_record_is_named_with_its_last_error(copies):
    job = copies(copy_of(), None)
    (job.path / "copy_2" / "job.err").write_text("loading\nRuntimeError: a wrong number\n")
    found = failed_by(job, "2 7", 7, reason="all nodes ended")
    assert found["error"] == "copy 2: ended with exit code 7: RuntimeError: a wrong number"
    (job.path / "copies" / "failed").unlink()  # no copy is known to have failed
    assert failed_result(job.path, 137, "")["error"] == "ended by signal 9 (SIGKILL)"


def test_copies_of_different_options_are_no_group(copies):
    job = copies(copy_of(), copy_of(config={"compute": {"precision": "fp8"}}))
    with pytest.raises(RecordError, match="the copies were started with different options"):
        collect(job.path)


def test_an_archive_of_copies_is_checked_with_their_windows(copies, tmp_path_factory):
    workflow = tmp_path_factory.mktemp("workflow")
    (workflow / "llm.yaml").write_text("name: llm\n")

    def problems(job, again=True):
        if again:
            (job.path / "result.json").write_text(json.dumps(collect(job.path)))
        archive = tmp_path_factory.mktemp("archive") / "a.zip"
        assert write_archive([job.path], workflow, archive) == 1
        return verify(archive).problems

    job = of_two_gpus(copies)
    assert [one.partition(" from ")[0].partition(": ")[2] for one in problems(job)] == [
        f"its measured window of copy {copy}" for copy in (1, 2)
    ]
    for_two_gpus(job, [(f"measured window of copy {copy}", 9.0 + copy, 19.0 + copy) for copy in (1, 2)])
    assert problems(job) == []
    (job.path / "copy_3").mkdir()
    (job.path / "copy_3" / "record.json").write_text(json.dumps(copy_of(50.0, 10.5, 20.5)))
    [found] = problems(job, again=False)
    assert "it is stored as ok, but 2 copies were planned, and the run has copy_3, too: count them all" in found


STEPS = [0.1, 0.11, 0.12, 0.13]


@pytest.mark.parametrize(
    ("first", "second", "others", "planned", "words"),
    [
        ({}, {}, (), {}, ""),
        ({"step_times_s": STEPS}, {"step_times_s": [0.1, 0.115, 0.125, 0.135]}, (), {}, ""),
        # one copy counted twice: as it was, or with another window or some other steps
        ({"step_times_s": STEPS}, {"step_times_s": [*STEPS[:3], 0.2]}, (), {}, "copy 2 has the record of copy 1"),
        ({"run_id": "one"}, {"run_id": "one"}, (), {}, "copy 2 has the record of copy 1"),
        # a plan of fewer copies than ran
        ({}, {}, ("copy_3",), {}, "2 copies were planned, and the run has copy_3, too"),
        # copies on other nodes, or on other devices, than planned
        ({}, {}, (), {"num_nodes": 2}, "ran with num_nodes 1, but 2 was planned"),
        ({}, {"hostname": "n2"}, (), {}, "ran with num_nodes 2, but 1 was planned"),
    ],
)
def test_each_copy_of_the_plan_counts_once(first, second, others, planned, words, copies):
    job = copies(
        copy_of(**{"device_id": UUIDS[0], **first}),
        copy_of(**{"tokens_per_s": 80.0, "start_s": 11.0, "end_s": 21.0, "device_id": UUIDS[1], **second}),
    )
    for name in others:
        (job.path / name).mkdir()
    plan(job, **planned)
    found = collect(for_two_gpus(job).path)
    assert (found["status"] == "failed" and words in found["error"]) if words else found["status"] == "ok", found[
        "error"
    ]


THIRD = GPU0._replace(name="nvml:2", device_id="GPU-00000003-0000-0000-0000-000000000000", has_counter=False)


@pytest.mark.parametrize(("third", "is_idle"), [(THIRD, True), (THIRD._replace(mine=False), False), (CPU, False)])
def test_a_device_that_the_sampler_alone_saw_idle_is_told(third, is_idle, copies):
    job = copies(copy_of(device_id=UUIDS[0]), copy_of(start_s=10.01, device_id=UUIDS[1]))
    infos = [*(info._replace(has_counter=False) for info in GPUS), third]
    found = collect(job.trace(infos, lambda _, __: 100.0, boot_id="boot-of-n1").path)
    assert ("no copy used nvml:2 of node n1" in found["error"]) == is_idle
    assert (found["status"] == "failed") == is_idle


def on_node(devices):
    """Changes of a record with what the vendor's tool reports of its node."""
    return lambda _: {"provenance.nodes": [{"hostname": "n1", "devices": devices}]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda _: {}, ""),
        (on_node([{"uuid": one} for one in UUIDS]), ""),
        (
            lambda found: {"fill.per_copy.1.windows": found["fill"]["per_copy"][0]["windows"]},
            "copies 1 and 2 have the same window from 10.000000 s to 20.000000 s",
        ),
        (lambda _: {"devices.1.device_id": UUIDS[0].upper()}, "have the same device GPU-00000001-"),
        (lambda _: {"fill.per_copy": []}, "fill.copies is 2, but 2 were started, and fill.per_copy lists 0"),
        (lambda _: {"devices.1.hostname": "n2"}, "copy 2 has devices of node n2, but windows of node n1"),
        (on_node({"gpu_data": [{"gpu": 0}] * 8}), "node n1 has 8 devices, but its copies"),
        (
            lambda found: {"devices": [*found["devices"], found["devices"][0] | {"hostname": "n2"}]},
            "its copies are not spread evenly over the nodes: 2 devices of n1, 1 devices of n2",
        ),
    ],
)
def test_a_record_of_copies_shows_which_do_not_fill_the_machine(change, words, copies):
    record = collect(of_two_gpus(copies).path)
    found = contradictions(altered(record, change(record)))
    assert any(words in one for one in found) if words else found == [], found


def filled(number=2, **changes):
    """A group of copies, and an ordinary run of the same number of devices and batch."""
    ordinary = result(devices=number, batch=8 * number, **changes)
    fill = {"copies": number, "devices_per_copy": 1, "slowest": ordinary["metrics"]["tokens_per_s"] / number}
    fill |= {"spread_percent": 3.0, "common_s": 60.0, "per_copy": []}
    return ordinary | {"fill": fill, "variant": [f"filled: slowest copy x {number}"]}


def test_runs_of_another_fill_are_no_repeats():
    runs = [filled(2), filled(2), filled(4), result(devices=2, batch=16)]
    points = by_point(runs)
    assert sorted((one.point.copies, len(one.good)) for one in points) == [(0, 1), (2, 2), (4, 1)]
    assert {str(one.point).rpartition(", ")[2] for one in points} == {"2 copies", "4 copies", "global batch 16"}
    bad = filled(2) | {"status": "failed", "error": "why"}
    assert sorted((one.point.copies, len(one.bad)) for one in by_point([*runs, bad])) == [(0, 0), (2, 1), (4, 0)]


def test_filled_nodes_are_not_ranked_with_other_runs_nor_predicted_from():
    mixed = by_point([filled(2, tokens_per_s=900.0), result(devices=2, batch=16)])
    assert [one.point.copies for one in ranked_points(mixed)] == [0]
    assert [one.point.copies for group in groups_of(mixed) for one in group.results] == [0]
    assert [one.point.copies for one in ranked_points(by_point([filled(2)]))] == [2]
    both = by_point([filled(2, tokens_per_s=900.0), result(devices=1, batch=8)])
    assert first_page([("W", both)], styles_of_systems(both)).columns[0].group == "W, at 1 device, batch 8"
    alone = by_point([filled(2)])
    place = first_page([("W", alone)], styles_of_systems(alone)).columns[0].group
    assert place == "W, at 2 devices, batch 16, 2 copies"
