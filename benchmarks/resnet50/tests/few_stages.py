"""The program with a network of two stages, which have blocks of every kind: for what does not depend on depth."""

from __future__ import annotations

from benchmarks.common.run import leave, skip_imports
from benchmarks.resnet50.config import STAGES

FEW_STAGES = STAGES[:2]

if __name__ == "__main__":
    skip_imports("matplotlib", "pandas")
    from benchmarks.resnet50 import model
    from benchmarks.resnet50.train import main

    model.STAGES = FEW_STAGES
    leave(main())
