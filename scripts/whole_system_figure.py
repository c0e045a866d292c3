"""Draw docs/explanation/whole_system.png: blocks of simulated nodes, their lines, and the interval of another node.

Usage: python scripts/whole_system_figure.py [FILE]
"""

from __future__ import annotations

import random
import sys

import matplotlib

from results.points.node_model import Modelled, modelled
from results.tests.node_coverage import GAIN, Node, kind_of

matplotlib.use("Agg")
from matplotlib import pyplot as plt

NODES, SPREAD, LEVELS = 3, 0.02, 21


def main(path: str = "docs/explanation/whole_system.png") -> None:
    """Draw the figure into a file."""
    chance = random.Random(11)
    kind = kind_of(chance)
    runs = []
    figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    for number in range(NODES):
        node = Node(chance, kind, SPREAD)
        blocks = node.blocks(node.run(1.0, 180.0, 0.2), f"n{number}", False)
        assert blocks
        runs.append(blocks)
        label = f"node {number + 1} with a sensor: blocks of {blocks.block_s:.0f} s"
        axes.plot(blocks.boards_w, blocks.node_w, "o", markersize=4, label=label)
    low_w, high_w = (end(one for run in runs for one in run.boards_w) for end in (min, max))
    boards_w = [low_w + (high_w - low_w) * step / (LEVELS - 1) for step in range(LEVELS)]
    found = [modelled(runs, one, None, GAIN) for one in boards_w]
    known = [(one, model) for one, model in zip(boards_w, found, strict=True) if isinstance(model, Modelled)]
    at_w, models = zip(*known, strict=True)
    axes.plot(at_w, [one.power_w for one in models], color="k", linewidth=1, label="model of another node")
    lows_w, highs_w = ([one.power_w + sign * one.half_w for one in models] for sign in (-1, 1))
    axes.fill_between(at_w, lows_w, highs_w, color="k", alpha=0.12, label="its 95 % interval")
    other = Node(chance, kind, SPREAD).run(0.8, 180.0, 0.2)
    axes.plot([other.boards[-240:].mean()], [other.wall[-240:].mean()], "*", color="C3", markersize=12)
    axes.annotate(
        "true power of another node",
        (other.boards[-240:].mean(), other.wall[-240:].mean()),
        (0, -40),
        textcoords="offset points",
        color="C3",
        fontsize=8,
        ha="left",
    )
    axes.set_xlabel("power of all boards of a node [W]")
    axes.set_ylabel("power of the node [W]")
    axes.set_ylim(0)
    axes.legend(loc="upper left", fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
