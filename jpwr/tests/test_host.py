"""Identity and clock of this node."""

from __future__ import annotations

import ctypes

import pytest

from jpwr.process.host import clock_error_s, described


class Kernel:
    """A C library whose adjtimex(2) has a clock of a known error; without an error, it has no such call."""

    def __init__(self, state: int, error_us: int | None) -> None:
        self._answer = state, error_us
        if error_us is not None:
            self.adjtimex = self._adjtimex

    def _adjtimex(self, known: ctypes.Array[ctypes.c_long]) -> int:
        assert known[0] == 0  # any other mode would set the clock
        state, known[3] = self._answer
        return state


@pytest.mark.parametrize(
    ("state", "error_us", "error_s"),
    [
        (0, 2500, 0.0025),
        (5, 2500, 0.0025),  # not synchronised in the kernel's sense: chrony without rtcsync
        (5, 16_000_000, None),  # nothing sets it
        (-1, 0, None),  # a container forbids the call
        (0, None, None),
    ],
)
def test_the_error_of_a_clock_is_the_kernels_or_unknown(monkeypatch, state, error_us, error_s):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Kernel(state, error_us))
    assert clock_error_s() == error_s
    assert described(0.0).get("clock_error_s") == error_s
