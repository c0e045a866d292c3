"""Sample a vendor's stand-in on a clock that is moved by hand, each time at the same moments; print a summary as JSON.

Usage: python -m jpwr.tests.simulate METHOD INTERVAL_S END_S [TRACE]: from second 1000 on; with TRACE, a file for the
trace, no summary. A program, as the vendor's library must be loaded afresh.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
from contextlib import ExitStack
from pathlib import Path

from jpwr.backends import open_methods
from jpwr.report.summary import Summary
from jpwr.sampling import PowerMonitor
from jpwr.tests.conftest import SteppedClock
from jpwr.trace.writers import CsvWriter

LIBRARIES = {"pynvml": "libnvidia-ml.so.1", "rocm": "libamd_smi.so"}
START_S = 1000.0


class StandInClock(SteppedClock):
    """Also the stand-in's."""

    def __init__(self, library: str) -> None:
        super().__init__()
        self._of_library = ctypes.c_double.in_dll(ctypes.CDLL(library), "stand_in_time_s")
        self.set(START_S)

    def set(self, time_s: float) -> None:
        super().set(time_s)
        self._of_library.value = self.time_s


def main(method: str, interval_s: float, end_s: float, trace: str = "") -> None:
    clock = StandInClock(LIBRARIES[method])
    with ExitStack() as stack:
        channels = open_methods([method], stack).channels
        infos = [channel.info for channel in channels]
        meta = {"hostname": "n1", "boot_id": "boot-1", "interval_s": interval_s, "random_phase": True}
        sinks = [stack.enter_context(CsvWriter(Path(trace), infos, meta))] if trace else None
        with PowerMonitor(channels, interval_s, sinks, clock, chance=random.Random(7).random) as monitor:
            clock.move_to(end_s)
    if not trace:
        print(json.dumps(Summary(monitor.trace).to_dict()))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:])
