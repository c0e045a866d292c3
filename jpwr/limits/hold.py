"""Change the limits of a job's devices, and restore what was there before."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, suppress
from typing import Any, Callable, Mapping, NamedTuple

from jpwr.channel import MOST
from jpwr.errors import BackendUnavailable, JpwrError
from jpwr.limits import amd, nvml
from jpwr.limits.kept import Kept, left_behind
from jpwr.limits.setting import REMEDIES, TOLERANCES, UNITS, NoRight, Setting, value_of
from jpwr.messages import log

IN_FORCE_S = 10.0  # longest wait until a device is limited as set; drivers take well below a second
LOOK_S = 0.02  # between two looks at it


class Change(NamedTuple):
    """One setting that this process has changed, with the value before."""

    setting: Setting
    value: float
    before: float | None


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


def wanted(asked: Mapping[str, str], settings: list[Setting]) -> list[tuple[str, float, list[Setting]]]:
    """Return text, value and interfaces for each device and kind that is asked for; raise JpwrError without one."""
    found = []
    for kind, text in asked.items():
        of_kind = [one for one in settings if one.kind == kind]
        without = {one.channel for one in settings} - {one.channel for one in of_kind}
        if without or not of_kind:
            raise JpwrError(f"{', '.join(sorted(without)) or 'no device'} has no {kind} to set: nothing was changed")
        for device in dict.fromkeys(one.device_id for one in of_kind):
            those = [one for one in of_kind if one.device_id == device]
            found.append((text, value_of(text, those[0]), those))
    return found


class Hold:
    """Limits that are in force until restore(); `described` has them for the trace.

    `asked` has a checked text for each kind. Without `by_jpwr`, another program has set them, and they are only
    compared with what is in force. Raises JpwrError, and changes nothing then.
    """

    def __init__(
        self,
        asked: Mapping[str, str],
        settings: list[Setting],
        by_jpwr: bool = True,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._changes: list[Change] = []
        self._kept: dict[str, Kept] = {}
        self.described: list[dict[str, Any]] = []
        self._now_s = now_s
        try:
            todo = wanted(asked, settings)
            if by_jpwr:
                for device in dict.fromkeys(those[0].device_id for _, _, those in todo):
                    self._kept[device] = Kept.create(device)
            for text, value, those in todo:
                self._take(text, value, those, by_jpwr)
        except BaseException:
            for words in self.restore():
                log(words)
            raise

    def _take(self, text: str, value: float, those: list[Setting], by_jpwr: bool) -> None:
        setting, before = self._set(value, those) if by_jpwr else (those[0], None)
        found = self._in_force(setting, value)
        self.described.append(
            {
                "channel": setting.channel,
                "device_id": setting.device_id,
                "kind": setting.kind,
                "unit": UNITS[setting.kind],
                "requested": text,
                "set": value,
                "found": found,
                "before": before,
                "by": f"jpwr, user {os.getuid()}, {setting.means}" if by_jpwr else "scheduler",
            }
        )

    def _set(self, value: float, those: list[Setting]) -> tuple[Setting, float | None]:
        """Set a value by the first interface that this user may write to."""
        refused = ""
        for setting in those:
            if setting.why_not:
                raise JpwrError(f"the {setting.kind} of {setting.channel} is left alone: {setting.why_not}")
            before = setting.kept()
            entry = {"kind": setting.kind, "means": setting.means, "before": before, "set": value}
            self._kept[setting.device_id].add({**entry, "device_id": setting.device_id})
            try:
                setting.write(value)
            except NoRight as error:
                refused = refused or str(error)
                continue
            self._changes.append(Change(setting, value, before))
            return setting, before
        kind = those[0].kind
        raise NoRight(
            f"the {kind} of {those[0].channel} cannot be set by this user ({refused}), and nothing was changed: "
            f"{REMEDIES[kind]}"
        )

    def _in_force(self, setting: Setting, value: float) -> float:
        end_s = self._now_s() + IN_FORCE_S
        while not setting.reached(value):
            if self._now_s() > end_s:
                unit = UNITS[setting.kind]
                raise JpwrError(
                    f"the {setting.kind} of {setting.channel} must be {value:g} {unit}, but after {IN_FORCE_S:g} s "
                    f"{setting.in_force():g} {unit} is in force, and nothing stays changed: the scheduler or another "
                    "limit of the machine decides"
                )
            time.sleep(LOOK_S)
        return setting.in_force()

    def restore(self) -> list[str]:
        """Restore what was there before; return a sentence for each setting that stays changed.

        The file of such a device stays, too.
        """
        left: dict[str, str] = {}
        while self._changes:
            change = self._changes.pop()
            words = undone(change)
            if words:
                left[change.setting.device_id] = words
        for device, kept in self._kept.items():
            if device in left:
                kept.close()
            else:
                kept.remove()
        self._kept.clear()
        return list(left.values())


def undone(change: Change) -> str:
    """Restore one setting; return a sentence if it stays changed, otherwise an empty text."""
    setting = change.setting
    try:
        now = setting.kept()
        if now is not None and abs(now - change.value) > TOLERANCES[setting.kind]:
            return ""  # somebody else has changed it since
        setting.undo(change.before)
    except JpwrError as error:
        unit = UNITS[setting.kind]
        before = "not limited" if change.before is None else f"{change.before:g} {unit}"
        return f"the {setting.kind} of {setting.channel} stays at {change.value:g} {unit}, and was {before} ({error})"
    return ""


def recover() -> None:
    """Restore the limits that processes left behind which were killed, as far as the devices are of this job."""
    for kept in left_behind():
        entries = kept.entries()
        if not entries:
            kept.remove()
            continue
        with ExitStack() as stack:
            settings: list[Setting] = []
            with suppress(BackendUnavailable):
                settings = open_settings(stack)
            is_done = min([_recovered(entry, settings) for entry in entries])  # of each, whatever the others
        if is_done:
            kept.remove()
        else:
            kept.close()


def _recovered(entry: Mapping[str, Any], settings: list[Setting]) -> bool:
    """Restore one setting from its entry in a file; return whether it no longer is as the killed process set it."""
    those = [one for one in settings if (one.device_id, one.means) == (entry.get("device_id"), entry.get("means"))]
    if not those:  # a device of another job
        return False
    setting, before = those[0], entry.get("before")
    words = (
        f"restore the {setting.kind} of {setting.channel} yourself: its file names {before!r:.20} as the value before"
    )
    if before is None or (isinstance(before, (int, float)) and 0 < before <= MOST):
        words = undone(Change(setting, entry["set"], before))
    log(words or f"an earlier jpwr was killed: its {setting.kind} of {setting.channel} is undone")
    return not words
