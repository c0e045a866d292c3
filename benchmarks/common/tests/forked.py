"""Programs in processes that are forked from one that has imported what they need: a framework takes seconds of it.

What depends on how a program is started, as on its launcher or on its own imports, is tested with real starts.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import connection, forkserver
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from benchmarks.common.spawn import environs, free_ports
from tests.waiting import PATIENCE_S

REPOSITORY = Path(__file__).resolve().parents[3]


def prepare(modules: Sequence[str], environ: Mapping[str, str]) -> None:
    """Name what programs need before the first is started; the environment is what the imports must see."""
    multiprocessing.get_context("forkserver").set_forkserver_preload([__name__, *modules])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**environ, "PYTHONPATH": str(REPOSITORY)}.items():
            patch.setenv(name, value)
        forkserver.ensure_running()


def run(
    module: str, *arguments: str, ranks: int = 0, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`python -m` with a module: alone, or as so many ranks of one node. The others of a rank that fails are ended."""
    started = multiprocessing.get_context("forkserver")
    told = environs(ranks, free_ports(ranks)) or [{}]
    with TemporaryDirectory() as folder:
        outputs = [Path(folder) / str(rank) for rank, _ in enumerate(told)]
        running = [
            started.Process(target=_program, args=(module, arguments, {**(environ or {}), **own}, output))
            for own, output in zip(told, outputs, strict=True)
        ]
        for process in running:
            process.start()
        codes = _wait(running)
        said = ["".join(Path(f"{output}.{kind}").read_text() for output in outputs) for kind in ("out", "err")]
    return subprocess.CompletedProcess([module, *arguments], next(filter(None, codes), 0), *said)


def _wait(running: Sequence[multiprocessing.process.BaseProcess]) -> list[int | None]:
    left = {process.sentinel: process for process in running}
    while left:
        ended = [left.pop(sentinel) for sentinel in connection.wait(left, PATIENCE_S)]
        if not ended or any(process.exitcode for process in ended):
            for process in left.values():
                process.kill()
    for process in running:
        process.join()
    return [process.exitcode for process in running]


def _program(module: str, arguments: Sequence[str], environ: Mapping[str, str], output: Path) -> None:
    """In the forked process: all that it says goes to files."""
    os.environ.update(environ)
    sys.path[:0] = environ.get("PYTHONPATH", "").split(":")
    for kind, number in (("out", 1), ("err", 2)):
        file = os.open(f"{output}.{kind}", os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)
