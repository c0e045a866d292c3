"""Which points of a sweep are run: the system's own, or those that a user asks for."""

from __future__ import annotations

import re
from contextlib import nullcontext

import pytest

from benchmarks.common.options import ConfigError
from caraml.errors import SiteError
from caraml.plan.plan import plan
from caraml.plan.points import fitting_batches, fitting_devices, sweep
from caraml.plan.site import read_site
from caraml.plan.systems import read_system
from caraml.plan.workloads import workload

GPT = workload("llm_training")


def is_or_raises(found):
    """Return what expects an error with a text, or none for another value."""
    return pytest.raises(ConfigError, match=found) if isinstance(found, str) else nullcontext()


@pytest.mark.parametrize(
    ("model", "devices", "asked", "most", "found"),
    [
        ("800M", [1, 2, 4], [], None, [1, 2, 4]),
        ("175B", [1, 2, 4], [], None, [64]),  # as many nodes as it takes
        ("13B", [1, 2], [], 2, "its layout takes 4 devices, and there are 2: use a smaller model"),
        ("13B", [4, 8], [4, 6], None, "6 devices were asked for: its layout takes a multiple of 4"),
        ("tiny", [1, 2], [3], 2, "3 devices were asked for, and there are 2"),
    ],
)
def test_devices_fit_a_models_layout(model, devices, asked, most, found):
    with is_or_raises(found):
        assert fitting_devices(GPT, model, devices, asked, most) == found


@pytest.mark.parametrize(
    ("benchmark", "model", "devices", "batches", "asked", "found"),
    [
        ("llm_training", "tiny", 2, [4, 8, 12, 16], [], [8, 16]),
        ("llm_training", "tiny", 2, [4], [], "not a multiple"),
        ("llm_training", "13B", 2, [16], [], "2 devices cannot be shared"),
        ("llm_training", "tiny", 2, [8, 16], [8, 20], "global_batch_size 20 is not a multiple"),  # and not left out
    ],
)
def test_batches_can_be_shared(benchmark, model, devices, batches, asked, found):
    known = workload(benchmark)
    with is_or_raises(found):
        check = lambda batch: known.check_point(model, devices, batch, micro_batch_size=None)  # noqa: E731
        assert fitting_batches(check, batches, asked) == found


def of(benchmark, model, system="CPU", **environ):
    return sweep(workload(benchmark), read_system(system), read_site(system, environ=environ), model)


def test_the_gate_has_one_batch_and_the_options_of_its_model():
    assert plan("CPU", "llm_training")["batches"] == {"1": "4,8", "2": "8"}
    found = plan("CPU", "llm_training", tags=["gate"])
    assert found["batches"] == {"1": "8", "2": "8"}
    assert "--measured-steps 48 " in found["common_flags"]
    assert " --data-seed 1 --learning-rate 1e-3 " in found["common_flags"]
    large = plan("A100", "llm_training", "800M", tags=["gate"])["common_flags"]
    assert "--measured-steps 300 " in large
    assert large.endswith(" --data-seed 1 --record record.json")


def test_a_tag_asks_for_checkpoints_in_the_runs_own_folder():
    assert ' --checkpoint "checkpoint"' in plan("CPU", "resnet50", tags=["checkpoint"])["common_flags"]


def test_a_sweep_is_narrowed_by_the_environment():
    assert of("llm_training", "tiny", CARAML_DEVICES="2", CARAML_BATCHES="16 64") == {2: [16, 64]}
    with pytest.raises(SiteError, match=r"^tiny on 1 device: global_batch_size 3 is not"):
        of("llm_training", "tiny", CARAML_BATCHES="3")
    with pytest.raises(SiteError, match=r"^tiny: 3 devices were asked for, and there are 2"):
        of("llm_training", "tiny", CARAML_DEVICES="3")
    with pytest.raises(SiteError, match=r"^Node check: 3 devices were asked for"):
        of("node_check", "", CARAML_DEVICES="3")


EXCLUDED = "were asked for, which exclude each other"
TO_LOSS = "--to-loss 3.3 --max-measured-s 86400"


@pytest.mark.parametrize(
    ("system", "benchmark", "tags", "fill_nodes", "message"),
    [
        ("CPU", "resnet50", "fill effective", "", f"the tags fill and effective {EXCLUDED}"),
        ("CPU", "llm_training", "fill gate", "", f"the tags fill and gate {EXCLUDED}"),
        ("A100", "llm_training", "observe clocks", "", f"the tags observe and clocks {EXCLUDED}"),
        ("CPU", "llm_training", "gate to-loss", "", f"the tags gate and to-loss {EXCLUDED}"),
        ("GC200", "resnet50", "fill", "", "fill was asked for on Graphcore GC200, whose devices copies cannot share"),
        ("CPU", "resnet50", "fill", "2", "CARAML_FILL_NODES is 2, but jobs by bash use this machine alone"),
        ("A100", "resnet50", "fill", "all", "fill_nodes is 'all', but must be a whole number from 1 on"),
        ("A100", "llm_training", "to-loss", "", "no target loss is known for 800M on this data: state one, such as"),
        ("CPU", "llm_training", "to-loss oscar", "", "no target loss is known for tiny on this data"),
    ],
)
def test_what_cannot_be_planned_is_refused(system, benchmark, tags, fill_nodes, message, monkeypatch):
    monkeypatch.setenv("CARAML_FILL_NODES", fill_nodes)
    with pytest.raises(SiteError, match=message):
        plan(system, benchmark, tags=tags.split())


@pytest.mark.parametrize(
    ("system", "tags", "flags", "model", "found"),
    [
        ("CPU", "to-loss", "", "", ["--to-loss 7.2"]),
        ("CPU", "", "", "", []),
        ("A100", "to-loss oscar", TO_LOSS, "800M", ["--to-loss 3.3"]),  # the site's own
    ],
)
def test_the_target_loss_is_that_of_the_model_or_of_the_site(system, tags, flags, model, found, monkeypatch):
    monkeypatch.setenv("CARAML_LLM_TRAINING_FLAGS", flags)
    planned = plan(system, "llm_training", model, tags=tags.split())
    assert re.findall(r"--to-loss \S+", planned["common_flags"]) == found
