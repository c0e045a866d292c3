from __future__ import annotations

import pytest

from benchmarks.common.tests import forked


@pytest.fixture(scope="session")
def imported():
    """PyTorch and megatron-core, for the processes of `forked.run`."""
    modules = ("gpt.model", "gpt.optimizer", "data")  # with all that they need
    # Processes of PyTorch's own that compile would each import it anew.
    environ = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    forked.prepare([f"benchmarks.llm_training.{name}" for name in modules], environ)
