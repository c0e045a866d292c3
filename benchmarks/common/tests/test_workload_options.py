"""Options of the workloads on samples that make no run."""

from __future__ import annotations

from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("workload", "flags", "message"),
    [
        ("cosmoflow", "--size 48", "argument --size: there is no '48': choose one of 32, 64, 128"),
        ("cosmoflow", "--dropout 1", "dropout and momentum must be from 0 to below 1"),
        ("cosmoflow", "--device ipu", "--device ipu was asked for, but cosmoflow does not run on IPUs"),
        ("deepcam", "--data deepcam --data-dir {tmp}", "has no files *.h5, and neither has a folder train in it"),
        ("deepcam", "--global-batch-size 3 --micro-batch-size 2", "is not a multiple of micro_batch_size"),
        ("resnet50_torch", "--data imagenet --data-dir {tmp}", "has no files */*.JPEG, and neither has a folder train"),
        ("resnet50_torch", "--compile parts", "there is no 'parts': choose one of auto, inductor, eager"),
        ("resnet50_torch", "--device ipu", "does not run on IPUs: its PyTorch runs on CPUs and GPUs alone"),
        ("fno", "--size 2D", "argument --size: there is no '2D': choose one of tiny, RBC2D, RBC3D"),
        ("fno", "--precision fp16", "--precision fp16 was asked for, but fno has fp32, bf16"),
        ("fno", "--evaluation --checkpoint {tmp}", "--evaluation changes no weights: leave out --checkpoint"),
        ("resnet50", "--data synthetic-host --effective --device ipu", "cannot time single steps"),
        ("resnet50", "--data imagenet --data-dir {tmp}", "has no files train-"),
        ("resnet50", "--effective", "--effective compares with --data synthetic"),
        ("resnet50", "--data synthetic-host --effective --cold-cache", "--cold-cache needs --effective and data from"),
        ("resnet50", "--precision nvfp4", "resnet50 has fp32, bf16, fp16"),
        ("resnet50", "--image-size 0", "image_size must be above 0"),
        ("resnet50", "--steps-per-call 0", "steps_per_call must be above 0"),
        ("resnet50", "--label-smoothing 1", "from 0 to below 1"),
        pytest.param(*("resnet50", "--device gpu", "was asked for, but TensorFlow shows none"), marks=pytest.mark.long),
    ],
)
def test_options_that_make_no_run_are_one_sentence(workload, flags, message, tmp_path, capsys):
    main = import_module(f"benchmarks.{workload}.train").main
    assert main(["--record", str(tmp_path / "record.json"), *flags.format(tmp=tmp_path).split()]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
