"""Record the status of devices, such as clocks, whenever it has changed."""

from __future__ import annotations

import json
from typing import Any, Callable, Sequence

from jpwr.channel import Channel
from jpwr.errors import ReadError
from jpwr.sampling.lane import Lane, hung_channels
from jpwr.sampling.recorder import Recorder, safe_repr
from jpwr.trace.trace import STATUS

STATUS_INTERVAL_S = 1.0
RESERVED_KEYS = ("event", "time_s", "channel")  # of an event: no status may have them


class StatusWatch:
    """Reader of the channels' status, once per STATUS_INTERVAL_S.

    A status that fails for another reason than a ReadError is not read again. One that does not answer ends the
    readings of all.
    """

    def __init__(self, channels: Sequence[Channel], lanes: Sequence[Lane], recorder: Recorder) -> None:
        self._read = {channel.info.name: channel.read_status for channel in channels if channel.read_status}
        self._lanes, self._recorder, self._clock, self._warn = lanes, recorder, recorder.clock, recorder.warn
        self._last: dict[str, dict[str, Any]] = {}

    @property
    def names(self) -> list[str]:
        """Names of the channels whose status is read."""
        return list(self._read)

    def loop(self, stopped: Callable[[], bool]) -> None:
        """Read until stopped."""
        while not stopped():
            now_s = self._clock.now_s()
            hung = hung_channels(self._lanes)
            for name in self.names:
                status = None if name in hung else self._new_status(name)
                if status is not None:
                    self._last[name] = status
                    self._recorder.event(STATUS, now_s, **{**status, "channel": name})
            self._clock.sleep_until(now_s + STATUS_INTERVAL_S)

    def _new_status(self, name: str) -> dict[str, Any] | None:
        """Return a channel's status; None if it is unchanged or cannot be read."""
        try:
            status = dict(self._read[name]())
            if status == self._last.get(name):
                return None
            if invalid := [key for key in status if type(key) is not str or key in RESERVED_KEYS]:
                raise ValueError(f"it has the key {safe_repr(invalid[0])}")
            json.dumps(status)
        except ReadError:
            return None  # the channel's readings fail too, and are reported
        except BaseException as error:
            self._read.pop(name, None)
            self._warn(f"{name}: its status cannot be read ({type(error).__name__}: {error})")
            return None
        return status
