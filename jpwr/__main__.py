"""The command `jpwr`, and `python -m jpwr` for containers in which nothing of ours is installed."""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until signals are forwarded, Ctrl-C ends this process at once, also inside of a library that does not answer.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from jpwr.cli import main

if __name__ == "__main__":
    sys.exit(main())
