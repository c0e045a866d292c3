from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.tests import forked
from benchmarks.common.tests.started import read_derived

SHORT = ["--global-batch-size", "8", "--sequence-length", "64", "--warmup-steps", "1", "--measured-steps", "4"]
LAYOUT = [*SHORT, "--learning-rate", "1e-3", "--micro-batch-size", "2"]


@pytest.fixture(scope="session")
def imported():
    """PyTorch and megatron-core, for the processes of `forked.run`."""
    modules = ("gpt.model", "gpt.optimizer", "data")  # with all that they need
    # Processes of PyTorch's own that compile would each import it anew.
    environ = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    forked.prepare([f"benchmarks.llm_training.{name}" for name in modules], environ)


def trained(record: Path, *flags: str, ranks: int = 0, module: str = "", **environ: str) -> dict[str, Any]:
    """Return the record of a good run of the program, or of a module that changes it, in forked processes."""
    options = [*flags, "--record", str(record)]
    done = forked.run(module or "benchmarks.llm_training", *options, ranks=ranks, environ=environ)
    assert done.returncode == 0, done.stderr
    found = read_derived(record)
    assert found["status"] == "ok"
    return found


def train_variant(variant: str, *flags: str, steps: int = 4, seeds: tuple[int, int] = (1, 1), ranks: int = 0) -> Any:
    """Return what was trained with each seed, as train_variant.py prints it."""
    asked = (variant, *map(str, (steps, *seeds)), *flags)
    done = forked.run("benchmarks.llm_training.tests.train_variant", *asked, ranks=ranks)
    assert done.returncode == 0, done.stderr
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("[{")))
