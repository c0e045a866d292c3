"""Power in the terminal while the command runs: a line per channel with a plot of the last minute."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from typing import Any, Sequence

from jpwr.channel import FRESH_S, ChannelInfo
from jpwr.errors import JpwrError
from jpwr.process import threads
from jpwr.trace.trace import Row

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 60
REFRESH_S = 1.0
LATE_S = 2  # readings arrive once per second


def sparkline(values: Sequence[float], highest: float) -> str:
    """Return a bar chart with one character per value, from 0 to `highest`; a missing value is a gap."""
    top = len(BLOCKS) - 1
    return "".join(
        " "
        if math.isnan(value)
        else BLOCKS[max(0, min(top, round(value / highest * top)))]
        if highest > 0
        else BLOCKS[0]
        for value in values
    )


class LiveView:
    """Sink that shows means of the last seconds while its `with` block lasts; raise JpwrError without rich."""

    def __init__(self, infos: Sequence[ChannelInfo]) -> None:
        try:
            from rich.console import Console
            from rich.live import Live
        except ImportError as error:
            raise JpwrError("--live needs the package rich: pip install rich") from error
        self._infos = list(infos)
        self._seconds: dict[int, list[list[float]]] = defaultdict(lambda: [[] for _ in self._infos])
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._live = Live(self.table(), console=Console(stderr=True), auto_refresh=False, transient=True)
        self._thread = threading.Thread(target=self._refresh, daemon=True)

    def extend(self, rows: Sequence[Row]) -> None:
        """Add rows of readings."""
        with self._lock:
            for time_s, power_w, *_ in rows:
                for seen, power in zip(self._seconds[math.floor(time_s)], power_w):
                    if power is not None and not math.isnan(power):
                        seen.append(power)
            oldest = max(self._seconds) - WIDTH + 1
            for second in [second for second in self._seconds if second < oldest]:
                del self._seconds[second]

    def event(self, name: str, time_s: float, /, **details: Any) -> None:
        """Ignore an event."""

    def _refresh(self) -> None:
        while not self._stop.wait(REFRESH_S):
            self._live.update(self.table(), refresh=True)

    def _past(self) -> list[list[float]]:
        """Return the mean power of each second until now for each channel; nan without readings."""
        with self._lock:
            if not self._seconds:
                return [[] for _ in self._infos]
            last = max(math.floor(time.monotonic()) - LATE_S, *self._seconds)
            seconds = range(max(min(self._seconds), last - WIDTH + 1), last + 1)
            seen = [self._seconds.get(second, [[]] * len(self._infos)) for second in seconds]
            return [
                [sum(powers) / len(powers) if powers else math.nan for powers in (one[index] for one in seen)]
                for index in range(len(self._infos))
            ]

    def table(self) -> Any:
        """Return the table to show: name, current power in watts and past power of each channel."""
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        table.add_column("channel")
        table.add_column("W", justify="right")
        table.add_column(f"last {WIDTH} s")
        for info, past in zip(self._infos, self._past()):
            finite = [value for value in past if not math.isnan(value)]
            fresh = [value for value in past[-FRESH_S:] if not math.isnan(value)]
            now = f"{fresh[-1]:.1f}" if fresh else "-"
            name = f"{info.name} (ESTIMATED)" if info.estimated else info.name
            table.add_row(name, now, sparkline(past, max(finite, default=0.0)))
        return table

    def __enter__(self) -> LiveView:
        self._live.start()
        threads.start(self._thread)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        self._live.stop()
