"""What a program reads, file by file: `python -m ioprof --out DIR -- command`."""

from jpwr import __version__

__all__ = ["__version__"]
