"""Tables and sentences on requirements, the ranking with its uncertainty, and the cost."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from results.points.repeats import PointResults
from results.record.findings import Finding
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
    tied_with_cheapest,
)
from results.verdicts.outcome import Outcome
from results.verdicts.requirements import Requirements
from results.verdicts.score import Ranked, Scored

NEAR = 20.0  # largest factor on a weight or price that is reported


class Cell(NamedTuple):
    """Cell of the matrix: one requirement for one system."""

    outcome: str
    mark: str
    words: str
    doubts: tuple[Finding, ...]  # that limit its runs


def matrix(verdicts: Sequence[Verdict]) -> tuple[list[str], list[tuple[str, list[Cell]]]]:
    """Return the systems, and for each requirement its cells in the order of the systems."""
    systems = list(dict.fromkeys(one.system for one in verdicts))
    items = dict.fromkeys(str(one.item) for one in verdicts)
    cells = {(str(one.item), one.system): _cell(one) for one in verdicts}
    return systems, [(item, [cells[item, system] for system in systems]) for item in items]


def _cell(one: Verdict) -> Cell:
    number = found_text(one)
    words = filter(None, [number, one.reason])
    return Cell(one.outcome.name.lower(), outcome_text(one), "; ".join(words), one.answer.doubts)


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


def score_rows(ranked: Ranked, currency: str = "") -> list[list[str]]:
    """Return the header and a row for each system, the best first, without empty columns."""
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
    """Return the header and a row for each system with its score in each ranking, in the order of the first ranking."""
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
    """Return a sentence on how a score is computed."""
    if requirements.score:
        terms = "; ".join(
            f"{name} is {quantity.words} of {quantity.of}" for name, quantity in requirements.score.terms.items()
        )
        return f"A score is {requirements.score.formula}, where {terms}."
    weights = ", ".join(f"{name} {wanted.weight:g}" for name, wanted in requirements.workloads.items() if wanted.weight)
    return f"A score is the geometric mean of throughputs over those of {rankings[0].reference}, weighted: {weights}."


def beyond_measured(rankings: Sequence[Ranked]) -> list[str]:
    """Return sentences on scores for numbers of devices that were not measured, and on systems without a score."""
    reasons: dict[str, list[str]] = {}
    for ranked in rankings:
        for one in ranked.scores:
            if one.why_not:
                reasons.setdefault(f"has no score {ranked.title}: {one.why_not}", []).append(one.system)
            for name, speed in one.speeds.items() if one.devices and one.devices > 1 else ():
                if speed.estimate and speed.words:
                    reasons.setdefault(f"scaled for {name} as {speed.words}", []).append(one.system)
    return [f"{', '.join(dict.fromkeys(systems))}: {words}." for words, systems in reasons.items()]


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
    for system in dict.fromkeys(one.system for one in turns):
        words = " or ".join(
            f"the {one.what} were {one.factor:.3g} times its value" for one in turns if one.system == system
        )
        sentences.append(f"{system} would tie with {first.system} if {words}.")
    if not turns and len(others) and not ranked.tied and ranked.turns:
        sentences.append("No change of a weight or price by less than 20 times makes another system first.")
    return sentences


def cost_words(results: Sequence[PointResults], costs: Costs, failed: Collection[str] = ()) -> list[str]:
    """Return sentences on the cheapest system, the prices at which that changes, and the effect of the assumptions.

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
    for one in crossings(best, costs):
        now = f"(now {costs.systems[one.system].price_per_device:,.0f})"
        price = f"{rounded(one.price)} {costs.currency} per device of {one.system} {now}"
        if one.system == first:
            words.append(f"This holds up to {price}, at which {one.against} costs the same.")
        elif one.price > 0:
            words.append(f"{one.system} would cost the same as {one.against} at {price}.")
        else:
            words.append(
                f"{one.system} takes more electricity than {one.against} costs in all: no price makes them equal."
            )
    cases = cheapest_in(best, costs)
    varied = ", ".join(words for name, words in ASSUMPTIONS.items() if name != "price")
    share = f"{SENSITIVITY:.0%}"
    outcomes = [f"{system} is the cheapest in {cases[system]}" for system in best if cases[system]]
    outcomes += [f"systems tie in {cases[None]}"] if cases[None] else []
    words.append(
        f"With {varied} as stated, {share} lower and {share} higher, {', '.join(outcomes)} of {cases.total()} cases."
    )
    return words


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
