"""`python -m benchmarks.cosmoflow`."""

from benchmarks.common.run import leave
from benchmarks.cosmoflow.train import main

leave(main())
