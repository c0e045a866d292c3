"""`python -m benchmarks.llm_training`, alone or under torchrun."""

import sys

from benchmarks.llm_training.train import main

sys.exit(main())
