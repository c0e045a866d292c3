"""Names in scripts that the plots' own font lacks: by another font of this machine, else by the characters' codes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWN = "DejaVu Sans"  # comes with matplotlib
PLACEHOLDERS = "Last Resort"  # a font that has a box for every character


def fonts_for(figure: Figure) -> tuple[list[str], set[str]]:
    """Fonts for all texts of a figure, the plots' own first, and the characters that none of them has."""
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
    """Which of some characters each font of this machine has."""
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


def code_of(char: str) -> str:
    return char.encode("unicode_escape").decode()


def canvas_with_codes(figure: Figure, chars: Iterable[str]) -> Any:
    """A canvas that draws these characters as their codes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg

    codes = str.maketrans({char: code_of(char) for char in chars})

    class Renderer(RendererAgg):
        def draw_text(self, gc: Any, x: Any, y: Any, s: str, *rest: Any, **more: Any) -> None:
            super().draw_text(gc, x, y, s.translate(codes), *rest, **more)  # type: ignore[no-untyped-call]

        def get_text_width_height_descent(self, s: str, *rest: Any) -> Any:
            return super().get_text_width_height_descent(s.translate(codes), *rest)  # type: ignore[no-untyped-call]

    class Canvas(FigureCanvasAgg):
        def get_renderer(self) -> Any:
            key = (*self.figure.bbox.size, self.figure.dpi)
            if getattr(self, "key", None) != key:
                self.renderer, self.key = Renderer(*key), key  # type: ignore[no-untyped-call]
            return self.renderer

    return Canvas(figure)
