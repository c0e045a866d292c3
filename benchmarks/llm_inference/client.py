"""One process of the client: up to 64 streams on one thread, in a closed or an open loop.

All ready sockets are read first, each with its time, and parsed afterwards: parsing one stream delays no other's time.
The delay of a read is at most the time since the selector last waited, or returned, with the time for which the process
then waited for a CPU, or was stopped. It is kept, so that a run reports a late client.
"""

from __future__ import annotations

import math
import os
import random
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.llm_inference.address import CHAT, COMPLETIONS, Address
from benchmarks.llm_inference.conversations import KEEP_S, Player, Talk
from benchmarks.llm_inference.prompts import Bodies
from benchmarks.llm_inference.stream import BadResponse, Counter, Exchange
from record.served import Request

BLOCKED_S = 50e-6  # a selector that took longer was waiting; a call that need not wait takes less
TIMER_S = 0.005  # the selector waits for no longer: a process that is stopped misses a timer
LATE_TIMER_S = 0.002  # timers of epoll have steps of a millisecond
SCHEDSTAT = "/proc/thread-self/schedstat"  # time on a CPU and time waiting for one, in nanoseconds; Linux
KEPT = 8  # requests of a process whose prompts and answers are kept, to be compared
PROBE_SILENCE_S = 0.5
RECEIVE_BYTES = 1 << 16  # each read allocates as many; from 128 KiB on, the C library asks the kernel for them
SILENT_S = 120.0  # no byte of a stream for so long: the server is taken to have stopped


class Server(NamedTuple):
    """Server to which requests go, and the fields that they have."""

    address: Address
    peer: tuple[int, Any]  # family and address of the socket
    model: str
    vocab_size: int
    extra: Mapping[str, Any]
    keep_alive: bool
    template_tokens: int | None = None  # that chat adds to a prompt; None: completions
    of_turns: Mapping[str, Any] = {}  # further fields of a request of a conversation


class Load(NamedTuple):
    """Work of one client process; times from the begin that its client is run with."""

    server: Server
    salt: str
    lengths: Sequence[tuple[int, int]]  # input and output tokens, taken in turn
    starts_s: Sequence[tuple[int, float]] = ()  # slots of a closed loop, and when each sends its first request
    arrivals_s: Sequence[tuple[int, float]] = ()  # requests of an open loop, and when each is due
    first_index: int = 0  # of requests of a closed loop, which counts in steps of `stride`
    stride: int = 1
    cpus: Sequence[int] = ()  # to run on; empty: any
    talk: Talk | None = None  # conversations, in place of the lengths


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


class Stream:
    """A request, and the connection that it is on."""

    def __init__(self, request: Request, exchange: Exchange, body: bytes, wire: Wire | None) -> None:
        self.request, self.exchange, self.body, self.wire = request, exchange, body, wire
        self.counter, self.is_reused = Counter(request), wire is not None
        self.heard_s = request.sent_s


def run(load: Load, link: Connection) -> None:
    """Run in a process of its own: report each first token and each request that ended, until an order to stop."""
    if load.cpus:
        os.sched_setaffinity(0, load.cpus)
    with suppress(BrokenPipeError, ConnectionResetError, EOFError):  # nobody listens any more
        client = Client(load, link)
        link.send(("ready", None))
        client.run(link.recv())


class Client:
    """The loop of one process."""

    def __init__(self, load: Load, link: Connection, clock: Callable[[], float] = time.monotonic) -> None:
        self._load, self._link, self._clock = load, link, clock
        server, talk = load.server, load.talk
        extra = {**server.extra, **(server.of_turns if talk else {})}
        self._bodies = Bodies(server.model, server.vocab_size, extra, load.salt, server.template_tokens)
        self._player = Player(talk, load.first_index, load.stride, self._bodies.made) if talk else None
        self._path = server.address.base + (COMPLETIONS if server.template_tokens is None else CHAT)
        self._headers, self._tls = server.address.headers, server.address.tls()
        self._selector = selectors.DefaultSelector()
        self._streams: set[Stream] = set()
        self._idle: dict[int, Wire] = {}
        due = [(due_s, slot, True) for slot, due_s in load.starts_s]
        due += [(due_s, index, False) for index, due_s in load.arrivals_s]
        self._waiting = sorted(due, reverse=True)
        self._next_index = load.first_index
        self._heard_slots: set[int] = set()
        self._keeps_alive = server.keep_alive
        self._window_end_s: float | None = None
        self._is_stopped = self._is_drained = False
        self._waits = os.open(SCHEDSTAT, os.O_RDONLY) if Path(SCHEDSTAT).exists() else None
        self._waited_s = 0.0
        self._samples, self._ended = list[tuple[str, str]](), 0

    def _new_wait_s(self) -> float:
        """Return for how long the process waited for a CPU since the last call; 0 if the system does not tell."""
        if self._waits is None:
            return 0.0
        before, self._waited_s = self._waited_s, int(os.pread(self._waits, 100, 0).split()[1]) / 1e9
        return self._waited_s - before

    def run(self, begin_s: float = 0.0) -> None:
        """Serve all streams until an order to stop; times of the load are from `begin_s` on, of the monotonic clock."""
        self._waiting = [(begin_s + due_s, number, is_slot) for due_s, number, is_slot in self._waiting]
        self._selector.register(self._link, selectors.EVENT_READ)
        since_s = probe_s = self._clock()
        while not self._is_stopped:
            called_s = self._clock()
            while self._waiting and self._waiting[-1][0] <= called_s:
                self._send(*self._waiting.pop())
            called_s = self._clock()
            due_s = min(called_s + TIMER_S, self._waiting[-1][0] if self._waiting else math.inf)
            ready = self._selector.select(max(0.0, due_s - called_s))
            polled_s, wait_s = self._clock(), self._new_wait_s()
            is_late = polled_s - called_s > max(0.0, due_s - called_s) + LATE_TIMER_S
            if polled_s - called_s > BLOCKED_S and not is_late:
                since_s = max(since_s, polled_s - wait_s)
            if polled_s >= probe_s:
                probe_s = polled_s + PROBE_SILENCE_S
                self._check_silence(polled_s)
            self._serve(ready, since_s)
            if ready or not is_late:  # a process that was stopped comes back without events: signal(7), epoll_wait
                since_s = polled_s
        for stream in list(self._streams):
            self._drop(stream)

    def _serve(self, ready: Sequence[tuple[selectors.SelectorKey, int]], since_s: float) -> None:
        read: list[tuple[Stream, bytes | OSError, float]] = []
        for key, events in ready:
            stream: Stream | None = key.data
            if stream is None:
                self._obey()
            elif events & selectors.EVENT_WRITE:
                self._write(stream)
            elif stream.wire is not None:
                try:
                    data: bytes | OSError = stream.wire.socket.recv(RECEIVE_BYTES)
                except BlockingIOError:
                    continue
                except OSError as error:
                    data = error
                read.append((stream, data, self._clock()))
        for stream, data, now_s in read:
            self._take(stream, data, now_s, since_s)

    def _obey(self) -> None:
        try:
            order, value = self._link.recv()
        except EOFError:
            order, value = "stop", None
        if order == "begin":
            self._samples, self._ended = [], 0
        elif order == "end":
            self._window_end_s = value
            self._link.send(("samples", self._samples))
            self._report_drained()
        else:
            self._is_stopped = True

    def _report_drained(self) -> None:
        """Report once that no request is left that was sent before the window's end."""
        end_s = self._window_end_s
        if end_s is None or self._is_drained or any(one.request.due_s <= end_s for one in self._streams):
            return
        if not any(due_s <= end_s for due_s, _, _ in self._waiting):
            self._is_drained = True
            self._link.send(("drained", None))

    def _send(self, due_s: float, number: int, is_slot: bool) -> None:
        """Send a request of an open loop, or the next one of a slot of a closed loop, which counts from now on."""
        slot, index, place = (number, self._next_index, None) if is_slot else (-1, number, None)
        self._next_index += self._load.stride if is_slot else 0
        if self._player:
            place, prompt, (input_tokens, output_tokens, *_) = self._player.next(slot)
            body = self._bodies.body_of(prompt, output_tokens)
        else:
            input_tokens, output_tokens = self._load.lengths[index % len(self._load.lengths)]
            body = self._bodies.body(index, input_tokens, output_tokens)
        exchange = Exchange(self._headers, self._path, body, self._keeps_alive)
        now_s = self._clock()
        request = Request(index, slot, now_s if is_slot else due_s, now_s, input_tokens, output_tokens, place=place)
        request.late_s = [now_s - due_s, 0.0, 0.0, 0.0]
        stream = Stream(request, exchange, body, self._idle.pop(slot, None))
        self._streams.add(stream)
        self._connect(stream)

    def _connect(self, stream: Stream) -> None:
        try:
            stream.wire = stream.wire or Wire(*self._load.server.peer, self._tls, self._load.server.address.host)
            stream.wire.put(stream.exchange.content)
            self._selector.register(stream.wire.socket, selectors.EVENT_READ, stream)
        except OSError as error:
            self._fail(stream, f"cannot connect: {error}")
            return
        self._write(stream)

    def _write(self, stream: Stream) -> None:
        assert stream.wire is not None
        try:
            stream.wire.send()
        except OSError as error:
            self._lost(stream, error)
            return
        self._watch(stream, stream.wire)

    def _watch(self, stream: Stream, wire: Wire) -> None:
        waits = selectors.EVENT_WRITE if wire.unsent else 0
        self._selector.modify(wire.socket, selectors.EVENT_READ | waits, stream)

    def _lost(self, stream: Stream, error: OSError | None) -> None:
        """Send a request once more where a kept connection turns out to be closed, and keep no connection from then on.

        A server that closes each connection costs one such request of each stream, before the window. One that drops
        requests now and then drops the next on a connection of its own, which fails.
        """
        if not stream.is_reused or stream.exchange.has_begun:
            self._fail(stream, f"the connection was lost: {error or 'closed by the server'}")
            return
        self._close(stream)
        stream.is_reused = self._keeps_alive = False
        stream.request.retries += 1
        self._connect(stream)

    def _take(self, stream: Stream, data: bytes | OSError, now_s: float, since_s: float) -> None:
        if isinstance(data, OSError) or (not data and not stream.exchange.has_begun):
            self._lost(stream, data if isinstance(data, OSError) else None)
            return
        request, exchange, stream.heard_s = stream.request, stream.exchange, now_s
        try:
            if data and self._tls and stream.wire:
                data = stream.wire.opened(data)
                if stream.wire.unsent:  # TLS may have to answer first
                    self._watch(stream, stream.wire)
                if not data:
                    return
            new = sum(map(stream.counter.new_tokens, exchange.feed(data)))
        except (BadResponse, ssl.SSLError, ValueError, LookupError, TypeError, AttributeError) as error:
            self._fail(stream, str(error) if isinstance(error, BadResponse) else f"no completion: {error!r}")
            return
        if exchange.is_done:
            new += stream.counter.release()
        if new:
            if not request.times_s and request.slot not in self._heard_slots:
                self._heard_slots.add(request.slot)
                self._link.send(("first", request.slot))
            request.late_s[2 if request.times_s else 1] = now_s - since_s
            request.late_s[3] = max(request.late_s[1:])
            request.times_s.append(now_s)
            request.counts.append(new)
        if exchange.is_done:
            self._finish(stream, now_s)

    def _finish(self, stream: Stream, now_s: float) -> None:
        request = stream.request
        request.ended_s = now_s
        self._streams.remove(stream)
        self._keep(stream)
        idle_s = 0.0  # until the stream's next request
        if self._player and request.place:
            key, idle_s = self._player.answered(request.slot, stream.counter.ids)
            request.place = request.place._replace(answer=key, idle_s=idle_s)
        is_kept = self._keeps_alive and idle_s < KEEP_S and stream.exchange.keeps_open and request.slot >= 0
        if is_kept and stream.wire:
            self._selector.unregister(stream.wire.socket)
            self._idle[request.slot] = stream.wire
        else:
            self._close(stream)
        if request.slot >= 0 and not idle_s:
            self._send(now_s, request.slot, True)
        elif request.slot >= 0:
            self._waiting.append((now_s + idle_s, request.slot, True))
            self._waiting.sort(reverse=True)
        self._link.send(("ended", request))
        self._report_drained()

    def _keep(self, stream: Stream) -> None:
        """Keep some of the requests that ended, each with the same chance (Vitter 1985, algorithm R)."""
        self._ended += 1
        place = len(self._samples) if self._ended <= KEPT else random.randrange(self._ended)
        if place < KEPT:
            self._samples[place : place + 1] = [(stream.body.decode(), "".join(stream.counter.text))]

    def _fail(self, stream: Stream, why: str) -> None:
        stream.request.error = self._load.server.address.hide(why)
        self._drop(stream)
        self._link.send(("ended", stream.request))

    def _check_silence(self, now_s: float) -> None:
        for stream in [one for one in self._streams if now_s - one.heard_s > SILENT_S]:
            self._fail(stream, f"no byte came for {SILENT_S:g} s: the server has stopped, or the load is too high")

    def _drop(self, stream: Stream) -> None:
        self._close(stream)
        self._streams.discard(stream)

    def _close(self, stream: Stream) -> None:
        if stream.wire is not None:
            with suppress(KeyError):  # it was never registered
                self._selector.unregister(stream.wire.socket)
            stream.wire.socket.close()
            stream.wire = None
