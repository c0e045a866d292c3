"""Threads that leave signals to the main thread."""

from __future__ import annotations

import signal
import threading

# What may be for the measured command, and is passed on to it.
FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


def start(*threads: threading.Thread) -> None:
    """Start threads in which these signals are blocked.

    Python's handlers run in the main thread. A signal that the kernel gives to another thread does not end the system
    call in which the main one waits, and would be seen only when that has ended by itself.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED_SIGNALS)
    try:
        for thread in threads:
            thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
