"""Predictions of points that were not measured, with their error; a ranking never includes them."""
