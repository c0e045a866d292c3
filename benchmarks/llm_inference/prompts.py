"""Bodies of requests: prompts of exact lengths, never the same twice."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from string import ascii_letters
from typing import Any

from benchmarks.llm_inference.address import CHAT, MOST_LETTERS, Address, LoadError

SALT_TOKENS = 16  # a block of vLLM's prefix cache, which is looked up from the first token on
TAIL_TOKENS = 1 << 16


class Tokens:
    """Text of made tokens: slices of one random text, each begun by tokens of its own."""

    def __init__(self, salt: str, tail: str, least: int, most: int) -> None:
        self._salt, self._tail, self._least, self._span = salt, f"{tail},{tail}", least, most - least + 1
        self._width = len(str(least)) + 1
        self._count = (len(tail) + 1) // self._width

    def made(self, key: str, tokens: int) -> str:
        """Return as many token ids, the same for the same key, and for fewer tokens the first of them."""
        parts = []
        for at in range(0, tokens, self._count):
            seed = hashlib.blake2b(f"{self._salt} {key} {at}".encode(), digest_size=32).digest()
            numbers = [int.from_bytes(seed[place : place + 8], "little") for place in range(0, 32, 8)]
            own = [str(self._least + one % self._span) for one in numbers[1:]]
            count, start = min(tokens - at, self._count), numbers[0] % self._count * self._width
            rest = self._tail[start : start + max(0, count - len(own)) * self._width - 1] if count > len(own) else ""
            parts.append(",".join([*own[:count], *([rest] if rest else [])]))
        return ",".join(parts)


class Bodies:
    """Request bodies whose prompts are random token ids, or in chat random letters, each a token.

    All ids have the same number of digits, the one that most ids of the vocabulary have, so that a prompt is a slice
    of text: making one disturbs no stream. The first tokens are the request's own, drawn from `salt`, so that no prefix
    cache is hit. In chat the server's template adds `template_tokens`; None: no chat.
    """

    def __init__(
        self, model: str, vocab_size: int, extra: Mapping[str, Any], salt: str, template_tokens: int | None = None
    ) -> None:
        self._is_chat = template_tokens is not None
        most = len(str(vocab_size - 1))
        spans = [(10 ** (digits - 1), min(vocab_size, 10**digits) - 1) for digits in range(1, most + 1)]
        self._least, self._most = max(spans, key=lambda span: span[1] - span[0])
        self._template_tokens, self._width = template_tokens, 1 if self._is_chat else len(str(self._least))
        self._salt, self._fields = salt, {"model": model, **extra}
        self._tail = self._prompt(random.Random(salt), TAIL_TOKENS)

    def _prompt(self, chance: random.Random, count: int) -> str:
        if self._is_chat:
            return " ".join(chance.choices(ascii_letters, k=count))
        return ",".join(str(chance.randint(self._least, self._most)) for _ in range(count))

    def body(self, index: int, input_tokens: int, output_tokens: int) -> bytes:
        """Return the body of the request of that index."""
        return self.body_of(self._salted(index, input_tokens), output_tokens)

    def tokens(self) -> Tokens:
        """Return the made tokens of conversations."""
        return Tokens(self._salt, self._tail, self._least, self._most)

    def _salted(self, index: int, input_tokens: int) -> str:
        own = input_tokens - (self._template_tokens or 0)
        salted = min(SALT_TOKENS, own)
        prompt = self._prompt(random.Random(f"{self._salt} {index}"), salted)
        if rest := own - salted:
            prompt += (" " if self._is_chat else ",") + self._tail[: rest * (self._width + 1) - 1]
        return prompt

    def body_of(self, prompt: str, output_tokens: int) -> bytes:
        """Return the body of a request with a prompt of token ids, or in chat of letters."""
        asked = {
            **self._fields,
            "max_tokens": output_tokens,
            "ignore_eos": True,  # alone: min_tokens next to it makes SGLang and vLLM mask logits in each step
            "temperature": 0,
            "stream": True,
        }
        last = f'"messages": [{{"role": "user", "content": "{prompt}"}}]' if self._is_chat else f'"prompt": [{prompt}]'
        return f"{json.dumps(asked)[:-1]}, {last}}}".encode()


def template_tokens(address: Address, model: str, least_tokens: int, limit_s: float) -> int:
    """Return how many tokens the server's chat template adds to a prompt, by the server's own count.

    Raises LoadError where a prompt of at least so many tokens cannot be as long as asked for: each letter must be one.
    """
    counts: list[int] = []
    for letters in (ascii_letters[:1], ascii_letters):
        messages = [{"role": "user", "content": " ".join(letters)}]
        try:
            status, text = address.ask(CHAT, {"model": model, "messages": messages, "max_tokens": 1}, limit_s)
            counts.append(int(json.loads(text)["usage"]["prompt_tokens"]))
        except OSError as error:
            raise LoadError(f"the server does not answer at {CHAT}: {error.strerror or error}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise LoadError(
                f"the server counts no prompt tokens at {CHAT}, so that no prompt has an exact length: HTTP status "
                f"{status}, {text.strip()[:MOST_LETTERS]}"
            ) from error
    made, letters_more = counts[1] - counts[0], len(ascii_letters) - 1
    if made != letters_more:
        raise LoadError(
            f"prompts of chat are letters, each a token, but the server makes {made} tokens of {letters_more}: "
            "measure it by completions"
        )
    if least_tokens < counts[0]:
        alone = f"the chat template alone takes {counts[0] - 1}"
        raise LoadError(f"a prompt of {least_tokens} tokens was asked for, but {alone}: ask for longer ones")
    return counts[0] - 1
