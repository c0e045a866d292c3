"""Watt-hours of a run by node and device in a CSV file of the original suite's shape, for its spreadsheets.

Standard library alone, as a job writes it.
"""

from __future__ import annotations

import csv
from pathlib import Path

from jpwr.process.whole_file import replacing
from record.model import Record
from record.values import grouped

ENERGIES_NAME = "energy.csv"


def write_energies(run: Record, folder: Path) -> None:
    """Write the energy of the measured window, in Wh: a row per node, a column per channel of jpwr.

    `rank` is that of the node's sampler, of which there is one per node.
    """
    if not run.energy:
        return
    names = list(dict.fromkeys(channel.name for channel in run.energy.channels))
    with replacing(folder / ENERGIES_NAME) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["", "nodename", "rank", *names])
        nodes = grouped(run.energy.channels, lambda channel: channel.hostname)
        for rank, (hostname, channels) in enumerate(nodes.items()):
            energies = {channel.name: channel.energy_wh for channel in channels}
            rows.writerow([rank, hostname, rank, *(energies.get(name) for name in names)])
