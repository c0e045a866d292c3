"""Answers of a server under load, compared with those of the same server when idle and with what a buyer expects.

Pure arithmetic on stored answers: no clock, no files, no socket. The client computes it, and `verify` again.

Batching changes the order of sums, and rounding then chooses another token where the best ones are about equally
likely (He et al. 2025, https://thinkingmachines.ai/blog/defeating-nondeterminism-in-llm-inference). All tokens after
the first difference follow from it, so that only the first one is judged.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from jpwr.intervals import LEVEL, students_t
from record.findings import Finding, finding
from record.model import Record

# Of the reference: MLPerf Inference 6.0, inference_policies at ac93e89, accuracy of most workloads.
LEAST_RIGHT = 0.99
# Most likely tokens that are asked for, as many as the completions API gives. vLLM's own tests take two answers as
# equal where each token that differs is among the other's five most likely ones (check_logprobs_close). The place in
# that list is of use for weights of any scale, also for random ones, whose tokens are all about equally likely.
LISTED = 5
# Of two tokens' log-probabilities. bfloat16 has 8 binary digits: logits from 16 to 32 are 0.125 apart, and each of the
# two may be off by two such steps, by its own rounding and by that of the layers before.
MOST_GAP = 0.5
# Of the agreement in the idle server's repeats, where log-probabilities are unknown. If rounding changes one token in
# 25, more than half of 32 tokens come before the first change; a server that loses its context changes the first ones.
LEAST_AGREEMENT = 0.5

ROUNDED = 1e-3  # by which rounding may put the logarithm of a probability above 0


# Of the agreement of the questions under load, by answers of the load whose tokens are not known. Eight of another
# model agree in a few letters, and 1 in 50 times as little by rounding alone.
LEAST_OF_LOAD = 0.2
BEGINNING = 32  # tokens of an answer of the load that are then compared, as many as a question's answer has
WEIGHTS = ("url", "model_path", "real_weights")  # options of a server with weights that know a text
MOST_LISTED = 1.01  # sum of listed probabilities, which are rounded
LEAST_REST = 1e-9  # of the probability, for the tokens that are not listed: rounding may leave less than nothing
UNREADABLE = "\ufffd", "bytes:"  # in a token that is a part of a character


class Answer(NamedTuple):
    """Tokens of an answer, or letters where the server lists none; empty log-probabilities are unknown."""

    tokens: list[str]
    logprobs: Sequence[float] = ()
    top: Sequence[Mapping[str, float]] = ()  # log-probabilities of the most likely tokens at each place

    def same(self, other: Answer) -> int:
        """Return how many tokens are equal up to the first difference."""
        pairs = enumerate(zip(self.tokens, other.tokens, strict=False))
        return next((at for at, (ours, theirs) in pairs if ours != theirs), min(len(self.tokens), len(other.tokens)))

    def agreement(self, other: Answer) -> float:
        """Return the share of tokens that are equal up to the first difference."""
        return self.same(other) / max(1, len(self.tokens), len(other.tokens))

    def gap(self, other: Answer) -> float:
        """Return how much less likely the first other token is than the best one; infinite if it is not listed."""
        at = self.same(other)
        if at == len(self.tokens) == len(other.tokens):
            return 0.0
        listed = self.top[at] if at < min(len(self.tokens), len(other.tokens), len(self.top)) else {}
        return max(listed.values()) - listed[other.tokens[at]] if listed and other.tokens[at] in listed else math.inf

    @property
    def is_possible(self) -> bool:
        """Whether all log-probabilities are of probabilities, at most 1 but for rounding."""
        listed = (*self.logprobs, *(one for top in self.top for one in top.values()))
        return all(one <= ROUNDED for one in listed)

    def change(self, other: Answer) -> float | None:
        """Return the mean change of the log-probabilities of equal tokens; None without any."""
        pairs = list(zip(self.logprobs, other.logprobs, strict=False))[: self.same(other)]
        return statistics.fmean(theirs - ours for ours, theirs in pairs) if pairs else None


class Streamed(NamedTuple):
    """Answer of the load, and what the same request gave when it was asked again, in one piece with its tokens."""

    arrived: str
    again: str
    tokens: Sequence[str]
    top: Mapping[str, float] = {}  # log-probabilities of the most likely tokens at the first difference

    @property
    def same(self) -> int:
        """Number of letters that are equal up to the first difference; white space at the ends aside."""
        return Answer(list(self.arrived.strip())).same(Answer(list(self.again.strip())))

    @property
    def place(self) -> int | None:
        """Place of the first token that differs; None if there is none, or tokens do not tell."""
        arrived, again, joined = self.arrived.strip(), self.again.strip(), "".join(self.tokens).lstrip()
        if (
            arrived == again
            or not joined.startswith(again[: self.same + 1])
            or UNREADABLE[0] in (arrived[self.same : self.same + 1], again[self.same : self.same + 1])
        ):
            return None
        skipped = len("".join(self.tokens)) - len(joined)
        return bisect_right(list(accumulate(map(len, self.tokens))), self.same + skipped)

    @property
    def gap(self) -> float | None:
        """How much less likely the first other token is than the best one; infinite if not listed, None if unknown."""
        if self.arrived.strip() == self.again.strip():
            return 0.0
        if self.place is None or not self.top:
            return None
        whole = "".join(self.tokens)
        begun = len("".join(self.tokens[: self.place]))
        rest = (whole[: len(whole) - len(whole.lstrip())] + self.arrived.strip())[begun:]
        others = [value for name, value in self.top.items() if name and rest.startswith(name)]
        if not others and any(not name or name.startswith(UNREADABLE) for name in self.top):
            return None
        return max(self.top.values()) - max(others) if others else math.inf

    @property
    def agreement(self) -> float:
        """Share of the beginning that is equal up to the first difference."""
        letters = max(1, len(self.again.strip()) * BEGINNING // max(BEGINNING, len(self.tokens)))
        return min(1.0, self.same / letters)


def facts_of(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a run's answers, as its file has them: `idle`, `again` and `loaded`, each of all questions.

    `likelihood` is that of equal tokens under load over that of the idle server, with its 95 % interval: the inverse
    ratio of perplexities. `expected` has each of the buyer's questions with whether it was answered right.
    """
    found: dict[str, Any] = {}
    if stored.get("idle"):
        of_questions = zip(stored["idle"], stored["again"], stored["loaded"], strict=True)
        idle, again, loaded = zip(*([Answer(*one) for one in three] for three in of_questions), strict=True)
        found |= {
            "questions": len(idle),
            "agreement": statistics.fmean(map(Answer.agreement, idle, loaded)),
            "repeat_agreement": statistics.fmean(map(Answer.agreement, idle, again)),
            "has_logprobs": all(one.top for one in idle) and all(one.is_possible for one in (*idle, *again, *loaded)),
        }
        if empty := sum(not one.tokens for one in (*idle, *again, *loaded)):
            found["empty"] = empty
        if found["has_logprobs"]:
            for name, others in (("wrong", loaded), ("repeat_wrong", again)):
                found[name] = sum(gap > MOST_GAP for gap in map(Answer.gap, idle, others))
            found |= _likelihood(idle, loaded)
    if stored.get("load"):
        load = [Streamed(*one) for one in stored["load"]]
        differences = [one.gap for one in load]
        unknown = [one.agreement for one, gap in zip(load, differences, strict=True) if gap is None]
        found |= {"load_questions": len(load), "load_unknown": len(unknown)}
        found["load_wrong"] = sum(gap is not None and gap > MOST_GAP for gap in differences)
        found["load_agreement"] = statistics.fmean(unknown) if unknown else 1.0
        found["parts"] = len(stored["parts"])
        found["unread"] = sum(whole == changed for whole, changed in stored["parts"])
    if expected := stored.get("expected"):
        right = sum(wanted.casefold() in answer.casefold() for wanted, answer in expected)
        found |= {"expected": len(expected), "right": right, "reference": stored["reference"]}
    if text := stored.get("text"):  # without a perplexity if the server could not be asked, or lists more than all
        places, reference = text["places"], text["reference"]
        found["perplexity_tokens"] = len(places)
        if places and max(math.fsum(map(math.exp, listed)) for _, listed in places) <= MOST_LISTED:
            found["perplexity"] = perplexity(places, text["vocabulary"])
            found |= {"perplexity_reference": reference} if reference else {}
    return found


def _likelihood(idle: Sequence[Answer], loaded: Sequence[Answer]) -> dict[str, float]:
    """Return the ratio of likelihoods of a token; tokens of one answer depend on each other, and answers do not."""
    known = [change for change in map(Answer.change, idle, loaded) if change is not None]
    if len(known) < 2:
        return {}
    mean = statistics.fmean(known)
    half = students_t(LEVEL, len(known) - 1) * statistics.stdev(known) / math.sqrt(len(known))
    ends = {"": mean, "_low": mean - half, "_high": mean + half}
    return {f"likelihood{name}": math.exp(one) for name, one in ends.items()}


def judged(facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield why a server's answers are wrong, and a remark on what could not be checked."""
    questions = facts.get("questions", 0)
    if facts.get("empty"):
        yield finding("answers_empty", empty=facts["empty"])
    if questions and not facts.get("has_logprobs"):
        yield finding("no_logprobs")
        loaded, repeated = (facts.get(name, 0.0) for name in ("agreement", "repeat_agreement"))
        if loaded < LEAST_AGREEMENT * repeated:
            yield finding("answers_unlike", agreement=loaded, repeat_agreement=repeated, least=LEAST_AGREEMENT)
    most = (1 - LEAST_RIGHT) * questions
    if (varied := facts.get("repeat_wrong", 0)) > most:
        yield finding("answers_vary", wrong=varied, questions=questions)
    if (wrong := facts.get("wrong", 0)) > most:
        yield finding("answers_wrong", wrong=wrong, questions=questions, most=MOST_GAP, listed=LISTED)
    if questions := facts.get("load_questions", 0):
        is_unknown = 2 * facts["load_unknown"] >= questions
        wrong = facts["load_wrong"]
        if is_unknown and facts["load_agreement"] < LEAST_OF_LOAD * facts["agreement"]:
            wrong = questions
        if wrong > (1 - LEAST_RIGHT) * questions:
            yield finding("load_wrong", wrong=wrong, questions=questions)
        if facts["unread"]:
            yield finding("prompt_unread", unread=facts["unread"], parts=facts["parts"])
    if facts.get("likelihood_high", 1.0) < LEAST_RIGHT or facts.get("likelihood_low", 1.0) > 1 / LEAST_RIGHT:
        yield finding("answers_unlikely", likelihood=facts["likelihood"], least=LEAST_RIGHT, most=1 / LEAST_RIGHT)
    least = LEAST_RIGHT * facts.get("reference", 0.0)
    if facts.get("expected") and facts["right"] < least * facts["expected"]:
        yield finding("answers_below", right=facts["right"], expected=facts["expected"], least=least)
    yield from _judged_text(facts)


def perplexity(places: Sequence[tuple[int, Sequence[float]]], vocabulary: int) -> float:
    """Return the perplexity over places of a text; each has the listed log-probabilities, and which one is the text's.

    That is -1 for a token that is not listed. A server lists the log-probabilities of its most likely next tokens, and
    not that of any token. All others are taken to share the rest of the probability evenly. This is a distribution
    itself, so that its logarithmic score is a proper one (Gneiting and Raftery 2007, doi:10.1198/016214506000001437).
    It differs from the model's own perplexity, and is compared only with that of the same text and the same number of
    listed tokens.
    """
    return math.exp(-statistics.fmean(_logprob(at, listed, vocabulary) for at, listed in places))


def _logprob(at: int, listed: Sequence[float], vocabulary: int) -> float:
    if at >= 0:
        return listed[at]
    rest = max(LEAST_REST, 1 - math.fsum(map(math.exp, listed)))
    return math.log(rest / max(1, vocabulary - len(listed)))


def not_checked(record: Record, facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield which checks the options of a run ask for, and its answers do not have."""
    if record.serving.speculation:
        return
    pairs = (("questions", "questions"), ("questions_file", "expected"))
    if any(record.option(f"answers.{option}") and not facts.get(name) for option, name in pairs):
        yield finding("answers_unknown")
    has_weights = any(record.option(f"serve.{name}") for name in WEIGHTS)
    if record.option("answers.perplexity") and has_weights and "perplexity_tokens" not in facts:
        yield finding("perplexity_unknown")


def _judged_text(facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield why a server's weights or arithmetic are wrong, and a remark on what could not be checked."""
    found, reference = facts.get("perplexity"), facts.get("perplexity_reference")
    if found is None:
        if "perplexity_tokens" in facts:
            yield finding("perplexity_unknown")
    elif reference is None:
        yield finding("perplexity_unjudged", perplexity=found)
    elif not LEAST_RIGHT <= (likelihood := reference / found) <= 1 / LEAST_RIGHT:
        ends = {"least": LEAST_RIGHT, "most": 1 / LEAST_RIGHT}
        yield finding("perplexity_differs", perplexity=found, reference=reference, likelihood=likelihood, **ends)
