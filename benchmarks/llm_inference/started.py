"""The server that is asked: started here, with its model and its options, or running already."""

from __future__ import annotations

import shlex
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from benchmarks.common.launch import usable_cores
from benchmarks.common.options import ConfigError
from benchmarks.common.spawn import free_ports
from benchmarks.llm_inference.address import Address, LoadError
from benchmarks.llm_inference.client import Server
from benchmarks.llm_inference.config import Config
from benchmarks.llm_inference.devices import devices_of
from benchmarks.llm_inference.models import (
    CONTEXT,
    DTYPES,
    PACKAGED_VOCAB,
    SHAPES,
    make_draft,
    make_folder,
    make_gguf,
    packaged_file,
)
from benchmarks.llm_inference.perplexity import most_tokens
from benchmarks.llm_inference.prompts import template_tokens
from benchmarks.llm_inference.servers import NAME, SERVERS, SETTINGS, Draft, Process, Start

LOG_SUFFIX = ".server.log"
MARGIN_TOKENS = 64  # of a context, for what a server adds to a prompt


def context(config: Config) -> int:
    """Return the tokens of a request that the server must allow; a model of the user may allow more than our own."""
    asked = max(map(sum, config.load.lengths)), most_tokens() if config.asks_text else 0, config.answers.most_tokens
    needed = max(asked) + MARGIN_TOKENS
    return needed if config.serve.model_path else min(CONTEXT, needed)


class Started:
    """The server that is asked, started here or running already."""

    def __init__(self, config: Config, stack: ExitStack) -> None:
        serve, program = config.serve, SERVERS[config.serve.server]
        self._process: Process | None = None
        self.parameters: int | None = None
        self.ready_s, vocab = 0.0, serve.vocab_size
        names = [serve.served_model] if serve.served_model else []
        self.address = serve.address or Address("127.0.0.1", free_ports(1))
        # The sensors of this node show no other one's power.
        is_here = not serve.url or (serve.nodes == 1 and not config.run.hosts and self.address.is_here())
        self.elsewhere = "" if is_here else self.address.host
        self.devices = [] if serve.url else devices_of(config)
        if not serve.url:
            path, vocab = self._start(config, stack)
            names = [NAME, path.name]
        served = self.address.models()
        names = names or served[:1]
        name = next((one for one in names if one in served), "")
        if not name:
            asked, found = " or ".join(names), ", ".join(served) or "none"
            raise LoadError(f"the model {asked} was asked for, and the server has {found}")
        peer, template = self.address.reached(), None
        if config.load.endpoint == "chat":
            template = template_tokens(self.address, name, min(config.load.lengths)[0], config.window.limit_s)
        self.server = Server(
            self.address, peer, name, vocab, program.request, program.keep_alive, template, program.request_of_turns
        )

    def _start(self, config: Config, stack: ExitStack) -> tuple[Path, int]:
        """Start it and wait until it is ready; return where the model is, and the size of its vocabulary."""
        serve, program = config.serve, SERVERS[config.serve.server]
        folder = Path(serve.model_folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="caraml-")))
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--model-folder {folder} cannot be made: {error.strerror}") from error
        shape, vocab = SHAPES[serve.model], serve.vocab_size
        if serve.real_weights:
            path, vocab = packaged_file(), PACKAGED_VOCAB
        elif serve.model_path:
            path = Path(serve.model_path)
        else:
            name = f"{serve.model}-{config.precision}"
            path = folder / (f"{name}.gguf" if program.makes_gguf else f"{name}/{NAME}")
            (make_gguf if program.makes_gguf else make_folder)(path, shape, config.precision)
            vocab, self.parameters = shape.vocab, shape.parameters
        draft = None
        if tokens := config.speculation.draft_tokens:
            draft = Draft(Path(config.speculation.draft_model), tokens, config.speculation.stated)
            if not config.speculation.draft_model:
                draft = draft._replace(path=path.with_name(f"draft-{path.name}"))
                make_draft(draft.path, shape, config.precision, program.makes_gguf)
        start = Start(
            model=path,
            folder=folder,
            port=self.address.port,
            streams=config.load.concurrency,
            context=context(config),
            threads=max(1, usable_cores() - 1),  # the client has the other one
            devices=serve.devices,
            dtype=DTYPES.get(config.precision, "bfloat16"),
            is_random=self.parameters is not None,
            is_fp8=config.precision == "fp8",
            keeps_prefixes=bool(config.load.trace),
            draft=draft,
        )
        if settings := program.settings(start):
            (folder / SETTINGS).write_text(settings)
        log = next_to(config, LOG_SUFFIX) or folder / "server.log"
        stack.enter_context(_ended_by_signals())
        command = [*program.command(start), *shlex.split(serve.server_args)]
        self._process = Process(command, program.environment(start), log)
        stack.callback(self._process.stop)
        self.ready_s = self._process.wait_until_ready(self.address, serve.start_limit_s)
        return path, vocab

    def watch(self) -> None:
        """Raise LoadError when the server is gone."""
        if self._process:
            self._process.watch()


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


def next_to(config: Config, suffix: str) -> Path | None:
    """Return the path of a file next to the record; None if none is written."""
    return Path(config.run.record).with_suffix(suffix) if config.run.record else None
