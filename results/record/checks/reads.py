"""Rules on the reads of files."""

from __future__ import annotations

import math

from results.record.checks.run import (
    Run,
    Sentences,
    exceeds,
)
from results.record.parts import is_number, longest_s, windows_of


def _windows_read_no_more_than_the_job(run: Run) -> Sentences:
    io = run.record.get("io") or {}
    job = io.get("job") or {}
    for kind, reads in (io.get("windows") or {}).items():
        for name in ("bytes", "reads"):
            if exceeds(reads.get(name), job.get(name)):
                yield f"io has {reads[name]:,} {name} in its {kind} windows, and only {job[name]:,} in the whole job"
        parts = list(filter(is_number, (reads.get("by_region") or {}).values()))
        if exceeds(math.fsum(parts) - len(parts), reads.get("bytes")):  # each part is rounded
            yield f"the regions of its {kind} windows have more bytes than were read in them"
        window_s = longest_s(windows_of(run.record, kind))
        if exceeds(reads.get("reading_s"), window_s):
            yield f"io has reads in {reads['reading_s']:.4g} s of its {kind} windows, which last {window_s:.4g} s"
    if exceeds(job.get("sequential_reads"), job.get("reads")):
        yield f"io has {job['sequential_reads']:,} sequential reads, and only {job['reads']:,} reads"


RULES = (_windows_read_no_more_than_the_job,)
