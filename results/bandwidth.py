"""Share of the memory's bandwidth that a server's decode uses, computed from the model's shape and the data sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from record.model import Record
from record.part import changed
from results.files.systems import system_of

VARYING = ("length_sigma", "lengths_file", "trace")  # options of lengths that differ: the mean context is unknown


def with_bandwidth(records: Sequence[Record], tags: Mapping[str, str]) -> list[Record]:
    """Return records with `metrics.memory_bandwidth_percent` where it can be computed.

    tags: of systems that have another name.
    """
    shares = ((record, _percent(record, tags.get(record.system, record.system))) for record in records)
    return [
        changed(record, metrics=changed(record.metrics, memory_bandwidth_percent=percent)) if percent else record
        for record, percent in shares
    ]


def _percent(record: Record, tag: str) -> float | None:
    """Return the bytes of weights and cache that decode reads per second, in percent of the bandwidth of all devices.

    A step reads the weights once and gives each request a token, which reads the cache of its prompt and, in the mean,
    of half of its answer: as model bandwidth utilisation (Databricks, LLM inference performance engineering, 2023).
    """
    block, load = system_of(tag), record.config.get("load", {})
    is_alike = record.serving and not record.serving.speculation and not any(map(load.get, VARYING))
    if not (block and block.memory_gb_per_s_per_device and record.is_good and is_alike):
        return None
    names = ("step_weights_bytes", "token_cache_bytes", "tpot_p50_s", "measured_s", "measured_tokens", "input_tokens")
    known = [record.metrics.number(name) for name in (*names, "output_tokens_per_request")]
    devices = record.layout.num_devices
    if not devices or None in known or not all(known):
        return None
    weights, cache, tpot_s, measured_s, tokens, inputs, answer = (value or 0.0 for value in known)
    context = inputs / tokens * answer + answer / 2
    read_per_s = weights / tpot_s + tokens / measured_s * cache * context
    return 100 * read_per_s / (devices * block.memory_gb_per_s_per_device * 1e9)
