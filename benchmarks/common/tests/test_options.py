from __future__ import annotations

from dataclasses import dataclass

import pytest

from benchmarks.common.options import (
    ComputeOptions,
    ConfigError,
    DataOptions,
    RunOptions,
    TurnsOptions,
    WindowOptions,
    option,
    parse_config,
)


@dataclass(frozen=True)
class Sizes:
    """Sizes of things."""

    micro_batch_size: int = option(4, "samples per forward pass")
    rate: float | None = option(None, "a rate, in 1/s")
    mode: str = option("fast", "how it goes", ("fast", "slow"))
    fuse: bool = option(True, "fuse kernels")
    files: tuple[str, ...] = option((), "files to read")


def parse(*argv: str) -> Sizes:
    [sizes] = parse_config((Sizes,), argv, prog="prog", description="A program.")
    assert isinstance(sizes, Sizes)
    return sizes


def test_each_field_is_a_flag_of_its_type():
    sizes = parse("--micro-batch-size", "2", "--rate", "0.5", "--mode", "slow", "--no-fuse", "--files", "a", "b")
    assert sizes == Sizes(2, 0.5, "slow", False, ("a", "b"))


def test_a_misspelt_flag_is_refused_with_the_nearest_one():
    with pytest.raises(ConfigError, match="no option --micro-batch-siz: did you mean '--micro-batch-size'"):
        parse("--micro-batch-siz", "2")


@pytest.mark.parametrize("argv", [("--micro", "2"), ("--micro-batch-size", "many"), ("--mode", "medium"), ("--rate",)])
def test_an_abbreviated_flag_or_a_value_of_the_wrong_kind_is_refused(argv):
    with pytest.raises(ConfigError, match=argv[0]):
        parse(*argv)


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WindowOptions(min_measured_s=10, max_measured_s=5), "min_measured_s 10 is above max_measured_s 5"),
        (lambda: WindowOptions(warmup_steps=0, max_measured_s=5), "--max-measured-s need a warm-up step"),
        (lambda: WindowOptions(measured_steps=0), "measured_steps must be above 0, got 0"),
        (lambda: WindowOptions(warmup_steps=-1), "warmup_steps must be 0 or more, got -1"),
        (lambda: WindowOptions(to_loss=1.0, warmup_steps=0), "--to-loss needs --max-measured-s"),
        (lambda: WindowOptions(to_loss=1.0, max_measured_s=1.0), "give --warmup-steps 0"),
        (lambda: WindowOptions(to_loss=float("nan")), "to_loss must be above 0, got nan"),
        (lambda: WindowOptions(max_measured_s=float("inf")), "max_measured_s must be finite, got inf"),
        (lambda: DataOptions(stage_bytes=-1), "stage_bytes must be above 0, got -1"),
        (lambda: TurnsOptions(rounds=0), "rounds must be above 0"),
        (lambda: TurnsOptions(cold_cache=True), "--cold-cache needs --effective"),
        (lambda: DataOptions("imagenet"), "--data imagenet needs --data-dir"),
        (lambda: DataOptions(data_dir="x"), "--data-dir was given, but the data is synthetic"),
        (lambda: DataOptions(stage="x"), "--stage was given, but the data is synthetic"),
        (lambda: ComputeOptions(threads=0), "threads must be above 0"),
        (lambda: RunOptions(profile=3), "--profile needs --record FILE"),
        (lambda: RunOptions(region_times=True), "--region-times needs --record FILE"),
    ],
)
def test_options_that_make_no_run_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
