"""A node check with a rank whose products are held back, and one whose messages are: `python -m` of it is the program.

The environment names the ranks: THROTTLED, SLOW_LINK. Real work and messages wait for a time that no busy node reaches.
"""

import os
import time

from benchmarks.node_check import figures, messages

RANK = os.environ.get("RANK", "0")
HELD_BACK_S = 0.1  # at each product or large message, which take less than a millisecond
LARGE_BYTES = 500_000

multiply, round_trip = figures.product, messages._round_trip


def throttled(precision, shape, device):
    """The product, which waits before each call."""
    call = multiply(precision, shape, device)

    def held_back():
        time.sleep(HELD_BACK_S)
        call()

    return held_back


def delayed(message, partner, is_first):
    """The round trip, which waits at each large message."""
    if message.nbytes >= LARGE_BYTES:
        time.sleep(HELD_BACK_S)
    round_trip(message, partner, is_first)


if os.environ.get("THROTTLED") == RANK:
    figures.product = throttled
if os.environ.get("SLOW_LINK") == RANK:
    messages._round_trip = delayed

if __name__ == "__main__":
    from benchmarks.common.run import leave
    from benchmarks.node_check.check import main

    leave(main())
