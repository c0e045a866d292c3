"""Put a server under load from as many processes as it takes, and decide when its steady state is measured."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

from benchmarks.common.progress import Pace
from benchmarks.llm_inference.address import LoadError
from benchmarks.llm_inference.client import Load, Server, run
from benchmarks.llm_inference.config import LoadOptions, WindowOptions
from benchmarks.llm_inference.conversations import Talk
from record.demand import arrivals_s, fewest_requests
from record.served import Request, Window
from record.served_rules import LEAST_E2E

STREAMS_PER_PROCESS = 64  # with more, bursts of tokens wait for more than a millisecond
FEWEST_CORES_TO_BIND = 8  # the client's processes to cores of their own
RAMP_SHARE = 0.25  # of the limit; what has not reached a steady state by then is too slow
POLL_S = 0.2
FIRST_REQUESTS = 2  # before the load: the first warms the server up, the second shows how long one takes
LEAD_S = 0.1  # in which each client process hears when its times begin
LOST_CLIENT = "a client process ended early: its output has the reason"
DEATH_S = 1.0  # from a lost connection until the server's process has ended


def first_requests(server: Server, load: LoadOptions, limit_s: float, watch: Callable[[], None]) -> Request:
    """Send requests one after the other; the first warms the server up, the last, which is returned, is timed alone."""
    found: list[Request] = []
    alone = _load(server, load, 0.0)._replace(starts_s=[(0, 0.0)])
    with _clients([alone]) as (links, _):
        for message, content in _messages(links, watch, time.monotonic() + limit_s):
            if message == "ended":
                found.append(_good(content, watch))
            if len(found) == FIRST_REQUESTS:
                break
    return found[-1]


def measure(
    server: Server,
    load: LoadOptions,
    window: WindowOptions,
    alone_s: float,
    watch: Callable[[], None],
    mark: Callable[[str, float], None],
    ask: Callable[[], None],
) -> tuple[Window, list[Sequence[tuple[str, str]]]]:
    """Load the server, and measure from when it is in its steady state until there are enough requests.

    Returns the window, and bodies and answers of some requests, by chance, of each client process.

    A closed loop starts its streams one by one over the time `alone_s` that a request takes alone: streams that start
    together stay together. The window begins when each has had a first token and as many more requests have ended. It
    ends after `min_s`, five times the median time of a request, and enough requests, of which after `max_s` the fewest
    are enough. The load goes on until each request that was sent in the window has ended, so that none is cut short,
    and then until `ask` returns, which asks the loaded server.
    `watch` raises LoadError when the server is gone; `mark` is called at both edges of the window.
    """
    found, pace = Window([], 0.0, 0.0, load.concurrency, load.rate_per_s), Pace()
    wanted, max_s = max(window.min_requests, 4 * load.concurrency), max(window.min_s, window.max_s)
    to_hear = 0 if load.rate_per_s else load.concurrency  # streams of which each has had a first token
    messages: dict[str, list[Any]] = {"first": [], "samples": [], "drained": [], "": []}
    ended_after, in_window = 0, list[float]()

    def edge(name: str, now_s: float) -> float:
        mark(name, now_s)
        for link in links:
            link.send((name, now_s))
        return now_s

    pool, asked = ThreadPoolExecutor(1), list[Future[None]]()
    with _clients(list(_shares(server, load, window.limit_s, alone_s))) as (links, begin_s):
        for message, content in _messages(links, watch, begin_s + window.limit_s):
            now_s = time.monotonic()
            if message == "ended":
                found.every.append(_good(content, watch))
                if found.start_s and content.due_s >= found.start_s:
                    in_window.append(content.ended_s - content.sent_s)
                ended_after += len(messages["first"]) >= to_hear
            else:
                messages[message].append(content)
            if not found.start_s:
                # One by one over the time of a request, streams need twice that for as many to end.
                if ended_after > load.concurrency:
                    found.start_s = edge("begin", now_s)
                elif now_s - begin_s > RAMP_SHARE * window.limit_s + 4 * alone_s:
                    advice = "lower the load, or --idle-limit-s" if load.trace else "lower the load"
                    raise LoadError(f"too slow: no steady state after {now_s - begin_s:.0f} s; {advice}")
            elif not found.end_s:
                least_s = max(window.min_s, LEAST_E2E * (statistics.median(in_window) if in_window else alone_s))
                took_s, requests = now_s - found.start_s, len(in_window)
                if took_s >= least_s and requests >= (wanted if took_s < max_s else fewest_requests(load.concurrency)):
                    found.end_s = edge("end", now_s)
                elif pace.due:
                    print(f"measured {took_s:.0f} of {least_s:.0f} s, {requests} of {wanted} requests", flush=True)
            if len(messages["drained"]) == len(links):
                asked = asked or [pool.submit(ask)]
                if asked[0].done():
                    asked[0].result()
                    break
    return found, messages["samples"]


def _good(request: Request, watch: Callable[[], None]) -> Request:
    """Return a request that succeeded; for another raise LoadError, with the server's own reason where it is gone."""
    request.error = request.error or ("" if request.times_s else "its answer has no token")
    if request.error:
        time.sleep(DEATH_S)
        watch()
        raise LoadError(f"request {request.index} failed: {request.error}")
    return request


def _shares(server: Server, load: LoadOptions, limit_s: float, alone_s: float) -> Iterator[Load]:
    """Yield each client process's part of the load, on CPUs of its own where the node has enough of them."""
    processes = -(-load.concurrency // STREAMS_PER_PROCESS)
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    cpus = cpus[-processes:] if len(cpus) >= max(FEWEST_CORES_TO_BIND, 4 * processes) else []
    due: list[tuple[int, float]] = []
    if load.rate_per_s:
        due = list(enumerate(arrivals_s(load.rate_per_s, load.burstiness, load.seed, limit_s)))
    whole = _load(server, load, load.idle_limit_s)
    for process in range(processes):
        own = [] if load.rate_per_s else range(process, load.concurrency, processes)
        yield whole._replace(
            starts_s=[(slot, alone_s * slot / load.concurrency) for slot in own],
            arrivals_s=due[process::processes],
            first_index=process,
            stride=processes,
            cpus=cpus[process : process + 1],
        )


def _load(server: Server, load: LoadOptions, idle_limit_s: float) -> Load:
    """Return the load of a client process without any request."""
    trace = load.conversations
    talk = Talk(trace.conversations, idle_limit_s, load.seed) if trace else None
    return Load(server, str(time.time_ns()), load.lengths, talk=talk)


@contextmanager
def _clients(loads: Sequence[Load]) -> Iterator[tuple[list[Connection], float]]:
    """Run a client process for each load, and end them all; their times begin when all are ready, and that is given."""
    context = multiprocessing.get_context("spawn")
    links, processes = [], []
    try:
        for load in loads:
            ours, theirs = context.Pipe()
            process = context.Process(target=run, args=(load, theirs), daemon=True)
            process.start()
            theirs.close()
            links.append(ours)
            processes.append(process)
        try:
            for link in links:
                link.recv()  # it is ready
            begin_s = time.monotonic() + LEAD_S
            for link in links:
                link.send(begin_s)
        except (EOFError, OSError) as error:
            raise LoadError(LOST_CLIENT) from error
        yield links, begin_s
    finally:
        for link in links:
            link.close()  # which a client takes for an order to stop
        for process in processes:
            process.join(5)
            process.kill()


def _messages(links: Sequence[Connection], watch: Callable[[], None], until_s: float) -> Iterator[tuple[str, Any]]:
    """Yield the messages of the clients, and ("", None) when they are silent; raises LoadError when time is up."""
    while time.monotonic() < until_s:
        ready = wait(links, POLL_S)
        for link in ready:
            try:
                assert isinstance(link, Connection)
                yield link.recv()
            except (EOFError, OSError) as error:
                watch()
                raise LoadError(LOST_CLIENT) from error
        if not ready:
            watch()
            yield "", None
    raise LoadError("too slow: the time limit has passed; lower the load, or raise --limit-s")
