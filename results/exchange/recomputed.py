"""Compute the numbers of a run again from its record and its traces, and compare them with those that are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from jpwr.errors import JpwrError
from record.checks import contradictions
from record.checks.energy import busier_elsewhere
from record.checks.windows import CLOCK_S
from record.derivation import derive
from record.model import Json, Record
from record.part import as_json
from results.collect import RECORD_NAME, joined
from results.find.records import RESULT_NAME, RecordError, read_record
from results.join.copies import copy_folder, copy_folders, failed_copy
from results.join.nodes import TraceSums, of_node, read_sums
from results.join.serving import differences, request_problems

MARK_S = 2e-6  # marks have six decimals


def problems_of_run(result: Path) -> list[str]:
    """Return the problems of a run, after computing all its numbers again from the record and the traces."""
    problems: list[str] = []
    try:
        for problem in _problems(result):
            problems.append(problem)  # one by one, so that they are kept if an error follows
    except (RecordError, JpwrError, OSError) as error:
        problems.append(str(error).replace(f"{result.parent}/", ""))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        problems.append(f"{RECORD_NAME} and {RESULT_NAME} are not as a benchmark writes them: {error!r}")
    return list(dict.fromkeys(problems))


def _problems(result: Path) -> Iterator[str]:
    stored = read_record(result)
    if stored["status"] != "ok":
        path = copy_folder(result.parent, failed_copy(result.parent)[0]) / RECORD_NAME
        recorded = read_record(path)["status"] if path.exists() else "unfinished"
        allowed = {"ok": {"failed"}, "unfinished": {"failed", "unfinished"}}.get(recorded, {recorded})
        if stored["status"] not in allowed:
            yield f"it is stored as {stored['status']}, but its record has the status {recorded}"
        elif stored.get("energy") and joined(result.parent)[0].is_good:
            yield f"it is stored as {stored['status']}, but its record and traces give a good run"
        return
    run = Record.of(stored)
    again, traces = joined(result.parent)
    if not again.is_good:
        yield f"it is stored as ok, but {again.error}"
        return
    for key, energy in again.energies.items():
        if busier := busier_elsewhere(energy):
            yield f"{key} is not that of the work: the trace has {busier.words}"
    traces = traces or read_sums(result.parent, run)
    yield from _not_marked(run, traces)
    yield from _other_command(run, traces)
    for folder in copy_folders(result.parent, run) or [result.parent]:
        recorded = read_record(folder / RECORD_NAME)
        if run.fill:
            copy = derive(Record.of(recorded | {"energy": {}}))  # only all copies have one
            yield from (f"{folder.name}: {sentence}" for sentence in contradictions(copy))
        yield from derived_otherwise(recorded, f"{folder.name}/{RECORD_NAME}: " if run.fill else f"{RECORD_NAME}: ")
    if stored.get("serving"):
        yield from request_problems(stored, result.parent)
    yield from differences(stored, as_json(again), "")


def _not_marked(record: Record, traces: Sequence[TraceSums]) -> Iterator[str]:
    """Yield the windows of the record, or of its copies, without marks or at another time in the sampler's traces."""
    for window in record.windows:
        trace = of_node(window, [sums.meta for sums in traces])
        begin_s, offset_s = window.start_epoch_s, trace is not None and traces[trace].meta.get("epoch_offset_s")
        if begin_s is not None and offset_s and abs(begin_s - window.start_s - offset_s) > CLOCK_S:
            apart_s = begin_s - window.start_s - offset_s
            yield f"its {window.kind} window begins {apart_s:.4g} s later by its wall clock than by that of the trace"
    marks = [(trace.meta.get("boot_id"), region) for trace in traces for region in trace.marks]
    of_copies = record.fill.per_copy if record.fill else []
    named = [(f" of copy {copy.copy}", window) for copy in of_copies for window in copy.windows]
    # Of a server's nodes, only the client's has marks: on the others, the window is as its record and clocks give it.
    own = [one for one in record.windows if one.number("clock_error_s") is None or not record.option("run.hosts")]
    for words, window in named or [("", window) for window in own]:
        if not any(
            region.name == f"{window.kind} window{words}"
            and abs(region.start_s - window.start_s) <= MARK_S
            and abs(region.end_s - window.end_s) <= MARK_S
            for boot_id, region in marks
            if boot_id == window.boot_id
        ):
            yield (
                f"its {window.kind} window{words} from {window.start_s:.3f} s to {window.end_s:.3f} s of node "
                f"{window.hostname} is not marked in the trace"
            )


def _other_command(record: Record, traces: Sequence[TraceSums]) -> Iterator[str]:
    """Compare the module and its options with those of the command that the sampler started, if it names the module."""
    words = record.provenance.command or []
    own = words[words.index("-m") + 1 :] if "-m" in words else [""]
    for trace in traces:
        sampled = trace.meta.get("command") or []
        if own[0] in sampled and (started := sampled[sampled.index(own[0]) :]) != own:
            yield f"its command is '{' '.join(own)}', but the sampler has started '{' '.join(started)}'"


def derived_otherwise(recorded: Json, where: str) -> Iterator[str]:
    """Yield each stored value of a record that follows otherwise from its other values."""
    for difference in differences(recorded, as_json(derive(Record.of(recorded))), "", of_stored=True):
        yield f"{where}{difference}"
