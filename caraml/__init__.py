"""The command `caraml`: check a machine, wait for sweeps, and evaluate their results."""
