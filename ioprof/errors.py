"""Errors raised while reads are counted; every message is one sentence for a person."""


class IoprofError(Exception):
    """Raised on purpose, for what a person can mend."""
