"""The command `caraml`: look at results, watch over sweeps, and see what a machine needs."""

from jpwr import __version__

__all__ = ["__version__"]
