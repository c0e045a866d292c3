"""Interface of a sensor to the rest of jpwr: a named channel with a scope."""

from __future__ import annotations

import enum
from typing import Any, Callable, NamedTuple

MOST = 1e15  # upper bound on plausible seconds, watts and joules, whose square is still a number
MOST_W = 1e9  # upper bound on the plausible power of any machine
# The largest numbers of 16, 31 and 32 bits, in watts and in milliwatts: firmware reports them for an unknown power.
NO_POWER_W = frozenset((32767.0, 65535.0, 2147483.647, 4294967.295))
# A board may take more than its limit for milliseconds, and a laptop's processor three times as much for seconds.
TIMES_LIMIT = 5.0
LEAST_W = 0.001  # of a node: one that runs this program uses more than 0 W


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
    source: str  # sensor and interface, for a person
    estimated: bool = False  # modelled, not measured
    num_devices: int = 1  # devices whose power this channel includes
    device_id: str = ""  # all ids by which the device may be known, or several devices, separated by spaces
    has_counter: bool = False  # an energy counter is read, too
    mine: bool = True  # False: a device of this node that is hidden from this job
    period_s: float = 0.0  # refresh interval at which the sensor is read, in seconds; 0: unknown
    averaging_s: float = 0.0  # averaging time of a power reading, in seconds; 0: instantaneous, or unknown
    counter_resolution_j: float = 0.0  # smallest step of the counter, in joules
    counter_refresh_s: float = 0.0  # longest refresh interval of the counter, in seconds; 0: unknown
    held_s: float = 0.0  # hold time: longest time for which the sensor repeats a power, in seconds; 0: unknown
    seen_share: float = 1.0  # duty cycle of the power sensor, from above 0 to 1
    limit_w: float = 0.0  # power limit of the device, in watts; 0: unknown
    from_counter: bool = False  # power is the slope of the counter, so that nothing checks the counter
    lacks: str = ""  # unavailable readings of this sensor, and the reasons
    accuracy: float = 0.0  # bound on the sensor's own error, as a share of the reading; 0: not stated
    accuracy_from: str = ""  # "data sheet", "documentation" or "assumed"; empty: not stated
    resolution_w: float = 0.0  # step of a power reading, in watts; 0: negligible, or unknown

    def described(self) -> dict[str, Any]:
        """Return the properties that a report states of each channel."""
        names = ("name", "source", "estimated", "device_id", "num_devices", "accuracy_from")
        stated = {name: getattr(self, name) for name in names}
        return {**stated, "scope": self.scope.value, "accuracy": self.accuracy or None}


def bounds_w(info: ChannelInfo) -> tuple[float, float]:
    """Return the lowest and the highest plausible power of a channel, in watts."""
    least_w = LEAST_W if info.scope in (Scope.NODE, Scope.SUPPLY) else 0.0
    return least_w, min(MOST_W, TIMES_LIMIT * info.limit_w or MOST_W)


def check_info(info: Any) -> None:
    """Raise ValueError unless `info` describes a channel that a trace can hold."""
    if not isinstance(info, ChannelInfo):
        raise ValueError(f"{info!r:.60} is not a ChannelInfo")
    if not isinstance(info.scope, Scope):
        raise ValueError(f"the scope of a channel must be one of {', '.join(scope.value for scope in Scope)}")
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
        raise ValueError("the name of a channel is empty, or contains a comma, a quotation mark or a control character")
    if not 0 < info.seen_share <= 1:
        raise ValueError(f"the seen_share of a channel must be above 0 and at most 1, got {info.seen_share!r:.40}")


def check_number(value: Any, name: str) -> None:
    """Raise ValueError unless the value is a number of at most MOST; `name` begins the message."""
    if not (isinstance(value, (int, float)) and abs(value) <= MOST):  # nan is not
        raise ValueError(f"{name} is not a finite number")


class Channel(NamedTuple):
    """One sensor, open for reading.

    `read_power_w` returns watts, `read_energy_j` the joules of a counter that never falls; at least one is given. Both
    raise ReadError. Without `read_power_w` the sampler uses the counter's slope. `read_status` returns values that
    explain a reading, such as clocks; it is called once per second, and may raise ReadError, too. `counter_takes_s` is
    the time of a call of `read_energy_j` in seconds, or 0 if it is negligible. If it is not, `read_energy_j` may be
    called less often and in another thread than `read_power_w`.

    Each function is called by one thread at a time. A channel whose `period_s` is above the sampling interval is read
    in a thread of its own, once per period.
    """

    info: ChannelInfo
    read_power_w: Callable[[], float] | None = None
    read_energy_j: Callable[[], float] | None = None
    read_status: Callable[[], dict[str, Any]] | None = None
    counter_takes_s: float = 0.0

    def sampled_info(self, interval_s: float) -> ChannelInfo:
        """Return the properties for a trace at a sampling interval in seconds: a counter's slope is a mean over it."""
        if self.read_power_w:
            return self.info
        held_s = max(self.info.held_s, self.info.period_s, interval_s)
        return self.info._replace(held_s=held_s, from_counter=True)
