"""The decision in tables and sentences: requirements met, the ranking with its uncertainty, and the cost."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from results.points.repeats import PointResults
from results.record.values import count, rounded
from results.show.tables.accept import found_text, interval_text, outcome_text
from results.verdicts.accept import Verdict
from results.verdicts.cost import (
    ASSUMPTIONS,
    SENSITIVITY,
    Cheapest,
    Costs,
    cheapest,
    cheapest_in,
    costed_work,
    crossings,
    level_with_cheapest,
)
from results.verdicts.outcome import Outcome
from results.verdicts.requirements import Requirements
from results.verdicts.score import Ranked, Scored

NEAR = 20.0  # a factor of more is no change that anybody makes


class Cell(NamedTuple):
    """One requirement on one system."""

    outcome: str
    mark: str
    words: str
    doubts: tuple[str, ...]  # that limit its runs


def matrix(verdicts: Sequence[Verdict]) -> tuple[list[str], list[tuple[str, list[Cell]]]]:
    """The systems, and for each requirement a cell of each."""
    systems = list(dict.fromkeys(one.system for one in verdicts))
    items = dict.fromkeys(str(one.item) for one in verdicts)
    cells = {(str(one.item), one.system): _cell(one) for one in verdicts}
    return systems, [(item, [cells[item, system] for system in systems]) for item in items]


def _cell(one: Verdict) -> Cell:
    found = found_text(one)
    words = filter(None, [found, one.reason])
    return Cell(one.outcome.name.lower(), outcome_text(one.outcome), "; ".join(words), one.answer.doubts)


def counts(verdicts: Sequence[Verdict]) -> list[str]:
    """For each system what is passed, failed and open, in words; those that pass all first."""
    found = []
    for system in dict.fromkeys(one.system for one in verdicts):
        mine = [one.outcome for one in verdicts if one.system == system]
        passed, failed, left = (mine.count(outcome) for outcome in Outcome)
        if passed == len(mine):
            found.append((0, f"{system} passes {f'all {passed} requirements' if passed > 1 else 'the requirement'}."))
            continue
        words = [f"passes {passed} of {count(len(mine), 'requirement')}", f"fails {failed}" if failed else ""]
        words.append(f"{left} cannot be decided" if left else "")
        found.append((1 + bool(failed), f"{system} {', '.join(filter(None, words))}."))
    return [words for _, words in sorted(found, key=lambda one: one[0])]


def score_rows(ranked: Ranked, currency: str = "") -> list[list[str]]:
    """The header and a row for each system, the best first; columns that no system has are left out."""
    names = list(next((one.speeds for one in ranked.scores if one.speeds), {}))
    money = f" [{currency}]" if currency else ""
    header = ["system", "score", "95 % interval", "devices", *(f"{name} [1/s]" for name in names)]
    header += ["power [kW]", f"purchase{money}", f"electricity{money}", f"total{money}", "remark"]
    rows = [_score_row(one, names) for one in ranked.scores]
    used = [index for index in range(len(header)) if index < 2 or any(row[index] for row in rows)]
    return [[row[index] for index in used] for row in [header, *rows]]


def _score_row(one: Scored, names: Sequence[str]) -> list[str]:
    speeds = [one.speeds.get(name) for name in names]
    remarks = [f"{name}: {speed.words}" for name, speed in zip(names, speeds, strict=True) if speed and speed.words]
    half = one.interval.half if one.interval else None
    total = one.total
    money = [total.power_kw, total.purchase, total.electricity, total.total] if total else [None] * 4
    return [
        one.system,
        rounded(one.value, half),
        interval_text(one.interval),
        "" if one.devices is None else str(one.devices),
        *(rounded(speed.estimate.value) if speed and speed.estimate else "" for speed in speeds),
        *map(rounded, money),
        one.why_not or "; ".join(remarks),
    ]


def ranking_rows(rankings: Sequence[Ranked]) -> list[list[str]]:
    """The header and a row for each system: its score in each way to make systems equal, in the order of the first."""
    header = ["system", *(_capital(one.title) for one in rankings)]
    by_system = [{one.system: one for one in ranked.scores} for ranked in rankings]
    return [header, *([system, *(_score(scores[system]) for scores in by_system)] for system in by_system[0])]


def _score(one: Scored) -> str:
    if one.value is None:
        return "not ranked"
    half = one.interval.half if one.interval else None
    text = rounded(one.value, half)
    if half:
        text += f" ± {rounded(half, half)}"
    return text + (f", {one.devices:,} devices" if one.devices and one.devices > 1 else "")


def form_of_score(requirements: Requirements, rankings: Sequence[Ranked]) -> str:
    """How a score is made of its parts, in words."""
    if requirements.score:
        terms = "; ".join(f"{name} is {asked.words} of {asked.of}" for name, asked in requirements.score.terms.items())
        return f"A score is {requirements.score.formula}, where {terms}."
    weights = ", ".join(f"{name} {wanted.weight:g}" for name, wanted in requirements.workloads.items() if wanted.weight)
    return f"A score is the geometric mean of throughputs over those of {rankings[0].reference}, weighted: {weights}."


def beyond_measured(rankings: Sequence[Ranked]) -> list[str]:
    """Return the ways in which scores use unmeasured numbers of devices, each once, and why some systems have none."""
    found: dict[str, list[str]] = {}
    for ranked in rankings:
        for one in ranked.scores:
            if one.why_not:
                found.setdefault(f"has no score {ranked.title}: {one.why_not}", []).append(one.system)
            for name, speed in one.speeds.items() if one.devices and one.devices > 1 else ():
                if speed.estimate and speed.words:
                    found.setdefault(f"scaled for {name} as {speed.words}", []).append(one.system)
    return [f"{', '.join(dict.fromkeys(systems))}: {words}." for words, systems in found.items()]


def ranking_words(ranked: Ranked, verdicts: Sequence[Verdict] = ()) -> list[str]:
    """Say which system is first, how certain that is, and what would turn it."""
    known = [one for one in ranked.scores if one.value is not None]
    if not known:
        return [f"No system has a score {ranked.title}."]
    first, *others = known
    if ranked.level:
        found = [f"{_capital(ranked.title)}, {', '.join([first.system, *ranked.level])} tie."]
    elif others:
        found = [f"{_capital(ranked.title)}, {first.system} is first."]
    else:
        found = [f"{first.system} alone has a score {ranked.title}."]
    for system in [first.system, *ranked.level]:
        if any(one.system == system and one.outcome is Outcome.OPEN for one in verdicts):
            found.append(f"Not every requirement on {system} is decided.")
    turns = [one for one in ranked.turns if 1 / NEAR <= one.factor <= NEAR and not ranked.level]
    for system in dict.fromkeys(one.system for one in turns):
        words = " or ".join(
            f"the {one.what} were {one.factor:.3g} times what it is" for one in turns if one.system == system
        )
        found.append(f"{system} would tie with {first.system} if {words}.")
    if not turns and len(others) and not ranked.level and ranked.turns:
        found.append("No change of a weight or price by less than 20 times turns that.")
    return found


def cost_words(results: Sequence[PointResults], costs: Costs, failed: Collection[str] = ()) -> list[str]:
    """Say which system is the cheapest, at which prices that changes, and how often it holds if assumptions vary.

    The points are of one workload; each precision and kind of energy is by itself. Systems that failed are left out.
    """
    out = [system for system in dict.fromkeys(one.system for one in results) if system in failed]
    words = [f"Not compared, as a requirement is failed: {', '.join(out)}."] if out else []
    of_kinds = cheapest([one for one in results if one.system not in failed], costs)
    for kind, found in of_kinds.items():
        title = f"{results[0].point.model} in {kind}"
        if len(found) > 1:
            words += _of_one_kind(title, found, costs)
        elif len(of_kinds) > 1:
            words.append(f"{title}: {next(iter(found))} alone has a cost, which is compared with no other kind's.")
    return words


def _of_one_kind(title: str, found: Cheapest, costs: Costs) -> list[str]:
    first, *level = level_with_cheapest(found)
    work = costed_work(found[first][0]).words
    if level:
        words = [f"{title}: for {work}, it cannot be told which of {', '.join([first, *level])} is the cheapest."]
        if any(len(found[system][0].good) < 2 for system in (first, *level)):
            words.append("One run gives no interval.")
    else:
        words = [f"{title}: for {work}, {first} is the cheapest."]
    for one in crossings(found, costs):
        now = f"(now {costs.systems[one.system].price_per_device:,.0f})"
        price = f"{rounded(one.price)} {costs.currency} per device of {one.system} {now}"
        if one.system == first:
            words.append(f"It stays so up to {price}, where {one.against} costs the same.")
        elif one.price > 0:
            words.append(f"{one.system} would cost the same as {one.against} at {price}.")
        else:
            words.append(
                f"{one.system} takes more electricity than {one.against} costs in all: no price makes them equal."
            )
    cases = cheapest_in(found, costs)
    varied = ", ".join(words for name, words in ASSUMPTIONS.items() if name != "price")
    share = f"{SENSITIVITY:.0%}"
    told = [f"{system} is the cheapest in {cases[system]}" for system in found if cases[system]]
    told += [f"it cannot be told in {cases[None]}"] if cases[None] else []
    words.append(
        f"With {varied} each as stated, {share} lower and {share} higher, {', '.join(told)} of {cases.total()} cases."
    )
    return words


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
