"""What mutmut found: of the mistakes that it made in our code, the share that tests find, and each that they do not.

Left out are mistakes that spell a text for people in other letters, as most texts are in no test to the letter, and
those of a zip's `strict`, which refuses what never comes. A survivor that changes nothing that anybody could see stands
in tests/equivalent_mutants.yaml with the reason. Ends with 1 where fewer than 85 % are found, or a survivor stands
nowhere.
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

FOLDER = Path("mutants")  # where mutmut works
EQUIVALENT = Path("tests/equivalent_mutants.yaml")
WANTED = 0.85
OWN_NAME = re.compile(r"__mutmut_(orig|\d+)\b")
STRICT = re.compile(r"(, )?(strict=\w+)?(?=\))")
NOT_FOUND = {0, 33}  # exit codes: the tests passed, or none calls the function


class Mutant(NamedTuple):
    function: str
    was: str
    now: str

    @property
    def is_left_out(self) -> bool:
        """Whether a text with spaces has its letters in another case, or is between marks, or a zip is less strict."""
        plain = [line.replace("XX", "").casefold() for line in (self.was, self.now)]
        is_spelling = plain[0] == plain[1] and any(" " in text for text in re.findall(r"\"([^\"]*)\"", self.was))
        return is_spelling or STRICT.sub("", self.was) == STRICT.sub("", self.now)


def main() -> int:
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
        print("mutants: no mutant was run: 'mutmut run' comes first", file=sys.stderr)
        return 2
    print(f"{found} of {made} mistakes are found: {found / made:.1%}" + (f"; {left} were not tried" if left else ""))
    return int(found / made < WANTED or unexplained > 0)


def _equivalent() -> dict[str, list[dict[str, str]]]:
    return yaml.safe_load(EQUIVALENT.read_text()) or {}


def _mutants(source: Path, names: list[str]) -> Iterator[tuple[str, Mutant]]:
    """By their names, what mutants changed; mutmut's copy of a file has each as a function beside the original."""
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
    """A function's own name, from `x_name`, or from `xǁClassǁname` of a method."""
    return name[len("xǁ") :].replace("ǁ", ".") if name.startswith("xǁ") else name[len("x_") :]


if __name__ == "__main__":
    sys.exit(main())
