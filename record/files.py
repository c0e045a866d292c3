"""Rows of CSV files, names that look like others, and the error of a file that a user can fix."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

# Letters of Cyrillic and Greek with the shape of a Latin one (Unicode Technical Standard 39, confusables.txt).
LIKE_LATIN = (
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0408\u0405\u0417\u0423\u0430\u0435\u043e\u0440"
    "\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd\u03c1\u03c5\u03ba"
)
OWN_LETTERS = "ßæøœłđðþÆØŒŁĐÐÞ"  # Latin ones that are no plain letter with a mark


class RecordError(Exception):
    """A user's file cannot be used: one sentence with what was found and what to do."""


def csv_rows(path: Path, expected: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return the rows of a CSV file by the titles in its first line, which must be the expected ones if there are any.

    Raises ValueError for other titles, and for a row with another number of fields: a decimal comma moves later ones.
    """
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        titles, found = next(reader, []), []
        if expected and titles != [*expected]:
            raise ValueError(f"{path} has the titles {','.join(titles)!r:.80}, but needs {','.join(expected)}")
        for row in filter(None, reader):
            if len(row) != len(titles):
                raise ValueError(f"{path}, line {reader.line_num}: {len(row)} fields below {len(titles)} titles")
            found.append(dict(zip(titles, row, strict=True)))
    return found


@lru_cache(maxsize=1000)  # records repeat a few names
def odd_character(name: str) -> str:
    """Return the first character that makes a name look like another one, in words; empty without one.

    A word may have letters of one other script, unless all of them look like Latin ones, and any of East Asia.
    """
    if name != name.strip():
        return "a space at its begin or end"
    odd = [character for before, character in pairwise(f" {name}") if not _is_plain(character, before)]
    for word in re.findall(r"\w+", name):
        letters = [letter for letter in word if letter.isalpha() and unicodedata.east_asian_width(letter) != "W"]
        others = [letter for letter in letters if _script(letter) != "LATIN"]
        if others and (len(others) < len(letters) or set(others) <= set(LIKE_LATIN)):
            odd.append(others[0])
    return f"U+{ord(odd[0]):04X} {unicodedata.name(odd[0], 'without a name')}" if odd else ""


def _is_plain(character: str, before: str) -> bool:
    """Return whether a character is visible and no form of a plain one; marks belong to letters of their script."""
    if character.isascii():
        return character.isprintable()
    if unicodedata.category(character)[0] == "M":
        return _script(character) == _script(before)
    is_latin = _script(character) == "LATIN" and character not in OWN_LETTERS
    is_other_form = is_latin and not unicodedata.normalize("NFD", character)[0].isascii()
    is_known = unicodedata.category(character)[0] in "LS"  # letters and symbols
    return is_known and not is_other_form and unicodedata.normalize("NFKC", character) == character


def _script(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0]
