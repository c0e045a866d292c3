"""Code that all benchmarks of the suite share."""
