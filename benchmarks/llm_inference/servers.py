"""Servers that can be started: four classes, and one of them in a process of its own: started, watched and ended.

Command lines and fields: documentation of each server, 2026-11. xllamacpp and vllm, on CPUs, have been run.
Speculation at a stated acceptance: pull requests 27711 of llama.cpp and 40662 of vLLM; environ.py of SGLang, where real
draft tokens need a top-k of 1; _torch/speculative/interface.py of TensorRT-LLM, which counts drafts alone.
"""

from __future__ import annotations

import json
import os
import re
import signal
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
USAGE = {"stream_options": {"include_usage": True}}
RUNNING_USAGE = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
SETTINGS = "settings.yaml"


class Draft(NamedTuple):
    """Draft model, the tokens that it proposes in a step, and the stated mean number of tokens of a step."""

    path: Path
    tokens: int
    length: float


class Start(NamedTuple):
    """Model and options that a server is started with."""

    model: Path
    folder: Path  # for a file of settings
    port: int
    streams: int
    context: int  # tokens
    threads: int
    devices: int
    dtype: str
    is_random: bool = False  # the server makes the weights itself
    is_fp8: bool = False  # and quantises them
    keeps_prefixes: bool = False
    draft: Draft | None = None


class Program:
    """A program that serves: how it is started, the fields of a request that only it knows, and its counters.

    Its counters are of generated tokens, of steps with drafts or the tokens proposed in them, and of accepted ones.
    """

    package: str  # whose version the record has
    makes_gguf = False  # a model with random weights is a GGUF file, and not a folder
    has_tensor_parallelism = True
    quantises = True  # weights to fp8
    keep_alive = True
    request: Mapping[str, Any] = RUNNING_USAGE
    request_of_turns: Mapping[str, Any] = {}  # of conversations, next to those of each request
    text_field = ""  # of /tokenize; empty: it has none
    tokenize: Mapping[str, Any] = {}  # further fields of it
    request_of_text: Mapping[str, Any] = {}  # that make it list tokens by their ids, and keep its prompt
    metrics = METRICS  # page of its counters
    counter = ""
    counts_requests = False  # its counters move when a request ends, and not with each token
    steps = proposed = accepted = ""
    variables: Mapping[str, str] = {"HF_HUB_OFFLINE": "1"}

    @property
    def counters(self) -> list[str]:
        """Names of all its counters."""
        return list(filter(None, (self.counter, self.steps, self.proposed, self.accepted)))

    def command(self, start: Start) -> list[str]:
        """Return its command line, without the user's arguments."""
        raise NotImplementedError

    def environment(self, start: Start) -> Mapping[str, str]:
        """Return the variables that are set for it."""
        return self.variables

    def settings(self, start: Start) -> str:
        """Return the content of its file of settings; empty if it has none."""
        return ""


class LlamaCpp(Program):
    """llama.cpp's own server, in Python's package xllamacpp."""

    package = "xllamacpp"
    makes_gguf = True
    has_tensor_parallelism = quantises = False
    keep_alive = False  # it closes each connection, although it announces to keep it
    request: Mapping[str, Any] = {**USAGE, "timings_per_token": True, "cache_prompt": False}
    # The chosen token's probability lists its id, and costs nothing.
    request_of_turns: Mapping[str, Any] = {"cache_prompt": True, "logprobs": 1, "post_sampling_probs": True}
    text_field = "content"
    tokenize: Mapping[str, Any] = {"add_special": True}
    request_of_text: Mapping[str, Any] = {"cache_prompt": True}
    counter = "llamacpp:tokens_predicted_total"
    counts_requests = True
    steps = "llamacpp:spec_decode_num_drafts_total"
    accepted = "llamacpp:spec_decode_num_accepted_tokens_total"

    def command(self, start: Start) -> list[str]:
        module = [sys.executable, "-m", "benchmarks.llm_inference.serve_xllamacpp"]
        words = [*module, start.model, start.port, start.streams, start.context, start.threads]
        draft = [start.draft.path, start.draft.tokens, f"{start.draft.length:g}"] if start.draft else []
        return list(map(str, [*words, *draft]))


def _of_weights(start: Start) -> list[str]:
    """Return what vLLM and SGLang call weights that they make, or quantise, themselves."""
    made = ["--load-format", "dummy"] if start.is_random else []
    return [*made, *(["--quantization", "fp8"] if start.is_fp8 else [])]


class Vllm(Program):
    """vLLM."""

    package = "vllm"
    variables: Mapping[str, str] = {**Program.variables, "VLLM_NO_USAGE_STATS": "1"}
    request_of_turns: Mapping[str, Any] = {"return_token_ids": True}  # the first event has those of the prompt, too
    text_field = "prompt"
    request_of_text: Mapping[str, Any] = {"return_tokens_as_token_ids": True}
    counter = "vllm:generation_tokens_total"
    steps = "vllm:spec_decode_num_drafts_total"
    accepted = "vllm:spec_decode_num_accepted_tokens_total"

    def command(self, start: Start) -> list[str]:
        words = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(start.model)]
        words += f"--served-model-name {NAME} --host 127.0.0.1 --port {start.port}".split()
        words += f"--tensor-parallel-size {start.devices} --max-model-len {start.context} --dtype {start.dtype}".split()
        words += ["--enable-prefix-caching" if start.keeps_prefixes else "--no-enable-prefix-caching"]
        words += ["--enable-prompt-tokens-details"]
        words += _of_weights(start)
        if start.draft:
            drafts = {"method": "eagle3", "model": str(start.draft.path), "num_speculative_tokens": start.draft.tokens}
            accepts = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": start.draft.length}
            words += ["--speculative-config", json.dumps({**drafts, **accepts})]
        return words


class Sglang(Program):
    """SGLang."""

    package = "sglang"
    counter = "sglang:generation_tokens_total"
    counts_requests = True  # observe_one_finished_request of its tokenizer manager, in 0.5.23
    steps = "sglang:spec_verify_calls_total"

    def command(self, start: Start) -> list[str]:
        words = [sys.executable, "-m", "sglang.launch_server", "--model-path", str(start.model)]
        words += f"--served-model-name {NAME} --host 127.0.0.1 --port {start.port} --tp-size {start.devices}".split()
        words += f"--context-length {start.context} --dtype {start.dtype} --enable-metrics".split()
        words += ["--enable-cache-report" if start.keeps_prefixes else "--disable-radix-cache"]
        words += _of_weights(start)
        if start.draft:
            tokens = start.draft.tokens
            words += ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(start.draft.path)]
            words += f"--speculative-eagle-topk 1 --speculative-num-steps {tokens}".split()
            words += ["--speculative-num-draft-tokens", str(tokens + 1)]
        return words

    def environment(self, start: Start) -> Mapping[str, str]:
        accepts = {
            "SGLANG_SIMULATE_ACC_LEN": f"{start.draft.length:g}" if start.draft else "",
            "SGLANG_SIMULATE_ACC_METHOD": "match-expected",
            "SGLANG_SIMULATE_ACC_TOKEN_MODE": "real-draft-token",
        }
        return {**self.variables, **(accepts if start.draft else {})}


class TensorRtLlm(Program):
    """TensorRT-LLM, which refuses fields of a request that it does not know."""

    package = "tensorrt-llm"
    quantises = False
    request = USAGE
    metrics = "/prometheus/metrics"
    proposed = "trtllm_spec_decode_num_draft_tokens_total"
    accepted = "trtllm_spec_decode_num_accepted_tokens_total"

    def command(self, start: Start) -> list[str]:
        words = f"--host 127.0.0.1 --port {start.port} --tp_size {start.devices} --max_seq_len {start.context}".split()
        settings = str(start.folder / SETTINGS)
        return ["trtllm-serve", str(start.model), *words, "--extra_llm_api_options", settings]

    def environment(self, start: Start) -> Mapping[str, str]:
        accepts = {"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS": f"{start.draft.length - 1:g}"} if start.draft else {}
        return {**self.variables, **accepts}

    def settings(self, start: Start) -> str:
        found: dict[str, Any] = {
            "kv_cache_config": {"enable_block_reuse": start.keeps_prefixes},
            "load_format": "dummy" if start.is_random else "auto",
            # Without chunks, it refuses a prompt that is longer than its default of 8,192 tokens in a step.
            "enable_chunked_prefill": True,
        }
        if start.draft:
            drafts = {"max_draft_len": start.draft.tokens, "speculative_model": str(start.draft.path)}
            found["speculative_config"] = {"decoding_type": "Eagle3", **drafts}
            found |= {"enable_iter_perf_stats": True, "return_perf_metrics": True}
        return json.dumps(found)  # which YAML contains


SERVERS: dict[str, Program] = {
    "xllamacpp": LlamaCpp(),
    "vllm": Vllm(),
    "sglang": Sglang(),
    "trtllm": TensorRtLlm(),
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
