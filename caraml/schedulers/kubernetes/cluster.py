"""Kubernetes as a scheduler: find the state of a Job, write the results of its pods, and remove it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from caraml.errors import SchedulerError
from caraml.plan.site import Site
from caraml.programs import words
from caraml.schedulers.job import Job
from caraml.schedulers.kubernetes import pod as in_pod
from caraml.schedulers.kubernetes.kubectl import NAME, PART, Kubectl, Object, read_job_id
from caraml.schedulers.kubernetes.state import FOLDER, KubernetesJob, end_s, has_run, judge, name_of, terminated
from caraml.schedulers.kubernetes.submit import CHECKOUT, IN_CLUSTER, JOB_ID, OBJECTS, read_request
from results.collect import collect, failed_result
from results.record.causes import cause
from results.record.model import Json
from results.record.records import RESULT_NAME, RecordError, read_record, write_record

UNKNOWN = "UNKNOWN"


def check_access(site: Site) -> None:
    """Raise SchedulerError, within seconds, unless Kubernetes answers and takes Jobs."""
    kubectl = Kubectl(site.kubernetes_context, site.kubernetes_namespace)
    done = kubectl.try_to("auth", "can-i", "create", "jobs.batch")
    if done.stdout.strip() == "no":
        raise SchedulerError("Kubernetes does not let you create Jobs here: check kubernetes_namespace in site.yaml")
    if done.returncode:
        raise SchedulerError(f"Kubernetes does not answer: {words(done)}")


class Kubernetes:
    """Kubernetes during one look: the suite's Jobs and pods of a namespace are read once."""

    title, key = "Kubernetes", "kubernetes"

    def __init__(self) -> None:
        self._seen: dict[Kubectl, _Seen] = {}

    def ping(self, job_id: str) -> None:
        """Raise SchedulerError, within seconds, unless the cluster of a job answers."""
        _, where = read_job_id(job_id)
        where("version")

    def jobs(self, submitted: Mapping[Path, str]) -> dict[Path, Job]:
        """Return the Jobs that were submitted in folders; raises SchedulerError if Kubernetes does not answer."""
        return {folder: self._job(job_id, folder) for folder, job_id in submitted.items()}

    def _job(self, job_id: str, folder: Path) -> KubernetesJob:
        name, where = read_job_id(job_id)
        if where not in self._seen:
            self._seen[where] = _look(where)
        seen = self._seen[where]
        pods = sorted((pod for pod in seen.pods if pod["metadata"]["labels"].get(NAME) == name), key=name_of)
        job = KubernetesJob(name, where=where, version=seen.version, pods=pods)
        if name not in seen.jobs:
            return job.ended("Deleted", "Kubernetes no longer knows it: was it deleted by hand?")
        found = seen.jobs[name]
        home = found["metadata"].get("annotations", {}).get(FOLDER, str(folder))
        other = Path(home, JOB_ID)  # of a copied folder; that of a renamed one is elsewhere, or has another job
        if other.exists() and other.read_text() == job_id and not other.parent.samefile(folder):
            return job.ended(UNKNOWN, f"it is the job of another folder, {home}")
        now_s = time.time()
        return judge(job, found, seen.warning, seen.quiet_since_s(now_s), now_s)

    def bring_results(self, job: KubernetesJob, folder: Path) -> None:
        """Write the result of each run from its pods; a Job that we gave up is deleted, so that it cannot run later."""
        if job.state != UNKNOWN:
            _bring_results(job, folder, self.key)
            if not job.end:
                self.remove(folder)
            if job.state == "SidecarRunning":
                print(f"caraml: the {job}; its job was deleted, the results are kept", file=sys.stderr)

    def remove(self, folder: Path) -> None:
        """Delete the submitted objects; raises SchedulerError if Kubernetes does not answer."""
        marker = folder / OBJECTS / IN_CLUSTER
        if marker.exists():
            _, where = read_job_id((folder / JOB_ID).read_text().strip())
            where("delete", "--ignore-not-found", "--wait=false", "-f", str(folder / OBJECTS))
            marker.unlink()


@dataclass(frozen=True)
class _Seen:
    """Jobs and pods of one namespace at one moment."""

    where: Kubectl
    jobs: Mapping[str, Object]
    pods: Sequence[Object]
    version: str

    def quiet_since_s(self, now_s: float) -> float:
        """Return since when no pod has run, in seconds of the wall clock."""
        if any(pod["status"].get("phase") == "Running" for pod in self.pods):
            return now_s
        return max(map(end_s, self.pods), default=0.0)

    def warning(self, names: Sequence[str]) -> str:
        """Return the last warning about any of these objects; empty without one."""
        events = self.where.json("get", "events")["items"]
        found = [one for one in events if one.get("type") == "Warning" and one["involvedObject"].get("name") in names]
        found.sort(key=lambda one: str(one.get("lastTimestamp") or one.get("eventTime") or ""))
        return f"{found[-1]['reason']}: {found[-1]['message']}" if found else ""


def _look(where: Kubectl) -> _Seen:
    found = where.json("get", "jobs.batch,pods", "-l", f"{PART}=caraml")["items"]
    version = where.json("version").get("serverVersion", {}).get("gitVersion", "")
    jobs = {one["metadata"]["name"]: one for one in found if one["kind"] == "Job"}
    return _Seen(where, jobs, [one for one in found if one["kind"] == "Pod"], version)


def _bring_results(job: KubernetesJob, point: Path, key: str) -> None:
    """Write the result of each run of a point, with what is known of the Job under `key`."""
    request = read_request(point)
    trouble = _bring_files(job, point) if (point / OBJECTS / CHECKOUT).exists() else ""
    for run in in_pod.folders(point, request.runs):
        known = {key: job.to_record()}
        write_record({**read_record(run / RESULT_NAME), **known}, run / RESULT_NAME)
        write_record({**_result(job, run, point, request.nodes, trouble), **known}, run / RESULT_NAME)


def _result(job: KubernetesJob, run: Path, point: Path, nodes: int, trouble: str) -> Json:
    codes = [_exit_code(run, node) for node in range(nodes)]
    bad = next((node for node, code in enumerate(codes) if code), None)
    if bad is not None:
        _, err_name = in_pod.output_names(bad)
        why = "" if job.ended_by_itself else f"Kubernetes ended the {job}; "
        return failed_result(run, codes[bad] or 1, why + cause(codes[bad] or 1, run / err_name))
    if None not in codes:
        try:
            return collect(run)
        except RecordError as error:
            return failed_result(run, 1, f"all nodes exited with 0 and wrote no usable record: {error}")
    if not job.ended_by_itself:
        return failed_result(run, 1, f"Kubernetes ended the {job}")
    return failed_result(run, 1, trouble or _without_end(job, run, point))


def _exit_code(run: Path, node: int) -> int | None:
    """Return the exit code of one node's part of a run; None if it is not known."""
    try:
        return int((run / f"{in_pod.EXIT_CODE}{node}").read_text())
    except (OSError, ValueError):
        return None


def _without_end(job: KubernetesJob, run: Path, point: Path) -> str:
    """Return why the end of a run is unknown although its pods ended by themselves."""
    if run != point and any(point.glob(f"{in_pod.EXIT_CODE}*")):
        return "it was not started, as a run before it failed"
    for pod in job.pods:
        if (log := _log(point, pod)).exists():
            return f"pod {name_of(pod)} did not start the run: {cause(1, log)}"
    return f"Kubernetes ended the {job}, and no pod has recorded how the run ended"


def _log(point: Path, pod: Object) -> Path:
    return point / OBJECTS / f"{name_of(pod)}.log"


def _bring_files(job: KubernetesJob, point: Path) -> str:
    """Fetch the logs of all pods, with the files of the runs in them; return what is missing."""
    trouble = ""
    for pod in filter(has_run, job.pods):
        done = job.where.try_to("logs", name_of(pod))
        if done.returncode:
            job.where("version")  # raises SchedulerError if Kubernetes does not answer at all
            trouble = f"the log of pod {name_of(pod)} is unavailable: {words(done)}"
            continue
        lines = done.stdout.splitlines(keepends=True)
        output = [line for line in lines if not line.startswith(f"{in_pod.WORD} ")]
        log = _log(point, pod)
        log.write_text("".join(output), encoding="utf-8")
        try:
            in_pod.unpack(in_pod.parcel_of(done.stdout), point)
        except in_pod.ParcelError as error:
            trouble = f"{error}; it ends: {cause(terminated(pod).get('exitCode', 1), log)}"
    return trouble
