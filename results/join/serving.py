"""Energy per token and request of a server under load, and its numbers computed again from the file of requests."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from jpwr.median import percentile
from results.record.derived import PERCENTILES, arrived, joules_per, tpot, ttft
from results.record.model import Json, is_number

REQUESTS_NAME = "record.requests.jsonl.gz"
MOST_BYTES = 1 << 30  # of a file of requests, unpacked: ten million arrivals take a tenth
TOLERANCE = 1e-9  # relative, of a number that is computed again


def energy_per_token(record: Json) -> dict[str, Any]:
    """Return joules per output token, per total token and per request, each with half of its 95 % interval.

    All are the energy of the window by what was done in it: output tokens that arrived, and with those of prompts whose
    first answer arrived, all tokens. A request is as many output tokens as one had in the mean, so that those that the
    window's edges cut count by their share. Tokens are counted and not estimated: the uncertainty is the energy's.
    Joules per token of other lengths are not comparable.
    """
    energy, metrics = record["energy"], record["metrics"]
    halves = joules_per(energy["uncertainty_wh"], metrics)
    return joules_per(energy["energy_wh"], metrics) | {f"{name}_half_width": one for name, one in halves.items()}


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
    ttft_us, tpot_us = [], []
    for one in requests:
        times_us, counts = list(accumulate(one["arrivals_us"])), one["tokens"]
        tokens += sum(count for _, count in arrived(times_us, counts, 0, end_us))
        inputs += one["input"] if 0 <= times_us[0] < end_us else 0
        if 0 <= one["due_us"] < end_us:
            ttft_us.append(ttft(one["due_us"], times_us))
            if (each_us := tpot(times_us, counts)) is not None:
                tpot_us.append(each_us)
    found: dict[str, float] = {"measured_tokens": tokens, "measured_requests": len(ttft_us), "input_tokens": inputs}
    for name, values in (("ttft", ttft_us), ("tpot", tpot_us)):
        found |= {f"{name}_p{percent}_s": percentile(values, percent) / 1e6 for percent in PERCENTILES}
    return found
