"""`python -m benchmarks.deepcam`."""

from benchmarks.common.run import leave
from benchmarks.deepcam.train import main

if __name__ == "__main__":
    leave(main())
