"""Results of other clients of servers as records of a lower grade: by their definitions, without window or energy.

vllm bench serve: flat JSON (vllm/benchmarks/serve.py). aiperf: profile_export_aiperf.json, schema 1.4. guidellm 0.8:
its JSON report. Throughput is all tokens over the whole duration, ramp and drain included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from results.record.model import SCHEMA_VERSION
from results.record.parts import is_number
from results.record.records import Record, RecordError

BENCHMARK = "llm_inference"
NOTE = "by the definitions of {}: tokens/s over the whole run, ramp and drain included; no window and no energy"


class Figures(NamedTuple):
    """Figures of one run of a client, by our names; None for one that is missing."""

    client: str
    model: str
    server: str
    concurrency: float | None
    requests: float | None
    duration_s: float | None
    input_each: float | None
    output_each: float | None
    tokens_per_s: float | None
    latencies_s: dict[str, float | None]  # ttft_p50 and so on
    failed: float


def read_other(path: Path, system: str, devices: int, precision: str) -> list[Record]:
    """Return the records of a file; raises RecordError for one that is of no client that is known, or incomplete."""
    try:
        content = path.read_bytes()
        found = json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read as JSON: {error}") from error
    for is_its, figures in CLIENTS:
        if isinstance(found, dict) and is_its(found):
            try:
                every = list(figures(found))
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                raise RecordError(f"{path} lacks a part that its client writes: {error!r}") from error
            digest = hashlib.sha256(content).hexdigest()
            return [_record(one, system, devices, precision, f"{digest} {number}") for number, one in enumerate(every)]
    raise RecordError(f"{path} is no result of vllm bench serve, aiperf or guidellm")


def _record(one: Figures, system: str, devices: int, precision: str, run_id: str) -> Record:
    known = (one.requests, one.duration_s, one.output_each, one.tokens_per_s)
    if not all(is_number(value) and value > 0 for value in known):
        raise RecordError(f"the result of {one.client} has no requests, duration, lengths or throughput")
    requests, duration_s, output_each, tokens_per_s = map(float, filter(is_number, known))
    lengths = "/".join("?" if value is None else f"{value:.0f}" for value in (one.input_each, output_each))
    metrics: dict[str, Any] = {
        "measured_s": duration_s,
        "measured_tokens": tokens_per_s * duration_s,
        "measured_requests": requests,
        "output_tokens_per_request": output_each,
        "input_tokens": None if one.input_each is None else one.input_each * requests,
        "tokens_per_s": tokens_per_s,
        "tokens_per_s_per_device": tokens_per_s / devices,
        "requests_per_s": requests / duration_s,
        **{f"{name}_s": value for name, value in one.latencies_s.items()},
    }
    if tpot_s := one.latencies_s.get("tpot_p50"):
        metrics["tokens_per_s_per_user"] = 1 / tpot_s
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "benchmark": BENCHMARK,
        "system": system,
        "model": one.model or "unknown",
        "work_unit": "tokens",
        "status": "failed" if one.failed else "ok",
        "error": f"{one.failed:.0f} requests failed" if one.failed else "",
        "precision": precision,
        "data": f"requests of {one.client}",
        "sample": f"{lengths} tokens",
        "choices": {"server": one.server or "unknown"},
        "variant": [*filter(None, [one.server]), f"by {one.client}"],
        "layout": {
            "num_devices": devices,
            "num_nodes": 1,
            "global_batch_size": round(one.concurrency or 0),
            "work_per_sample": round(output_each),
        },
        "metrics": metrics,
        "windows": [],
        "devices": [],
        "serving": {
            "server": one.server or "unknown",
            "version": "",
            "elsewhere": "unknown",
            "defined_by": one.client,
            "notes": [NOTE.format(one.client)],
        },
    }


def _vllm(found: dict[str, Any]) -> Iterator[Figures]:
    latencies = {
        f"{ours}_{percentile}": _ms(found.get(f"{theirs}_{name}_ms"))
        for ours, name in (("ttft", "ttft"), ("tpot", "tpot"), ("e2e", "e2el"))
        for percentile, theirs in (("p50", "median"), ("p90", "p90"), ("p99", "p99"))
    }
    completed = found["completed"]
    yield Figures(
        "vllm bench serve",
        str(found.get("model_id") or ""),
        str(found.get("backend") or ""),
        found.get("max_concurrency"),
        completed,
        found["duration"],
        found["total_input_tokens"] / completed if completed else None,
        found["total_output_tokens"] / completed if completed else None,
        found["output_throughput"],
        latencies,
        found.get("failed") or 0,
    )


def _aiperf(found: dict[str, Any]) -> Iterator[Figures]:
    def value(name: str, kind: str = "avg") -> float | None:
        return (found.get(name) or {}).get(kind)

    asked = found.get("input_config") or {}
    models = (asked.get("endpoint") or {}).get("model_names") or [""]
    requests, rate = value("request_count"), value("request_throughput")
    names = (("ttft", "time_to_first_token"), ("tpot", "inter_token_latency"), ("e2e", "request_latency"))
    yield Figures(
        "aiperf",
        str(models[0]),
        "",
        (asked.get("loadgen") or {}).get("concurrency"),
        requests,
        value("benchmark_duration") or (requests / rate if requests and rate else None),
        value("input_sequence_length"),
        value("output_sequence_length"),
        value("output_token_throughput"),
        {f"{ours}_{kind}": _ms(value(theirs, kind)) for ours, theirs in names for kind in ("p50", "p90", "p99")},
        value("error_request_count") or 0,
    )


def _guidellm(found: dict[str, Any]) -> Iterator[Figures]:
    for one in found["benchmarks"]:
        metrics = one["metrics"]

        def good(name: str, metrics: dict[str, Any] = metrics) -> dict[str, Any]:
            return (metrics.get(name) or {}).get("successful") or {}

        def latencies(ours: str, name: str, unit_s: float, good: Callable[[str], dict[str, Any]] = good) -> Any:
            of_all = good(name).get("percentiles") or {}
            return {f"{ours}_{kind}": _ms(of_all.get(kind), unit_s) for kind in ("p50", "p90", "p99")}

        totals = metrics.get("request_totals") or {}
        requests, rate = totals.get("successful"), good("requests_per_second").get("mean")
        yield Figures(
            "guidellm",
            str((one.get("config") or {}).get("model") or (found.get("args") or {}).get("model") or ""),
            "",
            good("request_concurrency").get("mean"),
            requests,
            one.get("duration") or (requests / rate if requests and rate else None),
            good("prompt_token_count").get("mean"),
            good("output_token_count").get("mean"),
            good("output_tokens_per_second").get("mean"),
            {
                **latencies("ttft", "time_to_first_token_ms", 1e-3),
                **latencies("tpot", "inter_token_latency_ms", 1e-3),
                **latencies("e2e", "request_latency", 1.0),
            },
            totals.get("errored") or 0,
        )


def _ms(value: Any, unit_s: float = 1e-3) -> float | None:
    return float(value) * unit_s if is_number(value) else None


# How a client's file is known, and its figures.
CLIENTS: Sequence[tuple[Callable[[dict[str, Any]], bool], Callable[[dict[str, Any]], Iterator[Figures]]]] = (
    (lambda found: "output_throughput" in found and "completed" in found, _vllm),
    (lambda found: "output_token_throughput" in found, _aiperf),
    (lambda found: isinstance(found.get("benchmarks"), list), _guidellm),
)
