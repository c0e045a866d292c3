"""The command `caraml`: look at results, watch over sweeps, and see what a machine needs."""
