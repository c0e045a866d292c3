"""Put a server under load from as many processes as it takes, and decide when its steady state is measured."""

from __future__ import annotations

import math
import multiprocessing
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from benchmarks.common.progress import Pace
from benchmarks.llm_inference.client import Load, Request, Statistics, run

STREAMS_PER_PROCESS = 64  # with more, bursts of tokens wait for more than a millisecond
FEWEST_REQUESTS = 30  # fewer bound neither a 99th percentile nor a median
LEAST_E2E = 5  # a window is at least so many times as long as a request takes
RAMP_SHARE = 0.25  # of the limit; what has not reached a steady state by then is too slow
POLL_S = 0.2
PAIRS = 1024  # of log-normal lengths, taken in turn
DEATH_S = 1.0  # from a lost connection until the server's process has ended


class LoadError(Exception):
    """There is no measurement: one sentence with the reason."""


class Server(NamedTuple):
    """Server to which requests go, and the fields that they have."""

    host: str
    port: int
    path: str
    model: str
    vocab_size: int
    extra: dict[str, Any]
    keep_alive: bool


class Plan(NamedTuple):
    """How much load, and how long."""

    concurrency: int  # streams of a closed loop; with a rate, those that are expected
    lengths: Sequence[tuple[int, int]]  # input and output tokens, taken in turn
    min_s: float
    min_requests: int
    limit_s: float
    max_s: float = math.inf  # after which the fewest requests are enough
    rate_per_s: float = 0.0  # of an open loop; 0: a closed one
    burstiness: float = 1.0  # shape of the gamma distribution of the times between arrivals; 1: Poisson
    seed: int = 0
    cpus: Sequence[int] = ()  # of the client

    @property
    def fewest_requests(self) -> int:
        """Requests without which a run does not count."""
        return max(FEWEST_REQUESTS, 2 * self.concurrency)

    @property
    def processes(self) -> int:
        """Number of client processes for these streams."""
        return -(-self.concurrency // STREAMS_PER_PROCESS)


@dataclass
class Measurement:
    """Every request, and the window in which the server was in its steady state."""

    requests: list[Request] = field(default_factory=list)
    start_s: float = 0.0
    end_s: float = 0.0
    statistics: list[Statistics] = field(default_factory=list)  # of each client process


def arrivals_s(rate_per_s: float, burstiness: float, seed: int, until_s: float) -> Iterator[float]:
    """Yield times of arrivals from 0 on, with gamma-distributed times between them; of shape 1 they are Poisson's."""
    chance, time_s = random.Random(seed), 0.0
    while (time_s := time_s + chance.gammavariate(burstiness, 1 / (rate_per_s * burstiness))) < until_s:
        yield time_s


def log_normal_lengths(mean_input: int, mean_output: int, sigma: float, seed: int) -> list[tuple[int, int]]:
    """Return pairs of lengths, each log-normal with that mean and shape, at least 2 tokens and at most four means."""
    chance = random.Random(seed)

    def length(mean: int) -> int:
        return max(2, min(4 * mean, round(chance.lognormvariate(math.log(mean) - sigma**2 / 2, sigma))))

    return [(length(mean_input), length(mean_output)) for _ in range(PAIRS)]


def first_requests(server: Server, plan: Plan, count: int, watch: Callable[[], None]) -> list[Request]:
    """Send requests one after the other: they warm the server up, and the last shows how long one takes alone."""
    load = _load(server, plan, salt=_salt(), starts_s=[(0, time.monotonic())])
    found: list[Request] = []
    with _clients([load]) as [link]:
        for message, content in _messages([link], watch, time.monotonic() + plan.limit_s):
            if message == "ended":
                found.append(_good(content, watch))
            if len(found) == count:
                break
    return found


def measure(
    server: Server,
    plan: Plan,
    alone_s: float,
    watch: Callable[[], None],
    mark: Callable[[str, float], None],
    say: Callable[[str], None] = lambda _: None,
) -> Measurement:
    """Load the server, and measure from when it is in its steady state until there are enough requests.

    A closed loop starts its streams one by one over the time `alone_s` that a request takes alone: streams that start
    together stay together. The window begins when each has had a first token and as many more requests have ended. It
    ends after `min_s`, five times the median time of a request, and `min_requests`, or `fewest_requests` after `max_s`.
    The load goes on until each request that was sent in the window has ended, so that none is cut short. `watch` raises
    LoadError when the server is gone.
    """
    found, begin_s = Measurement(), time.monotonic()
    loads = list(_shares(server, plan, begin_s + 0.1, alone_s))
    with _clients(loads) as links:
        _tell_course(found, links, plan, alone_s, begin_s, watch, mark, say)
    return found


def _tell_course(
    found: Measurement,
    links: Sequence[Connection],
    plan: Plan,
    alone_s: float,
    begin_s: float,
    watch: Callable[[], None],
    mark: Callable[[str, float], None],
    say: Callable[[str], None],
) -> None:
    heard, ended_after, drained, pace = set[int](), 0, 0, Pace()
    in_window: list[float] = []
    for message, content in _messages(links, watch, begin_s + plan.limit_s):
        now_s = time.monotonic()
        if message == "first":
            heard.add(content)
        elif message == "statistics":
            found.statistics.append(content)
        elif message == "drained":
            drained += 1
        elif message == "ended":
            found.requests.append(_good(content, watch))
            if found.start_s and content.due_s >= found.start_s:
                in_window.append(content.ended_s - content.sent_s)
            ended_after += plan.rate_per_s > 0 or len(heard) == plan.concurrency
        if not found.start_s:
            # One by one over the time of a request, streams need twice that for as many to end.
            if ended_after > plan.concurrency:
                found.start_s = now_s
                mark("begin", now_s)
                _order(links, "begin", now_s)
            elif now_s - begin_s > RAMP_SHARE * plan.limit_s + 4 * alone_s:
                raise LoadError(f"too slow: no steady state after {now_s - begin_s:.0f} s; lower the load")
        elif not found.end_s:
            typical_s = statistics.median(in_window) if in_window else alone_s
            least_s = max(plan.min_s, LEAST_E2E * typical_s)
            took_s, requests = now_s - found.start_s, len(in_window)
            is_enough = requests >= (plan.min_requests if took_s < plan.max_s else plan.fewest_requests)
            if took_s >= least_s and is_enough:
                found.end_s = now_s
                mark("end", now_s)
                _order(links, "end", now_s)
            elif pace.due:
                say(f"measured {took_s:.0f} of {least_s:.0f} s, {requests} of {plan.min_requests} requests")
        if drained == len(links):
            return


def _good(request: Request, watch: Callable[[], None]) -> Request:
    """Return a request that succeeded; for another raise LoadError, with the server's own reason where it is gone."""
    if request.error:
        time.sleep(DEATH_S)
        watch()
        raise LoadError(f"request {request.index} failed: {request.error}")
    return request


def _shares(server: Server, plan: Plan, begin_s: float, alone_s: float) -> Iterator[Load]:
    salt, processes = _salt(), plan.processes
    due: list[tuple[int, float]] = []
    if plan.rate_per_s:
        due = list(enumerate(arrivals_s(plan.rate_per_s, plan.burstiness, plan.seed, plan.limit_s)))
    for process in range(processes):
        own = [] if plan.rate_per_s else range(process, plan.concurrency, processes)
        yield _load(
            server,
            plan,
            salt=salt,
            starts_s=[(slot, begin_s + alone_s * slot / plan.concurrency) for slot in own],
            arrivals_s=[(index, begin_s + time_s) for index, time_s in due[process::processes]],
            first_index=process,
            stride=processes,
            cpus=plan.cpus[process : process + 1] if len(plan.cpus) >= processes else (),
        )


def _load(server: Server, plan: Plan, **changes: Any) -> Load:
    usual: dict[str, Any] = {"starts_s": (), "arrivals_s": (), "first_index": 0, "stride": 1, "cpus": ()}
    return Load(**server._asdict(), lengths=plan.lengths, **usual | changes)


def _salt() -> str:
    return str(time.time_ns())


@contextmanager
def _clients(loads: Sequence[Load]) -> Iterator[list[Connection]]:
    """Run a client process for each load, and end them all."""
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
        yield links
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
                raise LoadError("a client process ended early: its output has the reason") from error
        if not ready:
            watch()
            yield "", None
    raise LoadError("too slow: the time limit has passed; lower the load, or raise --limit-s")


def _order(links: Sequence[Connection], order: str, value: float) -> None:
    for link in links:
        link.send((order, value))
