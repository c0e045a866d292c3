"""`python -m benchmarks.cosmoflow`."""

import sys

from benchmarks.cosmoflow.train import main

sys.exit(main())
