"""The commands of the documentation: run, or looked up; docs/howto/change_the_documentation.md lists which.

The site is built, too.

Where one fails, correct the page, or the program; one that needs a site belongs into a block `sh site`.
"""

from __future__ import annotations

import functools
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
import yaml

from caraml import cli
from caraml.cli import main
from caraml.plan.site import KEYS
from caraml.plan.tags import known_tags
from jpwr.backends import METHODS
from record.demand import SLOS
from results.files.systems import read_systems
from results.files.workloads import workloads
from tests.conftest import REPOSITORY, SHIPPED, make_checkout, run_in_place_of_training
from tests.needs import need
from tests.waiting import PATIENCE_S

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.long

PAGES = ["README.md", "CONTRIBUTING.md", "jpwr/README.md", "ioprof/README.md"]
PAGES += sorted(str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("docs/**/*.md"))
TEXTS = {page: (REPOSITORY / page).read_text() for page in PAGES}
MOST_LINES = 120  # of README.md

# What stands in a block `sh` and is not run here, and what runs it.
RUN_BY = {
    "make": ".ci/run: make setup, demo, test (lint and its tier) and test-skipped",
    "jube run": "tests/test_workflow.py; here one short sweep is shared by all pages",
    "pytest": "make test",
    "ruff": "make lint",
    "mypy": "make lint",
    "git": "nothing: a copy of the checkout is no repository",
}
PAGES_RUN_BY = dict.fromkeys(("docs/howto/add_a_system.md", "docs/howto/add_a_workload.md"), "tests/test_tutorial.py")

# Pages of the first steps; most others make reports, and are run by `make test-all`.
RUN_FIRST = r"README|CONTRIBUTING|docs/tutorial/|(run_a_sweep|hand_in_a_result|measure_a_program|run_by_hand)\.md"

OURS = ("caraml", "ioprof", "jpwr", "jube", "make", "pip", "pytest", "python", "python3", "torchrun")
AROUND_A_COMMAND = {"jpwr": ("list", "read"), "ioprof": ("read", "build")}  # and what else they do
OTHERS = (
    "./my_program",
    "scripts/try_release.sh",
    "apt-get",
    "cat",
    "cp",
    "echo",
    "export",
    "git",
    "kubectl",
    "mypy",
    "podman",
    "ruff",
    "sbatch",
    "sh",
    "sleep",
    "ssh-keygen",
    "towncrier",
)
VARIABLES = {*(f"CARAML_{key.upper()}" for key in KEYS), "UPDATE_GOLDEN", "IOPROF_LIBRARY", "CARAML_REQUIRE_ALL"}
BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
INLINE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
INCLUDED = re.compile(r"^```\{include\} (.*)$", re.MULTILINE)


class Block(NamedTuple):
    """A block of code of a page: the words after the fence, its first line's number, its text."""

    kind: str
    line: int
    text: str


class Command(NamedTuple):
    """One command of a page, with the comment above it."""

    where: str
    text: str
    comment: str = ""


class WrongCommand(Exception):
    """A sentence on a command that names what is not there."""


def blocks(text: str) -> list[Block]:
    return [Block(found[1], text.count("\n", 0, found.start(2)) + 1, found[2]) for found in BLOCK.finditer(text)]


def commands(page: str, text: str, *kinds: str) -> Iterator[Command]:
    """Yield the commands in blocks of some kinds; one that continues in the next line is one command."""
    for block in blocks(text):
        if block.kind in kinds:
            line, comment = block.line, ""
            for whole in re.findall(r"(?:.*\\\n)*.*\n", block.text):
                if whole.startswith("#"):
                    comment += whole
                else:
                    if words := whole.replace("\\\n", " ").strip():
                        yield Command(f"{page}:{line}", words, comment)
                    comment = ""
                line += whole.count("\n")


def prose(page: str, text: str) -> Iterator[Command]:
    """Commands of ours that are named in a sentence or a table."""
    outside = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    for found in INLINE.finditer(outside):
        words = found[1].split()
        if len(words) > 1 and words[0] in OURS:
            line = outside.count("\n", 0, found.start()) + 1
            yield Command(f"{page}:{line}", found[1])


def look_up(text: str) -> None:
    """Raise WrongCommand where a command names a program, flag, file, tag, target or extra that is not there."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    parts: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("&|;"):
            parts.append([])
        else:
            parts[-1].append(word)
    for words in parts:
        while words and (found := re.match(r"([A-Z_]+)=", words[0])):
            _known(found[1], VARIABLES, "variable")
            words = words[1:]
        if words:
            _look_up_words([word.removeprefix(".venv/bin/") for word in words])


def _known(name: str, names, what: str) -> None:
    if name not in names:
        raise WrongCommand(f"there is no {what} {name}, but {', '.join(sorted(names))}")


def _file(name: str) -> None:
    if not (REPOSITORY / name).exists():
        raise WrongCommand(f"there is no file {name}")


def _look_up_words(words: list[str]) -> None:
    program, *rest = words
    _known(program, (*OURS, *OTHERS), "known program")
    for word in rest:
        top = word.partition("/")[0]
        is_made = re.match(r"data/|jube/\w+_run", word) or re.search(r"\.(png|html|pdf|zip)$", word)
        if re.fullmatch(r"\w[\w./-]*/[\w./-]+", word) and (REPOSITORY / top).is_dir() and not is_made:
            _file(word)
        if re.search(r"\.example\.\w+$", word):
            _file(word)
    if program in OURS and not rest:
        raise WrongCommand(f"{program} needs to be told what to do")
    if program == "caraml":
        _known(
            rest[0],
            {"--help", "--version"}.union(*cli.commands().values()),
            "command of caraml",
        )
        _look_up_flags(("caraml", rest[0]), rest[1:])
        images = yaml.safe_load((REPOSITORY / "containers" / "images.yaml").read_text())
        if rest[0] == "image" and not set(rest) & set(images):
            raise WrongCommand(f"there is no such image, but {', '.join(images)}")
    elif program in AROUND_A_COMMAND:
        _look_up_tool(program, rest)
    elif program == "jube":
        _look_up_jube(rest)
    elif program == "make":
        _look_up_make(rest)
    elif program == "pip":
        _look_up_pip(rest)
    elif program in ("python", "python3", "torchrun"):
        _look_up_module(program, rest)


def _look_up_tool(program: str, rest: list[str]) -> None:
    module = ("python3", "-m", program)
    if rest[0] in AROUND_A_COMMAND[program]:
        _look_up_flags((*module, rest[0]), rest[1:])
        return
    own, command = (rest[: rest.index("--")], rest[rest.index("--") + 1 :]) if "--" in rest else (rest, [])
    _look_up_flags(module, own)
    if command:
        _look_up_words(command)


def _look_up_module(program: str, rest: list[str]) -> None:
    if "-m" not in rest:
        raise WrongCommand("start a module with -m, which can be looked up")
    at = rest.index("-m") + 1
    if program == "torchrun":
        _look_up_flags(("python3", "-m", "torch.distributed.run"), rest[: at - 1])
    if rest[at] in AROUND_A_COMMAND:
        _look_up_tool(rest[at], rest[at + 1 :])
        return
    _look_up_flags(("python3", "-m", rest[at]), rest[at + 1 :])


def _look_up_jube(rest: list[str]) -> None:
    workflows = {
        f"jube/{path.name}": re.search(r"^name: (\w+)$(?:.|\n)*^outpath: (\w+)$", path.read_text(), re.MULTILINE)
        for path in REPOSITORY.glob("jube/*.yaml")
    }
    _look_up_flags(("jube", rest[0]), rest[1:])
    if rest[0] != "run":
        if rest[1:]:
            _known(rest[1], {f"jube/{found[2]}" for found in workflows.values()}, "folder of a workflow")
        return
    if rest == ["run"]:  # named in a sentence
        return
    _known(rest[1], workflows, "workflow")
    tags = rest[rest.index("--tag") + 1 :]
    known = known_tags(REPOSITORY / "jube", workflows[rest[1]][1])
    for tag in tags:
        _known(tag, known, f"tag of {rest[1]}")
    if len(systems := set(tags) & set(read_systems())) != 1:
        raise WrongCommand(f"give exactly one system's tag, not {len(systems)}")


def _look_up_make(rest: list[str]) -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    for word in rest:
        name, is_variable, value = word.partition("=")
        if is_variable:
            _known(name, re.findall(r"\$\(([A-Z]+)\)", makefile), "variable")
            if name == "SYSTEM":
                _known(value, read_systems(), "system")
        else:
            _known(name, re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE), "target")


def _look_up_pip(rest: list[str]) -> None:
    for word in rest[1:]:
        if found := re.fullmatch(r"(\.[^\[]*)(?:\[(.*)\])?", word):
            project = tomllib.loads((REPOSITORY / found[1] / "pyproject.toml").read_text())["project"]
            for extra in (found[2] or "").split(","):
                if extra:
                    _known(extra, project["optional-dependencies"], "extra")


def _look_up_flags(program: tuple[str, ...], words: list[str]) -> None:
    """Each flag is in the program's help, and so is its value where the help lists all."""
    told = _help(program)
    for index, word in enumerate(words):
        if not word.startswith("-"):
            continue
        flag, _, value = word.partition("=")
        if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", told):
            raise WrongCommand(f"{' '.join(program)} has no flag {flag}")
        choices = re.search(rf"(?<![\w-]){re.escape(flag)} {{([^}}]*)}}", told)
        if choices:
            _known(value or words[index + 1], choices[1].split(","), f"value of {flag}")
        if flag == "--system" and program[0] == "caraml":
            _known(value or words[index + 1], read_systems(), "system")


@functools.cache
def _help(program: tuple[str, ...]) -> str:
    if program[0] == "caraml":
        return _help_of_caraml(program[1:])
    environ = {**os.environ, "COLUMNS": "1000", "PYTHONPATH": str(REPOSITORY), "PATH": _path()}
    done = subprocess.run([*program, "--help"], env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode:
        raise WrongCommand(f"{' '.join(program)} is not there: {done.stderr.strip()}")
    return done.stdout


def _help_of_caraml(words: tuple[str, ...]) -> str:
    told, errors = io.StringIO(), io.StringIO()
    with mock.patch.dict(os.environ, COLUMNS="1000"), redirect_stdout(told), redirect_stderr(errors):
        try:
            main([*words, "--help"])
        except SystemExit as ended:
            if ended.code:
                raise WrongCommand(f"caraml {' '.join(words)} is not there: {errors.getvalue().strip()}") from ended
    return told.getvalue()


def _path() -> str:
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


class Prepared:
    """A copy of the checkout with two runs of a short sweep, and an archive; each command is run once in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = make_checkout(folder)
        run_in_place_of_training(self.folder, f"python3 {self.folder}/tests/quick_run.py")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("CARAML_", "JPWR_"))}
        self.environ = {**kept, "PATH": _path(), "PYTHONPATH": str(self.folder)}
        self.run = functools.cache(self._run)
        sweep = self.run("CARAML_DEVICES=1 CARAML_BATCHES=8 jube run jube/llm.yaml --tag CPU synthetic")
        assert sweep.returncode == 0, sweep.stdout + sweep.stderr
        runs = self.folder / "jube" / "llm_run"
        shutil.copytree(runs / "000000", runs / "000001")
        archive = self.run("caraml archive jube/llm_run -o results.zip")
        assert archive.returncode == 0, archive.stderr

    def _run(self, text: str) -> subprocess.CompletedProcess[str]:
        shell = ["bash", "-euo", "pipefail", "-c", text]
        return subprocess.run(
            shell, cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=PATIENCE_S
        )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, jube_command):
    return Prepared(tmp_path_factory.mktemp("docs") / "caraml")


def is_run_elsewhere(text: str) -> bool:
    words = [word for word in shlex.split(text) if not re.match("[A-Z_]+=", word)]
    return any(f"{' '.join(words)} ".startswith(f"{name} ") for name in RUN_BY)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if re.search(RUN_FIRST, page) else pytest.mark.slow)
        for page in PAGES
        if page not in PAGES_RUN_BY
    ],
)
def test_every_command_of_a_page_works(page, prepared):
    if page == "ioprof/README.md":
        need("cc")
    for where, text, comment in commands(page, TEXTS[page], "sh"):
        if is_run_elsewhere(text):
            continue
        done = prepared.run(text)
        codes = {int(code) for code in re.findall(r"\bwith ([1-9])\b", comment)}
        allowed = codes | ({0} if "where" in comment or not codes else set())
        told = f"{where}: '{text}' ended with exit code {done.returncode}:\n{done.stdout[-2000:]}{done.stderr}"
        assert done.returncode in allowed, f"{told}\ncorrect it; one that needs a site belongs into a block 'sh site'"
        assert "Traceback" not in done.stderr, told


@pytest.mark.parametrize("page", PAGES)
def test_what_every_command_of_a_page_names_is_there(page):
    found = []
    kinds = () if page in PAGES_RUN_BY else ("sh", "sh site")
    for where, text, _ in [*commands(page, TEXTS[page], *kinds), *prose(page, TEXTS[page])]:
        try:
            look_up(text)
        except WrongCommand as error:
            found.append(f"{where}: '{text}': {error}: correct it")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("caraml tables jube/llm_run", "there is no command of caraml tables"),
        ("caraml table jube/llm_run --repeat", "caraml table has no flag --repeat"),
        ("caraml table jube/llm_run --format excel", "there is no value of --format excel"),
        ("caraml history --since 2026-01-01 jube/llm_run", "caraml history has no flag --since"),
        ("caraml check jube/lm.yaml", "there is no file jube/lm.yaml"),
        ("caraml doctor --system H2000", "there is no system H2000"),
        ("caraml image pytorch", "there is no such image"),
        ("jube run jube/lm.yaml --tag CPU", "there is no file jube/lm.yaml"),
        ("jube run jube/llm.yaml --tag CPU syntetic", "there is no tag of jube/llm.yaml syntetic"),
        ("jube run jube/resnet50.yaml --tag CPU fp8", "there is no tag of jube/resnet50.yaml fp8"),
        ("jube run jube/llm.yaml --tag synthetic", "give exactly one system's tag, not 0"),
        ("jube run jube/llm.yaml --tags CPU", "jube run has no flag --tags"),
        ("jube result jube/lm_run --id last", "there is no folder of a workflow jube/lm_run"),
        ("CARAML_DEVICE=1 jube run jube/llm.yaml --tag CPU", "there is no variable CARAML_DEVICE"),
        ("jpwr --method estimate -- sleep 1", "jpwr has no flag --method"),
        ("jpwr read --jason power/trace.csv", "jpwr read has no flag --jason"),
        ("jpwr -- .venv/bin/python -m benchmarks.llm", "python3 -m benchmarks.llm is not there"),
        ("python -m benchmarks.llm_training --sizes 117M", "benchmarks.llm_training has no flag --sizes"),
        ("python -m benchmarks.llm_training --size 118M", "there is no value of --size 118M"),
        (".venv/bin/torchrun --alone -m benchmarks.llm_training", "torch.distributed.run has no flag --alone"),
        ("make tests", "there is no target tests"),
        ("make test-busy ROUND=5", "there is no variable ROUND"),
        ("make gpu-check SYSTEM=H2000", "there is no system H2000"),
        ("pip install '.[reports]'", "there is no extra reports"),
        ("pytest tests/test_system.py", "there is no file tests/test_system.py"),
        ("cp site.yaml.example site.yaml && caramel table", "there is no known program caramel"),
    ],
)
def test_a_command_that_names_what_is_not_there_is_found(text, reason):
    with pytest.raises(WrongCommand, match=re.escape(reason)):
        look_up(text)


# A model in place of a sensor, and what the examples measure.
BEFORE_PYTHON = """
import time
from jpwr import backends
backends.METHODS["pynvml"], backends.MODELLED = backends.METHODS["estimate"], ()
train = work = lambda: time.sleep(0.5)
"""


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "\n```python\n" in TEXTS[page] and page not in PAGES_RUN_BY]
)
def test_the_python_of_a_page_runs(page, prepared):
    program = BEFORE_PYTHON + "\n".join(block.text for block in blocks(TEXTS[page]) if block.kind == "python")
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=prepared.folder, env=prepared.environ, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, f"{page}: {done.stderr}"
    if "get_power" in TEXTS[page]:
        assert re.search(r"estimate:cpu +\d", done.stdout), done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_no_command_hides_in_a_block_that_no_test_reads(page):
    known = ("sh", "sh site", "python", "yaml", "text", "")
    for block in blocks(TEXTS[page]):
        is_directive = re.match(r"\{(toctree|include|literalinclude|eval-rst)\}", block.kind)
        assert is_directive or block.kind in known, f"{page}:{block.line}: a block is one of {', '.join(known)}"
        if block.kind == "":
            for number, line in enumerate(block.text.splitlines()):
                first = line.removeprefix(".venv/bin/").partition(" ")[0]
                assert first not in OURS, f"{page}:{block.line + number}: a command belongs into 'sh' or 'sh site'"


@pytest.mark.parametrize("page", PAGES)
def test_a_comment_stands_above_its_command(page):
    for where, text, _ in commands(page, TEXTS[page], "sh", "sh site"):
        assert "  # " not in text, f"{where}: put the comment on the line above: a phone cuts off the end of a line"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in LINK.findall(TEXTS[page]):
        if re.match("https?:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (REPOSITORY / page).parent / name if name else REPOSITORY / page
        assert path.exists(), f"{page} links to {target}, which is not there"
        if anchor:
            text = path.read_text()
            text += "".join((path.parent / name).read_text() for name in INCLUDED.findall(text))
            titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
            anchors = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
            assert anchor in anchors, f"{page} links to {target}: its titles are {', '.join(anchors)}"


def test_nothing_that_has_a_place_in_a_table_is_missing_there():
    rows = {
        page: {
            name for line in re.findall(r"^\| *(.*?) *\|", text, re.MULTILINE) for name in re.findall(r"[\w-]+", line)
        }
        for page, text in TEXTS.items()
    }
    systems = set(read_systems())
    assert SHIPPED | set(METHODS) <= rows["docs/explanation/what_has_run.md"]
    assert set(METHODS) <= rows["jpwr/README.md"]
    all_tags = {tag for name in workloads() for tag in known_tags(REPOSITORY / "jube", name)}
    assert all_tags - systems <= rows["docs/reference/tags.md"]
    assert set(KEYS) <= set(yaml.safe_load((REPOSITORY / "examples/site.yaml").read_text()))


def test_the_presets_of_a_server_are_those_of_the_code():
    page = TEXTS["docs/howto/measure_a_server.md"]
    rows = re.findall(r"^\| `([\w.-]+)`(?: \(default\))? \| ([\d.]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert rows == [(name, f"{one.ttft_s:g}", f"{one.tpot_s:g}") for name, one in SLOS.items()]


def test_the_readme_is_short():
    assert len(TEXTS["README.md"].splitlines()) <= MOST_LINES


@pytest.mark.parametrize("page", [page for page in PAGES if page.count("/") == 2])
def test_a_page_begins_with_what_its_reader_can_do_after_it(page):
    title, first, *_ = re.sub(r"<!--.*?-->", "", TEXTS[page]).split("\n\n")
    assert title.startswith("# ")
    assert re.match("After (this|these|one)", first)


@pytest.mark.slow  # `make docs` builds it, too
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("sphinx", reason="sphinx is not installed: scripts/setup.sh docs installs it")
    build = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    done = subprocess.run(
        [*build, REPOSITORY / "docs", tmp_path], capture_output=True, text=True, cwd=REPOSITORY, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "searchindex.js").exists()
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|iframe)[^>]* src=\"([^\"]*)|<link[^>]* href=\"([^\"]*)", page.read_text())
        assert not [one for one in map("".join, loaded) if re.match("(https?:)?//", one)], page
