"""Files that people write, read as dataclasses: what a type allows, and the sentence for what it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from record.files import RecordError
from results.files.typed_files import (
    Above0,
    From0,
    From1,
    Name,
    NotNegative,
    Text,
    filled,
    like,
    no_keys,
    read_file,
    untyped,
    value_as,
)
from results.files.yaml_files import Quoted

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

    guests: Annotated[Mapping[str, Guest], {"minProperties": 1}]
    rooms: tuple[str, ...] = ()
    notes: Annotated[tuple[Guest, ...], {"title": "note"}] = ()
    prices: Mapping[Cake, Above0] = no_keys()
    host: Guest | None = None


@pytest.mark.parametrize(
    ("kind", "found", "value"),
    [
        (From1, "8", 8),
        (From1, "020000", 20000),  # 8192 by YAML 1.1
        (NotNegative, "1.500e3", 1500.0),
        (Above0, "80.0000", 80.0),
        (Ratio, "2", 2),
        (Ratio, Quoted("2"), "2"),  # quotes make it a text where a text is allowed
        (bool, "false", False),
        (str, "5", "5"),
        (Date, "2026-11-02", "2026-11-02"),
        (tuple[str, ...], ["a"], ("a",)),
        (Mapping[str, float], {"1": "2"}, {"1": 2}),
        (Any, ["1", None], ["1", None]),
    ],
)
def test_a_value_is_what_its_type_makes_of_its_text(kind, found, value):
    made = value_as(kind, found, "a.yaml", "key")
    assert (made, type(made)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "found", "sentence"),
    [
        (From1, "0", "is 0, but must be a whole number from 1 on"),
        (From1, Quoted("8"), "is '8', but must be a whole number from 1 on"),
        (From0, "true", "is True, but must be a whole number from 0 on"),
        (NotNegative, ".nan", "is '.nan', but must be a number from 0 on"),
        (NotNegative, "1e400", "is inf, but must be a number from 0 on"),
        (Above0, "80.000", "is 80.000, where the point may separate thousands or decimals: write 80000 or 80.0000"),
        (Share, "1.1", "is 1.1, but must be a number above 0 and at most 1"),
        (Ratio, "6", "is 6, but must be a number from 1 on and at most 5 or a text"),
        (str, ["1"], "is [1], but must be a text"),
        (Text, " ", "is ' ', but must be a text"),
        (Cake, "aple", "is 'aple', but must be one of plum, apple, cherry: did you mean 'apple'?"),
        (Annotated[str, like("a+", "some a")], "baa", "is 'baa', but must be some a"),
        (Date, "2026-02-30", "is '2026-02-30', but must be such as 2026-11-02"),
        (tuple[str, ...], "1", "is 1, but must be a list"),
    ],
)
def test_what_its_type_does_not_allow_is_a_sentence(kind, found, sentence):
    with pytest.raises(RecordError) as error:
        value_as(kind, found, "a.yaml", "key")
    assert str(error.value) == f"a.yaml: key {sentence}"


def test_a_name_that_looks_like_another_is_refused():
    with pytest.raises(RecordError, match="AD\u0410' has U\\+0410 CYRILLIC CAPITAL LETTER A: names must not look like"):
        value_as(Name, "AD\u0410", "a.yaml", "key")


def test_without_a_type_a_text_in_quotes_stays_one():
    found = {"a": ["1", Quoted("1"), "true", Quoted("true"), "x", "0.5"]}
    assert untyped(found) == {"a": [1, "1", True, "true", "x", 0.5]}


ADA = {"ADA": {"age": "5"}}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "a lacks 'guests'"),
        ({"guests": {}}, "a: guests is {}, but must be keys with their values"),
        ({"guest": ADA}, "a has an unknown key 'guest': did you mean 'guests'?"),
        ({"guests": {"ADA": "5"}}, "a, guest ADA: '5' is not a mapping with the keys age, cake"),
        ({"guests": {"AD\u0410": {}}}, "a, guests: 'AD\u0410' has U+0410 CYRILLIC CAPITAL LETTER A"),
        ({"guests": {"ADA": {"age": "2", "cake": "cherry"}}}, "a, guest ADA: cherries have stones"),
        ({"guests": ADA, "prices": {"pear": "1"}}, "a, prices has an unknown key 'pear': choose one of plum"),
        ({"guests": ADA, "prices": {"plum": "0"}}, "a, prices: plum is 0, but must be a number above 0"),
        ({"guests": ADA, "notes": [{"age": "-1"}]}, "a, note 1: age is -1, but must be a whole number from 0 on"),
    ],
)
def test_a_mistake_in_a_block_is_a_sentence_with_its_place(values, sentence):
    with pytest.raises(RecordError) as error:
        filled(Party, values, "a")
    assert str(error.value).startswith(sentence)


def test_a_key_without_a_value_is_one_that_is_left_out(tmp_path):
    (tmp_path / "a.yaml").write_text("guests: {ADA: {age: 5, cake: }}\nrooms:\nprices:\nhost:\n")
    assert read_file(Party, tmp_path / "a.yaml", "a party") == Party({"ADA": Guest("ADA", 5)})


@pytest.mark.parametrize(
    ("text", "sentence"), [("a: [", " cannot be read as a party: line 2: "), ("- 1", " is not a file of a party")]
)
def test_a_mistake_in_a_file_is_one_sentence(tmp_path, text, sentence):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(RecordError) as error:
        read_file(Party, tmp_path / "a.yaml", "a party")
    assert str(error.value).startswith(f"{tmp_path / 'a.yaml'}{sentence}")
