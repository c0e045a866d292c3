"""One run: start the server, load it, measure its steady state, end it, and record what was found."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields
from functools import partial
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from benchmarks.common.launch import (
    Launch,
    mark_window,
    node_name,
    node_window,
    read_launch,
    usable_cores,
    usable_cpus,
)
from benchmarks.common.node.cgroup import quota_periods
from benchmarks.common.node.gpu_ids import gpu_ids
from benchmarks.common.node.out_of_memory import is_out_of_memory
from benchmarks.common.node.provenance import collect_provenance
from benchmarks.common.options import EXIT_BAD_OPTIONS, ConfigError, escape_unencodable, parse_config
from benchmarks.common.record import FAILED, MEASURED, OK, OUT_OF_MEMORY, Device, RunRecord
from benchmarks.common.run import check_record_path, run_recorded
from benchmarks.llm_inference.config import Config
from benchmarks.llm_inference.judge import faults, late_client, remarks
from benchmarks.llm_inference.load import LoadError, Measurement, Server, first_requests, measure
from benchmarks.llm_inference.metrics import Window, as_json, client_metrics, from_the_start, metrics_of
from benchmarks.llm_inference.models import CONTEXT, PACKAGED, SHAPES, make_folder, make_gguf, packaged_file
from benchmarks.llm_inference.servers import (
    COMPLETIONS,
    NAME,
    SERVERS,
    Adapter,
    Address,
    Process,
    command_of,
    free_port,
)

BENCHMARK = "llm_inference"
DESCRIPTION = "Load a server of language models with requests, and record how fast it answered."
REQUESTS_SUFFIX, LOG_SUFFIX = ".requests.jsonl.gz", ".server.log"
FIRST_REQUESTS = 2  # the first warms the server up, the second shows how long one takes
MOST_UNLIKE_COUNT = 0.01  # of tokens, by the server's own count
MARGIN_TOKENS = 64  # of a context, for what a server adds to a prompt
FEWEST_CORES_TO_BIND = 8
DTYPES = {"fp32": "float32", "fp16": "float16"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code, and leave a record whatever happens."""
    escape_unencodable()
    try:
        config, launch = parse(sys.argv[1:] if argv is None else argv), read_launch()
        check_record_path(config.run.record)
        if launch.world_size > 1:
            raise ConfigError("one process serves and measures: start it once, with --devices N for several GPUs")
    except ConfigError as error:
        print(f"{BENCHMARK}: error: {error}", file=sys.stderr)
        return EXIT_BAD_OPTIONS
    record = describe(config)
    return run_recorded(record, config.run, launch, partial(serve_and_measure, config, launch))


def parse(argv: Sequence[str]) -> Config:
    """Return the options of a command line; raises ConfigError for what is none."""
    hints = get_type_hints(Config)
    groups = [hints[field.name] for field in fields(Config)]
    return Config(*parse_config(groups, argv, f"python -m benchmarks.{BENCHMARK}", DESCRIPTION))


def describe(config: Config) -> RunRecord:
    """Return the record as far as it is known beforehand."""
    serve, load = config.serve, config.load
    precision = config.compute.precision
    if precision == "auto":
        usual = "int4" if serve.real_weights else "fp32" if config.compute.device == "cpu" else "bf16"
        precision = "unstated" if serve.url else usual
    record = RunRecord(
        BENCHMARK,
        config.run.system,
        PACKAGED.title if serve.real_weights else Path(serve.model_path).name or serve.served_model or serve.model,
        "tokens",
        asdict(config),
        provenance=collect_provenance([] if serve.url else [SERVERS[serve.server].package]),
        precision=precision,
        data="random tokens",
        sample=load.words,
    )
    record.config["compute"] |= {"precision": precision}
    record.layout = {
        "num_devices": serve.devices,
        "num_nodes": 1,
        "global_batch_size": load.concurrency,
        "work_per_sample": load.output_tokens,
        "tensor_parallel_size": serve.devices,
    }
    name = f"server at {serve.url}" if serve.url else serve.server
    arrivals = f"{load.rate_per_s:g} requests/s at random" if load.rate_per_s else "closed loop"
    record.choices = {"server": name, "arrivals": arrivals, "burstiness": f"{load.burstiness:g}"}
    record.variant = [name, *([arrivals] if load.rate_per_s else [])]
    if serve.server_args:
        record.choices["server's arguments"] = serve.server_args
        record.variant.append(serve.server_args)
    return record


def serve_and_measure(config: Config, launch: Launch, record: RunRecord) -> None:
    """Fill in the record of a run; raises ConfigError for what does not fit the machine."""
    with ExitStack() as stack:
        try:
            _serve_and_measure(config, launch, record, stack)
        except LoadError as error:
            record.status = OUT_OF_MEMORY if is_out_of_memory(error) else FAILED
            record.error = str(error)


def _serve_and_measure(config: Config, launch: Launch, record: RunRecord, stack: ExitStack) -> None:
    devices = _devices(config)
    started = Started(config, stack)
    server, plan = started.server, config.plan(_client_cpus(config))
    if config.serve.url:
        record.model = server.model
    alone = first_requests(server, plan, FIRST_REQUESTS, started.watch)[-1]
    if alone.model not in ("", server.model):
        raise LoadError(f"the model {server.model} was asked for, and the server answers for {alone.model}")
    counted: dict[str, float | None] = {}
    periods = []

    def mark(edge: str, time_s: float) -> None:
        mark_window(launch, edge, MEASURED, time_s)
        periods.append(quota_periods())
        counted[edge] = started.address.counted(started.adapter.counter)

    say = partial(print, f"{BENCHMARK}:", flush=True)
    measured = measure(server, plan, alone.ended_s - alone.sent_s, started.watch, mark, say)
    measurement = from_the_start(measured)
    window = Window(measurement)
    devices[0].peak_memory_bytes = started.peak_memory_bytes()
    record.windows, record.devices = [node_window(measured.start_s, measured.end_s)], devices
    record.metrics = metrics_of(window, plan.concurrency, config.serve.devices, config.load.limits)
    record.metrics |= client_metrics(measurement.statistics)
    record.metrics |= {
        "num_parameters": started.parameters,
        "server_start_s": started.ready_s,
        "cpu_throttled_percent": _throttled_percent(*periods),
        "server_tokens": _difference(counted),
    }
    _store_requests(record, measurement, config)
    found = list(faults(window, plan, record.metrics))
    found += _miscounted(window, started.adapter, _difference(counted), config)
    late, notes = late_client(record.metrics, plan), list(remarks(window, plan, record.metrics))
    if late:
        (found if os.environ.get("CARAML_EXCLUSIVE") == "yes" else notes).append(late)
    elsewhere = "" if started.address.is_here() else started.address.host
    record.serving = {
        "elsewhere": elsewhere,
        "server": record.choices["server"],
        "version": started.version,
        "slo": config.load.slo,
        "slo_source": config.load.limits.source,
        "notes": notes,
    }
    record.error = "; ".join(found)
    record.status = FAILED if found else OK


class Started:
    """The server that is asked, started here or running already."""

    def __init__(self, config: Config, stack: ExitStack) -> None:
        serve = config.serve
        self._process: Process | None = None
        self.adapter, self.version, self.ready_s = SERVERS[serve.server], "", 0.0
        self.parameters: int | None = None
        if serve.url:
            self._find(config)
        else:
            self._start(config, stack)

    def _find(self, config: Config) -> None:
        serve, parts = config.serve, urlsplit(config.serve.url)
        self.adapter = SERVERS[serve.server]._replace(counter="")
        self.address = Address(parts.hostname or "", parts.port or 80)
        served = self.address.models()
        model = serve.served_model or (served[0] if served else "")
        if model not in served:
            raise LoadError(f"the model {model!r} was asked for, and the server has {', '.join(served) or 'none'}")
        extra = {} if serve.server == "trtllm" else self.adapter.extra
        self.server = self._server(model, serve.vocab_size, extra)

    def _start(self, config: Config, stack: ExitStack) -> None:
        serve, load, adapter = config.serve, config.load, self.adapter
        precision = config.compute.precision
        folder = Path(serve.model_folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="caraml-")))
        is_random = not (serve.model_path or serve.real_weights)
        model, vocab = _model(config, adapter, folder)
        if is_random:
            self.parameters = SHAPES[serve.model].parameters
        context = min(CONTEXT, max(map(sum, load.lengths)) + MARGIN_TOKENS)
        settings = folder / f"{serve.server}.yaml"
        if adapter.settings:
            settings.write_text(adapter.settings.replace("LOAD_FORMAT", "dummy" if is_random else "auto"))
        self.address = Address("127.0.0.1", free_port())
        values = {
            "model": model,
            "port": self.address.port,
            "streams": load.concurrency,
            "context": context,
            "threads": max(1, usable_cores() - 1),  # the client has the other one
            "devices": serve.devices,
            "dtype": DTYPES.get(precision, "bfloat16"),
            "settings": settings,
        }
        more = f"{serve.server_args} {'--quantization fp8' if precision == 'fp8' else ''}"
        command = command_of(adapter, values, is_random, more)
        log = _next_to(config, LOG_SUFFIX) or folder / "server.log"
        environment = {**adapter.environment, "PYTHONUNBUFFERED": "1"}
        stack.enter_context(_ended_by_signals())
        self._process = Process(command, environment, log)
        stack.callback(self._process.stop)
        self.ready_s = self._process.wait_until_ready(self.address, adapter.health, serve.start_limit_s)
        self.version = _version(adapter.package)
        served = self.address.models()
        name = NAME if NAME in served else model.name
        if name not in served:
            raise LoadError(f"the model {name} was asked for, and the server has {', '.join(served) or 'none'}")
        self.server = self._server(name, vocab, adapter.extra)

    def _server(self, model: str, vocab: int, extra: Any) -> Server:
        host, port = self.address
        return Server(host, port, COMPLETIONS, model, vocab, dict(extra), self.adapter.keep_alive)

    def watch(self) -> None:
        """Raise LoadError when the server is gone."""
        if self._process:
            self._process.watch()

    def peak_memory_bytes(self) -> int | None:
        """Return the most memory that the server held, in bytes; None for a server of others."""
        return self._process.peak_memory_bytes() if self._process else None


def _model(config: Config, adapter: Adapter, folder: Path) -> tuple[Path, int]:
    """Return where the model is, after making it where its weights are random, and the size of its vocabulary."""
    serve = config.serve
    if serve.model_path:
        return Path(serve.model_path), serve.vocab_size
    if serve.real_weights:
        return packaged_file(), PACKAGED.vocab_size
    shape, precision = SHAPES[serve.model], config.compute.precision
    precision = ("fp32" if config.compute.device == "cpu" else "bf16") if precision == "auto" else precision
    if adapter.makes == "gguf":
        path = folder / f"{serve.model}-{precision}.gguf"
        make_gguf(path, shape, precision)
    else:
        path = folder / f"{serve.model}-{precision}" / NAME
        make_folder(path, shape, precision)
    return path, shape.vocab


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End by an exception at a signal, so that the server is ended, too."""

    def leave(number: int, _: FrameType | None) -> None:
        raise LoadError(f"ended by signal {number} ({signal.Signals(number).name})")

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _devices(config: Config) -> list[Device]:
    """Return the devices that the server uses; raises ConfigError where there are fewer than asked for."""
    count = config.serve.devices
    if config.compute.device == "cpu":
        return [Device(node_name(), 0, "processor", "", None, usable_cpus()) for _ in range(count)]
    ids = gpu_ids()
    if len(ids) < count:
        raise ConfigError(f"--devices {count} was asked for, and there are {len(ids)} GPUs here")
    chosen = ",".join(map(str, range(count)))
    if len(ids) > count:
        for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
            own = os.environ.get(name, "")
            os.environ[name] = ",".join(own.split(",")[:count]) if own else chosen
    return [Device(node_name(), rank, "GPU", ids[rank], None, usable_cpus()) for rank in range(count)]


def _client_cpus(config: Config) -> list[int]:
    """Return CPUs for the client's processes: the last ones, on a node that has enough of them."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    processes = config.plan([]).processes
    return cpus[-processes:] if len(cpus) >= max(FEWEST_CORES_TO_BIND, 4 * processes) else []


def _next_to(config: Config, suffix: str) -> Path | None:
    return Path(config.run.record).with_suffix(suffix) if config.run.record else None


def _store_requests(record: RunRecord, measurement: Measurement, config: Config) -> None:
    """Write every request next to the record, for whoever computes its numbers again."""
    path = _next_to(config, REQUESTS_SUFFIX)
    if path is None:
        return
    lines = (json.dumps(as_json(one)) for one in measurement.requests)
    try:
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
    except OSError as error:
        raise LoadError(f"{path} cannot be written: {error.strerror}") from error


def _difference(counted: dict[str, float | None]) -> float | None:
    begin, end = counted.get("begin"), counted.get("end")
    return None if begin is None or end is None else end - begin


def _miscounted(window: Window, adapter: Adapter, server: float | None, config: Config) -> Iterator[str]:
    """Compare with the server's own count over the window, which it reads out some milliseconds late."""
    if server is None:
        return
    tolerance = MOST_UNLIKE_COUNT * server + config.load.concurrency
    if adapter.counts_requests:
        ours = sum(one.tokens for one in window.every if window.holds(one.ended_s))
        tolerance += max(output for _, output in config.load.lengths) * (1 + config.load.concurrency // 8)
    else:
        ours = sum(count for _, count in window.output_tokens())
    if abs(ours - server) > tolerance:
        yield f"the client counted {ours} tokens in the window, and the server {server:.0f}"


def _throttled_percent(begin: Sequence[Any], end: Sequence[Any]) -> float:
    shares = [
        (after.throttled - before.throttled) / max(1, after.all - before.all)
        for before, after in zip(begin, end, strict=False)
    ]
    return 100 * max(shares, default=0.0)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
