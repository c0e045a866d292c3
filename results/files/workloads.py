"""Facts about each workload, from benchmarks/NAME/workload.yaml, without importing the workload's code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from record.files import RecordError
from results.files.typed_files import FILLED, NotNegative, Text, like, no_keys, read_file

FOLDERS = Path(__file__).resolve().parents[2] / "benchmarks"  # in a checkout, and in an installation of both packages
FILE = "workload.yaml"
ByName = Annotated[Mapping[str, NotNegative], FILLED]
Parameter = Annotated[str, like("[^;]*(;[^;:]*:[^;]*)*", "a text with 'MODEL: VALUE' after each ';'")]
Framework = Literal["pytorch", "tensorflow", "vllm"]
Vendor = Literal["nvidia", "amd", "graphcore", "none"]  # of devices, as systems have them


@dataclass(frozen=True)
class Amount:
    """Amount of work, with its name."""

    amount: NotNegative
    words: Text


@dataclass(frozen=True)
class Facts:
    """Facts about one workload."""

    ADDED = ("name",)
    name: str  # name of the folder, and of the benchmark in records
    title: Text
    work_unit: Text
    framework: Framework
    workflow: Annotated[Text, "jube/WORKFLOW.yaml"]
    precisions: str = "fp32"
    model: Annotated[str, "default of a sweep; $PARAMETER: the value of that parameter"] = ""
    batches: Annotated[str, "global batch sizes of a sweep, in the same form"] = ""
    batch: Annotated[str, "what such a size is, in words"] = "global batch {}"
    devices: Annotated[str, "numbers of devices of a sweep, in the same form; empty: the system's own"] = ""
    max_measured_s: Annotated[NotNegative, "longest window; 0: no limit"] = 0.0
    parameters: Mapping[str, Parameter] = no_keys()
    tags: Annotated[str, "those of its workflow that caraml/plan/tags.py has, other than the common ones"] = ""
    variants: Annotated[Mapping[str, Text], "what a tag adds to the model's name"] = no_keys()
    lacks: Annotated[str, "tags of its workflow that only another workload with the same workflow has"] = ""
    instead: Annotated[str, "workload of its workflow for its tag, and where no image has this one's framework"] = ""
    refused: Annotated[Mapping[Vendor, Text], "reason by vendor on whose devices it does not run"] = no_keys()
    costed: Amount = Amount(0.0, "")
    reported: Amount | None = None
    target_loss: Annotated[ByName, "by model, of a training to a loss on synthetic data"] = no_keys()
    flops: Annotated[Mapping[str, ByName], "per unit of work in training, by model and sample"] = no_keys()
    flops_source: Annotated[str, "how they are counted"] = ""
    flops_per_length: Annotated[ByName, "additional FLOPs per token of a longer sample, by model"] = no_keys()
    num_parameters: Annotated[ByName, "by model"] = no_keys()
    comparable: Annotated[str, "the sample of comparable results; empty: any"] = ""

    def check(self, where: str) -> None:
        """Raise RecordError for a parameter that is not stated."""
        for name in ("model", "batches", "devices"):
            text = getattr(self, name)
            if text.startswith("$") and text[1:] not in self.parameters:
                raise RecordError(f"{where}: '{name}' is {text}, but there is no such parameter")

    def value(self, parameter: str, block: Mapping[str, Any], model: str = "") -> str:
        """Return a parameter for a system and a model, from `8 16; 117M: 2 4` of the system or else of the workload."""
        text = str(block.get(parameter, self.parameters[parameter]))
        return of_model(text, model or self.default_model(block)) if ";" in text else text

    def resolve(self, text: str, block: Mapping[str, Any], model: str = "") -> str:
        """Return a text, or the value of the parameter that it names after a $."""
        return self.value(text[1:], block, model) if text.startswith("$") else text

    def default_model(self, block: Mapping[str, Any]) -> str:
        """Return the model of a system's sweep without a tag."""
        return self.resolve(self.model, block, "usual")


def of_model(text: str, model: str) -> str:
    """Return the value for a model, from a text such as `8 16; 117M: 2 4`."""
    usual, *by_model = text.split(";")
    values = {name.strip(): value for name, _, value in (one.partition(":") for one in by_model)}
    return values.get(model, usual).strip()


def names() -> list[str]:
    """Return the names of all workloads; reads no file, so that the standard library is enough."""
    return sorted(path.parent.name for path in FOLDERS.glob(f"*/{FILE}"))


@cache
def workloads() -> dict[str, Facts]:
    """Return every workload by name; raises RecordError for a file that cannot be used."""
    return {name: read_file(Facts, FOLDERS / name / FILE, "facts of a workload", name=name) for name in names()}


def facts_about(benchmark: str) -> Facts:
    """Return the facts about a workload; of an unknown one, only its name is stated."""
    known = workloads().get(benchmark)
    return known or Facts(name=benchmark, title=benchmark, work_unit="", framework="pytorch", workflow="")
