"""Energy per token and request of a server under load, and its numbers computed again from the file of requests."""

from __future__ import annotations

import gzip
import json
import math
import statistics
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from record.answers import facts_of
from record.checks.run import differs
from record.conversations import NAMES, are_conversations, figures_of, idle_until_s
from record.demand import MADE, SLOS, Lengths, Slo, arrivals_s, lengths_of, made_trace
from record.model import Json, is_number
from record.perplexity import reference_of
from record.served import Window, metrics_of, read_request, rounded_s
from record.served_rules import faults, late_client, miscounted, remarks, unconfirmed

REQUESTS_NAME = "record.requests.jsonl.gz"
MOST_BYTES = 1 << 30  # of a file of requests, unpacked: ten million arrivals take a tenth
TOLERANCE = 1e-9  # relative, of a number that is computed again
ROUNDED_S = 2e-6  # of the difference of two times
DAMAGED = (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, ArithmeticError)  # reading such a file


def request_problems(record: Json, folder: Path) -> Iterator[str]:
    """Yield what of a server's record does not follow from the requests, whose file is next to it.

    The client's own code computes the metrics again, and applies its rules again.
    """
    try:
        yield from _problems(record, _read(folder / REQUESTS_NAME))
    except FileNotFoundError:
        yield f"it has no {REQUESTS_NAME}, from which its numbers follow"
    except DAMAGED as error:
        yield f"{REQUESTS_NAME} is not as a benchmark has written it: {error!r}"


def _problems(record: Json, lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    lines, end = lines[:-1], lines[-1]
    yield from _other_end(record["serving"], lines, end)
    if "format" not in end:
        return
    stored, load, serving = record["metrics"], record["config"].get("load") or {}, record["serving"]
    slo = SLOS.get(load.get("slo", "")) or Slo(
        stored["slo_ttft_s"], stored["slo_tpot_s"], serving.get("slo_source", "")
    )
    [times] = [one for one in record["windows"] if one["kind"] == "measured"]
    length_s = rounded_s(times["end_s"] - times["start_s"])
    streams = load.get("concurrency", record["layout"]["global_batch_size"])
    window = Window(list(map(read_request, lines)), 0.0, length_s, streams, load.get("rate_per_s", 0.0))
    lengths = _lengths(load)
    yield from _not_as_asked(window, lengths, load)
    if lengths:
        each = round(statistics.fmean(output for _, output in lengths))
        yield from differs("layout.work_per_sample", record["layout"].get("work_per_sample"), "its load", each)
    yield from _left_out(window, stored.get("client_processes") or 1)
    again = metrics_of(window, slo) | figures_of(window)
    yield from _other_conversations(window, load)
    for name, value in [*again.items(), *((name, None) for name in NAMES if name in stored.keys() - again.keys())]:
        if name not in stored or not _alike(stored[name], value):
            yield f"metrics.{name} is stored as {stored.get(name)!r}, but the file of requests gives {value!r}"
    metrics, counted = stored | again, stored.get("server_tokens")
    is_confirmed = is_number(counted) and "miscounted" not in [one["kind"] for one in serving["findings"]]
    # When its counter was read, and whether it counts tokens or whole requests, is not recorded.
    is_confirmed &= None in [miscounted(window, counted, 0.0, each) for each in (True, False) if counted]
    bad = [*faults(window, again), *unconfirmed(window, is_confirmed)]
    facts = facts_of(end.get("answers") or {})
    speculation = serving.get("speculation") or {}
    options = (record["config"].get("answers") or {}) | ({"questions": 0, "perplexity": False} if speculation else {})
    yield from _other_text(record, facts, options)
    yield from _other_answers(serving.get("answers") or {}, facts, options)
    found = [*remarks(window, metrics, facts, speculation), *late_client(window, metrics)]
    yield from _other_findings(serving["findings"], [one.as_data() for one in found])
    yield from differs("serving.slo_source", serving.get("slo_source"), "its load", slo.source)
    yield from (f"it is stored as ok, but {one}" for one in bad)


def _other_end(serving: Json, lines: Sequence[dict[str, Any]], end: dict[str, Any]) -> Iterator[str]:
    """Compare the record with the last line of the requests."""
    yield from differs("serving.requests_format", serving.get("requests_format"), REQUESTS_NAME, end.get("format"))
    if end.get("requests", len(lines)) != len(lines):
        yield f"{REQUESTS_NAME} has {len(lines)} requests, and its end counts {end['requests']}"
    if end.get("status", "ok") != "ok":
        yield f"it is stored as ok, but its requests end as {end['status']}: {end['error']}"


def _lengths(load: dict[str, Any]) -> Lengths:
    """Return the lengths of requests that the options determine; empty for those of a file or a trace."""
    names = ("input_tokens", "output_tokens", "length_sigma", "seed")
    is_known = all(name in load for name in names) and not (load.get("lengths_file") or load.get("trace"))
    return lengths_of(*(load[name] for name in names)) if is_known else []


def _not_as_asked(window: Window, lengths: Lengths, load: dict[str, Any]) -> Iterator[str]:
    """Yield the first request of other lengths, or at another time, than the load has, and one whose times fall."""
    due_s: dict[int, float] = {}
    if window.rate_per_s and "seed" in load:
        last = max(one.index for one in window.every)
        drawn = arrivals_s(window.rate_per_s, load["burstiness"], load["seed"], math.inf)
        due_s = dict(zip(range(last + 1), drawn, strict=False))
    first = window.every[0]
    for one in window.every:
        own = lengths[one.index % len(lengths)] if lengths else None
        if own not in (None, (one.asked_input, one.asked_output)):
            yield f"request {one.index} has the lengths {one.asked_input}/{one.asked_output}, and its load {own}"
            return
        wanted_s = first.due_s + due_s[one.index] - due_s[first.index] if due_s else one.due_s
        if abs(one.due_s - wanted_s) > ROUNDED_S or (not window.rate_per_s and one.due_s != one.sent_s):
            yield f"request {one.index} was due at {one.due_s:.6f} s of the window, which its load does not have"
            return
        if any(after < before for before, after in pairwise([one.due_s, one.sent_s, *one.times_s, one.ended_s])):
            yield f"request {one.index} has times that fall"
            return


def _other_conversations(window: Window, load: Json) -> Iterator[str]:
    """Compare whether requests are turns of conversations, and their idle times, with the options."""
    if bool(load.get("trace")) != are_conversations(window):
        yield f"its load is {'' if load.get('trace') else 'not '}of conversations, and its requests are others"
    elif load.get("trace") in MADE and isinstance(load.get("seed"), int):
        _, conversations = made_trace(load["trace"], load["seed"])
        for one in window.every:
            place, nothing = one.place, (0, 0, 0.0)
            turns = conversations[place.conversation % len(conversations)] if place else {}
            *lengths, idle_s = turns.get(place.turn, nothing) if place else nothing
            if lengths != [one.asked_input, one.asked_output] or (place and place.idle_s > idle_s + ROUNDED_S):
                yield f"request {one.index} has other lengths, or is followed later, than that turn of its load"
                break
    longest_s = max((one.place.idle_s for one in window.every if one.place), default=0.0)
    if longest_s > load.get("idle_limit_s", math.inf):
        yield f"its options let a conversation be idle for {load['idle_limit_s']:g} s, and one was for {longest_s:g} s"


def _other_answers(stored: Json, again: Json, options: Json) -> Iterator[str]:
    """Compare the numbers of answers with the answers, and these with the options."""
    for name in sorted(stored.keys() | again.keys()):
        if not _alike(stored.get(name), again.get(name)):
            yield f"serving.answers.{name} is stored as {stored.get(name)!r}, but the answers give {again.get(name)!r}"
    if not min(1, most := options.get("questions", 0)) <= again.get("questions", 0) <= most:
        yield f"its options allow {most} questions, and {again.get('questions', 0)} have answers"
    if again.get("questions") and not again.get("load_questions"):
        yield f"{REQUESTS_NAME} has no answers of its load to requests that were asked again"
    if options.get("questions_file"):
        reference = again.get("reference", 0)
        yield from differs("config.answers.reference", options.get("reference"), REQUESTS_NAME, reference)


def _other_text(record: Json, again: Json, options: Json) -> Iterator[str]:
    """Compare the reference of a text with the options, and find a text that was left out."""
    serve = record["config"].get("serve") or {}
    if not (options.get("perplexity") and any(serve.get(name) for name in ("url", "model_path", "real_weights"))):
        return
    if "perplexity_tokens" not in again:
        yield f"its options ask for a perplexity, and {REQUESTS_NAME} has no text"
    elif "perplexity" in again:
        reference = reference_of(record["model"], record["precision"], options.get("perplexity_reference", 0.0))
        yield from differs("its reference", again.get("perplexity_reference"), "config.answers", reference)


def _left_out(window: Window, processes: int) -> Iterator[str]:
    """Yield a request that is in the file twice, and whether one is missing that was sent before the window's end."""
    times = Counter(one.index for one in window.every)
    if max(times.values()) > 1:
        yield f"request {times.most_common(1)[0][0]} is in {REQUESTS_NAME} twice"
    for process in range(processes):  # each numbers its requests in the order of sending
        sent = (one.index for one in window.every if one.index % processes == process and one.due_s < window.end_s)
        if missing := set(range(process, max(sent, default=0), processes)) - times.keys():
            yield f"request {min(missing)} is not in {REQUESTS_NAME}, and later ones are"
    if not window.rate_per_s and (idle_s := _idle_s(window)) > max(window.e2e_s):
        yield f"a stream sent no request for {idle_s:.3g} s, longer than any took: those of that time are left out"


def _idle_s(window: Window) -> float:
    """Return the longest time from when a stream's next request is due until it is sent."""
    ends = [(idle_until_s(one), False) for one in window.every]
    starts = [(one.sent_s, True) for one in window.every]
    ended_s, idle_s = list[float](), [0.0]
    for time_s, is_sent in sorted([*ends, *starts]):
        if time_s >= window.end_s:
            break
        if not is_sent:
            ended_s.append(time_s)
        elif ended_s:  # the latest: several streams may have ended before the first is sent
            idle_s.append(time_s - max(window.start_s, ended_s.pop()))
    return max(*idle_s, *(window.end_s - one_s for one_s in ended_s), 0.0)


def _other_findings(stored: Sequence[Json], again: Sequence[Json]) -> Iterator[str]:
    """Compare findings by kind, but for that which needs the server's own counter."""
    ours = {one["kind"]: one for one in stored if one["kind"] != "miscounted"}
    theirs = {one["kind"]: one for one in again}
    for kind in sorted(ours.keys() | theirs.keys()):
        if not _alike(ours.get(kind), theirs.get(kind)):
            yield f"serving.findings has {ours.get(kind)}, but the file of requests gives {theirs.get(kind)}"


def _alike(stored: Any, again: Any) -> bool:
    if isinstance(stored, dict) and isinstance(again, dict):
        return stored.keys() == again.keys() and all(_alike(value, again[key]) for key, value in stored.items())
    if is_number(stored) and is_number(again):
        return math.isclose(stored, again, rel_tol=TOLERANCE)
    return bool(stored == again)


def _read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it is longer than {MOST_BYTES} bytes")
    return [json.loads(line) for line in content.splitlines()]
