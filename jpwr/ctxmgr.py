"""The Python interface of jpwr 0.0.10: `with get_power([power()], 100) as measured:`, then `measured.df`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Sequence

from jpwr.backends import open_methods
from jpwr.energy import accumulate
from jpwr.sampler import PowerMonitor
from jpwr.summary import JOULES_PER_WH


class Method:
    """A method as that interface names it: `jpwr.gpu.pynvml.power()` and its like."""

    name = ""


class get_power:  # noqa: N801 - its name there
    """Sample with some methods, every `interval` milliseconds, for as long as the `with` block lasts.

    `df` is a pandas data frame with `timestamps` in seconds since 1970 and a column in watts per channel. Raises
    BackendUnavailable when a method cannot be used.
    """

    def __init__(
        self, power_methods: Sequence[Method | str], interval: float, options: dict[str, Any] | None = None
    ) -> None:
        self._names = [method if isinstance(method, str) else method.name for method in power_methods]
        self._interval_s = interval / 1000
        self._stack = ExitStack()
        self.df: Any = None

    def __enter__(self) -> get_power:
        with ExitStack() as stack:
            channels = open_methods(self._names, stack).channels
            self._monitor = stack.enter_context(PowerMonitor(channels, self._interval_s))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
        import pandas

        offset_s = self._monitor.clock.epoch_offset_s
        columns = {
            series.info.name: pandas.Series(list(series.power_w), index=list(series.times_s))
            for series in self._monitor.trace.series()
        }
        frame = pandas.DataFrame(columns).sort_index()
        frame.insert(0, "timestamps", [time_s + offset_s for time_s in frame.index])
        self.df = frame.reset_index(drop=True)

    def energy(self) -> tuple[Any, dict[str, Any]]:
        """Watt-hours of each channel as a pandas series, and an empty dictionary where there were further tables."""
        import pandas

        energy_j = {
            series.info.name: accumulate(series.times_s, series.power_w).last.energy_j
            for series in self._monitor.trace.series()
        }
        return pandas.Series(energy_j) / JOULES_PER_WH, {}
