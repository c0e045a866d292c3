"""Files that people write, read as dataclasses: what a type allows, and the sentence for what it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from record.files import RecordError
from record.part import Allowed
from results.files.typed_files import (
    FILLED,
    Above0,
    Date,
    From0,
    From1,
    Name,
    NotNegative,
    Plain,
    Text,
    YamlError,
    filled,
    like,
    no_keys,
    read_file,
    read_yaml,
    reader,
    untyped,
)

Share = Annotated[float, Allowed("above 0 and at most 1", lambda share: 0 < share <= 1)]
Ratio = Annotated[float, Allowed("a number from 1 to 5", lambda ratio: 1 <= ratio <= 5)] | str
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

    guests: Annotated[Mapping[str, Guest], FILLED]
    rooms: tuple[str, ...] = ()
    notes: tuple[Guest, ...] = ()
    prices: Mapping[Cake, Above0] = no_keys()
    host: Guest | None = None


def written(folder: Path, text: str) -> Any:
    (folder / "a.yaml").write_text(text)
    return read_yaml(folder / "a.yaml")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (From1, "8", 8),
        (From1, "020000", 20000),  # 8192 by YAML 1.1
        (NotNegative, "1.500e3", 1500.0),
        (Above0, "80.0000", 80.0),
        (Ratio, "2", 2),
        (Ratio, "2.000", 2.0),  # 2000 is not allowed
        (Ratio, "'2'", "2"),  # quotes make it a text where a text is allowed
        (bool, "false", False),
        (str, "5", "5"),
        (Date, "2026-11-02", "2026-11-02"),
        (tuple[str, ...], "[a]", ("a",)),
        (Mapping[str, float], "{1: 2}", {"1": 2}),
        (Any, "[1, null]", ["1", None]),
    ],
)
def test_a_value_is_what_its_type_makes_of_its_text(kind, text, value, tmp_path):
    made = reader(kind)(written(tmp_path, text), "a.yaml", "key")
    assert (made, type(made)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        (From1, "0", "is 0, but must be a whole number from 1 on"),
        (From1, "'8'", "is '8', but must be a whole number from 1 on"),
        (From0, "true", "is True, but must be a whole number from 0 on"),
        (NotNegative, ".nan", "is '.nan', but must be a number from 0 on"),
        (From0, "9" * 5000, "is inf, but must be a whole number from 0 on"),
        (NotNegative, "1e400", "is inf, but must be a number from 0 on"),
        (Above0, "80.000", "is 80.000, where the point may separate thousands or decimals: write 80000 or 80.0000"),
        (Share, "1.1", "is 1.1, but must be above 0 and at most 1"),
        (Ratio, "6", "is 6, but must be a number from 1 to 5 or a text"),
        (str, "[1]", "is [1], but must be a text"),
        (Text, "' '", "is ' ', but must be a text that is not empty: it has a space at its begin or end"),
        (Cake, "aple", "is 'aple', but must be one of plum, apple, cherry: did you mean 'apple'?"),
        (Annotated[str, like("a+", "some a")], "baa", "is 'baa', but must be some a"),
        (Date, "2026-02-32", "is '2026-02-32', but must be such as 2026-11-02"),
        (tuple[str, ...], "1", "is 1, but must be a list"),
    ],
)
def test_what_its_type_does_not_allow_is_a_sentence(kind, text, sentence, tmp_path):
    with pytest.raises(RecordError) as error:
        reader(kind)(written(tmp_path, text), "a.yaml", "key")
    assert str(error.value) == f"a.yaml: key {sentence}"


def test_a_name_that_looks_like_another_is_refused():
    with pytest.raises(RecordError, match="names must not look like others: it has U\\+0410 CYRILLIC CAPITAL LETTER A"):
        reader(Name)("AD\u0410", "a.yaml", "key")


def test_without_a_type_a_text_in_quotes_stays_one(tmp_path):
    found = written(tmp_path, "{a: [1, '1', true, 'true', x, 0.5]}")
    assert untyped(found) == {"a": [1, "1", True, "true", "x", 0.5]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}", "a lacks 'guests'"),
        ("{guests: {}}", "a: guests is {}, but must be keys with their values"),
        ("{guest: {ADA: {age: 5}}}", "a has an unknown key 'guest': did you mean 'guests'?"),
        ("{guests: {ADA: 5}}", "a, guests: ADA is 5, but must be keys with their values"),
        ("{guests: {AD\u0410: {}}}", "a, guests: a key is 'AD\u0410', but must be a text in plain letters"),
        ("{guests: {ADA: {age: 2, cake: cherry}}}", "a, guests, ADA: cherries have stones"),
        ("{guests: {ADA: {age: 5}}, prices: {pear: 1}}", "a, prices: a key is 'pear', but must be one of plum"),
        ("{guests: {ADA: {age: 5}}, prices: {plum: 0}}", "a, prices: plum is 0, but must be a number above 0"),
        ("{guests: {ADA: {age: 5}}, notes: [{age: -1}]}", "a, notes 1: age is -1, but must be a whole number"),
    ],
)
def test_a_mistake_in_a_block_is_a_sentence_with_its_place(text, sentence, tmp_path):
    with pytest.raises(RecordError) as error:
        filled(Party, written(tmp_path, text), "a")
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


@pytest.mark.parametrize("text", ["010", "1:30", "NO", "true", "2e4", "1_000", "2026-01-01", "~", "="])
def test_a_value_is_as_it_is_written(tmp_path, text):
    (tmp_path / "a.yaml").write_text(f"key: {text}\nlist: [{text}]\nquoted: '{text}'\n")
    found = read_yaml(tmp_path / "a.yaml")
    assert found == {"key": text, "list": [text], "quoted": text}
    assert [type(found[key]) for key in ("key", "quoted")] == [Plain, str]


@pytest.mark.parametrize("text", ["", "null", "Null"])
def test_null_is_nothing(tmp_path, text):
    (tmp_path / "a.yaml").write_text(f"key: {text}\n")
    assert read_yaml(tmp_path / "a.yaml") == {"key": None}


def test_a_block_may_take_in_another_and_nodes_know_their_lines(tmp_path):
    (tmp_path / "a.yaml").write_text("a: &one {x: 010}\nb: {<<: *one, y: 2}\n")
    assert read_yaml(tmp_path / "a.yaml")["b"] == {"x": "010", "y": "2"}
    assert read_yaml(tmp_path / "a.yaml", as_nodes=True).value[1][0].start_mark.line == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"key: !!int x", ""),
        (b"key: !!python/name:os.system x", ""),
        (b"key: \x00", ""),
        (b"a: 1\nkey: [1", "line 3: "),
        (b"key: &a [*a]", "contains itself"),
        (b"key: 1\nkey: 2", "line 2: 'key' is written twice, first in line 1"),
        (b"key: \xa3", "not in UTF-8"),
    ],
)
def test_what_is_no_value_is_a_sentence(tmp_path, content, words):
    (tmp_path / "a.yaml").write_bytes(content)
    with pytest.raises(YamlError) as error:
        read_yaml(tmp_path / "a.yaml")
    assert words in str(error.value)
    assert "\n" not in str(error.value)
