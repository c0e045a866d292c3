"""Choose the power channels of a node that count: one scope, and the devices that trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

from jpwr.channel import ChannelInfo
from jpwr.errors import JpwrError
from jpwr.process.device_ids import same_ids
from jpwr.trace.trace import Series, Trace
from record.checks.energy import INNER
from record.model import Channel

# The energy of a run is that of the first scope that was measured, the narrowest.
SCOPES = ("device", "module", "cpu", "node", "supply")
PROCESSOR_SCOPES = ("cpu", "node", "supply", "module", "device")  # the order if processors trained
# Two channels are one sensor if at least this number and share of their changes are equal in a trace's last digit.
TWIN_CHANGES, TWIN_SHARE, READING_STEP = 10, 0.75, 2e-6


class EnergyError(JpwrError):
    """The traces do not give the energy of a run: one sentence with the reason."""


def choose(
    channels: Sequence[ChannelInfo], device_ids: Sequence[str], accelerated: bool | None
) -> dict[ChannelInfo, int]:
    """Return the channels of one node that count, each with the number of its devices that are known to have trained.

    They have one scope. With device ids, only the devices that trained count, whatever the job's environment shows.
    Without ids, the channels have one method, as another method measures the same devices again. The power of
    processors never counts for accelerators; that of accelerators counts for processors only if nothing else was
    measured. Raises EnergyError if no channel counts.
    """
    scopes = list(SCOPES if accelerated is not False else PROCESSOR_SCOPES)
    if accelerated:
        scopes.remove("cpu")
    without_id = ""
    if any(same_ids(text) for text in device_ids):
        by_scope = [_of_devices(channels, scope, device_ids) for scope in INNER]
        best = min(by_scope, key=lambda chosen: chosen.count(None))
        chosen = [info for info in best if info is not None]
        if len(chosen) == len(best):
            return Counter(chosen)
        without_id = f"device {device_ids[best.index(None)]} trained, but no power channel has its id"
        if any(info.scope.value in INNER and info.device_id for info in channels):
            raise EnergyError(without_id)
        scopes.remove("device")  # unknown which of them trained
    for scope in scopes:
        chosen = of_one_method([info for info in channels if info.scope.value == scope and info.mine])
        if chosen:
            # Memory is not part of its processor's scope.
            memory = [info for info in channels if scope == "cpu" and info.scope.value == "dram"]
            return dict.fromkeys(chosen + of_one_method(memory, chosen[0]), 0)
    seen = {info.scope.value for info in channels}
    if without_id and "device" in seen:
        raise EnergyError(without_id)
    scopes_text = f" of an accelerator, which trained, but of {' and '.join(sorted(seen))}"
    raise EnergyError(f"the trace has no channel{scopes_text if seen and accelerated else ''}")


def of_one_method(channels: Sequence[ChannelInfo], preferred: ChannelInfo | None = None) -> list[ChannelInfo]:
    """Return the channels of the preferred one's method, else of the first that measures, else of the first."""
    methods = [_method(info) for info in sorted(channels, key=lambda info: info.estimated)]
    if preferred is not None and _method(preferred) in methods:
        methods = [_method(preferred)]
    return [info for info in channels if _method(info) == methods[0]]


def _of_devices(channels: Sequence[ChannelInfo], scope: str, device_ids: Sequence[str]) -> list[ChannelInfo | None]:
    """Return for each device the first channel of a scope that has one of its ids, or None."""
    by_id: dict[str, ChannelInfo] = {}
    for info in reversed(channels):
        if info.scope.value == scope:
            by_id.update(dict.fromkeys(same_ids(info.device_id), info))
    return [next((by_id[one] for one in same_ids(text) if one in by_id), None) for text in device_ids]


def _method(info: ChannelInfo) -> str:
    """Return the name of the method that reads a channel; empty if the channel's name has none."""
    method, colon, _ = info.name.partition(":")
    return method if colon else ""


def sensor(meta: Mapping[str, Any], channel: Channel) -> tuple[str, str]:
    """Return a key that two traces of the same sensor share, by a trace's facts and its channel.

    A host name belongs to a container, a device address to a node; hence the node's boot ID.
    """
    if channel.scope == "supply" and channel.device_id:
        return "", channel.device_id
    return meta.get("boot_id") or channel.hostname, channel.device_id or channel.name


def twins(trace: Trace) -> set[ChannelInfo]:
    """Return the channels that show an earlier channel's sensor once more.

    Some kernels have a RAPL zone for each die, and show its package's counter in all of them.
    """
    return {later.info for earlier, later in combinations(trace.series(), 2) if _same_readings(earlier, later)}


def _same_readings(one: Series, other: Series) -> bool:
    """Return whether two channels change alike, except where a refresh is between their readings."""
    infos = one.info, other.info
    if (
        one.info.scope is not other.info.scope
        or all(info.device_id for info in infos)
        or _method(one.info) != _method(other.info)
        or one.info.estimated
    ):
        return False
    columns = [each.power_w if each.energy_j is None else each.energy_j for each in (one, other)]
    steps = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(zip(*columns, strict=False))]
    moved = [abs(first - second) <= READING_STEP for first, second in steps if abs(first) + abs(second) > READING_STEP]
    return len(moved) >= TWIN_CHANGES and sum(moved) >= TWIN_SHARE * len(moved)
