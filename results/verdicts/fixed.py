"""Rules of change: facts of a run that a tender fixes. Everything else is free."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from record.values import value_at
from results.files.typed_files import Text, check_key, like, one_of, reader
from results.find.records import Record
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
Fact = Text | float | bool
KINDS: dict[str, Any] = {
    "precision": Annotated[str, one_of(BITS)],
    "commit": Annotated[str, like("[0-9a-f]{7,40}", "7 to 40 hexadecimal digits: write them in quotes")],
}
DIRTY = "the code had local changes"


def check_fixed(fixed: Mapping[str, Any], where: str) -> None:
    """Raise RecordError for an unknown fact or a bad value of one."""
    for fact, value in fixed.items():
        if not OPTION.fullmatch(fact):
            check_key(fact, FACTS, where)
        reader(KINDS.get(fact, Fact))(value, where, fact)


def broken_facts(fixed: Mapping[str, Any], record: Record) -> dict[str, bool]:
    """Return the fixed facts that a run does not keep, as text: True if it changed one, False if its record lacks it.

    Of a failed run, which recorded little, only those that it changed count.
    """
    broken = {}
    for name, wanted in fixed.items():
        found = value_at(record, FACTS.get(name, f"config.{name}"))
        rule = f"fixed at {wanted}{' or more bits' if name == 'precision' else ''}"
        if found in (None, "") or (name == "precision" and found not in BITS):
            broken[f"{name} is {found or 'not recorded'}, {rule}"] = False
        elif not _keeps(name, found, wanted):
            broken[f"{name} is {found}, {rule}"] = True
    if "commit" in fixed and (dirty := value_at(record, "provenance.git_dirty")) is not False:
        broken[DIRTY if dirty else f"whether {DIRTY} is not recorded"] = bool(dirty)
    return {words: is_changed for words, is_changed in broken.items() if is_changed or record.is_good}


def kept(fixed: Mapping[str, Any], one: PointResults) -> PointResults | None:
    """Return a point with the runs that keep the fixed facts; None if none does."""
    if not fixed:
        return one
    good, bad = ([record for record in runs if not broken_facts(fixed, record)] for runs in (one.good, one.bad))
    return one._replace(good=good, bad=bad) if good or bad else None


def _keeps(name: str, found: Any, wanted: Any) -> bool:
    if name == "precision":
        return BITS[found] >= BITS[wanted]
    if name == "commit":
        return str(found).startswith(wanted)
    return bool(found == wanted or str(found).lower() == str(wanted).lower())  # quotes do not matter
