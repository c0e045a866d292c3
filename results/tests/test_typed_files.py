"""Files that people write, read as dataclasses: what a type allows, and the sentence for what it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from record.errors import RecordError
from results.files.typed_files import (
    Above0,
    From0,
    From1,
    NotNegative,
    Text,
    filled,
    like,
    no_keys,
    read_file,
    value_as,
)

Date = Annotated[str, {"format": "date"}]
Share = Annotated[float, {"exclusiveMinimum": 0, "maximum": 1}]
Ratio = Annotated[float | str, {"minimum": 1, "maximum": 5}]
Cake = Literal["plum", "apple", "cherry"]


@dataclass(frozen=True)
class Guest:
    """Guest, whose name is the key of its block."""

    ADDED = ("name",)
    name: str
    age: From0
    cake: Cake = "plum"

    def check(self, where: str) -> None:
        """Refuse what does not go together."""
        if self.cake == "cherry" and self.age < 3:
            raise RecordError(f"{where}: cherries have stones")


@dataclass(frozen=True)
class Party:
    """File of a party."""

    guests: Annotated[Mapping[str, Guest], {"minProperties": 1, "examples": [{"ADA": {"age": 5}}]}]
    rooms: tuple[str, ...] = ()
    notes: Annotated[tuple[Guest, ...], {"title": "note"}] = ()
    prices: Mapping[Cake, Above0] = no_keys()
    host: Guest | None = None


@pytest.mark.parametrize(
    ("kind", "found", "value"),
    [
        (From1, 8, 8),
        (From1, "8", 8),
        (From1, 0, "is 0, but must be a whole number from 1 on"),
        (From0, 0, 0),
        (From0, True, "is True, but must be a whole number from 0 on"),
        (From0, "-1", "is '-1', but must be"),
        (NotNegative, 2, 2),
        (NotNegative, "1.5e3", 1500.0),
        (NotNegative, float("nan"), "is nan, but must be a number from 0 to below 1e+30"),
        (Above0, 0, "must be a number above 0"),
        (Share, 1, 1),
        (Share, 1.1, "must be a number above 0 and at most 1"),
        (Ratio, "any", "any"),
        (Ratio, "2", "2"),  # quotes make it a text where a text is allowed
        (Ratio, 6, "must be a number from 1 to 5 or a text"),
        (bool, False, False),
        (bool, 0, "must be true or false"),
        (str, "", ""),
        (str, 5, "is 5, but must be a text"),
        (str, [1, 4], "is [1, 4], but must be a text: did you mean '1 4'?"),
        (NotNegative, [-1, 4, 2], "must be a number from 0 to below 1e+30: did you mean '4' or '2'?"),
        (Text, " ", "is ' ', but must be a text"),
        (str | None, None, "is None, but must be a text"),
        (Cake, "aple", "is 'aple', but must be one of plum, apple, cherry: did you mean 'apple'?"),
        (Annotated[str, like("a+", "some a")], "baa", "is 'baa', but must be some a"),
        (Date, "2026-11-02", "2026-11-02"),
        (Date, "2026-02-30", "is '2026-02-30', but must be such as 2026-11-02"),
        (tuple[str, ...], ["a"], ("a",)),
        (tuple[str, ...], ["a", 1], "is 1, but must be a text"),
        (Mapping[str, float], {1: 2}, {"1": 2}),
        (Any, [1, None], [1, None]),
    ],
)
def test_a_value_is_what_its_type_allows(kind, found, value):
    if isinstance(value, str) and ("must be" in value or value.startswith("is ")):
        with pytest.raises(RecordError) as error:
            value_as(kind, found, "a.yaml", "key")
        assert str(error.value).startswith("a.yaml: key is ") and value in str(error.value)
    else:
        made = value_as(kind, found, "a.yaml", "key")
        assert (made, type(made)) == (value, type(value))


ADA = {"ADA": {"age": 5}}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "a has no guests: write 'guests: {ADA: {age: 5}}'"),
        ({"guests": {}}, "a has no guests: write"),
        ({"guests": [1]}, "a has no guests: write"),
        ({"guest": ADA}, "a has an unknown key 'guest': did you mean 'guests'?"),
        ({"guests": {"ADA": 5}}, "a, guest ADA: 5 is not a mapping with the keys age, cake"),
        ({"guests": {"ADA": {"name": "A"}}}, "a, guest ADA has an unknown key 'name': choose one of age, cake"),
        ({"guests": {"ADA": {}}}, "a, guest ADA lacks 'age'"),
        ({"guests": {"ADA": {"age": 2, "cake": "cherry"}}}, "a, guest ADA: cherries have stones"),
        ({"guests": ADA, "prices": {"pear": 1}}, "a, prices has an unknown key 'pear': choose one of plum"),
        ({"guests": ADA, "prices": {"plum": 0}}, "a, prices: plum is 0, but must be a number above 0"),
        ({"guests": ADA, "notes": [{"age": -1}]}, "a, note 1: age is -1, but must be a whole number from 0 on"),
        ({"guests": ADA, "host": {"age": "old"}}, "a, host: age is 'old', but must be a whole number"),
        ([], "a: [] is not a mapping with the keys guests, rooms"),
    ],
)
def test_a_mistake_in_a_block_is_a_sentence_with_its_place(values, sentence):
    with pytest.raises(RecordError) as error:
        filled(Party, values, "a")
    assert str(error.value).startswith(sentence)


def test_a_block_without_a_value_is_one_that_is_left_out(tmp_path):
    (tmp_path / "a.yaml").write_text("guests: {ADA: {age: 5}}\nrooms:\nprices:\nhost:\n")
    assert read_file(Party, tmp_path / "a.yaml", "a party") == Party({"ADA": Guest("ADA", 5)})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", " cannot be read as a party: line 2: "),
        ("- 1", " is not a file of a party: it holds [1]"),
        (
            "guests: {ADA: {age: '5'}}",
            ", guest ADA: age is '5', but must be a whole number",
        ),
        ("guests: {ADA: {age: .nan}}", ", guest ADA: age is nan, but must be a whole number"),
        ("guests: {ADA: {age: 1}}\nprices: {plum: 1.0e+400}", ", prices: plum is inf, but must be a number above 0"),
        ("guests: {ADA: {age: 1}}\nprices: {plum: 10.000}", ", prices: plum is 10.000, where the point may separate"),
        ("guests: {AD\u0410: {age: 1}}", ", guests: 'AD\u0410' has U+0410 CYRILLIC CAPITAL LETTER A"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence(tmp_path, text, sentence):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(RecordError) as error:
        read_file(Party, tmp_path / "a.yaml", "a party")
    assert str(error.value).startswith(f"{tmp_path / 'a.yaml'}{sentence}")


@pytest.mark.parametrize("text", ["0.125", "1.25", "80.0", "80000", "1.1234", "1.250e+3"])
def test_a_number_that_can_mean_one_thing_alone_is_taken(tmp_path, text):
    (tmp_path / "a.yaml").write_text(f"guests: {{ADA: {{age: 5}}}}\nprices: {{plum: {text}}}")
    assert read_file(Party, tmp_path / "a.yaml", "a party").prices == {"plum": float(text)}
