"""Findings on results: each is a kind with values; record/kinds.py has the sentence, meaning and remedy of each kind.

A module that finds something yields a `Finding`. Words are made where it is printed, and nothing searches in them.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from record.kinds import KINDS, Advice
from record.values import count, rounded

LACKING = "the record lacks the data"
NUMBER = re.compile(r"[-+±]?\d[\d.,]*")


@dataclass(frozen=True)
class Finding:
    """One finding: a kind of KINDS, and the values of its sentence in the order of their names."""

    kind: str
    values: tuple[tuple[str, Any], ...] = ()

    @property
    def topic(self) -> str:
        """Rule of an energy that this is the result of; empty for any other finding."""
        return KINDS[self.kind].topic

    @property
    def words(self) -> str:
        """The sentence without its topic."""
        sentence = KINDS[self.kind].sentence
        is_lacking = self.topic and not self.values and "{" in sentence
        return LACKING if is_lacking else _WORDS.vformat(sentence, (), dict(self.values))

    def __str__(self) -> str:
        return f"{self.topic}: {self.words}" if self.topic else self.words

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """The findings that it follows from."""
        return tuple(one for _, value in self.values if isinstance(value, tuple) for one in value)

    @property
    def advice(self) -> Advice:
        """Its meaning, with the remedy of what it follows from."""
        own = KINDS[self.kind].advice
        if not self.reasons:
            return own
        first = self.reasons[0].advice
        return own._replace(remedy=first.remedy, is_measurement=first.is_measurement)

    @property
    def alike(self) -> tuple[Any, ...]:
        """Equal for findings that differ in numbers alone."""
        texts = (without_numbers(value) for _, value in self.values if isinstance(value, str))
        return self.kind, *texts, *(one.alike for one in self.reasons)

    def as_data(self) -> dict[str, Any]:
        """Return it as a record holds it."""
        return {"kind": self.kind, "values": dict(self.values)}


def finding(kind: str, **values: Any) -> Finding:
    """Return a finding; raises KeyError for a kind without an entry in KINDS."""
    KINDS[kind]
    return Finding(kind, tuple(sorted(values.items())))


def from_data(data: Mapping[str, Any]) -> Finding:
    """Return a finding of a record; one of a kind that a newer version wrote is a note."""
    kind, values = str(data.get("kind")), data.get("values") or {}
    try:
        found = finding(kind, **values)
        return found if str(found) else finding("note", text=kind)
    except (KeyError, ValueError, TypeError):
        return finding("note", text=", ".join([kind, *(f"{name} {value}" for name, value in values.items())]))


def without_numbers(text: str) -> str:
    """Return a text with a sign in place of each number, equal for texts that differ in numbers alone."""
    return NUMBER.sub("#", text)


def joined(findings: Iterable[Finding]) -> str:
    """Return findings as one text."""
    return "; ".join(map(str, findings))


class _Words(string.Formatter):
    """Format of sentences: `{runs:number of run}` is `1 run` or `2 runs`, and findings among the values are joined."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value as its place in the sentence asks."""
        if isinstance(value, tuple):
            return joined(value)
        if format_spec == "digits":
            return rounded(value)
        noun = format_spec.removeprefix("number of ")
        return count(value, noun) if noun != format_spec else str(super().format_field(value, format_spec))


_WORDS = _Words()
