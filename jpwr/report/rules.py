"""Limits of a valid measurement, for the suite's reports."""

from __future__ import annotations

# After the Green500 (EE HPC Working Group, level 1), for the length of the run.
MIN_RATE_HZ = 0.9  # one per second, less some for random moments and a window's edges
MIN_SAMPLES = 60
MAX_GAP_S = 2.0
# Share of a channel's readings; our own rule.
MAX_MISSING = 0.01
