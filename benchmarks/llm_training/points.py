"""Which points of a sweep can run: prints the global batch sizes that fit model size and devices.

For the workflow, which expands only these; reads no PyTorch, so that it answers at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.common.options import ConfigError
from benchmarks.llm_training.config import SIZES, Layout


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns 1, with the last reason, when no batch size fits."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.llm_training.points", description=__doc__)
    parser.add_argument("--size", choices=SIZES, required=True)
    parser.add_argument("--num-devices", type=int, required=True)
    parser.add_argument("--micro-batch-size", type=int, help="default: the size's own")
    parser.add_argument("--pipeline-parallel-size", type=int, help="default: the size's own")
    parser.add_argument("--global-batch-sizes", type=int, nargs="+", required=True)
    options = parser.parse_args(argv)
    try:
        micro_batch_size = options.micro_batch_size or SIZES[options.size].micro_batch_size
        fitting = fitting_batches(
            options.size,
            options.num_devices,
            micro_batch_size,
            options.global_batch_sizes,
            options.pipeline_parallel_size,
        )
    except ConfigError as error:
        print(f"size {options.size} on {options.num_devices} devices: {error}", file=sys.stderr)
        return 1
    print(",".join(map(str, fitting)), end="")
    return 0


def fitting_batches(
    size: str,
    num_devices: int,
    micro_batch_size: int,
    batches: Sequence[int],
    pipeline_parallel_size: int | None = None,
) -> list[int]:
    """The global batch sizes that can run; raises ConfigError when the devices do not fit or no batch size does."""
    shape = SIZES[size]
    layout = Layout(num_devices, shape.tensor_parallel_size, pipeline_parallel_size or shape.pipeline_parallel_size)
    layout.check(shape)
    fitting, reason = [], ConfigError("no global batch size was given")
    for batch in batches:
        try:
            BatchPlan(batch, micro_batch_size, layout.data_parallel_size)
        except ConfigError as error:
            reason = error
        else:
            fitting.append(batch)
    if not fitting:
        raise reason
    return fitting


if __name__ == "__main__":
    sys.exit(main())
