"""The points of a sweep: the numbers of devices, and for each the global batch sizes, that can run.

A system's own sweep is filtered: what cannot run is left out. What a user asks for, by CARAML_DEVICES and
CARAML_BATCHES or the same keys of site.yaml, takes its place, and is refused where it cannot run. For the workflows:

    python -m caraml.points devices|batches BENCHMARK MODEL --system TAG [--among "N ..."]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from benchmarks.common.options import ConfigError
from caraml.errors import SiteError
from caraml.site import read_site
from caraml.systems import read_system
from caraml.workloads import Workload, workload
from results.records import RecordError


def numbers(text: str, key: str) -> list[int]:
    """Numbers of 1 or more, in their order and each once; raises SiteError for anything else."""
    words = text.replace(",", " ").split()
    if not all(word.isdecimal() and int(word) for word in words):
        raise SiteError(f"{key} is {text!r}: give numbers of 1 or more, such as '1 2 4'")
    return sorted({int(word) for word in words})


def fitting_devices(
    known: Workload, model: str, sweep: Sequence[int], asked: Sequence[int] = (), most: int | None = None
) -> list[int]:
    """The numbers of devices to run on: those asked for, or those of a sweep that fit the model's layout.

    Where none of the sweep does, the smallest that can. Raises ConfigError for one that was asked for and cannot run,
    and when the smallest is more than `most`, the devices that there are.
    """
    needed = known.devices_needed(model)
    for number in asked:
        if number % needed:
            raise ConfigError(f"{number} devices were asked for: its layout takes a multiple of {needed}")
        if most and number > most:
            raise ConfigError(f"{number} devices were asked for, and there are {most}")
    fitting = list(asked) or [number for number in sweep if number % needed == 0] or [needed]
    if most and fitting[0] > most:
        raise ConfigError(f"its layout takes {needed} devices, and there are {most}: use a smaller model")
    return fitting


def fitting_batches(check: Callable[[int], None], sweep: Sequence[int], asked: Sequence[int] = ()) -> list[int]:
    """The global batch sizes to run: those asked for, or those of a sweep for which `check` raises no ConfigError.

    Raises ConfigError for one that was asked for and cannot run, and when none can.
    """
    for batch in asked:
        check(batch)
    if asked:
        return list(asked)
    fitting, reason = [], ConfigError("no global batch size was given")
    for batch in sweep:
        try:
            check(batch)
        except ConfigError as error:
            reason = error
        else:
            fitting.append(batch)
    if not fitting:
        raise reason
    return fitting


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns 1, with the reason, when nothing fits or what was asked for does not."""
    parser = argparse.ArgumentParser(prog="python -m caraml.points", description="The points of a sweep that can run.")
    parser.add_argument("kind", choices=("devices", "batches"))
    parser.add_argument("benchmark", help="a folder of benchmarks/")
    parser.add_argument("model", help="its size or variant")
    parser.add_argument("--system", required=True, metavar="TAG", help="whose site facts narrow the sweep")
    parser.add_argument("--among", metavar="'N ...'", help="default: the system's own sweep")
    parser.add_argument("--most", type=int, metavar="N", help="devices that there are; default: as many as it takes")
    parser.add_argument("--num-devices", type=int, metavar="N", help="for batches: of which number of devices")
    parser.add_argument("--micro-batch-size", type=int, metavar="N", help="default: the model's own")
    parser.add_argument("--pipeline-parallel-size", type=int, metavar="N", help="default: the model's own")
    options = parser.parse_args(argv)
    where = f" on {options.num_devices} devices" if options.num_devices else ""
    try:
        known, block = workload(options.benchmark), read_system(options.system)
        own = block["devices_sweep"]
        if options.kind == "batches":
            own = known.facts.resolve(known.facts.batches, block, options.model)
        sweep = numbers(options.among or own, "the system's sweep")
        asked = numbers(read_site(options.system)[options.kind], f"CARAML_{options.kind.upper()}")
        if options.kind == "devices":
            found = fitting_devices(known, options.model, sweep, asked, options.most)
        else:

            def check(batch: int) -> None:
                known.check_point(
                    options.model,
                    options.num_devices,
                    batch,
                    micro_batch_size=options.micro_batch_size,
                    pipeline_parallel_size=options.pipeline_parallel_size,
                )

            found = fitting_batches(check, sweep, asked)
    except (ConfigError, RecordError, SiteError) as error:
        print(f"{options.model}{where}: {error}", file=sys.stderr)
        return 1
    print(",".join(map(str, found)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
