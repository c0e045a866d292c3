"""`python -m benchmarks.resnet50`."""

import sys

from benchmarks.resnet50.train import main

sys.exit(main())
