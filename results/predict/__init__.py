"""Predictions of points that were not measured, with error and level; a ranking never includes them."""
