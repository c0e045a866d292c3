"""The counting library, built once for each system by its compiler."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Iterator

from jpwr.errors import JpwrError

SOURCE = Path(__file__).with_name("preload.c")
VARIABLE = "IOPROF_LIBRARY"
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared")
COMPILERS = ("cc", "gcc", "clang")
TIMEOUT_S = 120.0


def library() -> Path:
    """Return the path of the library for this system, built if it is not in the cache; raise JpwrError."""
    given = os.environ.get(VARIABLE)
    if given:
        if not Path(given).is_file():
            raise JpwrError(f"{VARIABLE} is {given}, which is not a file: unset it, or run 'ioprof build {given}'")
        return Path(given).resolve()
    tried = []
    for folder in _caches():
        tried.append(str(folder))
        built = folder / _name()
        try:
            if not built.is_file():
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                build(built)
            return built
        except OSError:
            continue
    raise JpwrError(f"the library cannot be written to {' or '.join(tried)}: set XDG_CACHE_HOME to a folder of yours")


def build(to: Path) -> None:
    """Compile the library to a file; raise OSError if that cannot be written, and JpwrError if compiling fails."""
    if platform.system() != "Linux":
        raise JpwrError(f"reads can be counted on Linux only, and this is {platform.system()}: use another machine")
    compiler = _compiler()
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        part = Path(folder) / "library.so"
        command = [*compiler, *FLAGS, "-o", str(part), str(SOURCE), "-ldl", "-lpthread"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            raise JpwrError(f"the compiler '{compiler[0]}' cannot be run ({error}): set CC to a C compiler") from error
        if done.returncode or not part.exists():
            first = (done.stderr.strip().splitlines() or ["no message"])[0]
            raise JpwrError(
                f"'{' '.join(compiler)}' cannot build the counting library ({first}): install gcc and the C library's "
                "headers (libc6-dev, glibc-devel), or set CC to a compiler that has them"
            )
        part.replace(to)


def _compiler() -> list[str]:
    wanted = os.environ.get("CC", "").split()
    if wanted:
        return wanted
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    raise JpwrError(
        f"counting reads needs a C compiler once, and none of {', '.join(COMPILERS)} was found: install gcc, or set "
        f"{VARIABLE} to a file made by 'python3 -m ioprof build FILE' on a system with the same or an older C library"
    )


def _name() -> str:
    """Return the name of the built file, which depends on source, machine, C library and compiler options."""
    key = [SOURCE.read_bytes(), platform.machine().encode(), " ".join(platform.libc_ver()).encode()]
    key.append(" ".join([os.environ.get("CC", ""), *FLAGS]).encode())
    return f"libioprof-{hashlib.sha256(b'|'.join(key)).hexdigest()[:16]}.so"


def _caches() -> Iterator[Path]:
    """Yield folders for the built file: the user's cache, and a private folder."""
    home = os.environ.get("XDG_CACHE_HOME") or f"{os.environ.get('HOME', '')}/.cache"
    if home.startswith("/"):
        yield Path(home) / "ioprof"
    folder = Path(tempfile.gettempdir()) / f"ioprof-{os.getuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.lstat()
        # A user who can write to the folder could replace the library.
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022:
            yield folder
