"""Every view of the same runs names the same first system, and none names one that is not comparable."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest

from caraml.cli import main
from record.files import RecordError
from record.kinds import NOT_RANKED
from record.model import Record, StoredFinding
from record.part import changed
from record.values import grouped
from results import load as loading
from results.files.typed_files import read_file
from results.find.records import MARKS
from results.load import load
from results.points.learning import as_csv, reference_of
from results.points.repeats import by_point
from results.show.words import first_of, of_workload
from results.tests import builder
from results.tests.builder import write_served
from results.tests.test_stored import Text
from results.verdicts.accept import accept
from results.verdicts.cost import Costs, cheapest, tied_with_cheapest
from results.verdicts.outcome import Outcome
from results.verdicts.ranking import ranked_points
from results.verdicts.requirements import read_requirements
from results.verdicts.tender.decision import Decision

SLOW, FAST = "A100", "H200"
NEEDS = """
workloads: {gpt: {benchmark: llm_training}}
must:
  - {of: gpt, what: throughput, at_least: 15000}
  - {of: gpt, what: work_per_energy, at_least: 45000}
  - {of: gpt, what: time_to_solution, work: 1.08e+9, unit: h, at_most: 20}
"""
NEEDS_OF_SERVER = "{workloads: {chat: {benchmark: llm_inference}}, must: [{of: chat, what: throughput, at_least: 1}]}"
SENTENCES = {
    "page": r"(\w+) is first in \w+/s per device",
    "page, energy": r"(\w+) is first in \w+/Wh",
    "decision": r"(\w+) is first (?:within|at|per|by)",
}


def losses(final=5.0):
    return [final + 4 * 0.9**step for step in range(40)]


def runs(system, speed, part="", values=None, name="", **changes):
    """Return three runs, of which two have the names of others with `name`; a part of each has other values."""
    made = []
    for repeat in range(3):
        run_id = f"{name or f'{system} {speed:g}'} {repeat + bool(name)}"
        own = {"model": "800M", "losses": losses(), "run_id": run_id, **changes}
        made.append(builder.result(system, 4, 64, speed * (1 + 0.001 * repeat), 300.0, **own))
        for each in made[-1]["energy"]["channels"] if part == "channels" else [made[-1][part]] if part else []:
            each.update(values)
    return made


fast = partial(runs, FAST, 40e3)


# Runs that seem to be twice as fast as those of the other system, and are not comparable with them.
KINDS = {
    "contradicts itself": lambda: fast("metrics", {"measured_steps": 40.0}),
    "failed": lambda: fast(status="failed", error="the node burned"),
    "no precision": lambda: fast(precision=""),
    "smaller workload": lambda: fast("metrics", {"comparable": False}),
    "another precision": lambda: fast(precision="fp8"),
    "two precisions": lambda: [*runs(FAST, 10e3), *fast(precision="fp8")],
    "learns worse": lambda: fast(losses=losses(7.0)),
    "learns faster": lambda: fast(losses=losses(3.0)),
    "marked as wrong": lambda: fast(run_id="wrong"),
    "copy of another": lambda: fast(name=f"{SLOW} 20000"),
    "inconsistent copy": lambda: fast("metrics", {"measured_steps": 40.0}, name=f"{SLOW} 20000"),
    "shared node": lambda: fast("provenance", {"exclusive": "no"}),
    "throttled": lambda: fast("channels", {"clocks": {"throttled": {"thermal": 50.0}}}),
}
# Runs whose speed is comparable, and whose energy is not.
ENERGY_KINDS = {
    "estimated": lambda: fast(estimated=True),
    "mixed": lambda: [*fast(), *fast(estimated=True, run_id="")],
    "long gap": lambda: fast("channels", {"largest_gap_s": 30.0}),
    "of the node": lambda: builder.of_scope("node", fast()),
}
GROUPS = ("ranking", "compare", "repeats", "table", "requirement")  # of views
SOUND = {("mixed", "table"), ("of the node", "requirement")}  # one run has one kind; a node's energy may be required
CASES = [(kind, [one for one in GROUPS if (kind, one) not in SOUND]) for kind in (*KINDS, *ENERGY_KINDS)]


@pytest.fixture(autouse=True)
def reference(tmp_path, monkeypatch):
    """A reference of losses for all runs here."""
    made, chance = [*runs(SLOW, 20e3), *runs(SLOW, 20e3)], Random(1)
    for seed, record in enumerate(made):
        record["config"]["training"] = {"seed": seed}
        record["losses"] = [loss + chance.gauss(0, 0.05) for loss in losses()]
    (tmp_path / "learning.csv").write_text(as_csv([reference_of(list(map(Record.of, made)))]))
    monkeypatch.setattr(loading, "REFERENCES", tmp_path / "learning.csv")


def stored(folder, made, time="unit: h, at_most: 20"):
    """Store runs with requirements and prices; return the folder of each system."""
    folder.mkdir(exist_ok=True)
    systems = grouped(made, lambda record: record["system"])
    prices = {system: {"price_per_device": 9e3} for system in systems}
    (folder / "prices.yaml").write_text(json.dumps({"currency": "EUR", "electricity_per_kwh": 0.25, "systems": prices}))
    (folder / "needs.yaml").write_text(NEEDS.replace("unit: h, at_most: 20", time))
    (folder / MARKS).write_text('wrong: {reason: a fault, date: "2026-01-01", version: "1"}\n')
    return [builder.store(folder / system, records) for system, records in systems.items()]


def printed(command, *words):
    """Return what a command prints for a program; nothing where it refuses the results as a whole."""
    with redirect_stdout(io.StringIO()) as text:
        main([command, *map(str, words), *(["--format", "csv"] if command == "table" else ["--json"])])
    return text.getvalue()


def views(folder, folders):
    """Return which systems each view puts before others, and the outcome of each requirement."""
    needs, first, text = folder / "needs.yaml", {}, []
    with suppress(RecordError):  # refused as a whole
        found, costs = load(folders), read_file(Costs, folder / "prices.yaml", "prices")
        points = by_point(found.records)
        decision = Decision(points, read_requirements(needs), costs, found.skipped)
        text = [*of_workload(points), first_of(decision)]
        best = decision.ranked
        first["score"] = {best.scores[0].system} if best.lead and not best.tied else set()
        ordered = [tied_with_cheapest(one) for one in cheapest(points, costs).values() if len(one) > 1]
        first["cost, energy"] = {system for system, *tied in ordered if not tied}
    first |= {view: set(re.findall(sentence, "\n".join(text))) for view, sentence in SENTENCES.items()}
    sides = sorted(filter(Path.is_dir, folder.iterdir()))
    lines = [line for one in json.loads(printed("compare", *sides) or "[]") for line in one["points"]]
    for view, quantity in (("compare", "throughput"), ("compare, energy", "energy")):
        first[view] = {sides[line[quantity]["ratio"] > 1].name for line in lines if line[quantity]}
    for view, shape in (("table", "--all"), ("repeats", "--repeats")):
        first[view], first[f"{view}, energy"] = first_rows(printed("table", *folders, shape))
    verdicts = json.loads(printed("accept", *folders, "--requirements", needs) or '{"requirements": []}')
    return first, {(one["system"], one["what"]): one["outcome"] for one in verdicts["requirements"]}


def first_rows(text):
    """Return the systems with the most speed and work per energy in a CSV, among alike rows that may be ranked."""
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["status"] == "ok" and not row.get("not_ranked")]
    of_energy = ["energy"] if rows and "energy" in rows[0] else ["energy_grade", "energy_scope"]

    def first(column, *kinds):
        known = (row for row in rows if row[column] and not (kinds[1:] and row.get("energy_not_ranked")))
        alike = grouped(known, lambda row: tuple(map(row.get, kinds)))
        several = [mine for mine in alike.values() if len({row["system"] for row in mine}) > 1]
        return {max(mine, key=lambda row: float(row[column]))["system"] for mine in several}

    return first("work_per_s_per_device", "precision"), first("work_per_wh", "precision", *of_energy)


@pytest.mark.parametrize(("slow", "quick"), [(SLOW, FAST), (FAST, SLOW), ("Alpha", "Zeta"), ("Zeta", "Alpha")])
def test_all_views_name_the_same_first_system_whatever_its_name(slow, quick, tmp_path):
    first, verdicts = views(tmp_path, stored(tmp_path, [*runs(slow, 20e3), *runs(quick, 40e3)]))
    assert {frozenset(systems) for systems in first.values()} == {frozenset({quick})}
    assert (len(verdicts), set(verdicts.values())) == (6, {"passed"})


@pytest.mark.parametrize(("kind", "groups"), CASES)
def test_what_is_not_comparable_is_first_in_no_view_and_passes_nothing(kind, groups, tmp_path):
    first, verdicts = views(tmp_path, stored(tmp_path, [*runs(SLOW, 20e3), *(KINDS | ENERGY_KINDS)[kind]()]))
    wrong = {view for view, systems in first.items() if FAST in systems}
    wrong |= {f"requirement, {what}" for (of, what), outcome in verdicts.items() if (of, outcome) == (FAST, "passed")}
    wrong = {view for view in wrong if kind in KINDS or view.endswith("energy")}
    assert {view for view in wrong if next(filter(view.startswith, GROUPS), "ranking") in groups} == set()


@pytest.mark.parametrize("kind", ["", *sorted(NOT_RANKED)])
def test_a_server_that_answers_wrongly_is_not_ranked_and_passes_nothing(kind, tmp_path):
    write_served(tmp_path / "run", "run")
    (tmp_path / "needs.yaml").write_text(NEEDS_OF_SERVER)
    [record] = load([tmp_path / "run"]).records
    findings = [StoredFinding(kind=kind)] if kind else record.serving.findings
    points = by_point([changed(record, serving=changed(record.serving, findings=findings))] * 3)
    [verdict] = accept(points, read_requirements(tmp_path / "needs.yaml"))
    assert (bool(ranked_points(points)), verdict.outcome is Outcome.PASSED) == (not kind, not kind)


OFTEN = ("", "marked as wrong", "another precision")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind in OFTEN else pytest.mark.slow) for kind in ("", *KINDS, *ENERGY_KINDS)],
)
def test_report_and_site_have_the_first_system_of_the_views(kind, tmp_path):
    folders = list(
        map(str, stored(tmp_path, [*runs(SLOW, 20e3), *((KINDS | ENERGY_KINDS)[kind]() if kind else fast())]))
    )
    asked = [f"--requirements={tmp_path}/needs.yaml", f"--prices={tmp_path}/prices.yaml"]
    codes = (
        main(["report", *folders, *asked, f"--out={tmp_path}/report.html"]),
        main(["site", *folders, f"--out={tmp_path}/site"]),
    )
    if codes == (2, 2):  # refused as a whole
        assert kind == "copy of another"
        return
    text = "\n".join(Text((tmp_path / "report.html").read_text()).lines)
    [rows] = (tmp_path / "site").glob("*.csv")
    views = dict(
        zip(
            ("page", "decision", "site"),
            [
                *(set(re.findall(SENTENCES[view], text)) for view in ("page", "decision")),
                first_rows(rows.read_text())[0],
            ],
            strict=True,
        )
    )
    energies = {"page": set(re.findall(SENTENCES["page, energy"], text)), "site": first_rows(rows.read_text())[1]}
    if not kind:
        assert [*views.values(), *energies.values()] == [{FAST}] * 5
    assert kind not in KINDS or not any(FAST in systems for systems in views.values())
    assert not kind or not any(FAST in systems for systems in energies.values())


SAME = {
    "order of runs and folders": lambda folder, made: stored(folder, Random(1).sample(made, len(made)))[::-1],
    "a folder twice": lambda folder, made: stored(folder, made) * 2,
    "a copied folder": lambda folder, made: [*stored(folder, made), shutil.copytree(folder, folder.with_name("copy"))],
    "minutes": lambda folder, made: stored(folder, made, "unit: min, at_most: 1200"),
    "seconds": lambda folder, made: stored(folder, made, "unit: s, at_most: 72000"),
}


@pytest.mark.parametrize("speed", [10e3, 19.99e3, 40e3])
@pytest.mark.parametrize("change", SAME)
def test_what_changes_no_verdict(change, speed, tmp_path):
    made, was, now = [*runs(SLOW, 20e3), *runs(FAST, speed)], tmp_path / "was", tmp_path / "now"
    assert views(was, stored(was, made)) == views(now, SAME[change](now, made))


@pytest.mark.parametrize("factor", [1.001, 1.1, 2.0, 5.0])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_faster_runs_never_fail_what_slower_ones_passed(number, factor, tmp_path):
    made = [*runs(FAST, 16e3)[number:], *runs(FAST, factor * 16e3)[:number], *runs(SLOW, 20e3)]
    _, verdicts = views(tmp_path, stored(tmp_path, made))
    mine = {outcome for (system, _), outcome in verdicts.items() if system == FAST}
    assert mine <= ({"passed", "undecided"} if number == 1 else {"passed"}) and mine
