from __future__ import annotations

import itertools

import pytest

from benchmarks.common import session
from benchmarks.common.tests.started import read_derived


@pytest.fixture
def run_of(tmp_path):
    """Run a workload with some flags; return the exit code and the record, the first of which is record.json."""
    numbers = itertools.count()

    def run(workload, *flags):
        path = tmp_path / f"record{next(numbers) or ''}.json"
        code = session.main(workload, [*flags, "--record", str(path)])
        return code, read_derived(path)

    return run
