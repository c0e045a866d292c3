"""Judgement of a run by its own record: its losses, its server's answers, its devices, and how its job ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jpwr.process.device_ids import same_ids
from record.acceptance import judged_acceptance
from record.answers import judged
from record.findings import NOT_RANKED, Finding, finding, from_data
from record.model import Record, as_json
from record.parts import devices_of, sensor_channels
from record.perplexity import reference_of
from record.values import once, value_at

PART = "MIG-"  # beginning of the id of a part of a GPU
DIVIDED_BY_MIG = "divided by MIG"  # in jpwr's description of an NVML sensor
PARTITION = ("compute_partition", "accelerator_partition")  # of two versions of amd-smi; SPX is the whole device
# A power limit is of the operating point. Shorter slowdowns are a remark.
SLOWED_BY, MOST_SLOWED_PERCENT = ("thermal", "slowdown", "brake"), 10.0  # of the measured window
DIVIDED = {"DPX", "TPX", "QPX", "CPX"}
# States of a job that ended by itself, or that its scheduler cannot tell.
HARMLESS = {"COMPLETED", "Complete", "SidecarRunning", "Deleted", "UNKNOWN", "unstated", ""}
WEIGHTS = ("url", "model_path", "real_weights")  # options of a server with weights that know a text


@once
def shown_by(record: Record) -> list[Finding]:
    """Return what a good run's record shows for and against it."""
    served = _of_server(record) if record.serving else ()
    return [*record.learnt.findings, *served, *_of_devices(record), *_disturbed(record)]


def why_wrong(good: Sequence[Record], bad: Sequence[Record]) -> Finding | None:
    """Return why the runs of a point are not ranked; None if they may be."""
    seeds = Counter(one.option("training.seed") for one in good if one.option("window.to_loss"))
    for seed, runs in seeds.most_common(1):
        if runs > 1:
            return finding("one_seed", runs=runs, seed=str(seed))
    for record in good:
        if wrong := next((one for one in shown_by(record) if one.kind in NOT_RANKED), None):
            return wrong
        # Of a version that stored other values, the kind decides.
        if stored := next((one for one in record.serving.findings if one.kind in NOT_RANKED), None):
            return from_data(as_json(stored))
        number, state = job_of(record)
        if state not in HARMLESS and not any(job_of(other)[0] == number for other in bad):
            return finding("ended_by_scheduler", state=state)
    return None


def job_of(record: Record) -> tuple[str, str]:
    """Return the number of a run's job and its state, as its scheduler reported them; empty texts without one."""
    jobs = [vars(record.slurm), vars(record).get("kubernetes")]
    known = next((one for one in jobs if isinstance(one, Mapping) and one), {})
    number, state = (str(known.get(name) or "") for name in ("job_id", "state"))
    return number, state.partition(" ")[0]  # sacct adds by whom a job was cancelled


def _of_server(record: Record) -> Iterator[Finding]:
    """Yield the findings of the client, and those that its numbers give by today's rules."""
    serving, of_suite = record.serving, reference_of(record.model, record.precision, 0.0)
    stored = [from_data(as_json(one)) for one in serving.findings]
    answers = serving.answers | ({"perplexity_reference": of_suite} if of_suite and serving.answers else {})
    found = [*_not_checked(record), *judged(answers), *_own_marks(answers, of_suite)]
    if one := serving.speculation:
        facts = {name: getattr(one, name) for name in ("draft_tokens", "stated_length", "measured_length", "steps")}
        found += judged_acceptance(facts, value_at(record, "metrics.output_tokens_per_request") or 0.0)
    kinds = {one.kind for one in stored}
    yield from [*stored, *(one for one in found if one.kind not in kinds)]


def _not_checked(record: Record) -> Iterator[Finding]:
    """Yield which checks the options ask for, and the record does not have."""
    answers, wanted = record.serving.answers, record.config.get("answers") or {}
    if record.serving.speculation:
        return
    pairs = (("questions", "questions"), ("questions_file", "expected"))
    if any(wanted.get(option) and not answers.get(name) for option, name in pairs):
        yield finding("answers_unknown")
    has_weights = any(record.option(f"serve.{name}") for name in WEIGHTS)
    if wanted.get("perplexity") and has_weights and "perplexity_tokens" not in answers:
        yield finding("perplexity_unknown")


def _own_marks(answers: Mapping[str, Any], of_suite: float | None) -> Iterator[Finding]:
    """Yield the pass marks that the run states itself, and neither the suite nor a buyer."""
    for what, option, value in (
        ("the reference of its perplexity", "answers.perplexity_reference", answers.get("perplexity_reference")),
        ("the share of right answers", "answers.reference", answers.get("reference")),
    ):
        if value not in (None, of_suite):
            yield finding("own_mark", what=what, value=f"{value:.4g}", option=option)


def _of_devices(record: Record) -> Iterator[Finding]:
    """Yield why a run was not on whole and sound devices, by ids, names, sensors and the vendor's tool."""
    for device in record.devices:
        name, ident = device.name or "", device.device_id or ""
        if any(one.startswith(PART) for one in ident.split()) or " MIG " in name:
            yield finding("divided_device", device=ident or name, how="MIG")
            return
    for channel in sensor_channels(record):
        if DIVIDED_BY_MIG in (channel.source or ""):
            yield finding("divided_device", device=channel.name, how="MIG, by its sensor")
            return
    for report in _reports(record):
        name = str(report.get("name") or report.get("uuid") or "a device")
        mig, ecc, mode = (
            str(report.get(key) or "").strip().lower()
            for key in ("mig.mode.current", "ecc.mode.current", "compute_mode")
        )
        partition = report.get("partition")
        parts = {str(partition.get(one)) for one in PARTITION} & DIVIDED if isinstance(partition, Mapping) else ()
        if mig == "enabled" or parts:
            yield finding("divided_device", device=name, how=", ".join(sorted(parts)) or "MIG is on")
        elif ecc == "disabled":
            yield finding("no_ecc", device=name)
        elif mode == "prohibited":
            yield finding("compute_prohibited", device=name, mode=mode)


def _disturbed(record: Record) -> Iterator[Finding]:
    """Yield why a speed is not that of the device: other jobs on its node, or clocks that were held back."""
    if record.provenance.exclusive == "no":
        yield finding("shared")
    for channel in sensor_channels(record):
        for reason, percent in (channel.clocks.throttled or {}).items():
            if percent > MOST_SLOWED_PERCENT and any(word in reason for word in SLOWED_BY):
                yield finding("throttled", reason=reason, percent=percent)
                return


def _reports(record: Record) -> list[dict[str, Any]]:
    """Return what the vendor's tool reported of the devices of a run; of all, if no id is of one of them."""
    used = {one for device in record.devices for one in same_ids(device.device_id or "")}
    if not used:  # processors
        return []
    reports = devices_of(record)
    return [one for one in reports if used & set(same_ids(str(one.get("uuid") or "")))] or reports
