"""Figures of a load of conversations: what a server's prefix cache gave, next to what an endless one could give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from record.arithmetic import product, ratio
from record.findings import Finding, finding
from record.served import Metrics, Piece, Request, Window, mean_at_once

NAMES = (
    *("prompt_tokens_of_requests", "possible_cached_tokens", "possible_cache_hit_percent", "turn_tokens_per_s"),
    *("mean_lanes", "fed_back_percent", "cached_tokens", "fresh_tokens", "cache_hit_percent"),
)
Tree = dict[str, Any]  # by the key of a piece: the longest seen, and by each seen length the tree of what followed it


def are_conversations(window: Window) -> bool:
    """Check whether requests are turns of conversations."""
    return any(one.place for one in window.every)


def possible_hits(window: Window) -> dict[int, int]:
    """Return how many prompt tokens of each request, by its index, a cache without limit could have.

    They are the longest prefix in common with a prompt that was sent before in the run, and the answer to it. The last
    token of an answer is no part of that: the server never computed with it. Blocks of one token make this the limit of
    every cache: one of larger blocks has less.
    """
    found, tree, prompts = dict[int, int](), Tree(), dict[int, list[Piece]]()
    for one in sorted(window.every, key=lambda one: one.sent_s):
        if one.place:
            prompt = [*prompts.get(one.place.conversation, [])[: one.place.kept], *one.place.new]
            prompts[one.place.conversation] = prompt
            answer: list[Piece] = [(one.place.answer, one.tokens - 1)] if one.place.answer else []
            found[one.index] = min(one.asked_input, _seen([*prompt, *answer], tree))
    return found


def _seen(pieces: list[Piece], tree: Tree) -> int:
    """Return how many tokens at the beginning the tree has; add all of them."""
    seen, is_seen = 0, True
    for key, tokens in pieces:
        entry = tree.setdefault(key, [0, {}])
        if is_seen:
            seen, is_seen = seen + min(tokens, entry[0]), tokens in entry[1]
        entry[0], tree = max(tokens, entry[0]), entry[1].setdefault(tokens, Tree())
    return seen


def figures_of(window: Window) -> Metrics:
    """Return the figures of conversations; none for another load.

    Measured ones are missing where the server states for some request not how many tokens came from its cache.
    """
    if not are_conversations(window):
        return {}
    possible, requests = possible_hits(window), window.requests
    inputs = sum(one.asked_input for one in requests)
    later = [one for one in window.every if one.place and any(key.endswith(("a", "m")) for key, _ in one.place.new[:1])]
    fed_back = sum(one.place.new[0][0].endswith("a") for one in later if one.place)
    spans_s = ((one.sent_s, idle_until_s(one)) for one in window.every)  # of conversations in flight, and of idle ones
    found: Metrics = {
        "prompt_tokens_of_requests": inputs,
        "possible_cached_tokens": sum(possible.get(one.index, 0) for one in requests),
        "turn_tokens_per_s": ratio(sum(one.tokens for one in requests), sum(one.e2e_s for one in requests)),
        "mean_lanes": mean_at_once(spans_s, window.start_s, window.end_s),
        "fed_back_percent": product(100, ratio(fed_back, len(later))),
    }
    found["possible_cache_hit_percent"] = product(100, ratio(found["possible_cached_tokens"], inputs))
    if all(one.cached_tokens is not None for one in requests):
        cached = sum(one.cached_tokens or 0 for one in requests)
        found |= {"cached_tokens": cached, "fresh_tokens": inputs - cached}
        found["cache_hit_percent"] = product(100, ratio(cached, inputs))
    return found


def idle_until_s(request: Request) -> float:
    """Return when the next turn of a request's conversation is due; for another load when the request ended."""
    return request.ended_s + (request.place.idle_s if request.place else 0.0)


def remarks_on_cache(window: Window, metrics: Metrics) -> Iterator[Finding]:
    """Yield what limits the figures of conversations, or contradicts them.

    A piece of random tokens begins like another one by chance: a token of each request is allowed for.
    """
    if not are_conversations(window):
        return
    cached, possible = metrics.get("cached_tokens"), metrics.get("possible_cached_tokens")
    if cached is None:
        yield finding("no_cached_tokens")
    elif isinstance(cached, int) and isinstance(possible, int) and cached > possible + len(window.requests):
        yield finding("cache_impossible", cached=cached, possible=possible)
