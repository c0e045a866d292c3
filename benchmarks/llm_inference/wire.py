"""A connection to a server with its TLS, and one request over HTTP/1.1 on it, which httptools reads."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import httptools

from benchmarks.llm_inference.address import MOST_LETTERS
from benchmarks.llm_inference.stream import BadResponse, Events

RECEIVE_BYTES = 1 << 16  # each read allocates as many; from 128 KiB on, the C library asks the kernel for them


class Wire:
    """A socket that never waits. What it received is opened later, so that TLS of one stream delays no other's time."""

    def __init__(self, family: int, peer: Any, context: ssl.SSLContext | None, host: str) -> None:
        self.unsent = memoryview(b"")
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex(peer)
        self._tls: ssl.SSLObject | None = None
        if context:
            self._received, self._sealed = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._tls = context.wrap_bio(self._received, self._sealed, server_hostname=host)
            self._is_open, self._waiting = False, b""

    def put(self, content: bytes) -> None:
        """Queue bytes to be sent, with TLS once it is agreed on."""
        if self._tls:
            self._waiting += content
            self.opened(b"")
        else:
            self.unsent = memoryview(content)

    def send(self) -> None:
        """Send as much as is possible now; raises OSError."""
        with suppress(BlockingIOError):  # not connected yet, or the buffer is full
            self.unsent = self.unsent[self.socket.send(self.unsent) :]

    def opened(self, data: bytes) -> bytes:
        """Return what received bytes of TLS say, which may be nothing yet; raises ssl.SSLError."""
        assert self._tls is not None
        self._received.write(data)
        found = b""
        with suppress(ssl.SSLWantReadError):
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
            if self._waiting:
                self._tls.write(self._waiting)
                self._waiting = b""
            while part := self._tls.read(RECEIVE_BYTES):
                found += part
        if self._sealed.pending:
            self.unsent = memoryview(bytes(self.unsent) + self._sealed.read())
        return found


class Exchange:
    """A request as bytes, and its response, which is fed as it arrives and gives its events. Touches no socket.

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
