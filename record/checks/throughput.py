"""Rules on options, throughput, layout and steps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from jpwr.process.device_ids import same_ids
from record.arithmetic import TOLERANCE, exceeds, product, ratio
from record.model import COPIES_VARIABLE, Copy, Device, Record, Window
from record.part import is_number

MOST_FLOP_PER_J = 50e12  # several times that of any chip in its lowest precision
SWITCH = {"on": True, "off": False}  # of options
MOST_RECOMPUTED = 4 / 3  # HFU over MFU if everything is recomputed: the forward pass is a third of a step's FLOPs


def _copies_count_once(run: Record) -> Iterator[str]:
    if (fill := run.fill) is None:
        return
    started = (run.provenance.environment or {}).get(COPIES_VARIABLE, str(fill.copies))
    if not str(len(fill.per_copy)) == str(fill.copies) == started:
        yield f"fill.copies is {fill.copies}, but {started} were started, and fill.per_copy lists {len(fill.per_copy)}"
    first: dict[Any, int] = {}
    for number, copy in enumerate(fill.per_copy, 1):
        devices = run.devices[(number - 1) * fill.devices_per_copy : number * fill.devices_per_copy]
        for fact in _own_facts(copy, devices):
            if first.setdefault(fact, number) != number:
                yield f"copies {first[fact]} and {number} have the same {fact[0]} {fact[1]}: one was counted twice"
        hosts, of_windows = (" and ".join(sorted({_host(one) for one in parts})) for parts in (devices, copy.windows))
        if hosts and of_windows and hosts != of_windows:
            yield f"copy {number} has devices of node {hosts}, but windows of node {of_windows}"


def _own_facts(copy: Copy, devices: Sequence[Device]) -> Iterator[tuple[Any, ...]]:
    """Yield what no two copies share: devices, and times to the last digit."""
    for device in devices:
        for one in same_ids(device.device_id or ""):  # a UUID is of one device of all nodes
            yield "device", one, "" if one.startswith(("GPU-", "MIG-")) else _host(device)
    yield from (("window", f"from {one.start_s:.6f} s to {one.end_s:.6f} s") for one in copy.windows)


def _copies_fill_their_nodes(run: Record) -> Iterator[str]:
    used = Counter(map(_host, run.devices)) if run.fill else Counter[str]()
    if len(set(used.values())) > 1:
        words = ", ".join(f"{count} devices of {host}" for host, count in used.items())
        yield f"its copies are not spread evenly over the nodes: {words}"
    is_whole = all(one.device_id and not one.device_id.startswith("MIG-") for one in run.devices)
    for node in run.provenance.nodes:
        host, present = str(node.hostname), len(node.reported_devices)
        if run.fill and is_whole and present > used[host]:
            yield f"node {host} has {present} devices, but its copies used {used[host]}: the others were idle"


def _host(part: Device | Window) -> str:
    """Return a node's own name, without the number of one of several kernels that share it."""
    return part.hostname.partition("#")[0]


def _devices_and_batches_are_those_of_the_layout(run: Record) -> Iterator[str]:
    devices = run.layout.num_devices
    is_elsewhere = run.serving.elsewhere  # a server of others, whose devices are not seen
    if is_number(devices) and len(run.devices) != devices and not is_elsewhere:
        yield f"it lists {len(run.devices)} devices, but layout.num_devices is {devices}"
    ids = [device.device_id for device in run.devices if device.device_id]
    if ids and run.option("compute.device") == "cpu":
        yield f"config.compute.device is 'cpu', but {ids[0]} is an accelerator"
    ranks = {device.rank for device in run.devices}
    for part, ours in (("figures", run.node_check.figures), ("devices", run.node_check.devices)):
        if others := {one.rank for one in ours} - ranks:
            yield f"node_check.{part} are of rank {min(others)}, but it has no device of that rank"
    names = ("global_batch_size", "micro_batch_size", "data_parallel_size")
    batch, micro, replicas = (run.layout.number(name) for name in names)
    if batch and micro and replicas and batch % (micro * replicas):
        yield f"its global batch {batch} is not a multiple of its micro batch {micro} on {replicas} replicas"


def _each_call_has_a_loss(run: Record) -> Iterator[str]:
    """Warm-up and measured calls, of one step or of several; calls with the input path and of a profile add to them."""
    warmup, losses = run.option("window.warmup_steps"), len(run.losses)
    if not losses or not is_number(warmup):
        return
    calls, has_more = len(run.step_times_s) + warmup, bool(run.option("turns.effective") or run.option("run.profile"))
    if losses < calls or (losses > calls and not has_more):
        yield f"it has {losses} losses, but {len(run.step_times_s)} measured and {warmup} warm-up steps"


def _flops_are_below_the_peak_and_have_their_power(run: Record) -> Iterator[str]:
    mfu, hfu = (run.metrics.number(name) for name in ("mfu", "hfu"))
    if (most := max(filter(is_number, (mfu, hfu)), default=0.0)) > 1:
        yield f"{most:.0%} of the device's peak FLOP/s is more than 100 %"
    asked = run.option("parallel.recompute")
    limit = product(mfu, 1.0 if asked == "none" else MOST_RECOMPUTED)
    if exceeds(mfu, hfu) or exceeds(hfu, limit):
        yield f"metrics.hfu is {hfu:.4g}, but with metrics.mfu {mfu:.4g} must be {mfu:.4g} to {limit:.4g}"
    tflops = run.metrics.number("tflops_per_device")
    for energy in run.energies.values():
        power_w = ratio(energy.avg_power_w, run.layout.num_devices)
        most = product(power_w, MOST_FLOP_PER_J, 1e-12)
        if energy.power_kind == "measured" and power_w and is_number(tflops) and most and tflops > most:
            yield f"{tflops:.4g} TFLOP/s with {power_w:.3g} W per device is more than any chip reaches"


def _options_are_those_of_the_command(run: Record) -> Iterator[str]:
    """An option that is not a flag has its default, which is unknown here."""
    flags = _flags(run.provenance.command or [])
    for group, options in run.config.items():
        for option in options.keys() & flags.keys():
            value = "null" if options[option] is None else options[option]
            asked = _as_used(flags[option], options[option])
            is_close = is_number(asked) and is_number(value) and math.isclose(asked, value, rel_tol=TOLERANCE)
            if value != asked and not is_close:
                yield f"config.{group}.{option} is stored as {value!r}, but its command line has {asked!r}"


def _flags(command: list[Any]) -> dict[str, str]:
    """Map each option of a command line to its text; a flag without a value is on, or off with `--no-`."""
    options, words = {}, [str(word) for word in command]
    for word, following in zip_longest(words, words[1:], fillvalue="--"):
        flag, has_value, value = word.removeprefix("--").partition("=")
        if word.startswith("--"):
            option = flag.replace("-", "_")
            options[option] = value if has_value else "on" if following.startswith("--") else following
            options |= {option[3:]: "off"} if option.startswith("no_") else {}
    return options


def _as_used(text: str, used: Any) -> Any:
    """Convert the text of a flag to the type of the value that was used; `auto` leaves the value to the benchmark."""
    if text == "auto" or isinstance(used, list):
        return used
    if isinstance(used, bool):
        return SWITCH.get(text, text)
    try:
        return float(text) if isinstance(used, int | float) else text
    except ValueError:
        return text


RULES = (
    _options_are_those_of_the_command,
    _copies_count_once,
    _copies_fill_their_nodes,
    _devices_and_batches_are_those_of_the_layout,
    _each_call_has_a_loss,
    _flops_are_below_the_peak_and_have_their_power,
)
