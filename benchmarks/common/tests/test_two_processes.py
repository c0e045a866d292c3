"""Programs of workloads as a user starts them: one process and two have the losses of one global batch."""

from __future__ import annotations

import pytest

from benchmarks.common.tests.started import recorded

pytestmark = [pytest.mark.long, pytest.mark.slow]

SHORT = "--global-batch-size 4 --warmup-steps 1 --measured-steps 2 --learning-rate-warmup-steps 1"
DEEPCAM = "benchmarks.deepcam.tests.few_blocks"


@pytest.mark.parametrize(
    ("module", "flags", "tolerance", "least_fall"),
    [
        ("benchmarks.cosmoflow", "--size 32 --learning-rate 0.1", 1e-3, None),
        # A pass is normalised by itself: passes are of the same samples. Adam's first steps are as long for the least
        # gradient as for the largest, so that rounding grows with the rate.
        (DEEPCAM, "--size 192x288 --learning-rate 0.000001 --micro-batch-size 1", 1e-4, 1e-3),
        ("benchmarks.resnet50_torch", "--image-size 32 --micro-batch-size 2", 1e-4, 0.01),
    ],
)
def test_layouts_of_one_global_batch_have_the_same_losses(module, flags, tolerance, least_fall, tmp_path):
    options = [*SHORT.split(), *flags.split()]
    one, two = (recorded(tmp_path / f"{workers}.json", module, *options, workers=workers) for workers in (0, 2))
    assert (one["layout"]["num_devices"], two["layout"]["num_devices"], len(one["losses"])) == (1, 2, 3)
    if "--micro-batch-size" in flags:
        assert one["layout"]["grad_accum_steps"] == 2 * two["layout"]["grad_accum_steps"]
    assert two["losses"] == pytest.approx(one["losses"], rel=tolerance)
    if least_fall:
        falls = [[run["losses"][0] - loss for loss in run["losses"][1:]] for run in (one, two)]
        assert falls[1] == pytest.approx(falls[0], rel=0.05)
        assert falls[0][-1] > least_fall
    if "cosmoflow" not in module:
        assert {"Forward", "Backward", "Comm", "Update"} <= set(two["regions"]["measured"]["regions"])
        assert two["metrics"]["comm_percent"] > one["metrics"]["comm_percent"] == 0
