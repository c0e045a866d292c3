"""Findings: each kind has its values and its advice, and a record keeps it as data."""

from __future__ import annotations

import json
import string

import pytest

from record.findings import finding, from_data
from record.kinds import KINDS


def _names_in(kind):
    return {name for _, name, _, _ in string.Formatter().parse(KINDS[kind].sentence) if name}


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_keeps_a_finding_as_data(kind):
    values = dict.fromkeys(_names_in(kind), "a text")
    try:
        one = finding(kind, **values)
        str(one)
    except (ValueError, TypeError):
        one = finding(kind, **dict.fromkeys(values, 2.5))
    stored = json.loads(json.dumps(one.as_data()))
    assert from_data(stored) == one
    assert str(from_data(stored)) == str(one) != ""
    assert one.advice.meaning.endswith(".")
    assert not one.advice.remedy.endswith(".")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"kind": "of_a_newer_version", "values": {"watts": 3}}, "of_a_newer_version, watts 3"),
        ({"kind": "drift", "values": {}}, "drift"),
        ({"kind": "drift", "values": {"change": "much"}}, "drift, change much"),
        ({}, "None"),
    ],
)
def test_a_finding_that_this_version_cannot_word_is_a_note(data, words):
    assert from_data(data) == finding("note", text=words)


def test_findings_differ_in_more_than_numbers_or_are_alike():
    heat, more, power = (
        finding("throttled", reason=reason, percent=percent).alike
        for reason, percent in (("heat", 4.0), ("heat", 9.0), ("power", 4.0))
    )
    assert heat == more != power
    assert (
        finding("note", text="node n1 burned").alike
        == finding("note", text="node n2 burned").alike
        != finding("note", text="node n1 froze").alike
    )


def test_a_finding_has_the_remedy_of_what_it_follows_from():
    own = finding("energy_left_out", reasons=(finding("is_estimate"),))
    of_idle = finding("energy_left_out", reasons=(finding("idle_power"),))
    assert own.advice.remedy == finding("is_estimate").advice.remedy != of_idle.advice.remedy
    assert own.advice.meaning == of_idle.advice.meaning == "A requirement is undecided."
    assert (str(own), str(of_idle)) == (
        "no energy that counts: it is an estimate from load, and no measurement",
        "no energy that counts: idle power: the record lacks the data",
    )
