"""Losses of a run against those of reference runs: the arithmetic, the verdicts, and the files."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from random import Random

import pytest

from record.files import RecordError
from record.model import Record
from record.part import changed
from results.files.systems import read_systems
from results.files.workloads import workloads
from results.points.learning import (
    ERROR,
    FEWEST_RUNS,
    QUARTERS,
    REFERENCES,
    as_csv,
    key_of,
    learnt_of,
    read_references,
    reference_of,
)
from results.points.repeats import by_point
from results.predict.predict import groups_of
from results.tests import builder
from results.verdicts.compare import compare
from results.verdicts.quality import deviations
from results.verdicts.ranking import ranked_points

STEPS = 40
REPOSITORY = Path(__file__).resolve().parents[2]


def falling(noise: float = 0.0, seed: int = 0, final: float = 5.0) -> list[float]:
    chance = Random(seed)
    return [final + 4 * 0.9**step + chance.gauss(0, noise) for step in range(STEPS)]


def run(losses, seed=1, **changes):
    made = builder.result("CPU", batch=8, **{"data": "synthetic", **changes})
    training = {"seed": seed, "data_seed": 1, "learning_rate": 1e-3, "weight_decay": None}
    made["config"] |= {"training": training, "window": {"measured_steps": STEPS}}
    return Record.of({**made, "precision": "fp32", "losses": losses, **changes})


def runs(number=8, **changes):
    return [run(falling(0.05, seed), seed, **changes) for seed in range(1, number + 1)]


def judged(record, made=None):
    made = made or reference_of(runs())
    return learnt_of(record, {made.key: made})


def test_a_key_has_all_that_determines_what_is_learnt_and_no_seed_of_weights():
    key = key_of(run(falling(), seed=5))
    assert key == ("llm_training", "tiny", "2048 tokens", "synthetic", 8, "data_seed=1, learning_rate=0.001")
    assert key == key_of(run(falling(), seed=6, precision="fp8"))
    text = run(falling(), provenance={"data": {"text_sha256": "0123456789abcdef", "tokens": 77}}, data="text")
    assert key_of(text).data == "text, text_sha256 0123456789ab, tokens 77"
    turns, calls = run(falling()), run(falling())
    turns.config["turns"], calls.config["compute"] = {"effective": True}, {"steps_per_call": 4}
    assert key_of(turns).data == "synthetic, in turns"
    assert "steps_per_call=4" in key_of(calls).training
    filled = run(falling(), fill={"copies": 4})
    assert key_of(filled).global_batch == 2  # each copy trained on its own


def test_a_reference_has_the_mean_and_the_spread_of_each_quarter():
    reference = reference_of(runs())
    last = [statistics.fmean(falling(0.05, seed)[30:]) for seed in range(1, 9)]
    assert (reference.steps, reference.runs) == (STEPS, 8)
    assert reference.means[-1] == pytest.approx(statistics.fmean(last))
    # Tail of Student's t with 7 degrees of freedom: Abramowitz and Stegun 1964, equation 26.7.3.
    theta = math.atan(reference.half(3) / statistics.stdev(last) / math.sqrt(9 / 8) / math.sqrt(7))
    powers = math.cos(theta) + 2 / 3 * math.cos(theta) ** 3 + 8 / 15 * math.cos(theta) ** 5
    inside = 2 / math.pi * (theta + math.sin(theta) * powers)
    assert (1 - inside) / 2 == pytest.approx(ERROR / QUARTERS)


@pytest.mark.parametrize(
    ("change", "how", "kinds"),
    [
        (lambda step: 0.04, "as the reference", []),
        (lambda step: 0.2, "worse", ["learns_worse"]),
        (lambda step: 0.4 if step < 10 else 0.0, "worse", ["learns_worse"]),  # as without a correction of bias
        (lambda step: -0.3 if step >= 30 else 0.0, "too fast", ["learns_faster"]),  # as data that is read twice
        (lambda step: math.inf if step == 20 else 0.0, "worse", ["learns_worse"]),
        (lambda step: 1.0 if step >= STEPS else 0.0, "worse", ["learns_worse"]),  # diverges after the reference's steps
    ],
)
def test_a_run_is_judged_in_each_quarter_on_both_sides(change, how, kinds):
    usual = falling(0.05, seed=99)
    losses = [loss + change(step) for step, loss in enumerate([*usual, *usual[-10:]])]
    learnt = judged(run([loss if math.isfinite(loss) else None for loss in losses], seed=99))
    assert (learnt.how, [one.kind for one in learnt.findings]) == (how, kinds)
    assert learnt.reference < learnt.most


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (run(falling()[:39]), "the losses are not judged: 39 steps, 40 of the reference"),
        (run(falling(), model="13B"), "no reference fits: there is none of llm_training 13B"),
        (run(falling(), sample="64 tokens"), "its sample is 64 tokens, that of the nearest reference 2048 tokens"),
    ],
)
def test_a_run_whose_losses_should_be_judged_and_are_not_is_not_ranked(record, words):
    learnt = judged(record)
    assert learnt.how == "not judged"
    assert words in str(learnt.findings[0])
    [point] = by_point([run_of_learnt(record)])
    assert ranked_points([point]) == []
    assert words in " ".join(map(str, deviations(point)))


def run_of_learnt(record):
    return changed(record, learnt=judged(record))


def test_an_ordinary_run_without_a_reference_has_no_remark():
    record = run(falling())
    record.config["training"]["data_seed"] = None
    assert judged(record) is None
    assert judged(run(falling(), status="failed")) is None


@pytest.mark.parametrize("change", [0.2, -0.3])
def test_a_run_that_learns_otherwise_is_not_ranked_and_its_report_says_by_how_much(change):
    sound, other = (run_of_learnt(run([loss + by for loss in falling()])) for by in (0.0, change))
    assert len(ranked_points(by_point([sound]))) == 1
    [point] = by_point([other])
    assert ranked_points([point]) == []
    sides = [[run_of_learnt(run([loss + by for loss in falling()], seed)) for seed in (1, 2)] for by in (0.0, change)]
    [line] = compare(*sides).lines
    assert not any(line.ratios)
    assert any(note.startswith("not compared: other, the mean loss of steps") for note in line.remarks)
    assert [len(groups_of(by_point(side))) for side in sides] == [1, 0]
    [said] = [str(one) for one in deviations(point) if one.kind.startswith("learns")]
    assert f"the mean loss of steps 31 to 40 is {statistics.fmean(falling()[30:]) + change:.5g}" in said


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: runs(4), "4 runs with losses found, 5 needed: make more runs"),
        (lambda: [*runs(5), run(falling(), seed=1)], "each must be another one: repeat runs with --seed N"),
        (lambda: [*runs(5), run(falling(), seed=9, precision="fp8")], "is in fp8, and a reference is in fp32 or bf16"),
        (lambda: [*runs(5), run(falling(), seed=9, status="failed")], "is a run that failed: leave it out"),
        (lambda: [*runs(5), run(falling(), seed=9, sample="64 tokens")], "learns something else (its sample is 64"),
        (lambda: [run(falling(0.05, seed)[:3], seed) for seed in range(5)], "the shortest run has 3 steps, 4 needed"),
        (lambda: [*runs(5), run([*falling()[:-1], None], seed=9)], "has a loss that is not finite: leave it out"),
        (
            lambda: [run([5 - seed, 5.0 + seed] * 4, seed) for seed in range(1, 6)],
            "make no reference (a mean",
        ),
        (list, "0 runs with losses found, 5 needed"),
    ],
)
def test_runs_that_make_no_reference_are_refused(made, message):
    with pytest.raises(RecordError, match=message.replace("(", r"\(")):
        reference_of(made())


def test_a_verdict_by_a_sites_own_reference_says_so(tmp_path):
    (tmp_path / "own.csv").write_text(as_csv([reference_of(runs())]))
    [(key, own)] = read_references(tmp_path / "own.csv").items()
    learnt = learnt_of(run(falling()), {key: own})
    assert (learnt.how, [one.kind for one in learnt.findings]) == ("as the reference", ["learning_by_site"])
    assert all(one.file == "" for one in read_references(REFERENCES).values())


def test_a_file_of_references_is_read_as_written_and_an_earlier_one_counts(tmp_path):
    one, other = reference_of(runs()), reference_of(runs(sample="64 tokens"))
    changed = other._replace(steps=20)
    for name, made in (("a.csv", [one, other]), ("b.csv", [changed])):
        (tmp_path / name).write_text(as_csv(made))
    found = read_references(tmp_path / "b.csv", tmp_path / "a.csv")
    assert found[one.key].means == pytest.approx(one.means, rel=1e-5)
    assert found[other.key].steps == 20
    text, sd = as_csv([one]), f"{one.deviations[0]:.6g}"
    damaged = [
        (",40,", ",many,"),
        (",40,", ",3,"),
        (",40,8,", ",40,4,"),
        *((sd, wrong) for wrong in ("nan", "0", "-1")),
    ]
    for bad in ("", "key,steps\n1,2\n", *(text.replace(*change) for change in damaged)):
        (tmp_path / "c.csv").write_text(bad)
        with pytest.raises(RecordError, match=r"c\.csv cannot be read as references"):
            read_references(tmp_path / "c.csv")
    with pytest.raises(RecordError, match=r"none\.csv cannot be read"):
        read_references(Path(tmp_path / "none.csv"))


@pytest.mark.parametrize(
    "name",
    ["llm_training", "llm_training tiny-llama-LoRA", "resnet50", "resnet50_torch", "cosmoflow", "deepcam", "fno"],
)
def test_the_suite_has_a_reference_of_what_the_tag_gate_runs_on_a_laptop(name):
    name, _, model = name.partition(" ")
    facts, block = workloads()[name], read_systems()["CPU"].values
    model = model or facts.default_model(block)
    batch, steps = (int(facts.value(f"gate_{one}", block, model)) for one in ("batch", "steps"))
    references = read_references(REFERENCES).values()
    [found] = [one for one in references if one.key.workload == name and one.key.model.endswith(model)]
    assert (found.key.data, found.key.global_batch, found.steps) == ("synthetic", batch, steps)
    words = facts.value("gate_flags", block, model).split()
    stated = dict(one.split("=") for one in found.key.training.split(", "))
    for flag, value in zip(words[::2], words[1::2], strict=True):
        if flag != "--sequence-length":
            assert float(stated[flag[2:].replace("-", "_")]) == float(value)
    assert found.runs >= FEWEST_RUNS
    page = (REPOSITORY / "docs" / "howto" / "check_that_training_learns.md").read_text()
    assert f"±{100 * found.half(3) / found.means[3]:.0f} % for " in " ".join(page.split())
    assert all(0 < sd < mean for mean, sd in zip(found.means, found.deviations, strict=True))
