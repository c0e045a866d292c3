"""Power of AMD GPUs, through amdsmi, or through ROCm SMI's own bindings where there is no amdsmi."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple

from jpwr.backends.visible import is_visible
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable, ReadError

MICRO = 1e-6
ENERGY_STEP_J = 15.3e-6  # ROCm SMI's documentation of the counter's resolution
VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
# ROCm 6 and 5 keep the bindings here, below $ROCM_PATH.
BINDINGS = ("libexec/rocm_smi", "rocm_smi/bindings")


class Device(NamedTuple):
    """One GPU of a library: how it is read, and what it is called."""

    device_id: str
    name: str
    read_power_w: Callable[[], float]
    read_energy_j: Callable[[], float]


def open_channels(stack: ExitStack, environ: Mapping[str, str] = os.environ) -> list[Channel]:
    try:
        library, devices = "amdsmi", _open_amdsmi(stack)
    except BackendUnavailable as no_amdsmi:
        try:
            library, devices = "ROCm SMI", _open_rocm_smi(stack, environ)
        except BackendUnavailable as no_rocm_smi:
            raise BackendUnavailable(f"{no_amdsmi}, and {no_rocm_smi}") from no_rocm_smi
    if not devices:
        raise BackendUnavailable(f"{library} is there, but it shows no GPU")
    return _channels(library, devices, environ)


def _channels(library: str, devices: list[Device], environ: Mapping[str, str]) -> list[Channel]:
    """One channel per sensor: a card's second device has none of its own, and belongs to the first one's."""
    channels: list[Channel] = []
    for index, device in enumerate(devices):
        power_w, energy_j = _value(device.read_power_w), _value(device.read_energy_j)
        mine = is_visible(environ, VISIBLE, index, device.device_id)
        if not power_w and not energy_j:
            # On MI250 one of a card's two devices reports the power of the card, and the other one none.
            if not channels or channels[-1].info.num_devices > 1:
                raise BackendUnavailable(f"{library} gives no power for device {index} ({device.name})")
            first = channels[-1].info
            both = first._replace(
                num_devices=2, device_id=f"{first.device_id} {device.device_id}", mine=first.mine or mine
            )
            channels[-1] = channels[-1]._replace(info=both)
            continue
        info = ChannelInfo(
            f"rocm:{index}",
            Scope.DEVICE,
            f"{device.name}, socket power by {library}",
            device_id=device.device_id,
            has_counter=bool(energy_j),
            mine=mine,
            counter_resolution_j=ENERGY_STEP_J if energy_j else 0.0,
        )
        channels.append(Channel(info, device.read_power_w, device.read_energy_j if energy_j else None))
    return channels


def _value(read: Callable[[], float]) -> float:
    try:
        return read()
    except ReadError:
        return 0.0


def _open_amdsmi(stack: ExitStack) -> list[Device]:
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints when its library is not there
            import amdsmi
    except ImportError as error:
        raise BackendUnavailable("Python has no module amdsmi: pip install amdsmi") from error
    except Exception as error:  # without libamd_smi.so the import ends in a KeyError, or whatever its version does
        raise BackendUnavailable("amdsmi does not find libamd_smi.so: install ROCm, or set ROCM_PATH") from error
    try:
        amdsmi.amdsmi_init()
        stack.callback(amdsmi.amdsmi_shut_down)
        return [_amdsmi_device(amdsmi, handle) for handle in amdsmi.amdsmi_get_processor_handles()]
    except amdsmi.AmdSmiException as error:
        raise BackendUnavailable(f"amdsmi cannot be used ({error}): is the amdgpu driver loaded?") from error


def _amdsmi_device(amdsmi: Any, handle: Any) -> Device:
    def call(name: str) -> Any:
        try:
            return getattr(amdsmi, name)(handle)
        except amdsmi.AmdSmiException as error:
            raise ReadError(f"amdsmi: {error}") from error

    def read_power_w() -> float:
        info = call("amdsmi_get_power_info")
        # Which of them a GPU fills depends on its generation; the others are "N/A" or 0.
        for key in ("current_socket_power", "socket_power", "average_socket_power"):
            value = info.get(key)
            if isinstance(value, (int, float)) and value:
                return float(value)
        raise ReadError("amdsmi: every socket power is N/A")

    def read_energy_j() -> float:
        count = call("amdsmi_get_energy_count")
        ticks = count.get("energy_accumulator", count.get("power"))  # "power" before ROCm 6.3
        return float(ticks * count["counter_resolution"] * MICRO)

    def text(name: str, key: str = "") -> str:
        try:
            value = call(name)
        except ReadError:
            return ""
        return str(value[key] if key else value)

    name = text("amdsmi_get_gpu_asic_info", "market_name") or "AMD GPU"
    return Device(text("amdsmi_get_gpu_device_uuid"), name, read_power_w, read_energy_j)


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
    # ROCm 6 hands the library out by a function, ROCm 5 has it as a name.
    smi = bindings.initRsmiBindings(silent=True) if hasattr(bindings, "initRsmiBindings") else bindings.rocmsmi
    count = ctypes.c_uint32()
    if smi.rsmi_init(0) or smi.rsmi_num_monitor_devices(ctypes.byref(count)):
        raise BackendUnavailable("ROCm SMI cannot be used: is the amdgpu driver loaded?")
    stack.callback(smi.rsmi_shut_down)
    return [_rocm_smi_device(smi, index) for index in range(count.value)]


def _rocm_smi_device(smi: Any, index: int) -> Device:
    def read(function: Callable[..., int], *arguments: Any) -> None:
        code = function(index, *arguments)
        if code:
            raise ReadError(f"ROCm SMI: error {code}")

    def read_power_w() -> float:
        power_uw = ctypes.c_uint64()
        read(partial(smi.rsmi_dev_power_ave_get), 0, ctypes.byref(power_uw))
        return power_uw.value * MICRO

    def read_energy_j() -> float:
        ticks, resolution, when = ctypes.c_uint64(), ctypes.c_float(), ctypes.c_uint64()
        read(smi.rsmi_dev_energy_count_get, ctypes.byref(ticks), ctypes.byref(resolution), ctypes.byref(when))
        return ticks.value * resolution.value * MICRO

    unique_id = ctypes.c_uint64()
    try:
        read(smi.rsmi_dev_unique_id_get, ctypes.byref(unique_id))
    except ReadError:
        unique_id.value = 0
    device_id = f"GPU-{unique_id.value:016x}" if unique_id.value else ""
    return Device(device_id, "AMD GPU", read_power_w, read_energy_j)
