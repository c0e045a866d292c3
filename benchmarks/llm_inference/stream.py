"""A streamed answer: HTTP by httptools, its server-sent events, and the tokens in each. Touches no socket.

Follows the completions and chat interfaces of OpenAI, which vLLM, SGLang, TensorRT-LLM and llama.cpp share.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

import httptools

from benchmarks.llm_inference.address import MOST_LETTERS
from record.served import Request


class BadResponse(Exception):
    """The server answered with something else than the stream that was asked for."""


class Events:
    """Server-sent events, which are fed as they arrive: https://html.spec.whatwg.org/multipage/server-sent-events.html.

    A line ends with LF, or CR and LF. The last event counts even if no empty line follows.
    """

    def __init__(self) -> None:
        self._text, self._words = b"", b""  # of an event that is not complete; in no field of an event
        self._has_any = False

    def feed(self, part: bytes) -> list[Mapping[str, Any]]:
        """Return the events that are complete; raises BadResponse for an error of the server."""
        *blocks, self._text = (self._text + part).replace(b"\r\n", b"\n").split(b"\n\n")
        found = [event for block in blocks if (event := self._event(block)) is not None]
        self._has_any = self._has_any or bool(found)
        return found

    def end(self) -> list[Mapping[str, Any]]:
        """Return the last event if no empty line followed it; raises BadResponse for an answer without any event."""
        found = self.feed(b"\n\n")
        if not self._has_any:
            words = self._words.decode(errors="replace").strip()[:MOST_LETTERS]
            raise BadResponse(f"the server answered with no event, but: {words or 'nothing'}")
        return found

    def _event(self, block: bytes) -> Mapping[str, Any] | None:
        data, is_error = block[5:], False
        if b"\n" in block or not block.startswith(b"data:"):
            data, is_error = self._fields(block)
        text = data.decode(errors="replace").strip()
        if not text or text == "[DONE]":
            return None
        try:
            event = json.loads(text)
            error = event.get("error")
        except (ValueError, AttributeError):
            raise BadResponse(f"the server answered with an error: {text[:MOST_LETTERS]}") from None
        if error or is_error or event.get("object") == "error":
            words = json.dumps(error) if error else text
            raise BadResponse(f"the server answered with an error: {words[:MOST_LETTERS]}")
        return event  # type: ignore[no-any-return]

    def _fields(self, block: bytes) -> tuple[bytes, bool]:
        """Return the data of an event of several lines, and whether it is an error."""
        data, is_error = list[bytes](), False
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name in (b"data", b"error"):  # the second one is llama.cpp's
                data.append(value)
            elif name not in (b"", b"event", b"id", b"retry"):
                self._words += line + b"\n"
            is_error = is_error or name == b"error" or (name, value) == (b"event", b"error")
        return b"\n".join(data), is_error


def text_of(choice: Mapping[str, Any]) -> str:
    """Return what an event adds to an answer: text, or in chat text, reasoning or a call of a tool."""
    delta = choice.get("delta") or {}
    calls = [one.get("function") or {} for one in delta.get("tool_calls") or ()]
    parts = [delta.get("content"), delta.get("reasoning_content") or delta.get("reasoning")]
    return "".join(filter(None, [*parts, *(call.get(name) for call in calls for name in ("name", "arguments"))]))


class Exchange:
    """A request as bytes, and its response, which is fed as it arrives and gives its events.

    httptools calls the methods that begin with `on_`.
    """

    def __init__(self, headers: Mapping[str, str], path: str, body: bytes, keep_alive: bool) -> None:
        fields = {
            **headers,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "keep-alive" if keep_alive else "close",
        }
        lines = (f"{name}: {value}\r\n" for name, value in fields.items())
        self.content = f"POST {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode() + body
        self.has_begun = self.is_done = False
        self.keeps_open = False  # whether the connection can take another request
        self._status, self._fields, self._events = 0, dict[bytes, bytes](), Events()
        self._parts, self._text = list[bytes](), b""
        self.on_body = self._parts.append
        self._http = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field."""
        self._fields[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Keep the status, unless it is of 100 or 103: the response follows these."""
        status = self._http.get_status_code()
        self._status = status if status >= 200 else 0

    def on_message_complete(self) -> None:
        """End the response."""
        self.is_done = self._status > 0
        self.keeps_open = self._http.should_keep_alive()

    def feed(self, data: bytes) -> list[Mapping[str, Any]]:
        """Take what has arrived, empty at the connection's end; return the events that are complete.

        Raises BadResponse for an error of the server, and for a response that is cut short.
        """
        self.has_begun = self.has_begun or bool(data)
        if not data and (not self._status or {b"content-length", b"transfer-encoding"} & self._fields.keys()):
            raise BadResponse("the server closed the connection within a response")
        try:
            self._http.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise BadResponse(f"the server's answer is not HTTP/1.1: {error}") from error
        self.is_done = self.is_done or not data
        body = b"".join(self._parts)
        self._parts.clear()
        if body and (encoding := self._fields.get(b"content-encoding", b"identity").lower()) != b"identity":
            raise BadResponse(
                f"the server's answer is compressed by {encoding.decode('latin-1')!r}, though 'identity' was asked "
                "for: switch that off"
            )
        if self._status == 200:
            found = self._events.feed(body) if body else []
            return found + self._events.end() if self.is_done else found
        self._text += body
        if self.is_done:
            text = self._text.decode(errors="replace").strip()[:MOST_LETTERS]
            raise BadResponse(f"the server answered with HTTP status {self._status}: {text}")
        return []


class Counter:
    """Count the new tokens of each event, which may hold several, and keep what the server counts in the request.

    By the first of these that the events have: token ids, a running usage, the server's timings (llama.cpp's), else one
    for each event with text. A last event without choices has tokens of its own only by a count that ran before: those
    that made no text, as the first bytes of a character.

    The first token is that of the first event with text that a reader sees, or whose tokens the server lists, by ids or
    log probabilities. Tokens before it count with that event: a count or a space can be sent before any is made.
    A count that falls, as after a retry behind a router, adds no token until it is above the highest one.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.tokens = self._held = 0  # of all; before the first one
        self.ids, self.text = list[int](), list[str]()  # of the tokens, as far as the server lists them
        self._is_running = False  # usage came with tokens, and not only at the end
        self._has_begun = False

    def new_tokens(self, event: Mapping[str, Any]) -> int:
        """Return how many tokens an event brings; keep its usage."""
        request, usage, timings, choices = self.request, event.get("usage"), event.get("timings"), event.get("choices")
        if usage:
            self._keep(usage)
        if timings:
            request.cached_tokens = timings.get("cache_n", request.cached_tokens)
            if request.prompt_tokens is None and "prompt_n" in timings:
                request.prompt_tokens = timings["prompt_n"] + (request.cached_tokens or 0)
        request.model = event.get("model") or request.model
        choice = choices[0] if choices else {}
        text = choice.get("text") or text_of(choice)
        self.text.append(text)
        all_tokens = (usage or {}).get("completion_tokens")
        is_last = not choices or choice.get("finish_reason")
        self._is_running = self._is_running or (all_tokens is not None and not is_last)
        if choice.get("token_ids") is not None:
            new = len(choice["token_ids"])
        elif all_tokens is not None and self._is_running:
            new = max(0, all_tokens - self.tokens)
        elif timings and timings.get("predicted_n") is not None:
            new = max(0, timings["predicted_n"] - self.tokens)
        else:
            new = 1 if text else 0
        self.tokens += new
        logprobs = choice.get("logprobs") or {}
        words = [*(logprobs.get("tokens") or ()), *(one.get("token") for one in logprobs.get("content") or ())]
        self.ids += choice.get("token_ids") or [one["id"] for one in logprobs.get("content") or () if "id" in one]
        listed = len(choice.get("token_ids") or list(filter(None, words)))
        request.unlisted += max(0, new - max(1, listed))
        if new and not self._has_begun:
            is_seen = any(unicodedata.category(one)[0] in "LNPS" for one in text)  # no space, mark or control character
            request.is_unseen = request.is_unseen or not is_seen
            self._has_begun = is_seen or listed > 0
        self._held += new
        return self.release() if self._has_begun else 0

    def release(self) -> int:
        """Return the tokens that were held back."""
        held, self._held = self._held, 0
        return held

    def _keep(self, usage: Mapping[str, Any]) -> None:
        request, details = self.request, usage.get("prompt_tokens_details") or {}
        request.prompt_tokens = usage.get("prompt_tokens", request.prompt_tokens)
        request.completion_tokens = usage.get("completion_tokens", request.completion_tokens)
        if details.get("cached_tokens") is not None:
            request.cached_tokens = details["cached_tokens"]
