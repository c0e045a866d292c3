"""Energy of writing and of reading one checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jpwr.errors import JpwrError
from record.checks.checkpoints import WORDS
from record.derived import ratio
from record.model import Record
from record.parts import windows_of
from results.join.channels import EnergyError
from results.join.energy import energy_of
from results.join.nodes import TraceSums


def energy_per_checkpoint(record: Record, traces: Sequence[TraceSums]) -> tuple[dict[str, Any], list[str]]:
    """Return the energies of a record's checkpoints for its `energy`, and notes on those that are unknown."""
    found, notes = dict[str, Any](), []
    for kind, word in WORDS.items():
        if not windows_of(record, kind):
            continue
        try:
            energy = energy_of(record, traces, kind)
        except (EnergyError, JpwrError) as error:
            notes.append(f"the energy of a checkpoint's {word} is unknown: {error}")
        else:
            rounds = record.metrics.number("checkpoint_rounds")
            found[f"checkpoint_{word}_wh"] = ratio(energy.energy_wh, rounds)
            found[f"checkpoint_{word}_uncertainty_wh"] = ratio(energy.uncertainty_wh, rounds)
    return found, notes
