"""One run: start the server, load it, measure its steady state, end it, and record what was found."""

from __future__ import annotations

import gzip
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from benchmarks.common.launch import Launch, mark_window, node_window, read_launch
from benchmarks.common.node.out_of_memory import is_out_of_memory
from benchmarks.common.node.provenance import collect_provenance
from benchmarks.common.options import EXIT_BAD_OPTIONS, ConfigError, escape_unencodable, parse_groups
from benchmarks.common.record import FAILED, MEASURED, OK, OUT_OF_MEMORY, RunRecord
from benchmarks.common.run import check_record_path, run_recorded
from benchmarks.llm_inference.address import LoadError
from benchmarks.llm_inference.answers import Questions
from benchmarks.llm_inference.config import Config
from benchmarks.llm_inference.devices import devices_of_running
from benchmarks.llm_inference.load import first_requests, measure
from benchmarks.llm_inference.metrics import REQUESTS_FORMAT, by_the_server, end_line, request_line
from benchmarks.llm_inference.models import PACKAGED
from benchmarks.llm_inference.perplexity import asked_text
from benchmarks.llm_inference.points import decode_bytes
from benchmarks.llm_inference.servers import SERVERS
from benchmarks.llm_inference.started import Started, next_to
from jpwr.process.cgroup import quota_periods, throttled_percent
from jpwr.process.host import clock_error_s
from record.answers import facts_of
from record.asked import as_asked, reference_of
from record.demand import SLOS
from record.model import Record
from record.part import as_json
from record.served import metrics_of, read_request, rounded_s
from record.served_rules import faults, late_client, miscounted, remarks, unconfirmed

BENCHMARK = "llm_inference"
DESCRIPTION = "Load a server of language models with requests, and record how fast it answered."
REQUESTS_SUFFIX = ".requests.jsonl.gz"


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code, and leave a record whatever happens."""
    escape_unencodable()
    try:
        config, launch = parse(sys.argv[1:] if argv is None else argv), read_launch()
        check_record_path(config.run.record)
        if launch.world_size > 1:
            raise ConfigError("one process serves and measures: start it once, with --devices N for several GPUs")
        record = describe(config)
    except ConfigError as error:
        print(f"{BENCHMARK}: error: {error}", file=sys.stderr)
        return EXIT_BAD_OPTIONS
    return run_recorded(record, config.run.record, launch, partial(serve_and_measure, config, launch))


def parse(argv: Sequence[str]) -> Config:
    """Return the options of a command line; raises ConfigError for what is none."""
    return parse_groups(Config, argv, f"python -m benchmarks.{BENCHMARK}", DESCRIPTION)


def describe(config: Config) -> RunRecord:
    """Return the record as far as it is known beforehand."""
    serve, load, options = config.serve, config.load, asdict(config)
    options["compute"] |= {"device": config.device, "precision": config.precision}
    stated: dict[str, Any] = {
        "model": PACKAGED if serve.real_weights else serve.served_model or serve.model,
        "sample": load.conversations.digest if load.conversations else "",
        "layout": {"work_per_sample": round(statistics.fmean(output for _, output in load.lengths))},
        "serving": {"elsewhere": ""},
    }
    asked = as_asked(Record.of({"config": options, **stated}))
    provenance = collect_provenance([] if serve.url else [SERVERS[serve.server].package])
    serving: dict[str, Any] = {
        "clock_error_s": clock_error_s(),
        "version": provenance["packages"].get(SERVERS[serve.server].package) or "",
        "findings": [],
        "requests_format": REQUESTS_FORMAT,
    }
    return RunRecord(
        BENCHMARK,
        config.run.system,
        asked.model,
        "tokens",
        options,
        provenance=provenance,
        precision=config.precision,
        data=asked.data,
        sample=asked.sample,
        variant=asked.variant,
        layout=as_json(asked.layout),
        serving=as_json(asked.serving) | serving,
    )


def serve_and_measure(config: Config, launch: Launch, record: RunRecord) -> None:
    """Fill in the record of a run; raises ConfigError for what does not fit the machine."""
    try:
        with ExitStack() as stack:
            _serve_and_measure(config, launch, record, stack)
    except LoadError as error:
        record.status = OUT_OF_MEMORY if is_out_of_memory(error) else FAILED
        record.error = str(error)


def _serve_and_measure(config: Config, launch: Launch, record: RunRecord, stack: ExitStack) -> None:
    serve, load = config.serve, config.load
    started = Started(config, stack)
    server, program = started.server, SERVERS[serve.server]
    if serve.url:
        record.model = server.model
    alone = first_requests(server, load, config.window.limit_s, started.watch)
    if alone.model not in ("", server.model) and not serve.url:
        raise LoadError(f"the model {server.model} was asked for, and the server answers for {alone.model}")
    if serve.url and not started.elsewhere:  # some servers load their model at the first request
        started.devices = devices_of_running(config, started.address.port)
    alone_s = alone.ended_s - alone.sent_s
    questions = Questions(server, config, alone_s, started.watch)
    questions.ask_idle()
    counted, late_s, periods = [], 0.0, []

    def mark(edge: str, time_s: float) -> None:
        nonlocal late_s
        mark_window(launch, edge, MEASURED, time_s)
        periods.append(quota_periods())
        counted.append(started.address.counters(program.counters, program.metrics))
        late_s += time.monotonic() - time_s

    measured, samples = measure(server, load, config.window, alone_s, started.watch, mark, questions.ask_loaded)
    questions.ask_again([one for of_process in samples for one in of_process])
    if config.asks_text:
        reference = reference_of(record.model, record.precision, config.answers.perplexity_reference)
        questions.stored["text"] = asked_text(server, program, reference)
    # A gateway may answer for an alias by the model's own name.
    if others := sorted({one.model for one in measured.every} - {"", server.model}):
        record.serving["answers_as"] = ", ".join(others)
    lines = [request_line(one, measured.start_s) for one in measured.every]
    requests, length_s = list(map(read_request, lines)), rounded_s(measured.duration_s)
    window = replace(measured, every=requests, start_s=0.0, end_s=length_s)
    record.windows, record.devices = [node_window(measured.start_s, measured.end_s)], started.devices
    record.metrics = metrics_of(window, SLOS[load.slo])
    begin, end = counted
    server_tokens, speculation, undeclared = by_the_server(config, begin, end, window)
    record.metrics |= {
        "client_processes": len(samples),
        "num_parameters": started.parameters,
        **(decode_bytes(serve.model, config.precision) if started.parameters else {}),
        "server_start_s": started.ready_s,
        "cpu_throttled_percent": throttled_percent([(periods[0], periods[-1])]),
        "server_tokens": server_tokens,
        **({"undeclared_steps": undeclared} if undeclared else {}),
    }
    answers = facts_of(questions.stored)
    found: list[object] = list(faults(window, record.metrics))
    findings = list(remarks(window, record.metrics, answers, speculation))
    late, is_confirmed = list(late_client(window, record.metrics)), False
    if server_tokens is not None:
        other = miscounted(window, server_tokens, late_s, program.counts_requests)
        late, is_confirmed = [*late, *([other] if other else [])], other is None
    found += unconfirmed(window, is_confirmed)
    # Where others use the node, too, both can be theirs.
    (found if os.environ.get("CARAML_EXCLUSIVE") == "yes" else findings).extend(late)
    record.serving |= {"elsewhere": started.elsewhere, "findings": [one.as_data() for one in findings]}
    record.serving |= {"answers": answers} if answers else {}
    record.serving |= {"speculation": speculation} if speculation else {}
    record.error = "; ".join(map(str, found))
    record.status = FAILED if found else OK
    _store_requests(record, lines, questions, config)


def _store_requests(record: RunRecord, requests: list[dict[str, Any]], questions: Questions, config: Config) -> None:
    """Write every request, all answers and the run's end next to the record, for whoever computes its numbers again."""
    path = next_to(config, REQUESTS_SUFFIX)
    if path is None:
        return
    end = end_line(len(requests), record.status, record.error, questions.stored)
    lines = map(json.dumps, [*requests, end])
    try:
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
    except OSError as error:
        raise LoadError(f"{path} cannot be written: {error.strerror}") from error
