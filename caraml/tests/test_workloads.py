"""What a workflow is told of a workload, and files that describe none."""

from __future__ import annotations

import ast

import pytest

from caraml import points
from caraml.workloads import Workload, main
from results import workloads
from results.records import RecordError
from results.workloads import Facts, title_of

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


def test_a_workflow_is_told_what_the_workloads_file_says(capsys):
    assert main(["llm_training", "GC200"]) == 0
    told = ast.literal_eval(capsys.readouterr().out)
    assert (told["work_unit"], told["framework"], told["start"]) == (
        "tokens",
        "pytorch",
        "python3 -m torch.distributed.run",
    )
    # The system's block has both.
    assert (told["model"], told["micro_batch_size"]) == ("117M", "1")
    assert main(["resnet50", "CPU"]) == 0
    assert ast.literal_eval(capsys.readouterr().out)["default_image_size"] == "64"


def test_a_value_may_be_another_for_a_model(capsys):
    for model, micro_batch_size in (("117M", "1"), ("tiny", ""), ("", "")):
        assert main(["llm_training", "CPU", *filter(None, [model])]) == 0
        assert ast.literal_eval(capsys.readouterr().out)["micro_batch_size"] == micro_batch_size


@pytest.mark.parametrize(
    ("asked", "message"),
    [(("sums", "CPU"), "there is no workload 'sums'"), (("resnet50", "NONE"), "there is no system NONE")],
)
def test_what_there_is_not_is_one_sentence(asked, message, capsys):
    assert main(list(asked)) == 2
    assert capsys.readouterr().err.startswith(f"workload: {message}")


def test_a_workload_needs_little_to_be_known(described):
    facts = described(MADE_UP)
    assert (facts.title, facts.precisions, facts.data, facts.costed) == ("Sums", "fp32", None, None)
    assert title_of("sums") == "Sums"
    assert title_of("elsewhere") == "elsewhere"
    known = Workload(facts)
    assert known.devices_needed("any") == 1
    assert known.flops_per_sample({}, "any") == 0.0
    known.check_point("any", 2, 4, micro_batch_size=None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MADE_UP + "titel: x\n", "it may have .*, not \\['titel'\\]"),
        ("title: Sums\n", "is not complete: .* missing"),
        ("- 1\n", "is not that of a workload"),
        ("title: [\n", "cannot be read: line 2"),
        (MADE_UP + "costed: {amount: 1}\n", "'costed' has amount, words, not"),
        (MADE_UP + "costed: {amount: much, words: work}\n", "'costed' has amount, words, not"),
        (MADE_UP.replace("2 4", "$size"), "'batches' is .size, and there is no such parameter"),
        (MADE_UP + "parameters:\n", "'parameters' has names with their values, not None"),
        (MADE_UP + "parameters: {size: 1; 2}\n", "'size' is '1; 2', but after a ';' comes 'MODEL: VALUE'"),
        (MADE_UP.replace("pytorch", "jax"), "'framework' is one of pytorch, tensorflow, not 'jax'"),
    ],
)
def test_a_file_that_describes_no_workload_is_one_sentence(text, message, described):
    with pytest.raises(RecordError, match=message):
        described(text)


def test_numbers_need_no_quotes(described):
    facts = described(MADE_UP.replace("2 4", "8") + "model: 256\nreported: {amount: 1e9, words: work}\n")
    assert (facts.batches, facts.model, facts.reported.amount) == ("8", "256", 1e9)


def test_a_workload_that_cannot_be_read_is_one_sentence_in_a_sweep(described, capsys):
    with pytest.raises(RecordError):
        described("title: [\n")
    assert points.main(["devices", "sums", "any", "--system", "CPU"]) == 1
    assert "workload.yaml cannot be read" in capsys.readouterr().err


def test_a_parameter_is_the_systems_where_its_block_states_one():
    facts = Facts(
        "sums", "Sums", "numbers", "pytorch", "sums", model="$size", parameters={"size": "9", "step": "1; 9: 2"}
    )
    assert facts.default_model({}) == "9"
    assert [facts.value("step", {}), facts.value("step", {}, "8"), facts.value("step", {"step": 7})] == ["2", "1", "7"]
