"""The Python interface of jpwr 0.0.10: `with get_power([power()], 100) as measured:`, then `measured.df`."""

from __future__ import annotations

import math
from contextlib import ExitStack
from functools import cached_property
from typing import Any, Sequence

from jpwr.backends import open_methods
from jpwr.energy import integral_j
from jpwr.errors import JpwrError, NotEnoughSamples
from jpwr.report.frames import COUNTER_TABLE, counted_wh, has_counter_table, ticks
from jpwr.report.summary import JOULES_PER_WH
from jpwr.sampling import PowerMonitor
from jpwr.trace.trace import Series, Trace


class Method:
    """A method as that interface names it: `jpwr.gpu.pynvml.power()` and its like."""

    name = ""


class get_power:  # noqa: N801 - its name there
    """Sample with some methods, every `interval` milliseconds, for as long as the `with` block lasts.

    What was measured is in `trace`, whatever is installed and however the block ended; with pandas it is in `df`, too.
    Raises BackendUnavailable when a method cannot be used, and JpwrError for an interval that is none.
    """

    def __init__(
        self, power_methods: Sequence[Method | str], interval: float, options: dict[str, Any] | None = None
    ) -> None:
        self._names = [method if isinstance(method, str) else getattr(method, "name", "") for method in power_methods]
        for method, name in zip(power_methods, self._names):
            if not isinstance(name, str) or not name:
                kind = type(method).__name__
                raise JpwrError(
                    f"what is of type {kind} is no method of jpwr: add one by an entry point of the group jpwr.methods"
                )
        try:
            self._interval_s = interval / 1000
        except (TypeError, OverflowError) as error:
            raise JpwrError(f"the interval is a number of milliseconds, got {interval!r:.40}") from error
        self._stack = ExitStack()
        self._begun: PowerMonitor | None = None
        self._ended = False

    def __enter__(self) -> get_power:
        self._ended = False
        self.__dict__.pop("df", None)  # of a block before
        with ExitStack() as stack:
            channels = open_methods(self._names, stack).channels
            self._begun = stack.enter_context(PowerMonitor(channels, self._interval_s))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        try:
            self._stack.__exit__(kind, *error)
        except Exception:
            if kind is None:  # else the block's own error is the one to be told
                raise
        finally:
            self._ended = True

    @property
    def _monitor(self) -> PowerMonitor:
        if self._begun is None:
            raise JpwrError("nothing was measured: the with block has not begun")
        return self._begun

    @property
    def trace(self) -> Trace:
        """Every reading: times in seconds of the node's monotonic clock, power in watts."""
        return self._monitor.trace

    @cached_property
    def df(self) -> Any:
        """A pandas data frame with `timestamps` in seconds since 1970 and a column in watts per channel.

        Raises JpwrError before the block has ended, and where there is no pandas.
        """
        if not self._ended:
            raise JpwrError("df is there when the with block has ended: look at it after the block")
        pandas = _pandas()
        if pandas is None:
            raise JpwrError(
                "df needs pandas: pip install pandas; without it, trace and energy() have what was measured"
            )
        offset_s = self._monitor.clock.epoch_offset_s
        every = self.trace.series()
        rows = [(time_s + offset_s, *power_w) for time_s, power_w in ticks(every)]
        names = [series.info.name for series in every]
        return pandas.DataFrame(rows, columns=["timestamps", *names], dtype=float)

    def energy(self) -> tuple[Any, dict[str, Any]]:
        """Watt-hours of each channel, `nan` without two samples, and further tables: `energy_from_counter` for ROCm.

        The watt-hours are a pandas series, and a table a data frame of one row; without pandas both are dictionaries.
        """
        energy_wh = {series.info.name: _energy_wh(series) for series in self.trace.series()}
        pandas = _pandas()
        return energy_wh if pandas is None else pandas.Series(energy_wh), self.additional_data

    @property
    def additional_data(self) -> dict[str, Any]:
        """The further tables of energy()."""
        counters_wh = {
            series.info.name: counted_wh(series) for series in self.trace.series() if has_counter_table(series.info)
        }
        pandas = _pandas()
        if not counters_wh:
            return {}
        return {COUNTER_TABLE: counters_wh if pandas is None else pandas.DataFrame(counters_wh, [0])}


def _energy_wh(series: Series) -> float:
    try:
        return integral_j(series.times_s, series.power_w) / JOULES_PER_WH
    except NotEnoughSamples:
        return math.nan


def _pandas() -> Any:
    """The module, or None where it is not installed, or cannot be loaded."""
    try:
        import pandas
    except Exception:  # one that does not fit its numpy fails in ways of its own
        return None
    return pandas
