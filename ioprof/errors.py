"""Error of ioprof; every message is one sentence for a person."""


class IoprofError(Exception):
    """Error that a user can correct."""
