"""Facts about models and samples in workload.yaml agree with the workloads' own computation."""

from __future__ import annotations

import pytest

from benchmarks.common.launch import Launch
from benchmarks.common.session import parse_options
from benchmarks.cosmoflow.train import CosmoFlow
from benchmarks.deepcam.train import DeepCam
from benchmarks.llm_training.sizes import SIZES
from benchmarks.llm_training.train import Gpt
from benchmarks.resnet50.train import ResNet50
from results.files.workloads import workloads

LENGTHS = ("1", "512", "2048", "4096")
ASKED = [
    *((Gpt, ["--dry-run", "--size", size, "--devices", "64"], None) for size in SIZES),
    *(
        (Gpt, ["--dry-run", "--size", size, "--devices", "64", "--sequence-length", length], None)
        for size in SIZES
        for length in LENGTHS
    ),
    *(
        (ResNet50, ["--variant", variant, "--image-size", size], size == "224")
        for variant in ("v1.5", "v2")
        for size in ("64", "224")
    ),
    *((CosmoFlow, ["--size", size], size == "128") for size in ("32", "64", "128")),
    *((DeepCam, ["--size", size], size == "768x1152") for size in ("64x96", "192x288", "768x1152")),
]


@pytest.mark.parametrize(("workload", "flags", "is_comparable"), ASKED)
def test_flops_and_samples_are_those_of_the_workload(workload, flags, is_comparable):
    options = parse_options(workload, flags)
    run, facts, model = workload(options, Launch()), workloads()[workload.name], workload.model(options)
    known = facts.flops[model]
    if model in facts.flops_per_length:
        [(own, flops)] = known.items()
        flops += facts.flops_per_length[model] * (run.work_per_sample - int(own.split()[0]))
        assert (run.sample == own) is (options.model.tokens_per_sample == options.model.shape.sequence_length)
    else:
        flops = known[run.sample]
        assert options.model.is_comparable is is_comparable is (facts.comparable == run.sample)
    assert run.num_parameters == facts.num_parameters[model]
    assert run.flops.per_unit == pytest.approx(flops, rel=1e-9)
