"""A framework takes seconds to import: not while tests are collected, as each of pytest's workers collects all."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """A module that is imported when a test first uses it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # as that for which pytest looks at each name of a module
            raise AttributeError(attribute)
        return getattr(import_module(self.name), attribute)
