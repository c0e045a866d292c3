"""`python -m benchmarks.llm_training`, alone or under torchrun."""

from benchmarks.common.run import leave
from benchmarks.llm_training.train import main

leave(main())
