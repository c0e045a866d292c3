"""Runs of servers as the table of runs that ML.ENERGY's data toolkit reads, runs/llm.parquet.

Its runs have a fixed number of requests in flight, and its energies are of GPU boards: another load, an estimate, or an
energy by other sensors is left out. What a record lacks is empty: the model's parameters, and latencies between two
tokens, of which the suite has the mean of each request.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jpwr.process.whole_file import replaced
from results.record.demand import CLOSED_LOOP
from results.record.model import Record
from results.record.parts import JOULES_PER_WH
from results.record.values import energy_source, value_at

TABLE = Path("runs", "llm.parquet")
# Of a run that ML.ENERGY calls stable (mlenergy-data 0.4.0, LLMRuns.from_raw_results).
SHORTEST_S, LEAST_USE = 20.0, 0.85
COLUMNS = {
    "task": "sample",
    "model_id": "model",
    "nickname": "model",
    "weight_precision": "precision",
    "num_gpus": "layout.num_devices",
    "max_num_seqs": "layout.global_batch_size",
    "seed": "config.load.seed",
    "tensor_parallel": "layout.tensor_parallel_size",
    "steady_state_duration_seconds": "metrics.measured_s",
    "energy_per_token_joules": "energy.j_per_output_token",
    "energy_per_request_joules": "energy.j_per_request",
    "output_throughput_tokens_per_sec": "metrics.tokens_per_s",
    "request_throughput_req_per_sec": "metrics.requests_per_s",
    "avg_power_watts": "energy.avg_power_w",
    "avg_output_len": "metrics.output_tokens_per_request",
    "avg_batch_size": "metrics.mean_in_flight",
}
MISSING = (
    *("architecture", "total_params_billions", "activated_params_billions", "num_request_repeats", "expert_parallel"),
    *("data_parallel", "total_output_tokens", "completed_requests", "results_path", "prometheus_path"),
    *(f"{which}_itl_ms" for which in ("mean", "median", "p50", "p90", "p95", "p99")),
)


def write_ml_energy(records: Sequence[Record], folder: Path) -> list[Record]:
    """Write the table below a folder, and return its runs: good ones of a server with the boards' measured energy."""
    import pandas

    found = [one for one in records if one.is_good and _is_alike(one)]
    if found:
        (folder / TABLE).parent.mkdir(parents=True, exist_ok=True)
        with replaced(folder / TABLE) as part:
            pandas.DataFrame([_row(one) for one in found]).to_parquet(part, index=False)
    return found


def _is_alike(record: Record) -> bool:
    is_closed = bool(record.serving) and record.choices.get("arrivals", CLOSED_LOOP) == CLOSED_LOOP
    return is_closed and energy_source(record) == "measured, device"


def _row(record: Record) -> dict[str, Any]:
    row: dict[str, Any] = {column: value_at(record, path) for column, path in COLUMNS.items()}
    window_s, in_flight = row["steady_state_duration_seconds"], row["avg_batch_size"]
    use = 1.0 if in_flight is None else in_flight / row["max_num_seqs"]
    reason = f"short_steady_state:{window_s}" if window_s < SHORTEST_S else ""
    reason = reason or (f"low_batch_utilization:{use:f}" if use < LEAST_USE else "")
    return {
        **dict.fromkeys(MISSING),
        **row,
        "domain": "llm",
        "gpu_model": next((one.name for one in record.devices if one.name), record.system),
        "steady_state_energy_joules": value_at(record, "energy.energy_wh") * JOULES_PER_WH,
        "is_stable": not reason,
        "unstable_reason": reason,
    }
