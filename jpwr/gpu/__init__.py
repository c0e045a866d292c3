"""Methods under the names that they have in jpwr 0.0.10."""
