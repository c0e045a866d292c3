"""Tables and sentences on requirements, the ranking with its uncertainty, and the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from record.values import count, devices_text, grouped
from results.files.quantities import QUANTITIES, quantities
from results.points.repeats import PointResults
from results.show.tables.accept import found
from results.show.tables.cells import Amount, Cell, Table, text_of
from results.verdicts.accept import Verdict
from results.verdicts.cost import (
    Cheapest,
    Costs,
    cheapest,
    costed_work,
    tied_with_cheapest,
)
from results.verdicts.outcome import Outcome
from results.verdicts.requirements import Requirements
from results.verdicts.scale import Speed
from results.verdicts.score import NEAREST, Ranked, Scored

NEAR = 20.0  # largest factor on a weight or price that is reported


class Scaled(NamedTuple):
    """A size of a system that was not measured: its throughput is derived from a measured number of devices."""

    system: str
    devices: int
    workloads: tuple[str, ...]
    measured: int  # the largest number that fits

    @property
    def words(self) -> str:
        """The system with its size, as text."""
        idle = self.devices % self.measured
        return f"{self.system} ({self.devices}{f', {idle} of them idle' if idle else ''})"


class Matrix(NamedTuple):
    """Requirements by systems; a reason that several cells share is a note below it."""

    systems: list[str]
    items: list[tuple[str, list[tuple[Verdict, str]]]]  # with the number found, and the reason
    notes: list[str]


def matrix(verdicts: Sequence[Verdict]) -> Matrix:
    """Return for each requirement its cells in the order of the systems."""
    systems = list(dict.fromkeys(one.system for one in verdicts))
    items = dict.fromkeys(str(one.item) for one in verdicts)
    reasons = Counter(one.reason for one in verdicts if one.reason)
    notes = list(reasons) if reasons and max(reasons.values()) > 1 else []
    cells = {(str(one.item), one.system): (one, _words(one, notes)) for one in verdicts}
    return Matrix(systems, [(item, [cells[item, system] for system in systems]) for item in items], notes)


def _words(one: Verdict, notes: Sequence[str]) -> str:
    reason = f"note {notes.index(one.reason) + 1}" if one.reason in notes else one.reason
    return "; ".join(filter(None, [text_of(found(one)), reason]))


def counts(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a sentence on each system's passed, failed and undecided requirements, best systems first."""
    sentences = []
    for system in dict.fromkeys(one.system for one in verdicts):
        mine = [one.outcome for one in verdicts if one.system == system]
        passed, failed, left = (mine.count(outcome) for outcome in Outcome)
        if passed == len(mine):
            sentences.append(
                (0, f"{system} passes {f'all {passed} requirements' if passed > 1 else 'the requirement'}.")
            )
            continue
        words = [f"passes {passed} of {count(len(mine), 'requirement')}", f"fails {failed}" if failed else ""]
        words.append(f"{left} undecided" if left else "")
        sentences.append((1 + bool(failed), f"{system} {', '.join(filter(None, words))}."))
    return [words for _, words in sorted(sentences, key=lambda one: one[0])]


def score_table(ranked: Ranked, units: Mapping[str, str], currency: str = "") -> Table:
    """Return a row for each system, the best first, without empty columns.

    units: of the work of each workload, such as tokens.
    """
    names = list(next((one.speeds for one in ranked.scores if one.speeds), {}))
    money = (QUANTITIES[name]._replace(unit=currency) for name in ("purchase", "electricity", "total"))
    columns = quantities("system", "score", "95 % interval", "devices", "measured on")
    columns += quantities(*(f"{name} [{units[name]}/s]" for name in names), "power", *money, "remark")
    is_scaled = bool(scaled(ranked))
    return Table(columns, [_score_row(one, names, is_scaled) for one in ranked.scores]).filled(always=2)


def _score_row(one: Scored, names: Sequence[str], is_scaled: bool) -> list[Cell]:
    speeds = [one.speeds.get(name) for name in names]
    known = [(name, speed) for name, speed in zip(names, speeds, strict=True) if speed]
    remarks = [f"{name}: {speed.words}" for name, speed in known if speed.words and not speed.measured]
    total = one.total
    money: list[Cell] = [None] * 4
    if total:
        money = [total.power_kw_range or Amount(total.power_kw), Amount(total.purchase)]
        money += [total.electricity_range or Amount(total.electricity), Amount(total.total)]
    return [
        one.system,
        _score(one),
        one.interval,
        one.devices,
        _measured_on(known) if is_scaled else None,
        *(Amount(speed.estimate.value) if speed and speed.estimate else None for speed in speeds),
        *money,
        "; ".join(remarks),
    ]


def _measured_on(known: Sequence[tuple[str, Speed]]) -> Cell:
    """Return the measured number of devices, by workload where it differs."""
    measured = grouped(known, lambda pair: pair[1].measured)
    if len(measured) == 1:
        [number] = measured
        return number
    return "; ".join(f"{', '.join(name for name, _ in mine)}: {number}" for number, mine in measured.items())


def _score(one: Scored, with_half: bool = False) -> Amount:
    words = f", {one.devices:,} devices" if with_half and one.devices and one.devices > 1 else ""
    return Amount(one.value, one.interval.half if one.interval else None, with_half, words)


def ranking_table(rankings: Sequence[Ranked]) -> Table:
    """Return a row for each system with its score in each ranking, in the order of the first ranking."""
    by_system = [{one.system: one for one in ranked.scores} for ranked in rankings]
    rows = [
        [
            system,
            *("not ranked" if scores[system].value is None else _score(scores[system], True) for scores in by_system),
        ]
        for system in by_system[0]
    ]
    return Table(quantities("system", *(_capital(one.title) for one in rankings)), rows)


def form_of_score(requirements: Requirements, rankings: Sequence[Ranked]) -> str:
    """Return a sentence on how a score is computed."""
    if requirements.score:
        terms = "; ".join(
            f"{name} is {quantity.words} of {quantity.of}" for name, quantity in requirements.score.terms.items()
        )
        return f"A score is {requirements.score.formula}, where {terms}."
    weights = ", ".join(f"{name} {wanted.weight:g}" for name, wanted in requirements.workloads.items() if wanted.weight)
    return f"A score is the geometric mean of throughputs over those of {rankings[0].reference}, weighted: {weights}."


def scaled(ranked: Ranked) -> list[Scaled]:
    """Return the sizes with a score that were not measured, with the workloads of each set of measured sizes."""
    found = []
    for one in ranked.scores:
        if one.value is None or one.devices is None:
            continue
        known = [
            (name, speed.measured)
            for name, speed in one.speeds.items()
            if speed.measured and one.devices != speed.measured
        ]
        for measured, mine in grouped(known, lambda pair: pair[1]).items():
            found.append(Scaled(one.system, one.devices, tuple(name for name, _ in mine), measured))
    return found


def scaled_words(sizes: Sequence[Scaled]) -> list[str]:
    """Return for each set of workloads and measured numbers of devices all its systems, as text."""
    return [
        f"{', '.join(workloads)}: {', '.join(one.words for one in mine)} scaled from {devices_text(measured)}"
        for (workloads, measured), mine in grouped(sizes, lambda one: (one.workloads, one.measured)).items()
    ]


def without_score(rankings: Sequence[Ranked]) -> list[str]:
    """Return each reason why systems have no score, with the rankings that lack it, as text."""
    missing = [(one.why_not, one.system, ranked.title) for ranked in rankings for one in ranked.scores if one.why_not]
    sentences = []
    for why, mine in grouped(missing, lambda one: one[0]).items():
        systems, titles = ([*dict.fromkeys(one[index] for one in mine)] for index in (1, 2))
        sentences.append(f"{', '.join(systems)} {' and '.join(titles)}: {why}")
    return sentences


def ranking_words(ranked: Ranked, verdicts: Sequence[Verdict] = ()) -> list[str]:
    """Return sentences on the first system, those that tie with it, and changes that would make another one first."""
    known = [one for one in ranked.scores if one.value is not None]
    if not known:
        return [f"No system has a score {ranked.title}."]
    first, *others = known
    if ranked.tied:
        sentences = [f"{_capital(ranked.title)}, {', '.join([first.system, *ranked.tied])} tie."]
    elif others:
        sentences = [f"{_capital(ranked.title)}, {first.system} is first."]
    else:
        sentences = [f"{first.system} alone has a score {ranked.title}."]
    for system in [first.system, *ranked.tied]:
        if any(one.system == system and one.outcome is Outcome.UNDECIDED for one in verdicts):
            sentences.append(f"Not every requirement on {system} is decided.")
    turns = [one for one in ranked.turns if 1 / NEAR <= one.factor <= NEAR and not ranked.tied]
    for system in list(dict.fromkeys(one.system for one in turns))[:NEAREST]:
        words = " or ".join(
            f"the {one.what} were {one.factor:.3g} times its value" for one in turns if one.system == system
        )
        sentences.append(f"{system} would not be behind {first.system} if {words}.")
    if not turns and len(others) and not ranked.tied and ranked.turns:
        sentences.append("No change of a weight or price by less than 20 times makes another system first.")
    return sentences


def cost_words(results: Sequence[PointResults], costs: Costs, failed: Collection[str] = ()) -> list[str]:
    """Return sentences on the cheapest system.

    The points are of one workload. Each precision and kind of energy is compared separately, without failed systems.
    """
    out = [system for system in dict.fromkeys(one.system for one in results) if system in failed]
    words = [f"Not compared, as a requirement is failed: {', '.join(out)}."] if out else []
    by_kind = cheapest([one for one in results if one.system not in failed], costs)
    for kind, best in by_kind.items():
        title = f"{results[0].point.model} in {kind}"
        if len(best) > 1:
            words += _of_one_kind(title, best, costs)
        elif len(by_kind) > 1:
            words.append(f"{title}: only {next(iter(best))} has a cost of this kind: kinds are not compared.")
    return words


def _of_one_kind(title: str, best: Cheapest, costs: Costs) -> list[str]:
    first, *tied = tied_with_cheapest(best)
    work = costed_work(best[first][0]).words
    if tied:
        words = [f"{title}: for {work}, {', '.join([first, *tied])} tie for the cheapest."]
        if any(len(best[system][0].good) < 2 for system in (first, *tied)):
            words.append("One run gives no interval.")
    else:
        words = [f"{title}: for {work}, {first} is the cheapest."]
    return words


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
