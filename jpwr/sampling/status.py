"""Record the status of devices, such as clocks, whenever it has changed."""

from __future__ import annotations

import json
from typing import Any, Callable, Sequence

from jpwr.channel import Channel
from jpwr.errors import ReadError
from jpwr.process.threads import ANSWER_S
from jpwr.sampling.lane import Lane, hung_channels
from jpwr.sampling.recorder import Recorder
from jpwr.trace.trace import NO_STATUS, STATUS

STATUS_INTERVAL_S = 1.0


class StatusWatch:
    """Reader of the channels' status, once per STATUS_INTERVAL_S.

    A status that fails for another reason than a ReadError is not read again. One that does not answer holds up the
    readings of all: report_silence() records that, and that every status is unknown since.
    """

    def __init__(self, channels: Sequence[Channel], lanes: Sequence[Lane], recorder: Recorder) -> None:
        self._read = {channel.info.name: channel.read_status for channel in channels if channel.read_status}
        self._lanes, self._recorder, self._clock, self._warn = lanes, recorder, recorder.clock, recorder.warn
        self._last: dict[str, dict[str, Any]] = {}
        self._asked: tuple[str, float] | None = None  # channel and time of the call under way
        self._reported: tuple[str, float] | None = None  # of the calls that did not answer, the last one

    @property
    def names(self) -> list[str]:
        """Names of the channels whose status is read."""
        return list(self._read)

    def loop(self, stopped: Callable[[], bool]) -> None:
        """Read until stopped."""
        while not stopped():
            begin_s = self._clock.now_s()
            hung = hung_channels(self._lanes)
            for name in self.names:
                status = None if name in hung else self._new_status(name)
                if status is not None:
                    self._last[name] = status
                    self._recorder.event(STATUS, self._clock.now_s(), **{**status, "channel": name})
            self._clock.sleep_until(begin_s + STATUS_INTERVAL_S)

    def report_silence(self, limit_s: float = ANSWER_S) -> None:
        """Report a status that has not answered for more than `limit_s` seconds, once."""
        asked = self._asked
        if asked is None or asked == self._reported or self._clock.now_s() - asked[1] <= limit_s:
            return
        self._reported = asked
        silent, since_s = asked
        self._warn(f"{silent}: its status does not answer; no device's clocks, limits and throttling are recorded")
        self._recorder.event(NO_STATUS, since_s, channel=silent)
        for name in self.names:
            self._last.pop(name, None)
            self._recorder.event(STATUS, since_s, channel=name)

    def _new_status(self, name: str) -> dict[str, Any] | None:
        """Return a channel's status; None if it is unchanged or cannot be read."""
        self._asked = name, self._clock.now_s()
        try:
            status = dict(self._read[name]())
            if status == self._last.get(name):
                return None
            json.dumps(status)
        except ReadError:
            return None  # the channel's readings fail too, and are reported
        except BaseException as error:
            self._read.pop(name, None)
            self._warn(f"{name}: its status cannot be read ({type(error).__name__}: {error})")
            return None
        finally:
            self._asked = None
        return status
