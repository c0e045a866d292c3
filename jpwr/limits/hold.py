"""Change the limits of a job's devices, and restore what was there before."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from jpwr.errors import BackendUnavailable, JpwrError
from jpwr.limits import amd, nvml
from jpwr.limits.kept import Kept, create, left_behind
from jpwr.limits.setting import CLOCK, OPTIONS, REMEDIES, TOLERANCES, UNITS, NoRight, Setting, value_of
from jpwr.messages import log

IN_FORCE_S = 10.0  # longest wait until a device is limited as set; drivers take well below a second
LOOK_S = 0.02  # between two looks at it
SCHEDULER = "scheduler"


class Undone(NamedTuple):
    """Whether a setting stays as it was set, and a sentence unless it is as before."""

    stays: bool
    words: str


class Change(NamedTuple):
    """One setting that was changed, with the values that were asked for, there before, and read back after it."""

    setting: Setting
    value: float
    before: float | None
    after: float | None = None

    def undo(self) -> Undone:
        """Restore the setting unless somebody else has changed it since."""
        setting, unit = self.setting, UNITS[self.setting.kind]
        before = "not limited" if self.before is None else f"{self.before:g} {unit}"
        what = f"the {setting.kind} of {setting.channel} stays at"
        try:
            now = setting.kept()
            ours = [value for value in (self.value, self.after) if value is not None]  # drivers may round a value
            if now is None or min(abs(now - value) for value in ours) <= TOLERANCES[setting.kind]:
                setting.undo(self.before)
            elif now != self.before:
                words = f"{what} {now:g} {unit}, as another program has changed it, and was {before}"
                return Undone(False, words)
        except JpwrError as error:
            return Undone(True, f"{what} {self.value:g} {unit}, and was {before} ({error})")
        return Undone(False, "")

    def why_not(self, by: str) -> str:
        """Return what may keep the limit from being in force as set, and what to do."""
        setting = self.setting
        if by == SCHEDULER:
            return "the scheduler has set another value, the driver has rounded it, or a lower limit is in force"
        if self.after is not None and abs(self.after - self.value) > TOLERANCES[setting.kind]:
            return f"the driver has rounded it to {self.after:g} {UNITS[setting.kind]}: ask for a value that it keeps"
        return "another limit of the device or the machine decides: ask the site"


def open_settings(stack: ExitStack) -> list[Setting]:
    """Return the settings of the job's devices, of the first vendor that has any; raise BackendUnavailable for none."""
    reasons = []
    for vendor in (nvml, amd):
        try:
            found: list[Setting] = vendor.open_settings(stack)
            return found
        except BackendUnavailable as error:
            reasons.append(str(error))
    raise BackendUnavailable(f"no device has limits that can be set ({'; '.join(reasons)}): leave the options out")


def _wanted(
    asked: Mapping[str, str], settings: list[Setting], is_slurms: bool = False
) -> list[tuple[str, float, list[Setting]]]:
    """Return text, value and interfaces for each device and kind that is asked for; raise JpwrError without one."""
    found = []
    for kind, text in asked.items():
        of_kind = [one for one in settings if one.kind == kind]
        without = {one.channel for one in settings} - {one.channel for one in of_kind}
        if without or not of_kind:
            raise JpwrError(f"{', '.join(sorted(without)) or 'this job'} has no {kind} to set: nothing was changed")
        for device in dict.fromkeys(one.device_id for one in of_kind):
            those = [one for one in of_kind if one.device_id == device]
            found.append((text, value_of(text, those[0], is_slurms), those))
    return found


def _described(text: str, change: Change, by: str, now_s: Callable[[], float] = time.monotonic) -> dict[str, Any]:
    """Wait until a limit is in force, and return it for the trace; raise JpwrError after IN_FORCE_S."""
    setting, value, before, _ = change
    unit, end_s = UNITS[setting.kind], now_s() + IN_FORCE_S
    with _named(setting, "read"):
        while not (is_reached := setting.reached(value)) and now_s() <= end_s:
            time.sleep(LOOK_S)
        found = setting.in_force()
    if not is_reached:
        raise JpwrError(
            f"the {setting.kind} of {setting.channel} must be {value:g} {unit}, but after {IN_FORCE_S:g} s "
            f"{found:g} {unit} is in force, and nothing stays changed: {change.why_not(by)}"
        )
    about = {"channel": setting.channel, "device_id": setting.device_id, "kind": setting.kind, "unit": unit}
    return {**about, "requested": text, "set": value, "found": found, "before": before, "by": by}


@contextmanager
def _named(setting: Setting, done: str) -> Iterator[None]:
    """Name setting and device in the error of a library; `done` is "read" or "set"."""
    try:
        yield
    except NoRight:
        raise
    except JpwrError as error:
        raise JpwrError(
            f"the {setting.kind} of {setting.channel} cannot be {done} ({error}), and nothing stays changed: leave "
            f"{OPTIONS[setting.kind]} out"
        ) from error


def compared(asked: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return limits that a scheduler has set, for the trace; raise JpwrError unless they are in force."""
    with ExitStack() as stack:
        wanted = _wanted(asked, open_settings(stack), is_slurms=True)
        return [_described(text, Change(those[0], value, None), SCHEDULER) for text, value, those in wanted]


class Hold:
    """Limits that are in force until restore(); `described` has them for the trace.

    `asked` has a checked text for each kind. Raises JpwrError, and changes nothing then.
    """

    def __init__(
        self, asked: Mapping[str, str], settings: list[Setting], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._changes: list[Change] = []
        self._kept: dict[str, Kept] = {}
        self._seen: dict[int, str] = {}  # by place of the change: what was in force last
        self.described: list[dict[str, Any]] = []
        wanted = _wanted(asked, settings)
        try:
            for device in dict.fromkeys(those[0].device_id for _, _, those in wanted):
                self._kept[device] = create(device)
            for text, value, those in wanted:
                change = self._set(value, those)
                by = f"jpwr, user {os.getuid()}, {change.setting.means}"
                self.described.append(_described(text, change, by, now_s))
        except BaseException:
            for words in self.restore():
                log(words)
            raise

    def _set(self, value: float, those: list[Setting]) -> Change:
        """Set a value by the first interface that this user may write to."""
        refused = ""
        for setting in those:
            if setting.why_not:
                raise JpwrError(f"the {setting.kind} of {setting.channel} is left alone: {setting.why_not}")
            kept = self._kept[setting.device_id]
            with _named(setting, "read"):
                change = Change(setting, value, setting.kept())
            entry: dict[str, Any] = {"device_id": setting.device_id, "kind": setting.kind, "means": setting.means}
            entry["before"] = change.before
            kept.add({**entry, "set": value})
            try:
                with _named(setting, "set"):
                    setting.write(value)
            except NoRight as error:
                refused = refused or str(error)
            else:
                self._changes.append(change)
                with _named(setting, "read"):
                    after = setting.kept()
                self._changes[-1] = change._replace(after=after)
                if after not in (None, value):  # the driver has rounded it
                    kept.add({**entry, "set": after})
                return self._changes[-1]
        kind = those[0].kind
        raise NoRight(
            f"the {kind} of {those[0].channel} cannot be set by this user ({refused}), and nothing was changed: "
            f"{REMEDIES[kind]}"
        )

    def changed(self) -> list[str]:
        """Return a sentence for each limit that another program has changed, or changed back, since the last call.

        A clock's limit cannot be read: a clock above it is one change, until it is below again.
        """
        found = []
        for place, (setting, value, *_) in enumerate(self._changes):
            unit = UNITS[setting.kind]
            ours = now = f"{value:g} {unit}"
            with suppress(Exception):  # a vendor's library may raise anything, and the limit is read again
                if not setting.reached(value):
                    now = f"above {ours}" if setting.kind == CLOCK else f"{setting.in_force():g} {unit}"
            if now != self._seen.setdefault(place, ours):
                self._seen[place] = now
                what = f"the {setting.kind} of {setting.channel}"
                found.append(f"another program has changed {what} to {now}, and jpwr has set {ours}")
        return found

    def restore(self) -> list[str]:
        """Restore what was there before; return a sentence for each setting that stays changed, as does its file."""
        left = {}
        for change in reversed(self._changes):
            stays, words = change.undo()
            if stays:
                left[change.setting.device_id] = words
            elif words:
                log(words)
        for device, kept in self._kept.items():
            kept.close(is_done=device not in left)
        self._changes, self._kept = [], {}
        return list(left.values())


def recover() -> None:
    """Restore the limits that earlier processes have left, as far as the devices are of this job."""
    for kept in left_behind():
        with ExitStack() as stack:
            settings: list[Setting] = []
            entries = kept.entries()
            if entries:
                with suppress(Exception):  # a vendor's library may raise anything, and the file stays
                    settings = open_settings(stack)
            kept.close(is_done=False not in [_recovered(entry, settings) for entry in entries])


def _recovered(entry: Mapping[str, Any], settings: list[Setting]) -> bool:
    """Restore one setting from its entry in a file; return whether it no longer is as the earlier process set it."""
    those = [one for one in settings if (one.device_id, one.means) == (entry.get("device_id"), entry.get("means"))]
    if not those:  # a device of another job
        return False
    setting = those[0]
    stays, words = Change(setting, entry["set"], entry["before"]).undo()
    what = f"the {setting.kind} of {setting.channel} at {entry['set']:g} {UNITS[setting.kind]}"
    log(words or f"an earlier jpwr has left {what}: it is undone")
    return not stays
