"""Models that are made, command lines, and the server of the laptop."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader

from benchmarks.common.options import ConfigError
from benchmarks.common.tests.started import read_derived
from benchmarks.llm_inference import run
from benchmarks.llm_inference.address import Address
from benchmarks.llm_inference.models import SHAPES, make_draft, make_folder, make_gguf
from benchmarks.llm_inference.points import LONGEST, check_point, decode_bytes
from benchmarks.llm_inference.servers import SERVERS, Draft, Process, Start
from benchmarks.llm_inference.tests.conftest import allow_a_busy_machine
from caraml.errors import SiteError
from caraml.plan.plan import plan
from caraml.plan.systems import read_system
from caraml.plan.workloads import workload
from results.files.workloads import workloads
from tests.conftest import REPOSITORY
from tests.needs import not_run
from tests.waiting import until

TINY = SHAPES["tiny"]
START = Start(Path("/m"), Path("/f"), 8000, 4, 2048, 8, 2, "bfloat16")


def test_the_shape_of_8b_has_the_parameters_that_are_published():
    assert SHAPES["8B"].parameters == 8_030_261_248  # Llama 3.1 8B
    assert SHAPES["70B"].parameters == 70_553_706_496  # Llama 3.1 70B
    assert workloads()["llm_inference"].num_parameters == {name: shape.parameters for name, shape in SHAPES.items()}


@pytest.mark.parametrize(("precision", "number_bytes"), [("fp32", 4), ("fp16", 2), ("bf16", 2)])
def test_a_model_file_has_finite_weights_of_both_signs_and_norms_of_one(precision, number_bytes, tmp_path):
    make_gguf(tmp_path / "model.gguf", TINY, precision)
    found = {one.name: one for one in GGUFReader(tmp_path / "model.gguf").tensors}
    assert sum(math.prod(one.shape) for one in found.values()) == TINY.parameters
    assert found["token_embd.weight"].shape.tolist() == [TINY.hidden, TINY.vocab]  # the fastest first
    assert all((found[f"blk.0.{name}.weight"].data == 1.0).all() for name in ("attn_norm", "ffn_norm"))
    query = found["blk.0.attn_q.weight"]
    assert query.n_bytes == TINY.hidden**2 * number_bytes
    weights = query.data.view(np.uint16).astype(np.uint32) << 16 if precision == "bf16" else query.data
    weights = weights.view(np.float32) if precision == "bf16" else weights
    assert ((abs(weights) >= 1 / 64) & (abs(weights) <= 1 / 32)).all()
    assert 0.4 < (weights > 0).mean() < 0.6


def test_a_precision_that_a_file_cannot_have_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match="--precision fp8: random weights"):
        make_gguf(tmp_path / "model.gguf", TINY, "fp8")


def test_a_folder_describes_the_shape(tmp_path):
    make_folder(tmp_path / "model", TINY, "bf16")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (config["num_hidden_layers"], config["torch_dtype"]) == (TINY.layers, "bfloat16")
    assert len(json.loads((tmp_path / "model" / "tokenizer.json").read_text())["model"]["vocab"]) == TINY.vocab


@pytest.mark.parametrize("name", SERVERS)
def test_a_command_line_has_the_model_and_what_was_asked(name):
    program = SERVERS[name]
    usual = program.command(START)
    assert str(START.model) in usual
    assert str(START.port) in usual
    more = program.command(START._replace(is_random=True, is_fp8=True, keeps_prefixes=True))
    assert ("dummy" in more) == (name in ("vllm", "sglang"))
    assert ("fp8" in more) == (program.quantises and not program.makes_gguf)
    assert ("dummy" in program.settings(START._replace(is_random=True))) == (name == "trtllm")
    switches = {"vllm": "--enable-prefix-caching", "sglang": "--enable-cache-report"}
    assert name not in switches or (switches[name] in more and switches[name] not in usual)


def test_a_server_takes_itself_for_no_rank_of_srun(tmp_path, monkeypatch):
    for name in ("SLURM_JOB_ID", "PMI_RANK", "PMIX_RANK", "PATH_OF_MINE"):
        monkeypatch.setenv(name, "0")
    log = tmp_path / "log"
    server = Process([sys.executable, "-c", "import os; print(*os.environ)"], {"MORE": "1"}, log)
    until(lambda: log.read_text().endswith("\n"), "the names of its variables")
    server.stop()
    names = set(log.read_text().split())
    assert {"MORE", "PATH_OF_MINE", "PATH"} <= names
    assert not [name for name in names if name.startswith(("SLURM", "PMI"))]


def test_trtllm_reads_a_long_prompt_in_chunks_and_gets_no_field_that_it_refuses():
    assert json.loads(SERVERS["trtllm"].settings(START))["enable_chunked_prefill"] is True
    assert set(SERVERS["trtllm"].request) == {"stream_options"}


def test_a_server_speculates_at_the_stated_acceptance():
    for name, length in (("xllamacpp", "2.49"), ("vllm", "2.49"), ("sglang", "2.49"), ("trtllm", "1.49")):
        program, start = SERVERS[name], START._replace(draft=Draft(Path("/draft"), 3, 2.49))
        asked = str([program.command(start), program.environment(start), program.settings(start)])
        assert "/draft" in asked and length in asked, name


def test_a_draft_model_has_one_layer(tmp_path):
    make_draft(tmp_path / "head", TINY, "bf16", is_gguf=False)
    head = json.loads((tmp_path / "head" / "config.json").read_text())
    assert (head["architectures"], head["num_hidden_layers"]) == (["LlamaForCausalLMEagle3"], 1)
    assert (head["hidden_size"], head["vocab_size"], head["draft_vocab_size"]) == (TINY.hidden, TINY.vocab, TINY.vocab)
    assert head["eagle_aux_hidden_state_layer_ids"] == [2, 3, 4]
    make_draft(tmp_path / "draft.gguf", TINY, "fp16", is_gguf=True)
    make_gguf(tmp_path / "one.gguf", TINY._replace(layers=1), "fp16")
    assert (tmp_path / "draft.gguf").read_bytes() == (tmp_path / "one.gguf").read_bytes()


def test_a_counter_is_summed_over_its_labels(monkeypatch):
    text = 'x:tokens_total{model="a"} 3\nx:tokens_total{model="b"} 4e0\nx:tokens_total_other 9\n'
    monkeypatch.setattr(Address, "ask", lambda self, path: (200, text))
    address = Address("h", 1)
    assert address.counters(["x:tokens_total", "y"]) == {"x:tokens_total": 7.0, "y": None}


def test_points_are_of_devices_that_can_share_the_heads():
    known = workload("llm_inference")
    known.check_point("8B", 8, 3)
    with pytest.raises(ConfigError, match="3 devices cannot share the 8 key-value heads of 8B"):
        check_point("8B", 3, 4)


@pytest.mark.parametrize(
    ("system", "model", "words", "devices"),
    [
        ("H100", "8B", [], 1),
        ("H100", "70B", [], 2),  # 141 GB in 160
        ("H100", "70B", ["8k1k"], 4),
        ("H100", "70B", ["--model-path=/mine"], 1),
        ("WAIH100", "70B", ["fp8"], 1),
        ("V100", "8B", [], 2),
        ("V100", "70B", [], "take 141.8 GB, and 4 devices of a node can hold 57.6 GB: choose a smaller model"),
        ("GH200", "70B", [], "take 141.8 GB, and 1 device of a node can hold 86.4 GB"),
        ("CPU", "70B", [], 1),  # of which no memory is known
    ],
)
def test_a_model_gets_the_devices_whose_memory_holds_it(system, model, words, devices):
    known, block = workload("llm_inference"), read_system(system)
    block = replace(block, default_precision="fp8") if "fp8" in words else block
    if isinstance(devices, int):
        assert known.least_devices(block, model, words) == devices
    else:
        with pytest.raises(ConfigError, match=devices):
            known.least_devices(block, model, words)


def test_a_token_of_llama_3_8b_takes_128_kib_of_cache_and_decode_reads_all_weights_but_a_table():
    found = decode_bytes("8B", "bf16")
    assert found == {"step_weights_bytes": 2 * (8_030_261_248 - 128_256 * 4096), "token_cache_bytes": 128 << 10}


def test_a_model_is_planned_on_the_devices_that_hold_it(monkeypatch):
    assert plan("H100", "llm_inference", "70B")["devices"] == "2"
    assert plan("WAIH100", "llm_inference", "70B", tags=["fp8"])["devices"] == "1"
    monkeypatch.setenv("CARAML_DEVICES", "1 4")
    with pytest.raises(SiteError, match="70B: 1 device was asked for: its weights and cache take the memory of 2"):
        plan("H100", "llm_inference", "70B")
    monkeypatch.setenv("CARAML_LLM_INFERENCE_FLAGS", "--model-path /mine")
    assert plan("H100", "llm_inference", "70B")["devices"] == "1,4"


def test_lengths_of_a_tag_are_those_of_the_workflow():
    text = (REPOSITORY / "jube" / "inference.yaml").read_text()
    lengths = re.findall(r'name: tokens_\w+, tag: "8k1k", *_: (\d+)', text)
    assert LONGEST["8k1k"] == sum(map(int, lengths))


def test_llama_cpp_accepts_as_many_drafts_as_stated(tmp_path, monkeypatch):
    allow_a_busy_machine(monkeypatch)
    found = run_of_llama_cpp(tmp_path, "--draft-tokens", "3", "--output-tokens", "64")
    facts, kinds = found["serving"]["speculation"], {one["kind"] for one in found["serving"]["findings"]}
    assert facts["accepted_tokens"] > facts["steps"] > 0
    assert not kinds & {"acceptance_differs", "acceptance_unknown"}, facts


def run_of_llama_cpp(folder, *more):
    # In a process of its own: this one may have PyTorch's copy of the library.
    if subprocess.run([sys.executable, "-c", "import xllamacpp"], capture_output=True).returncode:
        not_run("the library libgomp1: apt-get install libgomp1")
    record = folder / "record.json"
    flags = "--concurrency 2 --input-tokens 32 --output-tokens 16 --min-s 1 --min-requests 30 --model-folder"
    assert run.main([*flags.split(), str(folder), "--record", str(record), *more]) == 0
    return read_derived(record)


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_llama_cpp_serves_a_model_that_was_made(endpoint, tmp_path, monkeypatch):
    allow_a_busy_machine(monkeypatch)
    found = run_of_llama_cpp(tmp_path, "--endpoint", endpoint)
    assert found["metrics"]["num_parameters"] == TINY.parameters
    assert found["metrics"]["server_tokens"] > 0
    assert found["serving"]["version"]
    answers = found["serving"]["answers"]
    assert (answers["wrong"], answers["repeat_wrong"], answers["has_logprobs"]) == (0, 0, True)
    assert 4 <= answers["questions"] <= 16
    assert answers["likelihood"] == pytest.approx(1, abs=0.01)
    assert not [one for one in found["serving"]["findings"] if one["kind"].startswith(("answers", "load_wrong"))]
