"""The part of a run that is measured: its window or turns, its steps and their regions, and what they come to."""
