"""From records of runs to tables, verdicts, plots and reports. Reads records and traces, and nothing else.

`results.frame(FOLDER)` is for notebooks.
"""

from typing import Any

__all__ = ["frame"]


def __getattr__(name: str) -> Any:
    """Import what notebooks use when they ask for it: jobs and the planning of each JUBE step do without."""
    if name != "frame":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from results.frames import frame

    return frame
