"""`python -m benchmarks.resnet50_torch`."""

from benchmarks.common.run import leave
from benchmarks.resnet50_torch.train import main

if __name__ == "__main__":
    leave(main())
