"""Report mutmut's mutants of our code: the share that tests detect, and each that they do not.

Mutants that only change the spelling of a message are left out, as tests do not assert whole messages, and those of a
zip's `strict`, which never applies. tests/equivalent_mutants.yaml has the survivors without a visible effect, with the
reason. Exits with 1 if fewer than 85 % are detected, or if a survivor is not listed.
Usage: python scripts/mutants.py [FUNCTION ...]        (after `mutmut run`; FUNCTION: only survivors in these)
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import libcst
import yaml

FOLDER = Path("mutants")  # of mutmut
EQUIVALENT = Path("tests/equivalent_mutants.yaml")
WANTED = 0.85
OWN_NAME = re.compile(r"__mutmut_(orig|\d+)\b")
STRICT = re.compile(r"(, )?(strict=\w+)?(?=\))")
NOT_FOUND = {0, 33}  # exit codes: the tests passed, or none calls the function


class Mutant(NamedTuple):
    """Change of a function: the lines before and after."""

    function: str
    was: str
    now: str

    @property
    def is_left_out(self) -> bool:
        """Whether only the spelling of a text with spaces changes, or a zip's `strict`."""
        plain = [line.replace("XX", "").casefold() for line in (self.was, self.now)]
        is_spelling = plain[0] == plain[1] and any(" " in text for text in re.findall(r"\"([^\"]*)\"", self.was))
        return is_spelling or STRICT.sub("", self.was) == STRICT.sub("", self.now)


def main() -> int:
    """Print the report, and return the exit code."""
    known = {Mutant(name, one["was"], one["now"]) for name, changes in _equivalent().items() for one in changes}
    found = made = left = unexplained = 0
    for meta in sorted(FOLDER.rglob("*.meta")):
        codes = json.loads(meta.read_text())["exit_code_by_key"]
        mutants = [
            (one, codes[name]) for name, one in _mutants(meta.with_suffix(""), list(codes)) if not one.is_left_out
        ]
        run = [(one, code) for one, code in mutants if code is not None]
        alive = [one for one, code in run if code in NOT_FOUND]
        equivalent = sum(one in known for one in alive)
        print(f"{meta.relative_to(FOLDER).with_suffix('')}: {len(run) - len(alive)} of {len(run) - equivalent}")
        found, made = found + len(run) - len(alive), made + len(run) - equivalent
        left += len(mutants) - len(run)
        for one in alive:
            if one not in known and (len(sys.argv) == 1 or one.function in sys.argv[1:]):
                print(f"  {one.function}\n    was: {one.was}\n    now: {one.now}")
                unexplained += 1
    if not made:
        print("mutants: no mutant was run: run 'mutmut run' first", file=sys.stderr)
        return 2
    print(f"{found} of {made} mutants are detected: {found / made:.1%}" + (f"; {left} were not run" if left else ""))
    return int(found / made < WANTED or unexplained > 0)


def _equivalent() -> dict[str, list[dict[str, str]]]:
    return yaml.safe_load(EQUIVALENT.read_text()) or {}


def _mutants(source: Path, names: list[str]) -> Iterator[tuple[str, Mutant]]:
    """Yield the name and the change of each mutant, which mutmut's copy of a file has next to the original."""
    if not names:
        return
    module = libcst.parse_module(source.read_text())
    functions: dict[str, list[str]] = {}

    class Functions(libcst.CSTVisitor):
        def visit_FunctionDef(self, node: libcst.FunctionDef) -> None:  # noqa: N802
            functions[node.name.value] = OWN_NAME.sub("", module.code_for_node(node)).splitlines()

    module.visit(Functions())
    for name in names:
        mutant = name.rpartition(".")[2]
        original = mutant.rpartition("__mutmut_")[0]
        changed = [
            line
            for line in difflib.unified_diff(functions[f"{original}__mutmut_orig"], functions[mutant], n=0, lineterm="")
            if not line.startswith(("---", "+++", "@@"))
        ]
        was, now = (" ".join(line[1:].strip() for line in changed if line[0] == sign) for sign in "-+")
        yield name, Mutant(f"{name.rpartition('.')[0]}.{_plain(original)}", was, now)


def _plain(name: str) -> str:
    """Return a function's own name, from `x_name`, or from `xǁClassǁname` of a method."""
    return name[len("xǁ") :].replace("ǁ", ".") if name.startswith("xǁ") else name[len("x_") :]


if __name__ == "__main__":
    sys.exit(main())
