"""A full file system: a limit on the size of files stands in for it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import pytest

from benchmarks.common.launch import Launch
from benchmarks.common.options import ConfigError
from benchmarks.common.record import FAILED, OK, OUT_OF_MEMORY, RunRecord
from benchmarks.common.run import EXIT_FAILED, RESULT_PREFIX, check_record_path, run_recorded, skip_imports
from tests.waiting import PATIENCE_S

# An exit that takes Python down lets go of what modules hold, in which a framework's threads abort the process.
HOLDS = """
import atexit, ctypes
from benchmarks.common.run import leave


class Held:
    def __del__(self):
        print("taken down", flush=True)


held = Held()
counting = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)
counted = counting(lambda code, _: print("counted until", code, flush=True))
ctypes.CDLL(None).on_exit(counted, None)  # as a tool does that was preloaded
atexit.register(print, "registered")
print("not flushed")
leave(3)
"""


@contextmanager
def no_file_above(limit_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_folder_without_space_is_refused_before_the_run(tmp_path):
    with (
        no_file_above(100),
        pytest.raises(ConfigError, match=r"cannot be written \(File too large\): choose a writable folder"),
    ):
        check_record_path(str(tmp_path / "record.json"))
    assert not list(tmp_path.iterdir())


def test_a_record_that_finds_no_space_is_in_the_output(tmp_path, capsys):
    def body(record: RunRecord) -> None:
        record.status = OK

    path = tmp_path / "record.json"
    with no_file_above(100):
        code = run_recorded(RunRecord("b", "s", "m", "tokens", {}), str(path), Launch(), body)
    assert code == EXIT_FAILED
    printed = capsys.readouterr()
    assert json.loads(printed.out.splitlines()[0].removeprefix(RESULT_PREFIX))["status"] == OK
    assert f"b: error: the record {path} cannot be written (File too large): it was printed instead" in printed.err
    assert not list(tmp_path.iterdir())


def test_a_run_ends_with_a_summary(capsys):
    def body(record: RunRecord) -> None:
        record.status, record.layout = OK, {"num_devices": 2, "global_batch_size": 8}
        record.metrics = {"tokens_per_s": 100.0, "tokens_per_s_per_device": 50.0, "measured_s": 4.0, "first_loss": 9.0}

    assert run_recorded(RunRecord("b", "s", "m", "tokens", {}), "", Launch(), body) == 0
    assert "100.0 tokens/s over 4.0 s, 50.0 per device" in capsys.readouterr().out


class ResourceExhaustedError(Exception):
    """As TensorFlow's: its text says 'OOM' at most."""


NCCL = """NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled cuda error (run with NCCL_DEBUG=INFO), NCCL version 2.27.5
ncclUnhandledCudaError: Call to CUDA function failed.
Last error:
{}"""


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `x`"), OUT_OF_MEMORY, "CUBLAS_STATUS_ALLOC"),
        (RuntimeError(NCCL.format("Cuda failure 2 'out of memory'")), OUT_OF_MEMORY, "2.27.5 (Cuda failure 2 'out of"),
        (RuntimeError(NCCL.format("Failed to CUDA calloc async 62 bytes")), OUT_OF_MEMORY, "(Failed to CUDA calloc"),
        (RuntimeError(NCCL.format("Cuda failure 1 'invalid argument'")), FAILED, "NCCL version 2.27.5"),
        (RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: out of memory"), OUT_OF_MEMORY, "CUDA_ERROR"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), OUT_OF_MEMORY, "can't allocate"),
        (ResourceExhaustedError("OOM when allocating tensor"), OUT_OF_MEMORY, "OOM"),
        (MemoryError(), OUT_OF_MEMORY, "no message"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), FAILED, "illegal memory access"),
        (RuntimeError(""), FAILED, "no message"),
    ],
)
def test_too_little_memory_is_told_from_other_failures(error, status, said):
    def body(record: RunRecord) -> None:
        raise error

    def behind(record: RunRecord) -> None:
        raise RuntimeError("a step failed") from error

    record, second = (RunRecord("b", "s", "m", "tokens", {}) for _ in range(2))
    assert run_recorded(record, "", Launch(), body) == EXIT_FAILED
    assert record.status == status
    assert said in record.error
    assert run_recorded(second, "", Launch(), behind) == EXIT_FAILED
    assert second.status == status


def test_a_run_that_is_over_leaves_python_as_it_is():
    done = subprocess.run([sys.executable, "-c", HOLDS], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines() == ["not flushed", "registered", "counted until 3"]


def test_a_package_that_is_skipped_is_taken_for_one_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "wave", None)  # restored afterwards
    del sys.modules["wave"]
    skip_imports("wave", "json")
    with pytest.raises(ImportError):
        import_module("wave")
    assert import_module("json") is json  # one that is in use stays
