"""Ask a server the same questions when it is idle and under load, and a buyer's own ones under load."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from benchmarks.llm_inference.address import CHAT, COMPLETIONS, LoadError
from benchmarks.llm_inference.client import SILENT_S, Server
from benchmarks.llm_inference.config import Config
from benchmarks.llm_inference.load import DEATH_S
from benchmarks.llm_inference.prompts import Bodies
from benchmarks.llm_inference.stream import text_of
from record.answers import LISTED, Answer, Streamed
from record.served_rules import LEAST_E2E

PROMPT_TOKENS = ANSWER_TOKENS = 32
SEED = "answers"  # of prompts, which are the same in each run
MOST_AT_ONCE = 16  # threads that ask
SHARE_OF_WINDOW = 0.1  # of its least length, for asking
ROUNDS = 3  # of all questions: two of the idle server, and one under load
FEWEST = 4  # questions, however long they take
OF_LOAD = 8  # requests of the load that are asked again, at most
PARTS = 4  # of a prompt, of which each is changed once


class Questions:
    """Questions to a server; `stored` has the answers as the file of requests holds them.

    There are fewer than the options allow where a request takes long, `alone_s` by itself.
    """

    def __init__(self, server: Server, config: Config, alone_s: float, watch: Callable[[], None]) -> None:
        self._server, self._options, self._watch = server, config.answers, watch
        self._concurrency = min(config.load.concurrency, MOST_AT_ONCE)
        each_s = alone_s * ANSWER_TOKENS / max(output for _, output in config.load.lengths)
        can = int(SHARE_OF_WINDOW * max(config.window.min_s, LEAST_E2E * alone_s) / (ROUNDS * each_s))
        most = 0 if config.speculation.draft_tokens else config.answers.questions  # chance chooses tokens there
        self._count = min(most, max(FEWEST, can))
        self._is_chat = server.template_tokens is not None
        self._more: dict[str, Any] = {"logprobs": LISTED}
        if self._is_chat:
            self._more = {"logprobs": True, "top_logprobs": LISTED}
        self._bodies = Bodies(server.model, server.vocab_size, server.extra, SEED, server.template_tokens)
        self.stored: dict[str, Any] = {}

    def ask_idle(self) -> None:
        """Ask the idle server twice, one question after the other; leave out log-probabilities if it refuses them."""
        if not self._count:
            return
        try:
            self._ask(self._own(0))
        except LoadError:
            self._more = {}
        self.stored["idle"] = self._answers(1)
        self.stored["again"] = [one._replace(top=()) for one in self._answers(1)]

    def ask_loaded(self) -> None:
        """Ask while the load goes on, as many at once as requests are in flight, and the buyer's questions, too."""
        if self._count:
            self.stored["loaded"] = [one._replace(top=()) for one in self._answers(self._concurrency)]
        if asked := self._options.expected:
            texts = map(_text_of, self._every(self._concurrency, [self._text(prompt) for prompt, _ in asked]))
            self.stored["expected"] = [[wanted, text] for (_, wanted), text in zip(asked, texts, strict=True)]
            self.stored["reference"] = self._options.reference

    def ask_again(self, samples: Sequence[tuple[str, str]]) -> None:
        """Ask requests of the load again, in one piece and with their tokens, and with a part of the prompt changed.

        A server that tells streamed requests or long prompts from questions may answer them in another way.
        """
        if not self._count:
            return
        chosen = random.sample(samples, min(len(samples), max(FEWEST, min(OF_LOAD, self._concurrency))))
        bodies = []
        for body, _ in chosen:
            asked = {name: one for name, one in json.loads(body).items() if name not in self._server.of_turns}
            bodies.append({**asked, **self._server.extra, **self._more})
        changed = list(map(_changed, bodies[:PARTS], range(PARTS))) if self._more else []
        changes = [place for place, (one, other) in enumerate(zip(bodies, changed, strict=False)) if one != other]
        choices = list(self._every(MOST_AT_ONCE, [*bodies, *(changed[place] for place in changes)]))
        self.stored["load"] = [_streamed(one, arrived) for one, (_, arrived) in zip(choices, chosen, strict=False)]
        firsts = [answer_of(one).top[:1] for one in choices]
        pairs = zip((firsts[place] for place in changes), firsts[len(bodies) :], strict=True)
        self.stored["parts"] = [[*whole, *other] for whole, other in pairs if whole and other]

    def _answers(self, at_once: int) -> list[Answer]:
        found = [answer_of(one) for one in self._every(at_once, map(self._own, range(self._count)))]
        if not all(one.tokens for one in found):
            raise LoadError("a question on answers failed: its answer has no token")
        return found

    def _every(self, at_once: int, asked: Iterable[dict[str, Any]]) -> list[Mapping[str, Any]]:
        pool = ThreadPoolExecutor(at_once)
        try:
            return list(pool.map(self._ask, asked))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # a signal ends the server, for which threads may wait

    def _own(self, index: int) -> dict[str, Any]:
        length = PROMPT_TOKENS + (self._server.template_tokens or 0)
        return {**json.loads(self._bodies.body(index, length, ANSWER_TOKENS)), **self._more}

    def _text(self, prompt: str) -> dict[str, Any]:
        asked = {"messages": [{"role": "user", "content": prompt}]} if self._is_chat else {"prompt": prompt}
        most = {"max_tokens": self._options.expected_tokens, "temperature": 0}
        return {"model": self._server.model, **self._server.extra, **most, **asked}

    def _ask(self, asked: dict[str, Any]) -> Mapping[str, Any]:
        """Return the choice of an answer; raises LoadError."""
        asked = {name: value for name, value in asked.items() if name != "stream_options"} | {"stream": False}
        try:
            choice = self._server.address.choice(CHAT if self._is_chat else COMPLETIONS, asked, SILENT_S)
            answer_of(choice)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            if isinstance(error, OSError):
                time.sleep(DEATH_S)
                self._watch()
            raise LoadError(f"a question on answers failed: {getattr(error, 'strerror', '') or error}") from error
        return choice


def _streamed(choice: Mapping[str, Any], arrived: str) -> Streamed:
    answer = answer_of(choice, "token")
    found = Streamed(arrived, _text_of(choice), answer.tokens)
    is_listed = found.place is not None and found.place < len(answer.top)
    return found._replace(top=answer.top[found.place or 0] if is_listed else {})


def _changed(body: Mapping[str, Any], part: int) -> dict[str, Any]:
    """Return a request with other tokens in a part of its prompt, which are taken from it by chance."""
    prompt = body.get("prompt") or body["messages"][0]["content"].split(" ")
    begin, end = (len(prompt) * at // PARTS for at in (part, part + 1))
    other = [*prompt[:begin], *random.Random(part).choices(prompt, k=end - begin), *prompt[end:]]
    if "prompt" in body:
        return {**body, "prompt": other}
    return {**body, "messages": [{"role": "user", "content": " ".join(other)}]}


def _text_of(choice: Mapping[str, Any]) -> str:
    return choice.get("text") or text_of({"delta": choice.get("message")})


def answer_of(choice: Mapping[str, Any], name: str = "id") -> Answer:
    """Return the tokens of an answer, by either form of log-probabilities, or its letters where there are none.

    `name` is the field that names a token, or its text where there is no such field. Raises ValueError for a
    log-probability that is no number: it would compare with nothing.
    """
    listed = choice.get("logprobs") or {}
    if content := listed.get("content"):
        named = partial(_named, name)
        names, logprobs = zip(*map(named, content), strict=True)
        found = Answer(
            list(names), list(logprobs), [dict(map(named, one.get("top_logprobs") or ())) for one in content]
        )
    elif listed.get("tokens"):
        tops = [dict(one or {}) for one in listed.get("top_logprobs") or ()]
        found = Answer(list(listed["tokens"]), list(listed["token_logprobs"]), tops)
    else:
        return Answer(list(_text_of(choice)))
    if not all(math.isfinite(one) for one in (*found.logprobs, *(one for top in found.top for one in top.values()))):
        raise ValueError("log-probabilities are not finite")
    return found


def _named(name: str, token: Mapping[str, Any]) -> tuple[str, float]:
    return str(token.get(name, token["token"])), float(token["logprob"])
