"""Work in several processes: the same results, in order, and errors that reach who asked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from results.find.in_parallel import for_each

# In a process of its own, because that of the tests may have threads.
IN_PARALLEL = """
import os
from results.find.in_parallel import for_each
os.sched_getaffinity = lambda process: {0, 1}
found = list(for_each(lambda one: (one**2, os.getpid()), range(100), together=10))
print([square for square, _ in found], os.getpid() in {process for _, process in found})
try:
    list(for_each(lambda one: os.kill(os.getpid(), 9), range(4)))
except OSError as error:
    print(error.strerror)
"""


def test_results_are_in_order_and_of_other_processes():
    done = subprocess.run([sys.executable, "-c", IN_PARALLEL], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"{[one**2 for one in range(100)]} False\na process was killed, most likely for lack of memory: free some\n",
        "",
    )


@pytest.mark.parametrize("cores", [1, 2])
def test_an_error_reaches_who_asked(monkeypatch, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    with pytest.raises(ZeroDivisionError):
        list(for_each(lambda one: 1 // one, [1, 0, 1, 1]))


def test_a_process_with_threads_is_not_copied(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()
    try:
        assert list(for_each(lambda one: os.getpid(), range(4))) == [os.getpid()] * 4
    finally:
        ended.set()
        other.join()
