"""Formula of a buyer: arithmetic of named numbers, evaluated without running code."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence

from jpwr.messages import near
from results.find.records import RecordError

FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "sqrt": math.sqrt, "log": math.log}
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd)
ARITHMETIC = (*OPERATORS, ast.BinOp, ast.UnaryOp, ast.Name, ast.Load)
ALLOWED = f"numbers, terms, + - * / ** and {', '.join(FUNCTIONS)}"
LONGEST = 1000  # characters
STEP = 1e-6  # relative, of a numerical derivative


class Formula:
    """Formula such as `7.19 / R + 9.05 / B`."""

    def __init__(self, text: str, names: Sequence[str], where: str):
        """Parse the text; raises RecordError, with the file `where`, unless it is arithmetic of the names."""
        try:
            if len(text) > LONGEST:
                raise SyntaxError(f"it has more than {LONGEST} characters")
            tree = ast.parse(text.strip(), mode="eval")
            for node in ast.walk(tree.body):
                _check(node, names)
            self._code = compile(tree, where, "eval")
            self(dict.fromkeys(names, 1.0))  # a function with too few or too many terms is a TypeError
        except (SyntaxError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
            words = error.msg if isinstance(error, SyntaxError) else str(error)
            raise RecordError(f"{where}: {text!r} is not a formula: {words}") from error
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        if unused := [name for name in names if name not in used]:
            raise RecordError(f"{where}: the formula {text!r} does not use {' and '.join(unused)}")

    def __call__(self, values: Mapping[str, float]) -> float:
        """Return the value; `nan` if there is none, as for a division by zero."""
        try:
            value = eval(self._code, {"__builtins__": {}} | FUNCTIONS, dict(values))  # arithmetic alone, checked
        except (ArithmeticError, ValueError):
            return math.nan
        return value if isinstance(value, float) and math.isfinite(value) else math.nan

    def slopes(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the derivative with respect to the logarithm of each value."""
        return {
            name: (self({**values, name: value * math.exp(STEP)}) - self({**values, name: value * math.exp(-STEP)}))
            / (2 * STEP)
            for name, value in values.items()
        }


def _check(node: ast.AST, names: Sequence[str]) -> None:
    """Raise SyntaxError unless a part of a formula is arithmetic; a whole number becomes a float, whose powers end."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and math.isfinite(value):
            node.value = float(value)
        case ast.Name(id=name) if name not in (*names, *FUNCTIONS):
            raise SyntaxError(f"it has no term {name!r}: {near(name, sorted(names))}")
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            pass
        case _ if not isinstance(node, ARITHMETIC):
            raise SyntaxError(f"{ast.unparse(node) or type(node).__name__!r} is not one of {ALLOWED}")
