"""The harness of the benches, with programs whose cost is known."""

from __future__ import annotations

import sys

import pytest

from tools.bench.harness import cost, in_turns, missed


def test_contestants_take_turns_and_the_first_round_is_not_counted():
    turns = []

    def contestant(name):
        return lambda: turns.append(name) or len(turns)

    measured = in_turns(2, {name: contestant(name) for name in "ab"})
    assert turns == ["a", "b"] * 3
    assert measured == {"a": [3, 5], "b": [4, 6]}


@pytest.mark.parametrize(
    ("limit", "is_missed"),
    [
        ((), False),
        (("at most", 4.0), False),
        (("at most", 3.9), True),
        (("ratio at least", 2), False),
        (("ratio at least", 2.1), True),
        (("ratio at most", 2), False),
        (("ratio at most", 1.9), True),
    ],
)
def test_the_ratio_is_the_median_of_the_rounds(limit, is_missed, capsys):
    measured = {"ours": [1.0, 4.0, 9.0], "peer": [1.0, 2.0, 3.0]}
    assert missed("speed", "1/s", measured, *limit) is is_missed
    printed = capsys.readouterr().out
    assert printed.split()[:6] == ["speed", "4", "1/s", "peer", "2", "2.000"]
    assert printed.rstrip().endswith(": MISSED") is is_missed


def test_memory_is_that_of_the_command_alone():
    ballast = bytearray(200 << 20)
    ballast[:: 1 << 12] = bytes(len(ballast[:: 1 << 12]))  # in memory while the command starts
    assert cost([sys.executable, "-c", "pass"]).peak_mib < 100
    assert 60 < cost([sys.executable, "-c", "b'x' * (64 << 20)"]).peak_mib < 150


def test_a_command_that_fails_ends_the_bench():
    with pytest.raises(SystemExit, match="no such file"):
        cost([sys.executable, "-c", "raise SystemExit('no such file')"])
