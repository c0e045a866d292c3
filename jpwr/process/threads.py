"""Threads that leave signals to the main thread, and calls that may never return."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import Callable, Iterator

# Signals that are forwarded to the measured command.
FORWARDED_SIGNALS = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGXCPU,
)
ANSWER_S = 5.0  # longest wait for a sensor
SOON_S = 3.0  # a longer wait is announced to the user


@contextmanager
def blocked_signals() -> Iterator[None]:
    """Block the forwarded signals during the block; threads and processes that start in it inherit the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(*threads: threading.Thread) -> None:
    """Start threads in which the forwarded signals are blocked.

    Python's handlers run in the main thread. If the kernel delivers a signal to another thread, the main thread's
    system call is not interrupted, and the handler runs only after its end.
    """
    with blocked_signals():
        for thread in threads:
            thread.start()


def within(
    limit_s: float, call: Callable[[], object], while_waiting: Callable[[], object] = bool, starts_more: bool = False
) -> bool:
    """Call a function that may hang in a new thread; return whether it has ended within `limit_s` seconds.

    Raises what it raises. The thread continues after the limit. `while_waiting` is called if it takes longer than
    SOON_S. With `starts_more`, the function may start processes, so that the forwarded signals are not blocked.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # raised in the calling thread
            raised.append(error)

    thread = threading.Thread(target=run, name="jpwr-within", daemon=True)
    if starts_more:
        thread.start()
    else:
        start(thread)
    thread.join(min(limit_s, SOON_S))
    if thread.is_alive() and limit_s > SOON_S:
        while_waiting()
        thread.join(limit_s - SOON_S)
    if raised:
        raise raised[0]
    return not thread.is_alive()
