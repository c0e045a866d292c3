"""Shares of what a device can reach: of its achievable FLOP/s, and of its memory's bandwidth in decode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

from record.model import Record
from record.part import changed
from record.values import rounded
from results.files.systems import system_of
from results.published import ACHIEVABLE, published
from results.verdicts.nodes import MATMUL, NODE_CHECK, is_check, medians

VARYING = ("length_sigma", "lengths_file", "trace")  # options of lengths that differ: the mean context is unknown


def with_achievable(records: Sequence[Record], checks: Iterable[Record] = ()) -> tuple[list[Record], list[str]]:
    """Return records with `metrics.achievable_percent` where the achievable FLOP/s are known, and the sources of these.

    They are those of the fastest dense product of matrices on one device. `checks` are node checks; those among the
    records count, too. A system without one has the published figure.
    """
    known = published_rates()
    good = [record for record in (*records, *checks) if is_check(record)]
    for kind, tflops in sorted(medians(good).items(), key=itemgetter(1)):  # of several sizes, the fastest
        known[kind.system, kind.name.removeprefix(MATMUL)] = tflops, "its node check"
    found, sources = [], dict[str, None]()
    for record in records:
        tflops, source = known.get((record.system, record.precision), (0.0, ""))
        rate = record.metrics.number("tflops_per_device")
        if tflops and record.is_good and record.benchmark != NODE_CHECK and rate is not None:
            record = changed(record, metrics=changed(record.metrics, achievable_percent=100 * rate / tflops))
            place = f"achievable on {record.system} in {record.precision}"
            sources[f"{place}: {rounded(tflops)} TFLOP/s, from {source}"] = None
        found.append(record)
    return found, list(sources)


def published_rates() -> dict[tuple[str, str], tuple[float, str]]:
    """Return the published figures by system and precision: 10^12 FLOP/s, and who measured them."""
    return {
        (system, figure.precision): (float(figure.value), figure.source)
        for figure in published()
        if figure.metric == ACHIEVABLE
        for system in figure.systems.split()
    }


def with_bandwidth(record: Record, tag: str) -> Record:
    """Return a record with `metrics.memory_bandwidth_percent` where it can be computed; `tag` is that of its system.

    That is the bytes of weights and cache that decode reads per second, in percent of the bandwidth of all devices. A
    step reads the weights once and gives each request a token, which reads the cache of its prompt and, in the mean, of
    half of its answer: as model bandwidth utilisation (Databricks, LLM inference performance engineering, 2023).
    """
    block, load = system_of(tag), record.config.get("load", {})
    is_alike = record.serving and not record.serving.speculation and not any(map(load.get, VARYING))
    if not (block and block.memory_gb_per_s_per_device and record.is_good and is_alike):
        return record
    names = ("step_weights_bytes", "token_cache_bytes", "tpot_p50_s", "measured_s", "measured_tokens", "input_tokens")
    known = [record.metrics.number(name) for name in (*names, "output_tokens_per_request")]
    if not record.layout.num_devices or not all(known):
        return record
    weights, cache, tpot_s, measured_s, tokens, inputs, answer = (value or 0.0 for value in known)
    context = inputs / tokens * answer + answer / 2
    read_per_s = weights / tpot_s + tokens / measured_s * cache * context
    percent = 100 * read_per_s / (record.layout.num_devices * block.memory_gb_per_s_per_device * 1e9)
    return changed(record, metrics=changed(record.metrics, memory_bandwidth_percent=percent))
