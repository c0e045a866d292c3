"""The command `caraml`: look at results, watch over sweeps, and see what a machine needs."""

__version__ = "1.0.0.dev0"
