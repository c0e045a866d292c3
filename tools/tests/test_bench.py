"""The harness of the benches, with programs whose cost is known."""

from __future__ import annotations

import sys

import pytest

from tools.bench.coverage import percent
from tools.bench.harness import Table, cost


def test_contestants_take_turns_and_the_first_round_is_not_counted():
    turns = []

    def contestant(name):
        return lambda: turns.append(name) or len(turns)

    measured = Table().in_turns(2, {name: contestant(name) for name in "ab"})
    assert turns == ["a", "b"] * 3
    assert measured == {"a": [3, 5], "b": [4, 6]}


@pytest.mark.parametrize(
    ("limits", "missed"),
    [
        ({}, False),
        ({"most": 4.0}, False),
        ({"most": 3.9}, True),
        ({"least_ratio": 2}, False),
        ({"least_ratio": 2.1}, True),
    ],
)
def test_the_ratio_is_the_median_of_the_rounds(limits, missed, capsys):
    table = Table()
    table.add("speed", "1/s", [1.0, 4.0, 9.0], "peer", [1.0, 2.0, 3.0], **limits)
    assert capsys.readouterr().out.split()[:6] == ["speed", "4", "1/s", "peer", "2", "2.000"]
    assert table.missed is missed


def test_memory_is_that_of_the_command_alone():
    ballast = bytearray(200 << 20)
    ballast[:: 1 << 12] = bytes(len(ballast[:: 1 << 12]))  # in memory while the command starts
    assert cost([sys.executable, "-c", "pass"]).peak_mib < 100
    assert 60 < cost([sys.executable, "-c", "b'x' * (64 << 20)"]).peak_mib < 150


def test_a_command_that_fails_ends_the_bench():
    with pytest.raises(SystemExit, match="no such file"):
        cost([sys.executable, "-c", "raise SystemExit('no such file')"])


@pytest.mark.parametrize(("value", "text"), [(6.24, "6.2"), (124.0, "120"), (0.00064, "0.00064"), (1.2e-12, "0")])
def test_a_percentage_of_the_coverage_page_has_no_exponent(value, text):
    assert percent(value) == text
