"""Measured part of a run: its window or turns, its steps and their regions, and the metrics of these."""
