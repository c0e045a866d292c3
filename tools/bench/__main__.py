"""Print speeds, costs and errors next to those of a peer, measured in turns: all of the benches, or those named."""

from __future__ import annotations

import argparse
import sys
from multiprocessing import get_context

from tools.bench.harness import HEAD, ROW, run_bench

BENCHES = {  # and the module of each
    **dict.fromkeys(("gpt", "resnet", "resnet_torch", "cosmoflow", "deepcam", "fno"), "training"),
    **{name: name for name in ("client", "sampler", "reads")},
    **dict.fromkeys(("records", "nodes"), "results"),
}


def main() -> int:
    """Run the benches; return 1 if one fails or misses a wanted figure."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; default: all")
    parser.add_argument("--rounds", type=int, help="times that each is measured, in place of a bench's own number")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in BENCHES]:
        parser.error(f"there is no bench {unknown[0]!r}: choose from {', '.join(BENCHES)}")
    print(ROW(*HEAD), flush=True)
    codes = []
    for name in options.names or BENCHES:  # each in a process of its own: frameworks keep memory and threads
        process = get_context("spawn").Process(target=run_bench, args=(BENCHES[name], name, options.rounds))
        process.start()
        process.join()
        codes.append(process.exitcode)
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
