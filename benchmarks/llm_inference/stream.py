"""One streamed completion: the request's bytes, the response's HTTP and server-sent events, the tokens in each event.

Follows the completions interface of OpenAI, which vLLM, SGLang, TensorRT-LLM and llama.cpp share. Touches no socket.
"""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SALT_TOKENS = 16  # a block of vLLM's prefix cache, which is looked up from the first token on
TAIL_TOKENS = 1 << 16


class BadResponse(Exception):
    """The server answered with something else than the stream that was asked for."""


class Bodies:
    """Request bodies whose prompts are random token ids, never the same twice.

    All ids have the same number of digits, the one that most ids of the vocabulary have, so that a prompt is a slice
    of text: making one disturbs no stream. The
    first tokens are the request's own, drawn from `salt`, so that no prefix cache is hit.
    """

    def __init__(self, model: str, vocab_size: int, extra: Mapping[str, Any], salt: str) -> None:
        most = len(str(vocab_size - 1))
        spans = [(10 ** (digits - 1), min(vocab_size, 10**digits) - 1) for digits in range(1, most + 1)]
        self._least, self._most = max(spans, key=lambda span: span[1] - span[0])
        self._digits = len(str(self._least))
        self._salt, self._fields = salt, {"model": model, **extra}
        self._tail = self._ids(random.Random(salt), TAIL_TOKENS)

    def _ids(self, chance: random.Random, count: int) -> str:
        return ",".join(str(chance.randint(self._least, self._most)) for _ in range(count))

    def body(self, index: int, input_tokens: int, output_tokens: int) -> bytes:
        """Return the body of the request of that index."""
        salted = min(SALT_TOKENS, input_tokens)
        prompt = self._ids(random.Random(f"{self._salt} {index}"), salted)
        if rest := input_tokens - salted:
            prompt += "," + self._tail[: rest * (self._digits + 1) - 1]
        asked = {
            **self._fields,
            "max_tokens": output_tokens,
            "min_tokens": output_tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
        }
        return f'{json.dumps(asked)[:-1]}, "prompt": [{prompt}]}}'.encode()


def post(host: str, path: str, body: bytes, keep_alive: bool) -> bytes:
    """Return the bytes of an HTTP request."""
    lines = (
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
    )
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass
class Counter:
    """Count the new tokens of each event, which may hold several.

    By the first of these that the events have: token ids, a running usage, the server's timings (llama.cpp's), else one
    for each event with text. A last event without choices has the usage of the whole request, and no token of its own.

    The first token is that of the first event with text that a reader sees, or whose tokens the server lists, by ids or
    log probabilities. Tokens before it count with that event: a count or a space can be sent before any is made.
    """

    tokens: int = 0
    model: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    unlisted: int = 0  # tokens beyond one in each event that the server counts and does not list
    is_unseen: bool = False  # the answer began with tokens that no reader sees
    _is_running: bool = False  # usage came with tokens, and not only at the end
    _has_begun: bool = False
    _held: int = 0  # tokens before the first one

    def new_tokens(self, event: Mapping[str, Any]) -> int:
        """Return how many tokens an event brings; keep its usage."""
        usage, timings, choices = event.get("usage"), event.get("timings"), event.get("choices")
        if usage:
            self._keep(usage)
        if timings:
            self.cached_tokens = timings.get("cache_n", self.cached_tokens)
            if self.prompt_tokens is None and "prompt_n" in timings:
                self.prompt_tokens = timings["prompt_n"] + (self.cached_tokens or 0)
        if not choices:
            return 0
        self.model = event.get("model") or self.model
        choice, text = choices[0], choices[0].get("text") or ""
        all_tokens = (usage or {}).get("completion_tokens")
        self._is_running = self._is_running or (all_tokens is not None and not choice.get("finish_reason"))
        if choice.get("token_ids") is not None:
            new = len(choice["token_ids"])
        elif all_tokens is not None and self._is_running:
            new = all_tokens - self.tokens
        elif timings and timings.get("predicted_n") is not None:
            new = timings["predicted_n"] - self.tokens
        else:
            new = 1 if text else 0
        self.tokens += new
        words = filter(None, (choice.get("logprobs") or {}).get("tokens") or ())
        listed = len(choice.get("token_ids") or list(words))
        self.unlisted += max(0, new - max(1, listed))
        is_seen = any(unicodedata.category(one)[0] in "LNPS" for one in text)  # no space, mark or control character
        self.is_unseen = self.is_unseen or (new > 0 and not self._has_begun and not is_seen)
        self._has_begun = self._has_begun or (new > 0 and (is_seen or listed > 0))
        self._held += new
        return self.release() if self._has_begun else 0

    def release(self) -> int:
        """Return the tokens that were held back."""
        held, self._held = self._held, 0
        return int(held)

    def _keep(self, usage: Mapping[str, Any]) -> None:
        self.prompt_tokens = usage.get("prompt_tokens", self.prompt_tokens)
        self.completion_tokens = usage.get("completion_tokens", self.completion_tokens)
        details = usage.get("prompt_tokens_details") or {}
        if details.get("cached_tokens") is not None:
            self.cached_tokens = details["cached_tokens"]


@dataclass
class Response:
    """An HTTP response that is fed as it arrives, and gives its events."""

    is_done: bool = False
    keeps_open: bool = True
    has_begun: bool = False
    _raw: bytes = b""
    _text: bytes = b""
    _status: int = 0
    _is_chunked: bool = False
    _length: int | None = None  # bytes that are left, without chunks
    _events: list[Mapping[str, Any]] = field(default_factory=list)

    def feed(self, data: bytes) -> Sequence[Mapping[str, Any]]:
        """Take what has arrived, empty at the connection's end; return the events that are complete.

        Raises BadResponse for an error of the server, and for a response that is cut short.
        """
        self.has_begun = self.has_begun or bool(data)
        self._events = []
        if not data:
            self._end()
        self._raw += data
        if not self._status and not self._read_head():
            return self._events
        if self._is_chunked:
            self._read_chunks()
        else:
            self._take(self._raw)
            self._length = None if self._length is None else self._length - len(self._raw)
            self._raw = b""
            self.is_done = self.is_done or self._length == 0
        if self.is_done and self._status != 200:
            text = self._text.decode(errors="replace").strip()
            raise BadResponse(f"the server answered with HTTP status {self._status}: {text[:500]}")
        return self._events

    def _end(self) -> None:
        if not self.is_done and (self._is_chunked or self._length or not self._status):
            raise BadResponse("the server closed the connection within a response")
        self.is_done, self.keeps_open = True, False

    def _read_head(self) -> bool:
        head, found, rest = self._raw.partition(b"\r\n\r\n")
        if not found:
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        try:
            self._status = int(first.split()[1])
        except (IndexError, ValueError) as error:
            raise BadResponse(f"the server's answer is not HTTP: {first[:100]!r}") from error
        named = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip().lower() for name, _, value in named}
        self._is_chunked = "chunked" in headers.get("transfer-encoding", "")
        if not self._is_chunked and headers.get("content-length", "").isdigit():
            self._length = int(headers["content-length"])
        self.keeps_open = headers.get("connection") != "close"
        self._raw = rest
        return True

    def _read_chunks(self) -> None:
        while not self.is_done:
            size_text, found, rest = self._raw.partition(b"\r\n")
            if not found:
                return
            size = int(size_text.partition(b";")[0], 16)
            if len(rest) < size + 2:
                return
            self._take(rest[:size])
            self._raw = rest[size + 2 :]
            self.is_done = size == 0

    def _take(self, part: bytes) -> None:
        self._text += part
        if self._status != 200:
            return
        if b"\r" in self._text:
            self._text = self._text.replace(b"\r\n", b"\n")
        *blocks, self._text = self._text.split(b"\n\n")
        for block in blocks:
            for line in block.split(b"\n"):
                if line.startswith(b"data:") and (data := line[5:].strip()) != b"[DONE]":
                    event = json.loads(data)
                    if "error" in event:
                        raise BadResponse(f"the server answered with an error: {json.dumps(event['error'])[:500]}")
                    self._events.append(event)
