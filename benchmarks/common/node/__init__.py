"""Node of a run: its limits, its GPUs, and its description in the record."""
