"""Kubernetes as a scheduler: what became of a Job, the results of its pods, and an end of it in the cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from caraml.errors import SchedulerError
from caraml.kubernetes.harvest import bring_results
from caraml.kubernetes.kubectl import Kubectl
from caraml.kubernetes.objects import FOLDER, NAME, PART, Object
from caraml.kubernetes.state import KubernetesJob, end_s, judge, name_of
from caraml.kubernetes.submission import IN_CLUSTER, JOB_ID, OBJECTS, read_job_id
from caraml.programs import words
from caraml.site import Site

UNKNOWN = "UNKNOWN"


def check_access(site: Site) -> None:
    """Raise SchedulerError, soon, unless Kubernetes answers and takes Jobs."""
    kubectl = Kubectl(site["kubernetes_context"], site["kubernetes_namespace"])
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
        job = KubernetesJob(name, where, version=seen.version, pods=pods)
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
            bring_results(job, folder, self.key)
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
