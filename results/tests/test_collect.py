from __future__ import annotations

import json
import math
import os
import pickle
import sys
import uuid
from dataclasses import fields
from pathlib import Path

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.tests.conftest import run as run_program
from jpwr.trace.writers import read_trace
from record.files import csv_rows
from record.model import Channel, Energy, Record
from results.collect import collect, main
from results.join.nodes import read_sums
from results.tests.builder import (
    CPU,
    DRAM,
    GPU0,
    GPU1,
    MODULE,
    PACKAGE,
    JobFolder,
    make_record,
    on_gpus,
    on_nodes,
    window,
)
from results.tests.of_dicts import energy_rules

REPOSITORY = Path(__file__).resolve().parents[2]


def energy(job: JobFolder) -> dict:
    result = collect(job.path)
    assert result["status"] == "ok", result["error"]
    return result["energy"]


def test_energy_is_that_of_the_window_alone(job):
    # 100 W in the window and 7 W outside of it, 10 s: 1000 J.
    job.record().trace([CPU], lambda _, time_s: 100.0 if 9.5 <= time_s <= 20.5 else 7.0)
    found = energy(job)
    assert found["energy_wh"] == pytest.approx(1000 / 3600)
    assert found["avg_power_w"] == pytest.approx(100.0)
    assert found["tokens_per_wh"] == pytest.approx(1000 / (1000 / 3600))
    assert found["idle_power_w"] == pytest.approx(7.0)


def test_the_model_declares_what_a_result_states_of_its_energy(job):
    job.record().trace([CPU], lambda _, __: 36.0)
    found = energy(job)
    [channel] = found["channels"]
    assert found.keys() - {one.name for one in fields(Energy)} == {"tokens_per_wh"}
    assert channel.keys() | {"clocks"} == {one.name for one in fields(Channel)}


def test_an_epoch_costs_its_images_over_images_per_watt_hour(job):
    metrics = {"measured_images": 500, "images_per_epoch": 1_281_167}
    job.record(work_unit="images", metrics=metrics).trace([CPU], lambda _, __: 36.0)
    found = energy(job)
    assert found["images_per_wh"] == pytest.approx(500 / 0.1)
    assert found["epoch_wh"] == pytest.approx(1_281_167 / 5000)


@pytest.mark.parametrize("gone_at_s", [-1.0, 8.0])
def test_a_device_that_was_lost_takes_no_others_energy_along_and_has_none(job, gone_at_s):
    def power_w(channel: int, time_s: float) -> float:
        return math.nan if channel == 1 and time_s > gone_at_s else 300.0

    def counter_j(channel: int, time_s: float) -> float:
        return power_w(channel, time_s) * time_s

    lost = GPU1._replace(lacks="cannot be read (NVML: GPU is lost)")
    job.record(devices=on_gpus("GPU-0")).trace([GPU0, lost], power_w, counter_j)
    found = energy(job)
    assert [channel["name"] for channel in found["channels"]] == ["nvml:0"]
    assert found["energy_wh"] == pytest.approx(3000 / 3600)
    job.record(devices=on_gpus("GPU-0", "GPU-1"))
    result = collect(job.path)
    assert result["status"] == "failed"
    assert "channel nvml:1 has fewer than two readings of power in the window" in result["error"]
    assert result["error"].endswith(": cannot be read (NVML: GPU is lost)")


ON_GPU, ON_CPU = ({"config": {"compute": {"device": name}}} for name in ("gpu", "cpu"))
MODULES = [MODULE._replace(name=f"m{index}", device_id=f"GPU-{index}") for index in range(2)]
WITHOUT_IDS = [GPU0._replace(name=f"cray:accel{index}", device_id="") for index in range(2)]
NODE = ChannelInfo("ipmi", Scope.NODE, "ipmi")


@pytest.mark.parametrize(
    ("changes", "channels", "found"),
    [
        # the power of channel n is 100 + n; of accelerators, those count whose ids have trained
        ({"devices": on_gpus("GPU-1")}, [GPU0, GPU1._replace(mine=False)], (101.0, "device")),
        ({"devices": on_gpus("GPU-0")}, [MODULES[0], GPU0], (101.0, "device")),
        ({"devices": on_gpus("GPU-1")}, [*MODULES, PACKAGE], (101.0, "module")),
        ({"devices": on_gpus("GPU-1")}, [*WITHOUT_IDS, *MODULES], (103.0, "module")),
        ({"devices": on_gpus("GPU-2")}, [*MODULES, PACKAGE], "GPU-2 trained, but no power channel has its id"),
        ({"devices": on_gpus("GPU-1")}, [WITHOUT_IDS[0]], "GPU-1 trained, but no power channel has its id"),
        # without ids, all channels of the narrowest scope
        ({"devices": on_gpus("GPU-1")}, [MODULE, MODULE._replace(name="gh:Module 1"), PACKAGE], (201.0, "module")),
        ({"devices": on_gpus("GPU-7")}, [WITHOUT_IDS[0], NODE], (101.0, "node")),
        # the power of processors is none of an accelerator's work, and the other way round
        ({"devices": on_gpus("GPU-0")}, [PACKAGE], "no channel of an accelerator, which trained, but of cpu"),
        (ON_GPU, [PACKAGE], "no channel of an accelerator, which trained, but of cpu"),
        (ON_GPU, [PACKAGE, NODE], (101.0, "node")),
        (ON_CPU, [GPU0, PACKAGE, DRAM], (203.0, "cpu+dram")),
        (ON_CPU, [GPU0], (100.0, "device")),
        ({}, [ChannelInfo("rapl:dram", Scope.DRAM, "rapl")], "no energy: the trace has no channel"),
        ({}, [CPU._replace(mine=False)], "no energy: the trace has no channel"),
    ],
)
def test_the_channels_that_count_are_of_one_scope_and_of_what_trained(job, changes, channels, found):
    result = collect(job.record(**changes).trace(channels, lambda channel, _: 100.0 + channel).path)
    if isinstance(found, str):
        assert (result["status"], "energy" in result) == ("failed", False)
        assert found in result["error"]
    else:
        assert (result["energy"]["avg_power_w"], result["energy"]["power_scope"]) == (pytest.approx(found[0]), found[1])
    if channels == [GPU0]:
        words = "node n1: processors trained, but only the power of devices was measured: it is counted"
        assert result["energy"]["notes"] == [words]


@pytest.mark.parametrize(
    ("times_s", "power_w", "message"),
    [
        ([12.0, 15.0, 25.0], lambda _, __: 1.0, "not covered"),
        ([0.0, 25.0], lambda _, __: 1.0, "too few samples inside the window"),
        ([], lambda _, __: 1.0, "nothing"),
    ],
)
def test_a_window_that_was_not_sampled_is_a_failure(job, times_s, power_w, message):
    result = collect(job.record().trace([CPU._replace(limit_w=200.0)], power_w, times_s=times_s).path)
    assert result["status"] == "failed"
    assert message in result["error"]


def as_pytorch_writes(number: int) -> str:
    """The id of the stand-in's AMD GPU of that number: HIP's UUID is made of the letters of AMD's id."""
    letters = f"0f1182f2988c0a{0x40 + number:02x}"
    return f"GPU-{uuid.UUID(bytes=letters.encode())}"


@pytest.mark.parametrize(
    ("gpu", "trained", "channels", "power_w", "scope"),
    [
        ("MI250", (0,), ["rocm:0"], 300, "device"),
        ("MI250", (0, 1, 2, 3), ["rocm:0", "rocm:2"], 900, "device"),
        ("MI300X", (1, 0), ["rocm:1", "rocm:0"], 900, "device"),
        ("MI300A", (1,), ["rocm:1"], 600, "module"),
    ],
)
def test_pytorchs_ids_of_amd_gpus_find_their_channels(job, amdsmi_folder, gpu, trained, channels, power_w, scope):
    command = ("--methods", "rocm", "--interval", "10", "--df-out", "power/n1", "--", "bash", "-c", "rows 10")
    done = run_program(
        *(sys.executable, "-m", "jpwr", *command),
        cwd=job.path,
        LD_LIBRARY_PATH=str(amdsmi_folder),
        STAND_IN_SHAPE="constant",
        STAND_IN_GPU=gpu,
        TRACE="power/n1/trace.csv",
    )
    assert done.returncode == 0, done.stderr
    trace = read_trace(job.path / "power" / "n1" / "trace.csv")
    times_s = trace.series()[0].times_s
    of_trace = {**trace.meta, "start_s": times_s[1], "end_s": times_s[-2], "kind": "measured"}
    devices = on_gpus(*map(as_pytorch_writes, trained), hostname=trace.meta["hostname"])
    job.record(windows=[of_trace], devices=devices, layout={**make_record()["layout"], "num_devices": len(trained)})
    found = energy(job)
    assert [channel["name"] for channel in found["channels"]] == channels
    assert found["power_scope"] == scope
    # Of constant power the integral is exact, however late a reading comes.
    integral_wh = sum(channel["integral_wh"] for channel in found["channels"])
    assert integral_wh == pytest.approx(power_w * found["window_s"] / 3600)
    half = gpu == "MI250" and len(trained) == 1
    assert [channel["num_devices"] for channel in found["channels"]] == [2 if gpu == "MI250" else 1] * len(channels)
    assert [
        note.endswith("2 devices, of which 1 trained: the energy of all is counted") for note in found["notes"]
    ] == ([True] if half else [])


def test_what_is_counted_beyond_what_trained_is_said(job, capsys):
    card = GPU0._replace(device_id="GPU-0 GPU-1", num_devices=2)
    job.record(devices=on_gpus("GPU-1")).trace([card], lambda _, __: 500.0)
    assert main([str(job.path)]) == 0
    assert "nvml:0 of node n1 measures 2 devices, of which 1 trained" in capsys.readouterr().err
    job.record(devices=on_gpus("GPU-1", "GPU-0"))
    assert main([str(job.path)]) == 0
    assert capsys.readouterr().err == ""
    job.trace([MODULE], lambda _, __: 500.0)
    assert main([str(job.path)]) == 0
    words = f"channel {MODULE.name} of node n1 has no id of a device that trained: its energy is counted nevertheless"
    assert words in capsys.readouterr().err


def test_a_sound_counter_is_used_and_both_are_shown(job):
    # The sensor's power reads 3 % low.
    job.record().trace([GPU0], lambda _, __: 97.0, lambda _, time_s: 100.0 * time_s)
    [channel] = energy(job)["channels"]
    assert channel["method"] == "counter"
    assert channel["energy_wh"] == pytest.approx(1000 / 3600)
    assert channel["integral_wh"] == pytest.approx(970 / 3600)
    assert channel["integral_vs_counter"] == pytest.approx(-0.03)


def test_what_was_not_told_is_none_and_no_zero(job):
    # The second one's idle phase was not seen, and neither has a counter.
    plain = [one._replace(has_counter=False) for one in (GPU0, GPU1)]
    job.record(devices=on_gpus("GPU-0", "GPU-1"))
    job.trace(plain, lambda index, time_s: math.nan if index and time_s < 5 else 100.0)
    found = energy(job)
    assert found["idle_power_w"] is None
    assert [(one["idle_power_w"], one["counter_wh"], one["integral_vs_counter"]) for one in found["channels"]] == [
        (pytest.approx(100.0), None, None),
        (None, None, None),
    ]


@pytest.mark.parametrize(
    ("boots", "names", "power_w"),
    [
        (("b", "b"), ("n1", "n2"), 100.0),  # two samplers of one kernel: the one of that name
        (("b", "b"), ("n3", "n1"), 200.0),
        (("b", "b"), ("n3", "n4"), 100.0),  # a container's name is another one
        (("b", "other"), ("n3", "n1"), 100.0),
        (("", ""), ("n2", "n1"), 200.0),  # no boot id is known: the name decides
        (("", ""), ("n3", "n4"), None),
    ],
)
def test_a_windows_trace_is_that_of_its_boot_and_then_of_its_name(job, boots, names, power_w):
    job.record(windows=[window(boot_id=boots[0])])
    for boot_id, name, power in zip(boots, names, (100.0, 200.0), strict=True):
        job.trace([CPU], lambda _, __, power=power: power, hostname=name, boot_id=boot_id)
    result = collect(job.path)
    if power_w is None:
        assert result["error"] == "no energy: node n1 has no power trace of the boot that it trained under"
    else:
        assert result["energy"]["avg_power_w"] == pytest.approx(power_w)


def test_two_nodes_of_one_host_name_are_refused(job):
    job.record(**on_nodes([("n1", "boot-1"), ("n1", "boot-2")], ("GPU-0", "GPU-1"))).trace([GPU0], lambda *_: 100.0)
    assert collect(job.path)["error"] == "no energy: two nodes are called n1: give each node a host name of its own"


def package_j(die, time_s):
    """A package's counter in each die's zone, where it was renewed between the readings now and then."""
    return 60.0 * time_s + math.sin(time_s) + (0.06 if die and time_s % 10 == 0 else 0.0)


@pytest.mark.parametrize(
    ("counter_j", "counted"),
    [
        (package_j, [0]),
        (lambda die, time_s: package_j(die % 2, time_s) + (time_s if die > 1 else 0.0), [0, 2]),  # two packages
        (lambda die, time_s: package_j(0, time_s) + 0.001 * die * time_s, [0, 1, 2, 3]),  # dies of their own
    ],
)
def test_zones_that_show_one_counter_are_one_sensor(job, counter_j, counted):
    dies = [ChannelInfo(f"rapl:package-{i // 2}-die-{i % 2}", Scope.CPU, "RAPL", has_counter=True) for i in range(4)]
    job.record().trace(dies, lambda *_: 60.0, counter_j)
    found = energy(job)
    assert [channel["name"] for channel in found["channels"]] == [dies[index].name for index in counted]
    assert found["energy_wh"] == pytest.approx(len(counted) * 600 / 3600, rel=0.03)
    assert found["sampled_by_scope"]["cpu_wh"] == pytest.approx(found["energy_wh"])
    assert len(found["notes"]) == (len(counted) < 4)


@pytest.mark.parametrize("estimated_first", [False, True])
def test_what_several_methods_show_is_counted_once(job, estimated_first):
    channels = [PACKAGE, DRAM, ChannelInfo("cray:cpu", Scope.CPU, ""), ChannelInfo("cray:memory", Scope.DRAM, "")]
    channels.insert(0 if estimated_first else 4, CPU)
    power_w = {"estimate:cpu": 300.0, "rapl:package-0": 250.0, "rapl:package-0:dram": 30.0}
    job.record().trace(channels, lambda channel, _: power_w.get(channels[channel].name, 40.0))
    found = energy(job)
    assert [channel["name"] for channel in found["channels"]] == ["rapl:package-0", "rapl:package-0:dram"]
    assert found["avg_power_w"] == pytest.approx(280.0)
    [note] = found["notes"]
    assert "cray:cpu, cray:memory" in note
    assert note.endswith("show what others show, by another method or once more: not counted")


def test_one_channel_of_several_that_used_nothing_is_a_failure(job):
    job.record(devices=on_gpus("GPU-0", "GPU-1")).trace([GPU0, GPU1], lambda channel, _: [300.0, 0.0][channel])
    words = "no energy: channel nvml:1 measured 0Wh, but every run uses energy"
    assert collect(job.path)["error"] == words


@pytest.mark.parametrize(
    ("boots", "channel", "other"),
    [
        (("b", "b"), GPU0, GPU0),
        (("b", "b"), GPU0, GPU0._replace(name="nvml:3")),
        (("b", "b"), PACKAGE, PACKAGE),
        (("b1", "b2"), *[ChannelInfo("meter:chassis", Scope.SUPPLY, "", device_id="chassis-7")] * 2),
    ],
)
def test_a_sensor_that_two_traces_show_is_not_counted_twice(job, boots, channel, other):
    ids = [info.device_id if info.scope is Scope.DEVICE else "" for info in (channel, other)]
    job.record(**on_nodes([(f"pod-{index}", boot) for index, boot in enumerate(boots)], ids))
    for index, info in enumerate((channel, other)):
        job.trace([info], lambda *_: 300.0, hostname=f"pod-{index}", boot_id=boots[index])
    error = collect(job.path)["error"]
    assert error == f"no energy: channel {other.name} is one sensor, but counts for pod-0 and for pod-1"


def test_nodes_that_were_measured_at_different_places_have_no_sum(job):
    job.record(windows=[window(hostname=name, boot_id=name) for name in ("n1", "n2")])
    job.trace([GPU0._replace(device_id="")], lambda _, __: 300.0, boot_id="n1")
    job.trace([PACKAGE], lambda _, __: 50.0, hostname="n2", boot_id="n2")
    result = collect(job.path)
    assert result["status"] == "failed"
    assert "at different scopes, whose energies must not be added: device on n1, cpu on n2" in result["error"]


def test_two_nodes_are_summed_each_over_its_own_window(job):
    windows = [window(5.0, 15.0, boot_id="boot-n1"), window(10.0, 20.0, hostname="n2", boot_id="boot-n2")]
    layout = {"num_devices": 4, "num_nodes": 2, "global_batch_size": 8}
    job.record(windows=windows, devices=[], layout=layout)
    node = ChannelInfo("ipmi", Scope.NODE, "BMC")
    job.trace([node], lambda _, __: 200.0, hostname="n1", boot_id="boot-n1")
    job.trace([node], lambda _, __: 300.0, hostname="n2", boot_id="boot-n2")
    found = energy(job)
    assert found["avg_power_w"] == pytest.approx(500.0)
    assert found["energy_wh_per_device"] == pytest.approx(5000 / 3600 / 4)
    assert run(job)[0] == 0
    rows = csv_rows(job.path / "energy.csv", ["", "nodename", "rank", "ipmi"])
    assert [(row["nodename"], row["rank"], float(row["ipmi"])) for row in rows] == [
        ("n1", "0", pytest.approx(2000 / 3600)),
        ("n2", "1", pytest.approx(3000 / 3600)),
    ]


def test_windows_of_one_kind_are_summed_and_kinds_are_kept_apart(job):
    windows = [
        window(start, start + 2.5, kind)
        for start, kind in ((6.0, "measured"), (10.0, "effective"), (14.0, "measured"), (18.0, "effective"))
    ]
    job.record(windows=windows, metrics={"measured_tokens": 1000, "effective_tokens": 500})
    job.trace([CPU], lambda _, time_s: 200.0 if int((time_s - 5.5) // 4) % 2 == 0 else 100.0)
    result = collect(job.path)
    compute, effective = result["energy"], result["energy_effective"]
    assert (compute["avg_power_w"], effective["avg_power_w"]) == pytest.approx((200.0, 100.0))
    assert compute["window_s"] == effective["window_s"] == pytest.approx(5.0)
    assert compute["tokens_per_wh"] == pytest.approx(1000 / (200 * 5 / 3600))
    assert effective["tokens_per_wh"] == pytest.approx(500 / (100 * 5 / 3600))


def test_energy_of_a_checkpoint_is_over_its_own_windows_and_not_in_that_of_the_steps(job):
    kinds = (("measured", 5.0, 15.0), ("checkpoint", 16.0, 18.0), ("restore", 18.0, 19.0), ("checkpoint", 20.0, 22.0))
    windows = [window(start_s, end_s, kind) for kind, start_s, end_s in kinds]
    job.record(windows=windows, metrics=make_record()["metrics"] | {"checkpoint_rounds": 2})
    job.trace([CPU], lambda _, time_s: 690.0 if time_s < 15.5 else 300.0 if time_s < 25 else 100.0)
    found = energy(job)
    assert found["avg_power_w"] == pytest.approx(690.0, rel=0.01)
    assert found["checkpoint_write_wh"] == pytest.approx(300 * 2 / 3600)
    assert found["checkpoint_restore_wh"] == pytest.approx(300 * 0.5 / 3600)
    # Samples are 0.5 s apart, so that edges are a large part of windows of 2 s, and all of one of 1 s.
    shares = [
        found[f"checkpoint_{word}_uncertainty_wh"] / found[f"checkpoint_{word}_wh"] for word in ("write", "restore")
    ]
    assert 0.1 < shares[0] < 1 < shares[1]
    assert "elsewhere_w" not in found


def test_a_checkpoint_whose_energy_is_unknown_is_noted_and_fails_no_run(job):
    job.record(
        windows=[window(), window(90.0, 91.0, "checkpoint")],
        metrics=make_record()["metrics"] | {"checkpoint_rounds": 1},
    )
    job.trace([CPU], lambda _, __: 200.0)
    found = energy(job)
    assert "checkpoint_write_wh" not in found
    assert any("the energy of a checkpoint's write is unknown" in note for note in found["notes"])


def run(job: JobFolder, *flags: str) -> tuple[int, dict]:
    code = main([str(job.path), *flags])
    return code, json.loads((job.path / "result.json").read_text())


def test_the_command_writes_the_result_and_says_whether_it_is_good(job, capsys):
    job.record().trace([CPU], lambda _, __: 1.0)
    code, result = run(job)
    assert (code, result["status"]) == (0, "ok")
    job.record(status="failed", error="the loss did not fall")
    code, result = run(job)
    assert (code, result["status"], "energy" in result) == (1, "failed", False)
    assert "the loss did not fall" in capsys.readouterr().err


def test_what_the_scheduler_said_of_the_job_is_kept(job):
    slurm = {"job_id": "7", "partition": "gpu"}
    job.record(provenance={"container_digest": None, "missing": ["git_commit", "container_digest"]})
    job.trace([CPU], lambda *_: 1.0)
    (job.path / "result.json").write_text(json.dumps(make_record(status="unfinished", slurm=slurm, notes=["old"])))
    _, result = run(job)
    assert (result["slurm"], result["provenance"]["container_digest"]) == (slurm, None)
    assert (result["status"], "notes" in result) == ("ok", False)
    kubernetes = {"job": "caraml-7", "image_digest": "sha256:12"}
    (job.path / "result.json").write_text(json.dumps(make_record(status="unfinished", kubernetes=kubernetes)))
    _, result = run(job)
    assert result["kubernetes"] == kubernetes
    assert result["provenance"] == {"container_digest": "sha256:12", "missing": ["git_commit"]}
    assert result["metrics"]["tokens_per_s"] == 100.0


def unfinished(job: JobFolder) -> JobFolder:
    job.record(status="unfinished", error="", metrics={}, windows=[])
    (job.path / "record.json").rename(job.path / "result.json")
    return job


SPAWN = "spawn: error: rank 1 ended with exit code {}; the others were ended"
SIGKILL = "traceback : Signal 9 (SIGKILL) received by PID 7"
SIGABRT = "traceback : Signal 6 (SIGABRT) received by PID 7"


TORCHRUN = """E1124 07:21:02 1 torch/multiprocessing/api.py:1002] failed (exitcode: {code}) local_rank: 1
Traceback (most recent call last):
  File "torch/distributed/elastic/multiprocessing/errors/__init__.py", line 367, in wrapper
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
Failures:
[1]:
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 25837
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  {first}
  error_file: <N/A>
============================================================
"""


def torchrun(said_by_ranks: str, first: str) -> str:
    """Return the lines of two ranks that fail, and of the torchrun of another node, which fails later."""
    return said_by_ranks + TORCHRUN.format(code=1, first=first) + TORCHRUN.format(code=-15, first="Signal 15 (SIGTERM)")


@pytest.mark.parametrize(
    ("exit_code", "errors", "expected"),
    [
        (1, "RuntimeError: no such thing\ngood bye\n", "ended with exit code 1: RuntimeError: no such thing"),
        (3, "an Error of \udcff\nlast words\n", "ended with exit code 3: an Error of \ufffd"),
        (160, "", "ended by signal 32 (unknown)"),
        (1, torchrun("what(): an error\n", SIGABRT), "ended with exit code 1: what(): an error"),
        (1, torchrun("", "exitcode  : 3 (pid: 7)"), "ended with exit code 1: exitcode  : 3 (pid: 7)"),
        (2, f"llm: error: no such size\n{SPAWN.format(2)}", "ended with exit code 2: llm: error: no such size"),
        (1, f"{SIGKILL}\nan error of old\n", "ended with exit code 1: an error of old"),
    ],
)
def test_a_job_that_left_no_record_says_why(job, exit_code, errors, expected):
    (unfinished(job).path / "job.err").write_bytes(errors.encode(errors="surrogateescape"))
    code, result = run(job, "--exit-code", str(exit_code))
    assert code == 1
    assert (result["status"], result["error"]) == ("failed", expected)
    assert result["layout"]["global_batch_size"] == 8


def test_the_benchmarks_own_reason_comes_before_the_exit_code(job):
    unfinished(job).record(status="out_of_memory", error="rank 3: out of memory")
    _, result = run(job, "--exit-code", "1")
    assert (result["status"], result["error"]) == ("out_of_memory", "rank 3: out of memory")


def test_a_good_record_of_a_job_that_failed_later_is_a_failure(job):
    unfinished(job).record()
    _, result = run(job, "--exit-code", "1")
    assert result["status"] == "failed"


LONG_S = [i * 0.5 for i in range(141)]  # of a trace, to 70 s


def moved(job, start_s, end_s, busy_s=(5.0, 65.0), warm_w=690.0, estimated=False):
    """A run on one device that is at 690 W while it works and at 126 W else, with a window anywhere."""
    metrics = make_record()["metrics"] | {"measured_s": end_s - start_s}
    job.record(windows=[window(start_s, end_s)], metrics=metrics, devices=on_gpus("GPU-0"))
    power_w = lambda _, time_s: warm_w if time_s < start_s else 690.0 if busy_s[0] <= time_s < busy_s[1] else 126.0  # noqa: E731
    info = GPU0._replace(has_counter=False, estimated=estimated)
    return job.trace([info], power_w, times_s=LONG_S, started_s=1.0)


@pytest.mark.parametrize(
    ("start_s", "end_s", "busy_s", "warm_w", "estimated", "is_of_work"),
    [
        (15.0, 45.0, (5.0, 65.0), 690.0, False, True),
        (15.0, 45.0, (15.0, 45.0), 126.0, False, True),  # nor is what comes after
        (15.0, 45.0, (20.0, 65.0), 126.0, False, False),
        (15.0, 45.0, (20.0, 65.0), 126.0, True, True),  # an estimate rises with the work of others, too
        (2.0, 32.0, (35.0, 66.0), 126.0, False, False),
        (15.0, 45.0, (15.0, 65.0), 750.0, False, True),  # a device that gets hot has lower clocks
    ],
)
def test_a_window_without_the_work_is_known_by_the_rest_of_the_trace(
    job, start_s, end_s, busy_s, warm_w, estimated, is_of_work
):
    moved(job, start_s, end_s, busy_s, warm_w, estimated)
    energy = collect(job.path)["energy"]
    assert ("elsewhere_w" in energy) is not is_of_work
    broken = [
        rule.finding.words
        for rule in energy_rules({**make_record(), "energy": energy})
        if rule.finding.topic == "window of the work"
    ]
    assert len(broken) == (not is_of_work)


def test_turns_are_one_time_of_work(job):
    turns = [
        window(start_s, start_s + 5.0, kind)
        for kind, start_s in (("measured", 10.0), ("effective", 15.0), ("measured", 20.0), ("effective", 25.0))
    ]
    metrics = make_record()["metrics"] | {"effective_tokens": 500, "effective_s": 10.0, "effective_tokens_per_s": 50.0}
    job.record(windows=turns, metrics=metrics)
    power_w = lambda _, time_s: 690.0 if 10.0 <= time_s < 15.0 or 20.0 <= time_s < 25.0 else 300.0  # noqa: E731
    job.trace([PACKAGE], power_w, times_s=LONG_S)
    result = collect(job.path)
    assert not {"elsewhere_w"} & (result["energy"].keys() | result["energy_effective"].keys())


def test_a_scope_that_a_node_lacks_has_no_sum(job):
    job.record(**on_nodes([("n1", "boot-1"), ("n2", "boot-2")], ("GPU-0", "GPU-0")))
    node = ChannelInfo("ipmi:node", Scope.NODE, "DCMI")
    job.trace([GPU0, node], lambda channel, _: 100.0 + 50.0 * channel, lambda _, time_s: 100.0 * time_s)
    job.trace([GPU0], lambda *_: 100.0, lambda _, time_s: 100.0 * time_s, hostname="n2", boot_id="boot-2")
    sampled = collect(job.path)["energy"]["sampled_by_scope"]
    assert sampled == {"device_wh": pytest.approx(2000 / 3600), "node_wh": None}


def of_nodes(folder, nodes):
    """A job of so many nodes with two devices each, of which one has a failed reading."""
    folder.mkdir()
    job = JobFolder(folder)
    windows, devices = [], []
    for number in range(nodes):
        where = {"hostname": f"n{number}", "boot_id": f"boot-{number}"}
        gpus = [gpu._replace(device_id=f"{gpu.device_id}-{number}") for gpu in (GPU0, GPU1)]
        job.trace(gpus, lambda one, time_s: math.nan if one and time_s == 7.0 else 300.0 + 10 * one, **where)
        windows += [window(kind=kind, **where) for kind in ("measured", "effective")]
        devices += on_gpus(*(gpu.device_id for gpu in gpus), hostname=where["hostname"])
    devices = [{**device, "rank": rank} for rank, device in enumerate(devices)]
    layout = {**make_record()["layout"], "num_devices": 2 * nodes, "num_nodes": nodes}
    return job.record(windows=windows, devices=devices, layout=layout)


def test_traces_are_read_in_a_process_for_each_core_with_the_same_result(tmp_path, monkeypatch):
    job = of_nodes(tmp_path / "job", 3)
    found = []
    for cores in (1, 2):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process, cores=cores: set(range(cores)))
        found.append(collect(job.path))
    assert found[0] == found[1]
    assert found[0]["energy"]["avg_power_w"] == pytest.approx(3 * 610.0)
    assert found[0]["energy_effective"]["samples"] == found[0]["energy"]["samples"] == 6 * 21
    trace = job.path / "power" / "n1" / "trace.csv"
    trace.write_text(trace.read_text() + "oops\n")
    assert "n1/trace.csv is damaged in line 7" in collect(job.path)["error"]


def test_what_a_node_hands_on_does_not_grow_with_its_trace(tmp_path):
    sizes = []
    for rows in (71, 7100):
        job = JobFolder(tmp_path / str(rows))
        job.path.mkdir()
        job.record(devices=on_gpus("GPU-0"))
        job.trace([GPU0], lambda *_: 300.0, times_s=[35.0 * row / (rows - 1) for row in range(rows)])
        sizes.append(len(pickle.dumps(read_sums(job.path, Record.of(make_record())))))
    assert sizes[1] <= sizes[0] + 100
