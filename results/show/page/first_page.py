"""The matrix of the first page: a row for each system, and for each workload speed, energy and cost of one point.

The point is the system's fastest. A system with several precisions has a row for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

from record.values import PER_DEVICE, WORK, count, grouped, rounded
from results.files.quantities import QUANTITIES
from results.files.workloads import facts_about
from results.points.estimate import Interval
from results.points.repeats import PointResults
from results.show.plots.style import Styles
from results.show.tables.cells import half_text
from results.verdicts.cost import Costs, cost_of
from results.verdicts.outcome import Outcome
from results.verdicts.quality import ESTIMATE, energy_kind, grade, why_not_ranked
from results.verdicts.ranking import best_of_systems, fastest, rank, ranked_points, why_left_out
from results.verdicts.requirements import Budget
from results.verdicts.score import Scored
from results.verdicts.tender.decision import Decision

MILLION = 1e6
SIGNS = {Outcome.PASSED: "met", Outcome.FAILED: "not met", Outcome.UNDECIDED: "undecided"}
LIMITS = {"devices": "number of devices", "money": "money", "power": "power"}


class Cell(NamedTuple):
    """One figure with its interval, or the reason why there is none in `note`."""

    text: str = ""
    note: str = ""
    kind: str = ""  # class in the style sheet: best, or an outcome
    value: float | None = None  # of a bar that starts at zero
    interval: Interval | None = None


class Column(NamedTuple):
    """Heading of a column, with the group that it is in."""

    title: str
    group: str = ""
    help: str = ""


class Row(NamedTuple):
    """One system, in one precision of each workload."""

    system: str
    colour: str
    cells: list[Cell]


class FirstPage(NamedTuple):
    """The matrix of systems and their figures."""

    columns: list[Column]
    rows: list[Row]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Titles of groups of columns, with how many columns they have."""
        return [(title, len(columns)) for title, columns in grouped(self.columns, lambda one: one.group).items()]

    def bar(self, row: Row, at: int) -> tuple[float, float, float] | None:
        """Return the ends of a cell's bar and of its interval, in percent of the column's largest end."""
        cell = row.cells[at]
        if cell.value is None:
            return None
        ends = [max([other.cells[at].value or 0.0, *(other.cells[at].interval or ())]) for other in self.rows]
        low, high = cell.interval or (cell.value, cell.value)
        low, value, high = (100 * end / max(ends) for end in (low, cell.value, high))
        return value, max(0.0, low), min(100.0, high)


Workload = tuple[str, Sequence[PointResults]]  # title and points


def first_page(
    workloads: Sequence[Workload], styles: Styles, costs: Costs | None = None, decision: Decision | None = None
) -> FirstPage:
    """Return the matrix of all systems: with a decision in the order of their scores."""
    scores = decision.ranked.scores if decision else []
    best = [_best_points(results) for _, results in workloads]
    fastest_first = best_of_systems(ranked_points(workloads[0][1]), PER_DEVICE)
    order = [*(row.system for row in scores or fastest_first), *(system for points in best for system in points)]
    systems: list[str] = []  # of each row: one for each precision
    points: list[tuple[PointResults | None, ...]] = []  # of each row: one for each workload
    for system in dict.fromkeys(order):
        of_precisions = list(zip_longest(*(of_workload.get(system, []) for of_workload in best)))
        systems += [system] * len(of_precisions)
        points += of_precisions

    def once(cell: Callable[[Scored], Cell]) -> list[Cell]:
        """Return the cells of systems with a score, each in the first row of its system."""
        cells = {systems.index(row.system): cell(row) for row in scores}
        return [cells.get(number, Cell()) for number in range(len(systems))]

    figures: list[tuple[Column, list[Cell]]] = []
    if decision:
        heading = Column("score", decision.ranked.title.capitalize(), QUANTITIES["score"].help)
        figures.append((heading, once(_score)))
    for at, (title, results) in enumerate(workloads):
        figures += _of_workload(title, results, [row[at] for row in points], costs)
    if decision:
        figures += ((column, once(cell)) for column, cell in _of_machine(decision, costs))
    rows = [
        Row(system, styles[system]["color"], [cells[number] for _, cells in figures])
        for number, system in enumerate(systems)
    ]
    return FirstPage([column for column, _ in figures], rows)


def _best_points(results: Sequence[PointResults]) -> dict[str, list[PointResults]]:
    """Return the fastest point of each system in each precision: first in the precision that most systems have."""
    ranked = ranked_points(results)
    precisions = grouped(ranked, lambda point: point.precision)
    order = sorted(precisions, key=lambda name: -len({point.system for point in precisions[name]}))
    best: dict[str, list[PointResults]] = {}
    for precision in order:
        for point in best_of_systems(precisions[precision], PER_DEVICE):
            best.setdefault(point.system, []).append(point)
    for system, points in grouped(results, lambda point: point.system).items():
        if system not in best:
            best[system] = [fastest(point for point in points if point.good) or points[0]]
    return best


def _figure(value: float, interval: Interval | None, *notes: str) -> Cell:
    """Return a number with the half-width of its interval, and notes."""
    half = half_text(value, interval.half) if interval else "one run"
    return Cell(rounded(value), "; ".join(filter(None, [half, *notes])), "", value, interval)


def _score(row: Scored) -> Cell:
    if row.value is None:
        return Cell("not ranked")  # the reason is in the sentence above the matrix
    return _figure(row.value, row.interval)


def _of_workload(
    title: str, results: Sequence[PointResults], points: Sequence[PointResults | None], costs: Costs | None
) -> Iterator[tuple[Column, list[Cell]]]:
    """Yield the columns of a workload: speed, energy, and cost or power, each of the same points."""
    unit = results[0].any.work_unit
    good = [point for point in points if point and point.good]
    places, several = {point.point.place for point in good}, len({point.precision for point in good}) > 1
    group = f"{title}, at {places.pop()}" if len(places) == 1 else title
    speed, work = (QUANTITIES[name].of(unit) for name in ("work_per_s_per_device", "work_per_wh"))
    speeds = [_speed(point, len(places) > 0, several) for point in points]
    yield Column(speed.title, group, speed.help), _marked(points, PER_DEVICE, speeds)
    if any(point.value(WORK) for point in good):
        yield Column(work.title, group, work.help), _marked(points, WORK, list(map(_energy, points)))
        if not costs:
            power = QUANTITIES["power_per_device"]
            yield Column("W/device", group, power.help), [_power_of(point) for point in points]
    if costs:
        heading = f"{costs.currency} per million {unit}"
        yield Column(heading, group, QUANTITIES["Cost"].help), [_cost(point, costs) for point in points]


def _marked(points: Sequence[PointResults | None], path: str, cells: list[Cell]) -> list[Cell]:
    """Return the cells with the best marked, where no other ties with it: in each precision and kind of energy."""
    known = [point for point in points if point and point.good and not why_left_out(point)]
    known = [point for point in known if path == PER_DEVICE or not why_not_ranked(point)]
    best = []
    for alike in grouped(known, lambda point: (point.precision, path == WORK and energy_kind(point.any))).values():
        ranking = rank(alike, path)
        best += [ranking.first] if ranking and ranking.behind and not ranking.tied else []
    return [
        cell._replace(kind="best") if any(point is first for first in best) else cell
        for point, cell in zip(points, cells, strict=True)
    ]


def _value(point: PointResults, path: str, *notes: str) -> Cell:
    estimate = point.estimate(path)
    if estimate is None:
        return Cell(note=next(filter(None, notes), "unknown"))
    return _figure(estimate.value, estimate.interval, *notes)


def _speed(point: PointResults | None, with_place: bool, with_precision: bool) -> Cell:
    if point is None or not point.good:
        return Cell(note="no run succeeded" if point else "not measured")
    why = why_left_out(point)
    notes = [f"not ranked: {why}" if why else "", point.precision if with_precision else ""]
    return _value(point, PER_DEVICE, *notes, point.point.place if with_place else "")


def _energy(point: PointResults | None) -> Cell:
    if point is None or not point.good:
        return Cell()
    why = why_not_ranked(point)
    words = "estimated" if grade(point.any) == ESTIMATE else f"not ranked: {why}"
    return _value(point, WORK, words if why else "")


def _power_of(point: PointResults | None) -> Cell:
    power_w = point.value("energy.avg_power_w") if point and point.good else None
    if not point or not power_w or not point.point.devices:
        return Cell()
    return Cell(rounded(power_w / point.point.devices), "estimated" if grade(point.any) == ESTIMATE else "")


def _cost(point: PointResults | None, costs: Costs) -> Cell:
    """Return the cost of a million units of work, such as tokens."""
    if point is None or not point.good:
        return Cell()
    cost = cost_of(point, costs)
    if isinstance(cost, str):
        return Cell("unknown", cost)
    share = MILLION / facts_about(point.point.benchmark).costed.amount
    ends = cost.estimate.interval if cost.estimate else None
    return _figure(share * cost.total, Interval(*(share * end for end in ends)) if ends else None)


def _of_machine(decision: Decision, costs: Costs | None) -> Iterator[tuple[Column, Callable[[Scored], Cell]]]:
    """Yield the columns of the machine that the budget allows, and of the requirements, with their cells."""
    group = _budget_words(decision.requirements.budget, costs)
    if group and any(row.machine.devices for row in decision.ranked.scores):
        yield Column("devices", group, QUANTITIES["Machine"].help), _size
        if costs:
            yield Column("power", group, QUANTITIES["Power"].help), _power
            heading = f"{costs.currency} in {costs.lifetime_years:g} years"
            yield Column(heading, group, QUANTITIES["Total cost"].help), _total
    if decision.must:
        column = Column("requirements", group or "Requirements", QUANTITIES["Requirements met"].help)
        yield column, partial(_requirements, decision)


def _budget_words(budget: Budget, costs: Costs | None) -> str:
    limits = [
        f"{budget.money:,.0f} {costs.currency}" if budget.money and costs else "",
        f"{budget.power_kw:g} kW" if budget.power_kw else "",
        f"{budget.devices} devices" if budget.devices else "",
    ]
    return f"Within the budget of {' and '.join(filter(None, limits))}" if any(limits) else ""


def _size(row: Scored) -> Cell:
    """Return the number of devices and whole nodes, and which limit of the budget binds it."""
    machine = row.machine
    if not machine.devices:
        return Cell(note=row.why_not)
    nodes = count(-(-machine.devices // machine.per_node), "node") if machine.per_node else "nodes of unknown size"
    return Cell(f"{machine.devices:,}", f"{nodes}; limited by {LIMITS[machine.limit]}")


def _power(row: Scored) -> Cell:
    if row.machine.power_kw is None:
        return Cell("unknown", "no energy that counts for each workload") if row.machine.devices else Cell()
    return Cell(f"{rounded(row.machine.power_kw)} kW")


def _total(row: Scored) -> Cell:
    """Return the total cost; the price has all its digits: rounded, it could seem to reach the limit that it keeps."""
    machine = row.machine
    if machine.purchase is None:
        return Cell("unknown", "no price of this system") if machine.devices else Cell()
    return Cell(rounded(machine.total) or "unknown", f"purchase {machine.purchase:,.0f}")


def _requirements(decision: Decision, row: Scored) -> Cell:
    outcomes = [verdict.outcome for verdict in decision.of_system(row.system)]
    worst = next((one for one in (Outcome.FAILED, Outcome.UNDECIDED) if one in outcomes), Outcome.PASSED)
    number = outcomes.count(worst)
    of_all = f"{number} of {len(outcomes)}" if worst is Outcome.PASSED else str(number)
    return Cell(f"{of_all} {SIGNS[worst]}", "", worst.value)
