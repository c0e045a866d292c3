"""The command `ioprof`, and `python -m ioprof` for containers in which nothing of ours is installed."""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until signals are forwarded, Ctrl-C ends this process at once, also inside of a library that does not answer.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    from ioprof.cli import main
except ImportError as error:
    if (error.name or "").partition(".")[0] != "jpwr":  # which is a distribution of its own
        raise
    print(f"ioprof: {error}: install it with pip install ./jpwr in a checkout of CARAML", file=sys.stderr)
    sys.exit(125)  # as jpwr.process.parser.EXIT_FAILED

if __name__ == "__main__":
    sys.exit(main())
