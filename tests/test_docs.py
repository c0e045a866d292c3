"""The commands of the documentation: run, or looked up; docs/howto/change_the_suite.md lists which.

The site is built, too.

Where one fails, correct the page, or the program; one that needs a site belongs into a block `sh site`.
"""

from __future__ import annotations

import functools
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from benchmarks.llm_training.sizes import SIZES
from caraml import cli
from caraml.plan.site import KEYS
from caraml.plan.tags import tags_by_choice
from jpwr.backends import METHODS
from jpwr.trace.writers import read_trace
from record.demand import SLOS
from results.files.systems import read_systems
from results.files.workloads import workloads
from results.points.learning import REFERENCES, read_references
from tests.conftest import REPOSITORY, SHIPPED, make_checkout, run_in_place_of_training
from tests.needs import need, package
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

PAGES = ["README.md", "AGENTS.md", "CONTRIBUTING.md", "jpwr/README.md", "ioprof/README.md"]
PAGES += sorted(str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("docs/**/*.md"))
TEXTS = {page: (REPOSITORY / page).read_text() for page in PAGES}

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
RUN_FIRST = r"README|CONTRIBUTING|docs/tutorial/|(run_a_sweep|check_an_archive|coming_from_caraml)\.md"

BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
INCLUDED = re.compile(r"^```\{include\} (.*)$", re.MULTILINE)


class Command(NamedTuple):
    """One command of a page, with the comment above it."""

    where: str
    text: str
    comment: str = ""


def blocks(text: str) -> list[tuple[str, int, str]]:
    """Return each block of code of a page: the words after the fence, its first line's number, its text."""
    return [(found[1], text.count("\n", 0, found.start(2)) + 1, found[2]) for found in BLOCK.finditer(text)]


def commands(page: str, text: str, *kinds: str) -> Iterator[Command]:
    """Yield the commands in blocks of some kinds; one that continues in the next line is one command."""
    for kind, line, block in blocks(text):
        if kind in kinds:
            comment = ""
            for whole in re.findall(r"(?:.*\\\n)*.*\n", block):
                if whole.startswith("#"):
                    comment += whole
                else:
                    if words := whole.replace("\\\n", " ").strip():
                        yield Command(f"{page}:{line}", words, comment)
                    comment = ""
                line += whole.count("\n")


def wrong_arguments(text: str) -> list[str]:
    """Return the commands of caraml in a text whose arguments its parser refuses."""
    parsers = {name: parser for group in cli.commands().values() for name, parser in group.items()}
    wrong = []
    for name, rest in re.findall(r"(?<![=/\w])caraml ([a-z][a-z-]*)([^&|;>\n]*)", text.replace(".venv/bin/", "")):
        try:
            with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
                parsers[name].parse_args(shlex.split(rest))
        except (KeyError, SystemExit) as error:
            wrong += [name] if getattr(error, "code", 1) else []
    return wrong


class Prepared:
    """A copy of the checkout with two runs of a short sweep, and an archive; each command is run once in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = make_checkout(folder)
        run_in_place_of_training(self.folder, f"python3 {self.folder}/tests/quick_run.py")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("CARAML_", "JPWR_"))}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environ = {**kept, "PATH": path, "PYTHONPATH": str(self.folder)}
        self.run = functools.cache(self._run)
        for _ in range(2):
            sweep = self._run("CARAML_DEVICES=1 CARAML_BATCHES=8 jube run jube/llm.yaml --tag CPU synthetic")
            assert sweep.returncode == 0, sweep.stdout + sweep.stderr
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
def test_a_command_of_a_site_has_arguments_that_it_takes(page):
    assert not [wrong for _, text, _ in commands(page, TEXTS[page], "sh", "sh site") for wrong in wrong_arguments(text)]


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
    program = BEFORE_PYTHON + "\n".join(block for kind, _, block in blocks(TEXTS[page]) if kind == "python")
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=prepared.folder, env=prepared.environ, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, f"{page}: {done.stderr}"
    if "get_power" in TEXTS[page]:
        assert re.search(r"estimate:cpu +\d", done.stdout), done.stdout


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
    assert SHIPPED | set(METHODS) <= rows["docs/explanation/evidence.md"]
    assert set(METHODS) <= rows["jpwr/README.md"]
    choices = [tags_by_choice(REPOSITORY / "jube", facts) for facts in workloads().values()]
    all_tags = {tag for by_choice in choices for tags in by_choice.values() for tag in tags}
    assert all_tags - systems <= rows["docs/reference/tags.md"]
    assert set(KEYS) <= set(yaml.safe_load((REPOSITORY / "examples/site.yaml").read_text()))


def test_the_presets_of_a_server_are_those_of_the_code():
    page = TEXTS["docs/howto/measure_a_server.md"]
    rows = re.findall(r"^\| `([\w.-]+)`(?: \(default\))? \| ([\d.]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert rows == [(name, f"{one.ttft_s:g}", f"{one.tpot_s:g}") for name, one in SLOS.items()]


def test_figures_of_pages_are_those_of_the_code():
    learning = TEXTS["docs/howto/check_that_training_learns.md"]
    for reference in read_references(REFERENCES).values():
        assert f"±{100 * reference.half(3) / reference.means[3]:.0f} %" in learning, reference.key
    # CARAML counts 4 passes in place of 3: Narayanan et al. 2021, arXiv:2104.04473, equation 3.
    [factors] = re.findall(
        r"([\d.]+) times ours for 800M, ([\d.]+) times for 13B and 175B", TEXTS["docs/howto/coming_from_caraml.md"]
    )
    for name, factor in zip(("800M", "13B", "175B"), (factors[0], factors[1], factors[1]), strict=True):
        size, [flops] = SIZES[name], workloads()["llm_training"].flops[name].values()
        length, width, layers = size.sequence_length, size.hidden_size, size.num_layers
        terms = 1 + length / (6 * width) + size.padded_vocab_size / (16 * layers * width)
        assert 96 * layers * width**2 * terms / flops == pytest.approx(float(factor), abs=0.005)
    [megabytes] = re.findall(r"A GPU's trace grows by about ([\d.]+) MB\s+an hour", TEXTS["docs/howto/run_a_sweep.md"])
    for path in REPOSITORY.glob("results/records/H200/*/power/*/trace.csv"):
        trace = read_trace(path)
        assert path.stat().st_size / (trace.end_s - trace.start_s) * 3600 / 1e6 == pytest.approx(
            float(megabytes), rel=0.2
        )


@pytest.mark.slow  # `make docs` builds it, too
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    package("sphinx", "sphinx", "docs")
    build = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    done = subprocess.run(
        [*build, REPOSITORY / "docs", tmp_path], capture_output=True, text=True, cwd=REPOSITORY, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "searchindex.js").exists()
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|iframe)[^>]* src=\"([^\"]*)|<link[^>]* href=\"([^\"]*)", page.read_text())
        assert not [one for one in map("".join, loaded) if re.match("(https?:)?//", one)], page
