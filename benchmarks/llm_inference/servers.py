"""Servers as data, and one of them in a process of its own: started, watched and ended."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common.node.out_of_memory import WORDS
from benchmarks.llm_inference.address import METRICS, Address, LoadError

HEALTH = "/health"  # of all of them
NAME = "model"  # by which our own servers know their model
GRACE_S = 5.0  # for a server to end, before it is killed; what started us waits 10 s
POLL_S = 0.2
TAIL_BYTES = 1 << 16  # of a log, in which the reason is looked for
TELLING = re.compile("error|exception|failed|signal", re.IGNORECASE)
# Of srun: with these, an MPI of the server takes itself for a rank of srun's. TensorRT-LLM then refuses or hangs, and
# its own launcher leaves them out, too (trtllm-llmapi-launch).
OF_A_LAUNCHER = ("SLURM_", "PMI")
RUNNING_USAGE = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}


class Speculation(NamedTuple):
    """How a server speculates at a stated acceptance; texts in braces are filled in.

    The names are of counters: steps with drafts, or the tokens that are proposed in them, and accepted draft tokens. A
    server that has no counter of these lacks the name.
    """

    method: str
    arguments: str = ""
    environment: Mapping[str, str] = {}
    settings: str = ""
    steps: str = ""
    proposed: str = ""
    accepted: str = ""

    @property
    def counters(self) -> list[str]:
        """Return the names of its counters."""
        return list(filter(None, (self.steps, self.proposed, self.accepted)))


class Adapter(NamedTuple):
    """All that the launcher knows of a server; texts in braces of its command are filled in."""

    command: str
    extra: Mapping[str, Any]  # fields of a request, next to those that every server takes
    package: str  # whose version the record has
    speculation: Speculation
    random: str = ""  # further arguments for a model with random weights
    fp8: str = ""  # further arguments that quantise weights to fp8
    makes_gguf: bool = False  # a model with random weights is a GGUF file, and not a folder
    metrics: str = METRICS  # page of its counters
    counter: str = ""  # tokens that it has generated
    counts_requests: bool = False  # its counters move when a request ends, and not with each token
    keep_alive: bool = True
    text_field: str = ""  # of /tokenize; empty: it has none
    tokenize: Mapping[str, Any] = {}  # further fields of it
    of_text: Mapping[str, Any] = {}  # fields of a request that make it list tokens by their ids, and keep its prompt
    settings: str = ""  # content of a file that {settings} names
    environment: Mapping[str, str] = {}
    # For conversations, which a prefix cache is measured with: {cache} without and with it, and fields of a request.
    cache: tuple[str, str] = ("", "")
    of_turns: Mapping[str, Any] = {}


# Command lines and fields: documentation of each server, 2026-11. xllamacpp and vllm, on CPUs, have been run.
# Speculation at a stated acceptance: pull requests 27711 of llama.cpp and 40662 of vLLM; environ.py of SGLang, where
# real draft tokens need a top-k of 1; _torch/speculative/interface.py of TensorRT-LLM, which counts drafts alone.
SERVERS: Mapping[str, Adapter] = {
    "xllamacpp": Adapter(
        "{python} -m benchmarks.llm_inference.serve_xllamacpp {model} {port} {streams} {context} {threads}",
        {"stream_options": {"include_usage": True}, "timings_per_token": True, "cache_prompt": False},
        "xllamacpp",
        Speculation(
            "draft model",
            "{draft} {draft_tokens} {acceptance_length}",
            steps="llamacpp:spec_decode_num_drafts_total",
            accepted="llamacpp:spec_decode_num_accepted_tokens_total",
        ),
        makes_gguf=True,
        counter="llamacpp:tokens_predicted_total",
        counts_requests=True,
        text_field="content",
        tokenize={"add_special": True},
        of_text={"cache_prompt": True},
        # The chosen token's probability lists its id, and costs nothing.
        of_turns={"cache_prompt": True, "logprobs": 1, "post_sampling_probs": True},
        keep_alive=False,  # it closes each connection, although it announces to keep it
    ),
    "vllm": Adapter(
        "{python} -m vllm.entrypoints.cli.main serve {model} --served-model-name {name} --host 127.0.0.1 "
        "--port {port} --tensor-parallel-size {devices} --max-model-len {context} --dtype {dtype} "
        "{cache} --enable-prompt-tokens-details",
        RUNNING_USAGE,
        "vllm",
        Speculation(
            "eagle3",
            '--speculative-config \'{{"method":"eagle3","model":"{draft}","num_speculative_tokens":{draft_tokens},'
            '"rejection_sample_method":"synthetic","synthetic_acceptance_length":{acceptance_length}}}\'',
            steps="vllm:spec_decode_num_drafts_total",
            accepted="vllm:spec_decode_num_accepted_tokens_total",
        ),
        random="--load-format dummy",
        fp8="--quantization fp8",
        counter="vllm:generation_tokens_total",
        text_field="prompt",
        of_text={"return_tokens_as_token_ids": True},
        environment={"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
        cache=("--no-enable-prefix-caching", "--enable-prefix-caching"),
        of_turns={"return_token_ids": True},  # the first event has those of the prompt, too
    ),
    "sglang": Adapter(
        "{python} -m sglang.launch_server --model-path {model} --served-model-name {name} --host 127.0.0.1 "
        "--port {port} --tp-size {devices} --context-length {context} --dtype {dtype} {cache} "
        "--enable-metrics",
        RUNNING_USAGE,
        "sglang",
        Speculation(
            "eagle3",
            "--speculative-algorithm EAGLE3 --speculative-draft-model-path {draft} --speculative-eagle-topk 1 "
            "--speculative-num-steps {draft_tokens} --speculative-num-draft-tokens {step_tokens}",
            {
                "SGLANG_SIMULATE_ACC_LEN": "{acceptance_length}",
                "SGLANG_SIMULATE_ACC_METHOD": "match-expected",
                "SGLANG_SIMULATE_ACC_TOKEN_MODE": "real-draft-token",
            },
            steps="sglang:spec_verify_calls_total",
        ),
        random="--load-format dummy",
        fp8="--quantization fp8",
        counter="sglang:generation_tokens_total",
        counts_requests=True,  # observe_one_finished_request of its tokenizer manager, in 0.5.23
        environment={"HF_HUB_OFFLINE": "1"},
        cache=("--disable-radix-cache", "--enable-cache-report"),
    ),
    "trtllm": Adapter(
        "trtllm-serve {model} --host 127.0.0.1 --port {port} --tp_size {devices} --max_seq_len {context} "
        "--extra_llm_api_options {settings}",
        {"stream_options": {"include_usage": True}},  # it refuses fields that it does not know
        "tensorrt-llm",
        Speculation(
            "eagle3",
            environment={"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS": "{accepted_drafts}"},
            settings="speculative_config:\n  decoding_type: Eagle3\n  max_draft_len: {draft_tokens}\n"
            "  speculative_model: {draft}\nenable_iter_perf_stats: true\nreturn_perf_metrics: true\n",
            proposed="trtllm_spec_decode_num_draft_tokens_total",
            accepted="trtllm_spec_decode_num_accepted_tokens_total",
        ),
        metrics="/prometheus/metrics",
        # Without chunks, it refuses a prompt that is longer than its default of 8,192 tokens in a step.
        settings="kv_cache_config: {enable_block_reuse: REUSE}\nload_format: LOAD_FORMAT\n"
        "enable_chunked_prefill: true\n",
        cache=("false", "true"),
        environment={"HF_HUB_OFFLINE": "1"},
    ),
}


class Process:
    """A server in a process and a session of its own."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        own = {name: value for name, value in os.environ.items() if not name.startswith(OF_A_LAUNCHER)}
        with log.open("wb") as file:
            try:
                self._child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env={**own, "PYTHONUNBUFFERED": "1", **environment},
                    start_new_session=True,
                )
            except OSError as error:
                raise LoadError(f"the server cannot be started: {command[0]}: {error.strerror}") from error

    def watch(self) -> None:
        """Raise LoadError, with the reason from its log, when the server is gone."""
        code = self._child.poll()
        if code is not None:
            how = f"ended with exit code {code}"
            if code < 0:
                how = f"was ended by signal {-code} ({signal.Signals(-code).name})"
            raise LoadError(f"the server {how}: {self._reason()}")

    def wait_until_ready(self, address: Address, limit_s: float) -> float:
        """Return after how many seconds it was ready; raises LoadError when it ends, or is not ready in time."""
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < limit_s:
            self.watch()
            with suppress(OSError):  # it does not listen yet
                if address.ask(HEALTH)[0] == 200:
                    return time.monotonic() - begun_s
            time.sleep(POLL_S)
        raise LoadError(f"the server was not ready after {limit_s:g} s: {self._reason()}")

    def _reason(self) -> str:
        """Return the most informative line of its log: on memory, else the last one on an error, else the last."""
        text = self.log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        for pattern in (WORDS, TELLING):
            if found := [line for line in lines if pattern.search(line)]:
                return found[-1][:500]
        return lines[-1][:500] if lines else f"{self.log.name} is empty"

    def stop(self) -> None:
        """End it and all that it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(GRACE_S)


def free_port() -> int:
    """Return a port of this node that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def command_of(adapter: Adapter, values: Mapping[str, object], is_random: bool, more: str) -> list[str]:
    """Return a server's command line, with speculation where the values have a draft model."""
    parts = [adapter.command, adapter.speculation.arguments if "draft" in values else ""]
    template = " ".join([*parts, adapter.random if is_random else "", more.replace("{", "{{").replace("}", "}}")])
    every = {"python": sys.executable, "name": NAME, **values}
    return [word.format(**every) for word in shlex.split(template)]


def environment_of(adapter: Adapter, values: Mapping[str, object]) -> dict[str, str]:
    """Return the variables of a server, with those of speculation where the values have a draft model."""
    more = adapter.speculation.environment if "draft" in values else {}
    return {**adapter.environment, **{name: text.format(**values) for name, text in more.items()}}


def settings_of(adapter: Adapter, values: Mapping[str, object], is_random: bool) -> str:
    """Return the content of a server's file of settings; empty if it has none."""
    more = adapter.speculation.settings.format(**values) if "draft" in values else ""
    own = adapter.settings.replace("LOAD_FORMAT", "dummy" if is_random else "auto")
    return own.replace("REUSE", str(values["cache"])) + more
