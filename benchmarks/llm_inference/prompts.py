"""Bodies of requests: prompts of exact lengths, never the same twice."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from string import ascii_letters
from typing import Any

from benchmarks.llm_inference.address import CHAT, MOST_LETTERS, Address, LoadError

TAIL_TOKENS = 1 << 16


class Bodies:
    """Request bodies whose prompts are random token ids, or in chat random letters, each a token.

    A prompt is a slice of one random text, begun by tokens of its own, so that making one disturbs no stream and no
    prefix cache is hit. All ids have the same number of digits, the one that most ids of the vocabulary have. In chat
    the server's template adds `template_tokens`; None: no chat.
    """

    def __init__(
        self, model: str, vocab_size: int, extra: Mapping[str, Any], salt: str, template_tokens: int | None = None
    ) -> None:
        most = len(str(vocab_size - 1))
        spans = [(10 ** (digits - 1), min(vocab_size, 10**digits) - 1) for digits in range(1, most + 1)]
        least, last = max(spans, key=lambda span: span[1] - span[0])
        self._words: Sequence[str] | range = range(least, last + 1)
        self._is_chat, self._separator = template_tokens is not None, ","
        if self._is_chat:
            self._words, self._separator = ascii_letters, " "
        self._width = len(str(self._words[0])) + 1
        self._salt, self._fields, self._template_tokens = salt, {"model": model, **extra}, template_tokens or 0
        tail = self._separator.join(map(str, random.Random(salt).choices(self._words, k=TAIL_TOKENS)))
        self._text = f"{tail}{self._separator}{tail}"  # a slice may begin anywhere

    def body(self, index: int, input_tokens: int, output_tokens: int) -> bytes:
        """Return the body of the request of that index."""
        return self.body_of(self.made(f"{index}", input_tokens - self._template_tokens), output_tokens)

    def made(self, key: str, tokens: int) -> str:
        """Return as many tokens, the same for the same key, and for fewer tokens the first of them."""
        parts = []
        for at in range(0, tokens, TAIL_TOKENS):
            seed = hashlib.blake2b(f"{self._salt} {key} {at}".encode(), digest_size=32).digest()
            start, *numbers = (int.from_bytes(seed[place : place + 8], "little") for place in range(0, 32, 8))
            count = min(tokens - at, TAIL_TOKENS)
            parts += [str(self._words[number % len(self._words)]) for number in numbers[:count]]
            if rest := max(0, count - len(numbers)) * self._width:
                begin = start % TAIL_TOKENS * self._width
                parts.append(self._text[begin : begin + rest - 1])
        return self._separator.join(parts)

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
