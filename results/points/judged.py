"""Judgement of a run by its own record: its losses, its server's answers, its devices, and how its job ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jpwr.process.device_ids import same_ids
from record.answers import judged, not_checked
from record.asked import reference_of
from record.findings import Finding, finding, from_data
from record.kinds import NOT_RANKED
from record.model import Record
from record.part import as_json
from record.served_rules import judged_acceptance
from record.values import once
from results.points.facts import flat

PART = "MIG-"  # beginning of the id of a part of a GPU
PARTITION = ("compute_partition", "accelerator_partition")  # of two versions of amd-smi; SPX is the whole device
# A power limit is of the operating point. Shorter slowdowns are a remark.
SLOWED_BY, MOST_SLOWED_PERCENT = ("thermal", "slowdown", "brake"), 10.0  # of the measured window
DIVIDED = {"DPX", "TPX", "QPX", "CPX"}
# States of a job that ended by itself, or that its scheduler cannot tell.
HARMLESS = {"COMPLETED", "Complete", "SidecarRunning", "Deleted", "UNKNOWN", "unstated", ""}
OWN_MARKS = {
    "perplexity_reference": "the reference of its perplexity",
    "reference": "the share of right answers",
}


@once
def shown_by(record: Record) -> list[Finding]:
    """Return what a good run's record shows for and against it."""
    served = _of_server(record) if record.serving else ()
    return [*record.learnt.findings, *served, *_of_devices(record), *_disturbed(record)]


def why_wrong(good: Sequence[Record], bad: Sequence[Record]) -> Finding | None:
    """Return why the runs of a point are not ranked; None if they may be."""
    seeds = Counter(record.option("training.seed") for record in good if record.option("window.to_loss"))
    for seed, runs in seeds.most_common(1):
        if runs > 1:
            return finding("one_seed", runs=runs, seed=str(seed))
    for record in good:
        # Of a version that stored other values, the kind decides.
        stored = [from_data(as_json(one)) for one in record.serving.findings if one.kind in NOT_RANKED]
        for wrong in (*(one for one in shown_by(record) if one.kind in NOT_RANKED), *stored):
            return wrong
        number, state = job_of(record)
        if state not in HARMLESS and not any(job_of(other)[0] == number for other in bad):
            return finding("ended_by_scheduler", state=state)
    return None


def job_of(record: Record) -> tuple[str, str]:
    """Return the number of a run's job and its state, as its scheduler reported them; empty texts without one."""
    job = vars(record.slurm) or vars(record).get("kubernetes") or {}
    number, state = (str(job.get(name) or "") for name in ("job_id", "state"))
    return number, state.partition(" ")[0]  # sacct adds by whom a job was cancelled


def _of_server(record: Record) -> Iterator[Finding]:
    """Yield the findings of the client, and those that its numbers give by today's rules."""
    serving, of_suite = record.serving, reference_of(record.model, record.precision, 0.0)
    stored = [from_data(as_json(one)) for one in serving.findings]
    answers = serving.answers | ({"perplexity_reference": of_suite} if of_suite and serving.answers else {})
    shown = [*not_checked(record, serving.answers), *judged(answers), *_own_marks(answers, of_suite)]
    if serving.speculation:
        tokens = record.metrics.number("output_tokens_per_request") or 0.0
        shown += judged_acceptance({"steps": None, "measured_length": None} | vars(serving.speculation), tokens)
    kinds = {one.kind for one in stored}
    yield from [*stored, *(one for one in shown if one.kind not in kinds)]


def _own_marks(answers: Mapping[str, Any], of_suite: float | None) -> Iterator[Finding]:
    """Yield the pass marks that the run states itself, and neither the suite nor a buyer."""
    for name, what in OWN_MARKS.items():
        value = answers.get(name)
        if value not in (None, of_suite):
            yield finding("own_mark", what=what, value=f"{value:.4g}", option=f"answers.{name}")


def _of_devices(record: Record) -> Iterator[Finding]:
    """Yield why a run was not on whole and sound devices, by their ids and names, and by the vendor's tool."""
    for device in record.devices:
        name, ident = device.name or "", device.device_id or ""
        if any(part.startswith(PART) for part in ident.split()) or " MIG " in name:
            yield finding("divided_device", device=ident or name, how="MIG")
            return
    for name, facts in _reports(record):
        modes = {facts.get(f"partition.{key}", "") for key in PARTITION} & DIVIDED
        if facts.get("mig.mode.current", "").strip().lower() == "enabled":
            modes.add("MIG is on")
        if modes:
            yield finding("divided_device", device=name, how=", ".join(sorted(modes)))
        elif facts.get("ecc.mode.current", "").strip().lower() == "disabled":
            yield finding("no_ecc", device=name)


def _disturbed(record: Record) -> Iterator[Finding]:
    """Yield why a speed is not that of the device: other jobs on its node, or clocks that were held back."""
    if record.provenance.exclusive == "no":
        yield finding("shared")
    for channel in record.sensor_channels:
        for reason, percent in (channel.clocks.throttled or {}).items():
            if percent > MOST_SLOWED_PERCENT and any(word in reason for word in SLOWED_BY):
                yield finding("throttled", reason=reason, percent=percent)
                return


def _reports(record: Record) -> list[tuple[str, dict[str, str]]]:
    """Return name and facts of each device of a run by the vendor's tool; of all, if no id is of one of them."""
    used = {ident for device in record.devices for ident in same_ids(device.device_id or "")}
    if not used:  # processors
        return []
    reports = [dict(flat(report)) for report in record.reported_devices]
    own = [facts for facts in reports if used & set(same_ids(facts.get("uuid", "")))]
    return [(facts.get("name") or facts.get("uuid") or "a device", facts) for facts in own or reports]
