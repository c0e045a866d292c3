"""YAML by the rules of its version 1.2, which say what a person means."""

from __future__ import annotations

import math

import pytest

from results.files.yaml_files import Quoted, YamlError, read_nodes, read_yaml

# YAML 1.2.2, section 10.3.2; what version 1.1 makes of the same is in the comments.
VALUES = {
    "020000": 20000,  # 8192
    "010": 10,  # 8
    "-010": -10,
    "0o17": 15,  # a text
    "0x1F": 31,
    "1:30": "1:30",  # 90
    "1:30:00": "1:30:00",
    "NO": "NO",  # false
    "on": "on",
    "y": "y",
    "true": True,
    "2e4": 20000.0,  # a text
    "1.5E+3": 1500.0,
    "1e-3": 0.001,
    ".5": 0.5,
    "5.": 5.0,
    "1_000": "1_000",  # 1000
    "0b11": "0b11",  # 3
    "2026-01-01": "2026-01-01",  # a date
    "null": None,
    "~": None,
    "": None,
    "-.inf": -math.inf,
    "'010'": Quoted("010"),
    "=": "=",
    "7": 7,
}


@pytest.mark.parametrize(("text", "value"), VALUES.items())
def test_a_value_is_what_yaml_1_2_says(tmp_path, text, value):
    (tmp_path / "one.yaml").write_text(f"key: {text}\nlist: [{text}]\n")
    found = read_yaml(tmp_path / "one.yaml")["key"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("text", [*VALUES, "Null"])
def test_as_text_a_value_is_as_it_is_written_and_null_is_nothing(tmp_path, text):
    (tmp_path / "one.yaml").write_text(f"key: {text}\n")
    expected = None if text.lower() in ("", "null") else text.strip("'")
    assert read_yaml(tmp_path / "one.yaml", as_text=True)["key"] == expected


def test_a_block_may_take_in_another_and_nodes_know_their_lines(tmp_path):
    (tmp_path / "one.yaml").write_text("a: &one {x: 010}\nb: {<<: *one, y: 2}\n")
    assert read_yaml(tmp_path / "one.yaml")["b"] == {"x": 10, "y": 2}
    assert read_nodes(tmp_path / "one.yaml").value[1][0].start_mark.line == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"key: !!int x", ""),
        (b"key: !!python/name:os.system x", ""),
        (b"key: " + b"9" * 5000, ""),
        (b"key: \x00", ""),
        (b"key: [1", ""),
        (b"key: " + b"[" * 100 + b"]" * 100, "nested in more than"),
        (b"key: 1\nkey: 2", "'key' is written twice, first in line 1"),
        (b"key: \xa3", "not in UTF-8"),
    ],
)
def test_what_is_no_value_is_a_sentence(tmp_path, content, words):
    (tmp_path / "one.yaml").write_bytes(content)
    with pytest.raises(YamlError) as error:
        read_yaml(tmp_path / "one.yaml")
    assert words in str(error.value)
    assert "\n" not in str(error.value)
