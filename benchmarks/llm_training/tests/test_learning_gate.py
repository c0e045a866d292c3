"""Real training of a small model: sound runs pass the gate of losses, and deliberate faults do not."""

from __future__ import annotations

from functools import cache

import pytest

from benchmarks.llm_training.tests.conftest import train_variant
from record.model import Record
from results.points.learning import Reference, learnt_of, reference_of
from results.tests import builder

pytestmark = [pytest.mark.long, pytest.mark.slow]

SEEDS = 20
OTHER_SEED = 101


@cache
def trained(first: int, last: int, variant: str = "plain", ranks: int = 0) -> list[Record]:
    found = train_variant(variant, steps=64, seeds=(first, last), ranks=ranks)
    return [record_of(one["losses"], seed) for seed, one in enumerate(found, first)]


def record_of(losses: list[float], seed: int) -> Record:
    made = builder.result("CPU", data="synthetic", precision="fp32", losses=losses)
    made["config"] |= {"training": {"seed": seed, "data_seed": 1}}
    return Record.of(made)


def how(record: Record, reference: Reference) -> str:
    learnt = learnt_of(record, {reference.key: reference})
    assert learnt is not None
    return learnt.how


def test_each_of_20_sound_runs_passes_against_the_others(imported):
    sound = trained(1, SEEDS)
    verdicts = [how(one, reference_of([other for other in sound if other is not one])) for one in sound]
    assert verdicts == ["as the reference"] * SEEDS


@pytest.mark.parametrize(
    ("variant", "ranks", "verdict"),
    [("fp8-by-torch", 0, "as the reference"), ("wrong-scale", 0, "worse"), ("plain", 2, "as the reference")],
)
def test_faults_are_found_and_other_precisions_and_layouts_pass(imported, variant, ranks, verdict):
    [other] = trained(OTHER_SEED, OTHER_SEED, variant, ranks)
    assert how(other, reference_of(trained(1, SEEDS))) == verdict
