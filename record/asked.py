"""Facts of a run that follow from its options."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from record.demand import MADE, SLOS, hosts_of, made_trace
from record.files import csv_rows
from record.model import Layout, Record
from record.part import changed, is_number, with_known
from record.values import count

SAME = {"precision": "compute.precision", "data": "data.data", "system": "run.system"}  # options by fact
MODELS = ("model.size", "model.variant")  # options with the last word of a model's name
# Of a layout: the values that copies of a point that ran at once add up to.
OF_ALL_COPIES = ("num_devices", "global_batch_size", "data_parallel_size")
SAMPLES = {"sequence_length": "tokens", "image_size": "pixels"}  # unit of a sample's size, by the key of the layout
PEAK = "peak_tflops_per_device"
PERPLEXITIES = Path(__file__).with_name("perplexity.csv")  # of the suite's text
ACCEPTANCES = Path(__file__).with_name("acceptance.csv")  # of speculative decoding
LAYOUT_OF_SERVER = {
    "global_batch_size": "load.concurrency",
    "num_devices": "serve.devices",
    "num_nodes": "serve.nodes",
    "tensor_parallel_size": "serve.devices",
}


def as_asked(record: Record) -> Record:
    """Return a record with the facts that its options give; others stay as they are."""
    if not record.config:
        return record
    known = ((name, record.option(path)) for name, path in SAME.items())
    facts: dict[str, Any] = {name: option for name, option in known if isinstance(option, str)}
    if size := next(filter(None, map(record.option, MODELS)), None):
        facts["model"] = f"{''.join(record.model.rpartition(' ')[:2])}{size}"
    peak = record.option(f"run.{PEAK}")
    metrics = {PEAK: peak if is_number(peak) and peak else None, "target_loss": record.option("window.to_loss") or None}
    if record.serving:
        facts |= _served(record)
        slo = SLOS.get(record.option("load.slo") or "")
        metrics |= {"slo_ttft_s": slo.ttft_s, "slo_tpot_s": slo.tpot_s} if slo else {}
    else:
        facts["layout"] = layout = with_known(record.layout, _layout(record))
        facts["sample"] = _sample(layout, record.work_unit)
    return with_known(record, facts | {"metrics": with_known(record.metrics, metrics)})


def _layout(record: Record) -> dict[str, int]:
    """Return the parallel sizes and batch sizes of the options; 0 and none leave the choice to the benchmark."""
    copies = (record.fill.copies if record.fill else 0) or 1
    return {
        name: value * (copies if name in OF_ALL_COPIES else 1)
        for options in record.config.values()
        for name, value in options.items()
        if value and isinstance(value, int) and name in vars(record.layout)
    }


def _sample(layout: Layout, unit: str) -> str | None:
    sizes = ((layout.number(name), words) for name, words in SAMPLES.items() if unit == words or words != "tokens")
    return next((f"{size} {words}" for size, words in sizes if size), None)


def _served(record: Record) -> dict[str, Any]:
    """Return the facts of a server's run; one that ran already, or has real weights, names its model itself."""
    server = record.option("serve.server")
    if record.option("load.rate_per_s") is None or server is None:
        return {}
    url, path = record.option("serve.url"), record.option("serve.model_path") or ""
    is_started = not url and not record.option("serve.real_weights")
    name = f"server at {url}" if url else server
    own = Path(str(path)).name or record.option("serve.served_model") or record.option("serve.model")
    serving: dict[str, Any] = {"server": name, "slo": record.option("load.slo")}
    if known := record.serving.speculation:
        drafts = _asked_speculation(record)
        length = stated_length(*drafts) if drafts[0] else None
        known = with_known(known, {"draft_tokens": drafts[0] or None, "stated_length": length})
        serving["speculation"] = changed(known, measured_length=acceptance_length(known.steps, known.accepted_tokens))
    return {
        "data": "random tokens",
        "model": own if is_started else None,
        "sample": _sample_of_load(record),
        "variant": _variant(record, name),
        "layout": with_known(record.layout, {key: record.option(path) for key, path in LAYOUT_OF_SERVER.items()}),
        "serving": with_known(record.serving, serving),
    }


def _variant(record: Record, server: str) -> list[str]:
    """Return the server and the options that make it another one, in words."""
    rate, drafts = record.option("load.rate_per_s"), _asked_speculation(record)
    limit_s = record.option("load.idle_limit_s")
    roles = Counter(filter(None, hosts_of(record.option("run.hosts") or "").values()))
    found = [
        server,
        f"{rate:g} requests/s at random" if rate else None,
        "chat" if record.option("load.endpoint") == "chat" else None,
        ", ".join(f"{role} on {count(nodes, 'node')}" for role, nodes in roles.items()),
        f"idle for {limit_s:g} s at most" if record.option("load.trace") and is_number(limit_s) else None,
        _speculation_words(drafts[0], stated_length(*drafts)) if drafts[0] else None,
        record.option("serve.server_args"),
    ]
    return list(filter(None, found))


def _asked_speculation(record: Record) -> tuple[int, float, str]:
    """Return the draft tokens, the user's acceptance length and the model of the published one."""
    drafts, length, model = (
        record.option(f"speculation.{name}") for name in ("draft_tokens", "acceptance_length", "acceptance_of")
    )
    return drafts or 0, length or 0.0, model or ""


@cache
def published_lengths() -> Mapping[tuple[str, int], float]:
    """Return the published acceptance length by model and number of draft tokens.

    It is the mean number of tokens of a step: the draft tokens that are accepted, and the model's own.
    """
    return {(row["model"], int(row["draft_tokens"])): float(row["length"]) for row in csv_rows(ACCEPTANCES)}


def stated_length(draft_tokens: int, length: float, model: str) -> float:
    """Return the acceptance length that the user states, or for 0 the published one; 0 if none is."""
    return length or published_lengths().get((model, draft_tokens), 0.0)


def acceptance_length(steps: float | None, accepted_tokens: float | None) -> float | None:
    """Return the acceptance length that counters give; 1 without any step, None without counters."""
    if steps is None or accepted_tokens is None:
        return None
    return 1 + accepted_tokens / steps if steps else 1.0


def _speculation_words(draft_tokens: int, length: float) -> str:
    return f"{draft_tokens} draft tokens, {length:g} tokens a step"


def _sample_of_load(record: Record) -> str | None:
    """Return the lengths of requests in words; of a trace in a file, only the record has its digest.

    A text of another acceptance is another workload, and never ranked with this one.
    """
    trace, seed = record.option("load.trace"), record.option("load.seed")
    names = ("input_tokens", "output_tokens", "length_sigma", "lengths_file")
    asked = [record.option(f"load.{name}") for name in names]
    if trace:
        stored = re.search("[0-9a-f]{12}", record.sample)
        is_made = trace in MADE and isinstance(seed, int)
        digest = made_trace(trace, seed)[0] if is_made else stored[0] if stored else "unknown"
        words = f"conversations of {Path(str(trace)).name}, SHA-256 {digest}"
    elif None in asked:
        return None
    else:
        mean_input, mean_output, sigma, lengths_file = asked
        words = f"{mean_input}/{mean_output} tokens" + (f", log-normal {sigma:g}" if sigma else "")
        words = f"lengths of {Path(str(lengths_file)).name}" if lengths_file else words
    drafts, length, model = _asked_speculation(record)
    of_user = f", {_speculation_words(drafts, length)} by the user" if length else f", acceptance of {model}"
    return words + of_user if drafts else words


@cache
def reference_of(model: str, precision: str, given: float) -> float | None:
    """Return the reference of a perplexity: the suite's own of this model, or without one the given one; None for 0."""
    rows = csv_rows(PERPLEXITIES)
    own = (float(row["perplexity"]) for row in rows if (row["model"], row["precision"]) == (model, precision))
    return next(own, given) or None
