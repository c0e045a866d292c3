"""Training to a loss: when it ends, and what it records."""

from __future__ import annotations

import json
import math
from functools import partial

import pytest

from benchmarks.common import session
from benchmarks.common.measure.window import LOOK_EVERY, Course
from benchmarks.common.options import WindowOptions
from benchmarks.common.tests.test_session import Sums
from record.arithmetic import SMOOTHED_LOSSES

LIMIT_S = 100.0
STEPS = ("--warmup-steps", "0", "--max-measured-s", "100")


class Given:
    """A Training whose losses are given; the last one stays."""

    def __init__(self, *losses):
        self.given, self.made, self.fetched = losses, 0, 0

    def losses(self, first=0):
        found = [self.given[min(call, len(self.given) - 1)] for call in range(first, self.made)]
        self.fetched += len(found)
        return found


def trained(training, target=3.0, call_s=1.0):
    """The course of a training whose calls take a second each."""
    course = Course(WindowOptions(warmup_steps=0, max_measured_s=LIMIT_S, to_loss=target), training, False)
    more = LOOK_EVERY
    while more:
        training.made += more
        more = course.steps_left(training.made, training.made * call_s)
    return course


FALLING = tuple(10.0 - 0.1 * call for call in range(200))


@pytest.mark.parametrize(
    ("losses", "calls", "loss"),
    [
        ((2.0,), SMOOTHED_LOSSES, 2.0),  # from the first look that has enough losses
        ((3.0,), SMOOTHED_LOSSES, 3.0),  # exactly at the target
        (FALLING, 80, 10 - 0.1 * 74.5),  # after 75 calls it is 3.05
        ((*[9.0] * 12, 1.0, *[9.0] * 12, 2.0), 35, 2.0),  # a single low loss is not enough
        ((*[9.0] * 30, *[2.0] * 6, *[5.0] * 4, 2.5), 50, 2.5),  # the mean is 3.2, rises to 3.45 and falls
        ((4.0,), LIMIT_S, 4.0),
    ],
)
def test_a_training_ends_at_the_first_look_with_a_smoothed_loss_at_the_target(losses, calls, loss):
    training = Given(*losses)
    course = trained(training)
    assert (training.made, course.loss) == (calls, pytest.approx(loss))
    assert training.fetched == training.made  # each once, so that a long training does not slow down
    assert bool(course.problem(LIMIT_S)) == (loss > 3.0)


def test_a_loss_that_is_no_number_ends_the_training():
    training = Given(*[5.0] * 22, math.nan)
    course = trained(training)
    assert training.made == 25
    assert "the loss is nan after 25 calls in 25 s" in course.problem(25.0)


@pytest.fixture
def ran(run_of):
    """The exit code and the record of a run; its losses are 1, 1/2, 1/3 and so on, one for each call of two steps."""
    return partial(run_of, Sums, *STEPS)


def test_what_a_training_takes_to_a_loss_is_that_of_its_whole_window(ran):
    code, record = ran("--to-loss", "0.1")
    metrics, [window] = record["metrics"], record["windows"]
    assert (code, record["status"], record["variant"]) == (0, "ok", ["to loss 0.1"])
    assert (metrics["target_loss"], metrics["warmup_steps"]) == (0.1, 0)
    # After 15 calls the mean of the last 10 losses is 0.104.
    assert metrics["reached_loss"] == pytest.approx(sum(1 / call for call in range(11, 21)) / 10)
    assert metrics["numbers_to_loss"] == 40 * 4 * 50
    assert metrics["time_to_loss_s"] == metrics["measured_s"] == pytest.approx(window["end_s"] - window["start_s"])
    assert len(record["losses"]) == 20


def test_a_training_that_misses_its_loss_has_failed_and_says_how_far_it_came(ran, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.common.tests.test_session.Adding.losses", lambda self, first=0: [])
    code, record = ran("--to-loss", "0.1", "--max-measured-s", "1e-9")
    metrics = record["metrics"]
    assert (code, record["status"]) == (1, "failed")
    assert "--to-loss 0.1 was asked for, but the loss is not known after" in record["error"]
    assert metrics["target_loss"] == 0.1
    assert not {"time_to_loss_s", "numbers_to_loss", "reached_loss"} & metrics.keys()
    assert "the loss is not known" in capsys.readouterr().err


def test_turns_have_no_target(capsys):
    assert session.main(Sums, [*STEPS, "--to-loss", "1", "--effective"]) == 2
    assert "--effective and --to-loss exclude each other" in capsys.readouterr().err


def test_copies_that_run_at_once_have_no_common_loss(tmp_path, monkeypatch):
    for name, value in (("COPY", "1"), ("COPIES", "2"), ("COPIES_FOLDER", str(tmp_path))):
        monkeypatch.setenv(f"CARAML_{name}", value)
    code = session.main(Sums, [*STEPS, "--to-loss", "1", "--record", str(tmp_path / "record.json")])
    assert code == 2
    assert "leave out the tag fill" in json.loads((tmp_path / "record.json").read_text())["error"]
