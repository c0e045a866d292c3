"""Our code against the real packages: names, keywords, servers' flags and settings, metrics and request fields.

Nothing of a downloaded package is imported. `make test-contract` downloads, and prints what cannot be compared.
"""

from __future__ import annotations

import ast
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from caraml.machine.images import read_images
from results.files.typed_files import read_yaml
from tests.contracts.packages import Installed, Sources, compared, download
from tests.contracts.servers import Contract, asked_of, lacking, offered_by
from tests.contracts.uses import Use, our_uses, uses_of
from tests.needs import not_run

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / "build" / "contract"
FACTS = read_yaml(Path(__file__).with_name("facts.yaml"))
INSTALLED = Installed()
SMALLEST = "nvidia-ml-py", "13.590.48"  # shows whether a package index can be reached


class Kit:
    """Names of a vendor's kit, by an extract."""

    def __init__(self, module: str) -> None:
        self._module, self._facts = module, FACTS["kits"][module]

    def find(self, name: str) -> frozenset[str]:
        word = name.removeprefix(self._module).removeprefix(".")
        if word and word not in self._facts["names"]:
            raise LookupError(name)
        return frozenset(self._facts.get("keywords", {}).get(word, ()))


def kit_of(name: str) -> str:
    return next((kit for kit in FACTS["kits"] if f"{name}.".startswith(f"{kit}.")), "")


@cache
def uses() -> list[Use]:
    return our_uses(REPOSITORY)


def report(faults: list[str], unknown: set[str]) -> None:
    print(*(f"not comparable: {one}" for one in sorted(unknown)), sep="\n")
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_installed_packages_and_extracts_of_kits_have_all_that_we_use():
    faults, unknown = compared([use for use in uses() if not kit_of(use.name)], INSTALLED, "this environment")
    for kit in FACTS["kits"]:
        more = compared([use for use in uses() if kit_of(use.name) == kit], Kit(kit), kit)
        faults += more[0]
    report(faults, unknown | {*FACTS["not compared"]})


@pytest.mark.parametrize("name", FACTS["extracts"])
def test_extracts_of_servers_have_all_that_we_ask(name):
    assert lacking(asked_of(name), extract(name)) == set()


def extract(name: str) -> Contract:
    facts = FACTS["extracts"][name]
    fields = {kind: set(words) for kind, words in facts["fields"].items()}
    return Contract(set(facts["flags"]), set(facts["settings"]), fields, facts["metrics"], set(facts["variables"]))


def test_names_of_llama_cpp_are_in_its_library():
    import xllamacpp

    library = b"".join(file.read_bytes() for file in Path(xllamacpp.__file__).parent.glob("*.so"))
    facts, server = extract("xllamacpp"), {"model", "prompt"}
    words = set().union(*facts.fields.values()) - server | {name.partition(":")[2] for name in facts.metrics}
    assert [word for word in sorted(words) if word.encode() not in library] == []


def test_extracts_are_of_the_releases_in_the_table_of_images():
    stated = {version for image in read_images().values() for version in image.packages.values()}
    assert FACTS["extracts"]["trtllm"]["version"] in stated
    assert set(FACTS["older"]) <= {f"{package} {version}" for package, version in releases()}


def releases() -> list[tuple[str, str]]:
    """Return each package and version that is downloaded: those of images, and those that pyproject.toml pins."""
    found = [(name, version) for image in read_images().values() for name, version in image.packages.items()]
    pinned = [word for image in read_images().values() for word in (*image.pip, *image.without_dependencies)]
    found += re.findall(r"(megatron-core)==([\d.]+)", (REPOSITORY / "pyproject.toml").read_text())
    found += [(name, version) for word in pinned for name, version in re.findall(r"^([\w-]+)==([\d.]+)$", word)]
    known = {*FACTS["releases"], *FACTS["servers"]}
    public = {(name, re.match(r"[\d.]+\d", version)[0]) for name, version in found if name in known}
    return sorted(public)


@pytest.fixture(scope="module")
def index():
    """Skip unless downloads are asked for and possible."""
    if not os.environ.get("CARAML_DOWNLOAD"):
        not_run("CARAML_DOWNLOAD=1: make test-contract downloads packages")
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        download(*SMALLEST, CACHE)
    except OSError:
        not_run("a package index that can be reached: pip's setting index-url names one")


@pytest.mark.slow
@pytest.mark.parametrize("release", [" ".join(one) for one in releases()])
def test_a_release_has_all_that_we_use(index, release):
    package, version = release.split()
    facts = FACTS["releases"].get(package, {})
    sources = Sources(download(facts.get("wheel", package), version, CACHE))
    if package in FACTS["servers"]:
        asked = asked_of(package)
        assert lacking(asked, offered_by(sources, FACTS["servers"][package], asked)) == set(
            FACTS["older"].get(release, ())
        )
        return
    mine = uses_of_transformer_engine() if package == "transformer-engine" else uses()
    mine = [use for use in mine if use.name.partition(".")[0] == facts["module"] and not kit_of(use.name)]
    report(*compared(mine, sources, release))


@pytest.mark.slow
@pytest.mark.parametrize("release", [" ".join(one) for one in releases() if one[0] == "megatron-core"])
def test_a_release_has_the_settings_of_narrow_products(index, release):
    """Fields and their values, such as fp8_recipe: Optional[Literal['tensorwise', ...]]."""
    file = download(*release.split(), CACHE) / "megatron" / "core" / "transformer" / "transformer_config.py"
    fields = {
        ast.unparse(node.target): ast.unparse(node.annotation)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.AnnAssign)
    }
    for recipe in recipes().values():
        for name, value in recipe.settings.items():
            assert repr(value) in fields[name] or fields[name] == type(value).__name__


@pytest.mark.slow
@pytest.mark.parametrize("release", [" ".join(one) for one in releases() if one[0] == "transformer-engine"])
def test_a_release_has_a_check_for_each_recipe_that_it_has(index, release):
    package = FACTS["releases"]["transformer-engine"]["wheel"]
    folder = download(package, release.split()[1], CACHE) / "transformer_engine"
    classes, checks = (
        {
            node.name
            for node in ast.walk(ast.parse((folder / file).read_text()))
            if isinstance(node, (ast.ClassDef, ast.FunctionDef))
        }
        for file in ("common/recipe/__init__.py", "pytorch/fp8.py")
    )
    found = {recipe.name for recipe in recipes().values()} & classes
    assert "DelayedScaling" in found
    assert {recipe.check for recipe in recipes().values() if recipe.name in found} <= checks


def recipes() -> dict[str, Any]:
    from benchmarks.llm_training.gpt.kernels import RECIPES

    return RECIPES


def uses_of_transformer_engine() -> list[Use]:
    """Return what megatron-core, by which we reach it, uses of it without a look at its version or a second way."""
    version = next(version for name, version in releases() if name == "megatron-core")  # the one in images
    file = download("megatron-core", version, CACHE) / "megatron" / "core" / "extensions" / "transformer_engine.py"
    _, *guards = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, (ast.Try, ast.If)))
    guarded = {line for node in guards for line in range(node.lineno, node.end_lineno + 1)}
    return [use for use in uses_of(file.read_text(), file.name) if int(use.place.rpartition(":")[2]) not in guarded]
