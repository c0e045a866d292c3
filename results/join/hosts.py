"""Energy of a server on nodes other than its client's: the client's window by the clock of each node, and its devices.

Clocks of nodes differ. How much the window's edges may be wrong follows from the kernels' own estimates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from jpwr.process.device_ids import same_ids
from jpwr.trace.writers import open_trace
from record.demand import hosts_of
from record.derived import product, ratio
from record.model import Json
from record.parts import JOULES_PER_WH
from record.values import count
from results.join.channels import IDENTIFIED, EnergyError
from results.join.nodes import MIN_COVERED

TOKENS = {"prefill": ("read", "input_tokens"), "decode": ("written", "measured_tokens")}  # by role


def add_hosts(result: Json, paths: Sequence[Path]) -> None:
    """Replace the client's window and devices by those of the server's nodes, from the headers of their traces.

    Raises EnergyError for a node without a trace or with several, for a clock whose error is unknown, and for another
    number of devices than was asked for.
    """
    headers = []
    for path in paths:
        with open_trace(path) as reader:
            headers.append(reader)  # its rows are not read
    asked, hosts = result["layout"]["num_devices"], hosts_of(result["config"]["run"]["hosts"])
    [window] = result["windows"]
    windows, devices = list[Json](), list[Json]()
    for host in hosts:
        header = _header_of(host, headers)
        windows.append(_window_of(host, window, header, result["serving"].get("clock_error_s")))
        is_cpu = result["config"]["compute"]["device"] == "cpu"
        used = {} if is_cpu else _devices_of(header)
        for one, name in [*used.items()] or [("", "processor")] * (asked // len(hosts)):
            devices.append({"hostname": host, "device_id": one, "name": name, "rank": len(devices)})
    if len(devices) != asked:
        raise EnergyError(
            f"--devices {asked} was asked for, but the traces of {count(len(hosts), 'node')} have "
            f"{len(devices)}: give the number of the server's devices, and let its nodes have no others"
        )
    result |= {"windows": windows, "devices": devices}


def _header_of(host: str, headers: Sequence[open_trace]) -> open_trace:
    mine = [one for one in headers if one.meta.get("hostname") == host]
    if len(mine) != 1:
        known = ", ".join(sorted({str(one.meta.get("hostname")) for one in headers})) or "no node"
        raise EnergyError(
            f"--hosts names {host}, which has {count(len(mine), 'power trace')}, and there are those of {known}: run "
            "jpwr once on each node of the server"
        )
    return mine[0]


def _window_of(host: str, window: Json, header: open_trace, error_s: float | None) -> Json:
    """Return the client's window by a node's monotonic clock, with the most by which both wall clocks may differ."""
    boot_id, offset_s = header.meta.get("boot_id", ""), header.meta.get("epoch_offset_s")
    if boot_id and boot_id == window["boot_id"]:  # one kernel, one clock
        return window | {"hostname": host}
    own_s, start_s, end_s = (header.meta.get("clock_error_s"), window["start_epoch_s"], window["end_epoch_s"])
    if own_s is None or error_s is None or offset_s is None or min(own_s, error_s) < 0:
        where = "the client's node" if error_s is None or error_s < 0 else f"node {host}"
        raise EnergyError(f"the error of the clock of {where} is unknown: synchronise it, by chrony or another service")
    if error_s + own_s > (1 - MIN_COVERED) * (end_s - start_s):
        raise EnergyError(
            f"the clocks of node {host} and of the client may differ by {error_s + own_s:.3g} s, too much for a window "
            f"of {end_s - start_s:.3g} s: synchronise them better, or measure longer"
        )
    found = window | {"hostname": host, "boot_id": boot_id, "clock_error_s": error_s + own_s}
    return found | {"start_s": start_s - offset_s, "end_s": end_s - offset_s}


def _devices_of(header: open_trace) -> dict[str, str]:
    """Return the name of each device by its id, of the narrowest scope with ids: one sensor's where several have it."""
    for scope in IDENTIFIED:
        known: dict[str, tuple[str, str]] = {}
        for info in header.channels:
            if info.scope.value == scope and info.mine and not known.keys() & (ids := same_ids(info.device_id)):
                known.update(dict.fromkeys(ids, (info.device_id, info.source.partition(", ")[0])))
        if known:
            return dict(known.values())
    return {}


def energy_of_roles(result: Json, hosts: str) -> dict[str, float | None]:
    """Return joules per token that prefill nodes read and decode nodes wrote, each with half of its 95 % interval.

    Empty unless the hosts, as `hosts_of` reads them, have roles. Idle power counts: all energy of a role is by its
    tokens.
    """
    roles, found = hosts_of(hosts), dict[str, float | None]()
    for role, (name, tokens) in TOKENS.items() if set(roles.values()) == TOKENS.keys() else ():
        channels = [one for one in result["energy"]["channels"] if roles[one["hostname"]] == role]
        energy_wh, half_wh = (math.fsum(one[key] for one in channels) for key in ("energy_wh", "uncertainty_wh"))
        found[f"{role}_wh"] = energy_wh
        for key, wh in ((f"j_per_token_{name}", energy_wh), (f"j_per_token_{name}_half_width", half_wh)):
            found[key] = ratio(product(wh, JOULES_PER_WH), result["metrics"][tokens])
    return found
