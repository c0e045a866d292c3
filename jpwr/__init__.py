"""jpwr samples the power of every device of a node while a command runs."""

from jpwr.trace.marks import region

__all__ = ["region"]
__version__ = "1.1.0"
