"""The program with a network of two stages, which have blocks of every kind: for what does not depend on depth."""

from __future__ import annotations

from benchmarks.common.run import leave
from benchmarks.resnet50 import model
from benchmarks.resnet50.config import STAGES
from benchmarks.resnet50.train import main

FEW_STAGES = STAGES[:2]

if __name__ == "__main__":
    model.STAGES = FEW_STAGES
    leave(main())
