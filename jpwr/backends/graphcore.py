"""Power of Graphcore IPUs, through gcipuinfo of the Poplar SDK."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable, ReadError
from jpwr.process.clock import Clock

# Graphcore's documentation of the attribute "ipu power" states neither a refresh interval nor an accuracy. The summary
# has a note if most readings repeat the one before.
SHARED_S = 0.005  # one call reads all devices: its result is used for all that are read within this time


def open_channels(stack: ExitStack, clock: Clock | None = None) -> list[Channel]:
    """Open a channel for each IPU; raise BackendUnavailable without gcipuinfo or an IPU."""
    try:
        import gcipuinfo
    except ImportError as error:
        raise BackendUnavailable("Python has no module gcipuinfo: enable the Poplar SDK first") from error
    inventory = gcipuinfo.gcipuinfo()
    num_devices = len(inventory.getDevices())
    if not num_devices:
        raise BackendUnavailable("gcipuinfo lists no IPU: is a partition of the Pod allocated to you?")
    readings = _Readings(inventory, gcipuinfo.IpuPower, num_devices, clock or Clock())
    return [
        Channel(
            ChannelInfo(f"gc:{index}", Scope.DEVICE, "IPU power by gcipuinfo"), partial(readings.read_power_w, index)
        )
        for index in range(num_devices)
    ]


class _Readings:
    """Reader of the power of all IPUs."""

    def __init__(self, inventory: Any, attribute: Any, num_devices: int, clock: Clock) -> None:
        self._inventory = inventory
        self._attribute = attribute
        self._num_devices = num_devices
        self._clock = clock
        self._values: list[str] = []
        self._read_at_s = float("-inf")

    def read_power_w(self, index: int) -> float:
        now_s = self._clock.now_s()
        if now_s - self._read_at_s > SHARED_S:
            self._read_at_s, self._values = now_s, []
            self._values = list(self._inventory.getNamedAttributeForAll(self._attribute))
        if len(self._values) != self._num_devices:
            # In a shorter list, it is unknown which device each value belongs to.
            raise ReadError(f"gcipuinfo returned {len(self._values)} powers for {self._num_devices} IPUs")
        text = self._values[index].strip()
        return float(text[:-1] if text.endswith("W") else text)  # such as "45.12W"
