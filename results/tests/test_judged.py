"""Runs are judged by their own record: whole and sound devices, a job that ended well, the checks asked for."""

from __future__ import annotations

from random import Random

import pytest

from record.asked import PERPLEXITIES
from record.files import csv_rows
from results.tests import builder
from results.tests.builder import served, verdicts
from results.tests.of_dicts import by_point, contradictions
from results.verdicts.outcome import Outcome
from results.verdicts.quality import deviations
from results.verdicts.ranking import ranked_points

SOUND = {"name": "H100", "uuid": "GPU-00000000-0000-0000-0000-000000000001", "mig.mode.current": "Disabled"}
SOUND |= {"ecc.mode.current": "Enabled", "compute_mode": "Default", "persistence_mode": "Disabled"}
OTHER = SOUND | {"uuid": "GPU-00000000-0000-0000-0000-000000000002"}


def on_device(ident=SOUND["uuid"], name="H100", reports=(SOUND,), **changes):
    record = builder.result("H100", **changes)
    record["devices"][0] |= {"device_id": ident, "name": name}
    record["provenance"]["nodes"] = [{"devices": list(reports)}]
    return record


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, None),
        ({"reports": [{"name": "GeForce", "mig.mode.current": "[N/A]", "ecc.mode.current": "[N/A]"}]}, None),
        ({"reports": [SOUND, OTHER | {"mig.mode.current": "Enabled"}]}, None),  # of another device
        ({"reports": {"gpu_data": [{"partition": {"compute_partition": "CPX"}}]}}, "divided_device"),
        ({"reports": {"gpu_data": [{"partition": {"accelerator_partition": "DPX"}}]}}, "divided_device"),
        ({"reports": [SOUND | {"mig.mode.current": "Enabled"}]}, "divided_device"),
        ({"ident": "MIG-1 0000:01:00.0", "reports": [SOUND]}, "divided_device"),
        ({"name": "NVIDIA A100-SXM4-40GB MIG 3g.20gb", "reports": []}, "divided_device"),
        ({"reports": [SOUND | {"ecc.mode.current": "Disabled"}]}, "no_ecc"),
        ({"ident": "", "reports": [SOUND | {"mig.mode.current": "Enabled"}]}, None),  # on processors
    ],
)
def test_a_run_on_a_part_of_a_device_or_on_one_that_is_not_sound_is_not_ranked(changes, kind):
    reports = changes.pop("reports", [SOUND])
    record = on_device(**changes)
    record["provenance"]["nodes"] = [{"devices": reports}]
    [point] = by_point([record])
    assert (point.wrong and point.wrong.kind, bool(ranked_points([point]))) == (kind, kind is None)
    assert not kind or point.wrong in deviations(point)


@pytest.mark.parametrize(
    ("key", "state", "others", "kind"),
    [
        ("slurm", "COMPLETED", [], None),
        ("slurm", "UNKNOWN", [], None),
        ("kubernetes", "Complete", [], None),
        ("slurm", "TIMEOUT", [], "ended_by_scheduler"),
        ("slurm", "CANCELLED by 1000", [], "ended_by_scheduler"),
        ("slurm", "NODE_FAIL", ["8"], "ended_by_scheduler"),  # a run of another job
        ("slurm", "TIMEOUT", ["7"], None),  # which ended a later run of this job
        ("kubernetes", "DeadlineExceeded", [], "ended_by_scheduler"),
    ],
)
def test_a_run_whose_job_did_not_end_by_itself_is_not_ranked(key, state, others, kind):
    good = builder.result("H100", **{key: {"job_id": "7", "state": state}})
    bad = [builder.failed("H100", **{key: {"job_id": number, "state": state}}) for number in others]
    [point] = by_point([good, *bad])
    assert (point.wrong and point.wrong.kind) == kind


ASKED = {"questions": 16, "questions_file": "", "perplexity": False}
ANSWERED = {"questions": 16, "tokens": 99, "agreement": 1.0, "repeat_agreement": 1.0, "has_logprobs": True, "wrong": 0}
TEXT = {"perplexity_tokens": 300, "perplexity": 12.0, "perplexity_reference": 12.1}
DRAFTS = {"draft_tokens": 3, "stated_length": 2.49}
COUNTED = {"steps": 4e4, "accepted_tokens": 4e4 * 1.49, "measured_length": 2.49}


def asked(answers, speculation=None, weights=True, **options):
    record = served(ttft_s=0.5)
    record["config"] |= {"answers": ASKED | options, "serve": {"model_path": "/a" if weights else ""}}
    record["serving"] |= {"answers": answers, "findings": []} | ({"speculation": speculation} if speculation else {})
    return record


@pytest.mark.parametrize(
    ("answers", "options", "kind"),
    [
        (ANSWERED, {}, None),
        (ANSWERED | TEXT, {"perplexity": True}, None),
        ({}, {"questions": 0, "perplexity": True, "weights": False}, None),
        ({}, {}, "answers_unknown"),
        (ANSWERED, {"questions_file": "mine.jsonl"}, "answers_unknown"),
        (ANSWERED | {"has_logprobs": False}, {}, "no_logprobs"),
        (ANSWERED | {"empty": 3}, {}, "answers_empty"),
        (ANSWERED, {"perplexity": True}, "perplexity_unknown"),
        (ANSWERED | TEXT | {"perplexity": 12.3}, {"perplexity": True}, "perplexity_differs"),
        (ANSWERED | {"likelihood": 1.03, "likelihood_low": 1.02, "likelihood_high": 1.04}, {}, "answers_unlikely"),
        (ANSWERED | {"wrong": 1}, {}, "answers_wrong"),
        ({}, {"speculation": DRAFTS | COUNTED}, None),
        ({}, {"speculation": DRAFTS}, "acceptance_unknown"),
        ({}, {"speculation": DRAFTS | COUNTED | {"measured_length": 2.56}}, "acceptance_differs"),
    ],
)
def test_a_server_with_a_check_that_failed_or_was_not_made_is_not_ranked(answers, options, kind):
    """Also where its stored findings lack it."""
    [point] = by_point([asked(answers, **options)])
    assert (point.wrong and point.wrong.kind, bool(ranked_points([point]))) == (kind, kind is None)


def test_steps_make_the_tokens_of_the_window():
    """Few steps would let any acceptance pass as chance."""
    record = asked({}, DRAFTS)
    tokens = record["metrics"]["measured_tokens"]
    for share, is_good in ((1.0, True), (0.6, True), (1.8, True), (0.4, False), (2.2, False)):
        steps = share * tokens / 2.49
        counted = {"steps": steps, "accepted_tokens": steps * 1.49, "measured_length": 2.49}
        record["serving"]["speculation"] = DRAFTS | counted
        assert any("arrived in its window" in one for one in contradictions(record)) != is_good


@pytest.mark.parametrize(
    ("answers", "speculation", "name"),
    [
        ({"perplexity": 0.1}, None, "answers.perplexity"),
        ({"agreement": 1.5}, None, "answers.agreement"),
        ({"expected": 4, "right": 5, "reference": 1.0}, None, "answers.right"),
        ({"expected": 4, "right": 0, "reference": 0}, None, "answers.reference"),
        ({"questions": 4, "wrong": 5}, None, "answers.wrong"),
        ({}, DRAFTS | {"measured_length": 4.5}, "speculation.measured_length"),
    ],
)
def test_values_that_cannot_be_are_found(answers, speculation, name):
    found = [one for one in contradictions(asked(answers, speculation)) if "can only be" in one]
    assert [one.startswith(f"serving.{name} is") for one in found] == [True]
    assert not [one for one in contradictions(asked(ANSWERED | TEXT, DRAFTS | COUNTED)) if "can only be" in one]


@pytest.mark.parametrize(
    ("answers", "fixed", "options"),
    [
        (ANSWERED, "", []),
        (ANSWERED | TEXT, "", ["answers.perplexity_reference"]),
        (ANSWERED | TEXT, "answers.perplexity_reference: 12.1", []),
        (ANSWERED | {"expected": 4, "right": 4, "reference": 0.1}, "", ["answers.reference"]),
    ],
)
def test_a_verdict_says_whose_the_pass_marks_are(answers, fixed, options, tmp_path):
    records = [asked(answers, perplexity_reference=12.1, reference=0.1) for _ in range(3)]
    text = f"workloads: {{chat: {{benchmark: llm_inference, fixed: {{{fixed}}}}}}}\n"
    [verdict] = verdicts(tmp_path, records, text + "must: [{of: chat, what: throughput, at_least: 1}]\n")
    assert verdict.outcome is Outcome.PASSED
    found = [dict(one.values)["option"] for one in verdict.answer.doubts if one.kind == "own_mark"]
    assert found == options


def test_the_suites_own_reference_is_no_mark_of_the_run():
    model, precision, text, _ = csv_rows(PERPLEXITIES)[0].values()
    own = float(text)
    record = asked(ANSWERED | {"perplexity_tokens": 9, "perplexity": own, "perplexity_reference": own})
    [point] = by_point([record | {"model": model, "precision": precision}])
    assert not any(one.kind == "own_mark" for one in deviations(point))
    record["serving"]["answers"] |= {"perplexity": 2 * own, "perplexity_reference": 2 * own}
    [point] = by_point([record | {"model": model, "precision": precision}])
    assert point.wrong.kind == "perplexity_differs"


def test_repeats_with_the_same_losses_are_named_and_count():
    losses = [9.0 - 0.1 * step for step in range(20)]
    same, other = [*losses[:12], *[loss + 0.01 for loss in losses[12:]]], [loss + 0.01 for loss in losses]
    runs = [on_device(losses=one) for one in (losses, same, other)]
    [point] = by_point(runs)
    assert [dict(one.values)["runs"] for one in deviations(point) if one.kind == "same_losses"] == [1]
    assert ranked_points([point])


def test_honest_runs_of_each_kind_are_ranked():
    """Drawn with the noise that repeats, answers, acceptance and losses have; none may be refused."""
    chance = Random(74)
    for _ in range(100):
        steps = 4e4 * chance.uniform(0.1, 10)
        length = 2.49 + chance.gauss(0, 1.3) / steps**0.5
        counted = {"steps": steps, "accepted_tokens": steps * (length - 1), "measured_length": length}
        likelihood, half = 1 + chance.gauss(0, 0.003), 0.006
        answers = ANSWERED | {"agreement": chance.uniform(0.5, 1), "likelihood": likelihood}
        answers |= {"likelihood_low": likelihood - half, "likelihood_high": likelihood + half}
        text = TEXT | {"perplexity": 12.1 * (1 + chance.gauss(0, 0.002))}
        modes = [SOUND | {"compute_mode": mode} for mode in ("Default", "Exclusive_Process")]
        losses = [chance.gauss(3, 0.006) for _ in range(chance.randint(2, 200))]
        for record in (
            on_device(losses=losses, reports=[chance.choice(modes)]),
            asked(answers | text, perplexity=True),
            asked({}, DRAFTS | counted),
            builder.result(slurm={"job_id": "7", "state": "COMPLETED"}),
        ):
            [point] = by_point([record])
            assert ranked_points([point]), str(point.wrong)
            assert not any(one.kind == "rising_loss" for one in deviations(point))
