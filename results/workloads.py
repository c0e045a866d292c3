"""Facts about each workload, from benchmarks/NAME/workload.yaml, without importing the workload's code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from results.errors import RecordError
from results.yaml_files import YamlError, read_yaml

FOLDERS = Path(__file__).resolve().parents[1] / "benchmarks"  # in a checkout, and in an installation of both packages
FILE = "workload.yaml"
FRAMEWORKS = ("pytorch", "tensorflow", "vllm")
VENDORS = ("nvidia", "amd", "graphcore", "none")  # of devices, as systems have them


class Amount(NamedTuple):
    """Amount of work, with its name."""

    amount: float
    words: str


class Data(NamedTuple):
    """Training data: a description, its files in the data folder, and the program that creates them."""

    what: str
    files: str
    prepare: str


@dataclass(frozen=True)
class Facts:
    """Facts about one workload."""

    name: str  # name of the folder, and of the benchmark in records
    title: str
    work_unit: str
    framework: str  # one of FRAMEWORKS
    workflow: str  # jube/WORKFLOW.yaml
    precisions: str = "fp32"
    model: str = ""  # default of a sweep; $PARAMETER: the value of that parameter
    batches: str = ""  # global batch sizes of a sweep, in the same form
    batch: str = "global batch {}"  # what such a size is, in words
    devices: str = ""  # numbers of devices of a sweep, in the same form; empty: the system's own
    max_measured_s: float = 0.0  # longest window; 0: no limit
    parameters: Mapping[str, Any] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)  # reason by vendor on whose devices it does not run
    data: Data | None = None
    costed: Amount | None = None
    reported: Amount | None = None
    flops: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict
    )  # per unit of work in training, by model and sample
    flops_per_length: Mapping[str, float] = field(default_factory=dict)  # additional FLOPs per token of a longer sample
    comparable: str = ""  # the sample of comparable results; empty: any

    def value(self, parameter: str, block: Mapping[str, Any], model: str = "") -> str:
        """Return a parameter for a system and a model, from `8 16; 117M: 2 4` of the system or else of the workload."""
        usual, *by_model = str(block.get(parameter, self.parameters[parameter])).split(";")
        values = {name.strip(): value for name, _, value in (one.partition(":") for one in by_model)}
        return values.get(model or self.default_model(block), usual).strip() if values else usual

    def resolve(self, text: str, block: Mapping[str, Any], model: str = "") -> str:
        """Return a text, or the value of the parameter that it names after a $."""
        return self.value(text[1:], block, model) if text.startswith("$") else text

    def default_model(self, block: Mapping[str, Any]) -> str:
        """Return the model of a system's sweep without a tag."""
        return self.resolve(self.model, block, "usual")


def names() -> list[str]:
    """Return the names of all workloads; reads no file, so that the standard library is enough."""
    return sorted(path.parent.name for path in FOLDERS.glob(f"*/{FILE}"))


@cache
def workloads() -> dict[str, Facts]:
    """Return every workload by name; raises RecordError for a file that cannot be used."""
    return {name: _read(FOLDERS / name / FILE) for name in names()}


def title_of(benchmark: str) -> str:
    """Return the title of a workload; for an unknown one, its name."""
    known = workloads().get(benchmark)
    return known.title if known else benchmark


def batch_text(benchmark: str, size: int) -> str:
    """Return a global batch size of a workload in words; of a server, it is the number of requests in flight."""
    known = workloads().get(benchmark)
    return (known.batch if known else Facts.batch).format(size)


def short_batch_text(benchmark: str, size: int) -> str:
    """Return a global batch size in few words, as next to a dot."""
    return batch_text(benchmark, size).removeprefix("global ")


def _has_flops(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(samples, dict) and samples for samples in value.values())


def _has_reasons(value: Any) -> bool:
    return isinstance(value, dict) and all(
        vendor in VENDORS and isinstance(why, str) and why for vendor, why in value.items()
    )


# Blocks of a file: the class of each part, and the content of each other block.
PARTS: dict[str, Callable[..., Any]] = {"data": Data, "costed": Amount, "reported": Amount}
BLOCKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "flops": (_has_flops, "models with samples and their FLOPs"),
    "parameters": (lambda value: isinstance(value, dict), "names with their values"),
    "refused": (_has_reasons, f"vendors of {', '.join(VENDORS)} with the reasons"),
}


def _read(path: Path) -> Facts:
    try:
        content = read_yaml(path)
    except YamlError as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    known = {one.name for one in fields(Facts)} - {"name"}
    if not isinstance(content, dict) or not known >= set(content):
        unknown = sorted(set(content) - known) if isinstance(content, dict) else []
        raise RecordError(f"{path} is not a workload's file: it may have {', '.join(sorted(known))}, not {unknown}")
    for name in PARTS.keys() & content.keys():
        content[name] = _part(path, name, content[name])
    for name, (is_good, words) in BLOCKS.items():
        if not is_good(value := content.setdefault(name, {})):
            raise RecordError(f"{path}: '{name}' has {words}, not {value!r}")
    _check_parameters(path, content)
    try:
        facts = Facts(path.parent.name, **content)
    except TypeError as error:
        raise RecordError(f"{path} lacks {str(error).split(': ')[-1]}") from error
    if facts.framework not in FRAMEWORKS:
        raise RecordError(f"{path}: 'framework' is one of {', '.join(FRAMEWORKS)}, not {facts.framework!r}")
    return facts


def _part(path: Path, name: str, values: Any) -> Any:
    kind: Any = PARTS[name]
    try:
        return kind(**values | ({"amount": float(values["amount"])} if kind is Amount else {}))
    except (TypeError, ValueError, LookupError) as error:
        raise RecordError(f"{path}: '{name}' has {', '.join(kind._fields)}, not {values!r}") from error


def _check_parameters(path: Path, content: dict[str, Any]) -> None:
    for name in ("model", "batches", "devices"):
        content[name] = str(content.get(name, ""))
        if content[name].startswith("$") and content[name][1:] not in content["parameters"]:
            raise RecordError(f"{path}: '{name}' is {content[name]}, but there is no such parameter")
    for name, value in content["parameters"].items():
        if any(":" not in one for one in str(value).split(";")[1:]):
            raise RecordError(f"{path}: '{name}' is {value!r}, but must have 'MODEL: VALUE' after a ';'")
