"""Ask a server with real weights for the probability of each token of a text that the suite has.

The text's tokens so far are the prompt, and the server lists the most likely next ones. Each server that lists the
log-probabilities of generated tokens by their ids can be asked, whether or not it lists those of prompts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.llm_inference.address import COMPLETIONS
from benchmarks.llm_inference.answers import answer_of
from benchmarks.llm_inference.client import Server
from benchmarks.llm_inference.servers import Program

TEXT = Path(__file__).with_name("text.txt")  # Darwin, On the Origin of Species, 1859: Project Gutenberg 1228
TOKENIZE = "/tokenize"
LISTED = 20  # tokens: as many as vLLM lists at most by default
LIMIT_S = 20.0  # for the whole text
OF_ID = "token_id:"  # before an id, in vLLM


def text() -> str:
    """Return the text."""
    return TEXT.read_text(encoding="utf-8").strip()


def most_tokens() -> int:
    """Return more tokens than the text has: in English, a token is longer than two letters."""
    return len(text()) // 2


def asked_text(server: Server, program: Program, reference: float | None) -> dict[str, Any]:
    """Return what is stored of the text: its places with the listed tokens, none if the server cannot be asked."""
    places: list[tuple[int, list[float]]] = []
    try:
        tokens, begun_s = _tokens(server, program), time.monotonic()
        for count in range(1, len(tokens)):
            places.append(_place(server, program, tokens[:count], tokens[count]))
            if time.monotonic() - begun_s > LIMIT_S:
                raise ValueError(f"it took longer than {LIMIT_S:g} s")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        print(f"the perplexity of the text is unknown: {error or type(error).__name__}", flush=True)
        places = []
    return {"places": places, "vocabulary": server.vocab_size, "reference": reference}


def _tokens(server: Server, program: Program) -> list[int]:
    if not program.text_field:
        raise ValueError("the server does not split text into tokens")
    body = {"model": server.model, **program.tokenize, program.text_field: text()}
    status, answer = server.address.ask(TOKENIZE, body)
    if status != 200:
        raise ValueError(f"{TOKENIZE} has HTTP status {status}")
    return [int(one) for one in json.loads(answer)["tokens"]]


def _place(server: Server, program: Program, prompt: Sequence[int], token: int) -> tuple[int, list[float]]:
    """Return the listed log-probabilities after a prompt, and which one is the token's; -1 for none."""
    asked = {"model": server.model, "prompt": prompt, "max_tokens": 1, "temperature": 0, "stream": False}
    choice = server.address.choice(COMPLETIONS, {**asked, "logprobs": LISTED, **program.request_of_text})
    found = {name.removeprefix(OF_ID): value for name, value in answer_of(choice).top[0].items()}
    if not found or not all(name.isdigit() for name in found):
        raise ValueError("the server lists no token ids")
    listed = {int(name): round(value, 6) for name, value in found.items()}
    return list(listed).index(token) if token in listed else -1, list(listed.values())
