"""State of a job, as its scheduler reports it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """One job at one moment; texts are as its scheduler prints them, empty if it does not report them."""

    job_id: str
    state: str = ""
    reason: str = ""  # why it is in that state
    start: str = ""
    latest_end: str = ""  # the time at which its limit ends it
    is_queued: bool = False
    has_ended: bool = False
    ended_by_itself: bool = False  # with its own exit code, not by the scheduler
    to_do: str = ""  # by the user, before it is submitted again
    exit_code: str = ""
    consumed_energy_j: float | None = None  # of the whole job, if its scheduler measures it

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason not in ("", "None") else ""
        return f"job {self.job_id}: {self.state}{reason}" + (f": {self.to_do}" if self.to_do else "")
