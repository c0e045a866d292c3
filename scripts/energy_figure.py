"""Draw docs/explanation/energy.png: one simulated second, its power samples, and the bounds by its counter.

Usage: python scripts/energy_figure.py [FILE]
"""

from __future__ import annotations

import random
import sys

import matplotlib

from jpwr.channel import ChannelInfo, Scope
from jpwr.energy import ChannelEnergy
from jpwr.tests.loads import counter_of, levels, moments

matplotlib.use("Agg")
from matplotlib import pyplot as plt

INFO = ChannelInfo("made", Scope.DEVICE, "", has_counter=True, counter_resolution_j=0.001, counter_refresh_s=0.1)
START_S, END_S, WINDOW_S = 11.0, 11.6, (11.13, 11.47)


def main(path: str = "docs/explanation/energy.png") -> None:
    """Draw the figure into a file."""
    chance = random.Random(4)
    edges_s = [0.16 * step for step in range(200)]
    load = levels(edges_s, [chance.choice((150, 420, 560)) + chance.gauss(0, 15) for _ in edges_s[1:]])
    times_s = moments(chance, 1.0, 30.0, 0.05)
    power_w, read_j = [load.power_w(t) for t in times_s], counter_of(load, 0.1, 0.04)
    curve = ChannelEnergy(INFO, times_s, power_w, times_s, [read_j(t) for t in times_s], True)
    assert curve.counter
    fine_s = [START_S + (END_S - START_S) * step / 1000 for step in range(1001)]
    figure, (top, bottom) = plt.subplots(2, sharex=True, figsize=(7.5, 5.6), layout="constrained")
    top.plot(fine_s, [load.power_w(t) for t in fine_s], color="0.6", label="true power")
    top.plot(times_s, power_w, "o-", color="C0", markersize=4, label="samples, at random moments")
    top.fill_between(times_s, power_w, alpha=0.15, color="C0", label="integral")
    top.set_ylabel("power [W]")
    top.set_ylim(0, 650)
    first_j = load.energy_j(START_S)
    bounds = [curve.counter.bounds_j(t) for t in fine_s]
    lows_j, highs_j = ([bound[side] - first_j for bound in bounds] for side in (0, 1))
    bottom.fill_between(fine_s, lows_j, highs_j, alpha=0.35, color="C1", label="bounds by the counter")
    bottom.plot(fine_s, [load.energy_j(t) - first_j for t in fine_s], color="0.4", label="true energy")
    bottom.plot(times_s, [read_j(t) - first_j for t in times_s], "s", color="C1", markersize=4, label="readings")
    bottom.set_ylabel("energy since second 11 [J]")
    bottom.set_xlabel("time [s]")
    bottom.set_xlim(START_S, END_S)
    bottom.set_ylim(-30, 260)
    for axes in (top, bottom):
        for edge_s in WINDOW_S:
            axes.axvline(edge_s, color="k", linestyle="--", linewidth=1)
        axes.legend(loc="upper left", fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
