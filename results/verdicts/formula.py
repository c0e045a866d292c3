"""Formula of a buyer: arithmetic of named numbers, evaluated without running code."""

from __future__ import annotations

import ast
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence

from jpwr.messages import near
from results.files.typed_files import LARGEST
from results.find.records import RecordError

OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd)
FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "sqrt": math.sqrt, "log": math.log}
ARGUMENTS = {"min": (2, math.inf), "max": (2, math.inf), "sqrt": (1, 1), "log": (1, 2)}  # fewest and most
LONGEST = 1000  # characters
STEP = 1e-6  # relative, of a numerical derivative


class Formula:
    """Formula such as `7.19 / R + 9.05 / B`."""

    def __init__(self, text: str, names: Sequence[str], where: str):
        """Parse the text; raises RecordError, with the file `where`, unless it is arithmetic of the names."""
        self.text = text
        try:
            if len(text) > LONGEST:
                raise SyntaxError(f"it has more than {LONGEST} characters")
            self._tree = ast.parse(text.strip(), mode="eval").body
            self._names = {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)} - set(FUNCTIONS)
            _check(self._tree, set(names))
            self._code = compile(ast.Expression(_Floats().visit(self._tree)), where, "eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            words = error.msg if isinstance(error, SyntaxError) else str(error)
            raise RecordError(f"{where}: {text!r} is not a formula: {words}") from error
        unused = [name for name in names if name not in self._names]
        if unused:
            raise RecordError(f"{where}: the formula {text!r} does not use {' and '.join(unused)}")

    def __str__(self) -> str:
        return self.text

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


class _Floats(ast.NodeTransformer):
    """Makes whole numbers floats, whose powers cannot grow without end."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.copy_location(ast.Constant(float(node.value)), node)  # type: ignore[arg-type]


def _check(node: ast.AST, names: set[str]) -> None:
    match node:
        case ast.Constant(value=value) if isinstance(value, int | float) and not isinstance(value, bool):
            if not value < LARGEST:
                raise SyntaxError(f"{reprlib.repr(value)} is not a number below {LARGEST:g}")
        case ast.Name(id=name):
            if name not in names:
                raise SyntaxError(f"it has no term {name!r}: {near(name, sorted(names))}")
        case ast.UnaryOp(op=sign, operand=operand) if isinstance(sign, OPERATORS):
            _check(operand, names)
        case ast.BinOp(left=left, op=sign, right=right) if isinstance(sign, OPERATORS):
            _check(left, names)
            _check(right, names)
        case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]) if function in FUNCTIONS:
            least, most = ARGUMENTS[function]
            if not least <= len(arguments) <= most:
                raise SyntaxError(f"{ast.unparse(node)!r} has too {'few' if len(arguments) < least else 'many'} terms")
            for argument in arguments:
                _check(argument, names)
        case _:
            allowed = f"numbers, terms, + - * / ** and {', '.join(FUNCTIONS)}"
            raise SyntaxError(f"{ast.unparse(node)!r} is not one of {allowed}")
