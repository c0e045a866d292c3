"""Page of the history: series that got worse, and each series over time with changes of driver and code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from jpwr.intervals import NORMAL_95
from jpwr.process.whole_file import write_whole
from results.history.judge import SeriesVerdict
from results.history.series import CODE, KERNEL, changed_facts
from results.points.setups import DRIVER
from results.record.values import grouped, rounded
from results.show.page.report import environment
from results.verdicts.outcome import Outcome

TEMPLATE = "history.html.j2"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 420, 130, 58, 412, 14, 112  # of a plot, and the edges of its axes, in pixels
MARGIN = 0.08  # of the range of the values, above and below
# Letter of a mark, with the beginnings of the names of the facts that it stands for.
MARKS = {"D": (*DRIVER, KERNEL), "C": ("container", "cuda", "rocm", "nccl", "torch", "tensorflow"), "V": (CODE,)}


def write_history(verdicts: Sequence[SeriesVerdict], threshold: float, page: Path) -> None:
    """Write the page of some series; raises OSError."""
    numbers = {outcome: sum(one.outcome is outcome for one in verdicts) for outcome in Outcome}
    text = (
        environment()
        .get_template(TEMPLATE)
        .render(
            width=WIDTH,
            height=HEIGHT,
            edges=(LEFT, RIGHT, TOP, BOTTOM),
            threshold=f"{100 * threshold:g} %",
            answer=f"{numbers[Outcome.FAILED]} of {len(verdicts)} series got worse, "
            f"{numbers[Outcome.UNDECIDED]} cannot be decided",
            open=[one for one in verdicts if one.outcome is not Outcome.PASSED],
            systems={
                system: [_plot(one) for one in mine if one.series.observations]
                for system, mine in grouped(verdicts, lambda one: one.series.system).items()
            },
        )
    )
    page.parent.mkdir(parents=True, exist_ok=True)
    write_whole(page, text)


def _plot(verdict: SeriesVerdict) -> dict[str, Any]:
    """Return one series as the template draws it: places in pixels, and words."""
    observations = verdict.series.observations
    begin, end = observations[0].time_d, observations[-1].time_d
    halves = [NORMAL_95 * math.sqrt(one.variance) for one in observations]
    ends = [math.exp(one.log + side * half) for one, half in zip(observations, halves, strict=True) for side in (-1, 1)]
    low, high = min(ends), max(ends)
    margin = MARGIN * (high - low) or 0.01 * high

    def x(time_d: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * ((time_d - begin) / (end - begin) if end > begin else 0.5), 1)

    def y(log: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * (math.exp(log) - low + margin) / (high - low + 2 * margin), 1)

    marks = []
    for before, after in pairwise(observations):
        facts = changed_facts(before, after)
        if letters := [letter for letter, names in MARKS.items() if any(one.startswith(names) for one in facts)]:
            marks.append((x(after.time_d), "".join(letters), f"{after.date}: {'; '.join(facts)}"))
    return {
        "verdict": verdict,
        "last": rounded(observations[-1].value),
        "points": [
            (
                x(one.time_d),
                y(one.log),
                y(one.log + half),
                y(one.log - half),
                one.date,
                rounded(one.value),
                len(one.runs),
            )
            for one, half in zip(observations, halves, strict=True)
        ],
        "level": [(x(one.time_d), y(log)) for one, log in zip(observations, verdict.logs, strict=False)],
        "ticks": dict.fromkeys((y(math.log(value)), rounded(value)) for value in (low, high)),
        "dates": dict.fromkeys((x(one.time_d), one.date) for one in (observations[0], observations[-1])),
        "marks": marks,
    }
