"""Kubernetes as a scheduler: what became of a Job, the results of its pods, and an end of it in the cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from caraml.errors import SchedulerError
from caraml.machine.programs import words
from caraml.plan.site import Site
from caraml.schedulers.kubernetes import pod as in_pod
from caraml.schedulers.kubernetes.kubectl import NAME, PART, Kubectl, Object, read_job_id
from caraml.schedulers.kubernetes.state import FOLDER, KubernetesJob, end_s, has_run, judge, name_of, terminated
from caraml.schedulers.kubernetes.submit import CHECKOUT, IN_CLUSTER, JOB_ID, OBJECTS, read_request
from results.collect import collect, failed_result
from results.record.causes import cause
from results.record.records import RESULT_NAME, Record, RecordError, read_record, write_record

UNKNOWN = "UNKNOWN"


def check_access(site: Site) -> None:
    """Raise SchedulerError, soon, unless Kubernetes answers and takes Jobs."""
    kubectl = Kubectl(site.kubernetes_context, site.kubernetes_namespace)
    done = kubectl.try_to("auth", "can-i", "create", "jobs.batch")
    if done.stdout.strip() == "no":
        raise SchedulerError(
            "Kubernetes does not let you create Jobs here: is kubernetes_namespace in site.yaml right?"
        )
    if done.returncode:
        raise SchedulerError(f"Kubernetes does not answer: {words(done)}")


class Kubernetes:
    """One look: the Jobs and pods of this suite, in each namespace as they are at the first question about it."""

    title, key = "Kubernetes", "kubernetes"

    def __init__(self) -> None:
        self._seen: dict[Kubectl, _Seen] = {}

    def ping(self, job_id: str) -> None:
        """Raise SchedulerError, soon, unless the cluster of a job answers."""
        _, where = read_job_id(job_id)
        where("version")

    def job(self, job_id: str, folder: Path) -> KubernetesJob:
        """The Job that was submitted in a folder; raises SchedulerError when Kubernetes does not answer."""
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
        if Path(home).resolve() != folder.resolve():
            return job.ended(UNKNOWN, f"it is the job of another folder, {home}")
        now_s = time.time()
        return judge(job, found, seen.warning, seen.quiet_since_s(now_s), now_s)

    def bring_results(self, job: KubernetesJob, folder: Path) -> None:
        """The result of each run, as its pods have left it. A Job that was given up must not run later."""
        if job.state != UNKNOWN:
            _bring_results(job, folder, self.key)
            if not job.end:
                self.remove(folder)

    def remove(self, folder: Path) -> None:
        """Delete what was submitted; raises SchedulerError when Kubernetes does not answer."""
        marker = folder / OBJECTS / IN_CLUSTER
        if marker.exists():
            _, where = read_job_id((folder / JOB_ID).read_text().strip())
            where("delete", "--ignore-not-found", "--wait=false", "-f", str(folder / OBJECTS))
            marker.unlink()


@dataclass(frozen=True)
class _Seen:
    """One namespace at one moment."""

    where: Kubectl
    jobs: Mapping[str, Object]
    pods: Sequence[Object]
    version: str

    def quiet_since_s(self, now_s: float) -> float:
        if any(pod["status"].get("phase") == "Running" for pod in self.pods):
            return now_s
        return max(map(end_s, self.pods), default=0.0)

    def warning(self, names: Sequence[str]) -> str:
        """The last warning about any of these, empty where there is none."""
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


def _result(job: KubernetesJob, run: Path, point: Path, nodes: int, trouble: str) -> Record:
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
            return failed_result(run, 1, f"all nodes ended well, and left no record: {error}")
    if not job.ended_by_itself:
        return failed_result(run, 1, f"Kubernetes ended the {job}")
    return failed_result(run, 1, trouble or _unheard(job, run, point))


def _exit_code(run: Path, node: int) -> int | None:
    """How one node's part of a run ended; None where that is not known."""
    try:
        return int((run / f"{in_pod.EXIT_CODE}{node}").read_text())
    except (OSError, ValueError):
        return None


def _unheard(job: KubernetesJob, run: Path, point: Path) -> str:
    """Why nothing is known of a run in pods that ended by themselves."""
    if run != point and any(point.glob(f"{in_pod.EXIT_CODE}*")):
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
            trouble = f"the log of pod {name_of(pod)} is unavailable: {words(done)}"
            continue
        lines = done.stdout.splitlines(keepends=True)
        said = [line for line in lines if not line.startswith(f"{in_pod.WORD} ")]
        log = _log(point, pod)
        log.write_text("".join(said), encoding="utf-8")
        try:
            in_pod.unpack(in_pod.parcel_of(done.stdout), point)
        except in_pod.ParcelError as error:
            trouble = f"{error}; it ends: {cause(terminated(pod).get('exitCode', 1), log)}"
    return trouble
