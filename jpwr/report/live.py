"""Power in the terminal while the command runs: a line per channel with a plot of the last minute."""

from __future__ import annotations

import math
import threading
import time
from typing import Any, Sequence

from jpwr.channel import ChannelInfo
from jpwr.errors import JpwrError
from jpwr.process.threads import blocked_signals
from jpwr.trace.trace import Row

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 60  # seconds
LATE_S = 2  # readings arrive once per second
FRESH_S = 5  # age up to which a reading counts as current


def sparkline(values: Sequence[float]) -> str:
    """Return a bar chart with one character per value, from 0 to the highest; a missing value is a gap."""
    highest = max((value for value in values if value > 0), default=1.0)  # nan compares false
    top = len(BLOCKS) - 1
    bars = (" " if math.isnan(value) else BLOCKS[max(0, round(value / highest * top))] for value in values)
    return "".join(bars)


class LiveView:
    """Sink that shows means of the last seconds while its `with` block lasts; raise JpwrError without rich."""

    def __init__(self, infos: Sequence[ChannelInfo]) -> None:
        try:
            from rich.console import Console
            from rich.live import Live
        except ImportError as error:
            raise JpwrError("--live needs the package rich: pip install rich") from error
        self._infos = list(infos)
        self._readings: list[dict[int, list[float]]] = [{} for _ in self._infos]  # watts of each channel, by second
        self._lock = threading.Lock()
        self._live = Live(get_renderable=self.table, console=Console(stderr=True), refresh_per_second=1, transient=True)

    def extend(self, rows: Sequence[Row]) -> None:
        """Add rows of readings."""
        with self._lock:
            for time_s, power_w, *_ in rows:
                second = math.floor(time_s)
                for readings, watts in zip(self._readings, power_w):
                    if watts is not None and not math.isnan(watts):
                        readings.setdefault(second, []).append(watts)
                        readings.pop(second - 2 * WIDTH, None)

    def event(self, name: str, time_s: float, /, **details: Any) -> None:
        """Ignore an event."""

    def table(self) -> Any:
        """Return the table to show: name, current power in watts and past power of each channel."""
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        table.add_column("channel")
        table.add_column("W", justify="right")
        table.add_column(f"last {WIDTH} s")
        last = math.floor(time.monotonic()) - LATE_S
        with self._lock:
            for info, readings in zip(self._infos, self._readings):
                known = (readings.get(second) for second in range(last - WIDTH + 1, last + 1))
                past = [sum(watts) / len(watts) if watts else math.nan for watts in known]
                fresh = [watts for watts in past[-FRESH_S:] if not math.isnan(watts)]
                name = f"{info.name} (ESTIMATED)" if info.estimated else info.name
                table.add_row(name, f"{fresh[-1]:.1f}" if fresh else "-", sparkline(past))
        return table

    def __enter__(self) -> LiveView:
        with blocked_signals():  # in the thread that rich starts
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()
