"""The results of a Job that has ended, from what its pods left: on the claim, or at the end of their logs."""

from __future__ import annotations

from pathlib import Path

from caraml.kubernetes import parcel
from caraml.kubernetes.objects import Object
from caraml.kubernetes.pod import EXIT_CODE, folders, output_names
from caraml.kubernetes.state import KubernetesJob, has_run, name_of, terminated
from caraml.kubernetes.submission import CHECKOUT, OBJECTS, read_request
from caraml.programs import words
from results.collect import cause, collect, failed_result
from results.records import RESULT_NAME, Record, RecordError, read_record, write_record


def bring_results(job: KubernetesJob, point: Path, key: str) -> None:
    """Write the result of each run of a point, with what is known of the Job under `key`."""
    request = read_request(point)
    trouble = _bring_files(job, point) if (point / OBJECTS / CHECKOUT).exists() else ""
    for run in folders(point, request.runs):
        known = {key: job.to_record()}
        write_record({**read_record(run / RESULT_NAME), **known}, run / RESULT_NAME)
        write_record({**_result(job, run, point, request.nodes, trouble), **known}, run / RESULT_NAME)


def _result(job: KubernetesJob, run: Path, point: Path, nodes: int, trouble: str) -> Record:
    codes = [_exit_code(run, node) for node in range(nodes)]
    bad = next((node for node, code in enumerate(codes) if code), None)
    if bad is not None:
        _, err_name = output_names(bad)
        why = "" if job.ended_by_itself else f"Kubernetes ended the {job}; "
        return failed_result(run, codes[bad] or 1, why + cause(codes[bad] or 1, run / err_name))
    if None not in codes:
        try:
            return collect(run)
        except RecordError as error:
            return failed_result(run, 1, f"all nodes ended well, and left no record: {error}")
    if not job.ended_by_itself:
        return failed_result(run, 1, f"Kubernetes ended the {job}")
    return failed_result(run, 1, trouble or _unheard(job, run, point))


def _exit_code(run: Path, node: int) -> int | None:
    """How one node's part of a run ended; None where that is not known."""
    try:
        return int((run / f"{EXIT_CODE}{node}").read_text())
    except (OSError, ValueError):
        return None


def _unheard(job: KubernetesJob, run: Path, point: Path) -> str:
    """Why nothing is known of a run in pods that ended by themselves."""
    if run != point and any(point.glob(f"{EXIT_CODE}*")):
        return "it was not begun, as a run before it failed"
    for pod in job.pods:
        if (log := _log(point, pod)).exists():
            return f"pod {name_of(pod)} did not start the run: {cause(1, log)}"
    return f"Kubernetes ended the {job}, and no pod has said how the run ended"


def _log(point: Path, pod: Object) -> Path:
    return point / OBJECTS / f"{name_of(pod)}.log"


def _bring_files(job: KubernetesJob, point: Path) -> str:
    """The logs of all pods, and the files of the runs in them; returns what is missing."""
    trouble = ""
    for pod in filter(has_run, job.pods):
        done = job.where.try_to("logs", name_of(pod))
        if done.returncode:
            job.where("version")  # which raises an error where it is Kubernetes itself that does not answer
            trouble = f"the log of pod {name_of(pod)} is not to be had: {words(done)}"
            continue
        lines = done.stdout.splitlines(keepends=True)
        said = [line for line in lines if not line.startswith(f"{parcel.WORD} ")]
        log = _log(point, pod)
        log.write_text("".join(said), encoding="utf-8")
        try:
            parcel.unpack(parcel.find(done.stdout), point)
        except parcel.ParcelError as error:
            trouble = f"{error}; it ends: {cause(terminated(pod).get('exitCode', 1), log)}"
    return trouble
