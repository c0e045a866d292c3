"""Numbers of a server under load, computed again from the file of its requests."""

from __future__ import annotations

import gzip
import json
import math
import re
import statistics
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from record.answers import facts_of, not_checked
from record.asked import reference_of
from record.demand import MADE, SLOS, Lengths, Slo, arrivals_s, lengths_of, made_trace
from record.model import Json, Record
from record.part import as_json
from record.served import OF_CONVERSATIONS, Request, Window, metrics_of, read_request, rounded_s
from record.served_rules import faults, late_client, miscounted, remarks, unconfirmed

REQUESTS_NAME = "record.requests.jsonl.gz"
MOST_BYTES = 1 << 30  # of a file of requests, unpacked: ten million arrivals take a tenth
NEWER = {"tflop_per_j"}  # derived numbers that older results lack
# Keys, and paths without places in lists, that are not compared: of older results alone, and what a site states.
NOT_COMPARED = {
    *("clock_drift_percent", "drift_c", "drift_percent", "temperature_drift_c"),
    *("jpwr_version", "largest_gap", "open_s", "over_time", "power_W", "power_uncertainty_percent", "reads_by_size"),
    *("sampling_interval_s", "site", "steps_to_loss", "trained_tokens", "serving.answers.tokens"),
    *(f"j_per_{name}_half_width" for name in ("output_token", "request", "total_token")),
    *(f"io.{path}" for path in ("data", "notes", "source", "windows.effective.read_s", "windows.measured.read_s")),
    *(f"node_check.figures.{name}" for name in ("value", "low", "high")),
}
ORIGIN = "the file of requests"
TOLERANCE = 1e-9  # relative, of a number that is computed again
ROUNDED_S = 2e-6  # of the difference of two times
DAMAGED = (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, ArithmeticError)  # reading such a file


def request_problems(record: Json, folder: Path) -> Iterator[str]:
    """Yield what of a server's record does not follow from the requests, whose file is next to it.

    The client's own code computes the metrics again, and applies its rules again.
    """
    try:
        *requests, end = _read(folder / REQUESTS_NAME)
        yield from _problems(Record.of(record), requests, end)
    except FileNotFoundError:
        yield f"it has no {REQUESTS_NAME}, from which its numbers follow"
    except DAMAGED as error:
        yield f"{REQUESTS_NAME} is not as a benchmark has written it: {error!r}"


def _problems(run: Record, requests: Sequence[Json], end: Json) -> Iterator[str]:
    """Compare a record with its requests, and with the last line of their file."""
    stored, serving = vars(run.metrics), vars(run.serving)
    yield from differences(serving.get("requests_format"), end.get("format"), "serving.requests_format", REQUESTS_NAME)
    if "format" not in end:
        return
    if end["requests"] != len(requests):
        yield f"{REQUESTS_NAME} has {len(requests)} requests, and its end counts {end['requests']}"
    if end["status"] != "ok":
        yield f"it is stored as ok, but its requests end as {end['status']}: {end['error']}"
    slo = SLOS.get(run.option("load.slo") or "") or Slo(stored["slo_ttft_s"], stored["slo_tpot_s"])
    streams = run.option("load.concurrency") or run.layout.global_batch_size or 0
    measured, *_ = (one for one in run.windows if one.kind == "measured")  # the same on each of the server's nodes
    length_s, rate_per_s = rounded_s(measured.duration_s), run.option("load.rate_per_s") or 0.0
    window = Window(list(map(read_request, requests)), 0.0, length_s, streams, rate_per_s)
    yield from _not_as_asked(window, run)
    yield from _left_out(window, int(run.metrics.number("client_processes") or 1))
    again = metrics_of(window, slo)
    yield from differences(
        {key: stored[key] for key in stored.keys() & {*again, *OF_CONVERSATIONS}}, again, "metrics", ORIGIN
    )
    facts = facts_of(end.get("answers") or {})
    yield from differences(run.serving.answers, facts, "serving.answers", ORIGIN)
    yield from _other_answers(run, facts)
    speculation = as_json(run.serving.speculation) or {}
    findings = [*remarks(window, stored | again, facts, speculation), *late_client(window, stored | again)]
    kinds = {one.kind: as_json(one) for one in run.serving.findings}
    # A miscount follows from the server's own counter. When that was read, and whether it counts tokens or whole
    # requests, is not recorded.
    counted, was_miscounted = run.metrics.number("server_tokens"), kinds.pop("miscounted", None) is not None
    yield from differences(kinds, {one.kind: one.as_data() for one in findings}, "serving.findings", ORIGIN)
    is_confirmed = counted is not None and not was_miscounted
    is_confirmed &= None in [miscounted(window, counted, 0.0, each) for each in (True, False) if counted]
    yield from (
        f"it is stored as ok, but {one}" for one in [*faults(window, again), *unconfirmed(window, is_confirmed)]
    )


def _not_as_asked(window: Window, run: Record) -> Iterator[str]:
    """Yield the first request of other lengths, or at another time, than the load has, and one whose times fall."""
    trace, seed = run.option("load.trace"), run.option("load.seed")
    drawn = [run.option(f"load.{name}") for name in ("input_tokens", "output_tokens", "length_sigma", "seed")]
    lengths: Lengths = []
    if None not in drawn and not (trace or run.option("load.lengths_file")):
        lengths = lengths_of(*drawn)
        each = round(statistics.fmean(output for _, output in lengths))
        yield from differences(run.layout.work_per_sample, each, "layout.work_per_sample", "its load")
    if bool(trace) != window.has_conversations:
        yield f"its load is {'' if trace else 'not '}of conversations, and its requests are others"
    conversations = made_trace(trace, seed)[1] if trace in MADE and isinstance(seed, int) else []
    due_s: list[float] = []
    if window.rate_per_s and seed is not None:
        last = max(request.index for request in window.every)
        due_s = list(islice(arrivals_s(window.rate_per_s, run.option("load.burstiness"), seed, math.inf), last + 1))
    first, limit_s = window.every[0], run.option("load.idle_limit_s")
    for request in window.every:
        name, place, asked = f"request {request.index}", request.place, (request.asked_input, request.asked_output)
        own = lengths[request.index % len(lengths)] if lengths else asked
        most_s = math.inf if limit_s is None else limit_s
        if conversations:
            turns = conversations[place.conversation % len(conversations)] if place else {}
            *turn, idle_s = turns.get(place.turn, (0, 0, 0.0)) if place else (0, 0, 0.0)
            own, most_s = (turn[0], turn[1]), min(most_s, idle_s)
        wanted_s = first.due_s + due_s[request.index] - due_s[first.index] if due_s else request.due_s
        times_s = [request.due_s, request.sent_s, *request.times_s, request.ended_s]
        if own != asked:
            yield f"{name} has the lengths {asked[0]}/{asked[1]}, and its load {own[0]}/{own[1]}"
        elif place and place.idle_s > most_s + ROUNDED_S:
            yield f"{name} is followed after {place.idle_s:g} s, and in its load after {most_s:g} s at most"
        elif abs(request.due_s - wanted_s) > ROUNDED_S or (not window.rate_per_s and request.due_s != request.sent_s):
            yield f"{name} was due at {request.due_s:.6f} s of the window, which its load does not have"
        elif any(after < before for before, after in pairwise(times_s)):
            yield f"{name} has times that fall"
        else:
            continue
        return


def _other_answers(run: Record, again: Json) -> Iterator[str]:
    """Compare the answers with the options: how many there are, and what they are compared with."""
    yield from map(str, not_checked(run, again))
    most, questions = run.option("answers.questions") or 0, again.get("questions", 0)
    if questions > (0 if run.serving.speculation else most):
        yield f"its options allow {most} questions, and {questions} have answers"
    if questions and not again.get("load_questions"):
        yield f"{REQUESTS_NAME} has no answers of its load to requests that were asked again"
    if run.option("answers.questions_file"):
        reference = again.get("reference", 0)
        yield from differences(run.option("answers.reference"), reference, "config.answers.reference", REQUESTS_NAME)
    if "perplexity" in again:
        reference = reference_of(run.model, run.precision, run.option("answers.perplexity_reference") or 0.0)
        yield from differences(again.get("perplexity_reference"), reference, "its reference", "config.answers")


def _left_out(window: Window, processes: int) -> Iterator[str]:
    """Yield a request that is in the file twice, and whether one is missing that was sent before the window's end."""
    times = Counter(request.index for request in window.every)
    if max(times.values()) > 1:
        yield f"request {times.most_common(1)[0][0]} is in {REQUESTS_NAME} twice"
    for process in range(processes):  # each numbers its requests in the order of sending
        own: list[Request] = [one for one in window.every if one.index % processes == process]
        sent = (one.index for one in own if one.due_s < window.end_s)
        if missing := set(range(process, max(sent, default=0), processes)) - times.keys():
            yield f"request {min(missing)} is not in {REQUESTS_NAME}, and later ones are"
    if not window.rate_per_s and (idle_s := _idle_s(window)) > max(one.e2e_s for one in window.requests):
        yield f"a stream sent no request for {idle_s:.3g} s, longer than any took: those of that time are left out"


def _idle_s(window: Window) -> float:
    """Return the longest time from when a stream's next request is due until it is sent."""
    ends = [(request.idle_until_s, False) for request in window.every]
    starts = [(request.sent_s, True) for request in window.every]
    ended_s, idle_s = list[float](), [0.0]
    for time_s, is_sent in sorted([*ends, *starts]):
        if time_s >= window.end_s:
            break
        if not is_sent:
            ended_s.append(time_s)
        elif ended_s:  # the latest: several streams may have ended before the first is sent
            idle_s.append(time_s - max(window.start_s, ended_s.pop()))
    return max(*idle_s, *(window.end_s - time_s for time_s in ended_s), 0.0)


def differences(
    stored: Any, again: Any, name: str, origin: str = "its origin", of_stored: bool = False
) -> Iterator[str]:
    """Yield each stored value, below a name, that is not as its origin gives it again.

    of_stored: values that are not stored do not count.
    """
    if isinstance(stored, dict) and isinstance(again, dict):
        keys = stored.keys() if of_stored else stored.keys() | (again.keys() - NEWER)
        for key in sorted(keys):
            path = f"{name}.{key}".lstrip(".")
            if not NOT_COMPARED & {key, re.sub(r"\[\d+\]", "", path)}:
                yield from differences(stored.get(key), again.get(key), path, origin, of_stored)
    elif isinstance(stored, list) and isinstance(again, list) and len(stored) == len(again):
        for index, (value, other) in enumerate(zip(stored, again, strict=True)):
            yield from differences(value, other, f"{name}[{index}]", origin, of_stored)
    elif isinstance(stored, float) and isinstance(again, float):
        if not math.isclose(stored, again, rel_tol=TOLERANCE):
            yield f"{name} is stored as {stored:.10g}, but {origin} gives {again:.10g}"
    elif stored != again or isinstance(stored, bool) != isinstance(again, bool):
        yield f"{name} is stored as {stored!r}, but {origin} gives {again!r}"


def _read(path: Path) -> list[Json]:
    with gzip.open(path) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it is longer than {MOST_BYTES} bytes")
    return [json.loads(line) for line in content.splitlines()]
