"""Facts about each workload, from benchmarks/NAME/workload.yaml, without importing the workload's code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from results.record.records import RecordError
from results.yaml_files import YamlError, read_yaml

FOLDERS = Path(__file__).resolve().parents[1] / "benchmarks"  # in a checkout, and where both are installed
FILE = "workload.yaml"
FRAMEWORKS = ("pytorch", "tensorflow")
VENDORS = ("nvidia", "amd", "graphcore", "none")  # of devices, as systems have them


class Amount(NamedTuple):
    """Amount of work, with its name."""

    amount: float
    words: str


class Data(NamedTuple):
    """Training data: a description, its files in the data folder, and the program that makes them."""

    what: str
    files: str
    prepare: str


@dataclass(frozen=True)
class Facts:
    """Facts about one workload."""

    name: str  # of its folder, and of the benchmark in records
    title: str
    work_unit: str
    framework: str  # pytorch or tensorflow
    workflow: str  # jube/WORKFLOW.yaml
    precisions: str = "fp32"
    model: str = ""  # of a sweep without a tag; $PARAMETER: that parameter's value
    batches: str = ""  # global batch sizes of a sweep, the same way
    max_measured_s: float = 0.0  # of a window; 0: no limit
    parameters: Mapping[str, Any] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)  # why it does not run on devices of a vendor
    data: Data | None = None
    costed: Amount | None = None
    reported: Amount | None = None
    flops: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # to train on a unit, by model and sample
    flops_per_length: Mapping[str, float] = field(default_factory=dict)  # more for each token of a longer sample
    comparable: str = ""  # the sample that results elsewhere are of; empty: any

    def value(self, parameter: str, block: Mapping[str, Any], model: str = "") -> str:
        """A parameter on a system, whose block may state its own, and for a model: `8 16; 117M: 2 4`."""
        usual, *of_models = str(block.get(parameter, self.parameters[parameter])).split(";")
        values = {name.strip(): value for name, _, value in (one.partition(":") for one in of_models)}
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
    """Every workload by its name; raises RecordError for a file that cannot be used."""
    return {name: _read(FOLDERS / name / FILE) for name in names()}


def title_of(benchmark: str) -> str:
    """In words; the name itself of a workload that is not here, as in records from elsewhere."""
    known = workloads().get(benchmark)
    return known.title if known else benchmark


def _has_flops(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(samples, dict) and samples for samples in value.values())


def _has_reasons(value: Any) -> bool:
    return isinstance(value, dict) and all(
        vendor in VENDORS and isinstance(why, str) and why for vendor, why in value.items()
    )


# Blocks of a file: which class each part becomes, and what each of the others holds.
PARTS: dict[str, Callable[..., Any]] = {"data": Data, "costed": Amount, "reported": Amount}
BLOCKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "flops": (_has_flops, "models with samples and their FLOPs"),
    "parameters": (lambda value: isinstance(value, dict), "names with their values"),
    "refused": (_has_reasons, f"vendors of {', '.join(VENDORS)} with the reasons"),
}


def _read(path: Path) -> Facts:
    try:
        found = read_yaml(path)
    except YamlError as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    known = {one.name for one in fields(Facts)} - {"name"}
    if not isinstance(found, dict) or not known >= set(found):
        unknown = sorted(set(found) - known) if isinstance(found, dict) else []
        raise RecordError(f"{path} is not that of a workload: it may have {', '.join(sorted(known))}, not {unknown}")
    for name in PARTS.keys() & found.keys():
        found[name] = _part(path, name, found[name])
    for name, (is_good, words) in BLOCKS.items():
        if not is_good(value := found.setdefault(name, {})):
            raise RecordError(f"{path}: '{name}' has {words}, not {value!r}")
    _check_parameters(path, found)
    try:
        facts = Facts(path.parent.name, **found)
    except TypeError as error:
        raise RecordError(f"{path} is not complete: {str(error).split('missing ')[-1]} missing") from error
    if facts.framework not in FRAMEWORKS:
        raise RecordError(f"{path}: 'framework' is one of {', '.join(FRAMEWORKS)}, not {facts.framework!r}")
    return facts


def _part(path: Path, name: str, values: Any) -> Any:
    kind: Any = PARTS[name]
    try:
        return kind(**values | ({"amount": float(values["amount"])} if kind is Amount else {}))
    except (TypeError, ValueError, LookupError) as error:
        raise RecordError(f"{path}: '{name}' has {', '.join(kind._fields)}, not {values!r}") from error


def _check_parameters(path: Path, found: dict[str, Any]) -> None:
    for name in ("model", "batches"):
        found[name] = str(found.get(name, ""))
        if found[name].startswith("$") and found[name][1:] not in found["parameters"]:
            raise RecordError(f"{path}: '{name}' is {found[name]}, and there is no such parameter")
    for name, value in found["parameters"].items():
        if any(":" not in one for one in str(value).split(";")[1:]):
            raise RecordError(f"{path}: '{name}' is {value!r}, but after a ';' comes 'MODEL: VALUE'")
