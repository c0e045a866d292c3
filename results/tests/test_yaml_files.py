"""YAML in which each value is a text as written, and every mistake is a sentence."""

from __future__ import annotations

import pytest

from results.files.yaml_files import Plain, YamlError, read_yaml


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
