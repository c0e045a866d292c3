"""Options of all workloads: fields of frozen dataclasses, from which the command line is made."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from jpwr.process.parser import HelpfulParser

Options = TypeVar("Options")

EXIT_BAD_OPTIONS = 2
PROFILE_SUFFIX = ".profile"  # of a folder next to the record
NARROW = ("fp8", "mxfp8", "nvfp4")  # of the layers' products; bf16 elsewhere
PRECISIONS = ("auto", "fp32", "bf16", "fp16", *NARROW)
# Makes cuBLAS and cuDNN multiply in float32 instead of TF32, so that MFU refers to the peak in fp32.
FULL_FP32 = {"NVIDIA_TF32_OVERRIDE": "0"}


class ConfigError(Exception):
    """The options cannot be run; the message has what was asked, what was found and what to do."""


def option(
    default: Any,
    help: str,
    choices: Sequence[Any] | None = None,
    *,
    least: float | None = None,
    below: float = math.inf,
) -> Any:
    """Return a dataclass field that is a flag; its help text has the unit.

    A number is its default or above 0, with `least` at least that, and below `below`. A flag whose default is MISSING
    is required, and is a text that is not empty.
    """
    return dataclasses.field(
        default=default, metadata={"help": help, "choices": choices, "least": least, "below": below}
    )


@dataclasses.dataclass(frozen=True)
class Group:
    """Flags of one kind, whose numbers are in the ranges that their options state; raises ConfigError for others."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, least, below = getattr(self, field.name), field.metadata["least"], field.metadata["below"]
            if value == field.default or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            wanted = "" if value < below else f"below {below:g}" if below < math.inf else "finite"
            if not (value > 0 if least is None else value >= least):
                wanted = "above 0" if least is None else f"{least:g} or more"
            if wanted:
                raise ConfigError(f"{field.name} must be {wanted}, got {value}")


def parse_config(groups: Sequence[type], argv: Sequence[str], prog: str, description: str) -> list[Any]:
    """Return an instance of each dataclass from the command line; raises ConfigError.

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


def parse_groups(options: type[Options], argv: Sequence[str], prog: str, description: str) -> Options:
    """Return a dataclass whose fields are groups of flags from the command line; raises ConfigError."""
    hints = get_type_hints(options)
    groups = [hints[field.name] for field in dataclasses.fields(options)]  # type: ignore[arg-type]
    return options(*parse_config(groups, argv, prog, description))


def _add_flag(arguments: argparse._ArgumentGroup, field: dataclasses.Field[Any], hint: Any) -> None:
    flag = "--" + field.name.replace("_", "-")
    help_text = field.metadata["help"].replace("%", "%%")
    if hint is bool:
        arguments.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default, help=help_text)
        return
    nargs = "+" if get_origin(hint) is tuple else None
    kind = next((arg for arg in get_args(hint) if arg is not type(None)), hint)  # of `int | None`: int
    is_required = field.default is dataclasses.MISSING
    if not is_required and field.default not in (None, "", ()):
        help_text += " (default: %(default)s)"
    choices = field.metadata["choices"]
    metavar = "{" + ",".join(map(str, choices)) + "}" if choices else _METAVARS[kind]
    more = {"type": _given, "required": True} if is_required else {"type": kind, "default": field.default}
    arguments.add_argument(flag, nargs=nargs, choices=choices, metavar=metavar, help=help_text, **more)


def _given(text: str) -> str:
    """Return a text, such as a folder; an empty one, as of a shell's variable that is not set, would be this folder."""
    if not text:
        raise argparse.ArgumentTypeError("it must not be empty")
    return text


_METAVARS = {int: "N", float: "X", str: "TEXT"}


def data_option(name: str, files: str, made: str) -> Any:
    """Return the field `data` of a workload: made samples, its own files, or files written by prepare."""
    return option(
        "synthetic",
        "synthetic: one batch that stays on the device; synthetic-host: made on the host and copied; "
        f"{name}: {files}; fake-{name}: the same with made {made}, from prepare",
        ("synthetic", "synthetic-host", name, f"fake-{name}"),
    )


@dataclasses.dataclass(frozen=True)
class ComputeOptions(Group):
    """Compute."""

    device: str = option(
        "auto",
        "auto: the GPUs if there are some, else the CPU; ipu: one process for all of them",
        ("auto", "cpu", "gpu", "ipu"),
    )
    precision: str = option(
        "auto",
        "auto: fp32 on CPUs, bf16 on GPUs that have it, fp16 on others and IPUs; fp8, mxfp8 and "
        "nvfp4: in the layers' products only",
        PRECISIONS,
    )
    threads: int | None = option(None, "CPU threads of each process; default: its share of the usable cores")
    bind: bool = option(True, "bind each process to the CPUs near its GPUs")


def precision_on_gpu(asked: str, has_bf16: bool, name: str) -> str:
    """Return the precision for a GPU, auto being bf16 or fp16; raises ConfigError for one that it only emulates."""
    if asked in ("bf16", *NARROW) and not has_bf16:
        raise ConfigError(f"--precision {asked} was asked for, but {name} has no bf16: use fp16 or fp32")
    return asked if asked != "auto" else "bf16" if has_bf16 else "fp16"


@dataclasses.dataclass(frozen=True)
class DataOptions(Group):
    """Data."""

    made_by: ClassVar[str] = ""  # program that makes files for a trial
    data: str = option("synthetic", "training data")  # each workload has its own choices; synthetic...: no files
    data_dir: str = option("", "folder of the files; required if the data is read from files")
    parallel_files: int = option(8, "files read in parallel")
    prefetch_batches: int = option(2, "batches prepared in advance")
    stage: str = option(
        "", "folder on the node's own disk, to copy the files into before the first step; default: none"
    )
    stage_bytes: int = option(0, "with --stage: most bytes to copy to a node: the files that gain most; 0: all files")
    stage_reads: str = option("", "with --stage-bytes: folder io of an earlier run, with the profiles of its reads")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reads_files and not self.data_dir:
            raise ConfigError(f"--data {self.data} needs --data-dir: {self.made_by} makes one")
        for flag, value in (("--data-dir", self.data_dir), ("--stage", self.stage)):
            if value and not self.reads_files:
                raise ConfigError(
                    f"{flag} was given, but the data is {self.data}: state the kind of the files by --data"
                )

        is_part = self.stage_bytes > 0
        if is_part != bool(self.stage_reads) or (is_part and not self.stage):
            raise ConfigError("--stage-bytes needs --stage, and by --stage-reads the reads of a run with the tag io")

    @property
    def reads_files(self) -> bool:
        """Whether the data is read from files."""
        return not self.data.startswith("synthetic")


@dataclasses.dataclass(frozen=True)
class TurnsOptions(Group):
    """Compute and effective throughput."""

    effective: bool = option(
        False, "measure in turns: compute throughput with data on the device, effective throughput with --data"
    )
    rounds: int = option(
        6, "number of turns of --effective, which share the measured steps; 6 or more give an interval"
    )
    cold_cache: bool = option(False, "drop the data's files from the node's file cache before each turn of --effective")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cold_cache and not self.effective:
            raise ConfigError("--cold-cache needs --effective, and data from files")


@dataclasses.dataclass(frozen=True)
class WindowOptions(Group):
    """Measured window."""

    warmup_steps: int = option(3, "optimizer steps before the measured window", least=0)
    measured_steps: int = option(20, "optimizer steps in the measured window")
    min_measured_s: float = option(0.0, "measure more steps, until they take this many seconds")
    max_measured_s: float = option(0.0, "measure no more steps than fit into this many seconds; 0: no limit")
    to_loss: float = option(
        0.0,
        "train until the mean of the last losses is at most this, for up to --max-measured-s, in a "
        "window that begins with the first step; 0: a window of steps",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to_loss and not self.max_measured_s:
            raise ConfigError("--to-loss needs --max-measured-s: the most seconds that the training may take")
        if self.to_loss and self.warmup_steps:
            raise ConfigError("--to-loss has a window that begins with the first step: give --warmup-steps 0")
        if 0 < self.max_measured_s < self.min_measured_s:
            raise ConfigError(
                f"min_measured_s {self.min_measured_s} is above max_measured_s {self.max_measured_s}: widen the range"
            )
        if (self.min_measured_s or self.max_measured_s) and not (self.warmup_steps or self.to_loss):
            raise ConfigError(
                "--min-measured-s and --max-measured-s need a warm-up step, which determines the number of steps: give "
                "--warmup-steps 1 or more"
            )

    def steps_left(self, steps: int, took_s: float) -> int:
        """Return how many more steps the window needs, at the pace of its first ones; 0 if it is long enough."""
        if took_s >= self.min_measured_s:
            return 0
        return math.ceil((self.min_measured_s - took_s) * steps / took_s) if took_s else steps

    def steps_to_measure(self, warmup_step_times_s: Sequence[float]) -> int:
        """Return the number of steps in the window, at the pace of the fastest warm-up step: others also prepare."""
        steps = self.measured_steps
        if self.min_measured_s:
            steps = max(steps, math.ceil(self.min_measured_s / min(warmup_step_times_s)))
        if self.max_measured_s:
            steps = min(steps, max(1, math.floor(self.max_measured_s / min(warmup_step_times_s))))
        return steps


@dataclasses.dataclass(frozen=True)
class CheckpointOptions(Group):
    """Checkpoints."""

    checkpoint: str = option("", "folder to write checkpoints to; default: none are written")
    # MLPerf Storage v2.0 states the mean of five.
    checkpoints: int = option(5, "checkpoints to write and read back after the window, to measure them")


@dataclasses.dataclass(frozen=True)
class RunOptions(Group):
    """Run."""

    system: str = option("unnamed", "name of the system, for the record")
    peak_tflops_per_device: float = option(0.0, "the device's dense peak in this precision, for MFU; 0: not known")
    record: str = option("", "file to write the record to; default: none")
    split_steps: int = option(
        3, "steps after the window, split into regions if the framework cannot time them otherwise; 0: none", least=0
    )
    profile: int = option(
        0,
        "steps after the window that the framework profiles, for TensorBoard, into a folder next to the record",
    )
    region_times: bool = option(
        False, "write the times of the windows' regions next to the record, so that reads are reported by region"
    )
    dry_run: bool = option(False, "check the options, print the layout of devices and batch, and stop")

    def __post_init__(self) -> None:
        super().__post_init__()
        for flag, asked in (("--profile", self.profile), ("--region-times", self.region_times)):
            if asked and not self.record:
                raise ConfigError(f"{flag} needs --record FILE: it writes next to the record")
        if self.profile and (folder := Path(self.record).with_suffix(PROFILE_SUFFIX)).exists():
            raise ConfigError(f"--profile writes into {folder}, which exists already: remove it")


@dataclasses.dataclass(frozen=True)
class Seeds(Group):
    """Seeds."""

    seed: int = option(1234, "seed of weights and data", least=0)
    data_seed: int | None = option(
        None,
        "seed of the data alone, so that losses can be compared with a reference (half of synthetic tokens then follow "
        "from the token before); default: the same seed",
        least=0,
    )

    @property
    def seed_of_data(self) -> int:
        """Seed of the data and its order."""
        return self.seed if self.data_seed is None else self.data_seed


@dataclasses.dataclass(frozen=True)
class TrainingOptions(Seeds):
    """Training."""

    learning_rate: float = option(0.001, "learning rate after its warm-up")
    learning_rate_warmup_steps: int = option(100, "steps over which the learning rate rises linearly")


@dataclasses.dataclass(frozen=True)
class ImageTrainingOptions(TrainingOptions):
    """Training."""

    learning_rate: float = option(0.1, "learning rate per 256 images of the global batch, after its warm-up")
    momentum: float = option(0.9, "momentum of SGD", least=0, below=1)
    weight_decay: float = option(5e-5, "weight decay, on kernels only", least=0)
    label_smoothing: float = option(0.1, "share of the target that is distributed over all classes", least=0, below=1)

    def highest_rate(self, global_batch_size: int) -> float:
        """Return the learning rate, in proportion to the global batch: Goyal et al. 2017 (arXiv:1706.02677)."""
        return self.learning_rate * global_batch_size / 256


@dataclasses.dataclass(frozen=True)
class BatchOptions(Group):
    """Batch."""

    global_batch_size: int = option(32, "samples per optimizer step, over all devices")


@dataclasses.dataclass(frozen=True)
class SampleConfig:
    """All options of a run on made samples, or on samples from files."""

    model: Any
    batch: BatchOptions
    compute: ComputeOptions
    data: DataOptions
    turns: TurnsOptions
    training: TrainingOptions
    window: WindowOptions
    run: RunOptions
    checkpoint: CheckpointOptions = CheckpointOptions()

    def __post_init__(self) -> None:
        if self.turns.effective and self.data.data == "synthetic":
            raise ConfigError("--effective compares with --data synthetic: add --data with the kind of the files")
        if self.turns.cold_cache and not self.data.reads_files:
            raise ConfigError("--cold-cache needs --effective and data from files: add --data with their kind")


def escape_unencodable() -> None:
    """Escape characters that stdout's encoding lacks, as Python does on stderr, so that no print ends a run."""
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


class Parser(HelpfulParser):
    """Parser that raises ConfigError for a wrong command line."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError."""
        raise ConfigError(f"{message} ('{self.prog} --help' lists all flags)")
