"""Figures of today's tables of systems and workloads, which older records follow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from record.asked import PEAK
from record.derivation import derive
from record.findings import finding
from record.model import Record
from record.part import changed, with_known
from results.files.systems import peak_of
from results.files.workloads import Facts, facts_about

CLOSE = 1e-6  # relative difference of equal figures


def wrong_length(record: Record) -> Iterator[str]:
    """Yield a sentence if samples have another length than the model's own, and no option asked for it."""
    facts = _facts(record)
    default = next(iter(facts.flops.get(record.model, ())), None)
    length = record.layout.sequence_length
    is_own = bool(length) and record.config.get("model", {}).get("sequence_length", length) is None
    if record.model in facts.flops_per_length and is_own and record.sample != default:
        yield f"sample is stored as {record.sample!r}, but its model has {default!r}"


def with_todays_figures(record: Record) -> Record:
    """Return a record with the FLOPs, the peak and the parameters of today's tables, and what follows from them.

    A corrected table must not discard a measurement, and runs before and after it stay comparable. `corrected` of the
    record has a finding for each difference; a record without one is returned as it is.
    """
    metrics, corrected = record.metrics, []
    figures: dict[str, float] = {}
    facts = _facts(record)
    if facts.comparable and record.is_good:
        is_comparable = record.sample == facts.comparable
        record = changed(record, metrics=with_known(metrics, {"comparable": is_comparable}))
    for figure, name, value in _figures(record):
        recorded = metrics.number(name)
        if value and recorded and not math.isclose(recorded, value, rel_tol=CLOSE):
            corrected.append(finding("corrected", figure=figure, recorded=recorded, table=value))
            figures[name] = value
    return changed(derive(record, figures), corrected=tuple(corrected)) if figures else record


def _figures(record: Record) -> Iterator[tuple[str, str, float | None]]:
    """Yield FLOPs of a unit of work, peak of a device, parameters: name in words, metric, and value in the tables."""
    facts = _facts(record)
    yield "FLOPs per unit of work", f"model_flops_per_{record.work_unit[:-1]}", _flops(record, facts)
    yield "peak TFLOP/s per device", PEAK, peak_of(record.system, record.precision)
    yield "parameters", "num_parameters", facts.num_parameters.get(record.model)


def _flops(record: Record, facts: Facts) -> float | None:
    known: Mapping[str, float] = facts.flops.get(record.model) or {}
    length = record.layout.sequence_length or 0
    per_length = facts.flops_per_length.get(record.model)
    if per_length is None or not length:
        return known.get(record.sample)
    default_sample, flops = next(iter(known.items()))
    return flops + per_length * (length - int(default_sample.split()[0]))


def _facts(record: Record) -> Facts:
    """Return the facts about a record's workload; those of an unknown one, if the record counts other work."""
    facts = facts_about(record.benchmark)
    return facts if facts.work_unit == record.work_unit else facts_about("")
