"""Make mistakes in the code of numbers and verdicts, and print which of them the tests find.

`python -m tools.bench.mutants --number 60 --seed 1` draws mutants. Each is put into a copy of the checkout, and the
tests that import its module, then all of its package, run until the first failure, for at most 60 s of CPU.
"""

from __future__ import annotations

import argparse
import ast
import copy
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
WHERE = ("results/record", "results/points", "results/verdicts", "jpwr/energy", "jpwr/sampling")
PACKAGES = ("results", "jpwr", "benchmarks", "caraml")
LIMIT_S = 60
COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
COMPARED |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


class Mutant(NamedTuple):
    """One mistake: the module, the number of the node that has it, and its line."""

    path: Path
    index: int
    line: int


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield each mistake that one operator, number or condition of a module can have."""
    for index, node in enumerate(ast.walk(ast.parse(path.read_text()))):
        if mutated(copy.copy(node)):
            yield Mutant(path, index, getattr(node, "lineno", 0))


def with_mutant(source: str, mutant: Mutant) -> str:
    """Return the source of a module with the mistake."""
    tree = ast.parse(source)
    mutated(next(node for index, node in enumerate(ast.walk(tree)) if index == mutant.index))
    return ast.unparse(tree)


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
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        node.value = node.value * 2 + 1
    else:
        return False
    return True


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) for side in (node.left, node.right))


def tests_of(module: Path) -> list[str]:
    """Return the test files that import a module, then those of its package."""
    package, name = ".".join(module.parts[:-1]), module.stem
    imports = re.compile(rf"{package}\.{name}\b|from {package} import [^\n]*\b{name}\b")
    every = [path.relative_to(ROOT) for top in PACKAGES for path in sorted((ROOT / top).rglob("tests/test_*.py"))]
    nearest = [path for path in every if imports.search((ROOT / path).read_text())]
    return [
        str(path) for path in dict.fromkeys([*nearest, *(path for path in every if path.parts[0] == module.parts[0])])
    ]


def is_found(mutant: Mutant, checkout: Path) -> bool:
    """Return whether a test fails with the mutant in the checkout; CPU time that runs out counts as not found."""
    module = mutant.path.relative_to(ROOT)
    place = checkout / module
    sound = place.read_text()
    place.write_text(with_mutant(sound, mutant))
    options = ["-q", "-x", "-n0", "-p", "no:cacheprovider", "-m", "not slow and not long"]
    command = [sys.executable, "-m", "pytest", *options, *tests_of(module)]
    limited = partial(resource.setrlimit, resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 1))  # a busy machine changes nothing
    ended = subprocess.run(command, cwd=checkout, capture_output=True, preexec_fn=limited)
    place.write_text(sound)
    return ended.returncode > 0


def main() -> None:
    """Draw mutants and print those that no test finds, and how many are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    modules = [path for folder in WHERE for path in sorted((ROOT / folder).rglob("*.py")) if "tests" not in path.parts]
    every = [mutant for path in modules for mutant in mutants_of(path)]
    drawn = chance.sample(every, min(options.number, len(every)))
    found, begin_s = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".git", ".venv", "build", "*_run"))
        for number, mutant in enumerate(drawn, 1):
            seen = is_found(mutant, checkout)
            found += seen
            place, line = mutant.path.relative_to(ROOT), mutant.path.read_text().splitlines()[mutant.line - 1].strip()
            print(f"{number}/{len(drawn)} {'found' if seen else 'SURVIVED'} {place}:{mutant.line}: {line}", flush=True)
    print(f"{found} of {len(drawn)} mutants found in {time.monotonic() - begin_s:.0f} s, seed {options.seed}")


if __name__ == "__main__":
    main()
