"""Responses as servers and gateways send them, over real sockets."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import closing, nullcontext
from multiprocessing import Pipe

import pytest

from benchmarks.common.options import ConfigError
from benchmarks.llm_inference.address import Address, LoadError
from benchmarks.llm_inference.client import Client, Load, Server
from benchmarks.llm_inference.config import ServerOptions
from benchmarks.llm_inference.prompts import template_tokens
from benchmarks.llm_inference.tests.mock_server import Scripted
from tests.waiting import PATIENCE_S

TOKENS = 3
KEY = "sk-secret-123"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def usage(tokens: int) -> dict:
    return {"usage": {"prompt_tokens": 8, "completion_tokens": tokens}}


def data(fields: dict, end: bytes = b"\n") -> bytes:
    return b"data: " + json.dumps(fields).encode() + 2 * end


def word(end: bytes = b"\n", text: str = "word", **fields) -> bytes:
    return data({"model": "model", "choices": [{"index": 0, "text": text}], **fields}, end)


def chat(**delta) -> bytes:
    return data({"model": "model", "choices": [{"index": 0, "delta": delta}]})


LAST = data({"choices": [], **usage(TOKENS)}) + DONE
BODY = word() * TOKENS + LAST


def sized(body: bytes, fields: bytes = b"", first: bytes = OK) -> bytes:
    return first + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(*parts: bytes) -> bytes:
    return CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in (*parts, b""))


def answered(server: Scripted, address: Address | None = None, requests: int = 1, **changes) -> list:
    """The requests of one stream of a client, as they ended."""
    address = address or Address("127.0.0.1", server.port)
    ours, theirs = Pipe()
    asked = Server(address, address.reached(), "model", 32000, {}, True)._replace(**changes)
    load = Load(asked, "salt", [(8, TOKENS)], [(0, 0.0)], (), 0, 1, ())
    client = Client(load, theirs)
    thread = threading.Thread(target=client.run)
    thread.start()
    found = []
    while len(found) < requests:
        assert ours.poll(PATIENCE_S)
        kind, content = ours.recv()
        found += [content] if kind == "ended" else []
        if kind == "ended" and content.error:
            break
    ours.send(("stop", None))
    thread.join()
    for one in (*(idle.socket for idle in client._idle.values()), client._selector, ours, theirs):
        one.close()
    return found


def answer(*pieces: bytes | None, **changes):
    with closing(Scripted([pieces])) as server:
        [found] = answered(server, **changes)
        return found


@pytest.mark.parametrize(
    "pieces",
    [
        [sized(BODY)],
        [chunked(word(), word(), word(), LAST)],
        [bytes([one]) for one in chunked(word(), word(), word() + LAST)],
        [b"HTTP/1.0 200 OK\r\n\r\n", BODY, None],
        [b"HTTP/1.1 100 Continue\r\n\r\n", sized(BODY)],
        [b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n" + sized(BODY)],
        [sized(BODY.replace(b"\n", b"\r\n"))],
        [sized(b": a comment\n\n" + word() + b":\n" + word() + b": ping\r\n\r\n" + word() + LAST)],
        [sized(word().replace(b", ", b",\ndata: ") + b"id: 7\nevent: message\nretry: 9\n" + word() + word() + LAST)],
        [sized((word() * TOKENS).rstrip(b"\n"))],
        [sized(word(**usage(1)) + word(**usage(2)) + word(**usage(1)) + word(**usage(3)) + LAST)],
        [sized(word(error=None) * TOKENS + LAST)],
        [sized(word(**usage(1)) + word(**usage(3)) + data({"choices": [], **usage(3)}))],
    ],
    ids=[
        *("with a length", "chunks", "byte by byte", "until the end", "100", "103", "CRLF", "comments"),
        *("several data lines", "no empty line at the end", "usage falls", "error null", "no DONE"),
    ],
)
def test_an_answer_is_read_however_it_is_sent(pieces):
    found = answer(*pieces)
    assert (found.error, found.tokens, found.model) == ("", TOKENS, "model")
    assert sum(found.counts) == TOKENS


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([sized(word() + data({"error": {"message": "tired"}}))], 'with an error: {"message": "tired"}'),
        ([sized(word() + b'event: error\ndata: {"text": "tired"}\n\n')], '{"text": "tired"}'),
        ([sized(word() + b'error: {"message": "tired"}\n\n')], "tired"),
        ([sized(b'{"error": {\n\n "message": "tired"}}')], '"message": "tired"'),
        ([sized(DONE)], "with no event, but: nothing"),
        ([sized(b'{"error": "tired"}', first=b"HTTP/1.1 503 Busy\r\n")], 'HTTP status 503: {"error": "tired"}'),
        ([sized(b"x", b"Content-Encoding: gzip\r\n")], "compressed by 'gzip', though 'identity' was asked for"),
        ([CHUNKED + b"5\r\ndata", None], "closed the connection within a response"),
        ([b"SSH-2.0\r\n\r\n"], "is not HTTP/1.1"),
        ([None], "the connection was lost: closed by the server"),
    ],
)
def test_the_servers_words_are_kept(pieces, words):
    assert words in answer(*pieces).error


@pytest.mark.parametrize(
    "deltas",
    [
        [{"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"}, {"content": "c"}],
        [{"reasoning_content": "a"}, {"reasoning": "b"}, {"content": "c"}],
        [{"reasoning": "a", "reasoning_content": "a"}, {"content": "b", "tool_calls": None}, {"content": "c"}],
        [
            {"content": None, "tool_calls": [{"index": 0, "function": {"name": "add", "arguments": ""}}]},
            *({"tool_calls": [{"index": 0, "function": {"arguments": one}}]} for one in ('{"a":', "1}")),
        ],
    ],
    ids=["content", "reasoning", "reasoning twice", "a tool's call"],
)
def test_chat_counts_each_delta_with_text(deltas):
    with closing(Scripted([[sized(b"".join(chat(**one) for one in deltas) + LAST)]])) as server:
        [found] = answered(server, template_tokens=2)
    assert (found.error, found.tokens) == ("", TOKENS)
    head, _, body = server.asked[0].partition(b"\r\n\r\n")
    [message] = json.loads(body)["messages"]
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1")
    assert (message["role"], len(message["content"].split())) == ("user", 8 - 2)


def test_a_closed_kept_connection_is_opened_again():
    with closing(Scripted([[sized(BODY)], [None], [sized(BODY), None]])) as server:
        assert [(one.retries, one.tokens) for one in answered(server, requests=2)] == [(0, TOKENS), (1, TOKENS)]


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("http://127.0.0.1:{port}", "127.0.0.1:{port}", "/v1/completions"),
        ("http://127.0.0.1:{port}/v1/", "127.0.0.1:{port}", "/v1/completions"),
        ("http://127.0.0.1:{port}/team/llama/v1", "127.0.0.1:{port}", "/team/llama/v1/completions"),
        ("http://[::1]:{port}/team", "[::1]:{port}", "/team/v1/completions"),
        ("http://two.example:{port}", "two.example:{port}", "/v1/completions"),
    ],
)
def test_a_request_goes_to_its_host_and_path(url, host, path, monkeypatch):
    real = socket.getaddrinfo

    def addresses(name, port, *more, **flags):
        """An IPv6 address first, at which nobody listens."""
        if name != "two.example":
            return real(name, port, *more, **flags)
        return [one for name in ("::1", "127.0.0.1") for one in real(name, port, *more, **flags)]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    with closing(Scripted([[sized(BODY)]], "::1" if "::1" in url else "127.0.0.1")) as server:
        address = Address.of(url.format(port=server.port))
        assert address.is_here()
        [found] = answered(server, address)
    fields = server.asked[0].partition(b"\r\n\r\n")[0].decode().split("\r\n")
    assert (found.error, found.tokens) == ("", TOKENS)
    assert fields[0] == f"POST {path} HTTP/1.1"
    assert f"Host: {host.format(port=server.port)}" in fields
    assert "Accept-Encoding: identity" in fields


@pytest.mark.parametrize(
    ("url", "host"), [("http://x", "x"), ("https://x/", "x"), ("http://x:443", "x:443"), ("http://[::1]:80", "[::1]")]
)
def test_the_usual_port_is_not_in_the_host(url, host):
    assert Address.of(url).headers["Host"] == host


def tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_https_is_read_as_http_is_on_kept_connections(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    long = [chunked(word(), word(), word(), LAST, b": " + b"x" * 100_000)]
    answers = [[sized(BODY)], [bytes([one]) for one in sized(BODY)], long]
    with closing(Scripted(answers, context=tls(certificate))) as server:
        address = Address.of(f"https://127.0.0.1:{server.port}")
        found = answered(server, address, requests=3)
    assert [(one.error, one.tokens, one.retries) for one in found] == [("", TOKENS, 0)] * 3


@pytest.mark.parametrize(
    ("has_tls", "words"),
    [
        (True, r"is not trusted \(self-signed certificate\): set SSL_CERT_FILE to the file of its authority"),
        (False, "no server answers at 127"),
    ],
)
def test_a_server_without_a_trusted_certificate_is_one_sentence(has_tls, words, certificate):
    context = tls(certificate) if has_tls else None
    with closing(Scripted([[b"no TLS"]], context=context)) as server, pytest.raises(LoadError, match=words):
        Address.of(f"https://127.0.0.1:{server.port}").models()


def test_a_key_is_sent_and_is_in_no_text(capsys):
    refused = sized(f'{{"error": "{KEY} is no key"}}'.encode(), first=b"HTTP/1.1 401 Unauthorized\r\n")
    with closing(Scripted([[refused]])) as server:
        address = Address.of(f"http://127.0.0.1:{server.port}", key=KEY)
        [found] = answered(server, address)
        with pytest.raises(LoadError) as error:
            address.models()
    assert f"Authorization: Bearer {KEY}".encode() in server.asked[0]
    assert all("HTTP status 401" in one and "[the key] is no key" in one for one in (found.error, str(error.value)))
    assert KEY not in repr(address)


@pytest.mark.parametrize(
    "options",
    [
        {"api_key_variable": KEY},
        {"api_key_variable": "MY_KEY"},
        {"url": f"http://user:{KEY}@host"},
        {"url": f"http://host?key={KEY}"},
    ],
)
def test_a_wrong_key_is_not_repeated(options, monkeypatch):
    monkeypatch.setenv("MY_KEY", f"{KEY} in two words")
    with pytest.raises(ConfigError) as error:
        ServerOptions(**{"url": "http://host", **options})
    assert KEY not in str(error.value)


def counting(*prompts: int):
    return [[sized(json.dumps({"usage": {"prompt_tokens": one}}).encode())] for one in prompts]


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        (counting(38, 89), 37),
        (counting(39, 90), "a prompt of 38 tokens was asked for, but the chat template alone takes 38: ask for longer"),
        (counting(38, 90), "the server makes 52 tokens of 51: measure it by completions"),
        ([[sized(b'{"choices": []}')]], "counts no prompt tokens .*: HTTP status 200, {"),
        ([[sized(b"no chat", first=b"HTTP/1.1 404 Not Found\r\n")]], "HTTP status 404, no chat"),
    ],
)
def test_the_server_counts_what_its_template_adds_and_other_prompts_are_refused(answers, found):
    with closing(Scripted(answers)) as server, nullcontext() if found == 37 else pytest.raises(LoadError, match=found):
        assert template_tokens(Address("127.0.0.1", server.port), "model", 38, PATIENCE_S) == found


def test_without_httptools_the_command_says_what_to_install():
    script = "import runpy, sys; sys.modules['httptools'] = None; runpy.run_module('benchmarks.llm_inference')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, "needs the package httptools" in done.stderr) == (1, True)
