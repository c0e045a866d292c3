from __future__ import annotations

import io
import sys
from dataclasses import dataclass

import pytest

from benchmarks.common.options import ConfigError, WindowOptions, option, parse_config, run_command


@dataclass(frozen=True)
class Sizes:
    """Sizes of things.

    More words that are not for the help.
    """

    micro_batch_size: int = option(4, "samples per forward pass")
    rate: float | None = option(None, "a rate, in 1/s")
    mode: str = option("fast", "how 100% of it goes", ("fast", "slow"))
    fuse: bool = option(True, "fuse kernels")
    files: tuple[str, ...] = option((), "files to read")


def parse(*argv: str) -> Sizes:
    [sizes] = parse_config((Sizes,), argv, prog="prog", description="A program.")
    assert isinstance(sizes, Sizes)
    return sizes


def test_without_flags_a_configuration_has_its_defaults():
    assert parse() == Sizes()


def test_each_field_is_a_flag_of_its_type():
    sizes = parse("--micro-batch-size", "2", "--rate", "0.5", "--mode", "slow", "--no-fuse", "--files", "a", "b")
    assert sizes == Sizes(2, 0.5, "slow", False, ("a", "b"))


def test_a_misspelt_flag_is_refused_with_the_nearest_one():
    with pytest.raises(ConfigError, match="no option --micro-batch-siz: did you mean '--micro-batch-size'"):
        parse("--micro-batch-siz", "2")


def test_an_abbreviated_flag_is_refused():
    with pytest.raises(ConfigError, match="--micro"):
        parse("--micro", "2")


@pytest.mark.parametrize("argv", [("--micro-batch-size", "many"), ("--mode", "medium"), ("--rate",)])
def test_a_value_of_the_wrong_kind_is_refused(argv):
    with pytest.raises(ConfigError, match=argv[0]):
        parse(*argv)


def test_the_help_has_every_flag_under_its_group(capsys):
    with pytest.raises(SystemExit):
        parse("--help")
    text = capsys.readouterr().out
    assert "Sizes of things:" in text
    assert "More words" not in text
    assert "samples per forward pass (default: 4)" in text
    assert "100%" in text


@pytest.mark.parametrize(
    ("limits", "steps"),
    [
        ({}, 20),
        ({"min_measured_s": 60.0}, 120),
        ({"min_measured_s": 1.0}, 20),
        ({"max_measured_s": 5.0}, 10),
        ({"max_measured_s": 0.1}, 1),
        ({"max_measured_s": 60.0}, 20),
        ({"min_measured_s": 30.0, "max_measured_s": 40.0, "measured_steps": 1000}, 80),
    ],
)
def test_the_window_has_the_steps_that_fit_its_limits(limits, steps):
    """The first warm-up step compiles; the last was slowed by something else."""
    assert WindowOptions(**limits).steps_to_measure([9.0, 0.5, 0.6]) == steps


@pytest.mark.parametrize(("took_s", "left"), [(60.0, 0), (61.0, 0), (30.0, 10), (59.9, 1), (6.0, 90), (0.0, 10)])
def test_a_window_that_is_too_short_goes_on_at_its_own_pace(took_s, left):
    assert WindowOptions(min_measured_s=60.0).steps_left(10, took_s) == left
    assert WindowOptions().steps_left(10, took_s) == 0


def test_a_window_that_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="min_measured_s 10 is above max_measured_s 5"):
        WindowOptions(min_measured_s=10, max_measured_s=5)
    with pytest.raises(ConfigError, match="--max-measured-s need a warm-up step"):
        WindowOptions(warmup_steps=0, max_measured_s=5)


def test_what_the_terminals_encoding_does_not_know_is_escaped(monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert run_command(Sizes, "prog", "A program.", lambda sizes: print(*sizes.files), ["--files", "ger\u00e4t"]) == 0
    terminal.flush()
    assert terminal.buffer.getvalue() == b"ger\\xe4t\n"
