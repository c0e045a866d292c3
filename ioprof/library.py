"""The library that counts, built once for each system by its own compiler."""

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

from ioprof.errors import IoprofError

SOURCE = Path(__file__).with_name("preload.c")
VARIABLE = "IOPROF_LIBRARY"
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared")
COMPILERS = ("cc", "gcc", "clang")
TIMEOUT_S = 120.0


def library() -> Path:
    """The library for this system, from the cache or newly built; raises IoprofError where it cannot be."""
    given = os.environ.get(VARIABLE)
    if given:
        if not Path(given).is_file():
            raise IoprofError(f"{VARIABLE} is {given}, which is no file: unset it, or build one: ioprof build {given}")
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
    raise IoprofError(f"the library cannot be written to {' or '.join(tried)}: set XDG_CACHE_HOME to a folder of yours")


def build(to: Path) -> None:
    """Compile the library; raises OSError where it cannot be written there, IoprofError where nothing compiles it."""
    if platform.system() != "Linux":
        raise IoprofError(f"reads are counted on Linux only, and this is {platform.system()}")
    compiler = _compiler()
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        part = Path(folder) / "library.so"
        command = [*compiler, *FLAGS, "-o", str(part), str(SOURCE), "-ldl", "-lpthread"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            raise IoprofError(
                f"the compiler '{compiler[0]}' cannot be run ({error}): set CC to one that can"
            ) from error
        if done.returncode or not part.exists():
            last = (done.stderr.strip().splitlines() or ["it says nothing"])[0]
            raise IoprofError(
                f"'{' '.join(compiler)}' cannot build the library that counts reads ({last}): install gcc and the C "
                "library's headers (libc6-dev, glibc-devel), or set CC to a compiler that has them"
            )
        part.replace(to)


def _compiler() -> list[str]:
    wanted = os.environ.get("CC", "").split()
    if wanted:
        return wanted
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    raise IoprofError(
        "counting reads needs a C compiler once, and there is none of "
        f"{', '.join(COMPILERS)}: install gcc here, or set {VARIABLE} to the file that 'python3 -m ioprof build FILE' "
        "made on a system with the same or an older C library"
    )


def _name() -> str:
    """Return the name of the built file, which differs for another source, machine, C library or compiler option."""
    key = [SOURCE.read_bytes(), platform.machine().encode(), " ".join(platform.libc_ver()).encode()]
    key.append(" ".join([os.environ.get("CC", ""), *FLAGS]).encode())
    return f"libioprof-{hashlib.sha256(b'|'.join(key)).hexdigest()[:16]}.so"


def _caches() -> Iterator[Path]:
    """The user's own cache; without one, a folder of this user alone."""
    home = os.environ.get("XDG_CACHE_HOME") or f"{os.environ.get('HOME', '')}/.cache"
    if home.startswith("/"):
        yield Path(home) / "ioprof"
    folder = Path(tempfile.gettempdir()) / f"ioprof-{os.getuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.lstat()
        # Whoever may write there could put another library in its place.
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022:
            yield folder
