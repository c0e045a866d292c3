"""The command `jpwr`, and `python -m jpwr` for containers in which nothing of ours is installed."""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until all is loaded: no traceback for who stops it at once

from jpwr.cli import main

if __name__ == "__main__":
    sys.exit(main())
