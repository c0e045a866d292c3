"""Read every channel at random moments for as long as a block lasts.

The loop is `Lane.loop`: PowerMonitor runs it in threads, and Recorder turns what it reads into rows.
"""

from jpwr.sampling.monitor import DEFAULT_INTERVAL_S, MIN_INTERVAL_S, PowerMonitor

__all__ = ["DEFAULT_INTERVAL_S", "MIN_INTERVAL_S", "PowerMonitor"]
