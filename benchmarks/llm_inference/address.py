"""Address of a server, with path, key and certificates, and single requests to it. The standard library alone."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

COMPLETIONS, CHAT, MODELS, METRICS = "/v1/completions", "/v1/chat/completions", "/v1/models", "/metrics"
PORTS = {"http": 80, "https": 443}
REPLY_S = 5.0  # for a page
MOST_LETTERS = 500  # of a server's words


class LoadError(Exception):
    """There is no measurement: one sentence with the reason."""


@dataclass(frozen=True)
class Address:
    """Address of a server; `base` is the path before /v1."""

    host: str
    port: int
    scheme: str = "http"
    base: str = ""
    key: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str, key: str = "") -> Address:
        """Return the address of a URL; raises ValueError for one that is not scheme, host, port and path alone."""
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname or parts.port == 0 or re.search(r"[@?#]|[^!-~]", url):
            raise ValueError(url)
        base = parts.path.rstrip("/").removesuffix("/v1")
        return cls(parts.hostname, parts.port or PORTS[parts.scheme], parts.scheme, base, key)

    @property
    def headers(self) -> dict[str, str]:
        """Fields that each request has."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        key = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return {"Host": host + port, "Accept-Encoding": "identity", **key}

    def tls(self) -> ssl.SSLContext | None:
        """Return what checks the server's certificate; None for plain HTTP."""
        return ssl.create_default_context() if self.scheme == "https" else None

    def hide(self, text: str) -> str:
        """Return words of a server without the key, which some of them repeat."""
        return text.replace(self.key, "[the key]") if self.key else text

    def reached(self) -> tuple[int, Any]:
        """Return the family and the address of the first of the host's addresses that answers; raises LoadError."""
        try:
            with socket.create_connection((self.host, self.port), REPLY_S) as one:
                return one.family, one.getpeername()
        except OSError as error:
            raise self._silent(error) from error

    def _silent(self, error: OSError) -> LoadError:
        return LoadError(f"no server answers at {self.host}:{self.port}, without a proxy: {error.strerror or error}")

    def is_here(self) -> bool:
        """Check whether the server runs on this node, and so is in its power."""
        with suppress(OSError, LoadError):
            family, (host, _, *more) = self.reached()
            with socket.socket(family) as one:
                one.bind((host, 0, *more))  # which only an address of this node allows
                return True
        return False

    def ask(self, path: str, body: object = None, limit_s: float = REPLY_S) -> tuple[int, str]:
        """Return the status and the text of a page, or of the answer to a request with a body; raises OSError."""
        kind: type[http.client.HTTPConnection] = http.client.HTTPConnection
        more: dict[str, Any] = {}
        if context := self.tls():
            kind, more = http.client.HTTPSConnection, {"context": context}
        connection = kind(self.host, self.port, timeout=limit_s, **more)
        try:
            content = None if body is None else json.dumps(body).encode()
            headers = {**self.headers, **({} if body is None else {"Content-Type": "application/json"})}
            connection.request("GET" if body is None else "POST", self.base + path, content, headers)
            answer = connection.getresponse()
            return answer.status, self.hide(answer.read().decode(errors="replace"))
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

    def choice(self, path: str, body: object, limit_s: float = REPLY_S) -> Mapping[str, Any]:
        """Return the choice of an answer in one piece; raises OSError, and ValueError for another answer."""
        status, text = self.ask(path, body, limit_s)
        try:
            found = json.loads(text)["choices"][0]
            found.get("text")
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            words = f"HTTP status {status}, {text.strip()[:MOST_LETTERS]}"
            raise ValueError(f"{path} has no answer ({error!r}): {words}") from error
        return found  # type: ignore[no-any-return]

    def models(self) -> list[str]:
        """Return the names of the models that it serves; raises LoadError."""
        try:
            status, text = self.ask(MODELS)
        except ssl.SSLCertVerificationError as error:
            raise LoadError(
                f"the certificate of {self.host}:{self.port} is not trusted ({error.verify_message}): set "
                "SSL_CERT_FILE to the file of its authority"
            ) from error
        except OSError as error:
            raise self._silent(error) from error
        if status != 200:
            raise LoadError(f"the server answered {MODELS} with HTTP status {status}: {text.strip()[:MOST_LETTERS]}")
        try:
            return [str(one["id"]) for one in json.loads(text)["data"]]
        except (ValueError, LookupError, TypeError) as error:
            raise LoadError(f"the server lists no models at {MODELS}: {error!r}") from error

    def counters(self, names: Iterable[str], page: str = METRICS) -> dict[str, float | None]:
        """Return the counters of a page by name, summed over labels; None where there is none."""
        try:
            status, text = self.ask(page)
        except OSError:
            status, text = 0, ""
        found = {}
        for name in filter(None, names):
            values = re.findall(rf"^{re.escape(name)}(?:\{{.*\}})? ([0-9.eE+]+)", text, re.MULTILINE)
            found[name] = sum(map(float, values)) if status == 200 and values else None
        return found
