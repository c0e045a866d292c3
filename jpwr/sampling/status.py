"""Record what explains the readings, such as clocks, whenever it has changed."""

from __future__ import annotations

import json
from typing import Any, Callable, Sequence

from jpwr.channel import Channel
from jpwr.errors import ReadError
from jpwr.sampling.lane import Lane
from jpwr.sampling.recorder import Recorder
from jpwr.sampling.round import shown
from jpwr.sampling.watchdog import hung_channels

STATUS_INTERVAL_S = 1.0
OF_AN_EVENT = ("event", "time_s", "channel")  # keys that no status may have
STATUS_HUNG_S = 5.0


class StatusWatch:
    """Asks the channels that have a status; one whose status has a bug or does not answer is not asked again."""

    def __init__(self, channels: Sequence[Channel], lanes: Sequence[Lane], recorder: Recorder) -> None:
        self._read = {channel.info.name: channel.read_status for channel in channels if channel.read_status}
        self._lanes, self._recorder, self._clock, self._warn = lanes, recorder, recorder.clock, recorder.warn
        self._last: dict[str, dict[str, Any]] = {}
        self._asking: tuple[str, float] | None = None  # whose status, and since when

    @property
    def names(self) -> list[str]:
        """Names of the channels that are asked."""
        return list(self._read)

    def loop(self, stopped: Callable[[], bool]) -> None:
        """Ask again and again; returns when stopped, or when it was left behind."""
        while not stopped():
            now_s = self._clock.now_s()
            for name in self.names:
                if name in hung_channels(self._lanes):
                    continue
                self._asking = asking = name, self._clock.now_s()
                status = self._new_status(name)
                if self._asking is not asking:
                    return  # another goes on
                self._asking = None
                if status is not None:
                    self._last[name] = status
                    self._recorder.event("status", now_s, **{**status, "channel": name})
            self._clock.sleep_until(now_s + STATUS_INTERVAL_S)

    def _new_status(self, name: str) -> dict[str, Any] | None:
        """Return a channel's status; None where it is as the last one, or cannot be read."""
        try:
            status = dict(self._read[name]())
            if odd := [key for key in status if type(key) is not str or key in OF_AN_EVENT]:
                raise ValueError(f"it has the key {shown(odd[0])}")
            json.dumps(status)
        except ReadError:
            return None  # its readings tell that it fails
        except BaseException as error:
            self._read.pop(name, None)
            self._warn(f"{name}: its status cannot be read ({type(error).__name__}: {error})")
            return None
        return None if status == self._last.get(name) else status

    def leave_behind(self) -> bool:
        """Whether a status has had no answer for too long: it is given up, and a new loop() has to go on."""
        asking = self._asking
        if asking is None or self._clock.now_s() - asking[1] <= STATUS_HUNG_S:
            return False
        self._asking = None
        self._read.pop(asking[0], None)
        self._warn(f"{asking[0]}: its status does not answer; it is not asked for again, and that of others goes on")
        return True
