"""What was not measured, predicted with its error: never in a ranking, always with the level it was predicted at."""
