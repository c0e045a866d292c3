"""Names and signatures in packages: of wheels as jedi reads them, and by import of installed packages."""

from __future__ import annotations

import importlib
import io
import math
import pkgutil
import re
import subprocess
import sys
import sysconfig
import warnings
import zipfile
from collections.abc import Iterable
from contextlib import redirect_stdout
from functools import cache, cached_property
from inspect import Parameter
from pathlib import Path
from typing import Any

import jedi
import parso.cache

from tests.contracts.uses import Use

# The Python code is the same on all platforms, and wheels for Arm, without CUDA, are the smallest.
PLATFORMS = [f"{tag}_aarch64" for tag in ("manylinux_2_28", "manylinux_2_34", "manylinux2014", "manylinux_2_17")]
PLATFORMS += [f"{tag}_x86_64" for tag in ("manylinux_2_28", "manylinux2014", "manylinux1")]
# jedi fails where parso has forgotten a module, as it does by default from so many on.
parso.cache._CACHED_SIZE_TRIGGER = math.inf
NAMED = {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}


class NotComparableError(LookupError):
    """A name cannot be looked up; the text is the reason."""


def compared(uses: Iterable[Use], package: Any, label: str) -> tuple[list[str], set[str]]:
    """Return what is wrong, and what cannot be compared.

    A package's `find` returns the keywords that a dotted name takes, or None if it may take others, too. It raises
    LookupError for a missing name, and NotComparableError with the reason.
    """
    faults, unknown = [], set()
    for use in uses:
        try:
            found = package.find(use.name)
        except NotComparableError as reason:
            unknown.add(f"{label}: {use.name}: {reason}")
        except LookupError:
            faults.append(f"{use.place}: {label} has no {use.name}")
        else:
            if found is not None and (wrong := ", ".join(sorted(use.keywords - found))):
                faults.append(f"{use.place}: {use.name} of {label} takes no {wrong}")
    return faults, unknown


@cache
def _by_import(name: str) -> None:
    """Import a name; raises LookupError without it. Its keywords are not known."""
    top = name.partition(".")[0]
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            importlib.import_module(top)
        except Exception as error:  # without its library, a vendor's package may raise anything
            raise NotComparableError(f"{top} cannot be imported here: {type(error).__name__}") from error
        try:
            pkgutil.resolve_name(name)
        except (AttributeError, ImportError) as error:
            raise LookupError(name) from error


class Sources:
    """Unpacked packages, which are read and not imported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._project = jedi.Project(folder, sys_path=[str(folder)], smart_sys_path=False)

    def find(self, name: str) -> frozenset[str] | None:
        """Look a dotted name up, through imports of one module from another; return its keywords, None for any."""
        parts, problems = name.split("."), list[LookupError]()
        for end in range(len(parts), 0, -1):
            module = ".".join(parts[:end])
            if files := self._files(module):
                try:
                    return self._in_module(module, files, parts[end:])
                except LookupError as problem:
                    problems.append(problem)
        problems = problems or [NotComparableError(f"{parts[0]} is not in this wheel")]
        raise next((one for one in problems if isinstance(one, NotComparableError)), problems[0])

    def _in_module(self, module: str, files: list[Path], parts: list[str]) -> frozenset[str] | None:
        found: list[Any] = []
        for end, name in enumerate(parts):
            text = ".".join(["found", *parts[1 : end + 1]])
            script = jedi.Script(f"from {module} import {parts[0]} as found\n{text}", project=self._project)
            # Where jedi finds nothing, its answer is our own line, which is in no file.
            answers = script.infer(2, len(text)), script.goto(2, len(text), follow_imports=True)
            seen = next(filter(None, ([one for one in every if one.module_path] for every in answers)), [])
            seen = seen or self._in_stubs(module.partition(".")[0], name)
            if not seen:
                if found and found[0].type not in ("class", "module"):
                    raise NotComparableError("it is an attribute of a value")
                files = [file for file in [*files, *(one.module_path for one in found)] if file.is_file()]
                if any(re.search(rf"\b{name}\b", file.read_text()) for file in files):
                    raise NotComparableError(f"{module} binds it when it is loaded")
                raise LookupError(name)
            found = seen
        signatures = [one for each in found for one in each.get_signatures()]
        parameters = [(one.name, one.kind) for signature in signatures for one in signature.params]
        if not signatures or any(kind is Parameter.VAR_KEYWORD for _, kind in parameters):
            return None
        return frozenset(name for name, kind in parameters if kind in NAMED)

    def fields(self, class_name: str) -> set[str]:
        """Return the fields of all classes of that name, with those of their bases and their aliases."""
        found: set[str] = set()
        for file in self.files(f"class {class_name}"):
            module, text = ".".join(file.relative_to(self.folder).with_suffix("").parts), f"{class_name}."
            script = jedi.Script(f"from {module} import {class_name}\n{text}", project=self._project)
            found |= {one.name for one in script.complete(2, len(text))}
            for words in re.findall(r"AliasChoices\((.*?)\)", self._texts[file], re.DOTALL):  # other names, in pydantic
                found |= set(re.findall(r'"(\w+)"', words))
        return found

    def files(self, text: str) -> list[Path]:
        """Return the files that have a text."""
        return [file for file, content in self._texts.items() if text in content]

    @cached_property
    def _texts(self) -> dict[Path, str]:
        return {file: file.read_text(errors="replace") for file in sorted(self.folder.rglob("*.py"))}

    def _files(self, module: str) -> list[Path]:
        base = self.folder / module.replace(".", "/")
        names = [base / "__init__.py", base / "__init__.pyi", base.with_suffix(".py"), base.with_suffix(".pyi")]
        return [file for file in names if file.is_file()] or [base] * base.is_dir()

    def _in_stubs(self, package: str, name: str) -> list[Any]:
        """Return what stubs of a package's compiled modules bind to a name."""
        stubs = [file for file in (self.folder / package).rglob("*.pyi") if f" {name}" in file.read_text()]
        every = (jedi.Script(path=file, project=self._project).get_names(all_scopes=True) for file in stubs)
        return [one for names in every for one in names if one.name == name and one.type in ("class", "function")]


class Installed(Sources):
    """Packages of this environment: read, and imported for names that only then are there."""

    def __init__(self) -> None:
        super().__init__(Path(sysconfig.get_path("purelib")))

    def find(self, name: str) -> frozenset[str] | None:
        """Return the keywords of a dotted name, None for any."""
        try:
            return super().find(name)
        except LookupError:
            _by_import(name)
            return None


def download(package: str, version: str, cache: Path) -> Path:
    """Return the folder of a release's unpacked Python code; raise OSError if it cannot be downloaded."""
    folder, wheels = cache / f"{package}-{version}", cache / f"{package}-{version}.wheel"
    if folder.is_dir():
        return folder
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--retries", "1"]
    pip += ["--only-binary", ":all:", "--python-version", "3.12", *(f"--platform={tag}" for tag in PLATFORMS)]
    done = subprocess.run([*pip, "--dest", wheels, f"{package}=={version}"], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{package} {version} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
    [wheel] = wheels.iterdir()
    part = cache / f"{package}-{version}.part"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(part, [name for name in archive.namelist() if name.endswith((".py", ".pyi"))])
    wheel.unlink()
    wheels.rmdir()
    return part.rename(folder)
