"""Names of systems, workloads and models that look like others: by letters of other scripts, or by invisible ones."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Letters with the shape of another one (Unicode Technical Standard 39, confusables.txt), of Cyrillic and Greek.
LIKE_LATIN = (
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0408\u0405\u0417\u0423\u0430\u0435\u043e\u0440"
    "\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd\u03c1\u03c5\u03ba"
)
MAY_BE_MIXED = ("LATIN", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO")  # section 5.2: no letter looks Latin
OWN_LETTERS = "ßæøœłđðþÆØŒŁĐÐÞ"  # Latin ones without a mark that is apart


@lru_cache(maxsize=1000)  # records repeat a few names
def odd_character(name: str) -> str:
    """Return the first character that makes a name look like another one, in words; empty without one.

    A name in one other script is allowed, unless all its letters look like Latin ones.
    """
    if name != name.strip():
        return "a space at its begin or end"
    for word in re.findall(r"\w+", name):
        letters = [one for one in word if one.isalpha()]
        foreign = [one for one in letters if _script(one) not in MAY_BE_MIXED]
        if foreign and (len(foreign) < len(letters) or all(one in LIKE_LATIN for one in foreign)):
            return _in_words(foreign[0])
    before = " " + name
    return next((_in_words(one) for one, other in zip(name, before, strict=False) if _is_odd(one, other)), "")


def _is_odd(one: str, before: str) -> bool:
    """Return whether a character is invisible, or is another form of a plain one; a script's own marks are neither."""
    category = unicodedata.category(one)
    if category[0] == "M" and _script(one) == _script(before) != "COMBINING":
        return False
    if category[0] == "C" or (category[0] in "MZNP" and not one.isascii()) or unicodedata.normalize("NFKC", one) != one:
        return True
    has_plain_letter = unicodedata.normalize("NFD", one)[0].isascii() or one in OWN_LETTERS
    return _script(one) == "LATIN" and not has_plain_letter


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _in_words(one: str) -> str:
    return f"U+{ord(one):04X} {unicodedata.name(one, 'without a name')}"
