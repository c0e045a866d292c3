"""Rules on what was read."""

from __future__ import annotations

import math

from results.record.checks.run import (
    Run,
    Sentences,
    exceeds,
)
from results.record.parts import is_number, longest_s, windows_of


def _reads_are_part_of_the_jobs(run: Run) -> Sentences:
    found = run.record.get("io") or {}
    job = found.get("job") or {}
    for kind, one in (found.get("windows") or {}).items():
        for name in ("bytes", "reads"):
            if exceeds(one.get(name), job.get(name)):
                yield f"io has {one[name]:,} {name} of its {kind} windows, and {job[name]:,} of the whole job"
        parts = list(filter(is_number, (one.get("by_region") or {}).values()))
        if exceeds(math.fsum(parts) - len(parts), one.get("bytes")):  # each is rounded
            yield f"the regions of its {kind} windows have more bytes than were read in them"
        window_s = longest_s(windows_of(run.record, kind))
        if exceeds(one.get("reading_s"), window_s):
            yield f"something was read in {one['reading_s']:.4g} s of its {kind} windows, which are {window_s:.4g} s"
    if exceeds(job.get("sequential_reads"), job.get("reads")):
        yield f"io has {job['sequential_reads']:,} sequential reads of {job['reads']:,}"


RULES = (_reads_are_part_of_the_jobs,)
