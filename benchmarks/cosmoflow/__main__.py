"""`python -m benchmarks.cosmoflow`."""

from benchmarks.common.run import leave, skip_imports
from benchmarks.cosmoflow.train import main

skip_imports("matplotlib", "pandas")  # of Keras
leave(main())
