"""The checkout of the suite, and packages that a command needs."""

from __future__ import annotations

import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
SYSTEMS, IMAGES = Path("jube/include/systems.yaml"), Path("containers/images.yaml")
REFUSED = SYSTEMS.with_name("refused.yaml")
OURS = ("benchmarks", "caraml", "ioprof", "record", "results")


def checkout() -> Path:
    """Return the checkout with this code."""
    return PACKAGE.parent


def missing_package(error: ImportError) -> str:
    """Return one sentence on a package that is missing or cannot be loaded; raises the error if it is ours."""
    name = (error.name or "").partition(".")[0]
    if name in OURS:
        raise error
    found = f"has no module {name}" if isinstance(error, ModuleNotFoundError) else f"cannot load {name}: {error}"
    return f"{sys.executable} {found}: install it with make setup"
