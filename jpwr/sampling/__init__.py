"""Read every channel at random moments for as long as a block lasts."""

from jpwr.sampling.monitor import DEFAULT_INTERVAL_S, MIN_INTERVAL_S, PowerMonitor

__all__ = ["DEFAULT_INTERVAL_S", "MIN_INTERVAL_S", "PowerMonitor"]
