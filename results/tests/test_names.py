"""Names that look like others."""

from __future__ import annotations

import pytest

from record.files import odd_character


@pytest.mark.parametrize(
    "name",
    [
        "H200",
        "GPT-175B_v2 (bf16), 25 °C ± 1",
        "МГУ",
        "Łódź",
        "東京TSUBAME",
        "ที่",
    ],
)
def test_a_name_in_plain_letters_or_one_other_script_is_taken(name):
    assert odd_character(name) == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("\u0421\u0422\u041e", "U+0421 CYRILLIC CAPITAL LETTER ES"),
        ("\u0410pple", "U+0410 CYRILLIC CAPITAL LETTER A"),
        ("\u0261pt", "U+0261 LATIN SMALL LETTER SCRIPT G"),
        ("\u041d200", "U+041D CYRILLIC CAPITAL LETTER EN"),
        ("H\u0662", "U+0662 ARABIC-INDIC DIGIT TWO"),
        ("H\uff1200", "U+FF12 FULLWIDTH DIGIT TWO"),
        ("GPT\u2013175B", "U+2013 EN DASH"),
        ("gpt\u200b", "U+200B ZERO WIDTH SPACE"),
        ("gpt\u093e", "U+093E DEVANAGARI VOWEL SIGN AA"),
        ("gpt\x07", "U+0007 without a name"),
        (" H200", "a space at its begin or end"),
    ],
)
def test_a_character_that_makes_a_name_look_like_another_is_named(name, words):
    assert odd_character(name) == words
