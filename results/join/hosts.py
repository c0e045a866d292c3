"""Energy of a server on nodes other than its client's: the client's window by the clock of each node, and its devices.

Clocks of nodes differ. How much the window's edges may be wrong follows from the kernels' own estimates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from jpwr.energy.estimate import JOULES_PER_WH
from jpwr.process.device_ids import same_ids
from jpwr.trace.writers import open_trace
from record.arithmetic import ratio
from record.checks.energy import INNER
from record.demand import hosts_of
from record.model import Device, Energy, Record, Window
from record.part import changed
from record.values import count
from results.join.channels import EnergyError
from results.join.nodes import MIN_COVERED, header_of

TOKENS = {"prefill": ("read", "input_tokens"), "decode": ("written", "measured_tokens")}  # by role


def with_hosts(run: Record, paths: Sequence[Path]) -> Record:
    """Return a run with the windows and devices of the server's nodes, from the headers of their traces.

    Raises EnergyError for a node without a trace or with several, for a clock whose error is unknown, and for another
    number of devices than was asked for.
    """
    headers = list(map(header_of, paths))
    asked, hosts = run.layout.num_devices or 0, hosts_of(run.option("run.hosts"))
    [window] = run.windows
    windows, devices = list[Window](), list[Device]()
    for host in hosts:
        own = [header for header in headers if header.meta.get("hostname") == host]
        if len(own) != 1:
            known = ", ".join(sorted({str(header.meta.get("hostname")) for header in headers})) or "no node"
            raise EnergyError(
                f"--hosts names {host}, which has {count(len(own), 'power trace')}, and there are those of {known}: "
                "run jpwr once on each node of the server"
            )
        [header] = own
        windows.append(_window_of(host, window, header, run.serving.clock_error_s))
        used = {} if run.option("compute.device") == "cpu" else _devices_of(header)
        for one, name in [*used.items()] or [("", "processor")] * (asked // len(hosts)):
            devices.append(Device(hostname=host, device_id=one, name=name, rank=len(devices)))
    if len(devices) != asked:
        raise EnergyError(
            f"--devices {asked} was asked for, but the traces of {count(len(hosts), 'node')} have "
            f"{len(devices)}: give the number of the server's devices, and let its nodes have no others"
        )
    return changed(run, windows=windows, devices=devices)


def _window_of(host: str, window: Window, header: open_trace, error_s: float | None) -> Window:
    """Return the client's window by a node's monotonic clock, with the most by which both wall clocks may differ."""
    boot_id, offset_s = header.meta.get("boot_id", ""), header.meta.get("epoch_offset_s")
    if boot_id and boot_id == window.boot_id:  # one kernel, one clock
        return changed(window, hostname=host)
    own_s, start_s, end_s = header.meta.get("clock_error_s"), window.start_epoch_s or 0.0, window.end_epoch_s or 0.0
    if own_s is None or error_s is None or offset_s is None or min(own_s, error_s) < 0:
        where = "the client's node" if error_s is None or error_s < 0 else f"node {host}"
        raise EnergyError(f"the error of the clock of {where} is unknown: synchronise it, by chrony or another service")
    off_s = error_s + own_s
    if off_s > (1 - MIN_COVERED) * (end_s - start_s):
        raise EnergyError(
            f"the clocks of node {host} and of the client may differ by {off_s:.3g} s, too much for a window "
            f"of {end_s - start_s:.3g} s: synchronise them better, or measure longer"
        )
    times_s = {"start_s": start_s - offset_s, "end_s": end_s - offset_s}
    return changed(window, hostname=host, boot_id=boot_id, clock_error_s=off_s, **times_s)


def _devices_of(header: open_trace) -> dict[str, str]:
    """Return the name of each device by its id, of the narrowest scope with ids: one sensor's where several have it."""
    for scope in INNER:
        known: dict[str, tuple[str, str]] = {}
        for info in header.channels:
            if info.scope.value == scope and info.mine and not known.keys() & (ids := same_ids(info.device_id)):
                known.update(dict.fromkeys(ids, (info.device_id, info.source.partition(", ")[0])))
        if known:
            return dict(known.values())
    return {}


def energy_of_roles(run: Record, energy: Energy) -> dict[str, float | None]:
    """Return the energy of prefill and of decode nodes, and joules per token that they read and wrote.

    Empty unless the hosts of the run have roles. Idle power counts: all energy of a role is by its tokens.
    """
    roles, energies = hosts_of(run.option("run.hosts") or ""), dict[str, float | None]()
    for role, (name, tokens) in TOKENS.items() if set(roles.values()) == TOKENS.keys() else ():
        of_role = [channel.energy_wh or 0.0 for channel in energy.channels if roles[channel.hostname] == role]
        energies[f"{role}_wh"] = energy_wh = math.fsum(of_role)
        energies[f"j_per_token_{name}"] = ratio(energy_wh * JOULES_PER_WH, run.metrics.number(tokens))
    return energies
