"""`python -m caraml`."""

import sys

from caraml.cli import main

sys.exit(main())
