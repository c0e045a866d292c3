"""Record of one run: the contract between a benchmark and the tables.

It is one JSON object with units in its keys. A missing number is null, never zero.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from dataclasses import asdict, dataclass, field
from typing import Any

from record.asked import as_asked
from record.derivation import derive
from record.model import SCHEMA_VERSION, Record
from record.model import Device as Device
from record.model import Window as Window

OK, FAILED, OUT_OF_MEMORY = "ok", "failed", "out_of_memory"
# Kinds of windows: metrics has `measured_UNIT` for the work of the first, `effective_UNIT` for that of the second.
MEASURED, EFFECTIVE = "measured", "effective"
FACTS = ("precision", "data", "sample", "variant")  # that the options may give
CHECKPOINT, RESTORE = "checkpoint", "restore"  # of windows after those, as one is written and read


@dataclass
class RunRecord:
    """Record of one run; its status is `failed` until the run has ended well."""

    benchmark: str
    system: str
    model: str  # its size or variant
    work_unit: str  # of throughput; metrics has `measured_UNIT`, such as measured_tokens
    config: dict[str, Any]  # every option, as used
    status: str = FAILED
    error: str = ""
    layout: dict[str, int] = field(default_factory=dict)  # devices, nodes, parallel sizes, batch sizes
    metrics: dict[str, float | int | str | None] = field(default_factory=dict)
    losses: list[float | None] = field(default_factory=list)  # of every step, warm-up included
    step_times_s: list[float] = field(default_factory=list)  # of the measured steps
    windows: list[Window] = field(default_factory=list)  # of each kind at least one per node; several are summed
    devices: list[Device] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)
    precision: str = ""  # of the computation
    data: str = ""  # kind of the training data
    sample: str = ""  # size of a sample in words, such as 2048 tokens
    variant: list[str] = field(default_factory=list)  # unusual options that change the speed of the same work, in words
    regions: dict[str, Any] = field(default_factory=dict)  # times of the steps' regions, by kind of window
    serving: dict[str, Any] = field(default_factory=dict)  # server under load, and what limits the run
    node_check: dict[str, Any] = field(default_factory=dict)  # rates of each device and link
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)  # distinguishes two runs with the same options
    schema_version: int = SCHEMA_VERSION

    @property
    def config_hash(self) -> str:
        """Hash of the options that change the measurement: not of the run's name, or of its record's path."""
        measured = {name: options for name, options in self.config.items() if name != "run"}
        return hashlib.sha256(json.dumps(_finite(measured), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the record as its file has it: without the facts that its options give; what is not finite is None."""
        plain: dict[str, Any] = _finite(asdict(self))
        asked = as_asked(Record.of({name: value for name, value in plain.items() if name not in FACTS}))
        given = {name: value for name in FACTS if (value := getattr(asked, name))}
        return {name: value for name, value in plain.items() if name not in given or given[name] != value}

    def derived(self) -> Record:
        """Return the record with the numbers that follow from it."""
        return derive(Record.of(self.to_dict()))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
