"""A connection to a server with its TLS, and one request over HTTP/1.1 on it, which h11 writes and reads."""

from __future__ import annotations

import socket
import ssl
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import h11

try:
    import httptools
except ImportError:
    httptools = None  # type: ignore[assignment]

from benchmarks.llm_inference.address import MOST_LETTERS
from benchmarks.llm_inference.stream import BadResponse, Events

RECEIVE_BYTES = 1 << 16  # each read allocates as many; from 128 KiB on, the C library asks the kernel for them
ANY_DEFLATE = zlib.MAX_WBITS | 32  # with the head of gzip or zlib


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


class Parser:
    """A response over HTTP/1.1, by h11."""

    def __init__(self, http: h11.Connection) -> None:
        self.status, self.fields, self._http = 0, dict[bytes, bytes](), http
        self.is_done = self.keeps_open = False  # whether the connection can take another request

    def feed(self, data: bytes) -> bytes:
        """Take what has arrived, empty at the connection's end; return what it adds to the body. Raises BadResponse."""
        found = b""
        try:
            self._http.receive_data(data)
            while not self.is_done and (part := self._http.next_event()) is not h11.NEED_DATA:
                if type(part) is h11.Data:
                    found += part.data
                elif isinstance(part, h11.Response):
                    self.status, self.fields = part.status_code, dict(part.headers)
                elif isinstance(part, h11.EndOfMessage):
                    self.is_done = True
                    self.keeps_open = self._http.our_state is self._http.their_state is h11.DONE
        except h11.RemoteProtocolError as error:
            raise _bad(data, error) from error
        return found


class FastParser(Parser):
    """The same by httptools, which is in C and not everywhere."""

    def __init__(self, http: h11.Connection) -> None:
        super().__init__(http)
        self._parts = list[bytes]()
        self.on_body = self._parts.append
        self._fast = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field, by httptools."""
        self.fields[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Keep the status unless another one follows, by httptools."""
        status = self._fast.get_status_code()
        self.status = status if status >= 200 else 0

    def on_message_complete(self) -> None:
        """End the response, by httptools."""
        self.is_done = self.status > 0
        self.keeps_open = self._http.our_state is h11.DONE and self._fast.should_keep_alive()

    def feed(self, data: bytes) -> bytes:
        """Take what has arrived, as h11's parser does."""
        if not data and (not self.status or {b"content-length", b"transfer-encoding"} & self.fields.keys()):
            raise _bad(data)
        try:
            self._fast.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise _bad(data, error) from error
        self.is_done = self.is_done or not data
        found = b"".join(self._parts)
        self._parts.clear()
        return found


def _bad(data: bytes, error: Exception | None = None) -> BadResponse:
    if not data:
        return BadResponse("the server closed the connection within a response")
    return BadResponse(f"the server's answer is not HTTP/1.1: {error}")


PARSER = FastParser if httptools else Parser


class Exchange:
    """A request as bytes, and its response, which is fed as it arrives and gives its events."""

    def __init__(self, headers: Mapping[str, str], path: str, body: bytes, keep_alive: bool) -> None:
        http, self._events = h11.Connection(h11.CLIENT), Events()
        more = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "keep-alive" if keep_alive else "close",
        }
        head = h11.Request(method="POST", target=path, headers=[*headers.items(), *more.items()])
        parts = (http.send(one) for one in (head, h11.Data(data=body), h11.EndOfMessage()))
        self.content = b"".join(filter(None, parts))
        self.response, self.has_begun = PARSER(http), False
        self._text = b""  # of an error
        self._read: Callable[[bytes], list[Mapping[str, Any]]] | None = None  # the body, from the head on

    def feed(self, data: bytes) -> list[Mapping[str, Any]]:
        """Take what has arrived, empty at the connection's end; return the events that are complete.

        Raises BadResponse for an error of the server, and for a response that is cut short.
        """
        self.has_begun = self.has_begun or bool(data)
        body = self.response.feed(data)
        if self._read is None and self.response.status:
            self._read = self._reader()
        found = self._read(body) if self._read and body else []
        return found + self._last() if self.response.is_done else found

    def _reader(self) -> Callable[[bytes], list[Mapping[str, Any]]]:
        encoding = self.response.fields.get(b"content-encoding", b"identity").decode("latin-1").lower()
        read = self._events.feed if self.response.status == 200 else self._keep
        if encoding == "identity":
            return read
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise BadResponse(
                f"the server's answer is compressed by {encoding!r}, though 'identity' was asked for: switch that off"
            )
        unpack = zlib.decompressobj(ANY_DEFLATE).decompress

        def unpacked(part: bytes) -> list[Mapping[str, Any]]:
            try:
                return read(unpack(part))
            except zlib.error as error:
                raise BadResponse(f"the server's compressed answer cannot be read: {error}") from error

        return unpacked

    def _keep(self, part: bytes) -> list[Mapping[str, Any]]:
        self._text += part
        return []

    def _last(self) -> list[Mapping[str, Any]]:
        if self.response.status != 200:
            text = self._text.decode(errors="replace").strip()
            raise BadResponse(f"the server answered with HTTP status {self.response.status}: {text[:MOST_LETTERS]}")
        return self._events.end()
