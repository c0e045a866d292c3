"""Options of any workload that make no run, and those that make no data."""

from __future__ import annotations

import shlex
from importlib import import_module

import pytest

PROGRAMS = {"llm_inference": "run", "node_check": "check"}  # of the others it is `train`


def long(*case: str):
    return pytest.param(*case, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("workload", "flags", "message"),
    [
        ("cosmoflow", "--dropout 1", "dropout must be below 1, got 1.0"),
        ("deepcam", "--data deepcam --data-dir {tmp}", "has no files *.h5, and neither has a folder train in it"),
        ("deepcam", "--global-batch-size 3 --micro-batch-size 2", "is not a multiple of micro_batch_size"),
        ("resnet50_torch", "--device ipu", "does not run on IPUs: its PyTorch runs on CPUs and GPUs alone"),
        ("fno", "--size 2D", "argument --size: there is no '2D': choose one of tiny, RBC2D, RBC3D"),
        ("fno", "--precision fp16", "--precision fp16 was asked for, but fno has fp32, bf16"),
        ("fno", "--evaluation --checkpoint {tmp}", "--evaluation changes no weights: leave out --checkpoint"),
        ("resnet50", "--data synthetic-host --effective --device ipu", "cannot time single steps"),
        ("resnet50", "--effective", "--effective compares with --data synthetic"),
        ("resnet50", "--data synthetic-host --effective --cold-cache", "--cold-cache needs --effective and data from"),
        ("resnet50", "--steps-per-call 0", "steps_per_call must be above 0"),
        ("resnet50", "--label-smoothing 1", "label_smoothing must be below 1, got 1.0"),
        long("resnet50", "--device gpu", "was asked for, but TensorFlow shows none"),
        long("resnet50", "--device ipu", "needs the TensorFlow of the Poplar SDK"),
        long("resnet50", "--device ipu --precision bf16", "IPUs have none"),
        long("resnet50", "--device ipu --xla off", "compiled programs only"),
        ("node_check", "--repeats 5", "repeats must be 6 or more, got 5"),
        ("node_check", "--size 100", "size must be a multiple of 32, got 100"),
        ("llm_training", "--effective", "--effective compares with data on the device"),
        ("llm_training", "--effective --data text --data-prefix x --device ipu", "cannot time single steps"),
        ("llm_training", "--size tiny-llama-LoRA --checkpoint x", "--checkpoint would write the frozen weights"),
        ("llm_training", "--effective --cold-cache --data text --data-prefix x", "text is mapped into memory"),
        ("llm_training", "--dry-run --size 13B --devices 3", "3 devices cannot be shared by tensor_parallel_size 2"),
        ("llm_training", "--size 800M --sequence-parallel on", "needs a --tensor-parallel-size of 2 or more"),
        ("llm_training", "--sequence-length 0", "sequence_length must be above 0"),
        ("llm_training", "--data text", "--data text needs --data-prefix"),
        ("llm_training", "--devices 2", "--devices and --nodes need --dry-run"),
        (
            "llm_training",
            "--dry-run --devices 2 --tensor-parallel-size 2 --size tiny-llama --sequence-length 33",
            "over 2 devices needs a sequence length",
        ),
        (
            "llm_training",
            "--dry-run --devices 2 --tensor-parallel-size 2 --size tiny-moe --expert-parallel-size 2 "
            "--sequence-parallel off",
            "off does not work",
        ),
        ("llm_training", "--record {tmp}/short/record.json", "cannot be written"),
        ("llm_training", "--record {tmp}/short", "exists already"),
        long("llm_training", "--precision fp16", "--precision fp16 was asked for, but only GPUs have it"),
        long("llm_training", "--device gpu", "--device gpu was asked for, but PyTorch shows none"),
        long("llm_training", "--layers transformer-engine", "asked for, but TransformerEngine is not installed"),
        long("llm_training", "--cuda-graph on", "--cuda-graph on needs a GPU"),
        ("llm_inference", "--url ftp://x", "--url 'ftp://x' is no address of a server: write http://HOST:PORT or"),
        ("llm_inference", "--api-key-variable KEY", "--api-key-variable needs --url"),
        ("llm_inference", "--devices 2", "--devices 2 was asked for, but xllamacpp serves from one: leave it out"),
        ("llm_inference", "--rate-per-s inf", "rate_per_s must be finite, got inf"),
        ("llm_inference", "--nodes 2", "--nodes 2 needs --url: start the server first"),
        ("llm_inference", "--url http://x --hosts 'n1 n2'", "--hosts names 2 nodes, and --nodes is 1: give both"),
        ("llm_inference", "--url http://x --hosts 'prefill: n1'", "'prefill: n1': it names no nodes, or not those of"),
        ("llm_inference", "--output-tokens 1", "output_tokens must be 2 or more"),
        ("llm_inference", "--questions-file /dev/null --url http://x", "questions and answers that are not empty"),
        ("llm_inference", "--questions-file {tmp}/short --url http://x", 'each line is {"prompt": TEXT, "answer": TE'),
        ("llm_inference", "--model-path /nowhere", "--model-path /nowhere does not exist"),
        ("llm_inference", "--real-weights --server vllm", "--real-weights are a file for xllamacpp"),
        ("llm_inference", "--precision fp8 --server trtllm", "--precision fp8 needs weights in fp8 for trtllm"),
        ("llm_inference", "--lengths-file {tmp}/ones --server vllm", "no request has 2 output tokens"),
        ("llm_inference", '--server-args "--name \'x"', "cannot be split into words: No closing quotation"),
        ("llm_inference", "--model-folder /dev/null/x", "/dev/null/x cannot be made: Not a directory"),
        ("llm_inference", "--trace /dev/null", "has no conversation: give a file that is not empty, or small or large"),
        ("llm_inference", "--trace small --rate-per-s 1", "--trace and --rate-per-s exclude each other"),
        ("llm_inference", "--acceptance-length 2", "--acceptance-length and --draft-model need --draft-tokens"),
        ("llm_inference", "--draft-tokens 3 --acceptance-length 4.5", "is no mean of a step with 3 draft tokens"),
        ("llm_inference", "--draft-tokens 9", "acceptance lengths are published for 1, 2, 3, 4, 5, 6, 7, 8: choose"),
        (
            "llm_inference",
            "--draft-tokens 3 --real-weights",
            "to --model-path or --real-weights, and is needed",
        ),
        (
            "llm_inference",
            "--draft-tokens 3 --real-weights --draft-model . --questions-file {tmp}/questions",
            "--questions-file cannot be asked with --draft-tokens",
        ),
        ("llm_inference", "--perplexity-reference 9", "--perplexity-reference has no perplexity to judge"),
    ],
)
def test_options_that_make_no_run_are_one_sentence(workload, flags, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").write_text("short")
    (tmp_path / "ones").write_text("10 1\n20 1\n")
    (tmp_path / "questions").write_text('{"prompt": "a", "answer": "b"}\n')
    main = import_module(f"benchmarks.{workload}.{PROGRAMS.get(workload, 'train')}").main
    assert main(["--record", "record.json", *shlex.split(flags.replace("{tmp}", str(tmp_path)))]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert (tmp_path / "short").read_text() == "short"


@pytest.mark.parametrize(
    ("workload", "flags", "message"),
    [
        long("resnet50", "--out {tmp}/x --images 3", "3 images do not fill 4 files"),
        long("resnet50", "--out {tmp}/x --folders --imagenet x.tar", "PyTorch reads ImageNet's own folders"),
        long("resnet50", "--out {tmp}/x --imagenet {tmp}/short", "cannot be read as images of ImageNet"),
        long("resnet50", "--out {tmp}/x --imagenet {tmp}/empty", "has no images in classes"),
        ("llm_training", "", "the following arguments are required: --out"),
        ("llm_training", "--out=", "argument --out: it must not be empty"),
        ("llm_training", "--out {tmp}/x --files {tmp}/none.txt", "none.txt does not exist"),
        ("llm_training", "--out {tmp}/x --files {tmp}/empty", "has no .txt or .jsonl file"),
        ("llm_training", "--out {tmp}/x --files {tmp}/short", "5 characters of text"),
        ("llm_training", "--out {tmp}/x --files {tmp}/binary", "is not UTF-8"),
        ("llm_training", "--out {tmp}/short/x", "cannot be made"),
        ("llm_training", "--out {tmp}/x --files http://127.0.0.1:9/corpus.txt", "could not be fetched"),
        ("llm_training", "--out {tmp}/x --corpus oscar --files a.txt", "oscar has its own text and vocabulary"),
    ],
)
def test_data_that_cannot_be_made_is_one_sentence(workload, flags, message, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "short").write_text("short")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert import_module(f"benchmarks.{workload}.prepare").main(flags.format(tmp=tmp_path).split()) == 2
    [told] = capsys.readouterr().err.splitlines()
    assert message in told
