"""Make mistakes in the code of numbers and verdicts, and print which of them the tests find.

`python -m tools.bench.mutants --number 60 --seed 1` draws mutants. Each is put into a copy of the checkout. The tests
that import its module, then all of its package, run until the first failure, for at most 60 s of CPU. What fails must
pass without the mutant; else nothing is counted.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WHERE = ("record", "results/find", "results/points", "results/verdicts", "jpwr/energy", "jpwr/sampling")
PACKAGES = ("record", "results", "jpwr", "benchmarks", "caraml")
LIMIT_S = 60  # CPU time
WAITING = 30  # times as long on the clock: a mutant may wait for ever
PAIRS = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot)),
    *((ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.And, ast.Or)),
)
OTHER: dict[type[ast.AST], Any] = {kind: other for pair in PAIRS for kind, other in (pair, pair[::-1])}  # operators


def mutated(node: ast.AST) -> bool:
    """Put a mistake into an operator, a condition or a number; return False where there can be none."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
        node.ops[0] = OTHER[type(node.ops[0])]()
    elif isinstance(node, ast.BoolOp) or (
        isinstance(node, ast.BinOp) and type(node.op) in OTHER and not _is_text(node)
    ):
        node.op = OTHER[type(node.op)]()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node.op = ast.UAdd()
        node.operand = ast.Call(ast.Name("bool", ast.Load()), [node.operand], [])
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and type(node.value) is not bool:
        node.value = node.value * 2 + 1
    else:
        return False
    return True


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def places(module: Path) -> list[tuple[Path, int]]:
    """Return the module with the number of each node that can have a mistake."""
    nodes = ast.walk(ast.parse((ROOT / module).read_text()))
    return [(module, number) for number, node in enumerate(nodes) if mutated(node)]


def mutant(module: Path, number: int) -> tuple[str, str]:
    """Return the source of a module with a mistake in one node, and what was changed."""
    tree = ast.parse((ROOT / module).read_text())
    node: Any = list(ast.walk(tree))[number]
    was = ast.unparse(node)
    mutated(node)
    return ast.unparse(tree), f"{module}:{node.lineno}: {was} -> {ast.unparse(node)}"


def tests_of(module: Path) -> list[str]:
    """Return the test files that import a module, then those of its package."""
    package, name = ".".join(module.parts[:-1]), module.stem
    imports = re.compile(rf"{package}\.{name}\b|from {package} import [^\n]*\b{name}\b")
    every = [path for top in PACKAGES for path in sorted((ROOT / top).rglob("tests/test_*.py"))]
    nearest = [path for path in every if imports.search(path.read_text())]
    of_package = [path for path in every if path.is_relative_to(ROOT / module.parts[0])]
    return [str(path.relative_to(ROOT)) for path in dict.fromkeys([*nearest, *of_package])]


def failure(tests: list[str], checkout: Path, *options: str) -> str:
    """Run tests until the first failure; return the line that names it, empty if all pass or the time runs out."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-m", "not slow and not long", *options, *tests]
    limited = partial(resource.setrlimit, resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 1))  # a busy machine changes nothing
    wide = {**os.environ, "COLUMNS": "200"}  # so that the line has the reason, too
    pytest = partial(subprocess.run, command, cwd=checkout, env=wide, preexec_fn=limited, timeout=WAITING * LIMIT_S)
    try:
        ended = pytest(capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return ""
    failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return (failed or [ended.stderr or "no reason"])[-1] if ended.returncode > 0 else ""


def found_by(module: Path, source: str, checkout: Path) -> str:
    """Return which test fails with another source of a module; empty if none does within the time."""
    place, tests = checkout / module, tests_of(module)
    sound = place.read_text()
    place.write_text(source)
    failed = failure(tests, checkout, "--cache-clear")
    place.write_text(sound)
    if failed and (without := failure(tests, checkout, "--last-failed")):
        sys.exit(f"mutants: {without!r}, also without a mutant: mend this first")
    return failed


def main() -> None:
    """Draw mutants and print which tests find them, and how many are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    modules = [path.relative_to(ROOT) for folder in WHERE for path in sorted((ROOT / folder).rglob("*.py"))]
    every = [place for module in modules if "tests" not in module.parts for place in places(module)]
    drawn = random.Random(options.seed).sample(every, min(options.number, len(every)))
    found, begin_s = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".git", ".venv", "build", "*_run"))
        for number, (module, node) in enumerate(drawn, 1):
            source, change = mutant(module, node)
            failed = found_by(module, source, checkout)
            found += bool(failed)
            print(f"{number}/{len(drawn)} {change}\n  {failed or 'SURVIVED'}", flush=True)
    print(f"{found} of {len(drawn)} mutants found in {time.monotonic() - begin_s:.0f} s, seed {options.seed}")


if __name__ == "__main__":
    main()
