"""Traces of conversations, in two published formats and made ones, and files of lengths.

Mooncake's JSON lines have input_length, output_length and hash_ids of blocks of 512 tokens. The JSON of
AIPerf's scenario and of kv-cache-tester has id, block_size and requests of t [s], in, out and hash_ids of whole blocks,
and perhaps hash_id_scope, tool_tokens and system_tokens. Where hash_id_scope is "none", requests have no hash ids: a
prompt is the former one, the former answer as it came, and new tokens; the first tool_tokens + system_tokens of all
conversations are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common.options import ConfigError
from record.demand import MADE, as_text, digest_of, made

MOONCAKE_BLOCK = 512
MOST = 1 << 53  # above, floats are not exact
SCOPES = "local", "global", "none"


class Turn(NamedTuple):
    """A request of a conversation."""

    input: int
    output: int
    idle_s: float  # from the former answer's end until it is sent
    ids: tuple[int, ...] = ()


class Conversation(NamedTuple):
    """Requests that are sent one after the other."""

    turns: tuple[Turn, ...]
    block: int  # tokens for each hash id; 0: answers are fed back
    is_local: bool = False  # equal ids of other conversations have other tokens
    shared: int = 0  # first tokens that all conversations have, where answers are fed back


class Trace(NamedTuple):
    """Conversations, and what identifies them."""

    name: str
    digest: str
    conversations: tuple[Conversation, ...]


def trace_of(name: str, seed: int) -> Trace:
    """Return a made trace, or that of a file or a folder of files; raises ConfigError."""
    path, flag = Path(name), f"--trace {name}"
    if name in MADE:
        texts = {name: as_text(made(name, seed))}
    else:
        try:
            files = sorted(path.glob("*.json*")) if path.is_dir() else [path]
            texts = {str(file): file.read_text(encoding="utf-8") for file in files}
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{flag} cannot be read: {error}; give {' or '.join(MADE)}, or a file") from error
    found = [one for place, text in texts.items() for one in _conversations(f"--trace {place}", text)]
    if not found:
        raise ConfigError(f"{flag} has no conversation: give a file that is not empty, or {' or '.join(MADE)}")
    if not any(turn.output > 1 for one in found for turn in one.turns):
        raise ConfigError(f"{flag}: no request has 2 output tokens, of which the later one is timed")
    return Trace(path.name, digest_of("".join(texts.values())), tuple(found))


def _conversations(flag: str, text: str) -> Iterator[Conversation]:
    for number, one in enumerate(_entries(flag, text), 1):
        where = f"{flag}: entry {number}"
        if not isinstance(one, dict):
            raise ConfigError(f"{where} is {str(one)[:40]!r}: each is an object, of Mooncake's or of AIPerf's format")
        yield _of_requests(one, where) if "requests" in one or "id" in one else _of_mooncake(one, where)


def _entries(flag: str, text: str) -> Iterator[Any]:
    """Yield the entries of one JSON value, or of JSON lines."""
    try:
        value = json.loads(text)
        yield from value if isinstance(value, list) else [value]
    except (ValueError, RecursionError):
        for number, line in enumerate(text.split("\n"), 1):  # a text may have other ends of lines
            try:
                if line.strip():
                    yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"{flag}: line {number} is no JSON ({error}): give JSON or JSON lines") from error


def _number(entry: Mapping[str, Any], name: str, where: str, least: int = 0) -> float:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= MOST:
        raise ConfigError(f"{where}: {name!r} must be a number from {least} to 2^53, found {value!r:.40}")
    return value


def _tokens(entry: Mapping[str, Any], name: str, where: str, least: int = 1) -> int:
    value = _number(entry, name, where, least)
    if value != int(value):
        raise ConfigError(f"{where}: {name!r} must be a whole number, found {value!r}")
    return int(value)


def _ids(entry: Mapping[str, Any], tokens: int, block: int, where: str, is_cut: bool = False) -> tuple[int, ...]:
    """Return the hash ids of a prompt, one for each block, of which `is_cut` lets the last one lack it if it is cut."""
    ids = entry.get("hash_ids", [] if is_cut else None)
    if not isinstance(ids, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in ids):
        raise ConfigError(f"{where}: 'hash_ids' must be a list of whole numbers, found {str(ids)[:40]}")
    if len(ids) != (wanted := -(-tokens // block)) and not (is_cut and len(ids) == tokens // block):
        raise ConfigError(f"{where}: {tokens} tokens are {wanted} blocks of {block}, but it has {len(ids)} hash_ids")
    return tuple(ids)


def _of_mooncake(entry: Mapping[str, Any], where: str) -> Conversation:
    """Return a conversation of one request: the format does not state which requests follow each other."""
    tokens, output = (_tokens(entry, name, where) for name in ("input_length", "output_length"))
    ids = _ids(entry, tokens, MOONCAKE_BLOCK, where)
    return Conversation((Turn(tokens, output, 0.0, ids),), MOONCAKE_BLOCK)


def _requests(entry: Mapping[str, Any], where: str) -> Iterator[Mapping[str, Any]]:
    """Yield the requests of a conversation; those of a subagent where it was called."""
    requests = entry.get("requests")
    if not isinstance(requests, list) or not all(isinstance(one, dict) for one in requests):
        raise ConfigError(f"{where}: 'requests' must be a list of objects, found {str(requests)[:40]}")
    for one in requests:
        if "requests" in one:
            yield from _requests(one, where)
        else:
            yield one


def _of_requests(entry: Mapping[str, Any], where: str) -> Conversation:
    if (scope := entry.get("hash_id_scope", SCOPES[0])) not in SCOPES:
        raise ConfigError(f"{where}: 'hash_id_scope' must be one of {', '.join(SCOPES)}, found {scope!r}")
    is_fed = scope == "none"
    block = _tokens(entry, "block_size", where)
    shared = sum(_tokens(entry, name, where, 0) for name in ("tool_tokens", "system_tokens") if name in entry)
    turns, ended_s, held = list[Turn](), 0.0, shared if is_fed else 0
    for number, one in enumerate(_requests(entry, where), 1):
        at = f"{where}, request {number}"
        time_s = _number(one, "t", at)
        tokens, output = (_tokens(one, name, at) for name in ("in", "out"))
        if is_fed and tokens <= held:
            raise ConfigError(f"{at}: 'in' must be above {held}, the tokens before its new ones, found {tokens}")
        ids = () if is_fed else _ids(one, tokens, block, at, is_cut=True)
        turns.append(Turn(tokens, output, max(0.0, time_s - ended_s) if turns else 0.0, ids))
        took_s = 0.0 if one.get("api_time") is None else _number(one, "api_time", at)
        ended_s, held = time_s + took_s, tokens + output
    if not turns:
        raise ConfigError(f"{where}: 'requests' has no request")
    return Conversation(tuple(turns), 0 if is_fed else block, scope == "local", shared)


def read_lengths(path: Path) -> list[tuple[int, int]]:
    """Return the input and output tokens of the lines of a file; raises ConfigError."""
    try:
        lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
        pairs = [(int(one), int(other)) for one, other in lines]
    except OSError as error:
        raise ConfigError(f"--lengths-file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"--lengths-file {path}: each line is 'INPUT OUTPUT', two whole numbers") from error
    if not pairs or min(map(min, pairs)) < 1:
        raise ConfigError(f"--lengths-file {path}: it needs lines with two numbers above 0")
    if max(output for _, output in pairs) < 2:
        raise ConfigError(f"--lengths-file {path}: no request has 2 output tokens, of which the later one is timed")
    return pairs
