"""Rules on the figures of a node check."""

from __future__ import annotations

from record.checks.run import Sentences
from record.model import Record


def _figures_are_of_its_devices(run: Record) -> Sentences:
    ranks = {device.rank for device in run.devices}
    check = run.node_check
    for part, ours in (("figures", check.figures), ("devices", check.devices)):
        if others := {one.rank for one in ours} - ranks:
            yield f"node_check.{part} are of rank {min(others)}, but it has no device of that rank"


RULES = (_figures_are_of_its_devices,)
