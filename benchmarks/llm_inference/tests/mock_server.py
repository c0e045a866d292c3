"""Servers of HTTP/1.1 for tests: one that emits tokens on a known schedule, and one that sends what a test says.

    python -m benchmarks.llm_inference.tests.mock_server --ttft-s 0.05 --tpot-s 0.02

prints its port. `sent_s` of an event is when it was due to be sent, on the node's monotonic clock. With --log it prints
when each request came, and when its events were sent in fact.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import re
import selectors
import socket
import socketserver
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

TEMPLATE = "five words before a chat "  # of a prompt in chat
TEXT_TOKENS = list(range(1, 41))
FAULTS = "none", "exit", "die", "oom", "error", "slow-start", "answers-other", "empty"
TEXTS = "known", "less", "nameless"
STREAMS = "same", "others", "padded"  # streamed answers, against those in one piece
LENGTH = re.compile(rb"(?i)^content-length:\s*(\d+)", re.MULTILINE)
ANSWERS = "same", "rounding", "wrong", "worse", "without", "varies"


class Scripted(socketserver.ThreadingTCPServer):
    """Answer each request with the next of some answers, each a list of pieces; after the last one, with the last.

    A connection ends after a piece `None`. `asked` has the requests.
    """

    daemon_threads = True

    def __init__(
        self,
        answers: Sequence[Sequence[bytes | None]],
        host: str = "127.0.0.1",
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.answers, self.context, self.asked = answers, context, list[bytes]()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, 0), _Scripted)
        self.port: int = self.server_address[1]
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Scripted(socketserver.StreamRequestHandler):
    server: Scripted
    disable_nagle_algorithm = True

    def setup(self) -> None:
        if self.server.context:
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def handle(self) -> None:
        with suppress(OSError), self.request:
            while line := self.rfile.readline():
                head = line
                while line not in (b"\r\n", b""):
                    head += (line := self.rfile.readline())
                length = LENGTH.search(head)
                self.server.asked.append(head + self.rfile.read(int(length[1]) if length else 0))
                answers = self.server.answers
                for piece in answers[min(len(self.server.asked), len(answers)) - 1]:
                    if piece is None:
                        return
                    self.request.sendall(piece)


class Cache:
    """Blocks of tokens with all that comes before them; the ones used longest ago make room for others."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.most, self.block_tokens, self.blocks = blocks, block_tokens, {}

    def keys(self, tokens: list[int]) -> list[int]:
        keys, key = [], 0
        for at in range(0, len(tokens) - self.block_tokens + 1, self.block_tokens):
            key = hash((key, *tokens[at : at + self.block_tokens]))
            keys.append(key)
        return keys

    def hit(self, tokens: list[int]) -> int:
        """Return how many tokens at the beginning it has."""
        keys = self.keys(tokens)
        return self.block_tokens * next((at for at, key in enumerate(keys) if key not in self.blocks), len(keys))

    def put(self, tokens: list[int]) -> None:
        for key in reversed(self.keys(tokens)):  # the last blocks make room first
            self.blocks.pop(key, None)
            self.blocks[key] = True
        while len(self.blocks) > self.most:
            self.blocks.pop(next(iter(self.blocks)))


class Mock:
    """A server of tokens on a schedule, with the faults and answers that its options name."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.chance = options, random.Random(0)
        self.tokens = self.requests = self.steps = self.accepted = self.in_flight = 0
        self.is_loaded = False
        self.times = Counter[str]()  # that each prompt was sent
        self.cache = Cache(options.cache_blocks, options.block_tokens) if options.cache_blocks else None

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        length = LENGTH.search(head)
        body = await reader.readexactly(int(length[1])) if length else b""
        path = head.decode().split()[1].removeprefix(self.options.base)
        if self.options.key and f"Authorization: Bearer {self.options.key}\r\n".encode() not in head:
            return self._put(401, b"", writer)
        if not body:
            return self._get(path, writer)
        asked = json.loads(body)
        if path == "/tokenize":
            return self._put(200, json.dumps({"tokens": TEXT_TOKENS}).encode(), writer)
        if "messages" in asked:
            asked["prompt"] = TEMPLATE + asked["messages"][0]["content"]
        if not asked.get("stream"):
            return self._put(*(self._next(asked) if asked.get("logprobs") == 20 else self._whole(asked)), writer)
        received_s, sent_s = time.monotonic(), []
        self.requests += 1
        if self.requests > self.options.after:
            if self.options.fault == "die":
                os._exit(3)
            if self.options.fault == "oom":
                print("CUDA error: out of memory", file=sys.stderr, flush=True)
                os._exit(1)
            if self.options.fault == "error":
                return not self._put(503, b'{"error": "the server is tired"}', writer)
        self.in_flight += 1
        self.is_loaded |= self.in_flight > 1
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n")
        await self._stream(asked, writer, sent_s)
        self.in_flight -= 1
        writer.write(b"0\r\n\r\n")
        if self.options.log:
            print(json.dumps({"tokens": len(asked["prompt"]), "came_s": received_s, "sent_s": sent_s}), flush=True)
        return True

    def _put(self, status: int, body: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 %d Mock\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
        return True

    def _next(self, asked: dict) -> tuple[int, bytes]:
        """List the token after a prompt of the text, whose ids are in turn, and another one."""
        mark = "token_id:" if asked.get("return_tokens_as_token_ids") and self.options.text != "nameless" else "t"
        token = asked["prompt"][-1] + 1
        top = {f"{mark}0": -1.0, f"{mark}{token}": {"known": -1.0, "less": -1.02}.get(self.options.text, -1.0)}
        listed = {"tokens": [f"{mark}0"], "token_logprobs": [-1.0], "top_logprobs": [top]}
        return 200, json.dumps({"choices": [{"text": "x", "logprobs": listed}]}).encode()

    def _whole(self, asked: dict) -> tuple[int, bytes]:
        """Answer in one piece, by the same tokens for the same prompt but for what --answers asks for."""
        mode, prompt = self.options.answers, asked["prompt"]
        if mode == "without" and "logprobs" in asked:
            return 400, b'{"error": "no log-probabilities"}'
        names, tokens = self._tokens(prompt[: self.options.reads or None], asked["max_tokens"])
        listed = [dict(zip(one, (-0.5, -0.6, -4, -5, -6), strict=True)) for one in names]
        logprobs = [-0.52 if mode == "worse" and self.is_loaded else -0.5] * len(tokens)
        choice = {"text": "".join(tokens)}
        if "messages" in asked:
            tops = [[{"token": name, "logprob": value} for name, value in one.items()] for one in listed]
            every = zip(tokens, logprobs, tops, strict=True)
            content = [{"token": name, "logprob": value, "top_logprobs": top} for name, value, top in every]
            choice = {"message": {"content": choice["text"]}, "logprobs": {"content": content}}
        elif "logprobs" in asked:
            choice["logprobs"] = {"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": listed}
        usage = {"prompt_tokens": len(prompt.split() if isinstance(prompt, str) else prompt)}
        return 200, json.dumps({"choices": [choice], "usage": usage}).encode()

    def _tokens(self, prompt: object, count: int) -> tuple[list[list[str]], list[str]]:
        """Return the most likely tokens of each place, and those that are chosen."""
        mode, chance, is_loaded = self.options.answers, random.Random(str(prompt)), self.is_loaded
        self.times[str(prompt)] += 1
        names = [[f"t{chance.randrange(10**6)} " for _ in range(5)] for _ in range(count)]
        tokens = [one[0] for one in names]
        if mode == "rounding" and is_loaded:
            tokens[3:] = [one[1] for one in names[3:]]
        if (mode in ("wrong", "without") and is_loaded) or (mode == "varies" and self.times[str(prompt)] % 2 == 0):
            tokens[2:] = ["wrong "] * len(tokens[2:])
        return names, tokens

    def _get(self, path: str, writer: asyncio.StreamWriter) -> bool:
        text = {
            "/v1/models": json.dumps({"data": [{"id": self.options.model}]}),
            "/metrics": f"mock_tokens_total {self.tokens}\nmock_steps_total {self.steps}\n"
            f"mock_proposed_total {3 * self.steps}\nmock_accepted_total {self.accepted}\n",
        }.get(path, "{}")
        return self._put(200, text.encode(), writer)

    async def _stream(self, asked: dict, writer: asyncio.StreamWriter, sent_s: list[float]) -> None:
        options, loop, left = self.options, asyncio.get_running_loop(), asked["max_tokens"]
        if options.fault == "empty" and self.requests > options.after:
            self._event({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}, writer)
            left = 0
        given, usage, prompt = 0, None, asked["prompt"]
        prompt = len(prompt.split() if isinstance(prompt, str) else prompt)
        model = "other" if options.fault == "answers-other" else asked["model"]
        _, words = self._tokens(asked["prompt"][: options.reads or None], asked["max_tokens"])
        if options.streams == "others":
            words = ["other "] * len(words)
        if options.streams == "padded":
            words[len(words) // 2 :] = [" "] * (len(words) - len(words) // 2)
        head = {"object": "text_completion", "model": model}
        ids, cached, ttft_s = [], options.cached, options.ttft_s
        if self.cache:
            cached = self.cache.hit(asked["prompt"])
            self.cache.put(asked["prompt"])
            ttft_s *= (prompt - cached) / prompt
            cached += options.boast
        due_s = loop.time() + ttft_s
        while left:
            await asyncio.sleep(due_s - loop.time())
            new = min(left, self._of_a_step() if options.accepts and given else 1)
            given, left = given + new, left - new
            self.tokens += new
            usage = {"prompt_tokens": prompt, "completion_tokens": given}
            if options.cached or (self.cache and not options.silent):
                usage["prompt_tokens_details"] = {"cached_tokens": cached}
            text = "".join(words[given - new : given])
            text = {"delta": {"reasoning_content": text}} if "messages" in asked else {"text": text}
            listed = {"token_ids": [self.chance.randrange(1000, 8000) for _ in range(new)]} if self.cache else {}
            ids += listed.get("token_ids", [])
            event = {
                **head,
                "choices": [{"index": 0, **text, **listed, "finish_reason": None}],
                "usage": usage,
                "sent_s": due_s,
            }
            sent_s.append(time.monotonic())
            self._event(event, writer)
            due_s += options.tpot_s * (options.accepts or 1)
        if self.cache:
            self.cache.put([*asked["prompt"], *ids[:-1]])  # nothing was computed with the last one
        self._event({**head, "choices": [], "usage": usage}, writer)
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n")

    def _of_a_step(self) -> int:
        """Return the tokens of a step of speculative decoding, which are --accepts in the mean."""
        whole, part = divmod(self.options.accepts, 1)
        tokens = int(whole) + (self.chance.random() < part)
        self.steps, self.accepted = self.steps + 1, self.accepted + tokens - 1
        return tokens

    def _event(self, event: dict, writer: asyncio.StreamWriter) -> None:
        text = b"data: " + json.dumps(event).encode() + b"\n\n"
        writer.write(b"%x\r\n%b\r\n" % (len(text), text))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    add = made.add_argument
    for name, number, words in (
        ("port", 0, ""),
        ("ttft-s", 0.02, ""),
        ("tpot-s", 0.005, ""),
        ("accepts", 0.0, "tokens of a step of speculative decoding, of 3 drafts"),
        ("cached", 0, ""),
        ("cache-blocks", 0, "of a prefix cache, whose prompts are faster"),
        ("block-tokens", 1, "tokens of such a block"),
        ("boast", 0, "tokens that it never had, and states as cached"),
        ("reads", 0, "tokens of a prompt, or letters of a chat; 0: all"),
        ("after", 0, "requests before the fault"),
    ):
        add(f"--{name}", type=type(number), default=number, help=words)
    for name, choices in (("fault", FAULTS), ("answers", ANSWERS), ("streams", STREAMS), ("text", TEXTS)):
        add(f"--{name}", choices=choices, default=choices[0])
    add("--model", default="model")
    add("--base", default="", help="path before /v1")
    add("--key", default="", help="that requests must have")
    add("--certificate", help="file of a certificate and its private key, for https")
    add("--silent", action="store_true", help="state no cached tokens")
    add("--log", action="store_true", help="print the times of each request")
    return made


async def serve(options: argparse.Namespace) -> None:
    if options.fault == "exit":
        sys.exit("error: no such server")
    if options.fault == "slow-start":
        time.sleep(3600)
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # clients that leave are no matter
    context = None
    if options.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.certificate)
    mock = Mock(options)
    server = await asyncio.start_server(mock.answer, "127.0.0.1", options.port, limit=1 << 22, backlog=512, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    # select() waits to the microsecond; epoll's timers would be up to a millisecond late.
    asyncio.SelectorEventLoop(selectors.SelectSelector()).run_until_complete(serve(parser().parse_args()))
