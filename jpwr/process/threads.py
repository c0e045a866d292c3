"""Threads that leave signals to the main thread, and calls that may never return."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import Callable, Iterator

# What may be for the measured command, and is passed on to it.
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
ANSWER_S = 5.0  # a sensor that takes longer holds up nothing else
SOON_S = 3.0  # who waits longer than this wants to know for what


@contextmanager
def blocked_signals() -> Iterator[None]:
    """These signals wait until the end; what is started meanwhile, thread or process, has them blocked for ever."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(*threads: threading.Thread) -> None:
    """Start threads in which these signals are blocked.

    Python's handlers run in the main thread. A signal that the kernel gives to another thread does not end the system
    call in which the main one waits, and would be seen only when that has ended by itself.
    """
    with blocked_signals():
        for thread in threads:
            thread.start()


def within(
    limit_s: float, call: Callable[[], object], while_waiting: Callable[[], object] = bool, starts_more: bool = False
) -> bool:
    """Call something that may hang, in a thread of its own; whether it has returned in time. It goes on if not.

    What it raises is raised here. Where it takes longer than SOON_S, `while_waiting` is called then. Where it
    `starts_more`, processes that are there for long, they have no more signals blocked than who calls.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # handed to who waits
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
