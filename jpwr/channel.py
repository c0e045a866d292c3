"""Interface of a sensor to the rest of jpwr: a named channel with a scope."""

from __future__ import annotations

import enum
from typing import Any, Callable, NamedTuple

MOST = 1e15  # of seconds, watts and joules: more is damage, and its square is still a number
MOST_W = 1e9  # of any machine
FRESH_S = 5  # what was read longer ago is not power now


class Scope(enum.Enum):
    """Part of the node that a channel's watts cover.

    A module contains its device, and a node contains everything. The supply line contains the node and the losses of
    the power supply. Watts are added within one scope and never across two.
    """

    DEVICE = "device"
    MODULE = "module"
    CPU = "cpu"
    DRAM = "dram"
    NODE = "node"
    SUPPLY = "supply"  # a meter between the node and the mains


class ChannelInfo(NamedTuple):
    """Properties of a channel that are known without reading it; a trace stores them."""

    name: str  # unique on its node, such as "pynvml:0"
    scope: Scope
    source: str  # where the number comes from, in words
    estimated: bool = False  # modelled, not measured
    num_devices: int = 1  # devices whose power this channel includes
    device_id: str = ""  # the vendor's unique id of the device, where there is one; several are separated by spaces
    has_counter: bool = False  # an energy counter is read, too
    mine: bool = True  # False: a device of this node that is hidden from this job
    period_s: float = 0.0  # how often the sensor has a new value, in seconds; 0: not known
    averaging_s: float = 0.0  # time over which a power reading is a mean, in seconds; 0: an instant, or not known
    counter_resolution_j: float = 0.0  # smallest step of the counter, in joules
    counter_refresh_s: float = 0.0  # longest time between two new values of the counter, in seconds; 0: not known
    held_s: float = 0.0  # how long the sensor may show a power before it has a new one, in seconds; 0: not known
    seen_share: float = 1.0  # share of the time that readings of power are of; below 1 the sensor is blind in between
    limit_w: float = 0.0  # the most power that the device is allowed, in watts; 0: not known
    from_counter: bool = False  # power is the counter's own slope: nothing checks it
    lacks: str = ""  # what of this sensor cannot be read, and why
    accuracy: float = 0.0  # bound on the sensor's own error, as a share of the reading; 0: not stated
    accuracy_from: str = ""  # "data sheet", "documentation" or "assumed"; empty: not stated


def check_info(info: Any) -> None:
    """Raise ValueError for what describes no channel, or one that no trace can hold."""
    if not isinstance(info, ChannelInfo):
        raise ValueError(f"{info!r:.60} is no ChannelInfo")
    if not isinstance(info.scope, Scope):
        raise ValueError(f"the scope of a channel is none of {', '.join(scope.value for scope in Scope)}")
    for name, value in info._asdict().items():
        kind = type(ChannelInfo._field_defaults.get(name, ""))
        if name == "scope":
            continue
        if kind in (int, float):
            check_number(value, f"the {name} of a channel")
            if value < 0:
                raise ValueError(f"the {name} of a channel is below 0")
        elif not isinstance(value, kind):
            raise ValueError(f"the {name} of a channel is not of type {kind.__name__}")
    if not info.name.isprintable() or not info.name or "," in info.name or '"' in info.name:
        raise ValueError("the name of a channel is empty, or has a comma, a quotation mark or a line's end in it")
    if info.name == "timestamps":
        raise ValueError("the name of a channel is that of the column of times")
    if not 0 < info.seen_share <= 1:
        raise ValueError("the seen_share of a channel is no share")


def check_number(value: Any, name: str) -> None:
    """Raise ValueError, which calls it by that name, for what is no finite number that anybody can have meant."""
    try:
        if isinstance(value, (int, float)) and abs(float(value)) <= MOST:  # nan is not
            return
    except OverflowError:  # a whole number that is larger than any float
        pass
    raise ValueError(f"{name} is no finite number")


class Channel(NamedTuple):
    """One sensor, open for reading.

    `read_power_w` returns watts, `read_energy_j` a counter in joules that never falls; at least one is given.
    Both raise ReadError. Without `read_power_w` the sampler takes the counter's slope. `read_status` returns what
    explains a reading, such as clocks; it is read once per second, and may raise ReadError too. `counter_takes_s` is
    how long `read_energy_j` takes, in seconds, where that is long enough to matter: then it may be called in another
    thread than `read_power_w`, where there is one, and less often.

    Each of them is called by one thread at a time. A channel whose `period_s` is above the sampling interval is read in
    a thread of its own, at that period.
    """

    info: ChannelInfo
    read_power_w: Callable[[], float] | None = None
    read_energy_j: Callable[[], float] | None = None
    read_status: Callable[[], dict[str, Any]] | None = None
    counter_takes_s: float = 0.0

    def sampled_info(self, interval_s: float) -> ChannelInfo:
        """Return the properties that a trace stores; the slope of a counter is a mean from one reading to the next."""
        if self.read_power_w:
            return self.info
        held_s = max(self.info.held_s, self.info.period_s, interval_s)
        return self.info._replace(held_s=held_s, from_counter=True)
