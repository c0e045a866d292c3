"""The management library of NVIDIA's driver, called without a Python package.

Packages that are imported as `pynvml` differ in layout and types, and vendors' images have old ones. Names and types of
functions are those of the NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from functools import partial
from typing import Any, Callable

from jpwr.errors import BackendUnavailable, ReadError

LIBRARY = "libnvidia-ml.so.1"
# nvmlReturn_t
SUCCESS, NO_PERMISSION, INSUFFICIENT_SIZE = 0, 4, 7
CLOCK_GRAPHICS, CLOCK_SM, CLOCK_MEM = 0, 1, 2  # nvmlClockType_t
HOST_VGPU = 3  # NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU
TEXT_BYTES = 96  # NVML_DEVICE_NAME_V2_BUFFER_SIZE and NVML_DEVICE_UUID_V2_BUFFER_SIZE
MORE = 16  # items that a list may have gained since its length was read


class NvmlError(ReadError):
    """A function of NVML failed with a code of nvmlReturn_t."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(f"NVML: {words}")
        self.code = code


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t of a field whose value is an unsigned integer."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("value_type", ctypes.c_int),
        ("code", ctypes.c_int),
        ("value", ctypes.c_uint),
        ("rest_of_value", ctypes.c_uint),
    )


class ProcessV1(ctypes.Structure):
    """nvmlProcessInfo_v1_t."""

    _fields_ = (("pid", ctypes.c_uint), ("used_bytes", ctypes.c_ulonglong))


class Process(ctypes.Structure):
    """nvmlProcessInfo_v2_t, and the third version of the function."""

    _fields_ = (*ProcessV1._fields_, ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint))


PROCESSES = "nvmlDeviceGetComputeRunningProcesses"
PROCESS_LISTS = ((f"{PROCESSES}_v3", Process), (f"{PROCESSES}_v2", Process), (PROCESSES, ProcessV1))


class Nvml:
    """The library, initialised until a stack is closed; raises BackendUnavailable without a driver."""

    def __init__(self, stack: ExitStack) -> None:
        count = ctypes.c_uint()
        try:
            self._library = ctypes.CDLL(LIBRARY)
            self._library.nvmlErrorString.restype = ctypes.c_char_p
            self.check(self._library.nvmlInit_v2())
            stack.callback(self._library.nvmlShutdown)
            self.check(self._library.nvmlDeviceGetCount_v2(ctypes.byref(count)))
        except (OSError, AttributeError, NvmlError) as error:
            raise BackendUnavailable(f"NVML cannot be used ({error}): is this a node with an NVIDIA driver?") from error
        self.count = count.value

    def device(self, index: int) -> Device:
        """Return one GPU; raise NvmlError if it cannot be reached."""
        handle = ctypes.c_void_p()
        self.check(self._library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)))
        return Device(self, handle)

    def function(self, name: str) -> Callable[..., int]:
        """Return a function of the library; raise ReadError if the driver lacks it."""
        try:
            return self._library[name]  # type: ignore[no-any-return]
        except AttributeError as error:
            raise ReadError(f"this driver's NVML has no {name}") from error

    def check(self, code: int) -> None:
        """Raise NvmlError unless a function has succeeded."""
        if code:
            raise NvmlError(self._library.nvmlErrorString(code).decode(errors="replace"), code)


class Device:
    """One GPU, or an instance of it; all functions raise ReadError, with the error's code if NVML returns one."""

    def __init__(self, nvml: Nvml, handle: ctypes.c_void_p) -> None:
        self._nvml = nvml
        self._handle = handle

    def function(self, name: str, *arguments: Any) -> Callable[[], int]:
        """Return a function of the library with its arguments, which returns the error's code."""
        return partial(self._nvml.function(name), self._handle, *arguments)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the library."""
        self.check(self.function(name, *arguments)())

    def number(self, name: str, *arguments: int, kind: Any = ctypes.c_uint) -> int:
        """Return the integer of a type that a function writes."""
        number = kind()
        self.call(name, *arguments, ctypes.byref(number))
        return int(number.value)

    def two_numbers(self, name: str) -> tuple[int, int]:
        """Return the two integers that a function writes."""
        first, second = ctypes.c_uint(), ctypes.c_uint()
        self.call(name, ctypes.byref(first), ctypes.byref(second))
        return first.value, second.value

    def items(self, name: str, kind: Any, *arguments: int) -> list[Any]:
        """Return the list that a function writes."""
        count = ctypes.c_uint()
        code = self.function(name, *arguments, ctypes.byref(count), None)()
        if code == INSUFFICIENT_SIZE:
            count.value += MORE
            found = (kind * count.value)()
            self.call(name, *arguments, ctypes.byref(count), found)
            return list(found[: count.value])
        self.check(code)
        return []

    def text(self, name: str) -> str:
        """Return the text that a function writes; empty if the function fails."""
        letters = ctypes.create_string_buffer(TEXT_BYTES)
        try:
            self.call(name, letters, TEXT_BYTES)
        except ReadError:
            return ""
        return letters.value.decode(errors="replace")

    def instance(self, index: int) -> Device:
        """Return one of the GPU's MIG instances."""
        handle = ctypes.c_void_p()
        self.call("nvmlDeviceGetMigDeviceHandleByIndex", index, ctypes.byref(handle))
        return Device(self._nvml, handle)

    def processes(self) -> list[int]:
        """Return the numbers of the processes that compute on the GPU, by the newest function that the driver has."""
        *newer, oldest = PROCESS_LISTS
        for name, kind in newer:
            try:
                self._nvml.function(name)
            except ReadError:
                continue
            return [one.pid for one in self.items(name, kind)]
        return [one.pid for one in self.items(*oldest)]

    def check(self, code: int) -> None:
        """Raise NvmlError unless a function has succeeded."""
        self._nvml.check(code)
