"""Options of a run, each written once."""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from benchmarks.common.node.gpu_ids import gpu_ids
from benchmarks.common.options import PRECISIONS, ConfigError, Group, option
from benchmarks.llm_inference.address import Address
from benchmarks.llm_inference.models import CONTEXT, PACKAGE, PACKAGED, SHAPES
from benchmarks.llm_inference.servers import SERVERS
from benchmarks.llm_inference.trace import Trace, read_lengths, trace_of
from record.asked import published_lengths, stated_length
from record.demand import SLOS, Lengths, hosts_of, lengths_of

MODELS = tuple(dict.fromkeys(model for model, _ in published_lengths()))


@dataclass(frozen=True)
class ComputeOptions:
    """Compute."""

    device: str = option(
        "auto",
        "devices that the server computes on, whose energy counts; auto: the node's GPUs if it has some, but CPUs for "
        "xllamacpp",
        ("auto", "cpu", "gpu"),
    )
    precision: str = option(
        "auto",
        "precision of the weights; with --url or a GGUF file only runs that state it are ranked; auto: fp32 on CPUs, "
        "bf16 on GPUs",
        PRECISIONS,
    )


@dataclass(frozen=True)
class ServerOptions(Group):
    """Server."""

    server: str = option("xllamacpp", "program that serves", tuple(SERVERS))
    url: str = option("", "http(s)://HOST:PORT/PATH of a server that runs already, in place of starting one")
    api_key_variable: str = option("", "with --url: environment variable that has the API key")
    served_model: str = option("", "with --url: the model's name there; default: the first that it lists")
    vocab_size: int = option(
        32000, "with --url or --model-path: size of the vocabulary; prompts are random token ids below it", least=2
    )
    model: str = option("tiny", "shape of a model with random weights", tuple(SHAPES))
    model_path: str = option("", "weights in a folder or file, in place of random ones")
    real_weights: bool = option(False, f"weights of {PACKAGED}, from the package {PACKAGE}")
    model_folder: str = option("", "folder for models that are made; default: a temporary one")
    devices: int = option(1, "accelerators that the server uses, by tensor parallelism")
    nodes: int = option(1, "with --url: nodes that the server runs on; the energy of several needs --hosts")
    start_limit_s: float = option(900.0, "seconds that the server may take to be ready")
    server_args: str = option("", "further arguments of the server's command, as one text")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes > 1 and not self.url:
            raise ConfigError(
                f"--nodes {self.nodes} needs --url: start the server first, see docs/howto/measure_a_server.md"
            )
        _ = self.address
        if self.devices > 1 and not (self.url or SERVERS[self.server].has_tensor_parallelism):
            raise ConfigError(
                f"--devices {self.devices} was asked for, but {self.server} serves from one: leave it out"
            )
        chosen = [flag for flag in ("url", "model_path", "real_weights") if getattr(self, flag)]
        if len(chosen) > 1:
            flags = " and ".join(f"--{one.replace('_', '-')}" for one in chosen)
            raise ConfigError(f"{flags} exclude each other: give one of them")
        if self.real_weights and not SERVERS[self.server].makes_gguf:
            raise ConfigError(f"--real-weights are a file for xllamacpp, not for {self.server}")
        try:
            shlex.split(self.server_args)
        except ValueError as error:
            raise ConfigError(f"--server-args {self.server_args!r} cannot be split into words: {error}") from error
        if self.model_path and not Path(self.model_path).exists():
            raise ConfigError(f"--model-path {self.model_path} does not exist")

    @cached_property
    def address(self) -> Address | None:
        """Address of a server that runs already; raises ConfigError."""
        if not self.url:
            if self.api_key_variable:
                raise ConfigError("--api-key-variable needs --url: a server that is started here has none")
            return None
        try:
            return Address.of(self.url, self._key())
        except ValueError as error:
            shown = self.url.split("?")[0].split("@")[-1]  # neither a password nor a key
            raise ConfigError(
                f"--url {shown!r} is no address of a server: write http://HOST:PORT or https://HOST/PATH, without user "
                "or query"
            ) from error

    def _key(self) -> str:
        key = os.environ.get(self.api_key_variable, "")
        if self.api_key_variable and not re.fullmatch(r"[!-~]+", key):
            # Neither the key nor the variable's name, for which the key may have been given.
            raise ConfigError("--api-key-variable names no variable with a key in one line: set it before")
        return key


@dataclass(frozen=True)
class LoadOptions(Group):
    """Load."""

    concurrency: int = option(
        1, "requests in flight, each followed by the next; with --rate-per-s: how many are expected"
    )
    rate_per_s: float = option(0.0, "requests per second that arrive at random, in place of a fixed concurrency")
    burstiness: float = option(1.0, "shape of the gamma distribution of times between arrivals; 1: Poisson")
    input_tokens: int = option(1024, "tokens of a prompt")
    output_tokens: int = option(1024, "tokens of an answer, of which the later ones are timed", least=2)
    length_sigma: float = option(0.0, "shape of log-normal lengths around these means; 0: all the same")
    lengths_file: str = option("", "file with 'INPUT OUTPUT' in each line, in place of the two lengths")
    trace: str = option(
        "", "conversations, in place of the lengths: small or large, made from the seed, or a file or folder of a trace"
    )
    idle_limit_s: float = option(300.0, "with --trace: seconds between an answer and the next turn, at most", least=0)
    seed: int = option(1234, "seed of lengths and arrivals; prompts are new in each run", least=0)
    endpoint: str = option(
        "completions", "completions: prompts are token ids; chat: letters, each a token", ("completions", "chat")
    )
    slo: str = option("llama-3.1-8b-server", "limits of TTFT and TPOT for goodput", tuple(SLOS))

    def __post_init__(self) -> None:
        super().__post_init__()
        others = {"rate-per-s": self.rate_per_s, "length-sigma": self.length_sigma, "lengths-file": self.lengths_file}
        found = [f"--{name}" for name, value in others.items() if value]
        found += ["--endpoint chat"] if self.endpoint == "chat" else []
        if self.trace and found:
            raise ConfigError(f"--trace and {found[0]} exclude each other: leave one out")
        _ = self.conversations

    @cached_property
    def conversations(self) -> Trace | None:
        """Return the trace, if there is one; raises ConfigError."""
        return trace_of(self.trace, self.seed) if self.trace else None

    @cached_property
    def lengths(self) -> Lengths:
        """Input and output tokens, taken in turn."""
        if self.conversations:
            return [(turn.input, turn.output) for one in self.conversations.conversations for turn in one.turns]
        if self.lengths_file:
            return read_lengths(Path(self.lengths_file))
        return lengths_of(self.input_tokens, self.output_tokens, self.length_sigma, self.seed)


@dataclass(frozen=True)
class WindowOptions(Group):
    """Measured window."""

    min_s: float = option(60.0, "least length of the window in seconds; longer for slow requests")
    min_requests: int = option(128, "least number of requests in the window; more for many in flight")
    max_s: float = option(600.0, "seconds after which 30 requests, and two for each in flight, are enough")
    limit_s: float = option(1800.0, "seconds of load at most: what takes longer is too slow")


@dataclass(frozen=True)
class AnswerOptions(Group):
    """Answers."""

    questions: int = option(
        16, "questions, at most, that the idle and the loaded server must answer alike; at least 4; 0: none", least=0
    )
    questions_file: str = option(
        "", "file of own questions, asked under load: JSON lines with 'prompt' and 'answer', words that it must have"
    )
    expected_tokens: int = option(64, "tokens of an answer to a question of the file, at most")
    reference: float = option(1.0, "share of the file's questions that the reference answers right")
    perplexity: bool = option(True, "with real weights: the perplexity of a text of the suite, after the load")
    perplexity_reference: float = option(
        0.0,
        "that of the reference, such as the unquantised model, by the same measurement; the suite's own goes first",
        least=1,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reference > 1:
            raise ConfigError(f"reference is a share, at most 1, got {self.reference:g}")
        _ = self.expected

    @cached_property
    def expected(self) -> list[tuple[str, str]]:
        """Return the questions of the file, each with words that its answer must have; raises ConfigError."""
        if not self.questions_file:
            return []
        path = f"--questions-file {self.questions_file}"
        try:
            every = map(json.loads, Path(self.questions_file).read_text().splitlines())
            found = [(str(one["prompt"]), str(one["answer"])) for one in every]
        except (ValueError, LookupError, TypeError) as error:
            raise ConfigError(f'{path}: each line is {{"prompt": TEXT, "answer": TEXT}}, found {error!r}') from error
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        if not found or not all(map(all, found)):
            raise ConfigError(f"{path}: it needs questions and answers that are not empty")
        return found

    @property
    def most_tokens(self) -> int:
        """Return the most tokens of a question of the file with its answer: none is shorter than a byte."""
        return max((len(prompt.encode()) + self.expected_tokens for prompt, _ in self.expected), default=0)


@dataclass(frozen=True)
class SpeculationOptions(Group):
    """Speculative decoding.

    Random tokens are no text that a draft model foresees. The server therefore accepts drafts by chance, at a stated
    mean, so that they cost what they cost and their use is no luck.
    """

    draft_tokens: int = option(
        0, "tokens that a draft model proposes in a step, of which a stated number is accepted; 0: no speculation"
    )
    acceptance_length: float = option(
        0.0, "mean tokens of a step, the model's own included; 0: the published number of --acceptance-of"
    )
    acceptance_of: str = option(MODELS[0], "model whose published acceptance length is stated", MODELS)
    draft_model: str = option("", "with --model-path or --real-weights: the draft model, which fits the model")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.draft_tokens:
            if self.acceptance_length or self.draft_model:
                raise ConfigError("--acceptance-length and --draft-model need --draft-tokens: give their number, too")
            return
        if not 1 <= self.stated <= self.draft_tokens + 1:
            raise ConfigError(
                f"--acceptance-length {self.stated:g} is no mean of a step with {self.draft_tokens} draft tokens: "
                f"give one from 1 to {self.draft_tokens + 1}"
            )

    @cached_property
    def stated(self) -> float:
        """Return the stated acceptance length; raises ConfigError if none is published."""
        length = stated_length(self.draft_tokens, self.acceptance_length, self.acceptance_of)
        if not length:
            known = ", ".join(str(count) for model, count in published_lengths() if model == self.acceptance_of)
            raise ConfigError(
                f"--draft-tokens {self.draft_tokens}: of {self.acceptance_of} acceptance lengths are published for "
                f"{known}: choose one of them, or give --acceptance-length"
            )
        return length


@dataclass(frozen=True)
class RunOptions:
    """Run."""

    system: str = option("unnamed", "name of the system, for the record")
    record: str = option("", "file to write the record to; requests and the server's log go next to it; default: none")
    hosts: str = option(
        "", "with --url: the server's nodes, as their traces name them: 'n1 n2', or 'prefill: n1; decode: n2'"
    )


@dataclass(frozen=True)
class Config:
    """All options of a run."""

    compute: ComputeOptions = field(default_factory=ComputeOptions)
    serve: ServerOptions = field(default_factory=ServerOptions)
    load: LoadOptions = field(default_factory=LoadOptions)
    window: WindowOptions = field(default_factory=WindowOptions)
    answers: AnswerOptions = field(default_factory=AnswerOptions)
    speculation: SpeculationOptions = field(default_factory=SpeculationOptions)
    run: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        serve = self.serve
        try:
            hosts = hosts_of(self.run.hosts)
        except ValueError as error:
            raise ConfigError(
                f"--hosts {self.run.hosts!r}: {error}: write 'n1 n2', or 'prefill: n1; decode: n2'"
            ) from error
        if hosts and not (serve.url and len(hosts) == serve.nodes):
            raise ConfigError(f"--hosts names {len(hosts)} nodes, and --nodes is {serve.nodes}: give both, with --url")
        if self.answers.questions_file and not self.has_weights:
            raise ConfigError("--questions-file needs real weights: give --url, --model-path or --real-weights")
        if self.answers.perplexity_reference and not self.asks_text:
            raise ConfigError(
                "--perplexity-reference has no perplexity to judge: give --url, --model-path or --real-weights, "
                "and neither --no-perplexity nor --draft-tokens"
            )
        if self.speculation.draft_tokens:
            self._check_draft(bool(serve.model_path or serve.real_weights))
        longest = max(map(sum, self.load.lengths)) if self.load.trace else 0
        if longest > CONTEXT and not (serve.url or serve.model_path):
            raise ConfigError(
                f"--trace {self.load.trace} has a request of {longest} tokens, but the model's context is {CONTEXT}: "
                "give --url or --model-path of a model with a longer one, or a shorter trace"
            )
        if self.compute.precision == "fp8" and not (serve.url or serve.model_path or SERVERS[serve.server].quantises):
            raise ConfigError(f"--precision fp8 needs weights in fp8 for {serve.server}: give them as --model-path")

    @property
    def has_weights(self) -> bool:
        """Whether the model has real weights."""
        return bool(self.serve.url or self.serve.model_path or self.serve.real_weights)

    @property
    def asks_text(self) -> bool:
        """Whether the perplexity of a text is of use."""
        return self.has_weights and self.answers.perplexity and not self.speculation.draft_tokens

    def _check_draft(self, is_needed: bool) -> None:
        path = self.speculation.draft_model
        if self.answers.questions_file:
            raise ConfigError(
                "--questions-file cannot be asked with --draft-tokens: draft tokens are accepted by chance, so that "
                "answers are no text; leave one of them out"
            )
        if is_needed != bool(path):
            found = f"{path} was given" if path else "none was given"
            raise ConfigError(f"--draft-model belongs to --model-path or --real-weights, and is needed there: {found}")
        if path and not Path(path).exists():
            raise ConfigError(f"--draft-model {path} does not exist")

    @cached_property
    def device(self) -> str:
        """On what the server computes: cpu or gpu."""
        if self.compute.device != "auto":
            return self.compute.device
        is_on_cpus = self.serve.server == "xllamacpp" and not self.serve.url
        return "gpu" if not is_on_cpus and gpu_ids() else "cpu"

    @property
    def precision(self) -> str:
        """Precision of the weights; empty for a server or a file of others, unless it is stated."""
        serve = self.serve
        if serve.real_weights:
            return "int4"
        if self.compute.precision != "auto":
            return self.compute.precision
        if serve.url or (serve.model_path and SERVERS[serve.server].makes_gguf):
            return ""
        return "fp32" if self.device == "cpu" else "bf16"
