"""A server that sends what a test says, byte by byte or at once, and keeps what it was asked."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress

END = b"\r\n\r\n"


class RawServer:
    """Answer each request with the next of some answers, each a list of pieces; after the last one, with the last.

    A connection ends after a piece `None`.
    """

    def __init__(
        self,
        answers: Sequence[Sequence[bytes | None]],
        host: str = "127.0.0.1",
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.asked: list[bytes] = []
        self.connections = 0
        self._answers, self._context = answers, context
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family)
        self._socket.bind((host, 0))
        self._socket.listen()
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        with suppress(OSError), one:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one = self._context.wrap_socket(one, server_side=True) if self._context else one
            with one:
                while asked := self._request(one):
                    self.asked.append(asked)
                    for piece in self._answers[min(len(self.asked), len(self._answers)) - 1]:
                        if piece is None:
                            return
                        one.sendall(piece)

    def _request(self, one: socket.socket) -> bytes:
        text = b""
        while END not in text or len(text.partition(END)[2]) < self._length(text):
            if not (more := one.recv(1 << 16)):
                return b""
            text += more
        return text

    def _length(self, text: bytes) -> int:
        found = re.search(rb"(?i)content-length: (\d+)", text)
        return int(found[1]) if found else 0
