"""`python -m benchmarks.deepcam`."""

import sys

from benchmarks.deepcam.train import main

if __name__ == "__main__":
    sys.exit(main())
