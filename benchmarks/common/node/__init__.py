"""The node that a run is on: its limits, its GPUs, and what the record says of it."""
