"""Numbers in sentences."""

from __future__ import annotations


def number_of(number: int, what: str) -> str:
    """Return "1 file" or "2 files", "1 process" or "2 processes"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}{'es' if what.endswith('s') else 's'}"
