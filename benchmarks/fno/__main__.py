"""`python -m benchmarks.fno`."""

from benchmarks.common.run import leave, skip_imports
from benchmarks.fno.train import main

skip_imports("matplotlib", "wandb")  # of neuraloperator's own training

if __name__ == "__main__":
    leave(main())
