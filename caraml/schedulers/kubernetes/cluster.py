"""Kubernetes as a scheduler: check access, find the state of a Job, write the results of its pods, and remove it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

from benchmarks.common.node.programs import words
from caraml.errors import SchedulerError
from caraml.plan.site import Site
from caraml.schedulers import Job
from caraml.schedulers.kubernetes.kubectl import NAME, PART, Kubectl, Object, read_job_id
from caraml.schedulers.kubernetes.state import FOLDER, KubernetesJob, Pod, judge
from caraml.schedulers.kubernetes.submit import JOB_ID, OBJECTS, access_modes, check_claim, delete
from record.model import Json
from results.collect import JOB_ERRORS, collect, failed_result
from results.find.folders import runs_of
from results.find.records import RESULT_NAME, RecordError, read_record, write_record
from results.join.causes import cause

TITLE, KEY = "Kubernetes", "kubernetes"
Look = tuple[dict[str, Object], list[Pod], str]


def check_access(site: Site) -> str:
    """Return the access modes of the site's claim; raises an error unless Kubernetes answers and takes Jobs on it."""
    check_claim(site, {})
    kubectl = Kubectl(site.kubernetes_context, site.kubernetes_namespace)
    done = kubectl.try_to("auth", "can-i", "create", "jobs.batch")
    if done.stdout.strip() == "no":
        raise SchedulerError("Kubernetes does not let you create Jobs here: check kubernetes_namespace in site.yaml")
    if done.returncode:
        raise SchedulerError(f"Kubernetes does not answer: {words(done)}")
    return access_modes(kubectl, site)


def ping(job_id: str) -> None:
    """Raise SchedulerError, within seconds, unless the cluster of a job answers; empty: the current one."""
    _, where = read_job_id(job_id or ";;")
    where("version")


def jobs(submitted: Mapping[Path, str]) -> dict[Path, Job]:
    """Return the Jobs that were submitted in folders; raises SchedulerError if Kubernetes does not answer.

    The suite's Jobs and pods of a namespace are read once.
    """
    look = cache(_look)
    return {folder: _job(look, job_id, folder) for folder, job_id in submitted.items()}


def _job(look: Callable[[Kubectl], Look], job_id: str, folder: Path) -> KubernetesJob:
    name, where = read_job_id(job_id)
    (jobs, pods, version), now_s = look(where), time.time()
    own = [pod for pod in pods if pod.metadata["labels"].get(NAME) == name]
    job = KubernetesJob(name, where=where, version=version, pods=own)
    if name not in jobs:
        return job.ended("Deleted", "Kubernetes does not know it: was it deleted by hand?")
    home = jobs[name]["metadata"]["annotations"][FOLDER]
    other = Path(home, JOB_ID)  # of a copied folder; that of a renamed one is elsewhere, or has another job
    if other.exists() and other.read_text() == job_id and not other.parent.samefile(folder):
        return job.ended("UNKNOWN", f"it is the job of another folder, {home}")
    is_quiet = not any(pod.phase == "Running" for pod in pods)
    quiet_since_s = max((pod.end_s for pod in pods), default=0.0) if is_quiet else now_s
    return judge(job, jobs[name], partial(_warning, where), quiet_since_s, now_s)


def bring_results(job: KubernetesJob, folder: Path) -> None:
    """Write the result of each run whose nodes have ended; a Job that we gave up is deleted, so that it cannot run.

    A run without an exit code stays unfinished, for the caller to report how the Job ended.
    """
    if job.state == "UNKNOWN":
        return
    for run in runs_of(folder):
        planned = {**read_record(run / RESULT_NAME), KEY: entry(job)}
        write_record(planned, run / RESULT_NAME)  # from which the result takes the image's digest
        write_record(_result(run, planned), run / RESULT_NAME)
    if not job.end:
        remove(folder)


def entry(job: KubernetesJob) -> Json:
    """Return a Job's entry in a result, with the node, the pulled image and the exit code of each pod."""
    digests = {pod.container.get("imageID", "").rpartition("@")[2] for pod in job.pods} - {""}
    pods = [
        {
            "pod": pod.name,
            "node": pod.node,
            "image": pod.container.get("image"),
            "exit_code": pod.end.get("exitCode"),
            "reason": pod.end.get("reason"),
        }
        for pod in job.pods
    ]
    where = {**job.where._asdict(), "cluster_version": job.version, "image_digest": " ".join(sorted(digests))}
    return {**{key: getattr(job, key) for key in ("job_id", "state", "reason", "start", "end")}, **where, "pods": pods}


def remove(folder: Path) -> None:
    """Delete the submitted objects; raises SchedulerError if Kubernetes does not answer."""
    if (folder / OBJECTS).exists() and (folder / JOB_ID).exists():
        _, where = read_job_id((folder / JOB_ID).read_text())
        delete(where, folder / OBJECTS)


def _look(where: Kubectl) -> Look:
    """Return the Jobs by name and the pods of a namespace, and the cluster's version."""
    found = where.json("get", "jobs.batch,pods", "-l", f"{PART}=caraml")["items"]
    jobs = {item["metadata"]["name"]: item for item in found if item["kind"] == "Job"}
    pods = sorted((Pod(item) for item in found if item["kind"] == "Pod"), key=lambda pod: pod.name)
    return jobs, pods, where.json("version")["serverVersion"]["gitVersion"]


def _warning(where: Kubectl, name: str) -> str:
    """Return the last warning about the object of a name; empty without one."""
    events = where.json("get", "events", "--field-selector", f"type=Warning,involvedObject.name={name}")["items"]
    events.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    return f"{events[-1]['reason']}: {events[-1]['message']}" if events else ""


def _result(run: Path, planned: Json) -> Json:
    """Return the result of a run, from the exit codes that job.sh has written on its nodes."""
    nodes = range(planned["layout"]["num_nodes"])
    files = {node: file for node in nodes if (file := run / f"exit_code.{node}").exists()}
    codes = {node: int(file.read_text()) for node, file in files.items() if file.stat().st_size}
    for node, code in codes.items():
        if code:
            return failed_result(run, code, cause(code, run / (f"job.{node}.err" if node else JOB_ERRORS)))
    if len(codes) < len(nodes):
        return planned
    try:
        return collect(run)
    except RecordError as error:
        return failed_result(run, 1, f"all nodes exited with 0 and wrote no usable record: {error}")
