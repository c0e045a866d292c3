"""The limits of a measurement that counts; `jpwr check` and the suite's reports hold to the same."""

from __future__ import annotations

# After the Green500's (EE HPC Working Group, level 1), for a run of its own length.
MIN_RATE_HZ = 0.9  # one a second, as a node's controller has; random moments and a window's edges cost some
MIN_SAMPLES = 60
MAX_GAP_S = 2.0
# Of the readings of a channel; our own.
MAX_MISSING = 0.01
