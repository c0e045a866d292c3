"""Which points of a sweep can run: prints the numbers of devices, or the global batch sizes, that fit the model size.

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
    """Run from the command line; returns 1, with the reason, when nothing fits."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.llm_training.points", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    devices = kinds.add_parser("devices", help="numbers of devices")
    devices.add_argument("--most", type=int, help="devices that there are; default: as many as it takes")
    batches = kinds.add_parser("batches", help="global batch sizes")
    batches.add_argument("--num-devices", type=int, required=True)
    batches.add_argument("--micro-batch-size", type=int, help="default: the size's own")
    batches.add_argument("--pipeline-parallel-size", type=int, help="default: the size's own")
    for kind in (devices, batches):
        kind.add_argument("--size", choices=SIZES, required=True)
        kind.add_argument("--among", type=int, nargs="+", required=True)
    options = parser.parse_args(argv)
    try:
        if options.kind == "devices":
            found = fitting_devices(options.size, options.among, options.most)
        else:
            micro_batch_size = options.micro_batch_size or SIZES[options.size].micro_batch_size
            pipeline = options.pipeline_parallel_size
            found = fitting_batches(options.size, options.num_devices, micro_batch_size, options.among, pipeline)
    except ConfigError as error:
        where = f" on {options.num_devices} devices" if options.kind == "batches" else ""
        print(f"size {options.size}{where}: {error}", file=sys.stderr)
        return 1
    print(",".join(map(str, found)), end="")
    return 0


def fitting_devices(size: str, numbers: Sequence[int], most: int | None = None) -> list[int]:
    """The numbers of devices that the size's layout can be shared out over; without any, the smallest that can.

    Raises ConfigError when that is more than `most`.
    """
    shape = SIZES[size]
    needed = shape.tensor_parallel_size * shape.pipeline_parallel_size
    fitting = [number for number in numbers if number % needed == 0] or [needed]
    if most and fitting[0] > most:
        raise ConfigError(
            f"it needs {needed} devices (tensor parallel {shape.tensor_parallel_size} x pipeline parallel "
            f"{shape.pipeline_parallel_size}), and there are {most}: use a smaller size"
        )
    return fitting


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
