"""Names and signatures in packages: from the syntax trees of wheels, and by import of installed packages."""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import re
import subprocess
import sys
import sysconfig
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tests.contracts.uses import Use

# The Python code is the same on all platforms, and wheels for Arm, without CUDA, are the smallest.
PLATFORMS = [f"{tag}_aarch64" for tag in ("manylinux_2_28", "manylinux_2_34", "manylinux2014", "manylinux_2_17")]
PLATFORMS += [f"{tag}_x86_64" for tag in ("manylinux_2_28", "manylinux2014", "manylinux1")]
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


class NotComparableError(LookupError):
    """A name cannot be looked up; the text is the reason."""


class Found(NamedTuple):
    """A name that a package has, with the keywords it takes; `is_open` if it may take others, too."""

    keywords: frozenset[str] = frozenset()
    is_open: bool = False

    def __or__(self, other: Found) -> Found:
        """Return the keywords of both."""
        return Found(self.keywords | other.keywords, self.is_open or other.is_open)


def compared(uses: Iterable[Use], package: Any, label: str) -> tuple[list[str], set[str]]:
    """Return what is wrong, and what cannot be compared.

    A package's `find` returns what a dotted name is, and raises LookupError, or NotComparableError with the reason.
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
            if (wrong := ", ".join(sorted(use.keywords - found.keywords))) and found.is_open:
                unknown.add(f"{label}: {use.name}({wrong}): it hands further keywords on")
            elif wrong:
                faults.append(f"{use.place}: {use.name} of {label} takes no {wrong}")
    return faults, unknown


class Installed:
    """Packages of this environment: read, and imported where reading does not settle it."""

    @cached_property
    def _sources(self) -> Sources:
        return Sources(Path(sysconfig.get_path("purelib")))

    def find(self, name: str) -> Found:
        """Return what a dotted name is."""
        read: Found | LookupError
        try:
            read = self._sources.find(name)
        except LookupError as error:
            read = error
        if isinstance(read, Found) and not read.is_open:
            return read
        try:
            return _by_import(name)
        except NotComparableError as error:
            if isinstance(read, Found):
                return read
            raise read from error


@cache
def _by_import(name: str) -> Found:
    top, *parts = name.split(".")
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            value: Any = importlib.import_module(top)
        except Exception as error:  # without its library, a vendor's package may raise anything
            raise NotComparableError(f"{top} cannot be imported here: {type(error).__name__}") from error
    for at, part in enumerate(parts):
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(".".join([top, *parts[: at + 1]]))
            except ImportError as error:
                raise LookupError(name) from error
    try:
        return _signature(value) if callable(value) else Found()
    except (TypeError, ValueError):  # Python does not show it
        return Found(is_open=True)


def _signature(value: Any) -> Found:
    if inspect.isclass(value):
        found = [_signature(one.__init__) for one in value.__mro__ if "__init__" in vars(one) and one is not object]
        return Found(frozenset().union(*(one.keywords for one in found)), not found or found[0].is_open)
    kinds, every = inspect.Parameter, inspect.signature(value).parameters.values()
    named = {one.name for one in every if one.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)}
    return Found(frozenset(named), any(one.kind is kinds.VAR_KEYWORD for one in every))


class _Import(NamedTuple):
    module: str
    name: str  # empty: the module itself


class _Scope:
    """Names of a module or a class with the statements that bind them, and the modules imported by a star."""

    def __init__(self, trees: Iterable[ast.AST], package: tuple[str, ...] = ()) -> None:
        self.names: dict[str, list[ast.AST | _Import]] = defaultdict(list)
        self.stars: list[str] = []
        for node in (node for tree in trees for node in _statements(tree)):
            if isinstance(node, (*FUNCTION, ast.ClassDef)):
                self.names[node.name].append(node)
            elif isinstance(node, ast.Import):
                for one in node.names:
                    top = one.name.partition(".")[0]
                    self.names[one.asname or top].append(_Import(one.name if one.asname else top, ""))
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else ()
                module = ".".join(filter(None, [*above, node.module]))
                self.stars += [module for one in node.names if one.name == "*"]
                for one in node.names:
                    self.names[one.asname or one.name].append(_Import(module, one.name))
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for name in (target, *getattr(target, "elts", ())):
                        self.names[getattr(name, "id", "")].append(node)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a module or a class, also those in branches."""
    for part in ("body", "orelse", "finalbody", "handlers"):
        for node in getattr(tree, part, []):
            yield node
            if not isinstance(node, (*FUNCTION, ast.ClassDef)):
                yield from _statements(node)


class Sources:
    """Unpacked packages, which are read and not imported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._scopes: dict[str, _Scope | None] = {}
        self._of_classes: dict[ast.ClassDef, _Scope] = {}

    def find(self, name: str) -> Found:
        """Look a dotted name up, through imports of one module from another."""
        top, *parts = name.split(".")
        if not self._is_module(top):
            raise NotComparableError(f"{top} is not in this wheel")
        module, node = self._resolve(top, parts, frozenset())
        if isinstance(node, ast.ClassDef):
            return self._made(module, node)
        if not isinstance(node, FUNCTION):
            return Found(is_open=True)
        scope = self._scope(module)
        every = scope.names[node.name] if scope else []  # all overloads of a stub
        return _union(map(_arguments, [one for one in every if isinstance(one, FUNCTION)] if node in every else [node]))

    def fields(self, class_name: str) -> set[str]:
        """Return the fields of all classes of that name, with those of their bases and their aliases."""
        found: set[str] = set()
        for file in self.files(f"class {class_name}"):
            module = ".".join(file.relative_to(self.folder).with_suffix("").parts)
            scope = self._scope(module)
            for node in scope.names[class_name] if scope else ():
                found |= self._fields(module, node) if isinstance(node, ast.ClassDef) else set()
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
        return [file for file in names if file.is_file()]

    def _is_module(self, module: str) -> bool:
        return bool(self._files(module)) or (self.folder / module.replace(".", "/")).is_dir()

    def _scope(self, module: str) -> _Scope | None:
        if module not in self._scopes:
            files, parts = self._files(module), tuple(module.split("."))
            package = parts if any(file.stem == "__init__" for file in files) else parts[:-1]
            trees = [ast.parse(file.read_text(errors="replace")) for file in files]
            self._scopes[module] = _Scope(trees, package) if files else None
        return self._scopes[module]

    def _resolve(self, module: str, parts: list[str], seen: frozenset[tuple[str, ...]]) -> tuple[str, ast.AST | None]:
        """Return the statement that binds a name, and its module; None for a module itself."""
        if not parts:
            if not self._is_module(module):
                raise LookupError(module)
            return module, None
        scope, key = self._scope(module), (module, *parts)
        ways: list[Any] = list(reversed(scope.names[parts[0]])) if scope else []
        ways += [(f"{module}.{parts[0]}", parts[1:])] if self._is_module(f"{module}.{parts[0]}") else []
        ways += [(star, parts) for star in scope.stars if self._scope(star)] if scope else []
        problem = LookupError(".".join(key))
        for way in ways if key not in seen else ():
            try:
                if isinstance(way, ast.AST):
                    return self._through(module, way, parts[1:], seen | {key})
                if isinstance(way, _Import) and not self._is_module(way.module):
                    raise NotComparableError(f"it comes from {way.module}")
                target, rest = (
                    (way.module, [way.name] * bool(way.name) + parts[1:]) if isinstance(way, _Import) else way
                )
                return self._resolve(target, rest, seen | {key})
            except NotComparableError as reason:
                problem = reason
            except LookupError:
                continue
        if isinstance(problem, NotComparableError) or key in seen:
            raise problem
        if scope is None or module.endswith("_pb2"):
            raise NotComparableError(f"{module} is compiled")
        if any(re.search(rf"""["']{re.escape(parts[0])}["']""", file.read_text()) for file in self._files(module)):
            raise NotComparableError(f"{module} binds it when it is loaded")
        raise problem

    def _through(
        self, module: str, node: ast.AST, rest: list[str], seen: frozenset[tuple[str, ...]]
    ) -> tuple[str, ast.AST | None]:
        """Return the statement of an attribute of what a statement binds."""
        value = getattr(node, "value", None)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(value, (ast.Name, ast.Attribute)):
            return self._resolve(module, [*ast.unparse(value).split("."), *rest], seen)
        if not rest:
            return module, node
        if not isinstance(node, ast.ClassDef):
            raise NotComparableError("it is an attribute of a value")
        if found := self._class(node).names[rest[0]]:
            return module, found[-1] if isinstance(found[-1], ast.AST) else None
        if re.search(rf"\bself\.{re.escape(rest[0])}\b", ast.unparse(node)):
            return module, None
        for base in self._bases(module, node):
            if base is None:
                raise NotComparableError(f"a base of {node.name} is unknown")
            return self._through(*base, rest, seen)
        raise LookupError(rest[0])

    def _class(self, node: ast.ClassDef) -> _Scope:
        return self._of_classes.setdefault(node, _Scope([node]))

    def _made(self, module: str, node: ast.ClassDef) -> Found:
        """Return the keywords that make an instance of a class; without a function, those are its fields."""
        names = self._class(node).names
        own = [one for name in ("__init__", "__new__") for one in names[name] if isinstance(one, FUNCTION)]
        found = _union(map(_arguments, own))
        if own and not found.is_open:
            return found
        fields = frozenset() if own else frozenset(self._fields(module, node))
        bases = [self._made(*base) if base else Found(is_open=True) for base in self._bases(module, node)]
        return Found(fields) | found | _union(bases)

    def _bases(self, module: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef] | None]:
        for base in node.bases:
            try:
                found, parent = self._resolve(module, ast.unparse(base).split("."), frozenset())
            except LookupError:
                parent = None
            yield (found, parent) if isinstance(parent, ast.ClassDef) else None

    def _fields(self, module: str, node: ast.ClassDef) -> set[str]:
        found = {field for base in self._bases(module, node) if base for field in self._fields(*base)}
        for one in (one for one in node.body if isinstance(one, ast.AnnAssign)):
            found.add(ast.unparse(one.target))
            for call in ast.walk(one):  # a field's other names, in pydantic
                if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("AliasChoices"):
                    found |= {str(ast.literal_eval(word)) for word in call.args}
        return found


def _union(found: Iterable[Found]) -> Found:
    both = Found()
    for one in found:
        both |= one
    return both


def _arguments(node: ast.AST) -> Found:
    assert isinstance(node, FUNCTION)
    return Found(frozenset(one.arg for one in (*node.args.args, *node.args.kwonlyargs)), node.args.kwarg is not None)


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
