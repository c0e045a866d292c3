"""Errors of jpwr; every message is one sentence for a person."""


class JpwrError(Exception):
    """Base of all errors that jpwr raises."""


class BackendUnavailable(JpwrError):
    """A method cannot be used on this node: its library, its device or a permission is missing."""


class ReadError(JpwrError):
    """One reading of one channel failed."""


class NotEnoughSamples(JpwrError):
    """A quantity needs more samples than there are."""


class TraceError(JpwrError):
    """A trace cannot be written or read back."""
