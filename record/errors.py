"""Error that a user can fix."""


class RecordError(Exception):
    """A user's file cannot be used: one sentence with what was found and what to do."""
