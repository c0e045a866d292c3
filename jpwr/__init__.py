"""jpwr samples the power of every device of a node while a command runs."""

__version__ = "1.0.0.dev0"
