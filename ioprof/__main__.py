"""`python -m ioprof`, for containers in which nothing of ours is installed."""

import sys

from ioprof.cli import main

sys.exit(main())
