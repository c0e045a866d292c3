"""`python -m benchmarks.resnet50`."""

from benchmarks.common.run import leave, skip_imports
from benchmarks.resnet50.train import main

skip_imports("matplotlib", "pandas")  # of Keras
leave(main())
