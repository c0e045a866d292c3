"""`python -m benchmarks.node_check`."""

from benchmarks.common.run import leave
from benchmarks.node_check.check import main

leave(main())
