"""Power of NVIDIA GPUs, through NVML and nvidia-ml-py."""

from __future__ import annotations

import ctypes
import os
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Callable, Container, Mapping, Union

from jpwr.backends.parts import Lost, attempt, channel_of, in_time, seconds_of, unless_all_are_lost
from jpwr.backends.visible import visible
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable, ReadError

VISIBLE = (("CUDA_VISIBLE_DEVICES",),)
# NVIDIA's documentation of nvmlDeviceGetPowerUsage: a one-second average on Ampere and later, but not on GA100.
AVERAGED_S = 1.0
# nvml.h, NVML_POWER_SCOPE_GPU and _MODULE: instant power of the GPU alone, or with the NVIDIA CPU on its module.
OF_GPU, OF_MODULE = 0, 1
INSTANT = ("c_nvmlFieldValue_t", "NVML_FI_DEV_POWER_INSTANT")  # old packages lack one of them
LIBRARY = "libnvidia-ml.so.1"  # the file that all packages open
UPGRADE = "'pip uninstall pynvml' and 'pip install --upgrade nvidia-ml-py' replace it"
# Drivers before R510 lack the third version of the function, and old packages have one without a version alone.
PROCESSES, VERSIONS = "nvmlDeviceGetComputeRunningProcesses", ("_v3", "_v2")
COUNTER_STEP_J = 0.001  # the counter is in millijoules
_Number = Union[ctypes.c_uint, ctypes.c_ulonglong]
# Yang et al. 2023 (arXiv:2312.02741): the longest refresh interval that they observed. On the chips GA100 and GH100,
# known by their compute capabilities, a value is the average over 25 ms of each 100 ms.
REFRESH_S = 0.1
SEEN_SHARE = 0.25
SEEN_IN_PART = ((8, 0), (9, 0))
# The NVML reference (nvmlDeviceGetPowerUsage) states +-5 % for Fermi and Kepler boards (compute capability 2, 3), and
# nothing for newer ones.
ACCURACY, DOCUMENTED_UNTIL = 0.05, 3


def open_channels(stack: ExitStack, environ: Mapping[str, str] = os.environ) -> list[Channel]:
    """Open a channel for each GPU; raise BackendUnavailable without a driver, a GPU or a readable sensor."""
    nvml, count = opened(stack)
    found = [in_time(partial(_channel, nvml, index), partial(_lost, index)) for index in range(count)]
    channels, ids = zip(*found)
    mine = visible(environ, VISIBLE, ids)
    return unless_all_are_lost(
        [channel._replace(info=channel.info._replace(mine=index in mine)) for index, channel in enumerate(channels)]
    )


def opened(stack: ExitStack) -> tuple[Any, int]:
    """Return the module with nvidia-ml-py's functions, initialised until the stack is closed, and the number of GPUs.

    Raises BackendUnavailable without that package, a driver or a GPU.
    """
    nvml = _package()
    try:
        nvml.nvmlInit()
        stack.callback(nvml.nvmlShutdown)
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        raise BackendUnavailable(f"NVML cannot be used ({error}): is this a node with an NVIDIA driver?") from error
    if not count:
        raise BackendUnavailable("the NVIDIA driver lists no GPU: check 'nvidia-smi' and the job's allocation")
    return nvml, count


def _package() -> Any:
    """Return the module with nvidia-ml-py's functions.

    The package pynvml is a folder up to version 11.5: its functions, and the variables that they change, are in a
    module `nvml` there.
    """
    try:
        import pynvml

        nvml = getattr(pynvml, "nvml", pynvml)
        nvml.nvmlInit, nvml.NVMLError  # noqa: B018 - raises AttributeError if this is another module
    except ModuleNotFoundError as error:
        raise BackendUnavailable(f"{error}: pip install nvidia-ml-py") from error
    except Exception as error:  # a package for Python 2, or another project's module, may raise anything
        raise BackendUnavailable(f"Python's module pynvml cannot be used ({error}): {UPGRADE}") from error
    return nvml


def missing_name(nvml: Any, *names: str) -> str:
    """Return what to do if the package lacks one of the names; empty if it has all."""
    missing = [name for name in names if not hasattr(nvml, name)]
    return f"{nvml.__file__} has no {missing[0]}: {UPGRADE}" if missing else ""


def devices_used_by(processes: Container[int]) -> list[str]:
    """Return the UUIDs of the GPUs on which one of the processes computes; empty if that is unknown.

    Inside a container, a driver may list the host's process numbers. A number that no process has here shows it.
    """
    found: dict[str, list[int]] = {}
    with ExitStack() as stack, suppress(BackendUnavailable):
        nvml, count = opened(stack)
        for index in range(count):
            with suppress(ReadError, nvml.NVMLError):
                device = _Device(nvml, nvml.nvmlDeviceGetHandleByIndex(index))
                found[device.text("nvmlDeviceGetUUID")] = device.processes()
    if not all(os.path.exists(f"/proc/{pid}") for listed in found.values() for pid in listed):  # noqa: PTH110
        return []
    return [uuid for uuid, listed in found.items() if any(pid in processes for pid in listed)]


def compute_capability() -> tuple[int, int] | None:
    """Return the compute capability of the node's first GPU, without initialising CUDA; None if it is unknown."""
    with ExitStack() as stack, suppress(BackendUnavailable):
        nvml, _ = opened(stack)
        with suppress(nvml.NVMLError):
            return _Device(nvml, nvml.nvmlDeviceGetHandleByIndex(0)).compute_capability()
    return None


def _info(index: int) -> ChannelInfo:
    return ChannelInfo(f"pynvml:{index}", Scope.DEVICE, "a GPU by NVML")


def _lost(index: int, why: Lost) -> tuple[Channel, list[str]]:
    return channel_of(_info(index), why), []


def _channel(nvml: Any, index: int) -> tuple[Channel, list[str]]:
    """Open one GPU; return its channel, and the ids by which a job may name it or a part of it.

    A GPU that cannot be opened is not read again, because it may hang.
    """
    try:
        device = _Device(nvml, nvml.nvmlDeviceGetHandleByIndex(index))
    except nvml.NVMLError as error:
        return _lost(index, Lost(f"NVML: {error}"))
    instant, averaged = attempt(partial(device.instant_power, OF_GPU)), attempt(device.averaged_power)
    power, kind, averaging_s = instant, "instant power", 0.0
    if isinstance(instant, Lost):
        power, kind, averaging_s = averaged, "averaged power", AVERAGED_S
    if isinstance(power, Lost):
        kind, averaging_s = "energy", 0.0
    energy = attempt(device.energy)
    uuid, capability = device.text("nvmlDeviceGetUUID"), device.compute_capability()
    name = device.text("nvmlDeviceGetName") or "NVIDIA GPU"
    divided = "; divided by MIG: all its instances together" if device.is_divided() else ""
    # Before driver 470, an instance was named by its GPU's UUID.
    ids = [uuid, f"MIG-{uuid}", *device.instances()] if divided else [uuid]
    info = _info(index)._replace(
        source=f"{name}, {kind} of {device.part(power)} by NVML{divided}",
        device_id=uuid,
        averaging_s=averaging_s,
        counter_resolution_j=COUNTER_STEP_J,
        counter_refresh_s=REFRESH_S,
        held_s=REFRESH_S,
        accuracy=ACCURACY,
        accuracy_from="documentation" if capability and capability[0] <= DOCUMENTED_UNTIL else "assumed",
        seen_share=SEEN_SHARE if capability in SEEN_IN_PART else 1.0,
        limit_w=device.limit_w(),
    )
    channel = channel_of(info, power, energy, device.status())._replace(counter_takes_s=seconds_of(energy))
    outdated = missing_name(nvml, *INSTANT)
    lacks = filter(None, [channel.info.lacks, outdated and f"no instant power ({outdated})"])
    return channel._replace(info=channel.info._replace(lacks="; ".join(lacks))), ids


class _Device:
    """One GPU.

    Each sample calls the library that nvidia-ml-py has opened, but not through its wrappers: these allocate memory for
    each result, which takes about as long as the call. A partial in place of the direct call takes a tenth of it.
    """

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        # By the name: the package's own variable for it has another name in old packages.
        self._library = ctypes.CDLL(LIBRARY)

    def averaged_power(self) -> Callable[[], float]:
        """Return a function that reads watts; this and the next two raise ReadError if the reading is unavailable."""
        return self._number("nvmlDeviceGetPowerUsage", per_unit=1000)  # of milliwatts

    def energy(self) -> Callable[[], float]:
        """Return a function that reads the energy counter, in joules."""
        return self._number("nvmlDeviceGetTotalEnergyConsumption", kind=ctypes.c_ulonglong, per_unit=1000)

    def instant_power(self, scope: int) -> Callable[[], float]:
        """Return a function that reads instantaneous watts, which newer drivers have as a field."""
        if outdated := missing_name(self._nvml, *INSTANT):
            raise ReadError(outdated)
        structure, power = (getattr(self._nvml, name) for name in INSTANT)
        field = structure(fieldId=power, scopeId=scope)
        take, handle, into = self._function("nvmlDeviceGetFieldValues"), self._handle, ctypes.byref(field)
        milliwatts = ctypes.c_uint.from_buffer(field, type(field).value.offset)

        def read() -> float:
            failed = take(handle, 1, into) or field.nvmlReturn
            if failed:
                raise self._error(failed)
            return milliwatts.value / 1000

        read()
        return read

    def part(self, power: Callable[[], float] | Lost) -> str:
        """Return the part of the hardware that power and counter cover, as far as NVML states it.

        nvml.h states no scope of the counter. On a GH200, it counts the module (ml-energy/zeus, pull request 172).
        """
        with suppress(ReadError):
            # A driver that knows no scopes returns the GPU's power for both.
            if not isinstance(power, Lost) and self.instant_power(OF_MODULE)() > power():
                return "the GPU without its module's CPU, which the counter may include,"
        return "the board"

    def compute_capability(self) -> tuple[int, int] | None:
        """Return the major and the minor number of the compute capability, or None if unknown."""
        try:
            major, minor = self._nvml.nvmlDeviceGetCudaComputeCapability(self._handle)
        except (self._nvml.NVMLError, AttributeError):
            return None
        return major, minor

    def limit_w(self) -> float:
        """Return the power limit in watts, or 0 if unknown."""
        found: float | Lost = attempt(lambda: self._number("nvmlDeviceGetEnforcedPowerLimit", per_unit=1000)())
        return 0.0 if isinstance(found, Lost) else found

    def status(self) -> Callable[[], dict[str, Any]] | None:
        """Return a function that reads clocks in MHz, power limit in W, temperature in °C and throttle reasons."""
        nvml = self._nvml
        asked: list[tuple[str, str, tuple[int, ...], type[_Number], Callable[[int], Any]]] = [
            ("sm_clock_mhz", "nvmlDeviceGetClockInfo", (nvml.NVML_CLOCK_SM,), ctypes.c_uint, int),
            ("temperature_c", "nvmlDeviceGetTemperature", (nvml.NVML_TEMPERATURE_GPU,), ctypes.c_uint, int),
            ("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", (), ctypes.c_uint, lambda mw: mw / 1000),
            ("throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", (), ctypes.c_ulonglong, "0x{:x}".format),
        ]
        known = []
        for key, name, arguments, kind, form in asked:
            with suppress(ReadError):
                number = kind()
                take = partial(self._function(name), self._handle, *arguments, ctypes.byref(number))
                if not take():
                    known.append((key, take, number, form))

        def read_status() -> dict[str, Any]:
            return {key: form(number.value) for key, take, number, form in known if not take()}

        return read_status if known else None

    def instances(self) -> list[str]:
        """Return the UUIDs of the GPU's MIG instances."""
        nvml = self._nvml
        found = []
        with suppress(nvml.NVMLError, AttributeError):
            for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(self._handle)):
                with suppress(nvml.NVMLError):  # there may be fewer than the maximum
                    instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, number)
                    found.append(_Device(nvml, instance).text("nvmlDeviceGetUUID"))
        return found

    def processes(self) -> list[int]:
        """Return the numbers of the processes that compute on the GPU; raise ReadError if they are unavailable."""
        names = [name for version in VERSIONS if hasattr(self._nvml, name := f"{PROCESSES}{version}")]
        for name in names or [PROCESSES]:
            with suppress(self._nvml.NVMLError_FunctionNotFound):
                return [one.pid for one in getattr(self._nvml, name)(self._handle)]
        raise ReadError("this driver's NVML lists no processes")

    def text(self, name: str) -> str:
        """Return the text from nvidia-ml-py's function of that name; empty if the function fails."""
        try:
            value = getattr(self._nvml, name)(self._handle)
        except (self._nvml.NVMLError, UnicodeError):
            return ""
        # Bytes before nvidia-ml-py 11.510.
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def is_divided(self) -> bool:
        """Whether the GPU is divided by MIG."""
        try:
            return bool(self._nvml.nvmlDeviceGetMigMode(self._handle)[0])
        except (self._nvml.NVMLError, AttributeError):  # an older driver, an older nvidia-ml-py
            return False

    def _number(self, name: str, per_unit: int, kind: type[Any] = ctypes.c_uint) -> Callable[[], Any]:
        """Return a function that reads one number, after a first read; raise ReadError if that read fails."""
        number = kind()
        take, handle, into = self._function(name), self._handle, ctypes.byref(number)

        def read() -> Any:
            code = take(handle, into)
            if code:
                raise self._error(code)
            return number.value / per_unit

        read()
        return read

    def _function(self, name: str) -> Callable[..., int]:
        """Return a function of the library, which returns an error code; raise ReadError if the library lacks it."""
        try:
            found: Callable[..., int] = self._library[name]
            return found
        except AttributeError as error:
            raise ReadError(f"this driver's NVML has no {name}") from error

    def _error(self, code: int) -> ReadError:
        return ReadError(f"NVML: {self._nvml.NVMLError(code)}")
