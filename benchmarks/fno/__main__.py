"""`python -m benchmarks.fno`."""

from benchmarks.common.run import leave
from benchmarks.fno.train import main

if __name__ == "__main__":
    leave(main())
