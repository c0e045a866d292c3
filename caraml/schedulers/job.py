"""A job as its scheduler sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Job:
    """One job at one moment; texts are as its scheduler prints them, empty where it does not say."""

    job_id: str
    state: str = ""
    reason: str = ""  # why it is in that state
    start: str = ""
    latest_end: str = ""  # when it is ended at the latest
    is_queued: bool = False
    has_ended: bool = False
    ended_by_itself: bool = False  # its own exit code is all there is to say of its end

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason not in ("", "None") else ""
        return f"job {self.job_id}: {self.state}{reason}"

    def to_record(self) -> dict[str, Any]:
        """Return what a result says of it."""
        raise NotImplementedError
