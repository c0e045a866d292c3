"""`python -m benchmarks.resnet50`."""

from benchmarks.common.run import leave
from benchmarks.resnet50.train import main

leave(main())
