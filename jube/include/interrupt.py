"""Print one line when JUBE is interrupted, in place of its traceback.

The parameter `on_interrupt` runs this file in JUBE's own process.
"""

from __future__ import annotations

import sys
from types import TracebackType


def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an exception that ends JUBE."""
    if issubclass(kind, KeyboardInterrupt):
        print(
            "caraml: interrupted: submitted jobs continue, and 'caraml check FOLDER' lists what has not run",
            file=sys.stderr,
        )
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = show
