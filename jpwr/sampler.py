"""PowerMonitor, by the name under which programs import it."""

from jpwr.sampling import PowerMonitor

__all__ = ["PowerMonitor"]
