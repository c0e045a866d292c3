"""Results of other clients of servers as records of a lower grade: by their definitions, without window or energy.

Read by meaning, as their files have it: vllm bench serve (flat JSON, of several runs one after the other), SGLang's
bench_serving (JSON lines), aiperf (profile_export_aiperf.json) and guidellm (its JSON report). Throughput is all tokens
over the whole duration, ramp and drain included. Figures that contradict each other are refused. A run fails by the
rules of our own client that figures alone decide.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from results.record.findings import finding
from results.record.model import SCHEMA_VERSION, Json, is_number
from results.record.records import RecordError
from results.record.served_rules import faults_of_figures

BENCHMARK = "llm_inference"
PERCENTILES = ("p50", "p90", "p99")
MOST_APART = 0.02  # of figures of which one follows from others; aiperf's duration is 0.1 % off its rates
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}


class Figures(NamedTuple):
    """Figures of one run of a client, by our meaning; None for one that is missing."""

    model: str | None
    most_in_flight: float | None  # None without a limit
    requests: float  # that succeeded
    failed: float | None
    input_tokens: float | None  # of all requests that succeeded
    output_tokens: float
    tokens_per_s: float
    duration_s: float
    e2e_mean_s: float | None
    latencies_s: Mapping[str, float]  # ttft_p50_s and so on
    error: str = ""
    requests_per_s: float | None = None
    edges_s: float = 0.0  # of the duration, in which tokens count for one figure and not for another

    @property
    def in_flight(self) -> float:
        """Mean number of requests in flight, by Little's law."""
        return self.requests * (self.e2e_mean_s or 0.0) / self.duration_s


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
        found = list(_values(path.read_text("utf-8-sig")))
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read as JSON: {error}") from error
    records = [record for one in found for record in _records(path, one, stated)]
    if not records:
        raise RecordError(f"{path} holds no run")
    return records


def _values(text: str) -> Iterator[Any]:
    """Yield the values of JSON that follow each other, as clients append them."""
    text, decoder = text.strip(), json.JSONDecoder()
    while text:
        value, end = decoder.raw_decode(text)
        yield value
        text = text[end:].lstrip()


def _records(path: Path, found: Any, stated: Stated) -> Iterator[Json]:
    keys = found if isinstance(found, dict) else {}
    client = next((one for one, (key, _) in CLIENTS.items() if key in keys), None)
    if client is None:
        raise RecordError(f"{path} is no result of {', '.join(CLIENTS)}")
    try:
        for run in found["benchmarks"] if client == "guidellm" else [found]:
            figures = CLIENTS[client][1](run)
            if problem := next(_problems(figures), ""):
                raise RecordError(f"{path}: a result of {client} has {problem}")
            # The same run in two files has one id.
            run_id = hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()
            yield _record(client, figures, stated, run_id)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RecordError(f"{path} lacks a part that {client} writes: {error!r}") from error


def _is_at_least_0(value: Any) -> bool:
    return is_number(value) and math.isfinite(value) and value >= 0


def _problems(run: Figures) -> Iterator[str]:
    """Yield what cannot be of a run, or what it lacks."""
    needed = (run.requests, run.output_tokens, run.tokens_per_s, run.duration_s)
    numbers = {"failed": run.failed, "input_tokens": run.input_tokens, "mean e2e": run.e2e_mean_s}
    for name, value in {**numbers, "concurrency": run.most_in_flight}.items():
        if value is not None and not _is_at_least_0(value):
            yield f"{name} {value!r}: it must be a number of 0 or more"
    if not all(_is_at_least_0(one) and one > 0 for one in needed) or not (run.most_in_flight or run.in_flight):
        yield "no requests, tokens, throughput, duration or concurrency"
    apart = MOST_APART + run.edges_s / run.duration_s
    if not math.isclose(run.output_tokens, run.tokens_per_s * run.duration_s, rel_tol=apart):
        yield f"{run.tokens_per_s:.5g} tokens/s, but {run.output_tokens:.0f} tokens in {run.duration_s:.5g} s"
    if run.requests_per_s and not math.isclose(run.requests, run.requests_per_s * run.duration_s, rel_tol=apart):
        yield f"{run.requests_per_s:.5g} requests/s, but {run.requests:.0f} requests in {run.duration_s:.5g} s"
    if run.in_flight > (1 + apart) * (run.most_in_flight or math.inf):
        yield f"{run.in_flight:.3g} requests in flight by its times (Little's law), but a limit of {run.most_in_flight}"
    for name in ("ttft", "tpot", "e2e"):
        values = [run.latencies_s.get(f"{name}_{one}_s") for one in PERCENTILES]
        known = [one for one in values if one is not None]
        if known != sorted(known):
            yield f"percentiles of its {name} that fall: {', '.join(f'{one:g} s' for one in known)}"
        if 0 in known and (name != "tpot" or run.output_tokens > run.requests):
            yield f"a {name} of 0 s, as of answers in one piece: let the client stream"
    for one in PERCENTILES:
        if run.latencies_s.get(f"ttft_{one}_s", 0.0) > (1 + MOST_APART) * run.latencies_s.get(f"e2e_{one}_s", math.inf):
            yield f"a ttft at {one} above the time of the whole request"


def _record(client: str, run: Figures, stated: Stated, run_id: str) -> Json:
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
        **{name: value for name, value in run.latencies_s.items() if value},
    }
    if tpot_s := metrics.get("tpot_p50_s"):
        metrics["tokens_per_s_per_user"] = 1 / tpot_s
    failed = f"{run.failed:.0f} requests failed" if run.failed else ""
    streams = max(1, round(run.most_in_flight or run.in_flight))
    typical_s = run.latencies_s.get("e2e_p50_s") or run.e2e_mean_s or 0.0
    bad = faults_of_figures(run.requests, streams, duration_s, typical_s, metrics.get("tpot_p50_s", math.inf))
    error = "; ".join(filter(None, (run.error, failed, *bad)))
    findings = [finding("other_client", client=client), *([finding("failures_unknown")] if run.failed is None else [])]
    label = f"{stated.server}, by {client}"
    input_each = "?" if run.input_tokens is None else f"{run.input_tokens / run.requests:.0f}"
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "benchmark": BENCHMARK,
        "system": stated.system,
        "model": str(run.model or "unknown"),
        "work_unit": "tokens",
        "status": "failed" if error else "ok",
        "error": error,
        "precision": stated.precision,
        "data": f"requests of {client}",
        "sample": f"{input_each}/{output_each:.0f} tokens",
        "choices": {"server": stated.server},
        "variant": [label],
        "layout": {
            "num_devices": stated.devices,
            "num_nodes": 1,
            "global_batch_size": streams,
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
            "findings": [one.as_data() for one in findings],
        },
    }


def _flat(found: dict[str, Any], e2e: str) -> Figures:
    """Return the figures of flat JSON, whose times of whole requests have that name."""
    requests, tokens, errors = found["completed"], found["total_output_tokens"], found.get("errors")
    limit, mean_ms = found.get("max_concurrency"), found.get(f"mean_{e2e}_ms")
    failures = [found.get("failed"), sum(map(bool, errors)) if errors else None]
    failures.append(found["num_prompts"] - requests if "num_prompts" in found else None)
    failed = max((one for one in failures if one is not None), key=abs, default=None)
    if mean_ms is None and found.get("latencies"):
        mean_ms = 1e3 * sum(found["latencies"]) / max(1, requests)
    elif mean_ms is None and not limit:  # about, where lengths vary
        mean_ms = found["mean_ttft_ms"] + found["mean_tpot_ms"] * (tokens / max(1, requests) - 1)
    times_ms = [
        {key.removesuffix(f"_{name}_ms"): value for key, value in found.items() if key.endswith(f"_{name}_ms")}
        for name in ("ttft", "tpot", e2e)
    ]
    return Figures(
        found.get("model_id") or (found.get("server_info") or {}).get("model_path"),
        limit,
        requests,
        failed,
        found["total_input_tokens"],
        tokens,
        found["output_throughput"],
        found["duration"],
        None if mean_ms is None else mean_ms / 1e3,
        _latencies_s({**one, "p50": one.get("median")} for one in times_ms),
        requests_per_s=found.get("request_throughput"),
    )


def _aiperf(found: dict[str, Any]) -> Figures:
    records = found.get("records") or found  # nested in the first versions

    def value(name: str) -> Any:
        """Return the mean of a metric, times in seconds."""
        one = records.get(name) or {}
        return None if one.get("avg") is None else one["avg"] * SECONDS.get(str(one.get("unit")), 1.0)

    def total(name: str, each: str) -> Any:
        return value(name) or (value(each) and value(each) * requests)

    asked, requests = found["input_config"], value("request_count")
    model = asked["models"]["items"][0]["name"] if "models" in asked else asked["endpoint"]["model_names"][0]
    phases = [one for one in asked.get("phases") or () if one["kind"] == "profiling"]
    loads = [*phases, asked.get("loadgen") or {}]
    state = found | (found.get("execution_metadata") or {})
    errors = sum(one["count"] for one in state.get("error_summary") or state.get("errors_by_type") or ())
    is_cut = state.get("was_cancelled") or state.get("is_complete") is False
    latencies = [records.get(one) or {} for one in ("time_to_first_token", "inter_token_latency", "request_latency")]
    return Figures(
        model,
        next((one["concurrency"] for one in loads if one.get("concurrency")), None),
        requests,
        max(value("error_request_count") or 0, errors),
        total("total_isl", "input_sequence_length"),
        total("total_osl", "output_sequence_length"),
        value("output_token_throughput"),
        value("benchmark_duration"),
        value("request_latency"),
        _latencies_s(latencies, [SECONDS[one["unit"]] if one else 0.0 for one in latencies]),
        "the run was cancelled before its end" if is_cut else "",
        value("request_throughput"),
    )


def _guidellm(run: dict[str, Any]) -> Figures:
    """Return the figures of a run; its settings have moved between versions 0.2, 0.3 and 0.4."""
    metrics, config = run["metrics"], run.get("config") or run.get("args") or run["scheduler"]
    totals = run.get("request_totals") or metrics["request_totals"]
    backend = config.get("backend") or (run.get("benchmarker") or {}).get("backend") or {}

    def good(name: str) -> Any:
        return metrics[name]["successful"]

    names = ("time_to_first_token_ms", "inter_token_latency_ms", "request_latency")
    return Figures(
        backend.get("model") or (run.get("worker") or {}).get("backend_model"),
        config["strategy"].get("streams"),
        totals["successful"],
        totals["errored"],
        good("prompt_token_count")["total_sum"],
        good("output_token_count")["total_sum"],
        good("output_tokens_per_second")["mean"],
        run.get("duration") or run["end_time"] - run["start_time"],
        good("request_latency")["mean"],
        _latencies_s((good(name)["percentiles"] for name in names), (1e-3, 1e-3, 1.0)),
        requests_per_s=(metrics.get("requests_per_second") or {}).get("successful", {}).get("mean"),
        edges_s=2 * good("request_latency")["mean"],  # it leaves warming up and requests that are cut off out
    )


def _latencies_s(
    of_each: Iterable[Mapping[str, Any]], units_s: Iterable[float] = (1e-3, 1e-3, 1e-3)
) -> dict[str, float]:
    """Return latencies by our names, from the percentiles of TTFT, TPOT and the whole request."""
    found: dict[str, float] = {}
    for name, unit_s, times in zip(("ttft", "tpot", "e2e"), units_s, of_each, strict=True):
        for which, value in times.items():
            if value is not None and (which in PERCENTILES or is_number(value)) and not _is_at_least_0(value):
                raise RecordError(f"a result has a {name} of {value!r} as {which}: it must be a number of 0 or more")
        known = {one: times[one] for one in PERCENTILES if times.get(one) is not None}
        found |= {f"{name}_{one}_s": value * unit_s for one, value in known.items()}
    return found


# A key that only this client's file has, and the figures of one of its runs.
CLIENTS: Mapping[str, tuple[str, Callable[[dict[str, Any]], Figures]]] = {
    "SGLang bench_serving": ("total_output_tokens_retokenized", partial(_flat, e2e="e2e_latency")),
    "vllm bench serve": ("output_throughput", partial(_flat, e2e="e2el")),
    "aiperf": ("input_config", _aiperf),
    "guidellm": ("benchmarks", _guidellm),
}
