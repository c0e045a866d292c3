"""From records of runs to tables, verdicts, plots and reports. Reads records and traces, and nothing else.

`results.frame(FOLDER)` is for notebooks.
"""

from results.show.notebook import frame

__all__ = ["frame"]
