"""A connection to a server with its TLS, and one request over HTTP/1.1 on it, which h11 writes and reads."""

from __future__ import annotations

import socket
import ssl
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import h11

from benchmarks.llm_inference.address import MOST_LETTERS
from benchmarks.llm_inference.stream import BadResponse, Events

RECEIVE_BYTES = 1 << 18
ANY_DEFLATE = zlib.MAX_WBITS | 32  # with the head of gzip or zlib


class Wire:
    """A socket that never waits. What it received is opened later, so that TLS of one stream delays no other's time."""

    def __init__(self, family: int, peer: Any, context: ssl.SSLContext | None, host: str) -> None:
        self.unsent = memoryview(b"")
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.connect_ex(peer)
        self._tls: ssl.SSLObject | None = None
        if context:
            self._received, self._sealed = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._tls = context.wrap_bio(self._received, self._sealed, server_hostname=host)
            self._is_open, self._waiting = False, b""

    def fileno(self) -> int:
        """Return what a selector watches."""
        return self._socket.fileno()

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
            self.unsent = self.unsent[self._socket.send(self.unsent) :]

    def receive(self) -> bytes:
        """Return what has arrived, empty at the connection's end; raises OSError."""
        return self._socket.recv(RECEIVE_BYTES)

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

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class Exchange:
    """A request as bytes, and its response, which is fed as it arrives and gives its events."""

    def __init__(self, headers: Mapping[str, str], path: str, body: bytes, keep_alive: bool) -> None:
        self._http, self._events = h11.Connection(h11.CLIENT), Events()
        more = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "keep-alive" if keep_alive else "close",
        }
        head = h11.Request(method="POST", target=path, headers=[*headers.items(), *more.items()])
        parts = (self._http.send(one) for one in (head, h11.Data(data=body), h11.EndOfMessage()))
        self.content = b"".join(filter(None, parts))
        self.has_begun = self.is_done = False
        self._status, self._text = 0, b""
        self._unpack: Any = None

    @property
    def keeps_open(self) -> bool:
        """Whether the connection can take another request."""
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    def feed(self, data: bytes) -> list[Mapping[str, Any]]:
        """Take what has arrived, empty at the connection's end; return the events that are complete.

        Raises BadResponse for an error of the server, and for a response that is cut short.
        """
        self.has_begun = self.has_begun or bool(data)
        found: list[Mapping[str, Any]] = []
        try:
            self._http.receive_data(data)
            while (part := self._http.next_event()) is not h11.NEED_DATA and not self.is_done:
                if type(part) is h11.Data:
                    found += self._body(part.data)
                elif isinstance(part, h11.Response):
                    self._head(part)
                elif isinstance(part, h11.EndOfMessage):
                    self.is_done = True
                    found += self._last()
        except h11.RemoteProtocolError as error:
            if not data:
                raise BadResponse("the server closed the connection within a response") from error
            raise BadResponse(f"the server's answer is not HTTP/1.1: {error}") from error
        return found

    def _head(self, response: h11.Response) -> None:
        self._status = response.status_code
        encoding = dict(response.headers).get(b"content-encoding", b"identity").decode("latin-1").lower()
        if encoding in ("gzip", "x-gzip", "deflate"):
            self._unpack = zlib.decompressobj(ANY_DEFLATE)
        elif encoding != "identity":
            raise BadResponse(
                f"the server's answer is compressed by {encoding!r}, though 'identity' was asked for: switch that off"
            )

    def _body(self, part: bytes) -> list[Mapping[str, Any]]:
        if self._unpack:
            try:
                part = self._unpack.decompress(part)
            except zlib.error as error:
                raise BadResponse(f"the server's compressed answer cannot be read: {error}") from error
        if self._status == 200:
            return self._events.feed(part)
        self._text += part
        return []

    def _last(self) -> list[Mapping[str, Any]]:
        if self._status != 200:
            text = self._text.decode(errors="replace").strip()
            raise BadResponse(f"the server answered with HTTP status {self._status}: {text[:MOST_LETTERS]}")
        return self._events.end()
