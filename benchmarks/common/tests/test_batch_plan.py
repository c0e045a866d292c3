from __future__ import annotations

import pytest

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.common.options import ConfigError


def test_a_batch_that_does_not_divide_is_refused_with_the_numbers():
    with pytest.raises(ConfigError, match=r"global_batch_size 10 .* 4 x 2 = 8"):
        BatchPlan(10, 4, 2)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (8, 0, 1), (8, 1, -1)])
def test_a_size_below_one_is_refused(sizes):
    with pytest.raises(ConfigError, match="must be 1 or more"):
        BatchPlan(*sizes)


@pytest.mark.parametrize(("micro", "data_parallel"), [(8, 1), (4, 2), (2, 2), (1, 8), (2, 1)])
def test_every_layout_reads_the_same_samples_in_a_step_and_each_once(micro, data_parallel):
    plan = BatchPlan(8, micro, data_parallel)
    for step in (0, 3):
        read = [
            index
            for pass_index in range(plan.grad_accum_steps)
            for rank in range(data_parallel)
            for index in plan.sample_indices(step, pass_index, rank)
        ]
        assert sorted(read) == list(range(8 * step, 8 * step + 8))
