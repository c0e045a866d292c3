"""Which points of a sweep are run: the system's own, or those that a user asks for."""

from __future__ import annotations

import pytest

from benchmarks.common.options import ConfigError
from caraml.errors import SiteError
from caraml.points import fitting_batches, fitting_devices, main, numbers
from caraml.workloads import workload

GPT = workload("llm_training")


def check(model, num_devices, micro_batch_size=None, benchmark="llm_training"):
    known = workload(benchmark)
    return lambda batch: known.check_point(model, num_devices, batch, micro_batch_size=micro_batch_size)


def test_of_a_systems_sweep_only_what_can_run_is_taken():
    assert fitting_batches(check("tiny", 2), [4, 8, 12, 16]) == [8, 16]
    assert fitting_batches(check("v1.5", 4, benchmark="resnet50"), [2, 4, 6, 16]) == [4, 16]
    assert fitting_devices(GPT, "800M", [1, 2, 4]) == [1, 2, 4]
    assert fitting_devices(GPT, "13B", [1, 2, 4, 8]) == [4, 8]
    assert fitting_devices(GPT, "175B", [1, 2, 4]) == [64]  # as many nodes as it takes


def test_a_sweep_of_which_nothing_can_run_is_refused():
    with pytest.raises(ConfigError, match="its layout takes 4 devices, and there are 2: use a smaller model"):
        fitting_devices(GPT, "13B", [1, 2], most=2)
    with pytest.raises(ConfigError, match="not a multiple"):
        fitting_batches(check("tiny", 2), [4])
    with pytest.raises(ConfigError, match="2 devices cannot be shared"):
        fitting_batches(check("13B", 2), [16])


def test_what_is_asked_for_takes_the_sweeps_place():
    assert fitting_devices(GPT, "800M", [1, 2, 4], [3]) == [3]
    assert fitting_batches(check("tiny", 2), [8, 16], [24]) == [24]


def test_what_is_asked_for_and_cannot_run_is_refused_and_not_left_out():
    with pytest.raises(ConfigError, match="6 devices were asked for: its layout takes a multiple of 4"):
        fitting_devices(GPT, "13B", [4, 8], [4, 6])
    with pytest.raises(ConfigError, match="3 devices were asked for, and there are 2"):
        fitting_devices(GPT, "tiny", [1, 2], [3], most=2)
    with pytest.raises(ConfigError, match="global_batch_size 20 is not a multiple"):
        fitting_batches(check("tiny", 2), [8, 16], [8, 20])


@pytest.mark.parametrize("text", ["8;16", "0", "-1", "many", "1.5", "8 x"])
def test_numbers_that_are_none_are_refused(text):
    with pytest.raises(SiteError, match=r"CARAML_BATCHES is .* give numbers of 1 or more"):
        numbers(text, "CARAML_BATCHES")


def test_numbers_are_in_order_and_each_once():
    assert numbers(" 16, 8 8\n4 ", "x") == [4, 8, 16]


def test_the_command_is_narrowed_by_the_environment(monkeypatch, capsys):
    asked = ["batches", "llm_training", "tiny", "--system", "CPU", "--among", "8 16 32", "--num-devices", "2"]
    assert main(asked) == 0
    assert capsys.readouterr().out == "8,16,32"
    monkeypatch.setenv("CARAML_BATCHES", "16 64")
    assert main(asked) == 0
    assert capsys.readouterr().out == "16,64"
    monkeypatch.setenv("CARAML_BATCHES", "4")
    assert main(asked) == 1
    assert capsys.readouterr().err.startswith("tiny on 2 devices: global_batch_size 4 is not")


@pytest.mark.parametrize(
    ("asked", "points"),
    [
        (["batches", "llm_training", "tiny"], "8,16"),
        (["batches", "llm_training", "117M", "--micro-batch-size", "1"], "2,4"),  # the block says so of this model
        (["batches", "resnet50", "ResNet-50 v1.5"], "16,32"),
        (["devices", "llm_training", "tiny"], "1,2"),
    ],
)
def test_without_a_sweep_the_systems_own_is_taken(asked, points, capsys):
    of_devices = ["--num-devices", "1"] if asked[0] == "batches" else []
    assert main([*asked, "--system", "CPU", *of_devices]) == 0
    assert capsys.readouterr().out == points


def test_a_workload_that_there_is_not_is_refused(capsys):
    assert main(["devices", "llm_trainin", "tiny", "--system", "CPU"]) == 1
    assert "there is no workload 'llm_trainin': did you mean 'llm_training'?" in capsys.readouterr().err
