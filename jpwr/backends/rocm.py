"""Power of AMD GPUs, through amdsmi, or through ROCm SMI's bindings if amdsmi is missing."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import re
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from jpwr.backends.parts import Lost, Part, attempt, channel_of, in_time, unless_all_are_lost
from jpwr.backends.visible import HIP, ROCR, visible
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable, ReadError
from jpwr.process.device_ids import amd_id, pci_address, same_ids

MICRO = 1e-6
ENERGY_STEP_J = 15.3e-6  # ROCm SMI's documentation of the counter's resolution
# The driver caches the table of metrics, with power and the counter in it, for a millisecond (Linux,
# smu_v13_0_6_ppt.c). AMD's documentation states no accuracy of either.
REFRESH_S = 0.001
VISIBLE = ((ROCR,), HIP)
# ROCm 6 and 5 keep the bindings here, below $ROCM_PATH.
BINDINGS = ("libexec/rocm_smi", "rocm_smi/bindings")
# MI300 has the current power, MI200 the average; newer libraries have either of them as the third.
SOCKET_POWERS = ("current_socket_power", "average_socket_power", "socket_power")
NO_POWER_W = 0xFFFF  # and above: a field of 16, 32 or 64 bits with all bits set has no value
NO_TICKS = 2**64 - 1
# A processor with its GPU on one socket, such as MI300A: its socket power contains the CPU's.
WITH_CPU = re.compile(r"\bMI\d+A\b", re.IGNORECASE)
INSTINCT = re.compile(r"\bMI(\d{3})", re.IGNORECASE)
TWO_DIES = "250"
PCI_IDS_WITH_CPU = (0x74A0,)  # MI300A, for libraries that lack its name


class Device(NamedTuple):
    """One GPU of a library, with its names and readings."""

    device_id: str  # AMD's, or the PCI address where it has none
    address: str  # on the PCI bus: the same for all partitions of a GPU
    name: str
    with_cpu: bool  # its power is that of a processor, too
    read_power_w: Callable[[], float]  # these two raise ReadError; both are 0 on a die that has no sensor
    read_energy_j: Callable[[], float]
    limit_w: float  # the power cap; 0 if unknown


class Sensor(NamedTuple):
    """Power and energy readings of a device, after a first try of both."""

    power: Part
    energy: Part
    answers: bool  # one of them returned a number, possibly 0

    @property
    def measures(self) -> bool:
        """Whether one of the readings works."""
        return not (isinstance(self.power, Lost) and isinstance(self.energy, Lost))


def open_channels(stack: ExitStack, environ: Mapping[str, str] = os.environ) -> list[Channel]:
    """Open a channel for each GPU or card with a sensor; raise BackendUnavailable without library, GPU or sensor."""
    try:
        library, devices = "amdsmi", _open_amdsmi(stack)
    except BackendUnavailable as no_amdsmi:
        try:
            library, devices = "ROCm SMI", _open_rocm_smi(stack, environ)
        except BackendUnavailable as no_rocm_smi:
            raise BackendUnavailable(f"{no_amdsmi}, and {no_rocm_smi}") from no_rocm_smi
    if not devices:
        raise BackendUnavailable(f"{library} lists no GPU: check the job's allocation and access to /dev/kfd")
    # A lost device has no name: it gets that of the others if they are of one model.
    models = {(device.name, device.with_cpu) for device in devices if device.name}
    if len(models) == 1:
        [(name, with_cpu)] = models
        devices = [device._replace(name=name, with_cpu=with_cpu) for device in devices]
    sensors = [in_time(partial(_try, device), _silent_sensor) for device in devices]
    mine = visible(environ, VISIBLE, [[device.device_id] for device in devices])
    cards = _cards(devices, sensors)
    return unless_all_are_lost([_channel(library, devices, sensors, card, mine) for card in cards])


def _silent_sensor(why: Lost) -> Sensor:
    return Sensor(why, why, answers=False)


def _silent_device(why: Lost) -> Device:
    return Device("", "", "", with_cpu=False, read_power_w=why, read_energy_j=why, limit_w=0.0)


def _try(device: Device) -> Sensor:
    def part(value: float | Lost, read: Callable[[], float]) -> Callable[[], float] | Lost:
        return value if isinstance(value, Lost) else partial(_above_zero, read) if value > 0 else Lost("it gives 0")

    power_w, energy_j = attempt(device.read_power_w), attempt(device.read_energy_j)
    return Sensor(
        part(power_w, device.read_power_w),
        part(energy_j, device.read_energy_j),
        answers=not (isinstance(power_w, Lost) and isinstance(energy_j, Lost)),
    )


def _above_zero(read: Callable[[], float]) -> float:
    value = read()
    if value > 0:
        return value
    raise ReadError("it gives 0")  # as during a reset of the GPU


def _cards(devices: list[Device], sensors: list[Sensor]) -> list[list[int]]:
    """Return the indices of the devices in groups that share one power sensor.

    All partitions of a GPU have its address, and its power. Of an MI250's two dies, which are neighbours, one has the
    card's power and the other one returns 0 (ROCm SMI's checkIfSecondaryDie). If the library has no product name, an
    MI250 is recognised by that.
    """
    gpus: dict[str, list[int]] = {}
    for index, device in enumerate(devices):
        gpus.setdefault(device.address or str(index), []).append(index)
    models: dict[str, list[list[int]]] = {}
    for gpu in gpus.values():
        models.setdefault(devices[gpu[0]].name, []).append(gpu)
    cards = []
    for model in models.values():
        pairs = [model[first : first + 2] for first in range(0, len(model), 2)]
        # Neighbours are unknown if a device is hidden, or if not always the same die of a pair measures.
        are_pairs = len(model) % 2 == 0 and len({_first_measures(sensors, pair) for pair in pairs} - {None}) <= 1
        for pair in pairs:
            cards += [pair[0] + pair[1]] if are_pairs and _are_one_card(devices, sensors, pair) else pair
    return sorted(cards)


def _first_measures(sensors: list[Sensor], pair: list[list[int]]) -> bool | None:
    """Whether only the first of two GPUs measures; None if both or none do."""
    first, second = (_measures(sensors, gpu) for gpu in pair)
    return None if first == second else first


def _measures(sensors: list[Sensor], gpu: list[int]) -> bool:
    return any(sensors[index].measures for index in gpu)


def _are_one_card(devices: list[Device], sensors: list[Sensor], pair: list[list[int]]) -> bool:
    name = devices[pair[0][0]].name
    if name:
        product = INSTINCT.search(name)
        has_two_dies = product is not None and product[1] == TWO_DIES
        return has_two_dies and not all(_measures(sensors, gpu) for gpu in pair)
    only_zeros = [all(sensors[index].answers and not sensors[index].measures for index in gpu) for gpu in pair]
    return sorted(only_zeros) == [False, True]


def _channel(library: str, devices: list[Device], sensors: list[Sensor], card: list[int], mine: list[int]) -> Channel:
    # The device that measures; if none does, one that is lost, as the other die never measures.
    index = min(card, key=lambda index: (not sensors[index].measures, sensors[index].answers))
    device, sensor = devices[index], sensors[index]
    what = "power of the socket, CPU and GPU," if device.with_cpu else "socket power"
    shared = f"; {len(card)} devices together" if len(card) > 1 else ""
    # Frameworks may know the address alone.
    ids = [devices[other].device_id for other in card] + [devices[other].address for other in card]
    info = ChannelInfo(
        f"rocm:{index}",
        Scope.MODULE if device.with_cpu else Scope.DEVICE,
        f"{device.name or 'AMD GPU'}, {what} by {library}{shared}",
        num_devices=len(card),
        device_id=" ".join(dict.fromkeys(filter(None, ids))),
        mine=any(index in mine for index in card),
        counter_resolution_j=ENERGY_STEP_J,
        counter_refresh_s=REFRESH_S,
        held_s=REFRESH_S,
        limit_w=device.limit_w,
    )
    return channel_of(info, sensor.power, sensor.energy)


def _open_amdsmi(stack: ExitStack) -> list[Device]:
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints if its library is missing
            import amdsmi
    except ImportError as error:
        raise BackendUnavailable("Python has no module amdsmi: pip install amdsmi") from error
    except Exception as error:  # without libamd_smi.so, the import raises KeyError or others, by its version
        raise BackendUnavailable("amdsmi does not find libamd_smi.so: install ROCm, or set ROCM_PATH") from error
    try:
        amdsmi.amdsmi_init()
        stack.callback(amdsmi.amdsmi_shut_down)
        handles = amdsmi.amdsmi_get_processor_handles()
        return [in_time(partial(open_device, amdsmi, handle), _silent_device) for handle in handles]
    except amdsmi.AmdSmiException as error:
        raise BackendUnavailable(f"amdsmi cannot be used ({_one_line(error)}): is the amdgpu driver loaded?") from error


def open_device(amdsmi: Any, handle: Any) -> Device:
    """Return one GPU of amdsmi."""

    def call(name: str) -> Any:
        try:
            return getattr(amdsmi, name)(handle)
        except Exception as error:  # an older amdsmi lacks a function, and any version may fail to decode a value
            raise ReadError(f"amdsmi: {_one_line(error)}") from error

    def read_power_w() -> float:
        info = call("amdsmi_get_power_info")
        known = [
            value for value in map(info.get, SOCKET_POWERS) if isinstance(value, (int, float)) and value < NO_POWER_W
        ]
        if not known:
            raise ReadError("amdsmi: every socket power is N/A")
        return float(next(filter(None, known), 0))

    def read_energy_j() -> float:
        count = call("amdsmi_get_energy_count")
        ticks = count.get("energy_accumulator", count.get("power"))  # "power" before ROCm 6.3
        step_uj = count.get("counter_resolution")
        if not isinstance(ticks, int) or not isinstance(step_uj, (int, float)) or ticks == NO_TICKS:
            raise ReadError("amdsmi: the energy counter is N/A")
        return float(ticks * step_uj * MICRO)

    def read_limit_w() -> float:
        cap_uw = call("amdsmi_get_power_cap_info").get("power_cap")
        return _limit_w(cap_uw if isinstance(cap_uw, int) else 0)

    asic = attempt(partial(call, "amdsmi_get_gpu_asic_info"))
    facts: dict[str, Any] = {} if isinstance(asic, Lost) else asic
    name = str(facts.get("market_name") or "").replace("N/A", "")
    bdf = attempt(partial(call, "amdsmi_get_gpu_device_bdf"))
    address = "" if isinstance(bdf, Lost) else bdf.rpartition(".")[0]
    uuid = attempt(partial(call, "amdsmi_get_gpu_device_uuid"))
    limit_w = attempt(read_limit_w)
    # In ROCm 6.0, the UUID does not contain the serial number.
    serial = amd_id(_number(facts.get("asic_serial")))
    device_id = serial or next(iter([] if isinstance(uuid, Lost) else same_ids(uuid)), address)
    return Device(
        device_id,
        address,
        name,
        has_cpu(name, _number(facts.get("device_id"))),
        read_power_w,
        read_energy_j,
        0.0 if isinstance(limit_w, Lost) else limit_w,
    )


def _limit_w(cap_uw: int) -> float:
    """Return a power cap in watts; 0 for the sentinel of no value."""
    cap_w = cap_uw * MICRO
    return cap_w if cap_w < NO_POWER_W else 0.0


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _number(text: Any) -> int:
    """Return the value of an amdsmi number such as "0x74A0"; 0 for "N/A"."""
    try:
        return int(text, 16)
    except (TypeError, ValueError):
        return 0


def has_cpu(name: str, pci_id: int) -> bool:
    """Whether a device with that name or PCI device id contains a CPU."""
    return bool(WITH_CPU.search(name)) or pci_id in PCI_IDS_WITH_CPU


def _open_rocm_smi(stack: ExitStack, environ: Mapping[str, str]) -> list[Device]:
    rocm = Path(environ.get("ROCM_PATH", "/opt/rocm"))
    folders = [str(rocm / folder) for folder in BINDINGS]
    sys.path[:0] = folders
    try:
        import rsmiBindings as bindings  # noqa: N813 - the library's name
    except (ImportError, OSError) as error:
        raise BackendUnavailable(
            f"{rocm} has no ROCm SMI bindings: set ROCM_PATH to the folder of your ROCm"
        ) from error
    finally:
        for folder in folders:
            sys.path.remove(folder)
    # ROCm 6 returns the library from a function, ROCm 5 has it as a module attribute.
    smi = bindings.initRsmiBindings(silent=True) if hasattr(bindings, "initRsmiBindings") else bindings.rocmsmi
    count = ctypes.c_uint32()
    if smi.rsmi_init(0) or smi.rsmi_num_monitor_devices(ctypes.byref(count)):
        raise BackendUnavailable("ROCm SMI cannot be used: is the amdgpu driver loaded?")
    stack.callback(smi.rsmi_shut_down)
    return [in_time(partial(_rocm_smi_device, smi, index), _silent_device) for index in range(count.value)]


def _rocm_smi_device(smi: Any, index: int) -> Device:
    def call(name: str, *arguments: Any) -> None:
        try:
            function = getattr(smi, name)
        except AttributeError as error:
            raise ReadError(f"this ROCm SMI has no {name}") from error
        code = function(index, *arguments)
        if code:
            raise ReadError(f"ROCm SMI: error {code}")

    def number(kind: Any, name: str, *arguments: Any) -> int:
        """Return the number that a library function fills in; 0 if the function fails."""
        value = kind()
        called = attempt(partial(call, name, *arguments, ctypes.byref(value)))
        return 0 if isinstance(called, Lost) else int(value.value)

    def power_by(name: str, *before: Any, after: Sequence[Any] = ()) -> Callable[[], float]:
        def read() -> float:
            power_uw = ctypes.c_uint64()
            call(name, *before, ctypes.byref(power_uw), *after)
            if power_uw.value * MICRO >= NO_POWER_W:
                raise ReadError("ROCm SMI: the socket power is N/A")
            return power_uw.value * MICRO

        return read

    def read_energy_j() -> float:
        ticks, resolution, when = ctypes.c_uint64(), ctypes.c_float(), ctypes.c_uint64()
        call("rsmi_dev_energy_count_get", ctypes.byref(ticks), ctypes.byref(resolution), ctypes.byref(when))
        if ticks.value == NO_TICKS:
            raise ReadError("ROCm SMI: the energy counter is N/A")
        return ticks.value * resolution.value * MICRO

    # MI300 has only the current power, MI200 and ROCm 5 only the average.
    powers = (
        power_by("rsmi_dev_current_socket_power_get"),
        power_by("rsmi_dev_power_get", after=[ctypes.byref(ctypes.c_int())]),
        power_by("rsmi_dev_power_ave_get", 0),
    )
    read_power_w = next(
        (read for read in powers if not isinstance(attempt(partial(_above_zero, read)), Lost)), powers[-1]
    )
    bdf = number(ctypes.c_uint64, "rsmi_dev_pci_id_get")
    address = pci_address(bdf >> 32, bdf >> 8 & 0xFF, bdf >> 3 & 0x1F) if bdf else ""
    letters = ctypes.create_string_buffer(256)
    named = attempt(partial(call, "rsmi_dev_name_get", letters, ctypes.c_size_t(len(letters))))
    name = "" if isinstance(named, Lost) else letters.value.decode(errors="replace").strip()
    return Device(
        amd_id(number(ctypes.c_uint64, "rsmi_dev_unique_id_get")) or address,
        address,
        name,
        has_cpu(name, number(ctypes.c_uint16, "rsmi_dev_id_get")),
        read_power_w,
        read_energy_j,
        _limit_w(number(ctypes.c_uint64, "rsmi_dev_power_cap_get", 0)),
    )
