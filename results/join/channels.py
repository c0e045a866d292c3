"""Choose the power channels of a node that count: one scope, and the devices that trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise

from jpwr.channel import ChannelInfo
from jpwr.process.device_ids import same_ids
from jpwr.trace.trace import Series, Trace

# What a benchmark's energy is taken from: the narrowest scope that was measured.
SCOPES = ("device", "module", "cpu", "node", "supply")
OF_PROCESSORS = ("cpu", "node", "supply", "module", "device")  # the same where they trained themselves
IDENTIFIED = SCOPES[:2]  # channels of these may have the ids of the devices that they measure
# Memory is beside its processor, not inside it.
ADDED_TO = {"cpu": "dram"}
# Two channels are one sensor if so many changes, and such a share of all, are equal to a trace's last digit.
TWIN_CHANGES, TWIN_SHARE, READING_STEP = 10, 0.75, 2e-6


class EnergyError(Exception):
    """The traces do not give the energy of a run."""


def choose(found: Sequence[ChannelInfo], device_ids: Sequence[str], accelerated: bool | None) -> dict[ChannelInfo, int]:
    """The channels of one node that count, and how many of the devices in each are known to have trained.

    They are of one scope, and of devices with ids only those that trained, whatever the job's environment shows.
    Without ids they are of one method, as another one shows the same once more. A processor's power is none of an
    accelerator's work, and an accelerator's is that of a processor's only where nothing else was measured.
    """
    scopes = list(SCOPES if accelerated is not False else OF_PROCESSORS)
    if accelerated:
        scopes.remove("cpu")
    without_id = ""
    if any(same_ids(text) for text in device_ids):
        of_scopes = [_of_devices(found, scope, device_ids) for scope in IDENTIFIED]
        best = min(of_scopes, key=lambda chosen: chosen.count(None))
        chosen = [info for info in best if info is not None]
        if len(chosen) == len(best):
            return Counter(chosen)
        without_id = f"device {device_ids[best.index(None)]} trained, but no power channel has its id"
        if any(info.scope.value in IDENTIFIED and info.device_id for info in found):
            raise EnergyError(without_id)
        scopes.remove("device")  # it is not told which of them trained
    for scope in scopes:
        chosen = _of_one_method([info for info in found if info.scope.value == scope and info.mine])
        if chosen:
            beside = _of_one_method([info for info in found if info.scope.value == ADDED_TO.get(scope)], chosen[0])
            return dict.fromkeys(chosen + beside, 0)
    seen = {info.scope.value for info in found}
    if without_id and "device" in seen:
        raise EnergyError(without_id)
    of_what = f" of an accelerator, which trained, but of {' and '.join(sorted(seen))}"
    raise EnergyError(f"the trace has no channel{of_what if seen and accelerated else ''}")


def _of_one_method(found: Sequence[ChannelInfo], beside: ChannelInfo | None = None) -> list[ChannelInfo]:
    """The channels of that one's method, else of the first that measures, else of the first."""
    methods = [_method(info) for info in sorted(found, key=lambda info: info.estimated)]
    if beside is not None and _method(beside) in methods:
        methods = [_method(beside)]
    return [info for info in found if _method(info) == methods[0]]


def _of_devices(found: Sequence[ChannelInfo], scope: str, device_ids: Sequence[str]) -> list[ChannelInfo | None]:
    """For each device the first channel of a scope that has one of its ids."""
    by_id: dict[str, ChannelInfo] = {}
    for info in reversed(found):
        if info.scope.value == scope:
            by_id.update(dict.fromkeys(same_ids(info.device_id), info))
    return [next((by_id[one] for one in same_ids(text) if one in by_id), None) for text in device_ids]


def _method(info: ChannelInfo) -> str:
    """Return the name of the method that reads a channel; empty if the channel's name has none."""
    method, colon, _ = info.name.partition(":")
    return method if colon else ""


def sensor(trace: Trace, info: ChannelInfo) -> tuple[str, str]:
    """Return a key that two traces of the same sensor share.

    A host name belongs to a container, a device address to a node; hence the node's boot ID.
    """
    if info.scope.value == "supply" and info.device_id:
        return "", info.device_id
    return trace.meta.get("boot_id") or str(id(trace)), info.device_id or info.name


def twins(trace: Trace) -> dict[ChannelInfo, ChannelInfo]:
    """Return the channels that show an earlier channel's sensor once more, each with that channel.

    Some kernels have a RAPL zone for each die, and show its package's counter in all of them.
    """
    found: dict[ChannelInfo, ChannelInfo] = {}
    for earlier, later in combinations(trace.series(), 2):
        if earlier.info not in found and _same_readings(earlier, later):
            found.setdefault(later.info, earlier.info)
    return found


def _same_readings(one: Series, other: Series) -> bool:
    """Check by value: two sensors of a scope are one if they change alike, but for readings with a refresh between."""
    infos = one.info, other.info
    if (
        one.info.scope is not other.info.scope
        or all(info.device_id for info in infos)
        or _method(one.info) != _method(other.info)
        or one.info.estimated
    ):
        return False
    columns = [found.power_w if found.energy_j is None else found.energy_j for found in (one, other)]
    steps = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(zip(*columns, strict=False))]
    moved = [abs(first - second) <= READING_STEP for first, second in steps if abs(first) + abs(second) > READING_STEP]
    return len(moved) >= TWIN_CHANGES and sum(moved) >= TWIN_SHARE * len(moved)
