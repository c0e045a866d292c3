"""A real training loses a rank and starts again: what happened is what the model of goodput states."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
from pathlib import Path

import pytest

from benchmarks.llm_training.tests.test_train import ENVIRONMENT, LAYOUT, TORCHRUN
from benchmarks.llm_training.tests.test_train import text as text
from results.points.repeats import by_point
from results.record.model import Record
from results.tests.time_line import time_line
from results.verdicts.goodput import Failures, Goodput, JobTimes, goodput_of
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

EVERY, MADE, ALL = 5, 13, 15  # steps: between checkpoints, before the kill, and of the job; LAYOUT has 5


def train(folder: Path, steps: int, *flags: str) -> int:
    script = [*TORCHRUN, "--nproc-per-node", "2", "-m", "benchmarks.llm_training.tests.train_and_fail"]
    more = [
        "--record",
        str(folder / "record.json"),
        "--checkpoint",
        str(folder / "saved"),
        "--checkpoint-every",
        str(EVERY),
    ]
    command = [*script, str(folder / "events"), str(steps), *LAYOUT, *more, *flags]
    return subprocess.run(command, env=ENVIRONMENT, timeout=PATIENCE_S, check=False).returncode


def test_a_job_that_loses_a_rank_takes_the_time_that_the_model_states(text, tmp_path):
    events = tmp_path / "events"
    assert train(tmp_path, MADE, "--measured-steps", "1000", "--checkpoints", "0", *text) != 0
    assert (
        not (tmp_path / "record.json").exists() or json.loads((tmp_path / "record.json").read_text())["status"] != "ok"
    )
    (tmp_path / "record.json").unlink(missing_ok=True)
    assert train(tmp_path, 0, "--restore", str(tmp_path / "saved"), "--checkpoints", "2", *text) == 0
    noted = [json.loads(line) for line in events.read_text().splitlines()]

    # The first run makes two checkpoints and loses three steps; the second begins after the last checkpoint.
    saved = MADE // EVERY
    lost = MADE - saved * EVERY
    a_part = [*["step"] * EVERY, "checkpoint"]
    killed = ["started", "restored", *a_part * saved, *["step"] * lost, "killed"]
    assert [event for event, _ in noted] == [*killed, "started", "restored", *a_part * (ALL // EVERY - saved)]

    # Each event ends a part of the time.
    parts: dict[str, list[float]] = {}
    for (_, before_s), (event, at_s) in itertools.pairwise(noted[1:]):
        parts.setdefault(event, []).append(at_s - before_s)
    step_s, pause_s = (math.fsum(parts[event]) / len(parts[event]) for event in ("step", "checkpoint"))
    [killed_s], [started_s], [restored_s] = (parts[event] for event in ("killed", "started", "restored"))
    failure_s = MADE * step_s + saved * pause_s + killed_s
    times = JobTimes(math.inf, started_s, restored_s, pause_s)
    found = time_line(times, EVERY * step_s, iter([failure_s, math.inf]), ALL // EVERY)
    assert found.failures == 1
    assert found.lost_s == pytest.approx(lost * step_s + killed_s)
    assert found.clock_s == pytest.approx(noted[-1][1] - noted[1][1])

    # The record of the second run is enough for the goodput of such jobs.
    record = Record.of(json.loads((tmp_path / "record.json").read_text()))
    [point] = by_point([record])
    goodput = goodput_of(point, Failures(mttf_h=1.0, restart_s=started_s))
    assert isinstance(goodput, Goodput)
    assert goodput.interval_s == pytest.approx(goodput.steps * record.metrics.number("step_time_median_s"))
    stated = JobTimes(
        1800.0, started_s, *(record.metrics.number(f"checkpoint_{name}_s") for name in ("restore", "write"))
    )
    assert goodput.useful.value == pytest.approx(stated.useful(goodput.interval_s))
