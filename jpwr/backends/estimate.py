"""CPU power modelled from load: an estimate for machines without a sensor, never a measurement.

power = TDP x (idle share + (1 - idle share) x load), the model linear in load of Fan, Weber and Barroso 2007,
"Power provisioning for a warehouse-sized computer", section 3. The TDP is per core, so that a virtual machine or a part
of a node has the power of its own cores.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Mapping, NamedTuple, TextIO

from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable
from jpwr.process.processor import PROC, SYS, Processor, read_processor

TDP_VARIABLE = "JPWR_CPU_TDP_W"
MIN_TICKS = 10
IDLE_SHARE = 0.3  # assumed; two-socket servers idle at a fifth to a half of their full power


class Tdp(NamedTuple):
    """TDP of a processor model, and its source."""

    model: str  # a regular expression on the processor's name
    tdp_w: float
    cores: int
    source: str


TDPS = (
    Tdp(r"EPYC 7742", 225, 64, "AMD product page"),
    Tdp(r"EPYC 7443\b", 200, 24, "AMD product page"),
    Tdp(r"EPYC 7413", 180, 24, "AMD product page"),
    Tdp(r"EPYC 9654\b", 360, 96, "AMD product page"),
    Tdp(r"Platinum 8452Y", 300, 36, "Intel ARK"),
    Tdp(r"Platinum 8462Y\+", 300, 32, "Intel ARK"),
    Tdp(r"Platinum 8480\+", 350, 56, "Intel ARK"),
    Tdp(r"jep106:036b:0241", 500, 144, "NVIDIA Grace CPU Superchip data sheet, memory included"),
)


# TDP of a core of other models, and its range, in watts. On x86-64, the range is from the largest to the fastest of the
# processors above; on Arm, from the Altra Q32-17, of 45 W and 32 cores (Ampere's list of models, June 2020), to Grace.
ASSUMED_X86 = 6.0, "3.5 to 9.4"
ASSUMED_ARM = 2.5, "1.4 to 3.5"


def open_channels(
    stack: ExitStack, proc: Path = PROC, environ: Mapping[str, str] = os.environ, sys: Path = SYS
) -> list[Channel]:
    """Open the channel of the modelled power; raise BackendUnavailable without Linux's /proc."""
    try:
        stat = stack.enter_context(open(proc / "stat"))
    except OSError as error:
        raise BackendUnavailable(f"the CPU's load cannot be read ({error}): this needs Linux") from error
    tdp_w, source = _tdp_w(read_processor(proc, sys), environ)
    load = _Load(stat)
    info = ChannelInfo(
        name="estimate:cpu",
        scope=Scope.CPU,
        source=f"modelled from CPU load: {source}, idle share {IDLE_SHARE}",
        estimated=True,
        limit_w=tdp_w,
    )
    return [Channel(info, lambda: tdp_w * (IDLE_SHARE + (1 - IDLE_SHARE) * load.read()))]


def _tdp_w(processor: Processor, environ: Mapping[str, str]) -> tuple[float, str]:
    """Return the TDP in watts of this machine's cores, and its source."""
    stated = environ.get(TDP_VARIABLE)
    if stated:
        try:
            tdp_w = float(stated)
        except ValueError:
            tdp_w = 0.0
        if not 0 < tdp_w < 1e5:
            raise BackendUnavailable(f"{TDP_VARIABLE} is '{stated}': give the CPU's TDP in watts, such as 225")
        return tdp_w, f"TDP {tdp_w:g} W stated in {TDP_VARIABLE}"
    model, cores = processor.name or "unknown processor", processor.num_cores
    for known in TDPS:
        if re.search(known.model, model):
            source = f"{known.tdp_w:g} W per {known.cores} cores ({known.source})"
            return known.tdp_w / known.cores * cores, f"{model}, {source}"
    core_w, range_w = ASSUMED_ARM if processor.is_arm else ASSUMED_X86
    assumed = f"{core_w:g} W per core assumed, out of {range_w} W (state it in {TDP_VARIABLE})"
    return core_w * cores, f"{model} has no TDP in the table, {assumed}"


class _Load:
    """Reader of the CPU load: the share of CPU time since the last reading that was not idle, from 0 to 1."""

    def __init__(self, stat: TextIO) -> None:
        self._stat = stat
        self._last = self._ticks()
        self._share = 0.0

    def _ticks(self) -> tuple[int, int]:
        self._stat.seek(0)
        # proc(5): user nice system idle iowait irq softirq steal; guest time is in user time already.
        ticks = [int(field) for field in self._stat.readline().split()[1:9]]
        return sum(ticks) - ticks[3] - ticks[4], sum(ticks)

    def read(self) -> float:
        busy, total = self._ticks()
        # The kernel counts in hundredths of a second: the share of fewer ticks than this is noise.
        if total - self._last[1] >= MIN_TICKS:
            self._share = (busy - self._last[0]) / (total - self._last[1])
            self._last = (busy, total)
        return min(1.0, max(0.0, self._share))
