"""Predictions and their errors as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from results.points.estimate import Interval
from results.predict.leave_out import LeftOut
from results.predict.predict import Group, Prediction
from results.predict.validate import Errors
from results.record.values import Number, devices_text, rounded
from results.show.tables.fit import Shown, View, view

DIFFERING = ("precision", "options", "energy")


def prediction_rows(predictions: Sequence[Prediction]) -> list[list[str]]:
    """Return the header and one row per prediction, as text, without empty columns."""
    return prediction_view(predictions, everything=True).lines


def prediction_view(predictions: Sequence[Prediction], number: Number = rounded, everything: bool = False) -> View:
    """Return a row per prediction with the columns that a reader needs."""
    units = " or ".join(dict.fromkeys(one.unit for one in predictions))
    header = ["system", "model", "precision", "options", "devices", "global batch"]
    header += _with_ends(f"{units}/s")
    header += _with_ends(f"effective {units}/s")
    header += ["W/device", *_with_ends(f"{units}/Wh"), "energy", "level", "from what was measured"]
    rows = [
        [
            one.system,
            one.point.model,
            one.precision,
            ", ".join(one.variant),
            str(one.point.devices),
            str(one.point.global_batch),
            number(one.per_s, one.per_s_interval.half),
            *_ends(one.per_s_interval, number),
            number(one.effective_per_s, one.effective_interval.half if one.effective_interval else None),
            *_ends(one.effective_interval, number),
            number(one.power_w),
            number(one.per_wh, one.per_wh_interval.half if one.per_wh_interval else None),
            *_ends(one.per_wh_interval, number),
            one.energy_kind,
            one.level,
            one.distance,
        ]
        for one in predictions
    ]
    more = [*_with_ends(f"effective {units}/s")[1:], "W/device", "level"]
    shown = [Shown.MORE if title in more else Shown.DIFFERS if title in DIFFERING else Shown.ALWAYS for title in header]
    return view([header, *rows], shown, everything)


def _with_ends(title: str) -> list[str]:
    return [title, f"low {title}", f"high {title}"]


def _ends(interval: Interval | None, number: Number) -> list[str]:
    return [number(end, interval.half) for end in interval] if interval else ["", ""]


def error_rows(errors: Iterable[Errors]) -> list[list[str]]:
    """Return the header and one row per level and set of points; errors in percent."""
    header = ["level", "left out", "of", "N", "median [%]", "geometric mean [%]", "mean [%]", "90th percentile [%]"]
    header += ["largest [%]", "intervals that held the truth"]
    rows = [
        [
            *(one.level, one.what, one.of, str(one.points)),
            *(f"{100 * value:.1f}" for value in one[4:9]),
            _held(one),
        ]
        for one in errors
    ]
    return [header, *rows]


def _held(one: Errors) -> str:
    if one.held is None:
        return "refused: too few sources or devices"
    return f"{one.held} of {one.points} ({one.held / one.points:.0%})"


def disturbed_words(group: Group) -> list[str]:
    """Return a sentence about each outlier against neighbouring points."""
    return [_disturbed(group, one) for one in group.disturbed()]


def _disturbed(group: Group, one: LeftOut) -> str:
    place = f"{devices_text(one.point.devices)}, batch {one.point.batch}"
    measured = rounded(one.point.per_s)
    predicted = rounded(one.point.per_s * (1 + one.share))
    unit = group.first.any.work_unit
    return (
        f"{group}: {place}: outlier: {measured} {unit}/s were measured, but neighbouring points give "
        f"{predicted}: check its runs, or measure it again"
    )
