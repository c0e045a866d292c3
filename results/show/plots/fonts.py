"""Fonts of this machine for characters that the plots' own font lacks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWN = "DejaVu Sans"  # comes with matplotlib
PLACEHOLDERS = "Last Resort"  # a font that has a box for every character


def fonts_for(figure: Figure) -> list[str]:
    """Return fonts for all texts of a figure, the plots' own first."""
    return _fonts_and_missing(figure)[0]


def names_without_font(figure: Figure) -> list[str]:
    """Return the words of a figure with a character that no font of this machine has."""
    from matplotlib.text import Text

    missing = _fonts_and_missing(figure)[1]
    words = {word for text in figure.findobj(Text) for word in text.get_text().split()}
    return sorted(word for word in words if missing & set(word))


def _fonts_and_missing(figure: Figure) -> tuple[list[str], set[str]]:
    from matplotlib.text import Text

    missing = {char for text in figure.findobj(Text) for char in text.get_text() if not char.isspace()} - _own()
    families = [OWN]
    while missing:
        family, found = max(_covered(frozenset(missing)).items(), key=lambda item: len(item[1]), default=("", set()))
        if not found:
            break
        families.append(family)
        missing -= found
    return families, missing


@cache
def _own() -> frozenset[str]:
    from matplotlib import font_manager

    return frozenset(map(chr, font_manager.get_font(font_manager.findfont(OWN)).get_charmap()))


@cache
def _covered(chars: frozenset[str]) -> dict[str, set[str]]:
    """Return for each font of this machine which of some characters it has."""
    from matplotlib import font_manager

    found = {}
    for font in font_manager.fontManager.ttflist:
        if font.style == "normal" and PLACEHOLDERS not in font.name:
            try:
                codes = font_manager.get_font(font.fname).get_charmap()
            except (OSError, RuntimeError):  # one that was removed, or is none
                continue
            found[font.name] = {char for char in chars if ord(char) in codes}
    return found
