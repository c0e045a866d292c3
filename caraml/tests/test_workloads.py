"""What a workflow is told of a workload, and files that describe none."""

from __future__ import annotations

import ast
import re

import pytest

from caraml.cli import main
from caraml.errors import SiteError
from caraml.plan.plan import plan
from caraml.plan.systems import read_refused, read_system
from caraml.plan.workloads import Workload, reason_against
from results.files import workloads
from results.files.systems import read_systems
from results.files.workloads import Facts, facts_about
from results.find.records import RecordError

MADE_UP = """
title: Sums
workflow: sums
work_unit: numbers
framework: pytorch
batches: 2 4
"""


@pytest.fixture
def described(tmp_path, monkeypatch):
    """Whatever is written of a workload `sums`, read."""
    monkeypatch.setattr(workloads, "FOLDERS", tmp_path)
    (tmp_path / "sums").mkdir()

    def read(text):
        (tmp_path / "sums" / "workload.yaml").write_text(text)
        workloads.workloads.cache_clear()
        return workloads.workloads()["sums"]

    yield read
    monkeypatch.undo()
    workloads.workloads.cache_clear()


def test_a_workflow_is_told_what_the_workloads_file_says():
    planned = plan("GC200", "llm_training")
    assert (planned["work_unit"], planned["process_starter"]) == ("tokens", "python3 -m torch.distributed.run")
    # The system's block has both.
    assert (planned["model"], planned["micro_batch_size"]) == ("117M", "1")
    assert plan("CPU", "resnet50")["default_image_size"] == "64"


@pytest.mark.parametrize(
    ("workflow", "tags", "message"),
    [
        ("llm_training", ["CPU", "full"], "has no tag 'full'"),  # the other workflow's
        ("resnet50", ["CPU", "fp8"], "resnet50 has no tag 'fp8' (choose one of A100"),
        (
            "resnet50",
            ["CPU", "fp16", "fp32"],
            "the tags fp16 and fp32 exclude each other, as each chooses the precision",
        ),
        (
            "llm_training",
            ["CPU", "117M", "800M"],
            "117M and 800M exclude each other, as each chooses the model: give one",
        ),
        ("llm_training", ["CPU", "lora"], "GPT training has no model tiny-LoRA"),
        ("llm_training", ["A100", "CPU"], "A100 and CPU exclude each other, as each is a system"),
        ("llm_training", ["CPU", "image", "container"], "image and container were asked for, which exclude each other"),
    ],
)
def test_tags_that_make_no_run_are_one_sentence(workflow, tags, message):
    with pytest.raises(SiteError, match=re.escape(message)):
        plan("CPU", workflow, tags=tags)


def test_a_tag_makes_a_variant_of_a_model():
    planned = plan("CPU", "llm_training", "tiny-llama", tags=["CPU", "tiny-llama", "lora"])
    assert planned["model"] == "tiny-llama-LoRA"


def test_a_workload_needs_little_to_be_known(described):
    facts = described(MADE_UP)
    assert (facts.title, facts.precisions, facts.costed.amount) == ("Sums", "fp32", 0.0)
    assert facts_about("sums").title == "Sums"
    assert facts_about("elsewhere").title == "elsewhere"
    known = Workload(facts)
    assert known.devices_needed("any") == 1
    known.check_point("any", 2, 4, micro_batch_size=None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title: Sums\n", "lacks 'work_unit' and 'framework' and 'workflow'"),
        (MADE_UP.replace("2 4", "$size"), "'batches' is .size, but there is no such parameter"),
        (MADE_UP + "parameters: {size: 1; 2}\n", "size is '1; 2', but must be a text with 'MODEL: VALUE' after"),
        (MADE_UP + "refused: {GC200: why}\n", "refused: a key is 'GC200', but must be one of nvidia, amd"),
    ],
)
def test_a_file_that_describes_no_workload_is_one_sentence(text, message, described):
    with pytest.raises(RecordError, match=message):
        described(text)


def test_a_parameter_is_the_systems_where_its_block_states_one():
    facts = Facts(
        "sums", "Sums", "numbers", "pytorch", "sums", model="$size", parameters={"size": "9", "step": "1; 9: 2"}
    )
    assert facts.default_model({}) == "9"
    assert [facts.value("step", {}), facts.value("step", {}, "8"), facts.value("step", {"step": 7})] == ["2", "1", "7"]


WITHOUT_TENSORFLOW = [name for name, block in read_systems().items() if "tensorflow" in block.refused]


@pytest.mark.parametrize("system", WITHOUT_TENSORFLOW)
def test_where_no_image_has_a_framework_the_workload_in_another_one_runs_and_is_named(system, capsys):
    assert main(["plan", system, "resnet50"]) == 0
    told = capsys.readouterr()
    planned, reason = ast.literal_eval(told.out), read_system(system).refused["tensorflow"]
    assert told.err == f"caraml: ResNet-50 training, PyTorch runs in place of ResNet-50 training: {reason}\n"
    assert (planned["benchmark"], planned["process_starter"]) == ("resnet50_torch", "python3 -m torch.distributed.run")
    assert planned["image"].startswith("pytorch-nvidia")
    assert main(["plan", system, "cosmoflow"]) == 2
    assert f"it does not run on {read_system(system).accelerator}: {reason}; choose" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tags", "note"),
    [
        ([], ""),
        (["image"], ""),
        (["container", "job"], ""),
        (["container"], "the whole sweep runs in a container of cpu, "),
    ],
)
def test_the_tag_container_says_in_one_line_that_it_runs_the_sweep(tags, note, capsys):
    assert main(["plan", "CPU", "llm_training", "--tags", *tags]) == 0
    planned, told = capsys.readouterr()
    assert (told.count("\n"), note in told) == (bool(note), True)
    assert ast.literal_eval(planned)["runtime"] == ("podman" if {"image", "container"} & {*tags} else "none")


def test_a_tag_chooses_the_framework_and_the_tags_of_the_other_are_refused():
    planned = plan("CPU", "resnet50", tags=["torch", "inductor"])
    assert (planned["benchmark"], planned["note"]) == ("resnet50_torch", "")
    assert plan("CPU", "resnet50")["benchmark"] == "resnet50"
    for tags, message in ((["torch", "v2"], "resnet50_torch has no tag 'v2'"), (["eager"], "has no tag 'eager'")):
        with pytest.raises(SiteError, match=message):
            plan("CPU", "resnet50", tags=tags)


@pytest.mark.parametrize("name", read_systems())
def test_every_workload_has_points_on_every_system_or_a_reason(name):
    for facts in workloads.workloads().values():
        if reason_against(facts, read_system(name)) and not facts.instead:
            with pytest.raises(SiteError, match="does not run on"):
                plan(name, facts.name)
        else:
            assert all(plan(name, facts.name)["batches"].values())


def test_a_system_that_cannot_be_run_is_no_unknown_one():
    for name, reason in read_refused().items():
        with pytest.raises(SiteError, match=re.escape(f"{name} was asked for, but {reason}")):
            read_system(name)
