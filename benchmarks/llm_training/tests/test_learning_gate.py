"""Real training of a small model: sound runs pass the gate of losses, and deliberate faults do not."""

from __future__ import annotations

import json
from functools import cache

import pytest

from benchmarks.common.tests import forked
from record.model import Record
from results.points.learning import Reference, learnt_of, reference_of
from results.tests import builder

pytestmark = [pytest.mark.long, pytest.mark.slow]

SEEDS = 20
OTHER_SEED = "101"


@cache
def trained(first: str, last: str, *words: str, ranks: int = 0) -> list[Record]:
    done = forked.run("benchmarks.llm_training.tests.train_small", first, last, *words, ranks=ranks)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("[["))
    return [record_of(losses, seed) for seed, losses in enumerate(json.loads(line), int(first))]


def record_of(losses: list[float], seed: int) -> Record:
    made = builder.result("CPU", data="synthetic", precision="fp32", losses=losses)
    made["config"] |= {"training": {"seed": seed, "data_seed": 1}}
    return Record.of(made)


def how(record: Record, reference: Reference) -> str:
    learnt = learnt_of(record, {reference.key: reference})
    assert learnt is not None
    return learnt.how


def test_each_of_20_sound_runs_passes_against_the_others(imported):
    sound = trained("1", str(SEEDS))
    verdicts = [how(one, reference_of([other for other in sound if other is not one])) for one in sound]
    assert verdicts == ["as the reference"] * SEEDS


@pytest.mark.parametrize(
    ("words", "ranks", "verdict"),
    [
        (["fp8"], 0, "as the reference"),
        (["fp8", "wrong-scale"], 0, "worse"),
        ([], 2, "as the reference"),
    ],
)
def test_faults_are_found_and_other_precisions_and_layouts_pass(imported, words, ranks, verdict):
    [other] = trained(OTHER_SEED, OTHER_SEED, *words, ranks=ranks)
    assert how(other, reference_of(trained("1", str(SEEDS)))) == verdict
