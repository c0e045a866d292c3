"""Sources of text, read one document at a time: files, compressed files, the network, or texts on every machine."""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import lzma
import shutil
import sysconfig
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import IO

from benchmarks.common.options import ConfigError

LICENCES = Path("/usr/share/common-licenses")  # Debian and Ubuntu
OPENERS = {".xz": lzma.open, ".gz": gzip.open}
SCHEMES = ("http://", "https://")
# Text of the original suite, 79,000 documents of OSCAR (1 GB), and GPT-2's vocabulary.
OSCAR = "https://huggingface.co/bigscience/misc-test-data/resolve/main/stas/oscar-1GB.jsonl.xz"
GPT2 = "https://huggingface.co/openai-community/gpt2/resolve/main"
SHA256 = {
    f"{GPT2}/vocab.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    f"{GPT2}/merges.txt": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
GPT2_VOCABULARY = tuple(SHA256)
CHUNK_BYTES = 1 << 20
TIMEOUT_S = 60  # of the network


def documents(names: Sequence[str]) -> Iterator[str]:
    """Yield the documents of each name, in order; without a name those of this Python installation.

    A .txt file is one document, and a .jsonl file has one in the key `text` of each line. Both may be compressed as .xz
    or .gz. A folder stands for all such files below it. Raises ConfigError if a file cannot be read.
    """
    if not names:
        yield from installed_texts()
    for name in names:
        for path in _files(Path(name)):
            try:
                yield from _read(path)
            except FileNotFoundError as error:
                raise ConfigError(f"the text file {path} does not exist: check the path") from error
            except UnicodeDecodeError as error:
                raise ConfigError(f"{path} is not UTF-8 text ({error.reason}): convert it first") from error
            except (lzma.LZMAError, gzip.BadGzipFile, EOFError) as error:
                raise ConfigError(f"{path} is damaged or incomplete ({error}): fetch it again") from error


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if ".txt" in file.suffixes or ".jsonl" in file.suffixes)
    if not found:
        raise ConfigError(f"the folder {path} has no .txt or .jsonl file: give files, or a folder that has some")
    return found


def _read(path: Path) -> Iterator[str]:
    file: IO[str]
    with OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8") as file:  # type: ignore[operator]
        if ".jsonl" not in path.suffixes:
            yield file.read()
            return
        for number, line in enumerate(file, 1):
            try:
                text = json.loads(line)["text"]
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(
                    f'{path}, line {number}, is not a JSON object with a key "text": correct it'
                ) from error
            if not isinstance(text, str):
                raise ConfigError(f'{path}, line {number}, has a "text" that is not a text: correct it')
            yield text


@cache  # parsing the library takes most of the time of `prepare`, which reads its 2 MB of text three times
def installed_texts() -> tuple[str, ...]:
    """Return text that is on every machine: docstrings of Python's library, and licences."""
    found, library = [], Path(sysconfig.get_path("stdlib"))
    for file in sorted(library.rglob("*.py")):
        if {"test", "tests", "idle_test", "site-packages", "dist-packages"} & set(file.relative_to(library).parts):
            continue
        try:
            text = "\n\n".join(_docstrings(ast.parse(file.read_text(encoding="utf-8"))))
        except (OSError, SyntaxError, UnicodeDecodeError):
            continue
        if text:
            found.append(text)
    for folder in (LICENCES, library):
        for file in sorted(folder.glob("[A-Z]*")):
            if file.is_file() and not file.is_symlink():
                found.append(file.read_text(encoding="utf-8", errors="replace"))
    return tuple(found)


def _docstrings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text


def fetch(name: str, folder: Path, sha256: str = "") -> str:
    """Fetch the file of an address into a folder, unless it exists, and return its path; return other names unchanged.

    Raises ConfigError if the network fails, or the checksum differs, also that of an existing file.
    """
    if not name.startswith(SCHEMES):
        return name
    path = folder / name.rstrip("/").rpartition("/")[2].partition("?")[0]
    part = path.with_name(f"{path.name}.part")
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            _download(name, part)
        except (urllib.error.URLError, OSError) as error:
            part.unlink(missing_ok=True)
            raise ConfigError(
                f"{name} could not be fetched ({error}): try again, or fetch it elsewhere and give its path"
            ) from error
    whole = path if path.exists() else part
    found = _digest(whole)
    if sha256 and found != sha256.lower():
        whole.unlink()
        raise ConfigError(
            f"{name} has the SHA-256 {found}, but {sha256} was asked for: it was removed; check the address"
        )
    if whole is part:
        part.replace(path)
        print(f"{path}: fetched, SHA-256 {found}", flush=True)
    return str(path)


def _download(address: str, part: Path) -> None:
    print(f"fetching {address}", flush=True)
    with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer, part.open("wb") as file:
        shutil.copyfileobj(answer, file)
        if answer.length:
            raise OSError(f"the connection ended {answer.length} bytes before the end")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
