"""Energy per token and request of a server under load, and its numbers computed again from the file of requests."""

from __future__ import annotations

import gzip
import json
import math
import statistics
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from results.record.checks.inference import amounts
from results.record.model import Json, Metrics, is_number
from results.record.parts import JOULES_PER_WH

REQUESTS_NAME = "record.requests.jsonl.gz"
MOST_BYTES = 1 << 30  # of a file of requests, unpacked: ten million arrivals take a tenth
PERCENTILES = (50, 90, 99)
TOLERANCE = 1e-9  # relative, of a number that is computed again


def energy_per_token(record: Json) -> dict[str, Any]:
    """Return joules per output token, per total token and per request, each with half of its 95 % interval.

    All are the energy of the window by what was done in it: output tokens that arrived, and with those of prompts whose
    first answer arrived, all tokens. A request is as many output tokens as one had in the mean, so that those that the
    window's edges cut count by their share. Tokens are counted and not estimated: the uncertainty is the energy's.
    Joules per token of other lengths are not comparable.
    """
    energy = record["energy"]
    energy_j, half_j = (energy[name] * JOULES_PER_WH for name in ("energy_wh", "uncertainty_wh"))
    found: dict[str, Any] = {}
    for name, count in amounts(Metrics.of(record["metrics"])).items():
        found[f"j_per_{name}"] = energy_j / count if count else None
        found[f"j_per_{name}_half_width"] = half_j / count if count else None
    return found


def request_problems(record: Json, folder: Path) -> Iterator[str]:
    """Yield what of a server's record does not follow from the requests, whose file is next to it.

    Tokens are those that arrived in the window; TTFT is from a request's due time to its first tokens, and TPOT the
    time from there to its last by the tokens after the first.
    """
    try:
        requests = _read(folder / REQUESTS_NAME)
        again = _again(requests, record["metrics"]["measured_s"])
    except FileNotFoundError:
        yield f"it has no {REQUESTS_NAME}, from which its numbers follow"
        return
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, ArithmeticError) as error:
        yield f"{REQUESTS_NAME} is not as a benchmark has written it: {error!r}"
        return
    for name, value in again.items():
        stored = record["metrics"].get(name)
        if not is_number(stored) or not math.isclose(stored, value, rel_tol=TOLERANCE):
            yield f"metrics.{name} is stored as {stored!r}, but the file of requests gives {value:.10g}"


def _read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it is longer than {MOST_BYTES} bytes")
    return [json.loads(line) for line in content.splitlines()]


def _again(requests: Sequence[dict[str, Any]], window_s: float) -> dict[str, float]:
    end_us = round(1e6 * window_s)
    tokens = inputs = 0
    ttft_us, tpot_us, own = [], [], 0
    for one in requests:
        times_us, counts = list(accumulate(one["arrivals_us"])), one["tokens"]
        tokens += sum(count for time, count in zip(times_us, counts, strict=True) if 0 <= time < end_us)
        inputs += one["input"] if 0 <= times_us[0] < end_us else 0
        if 0 <= one["due_us"] < end_us:
            own += 1
            ttft_us.append(times_us[0] - one["due_us"])
            if later := sum(counts[1:]):
                tpot_us.append((times_us[-1] - times_us[0]) / later)
    found: dict[str, float] = {"measured_tokens": tokens, "measured_requests": own, "input_tokens": inputs}
    for name, values in (("ttft", ttft_us), ("tpot", tpot_us)):
        cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
        found |= {f"{name}_p{percent}_s": cuts[percent - 1] / 1e6 for percent in PERCENTILES}
    return found
