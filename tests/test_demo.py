"""The demo's estimate of the time left: its functions, with the clock set by the test."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.conftest import REPOSITORY
from tests.waiting import PATIENCE_S

PARTS = (
    "check data llm llm_point llm_point llm_point resnet50 resnet50_point inference inference_point "
    "conversations conversations_point report"
)


def estimates(script: str) -> list[int]:
    """Return what a script prints that uses the demo's functions."""
    demo = (REPOSITORY / "scripts" / "demo.sh").read_text()
    [functions] = re.findall(r"^parts=\(.*?(?=^say\(\))", demo, re.MULTILINE | re.DOTALL)
    # Once unset, SECONDS is a variable like any other.
    command = ["bash", "-c", f"set -euo pipefail\nunset SECONDS\n{functions}\n{script}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return [int(line) for line in done.stdout.split()]


@pytest.mark.parametrize(("pace", "judged"), [(100, 100), (200, 200), (250, 170), (130, 180)])
def test_the_estimate_is_right_within_a_quarter_also_where_the_first_judgement_is_not(pace, judged):
    # Each part takes its waiting time, and its computing time at the machine's pace in percent.
    first, *left, end = estimates(f"""
        pace_percent={judged} SECONDS=0
        seconds_left
        for part in {PARTS}; do
            SECONDS=$((SECONDS + waits_s[$part] + works_s[$part] * {pace} / 100))
            ended $part
            seconds_left
        done
        echo $SECONDS""")
    assert left.pop() == 0
    assert (first == pytest.approx(end, rel=0.05)) == (pace == judged)
    ends = estimates(f"""
        SECONDS=0
        for part in {PARTS}; do
            SECONDS=$((SECONDS + waits_s[$part] + works_s[$part] * {pace} / 100))
            echo $SECONDS
        done""")
    assert left[1:] == [pytest.approx(end - now, rel=0.25, abs=1) for now in ends[1:-1]]


def test_fewer_points_leave_less_time_and_no_part_is_counted_twice():
    whole, fewer, one_ended, both_ended = estimates("""
        SECONDS=0
        seconds_left
        number[llm_point]=2
        seconds_left
        SECONDS=$((waits_s[llm_point] + works_s[llm_point]))
        ended llm_point
        seconds_left
        SECONDS=$((2 * SECONDS))
        ended llm_point
        seconds_left""")
    assert whole - fewer == fewer - one_ended == one_ended - both_ended > 0
