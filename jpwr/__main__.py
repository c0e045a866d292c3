"""The command `jpwr`, and `python -m jpwr` for containers in which nothing of ours is installed."""

import gc
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until signals are forwarded, Ctrl-C ends this process at once, also inside of a library that does not answer.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
gc.disable()  # until all is loaded: collections would take a tenth of the time, and find nothing

from jpwr.cli import main  # noqa: E402 - after the two calls above

if __name__ == "__main__":
    sys.exit(main())
