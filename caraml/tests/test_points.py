"""Which points of a sweep are run: the system's own, or those that a user asks for."""

from __future__ import annotations

import re

import pytest

from benchmarks.common.options import ConfigError
from caraml.errors import SiteError
from caraml.plan.plan import plan
from caraml.plan.points import fitting_batches, fitting_devices, sweep
from caraml.plan.site import read_site
from caraml.plan.systems import read_system
from caraml.plan.workloads import workload

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


def test_what_is_asked_for_and_cannot_run_is_refused_and_not_left_out():
    with pytest.raises(ConfigError, match="6 devices were asked for: its layout takes a multiple of 4"):
        fitting_devices(GPT, "13B", [4, 8], [4, 6])
    with pytest.raises(ConfigError, match="3 devices were asked for, and there are 2"):
        fitting_devices(GPT, "tiny", [1, 2], [3], most=2)
    with pytest.raises(ConfigError, match="global_batch_size 20 is not a multiple"):
        fitting_batches(check("tiny", 2), [8, 16], [8, 20])


def of(benchmark, model, system="CPU", **environ):
    return sweep(workload(benchmark), read_system(system), read_site(system, environ=environ), model)


@pytest.mark.parametrize(
    ("benchmark", "model", "system", "points"),
    [
        ("llm_training", "tiny", "CPU", {1: [4, 8], 2: [8]}),
        ("llm_training", "117M", "CPU", {1: [2, 4], 2: [2, 4]}),  # the block says so of this model
        ("resnet50", "v1.5", "CPU", {1: [16], 2: [16]}),
    ],
)
def test_a_systems_own_sweep_is_taken(benchmark, model, system, points):
    assert of(benchmark, model, system) == points


def test_the_gate_has_one_batch_and_the_options_of_its_model():
    assert plan("CPU", "llm_training")["batches"] == {"1": "4,8", "2": "8"}
    found = plan("CPU", "llm_training", tags=["gate"])
    assert found["batches"] == {"1": "8", "2": "8"}
    assert "--measured-steps 48 " in found["common_flags"]
    assert " --data-seed 1 --learning-rate 1e-3 " in found["common_flags"]
    large = plan("A100", "llm_training", "800M", tags=["gate"])["common_flags"]
    assert "--measured-steps 300 " in large
    assert large.endswith(" --data-seed 1 --record record.json")
    with pytest.raises(SiteError, match="the tags fill and gate were asked for, which exclude each other"):
        plan("CPU", "llm_training", tags=["fill", "gate"])


def test_a_sweep_is_narrowed_by_the_environment():
    assert of("llm_training", "tiny", CARAML_DEVICES="2", CARAML_BATCHES="16 64") == {2: [16, 64]}
    with pytest.raises(SiteError, match=r"^tiny on 1 device: global_batch_size 3 is not"):
        of("llm_training", "tiny", CARAML_BATCHES="3")
    with pytest.raises(SiteError, match=r"^tiny: 3 devices were asked for, and there are 2"):
        of("llm_training", "tiny", CARAML_DEVICES="3")
    with pytest.raises(SiteError, match=r"^Node check: 3 devices were asked for"):
        of("node_check", "", CARAML_DEVICES="3")


@pytest.mark.parametrize(
    ("system", "tags", "environ", "message"),
    [
        ("CPU", ["effective"], {}, "the tags fill and effective were asked for, which exclude each other"),
        ("A100", ["io", "shared"], {}, "the tags fill and io were asked for"),
        ("GC200", [], {}, "the tag fill was asked for on Graphcore GC200, whose devices copies cannot share out"),
        ("CPU", [], {"FILL_NODES": "2"}, "CARAML_FILL_NODES is 2, but jobs by bash use this machine alone"),
        ("A100", [], {"FILL_NODES": "all"}, "fill_nodes is 'all', but must be a whole number from 1 on"),
    ],
)
def test_nodes_that_copies_cannot_fill_are_refused(system, tags, environ, message, monkeypatch):
    for name, value in environ.items():
        monkeypatch.setenv(f"CARAML_{name}", value)
    with pytest.raises(SiteError, match=message):
        plan(system, "resnet50", tags=["fill", *tags])


@pytest.mark.parametrize(
    ("system", "tags", "flags", "model", "found"),
    [
        ("CPU", ["to-loss"], "", "", "--to-loss 7.2"),
        ("CPU", ["to-loss", "synthetic"], "", "tiny", "--to-loss 7.2"),
        ("CPU", [], "", "", ""),
        (
            "A100",
            ["to-loss", "oscar"],
            "--to-loss 3.3 --max-measured-s 86400",
            "800M",
            "--to-loss 3.3",
        ),  # the site's own
        ("A100", ["to-loss"], "", "", "no target loss is known for 800M on this data: state one, such as CARAML_LLM_T"),
        ("CPU", ["to-loss", "oscar"], "", "", "no target loss is known for tiny on this data"),
        ("CPU", ["to-loss", "gate"], "", "", "the tags gate and to-loss were asked for, which exclude each other"),
        ("CPU", ["to-loss", "fill"], "", "", "the tags fill and to-loss were asked for, which exclude each other"),
    ],
)
def test_the_target_loss_is_that_of_the_model_or_of_the_site(system, tags, flags, model, found, monkeypatch):
    monkeypatch.setenv("CARAML_LLM_TRAINING_FLAGS", flags)
    if not found.startswith("--") and found:
        with pytest.raises(SiteError, match=found):
            plan(system, "llm_training", model, tags=tags)
    else:
        assert re.findall(r"--to-loss \S+", plan(system, "llm_training", model, tags=tags)["common_flags"]) == [
            *filter(None, [found])
        ]


def test_a_server_has_no_copies():
    with pytest.raises(SiteError, match="llm_inference has no tag 'fill'"):
        plan("CPU", "llm_inference", tags=["fill"])


def test_the_nodes_to_fill_are_those_of_the_point_unless_stated(monkeypatch):
    assert plan("A100", "cosmoflow", tags=["fill"])["fill_nodes"] == 0
    monkeypatch.setenv("CARAML_FILL_NODES", "16")
    assert plan("A100", "cosmoflow", tags=["fill"])["fill_nodes"] == 16
