"""Results of other clients of servers as records of a lower grade: by their definitions, without window or energy.

Read by meaning, as their files have it: vllm bench serve 0.32 (flat JSON), aiperf 0.13 (profile_export_aiperf.json) and
guidellm 0.8 (its JSON report). Throughput is all tokens over the whole duration, ramp and drain included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from results.record.findings import finding
from results.record.model import SCHEMA_VERSION, Json, is_number
from results.record.records import RecordError

BENCHMARK = "llm_inference"
PERCENTILES = ("p50", "p90", "p99")


class Figures(NamedTuple):
    """Figures of one run of a client, by our meaning; None for one that is missing."""

    model: str | None
    concurrency: float
    requests: float
    failed: float | None
    input_tokens: float | None  # of all requests that succeeded
    output_tokens: float
    tokens_per_s: float
    latencies_s: dict[str, float]  # ttft_p50_s and so on


class Stated(NamedTuple):
    """Facts that no client's file has, stated by the user."""

    system: str
    devices: int
    server: str
    precision: str


def read_other(path: Path, stated: Stated) -> list[Json]:
    """Return the records of a file; raises RecordError for one that is of no client that is known, or incomplete."""
    if stated.devices < 1:
        raise RecordError(f"--devices {stated.devices}: write 1 or more")
    try:
        content = path.read_bytes()
        found = json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read as JSON: {error}") from error
    client = next((one for one, (key, _) in CLIENTS.items() if isinstance(found, dict) and key in found), None)
    if client is None:
        raise RecordError(f"{path} is no result of {', '.join(CLIENTS)}")
    figures, digest = CLIENTS[client][1], hashlib.sha256(content).hexdigest()
    try:
        runs = found["benchmarks"] if client == "guidellm" else [found]
        records = [_record(client, figures(run), stated, f"{digest} {number}") for number, run in enumerate(runs)]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RecordError(f"{path} lacks a part that {client} writes: {error!r}") from error
    if not records:
        raise RecordError(f"{path} holds no run of {client}")
    return records


def _record(client: str, run: Figures, stated: Stated, run_id: str) -> Json:
    numbers = (run.concurrency, run.requests, run.output_tokens, run.tokens_per_s)
    if not all(is_number(one) and one > 0 for one in numbers):
        raise RecordError(f"the result of {client} has no concurrency, requests, tokens or throughput")
    duration_s, output_each = run.output_tokens / run.tokens_per_s, run.output_tokens / run.requests
    metrics: dict[str, Any] = {
        "measured_s": duration_s,
        "measured_tokens": run.output_tokens,
        "measured_requests": run.requests,
        "output_tokens_per_request": output_each,
        "input_tokens": run.input_tokens,
        "tokens_per_s": run.tokens_per_s,
        "tokens_per_s_per_device": run.tokens_per_s / stated.devices,
        "requests_per_s": run.requests / duration_s,
        **run.latencies_s,
    }
    if tpot_s := run.latencies_s.get("tpot_p50_s"):
        metrics["tokens_per_s_per_user"] = 1 / tpot_s
    label = f"{stated.server}, by {client}"
    input_each = "?" if run.input_tokens is None else f"{run.input_tokens / run.requests:.0f}"
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "benchmark": BENCHMARK,
        "system": stated.system,
        "model": run.model or "unknown",
        "work_unit": "tokens",
        "status": "failed" if run.failed else "ok",
        "error": f"{run.failed:.0f} requests failed" if run.failed else "",
        "precision": stated.precision,
        "data": f"requests of {client}",
        "sample": f"{input_each}/{output_each:.0f} tokens",
        "choices": {"server": stated.server},
        "variant": [label],
        "layout": {
            "num_devices": stated.devices,
            "num_nodes": 1,
            "global_batch_size": round(run.concurrency),
            "work_per_sample": round(output_each),
        },
        "metrics": metrics,
        "windows": [],
        "devices": [],
        "serving": {
            "server": label,
            "version": "",
            "elsewhere": "unknown",
            "defined_by": client,
            "findings": [finding("other_client", client=client).as_data()],
        },
    }


def _vllm(found: dict[str, Any]) -> Figures:
    def latency(name: str) -> dict[str, Any]:
        return {"p50": found.get(f"median_{name}_ms"), **{one: found.get(f"{one}_{name}_ms") for one in ("p90", "p99")}}

    return Figures(
        found["model_id"],
        # Without a limit of requests in flight, their mean number by Little's law.
        found["max_concurrency"] or sum(found.get("latencies", ())) / found["duration"],
        found["completed"],
        found.get("failed"),
        found["total_input_tokens"],
        found["total_output_tokens"],
        found["output_throughput"],
        _latencies_s(map(latency, ("ttft", "tpot", "e2el"))),
    )


def _aiperf(found: dict[str, Any]) -> Figures:
    def value(name: str) -> Any:
        return found.get(name, {}).get("avg")

    asked = found["input_config"]
    concurrencies = (one.get("concurrency") for one in asked["phases"] if one["kind"] == "profiling")
    return Figures(
        asked["models"]["items"][0]["name"],
        next(concurrencies, None) or value("effective_concurrency"),
        value("request_count"),
        value("error_request_count"),
        value("total_isl"),
        value("total_osl"),
        value("output_token_throughput"),
        _latencies_s(found.get(one, {}) for one in ("time_to_first_token", "inter_token_latency", "request_latency")),
    )


def _guidellm(run: dict[str, Any]) -> Figures:
    config, metrics = run["config"], run["metrics"]

    def good(name: str) -> Any:
        return metrics[name]["successful"]

    names = ("time_to_first_token_ms", "inter_token_latency_ms", "request_latency")
    return Figures(
        config["backend"]["model"],
        config["strategy"].get("streams") or good("request_concurrency")["mean"],
        good("request_totals"),
        metrics["request_totals"]["errored"],
        good("prompt_token_count")["total_sum"],
        good("output_token_count")["total_sum"],
        good("output_tokens_per_second")["mean"],
        _latencies_s((good(name)["percentiles"] for name in names), e2e_unit_s=1.0),
    )


def _latencies_s(of_each: Iterable[Mapping[str, Any]], e2e_unit_s: float = 1e-3) -> dict[str, float]:
    """Return latencies by our names, from the percentiles of TTFT, TPOT and the whole request."""
    return {
        f"{name}_{percentile}_s": percentiles[percentile] * unit_s
        for name, unit_s, percentiles in zip(("ttft", "tpot", "e2e"), (1e-3, 1e-3, e2e_unit_s), of_each, strict=True)
        for percentile in PERCENTILES
        if is_number(percentiles.get(percentile))
    }


# A key that only this client's file has, and the figures of one of its runs.
CLIENTS: Mapping[str, tuple[str, Callable[[dict[str, Any]], Figures]]] = {
    "vllm bench serve": ("output_throughput", _vllm),
    "aiperf": ("output_token_throughput", _aiperf),
    "guidellm": ("benchmarks", _guidellm),
}
