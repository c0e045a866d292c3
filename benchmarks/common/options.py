"""Options are written once, as fields of frozen dataclasses; the command line is made from them."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import math
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar, get_args, get_origin, get_type_hints

EXIT_BAD_OPTIONS = 2
PRECISIONS = ("auto", "fp32", "bf16", "fp16", "fp8")
# cuBLAS and cuDNN then multiply in float32 and not in TF32, whoever calls them, so that MFU is of the peak in fp32.
FULL_FP32 = {"NVIDIA_TF32_OVERRIDE": "0"}


class ConfigError(Exception):
    """The options make no run: one sentence with what was asked, what was found and what to do."""


def option(default: Any, help: str, choices: Sequence[str] | None = None) -> Any:
    """A dataclass field that is a flag; its unit belongs in the help text."""
    return dataclasses.field(default=default, metadata={"help": help, "choices": choices})


def parse_config(groups: Sequence[type], argv: Sequence[str], prog: str, description: str) -> list[Any]:
    """One instance of each dataclass, made from the command line; raises ConfigError.

    Each dataclass is a group of flags in the help, under the first line of its docstring. A field
    `micro_batch_size` is the flag `--micro-batch-size`; a bool is a pair `--flag` and `--no-flag`; a tuple takes
    one or more values.
    """
    parser = Parser(prog=prog, description=description, allow_abbrev=False)
    for cls in groups:
        arguments = parser.add_argument_group((cls.__doc__ or cls.__name__).splitlines()[0].rstrip("."))
        hints = get_type_hints(cls)
        for field in dataclasses.fields(cls):
            _add_flag(arguments, field, hints[field.name])
    values = vars(parser.parse_args(argv))
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return [cls(**{field.name: values[field.name] for field in dataclasses.fields(cls)}) for cls in groups]


def _add_flag(arguments: argparse._ArgumentGroup, field: dataclasses.Field[Any], hint: Any) -> None:
    flag = "--" + field.name.replace("_", "-")
    help_text = field.metadata["help"].replace("%", "%%")
    if hint is bool:
        arguments.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default, help=help_text)
        return
    nargs = "+" if get_origin(hint) is tuple else None
    kind = next((arg for arg in get_args(hint) if arg is not type(None)), hint)  # of `int | None`: int
    if field.default not in (None, "", ()):
        help_text += " (default: %(default)s)"
    choices = field.metadata["choices"]
    metavar = "{" + ",".join(choices) + "}" if choices else _METAVARS[kind]
    arguments.add_argument(
        flag, type=kind, nargs=nargs, default=field.default, choices=choices, metavar=metavar, help=help_text
    )


_METAVARS = {int: "N", float: "X", str: "TEXT"}


def data_option(name: str, files: str, made: str) -> Any:
    """Return the field `data` of a workload whose samples are made, or read from files of its own or of prepare."""
    return option(
        "synthetic",
        "synthetic: one batch that stays on the device; synthetic-host: made on the host and copied; "
        f"{name}: {files}; fake-{name}: the same of made {made}, by prepare",
        ("synthetic", "synthetic-host", name, f"fake-{name}"),
    )


def positive(options: object, *names: str) -> None:
    """Raise ConfigError unless each of the fields is above 0, or None."""
    for name in names:
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise ConfigError(f"{name} must be above 0, got {value}")


@dataclasses.dataclass(frozen=True)
class ComputeOptions:
    """Compute."""

    device: str = option(
        "auto",
        "auto: GPUs where there are some, else the CPU; ipu: one process for all of them",
        ("auto", "cpu", "gpu", "ipu"),
    )
    precision: str = option(
        "auto", "auto: fp32 on CPUs, bf16 on GPUs, fp16 on IPUs; fp8: of the layers' products only", PRECISIONS
    )
    threads: int | None = option(None, "CPU threads of each process; default: its share of the usable cores")
    bind: bool = option(True, "bind each process to the CPUs near its GPUs")

    def __post_init__(self) -> None:
        positive(self, "threads")


@dataclasses.dataclass(frozen=True)
class DataOptions:
    """Data."""

    made_by: ClassVar[str] = ""  # the program that makes files to try it with
    data: str = option("synthetic", "what is trained on")  # of what is said with each workload; synthetic...: no files
    data_dir: str = option("", "folder of the files; needed where they are what is trained on")
    parallel_files: int = option(8, "files that are read side by side")
    prefetch_batches: int = option(2, "batches that are made ahead")
    stage: str = option(
        "", "folder on the node's own disk into which its files are copied before the first step; default: none"
    )

    def __post_init__(self) -> None:
        positive(self, "parallel_files", "prefetch_batches")
        if self.reads_files and not self.data_dir:
            raise ConfigError(f"--data {self.data} needs --data-dir: {self.made_by} makes one")
        for flag, value in (("--data-dir", self.data_dir), ("--stage", self.stage)):
            if value and not self.reads_files:
                raise ConfigError(f"{flag} was given, but the data is {self.data}: say with --data what the files are")

    @property
    def reads_files(self) -> bool:
        return not self.data.startswith("synthetic")

    def check_turns(self, turns: TurnsOptions) -> None:
        """Raise ConfigError unless there is something to measure in turns with."""
        if turns.effective and self.data == "synthetic":
            raise ConfigError("--effective compares with --data synthetic: add --data and what the files are")
        if turns.cold_cache and not self.reads_files:
            raise ConfigError("--cold-cache needs --effective and data from files: add --data and what they are")


@dataclasses.dataclass(frozen=True)
class TurnsOptions:
    """Compute and effective throughput."""

    effective: bool = option(
        False, "measure in turns with data that is on the device and with --data, for compute and effective throughput"
    )
    rounds: int = option(
        6, "turns that the measured steps of --effective are shared out over; 6 or more give an interval"
    )
    cold_cache: bool = option(False, "drop the data's files from the node's file cache before each turn of --effective")

    def __post_init__(self) -> None:
        positive(self, "rounds")
        if self.cold_cache and not self.effective:
            raise ConfigError("--cold-cache needs --effective, and data from files")


@dataclasses.dataclass(frozen=True)
class WindowOptions:
    """Measured window."""

    warmup_steps: int = option(3, "optimizer steps before the measured window")
    measured_steps: int = option(20, "optimizer steps in the measured window")
    min_measured_s: float = option(0.0, "measure more steps, until they take this many seconds")
    max_measured_s: float = option(0.0, "measure no more steps than fit into this many seconds; 0: no limit")

    def __post_init__(self) -> None:
        positive(self, "measured_steps")
        if min(self.warmup_steps, self.min_measured_s, self.max_measured_s) < 0:
            raise ConfigError("warmup_steps, min_measured_s and max_measured_s must be 0 or more")
        if 0 < self.max_measured_s < self.min_measured_s:
            raise ConfigError(
                f"min_measured_s {self.min_measured_s} is above max_measured_s {self.max_measured_s}: widen the range"
            )
        if (self.min_measured_s or self.max_measured_s) and not self.warmup_steps:
            raise ConfigError(
                "--min-measured-s and --max-measured-s need at least one warm-up step, from which the number of steps "
                "is found"
            )

    def steps_left(self, steps: int, took_s: float) -> int:
        """How many more steps the window needs after these, at their own pace; 0 where it is long enough."""
        if took_s >= self.min_measured_s:
            return 0
        return math.ceil((self.min_measured_s - took_s) * steps / took_s) if took_s else steps

    def steps_to_measure(self, warmup_step_times_s: Sequence[float]) -> int:
        """How many steps make the window, at the pace of the fastest warm-up step: others also prepare something."""
        steps = self.measured_steps
        if self.min_measured_s:
            steps = max(steps, math.ceil(self.min_measured_s / min(warmup_step_times_s)))
        if self.max_measured_s:
            steps = min(steps, max(1, math.floor(self.max_measured_s / min(warmup_step_times_s))))
        return steps


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Run."""

    system: str = option("unnamed", "name of the system, for the record")
    peak_tflops_per_device: float = option(0.0, "the device's dense peak in this precision, for MFU; 0: not known")
    record: str = option("", "file to write the record to; default: none")
    print_record: bool = option(False, "print the record, too, as one line of JSON")
    split_steps: int = option(
        3, "steps after the window, split where the framework tells nothing of a step's regions otherwise; 0: none"
    )
    profile: int = option(
        0,
        "steps after the window that the framework profiles, for TensorBoard, into a folder beside the record",
    )
    region_times: bool = option(
        False, "write when each region of the windows went on, beside the record: what ioprof counts is told by them"
    )
    dry_run: bool = option(False, "check the options, print how devices and batch are shared out, and stop")

    def __post_init__(self) -> None:
        if self.peak_tflops_per_device < 0:
            raise ConfigError(f"peak_tflops_per_device must be 0 or more, got {self.peak_tflops_per_device}")
        if min(self.split_steps, self.profile) < 0:
            raise ConfigError("split_steps and profile must be 0 or more steps")
        for flag, asked in (("--profile", self.profile), ("--region-times", self.region_times)):
            if asked and not self.record:
                raise ConfigError(f"{flag} needs --record FILE: what it makes lies beside the record")


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """Training."""

    learning_rate: float = option(0.001, "learning rate after its warm-up")
    learning_rate_warmup_steps: int = option(100, "steps over which the learning rate rises in a line")
    seed: int = option(1234, "seed of weights and data")

    def __post_init__(self) -> None:
        positive(self, "learning_rate", "learning_rate_warmup_steps")


@dataclasses.dataclass(frozen=True)
class BatchOptions:
    """Batch."""

    global_batch_size: int = option(32, "samples per optimizer step, over all devices")

    def __post_init__(self) -> None:
        positive(self, "global_batch_size")


@dataclasses.dataclass(frozen=True)
class SampleConfig:
    """All options of a run on samples that are made, or read from files."""

    model: Any
    batch: BatchOptions
    compute: ComputeOptions
    data: DataOptions
    turns: TurnsOptions
    training: TrainingOptions
    window: WindowOptions
    run: RunOptions

    def __post_init__(self) -> None:
        self.data.check_turns(self.turns)


Options = TypeVar("Options")


def escape_unencodable() -> None:
    """Escape what stdout's encoding lacks, as Python does on stderr: no print ends a run."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


def run_command(
    options: type[Options],
    prog: str,
    description: str,
    body: Callable[[Options], None],
    argv: Sequence[str] | None = None,
) -> int:
    """Run a program of one group of flags from the command line; return its exit code, 2 for a ConfigError."""
    escape_unencodable()
    try:
        [parsed] = parse_config((options,), sys.argv[1:] if argv is None else argv, prog, description)
        body(parsed)
    except ConfigError as error:
        print(f"{prog.rpartition('.')[2]}: error: {error}", file=sys.stderr)
        return EXIT_BAD_OPTIONS
    return 0


class Parser(argparse.ArgumentParser):
    """Raises ConfigError for a command line that is none."""

    def error(self, message: str) -> NoReturn:
        unknown = re.match(r"unrecognized arguments: (--[^ =]+)", message)
        if unknown:
            known = [flag for action in self._actions for flag in action.option_strings]
            near = difflib.get_close_matches(unknown[1], known, n=1)
            message = f"there is no flag {unknown[1]}" + (f": did you mean {near[0]}?" if near else "")
        raise ConfigError(f"{message} ('{self.prog} --help' lists all flags)")
