"""Rules on the reads of files."""

from __future__ import annotations

import math

from record.checks.run import Sentences, exceeds
from record.model import Record
from record.part import is_number
from record.parts import longest_s, windows_of


def _windows_read_no_more_than_the_job(run: Record) -> Sentences:
    if not run.io:
        return
    job = run.io.job
    for kind, reads in run.io.windows.items():
        for name in ("bytes", "reads"):
            if exceeds(part := reads.number(name), whole := job.number(name)):
                yield f"io has {part:,} {name} in its {kind} windows, and only {whole:,} in the whole job"
        parts = list(filter(is_number, reads.by_region.values()))
        if exceeds(math.fsum(parts) - len(parts), reads.bytes):  # each part is rounded
            yield f"the regions of its {kind} windows have more bytes than were read in them"
        window_s = longest_s(windows_of(run, kind))
        if exceeds(reads.reading_s, window_s):
            yield f"io has reads in {reads.reading_s:.4g} s of its {kind} windows, which last {window_s:.4g} s"
    if exceeds(job.sequential_reads, job.reads):
        yield f"io has {job.sequential_reads:,} sequential reads, and only {job.reads:,} reads"


RULES = (_windows_read_no_more_than_the_job,)
