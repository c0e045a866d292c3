"""The command `caraml`: look at results and watch over sweeps."""
