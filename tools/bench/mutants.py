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
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
WHERE = ("record", "results/find", "results/points", "results/verdicts", "jpwr/energy", "jpwr/sampling")
PACKAGES = ("record", "results", "jpwr", "benchmarks", "caraml")
LIMIT_S = 60  # CPU time
WAITING = 30  # times as long on the clock: a mutant may wait for ever
COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
COMPARED |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


class Mutant(NamedTuple):
    """One mistake: the module, its source with the mistake, and what was changed."""

    module: Path
    source: str
    change: str


def mutants_of(module: Path) -> Iterator[tuple[Path, int]]:
    """Yield the place of each mistake that one operator, number or condition of a module can have."""
    for index, node in enumerate(ast.walk(ast.parse((ROOT / module).read_text()))):
        if mutated(node):
            yield module, index


def mutant_at(module: Path, index: int) -> Mutant:
    """Make the mistake in a node of a module."""
    tree = ast.parse((ROOT / module).read_text())
    node = list(ast.walk(tree))[index]
    assert isinstance(node, ast.expr)
    was = ast.unparse(node)
    mutated(node)
    return Mutant(module, ast.unparse(tree), f"{module}:{node.lineno}: {was} -> {ast.unparse(node)}")


def mutated(node: ast.AST) -> bool:
    """Put a mistake into a node; return False where it can have none."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        node.ops = [COMPARED[type(node.ops[0])](), *node.ops[1:]]
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED and not _is_text(node):
        node.op = COMPUTED[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node.op = ast.UAdd()
        node.operand = ast.Call(ast.Name("bool", ast.Load()), [node.operand], [])
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and type(node.value) is not bool:
        node.value = node.value * 2 + 1
    else:
        return False
    return True


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    is_text = any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in sides)
    return is_text or any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) for side in sides)


def tests_of(module: Path) -> list[str]:
    """Return the test files that import a module, then those of its package."""
    package, name = ".".join(module.parts[:-1]), module.stem
    imports = re.compile(rf"{package}\.{name}\b|from {package} import [^\n]*\b{name}\b")
    every = [path.relative_to(ROOT) for top in PACKAGES for path in sorted((ROOT / top).rglob("tests/test_*.py"))]
    nearest = [path for path in every if imports.search((ROOT / path).read_text())]
    of_package = [path for path in every if path.parts[0] == module.parts[0]]
    return list(map(str, dict.fromkeys([*nearest, *of_package])))


def run(tests: list[str], checkout: Path, *options: str) -> tuple[int, str]:
    """Run tests until the first failure; return the exit code, and the line that names what failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-m", "not slow and not long", *options, *tests]
    limited = partial(resource.setrlimit, resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 1))  # a busy machine changes nothing
    wide = {**os.environ, "COLUMNS": "200"}  # so that the line has the reason, too
    pytest = partial(subprocess.run, command, cwd=checkout, env=wide, preexec_fn=limited, timeout=WAITING * LIMIT_S)
    try:
        ended = pytest(capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return 0, ""
    failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return ended.returncode, (failed or [ended.stderr])[-1]


def found_by(mutant: Mutant, checkout: Path) -> str:
    """Return which test fails with the mutant in the checkout; empty if none does within the time."""
    place, tests = checkout / mutant.module, tests_of(mutant.module)
    sound = place.read_text()
    place.write_text(mutant.source)
    code, failed = run(tests, checkout, "--cache-clear")
    place.write_text(sound)
    if code <= 0:  # all pass, or the time ran out
        return ""
    code, without = run(tests, checkout, "--last-failed")
    if code:
        sys.exit(f"mutants: {without or failed!r}, also without a mutant: mend this first")
    return failed


def main() -> None:
    """Draw mutants and print which tests find them, and how many are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    modules = [path.relative_to(ROOT) for folder in WHERE for path in sorted((ROOT / folder).rglob("*.py"))]
    every = [place for module in modules if "tests" not in module.parts for place in mutants_of(module)]
    drawn = random.Random(options.seed).sample(every, min(options.number, len(every)))
    found, begin_s = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".git", ".venv", "build", "*_run"))
        for number, place in enumerate(drawn, 1):
            mutant = mutant_at(*place)
            failed = found_by(mutant, checkout)
            found += bool(failed)
            print(f"{number}/{len(drawn)} {mutant.change}\n  {failed or 'SURVIVED'}", flush=True)
    print(f"{found} of {len(drawn)} mutants found in {time.monotonic() - begin_s:.0f} s, seed {options.seed}")


if __name__ == "__main__":
    main()
