"""Print speeds, costs and errors next to those of a peer, measured in turns: all of the benches, or those named."""

from __future__ import annotations

import sys
from multiprocessing import get_context

from tools.bench.harness import HEAD, ROW, run_bench

TRAININGS = ("llm_training", "resnet50", "resnet50_torch", "cosmoflow", "deepcam", "fno")
BENCHES = {  # and the module, the function and its arguments
    **{name: ("training", "training", name) for name in TRAININGS},
    "text": ("training", "text"),
    "client": ("client", "client"),
    **{name: ("sampler", name) for name in ("sampler", "reads")},
    **{name: ("results", name) for name in ("records", "nodes")},
}


def main() -> int:
    """Run the benches; return 1 if one fails or misses a wanted figure."""
    names = sys.argv[1:] or list(BENCHES)
    if unknown := [name for name in names if name not in BENCHES]:
        sys.exit(f"bench: there is no {unknown[0]!r}: choose from {', '.join(BENCHES)}")
    print(ROW(*HEAD), flush=True)
    codes = []
    for name in names:  # each in a process of its own: frameworks keep memory and threads
        process = get_context("spawn").Process(target=run_bench, args=BENCHES[name])
        process.start()
        process.join()
        codes.append(process.exitcode)
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
