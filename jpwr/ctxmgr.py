"""The Python interface of jpwr 0.0.10: `with get_power([power()], 100) as measured:`, then `measured.df`."""

from __future__ import annotations

import math
from contextlib import ExitStack
from functools import cached_property
from typing import Any, Sequence

from jpwr.backends import open_methods
from jpwr.energy import ChannelEnergy
from jpwr.energy.estimate import JOULES_PER_WH
from jpwr.errors import JpwrError
from jpwr.report.frames import COUNTER_TABLE, counted_wh, has_counter_table, ticks
from jpwr.sampling import PowerMonitor
from jpwr.trace.trace import Trace


class Method:
    """Base of methods such as `jpwr.gpu.pynvml.power()`."""

    name = ""


class get_power:  # noqa: N801 - the name in jpwr 0.0.10
    """Sample with some methods, every `interval` milliseconds, while the `with` block lasts.

    The readings are in `trace`, even if the block raised, and with pandas also in `df`. Raises BackendUnavailable if a
    method cannot be used, and JpwrError for an invalid method or interval.
    """

    def __init__(
        self, power_methods: Sequence[Method | str], interval: float, options: dict[str, Any] | None = None
    ) -> None:
        self._names = [str(getattr(method, "name", method)) for method in power_methods]
        self._interval_s = interval / 1000
        self._stack = ExitStack()
        self._begun: PowerMonitor | None = None
        self._ended = False

    def __enter__(self) -> get_power:
        self._ended = False
        self.__dict__.pop("df", None)  # of an earlier block
        with ExitStack() as stack:
            channels = open_methods(self._names, stack).channels
            self._begun = stack.enter_context(PowerMonitor(channels, self._interval_s))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        try:
            self._stack.__exit__(kind, *error)
        except Exception:
            if kind is None:  # otherwise the block's own error counts
                raise
        finally:
            self._ended = True

    @property
    def _monitor(self) -> PowerMonitor:
        if self._begun is None:
            raise JpwrError("nothing was measured, because the with block has not begun: read the results after it")
        return self._begun

    @property
    def trace(self) -> Trace:
        """All readings: times in seconds of the node's monotonic clock, power in watts."""
        return self._monitor.trace

    @cached_property
    def df(self) -> Any:
        """A pandas data frame with `timestamps` in seconds since 1970 and a column in watts per channel.

        Raises JpwrError before the block has ended, and without pandas.
        """
        if not self._ended:
            raise JpwrError("df was read before the with block has ended: read it after the block")
        pandas = _pandas()
        if pandas is None:
            raise JpwrError("df needs pandas: pip install pandas; without it, use trace and energy()")
        offset_s = self._monitor.clock.epoch_offset_s
        rows = [(time_s + offset_s, *power_w) for time_s, power_w in ticks(self.trace.power())]
        names = [info.name for info in self.trace.channels]
        return pandas.DataFrame(rows, columns=["timestamps", *names], dtype=float)

    def energy(self) -> tuple[Any, dict[str, Any]]:
        """Return the watt-hours of each channel (nan without two samples), and additional_data.

        They are by the counter where it is sound, as the samples of a short block say little. The watt-hours are a
        pandas series, or a dictionary without pandas.
        """
        energy_wh = {curve.info.name: _energy_wh(curve) for curve in self.trace.curves()}
        pandas = _pandas()
        return energy_wh if pandas is None else pandas.Series(energy_wh), self.additional_data

    @property
    def additional_data(self) -> dict[str, Any]:
        """Watt-hours by the counters of ROCm channels, as `energy_from_counter`; empty without any.

        They are a pandas data frame of one row, or a dictionary without pandas.
        """
        counters_wh = {
            series.info.name: counted_wh(series) for series in self.trace.series() if has_counter_table(series.info)
        }
        pandas = _pandas()
        if not counters_wh:
            return {}
        return {COUNTER_TABLE: counters_wh if pandas is None else pandas.DataFrame(counters_wh, [0])}


def _energy_wh(curve: ChannelEnergy) -> float:
    times_s = curve.power.times_s
    if len(times_s) < 2:
        return math.nan
    found = curve.between(times_s[0], times_s[-1])
    energy_j = curve.power.until_j(times_s[-1]) if math.isnan(found.counter_j) else found.energy_j
    return energy_j / JOULES_PER_WH


def _pandas() -> Any:
    """Return the module pandas, or None if it cannot be imported."""
    try:
        import pandas
    except Exception:  # a pandas that is incompatible with numpy may raise anything
        return None
    return pandas
