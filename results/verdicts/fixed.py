"""Rules of change: facts of a run that a tender fixes. Everything else is free."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from record.values import value_at
from results.files.typed_files import check_key, like, value_as
from results.find.records import Record, RecordError
from results.points.repeats import PointResults

# Names that may be fixed, and their places in a record. An option is fixed by its group and name.
FACTS = {
    "model": "model",
    "num_layers": "config.model.num_layers",
    "hidden_size": "config.model.hidden_size",
    "num_heads": "config.model.num_heads",
    "vocab_size": "config.model.vocab_size",
    "sequence_length": "layout.sequence_length",
    "global_batch_size": "layout.global_batch_size",
    "data": "data",
    "sample": "sample",
    "precision": "precision",
    "commit": "provenance.git_commit",
}
OPTION = re.compile(r"\w+\.\w+")  # such as training.learning_rate
# Bits of a number in matrix products: fewer than those of the fixed precision are refused. TF32 has 19 (NVIDIA A100
# whitepaper).
BITS = {"fp4": 4, "nvfp4": 4, "fp8": 8, "mxfp8": 8, "fp16": 16, "bf16": 16, "tf32": 19, "fp32": 32, "fp64": 64}
Fact = Annotated[str | float | bool, {"minLength": 1}]
KINDS: dict[str, Any] = {
    "precision": Annotated[str, {"enum": list(BITS)}],
    "commit": Annotated[str, like("[0-9a-f]{7,40}", "7 to 40 hexadecimal digits: write them in quotes")],
}
DIRTY = "the code had local changes"


class Fixed(dict[str, Any]):
    """Values of fixed facts by name."""

    @classmethod
    def from_file(cls, found: Any, where: str, name: str) -> Fixed:
        """Return the rules of a workload's block; raises RecordError for an unknown fact or a bad value."""
        if not isinstance(found, Mapping):
            raise RecordError(f"{where}: {name} is {found!r}, but must be facts, such as {{num_heads: 96}}")
        place = f"{where}, {name}"
        for fact in found:
            if not OPTION.fullmatch(str(fact)):
                check_key(fact, FACTS, place)
        return cls({fact: value_as(KINDS.get(fact, Fact), value, place, fact) for fact, value in found.items()})

    def broken(self, record: Record) -> dict[str, bool]:
        """Return the facts that a run does not keep, as text: True if it changed one, False if its record lacks it.

        Of a failed run, which recorded little, only those that it changed count.
        """
        broken = {}
        for name, wanted in self.items():
            found = value_at(record, FACTS.get(name, f"config.{name}"))
            rule = f"fixed at {wanted}{' or more bits' if name == 'precision' else ''}"
            if found in (None, "") or (name == "precision" and found not in BITS):
                broken[f"{name} is {found or 'not recorded'}, {rule}"] = False
            elif not _keeps(name, found, wanted):
                broken[f"{name} is {found}, {rule}"] = True
        if "commit" in self and (dirty := value_at(record, "provenance.git_dirty")) is not False:
            broken[DIRTY if dirty else f"whether {DIRTY} is not recorded"] = bool(dirty)
        return {words: is_changed for words, is_changed in broken.items() if is_changed or record.is_good}

    def kept(self, one: PointResults) -> PointResults | None:
        """Return a point with the runs that count; None if none counts."""
        if not self:
            return one
        good, bad = ([record for record in runs if not self.broken(record)] for runs in (one.good, one.bad))
        return one._replace(good=good, bad=bad) if good or bad else None


def _keeps(name: str, found: Any, wanted: Any) -> bool:
    if name == "precision":
        return BITS[found] >= BITS[wanted]
    if name == "commit":
        return str(found).startswith(wanted)
    return bool(found == wanted or str(found).lower() == str(wanted).lower())  # quotes do not matter
