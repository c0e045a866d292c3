"""Records of the folders that a command was given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from caraml.cli.options import say
from caraml.plan.site import read_site
from caraml.sweep import no_results, run_folder
from results.load import Loaded, load
from results.show.tables.doubts import alike


def loaded(folders: Sequence[Path], checks: Sequence[Path] = (), **options: Any) -> Loaded:
    """Return the judged records of some folders, as `results.load.load`; print what was skipped, and other notes."""
    own = read_site("").training_references
    found = load(
        [run_folder(folder) for folder in folders],
        references=[Path(own)] if own else [],
        checks=[run_folder(folder) for folder in checks],
        why_empty=no_results,
        **options,
    )
    for sentence in alike(map(str, found.skipped)):
        say(f"skipped: {sentence}")
    for note in found.notes:
        say(note)
    return found
