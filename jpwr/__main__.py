"""`python -m jpwr`, for containers in which nothing of ours is installed."""

import sys

from jpwr.cli import main

sys.exit(main())
