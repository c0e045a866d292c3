"""State of a Job and its pods: waiting and for what, running, or ended and why. Sends no request.

Sources: the API reference of Kubernetes (JobStatus, PodStatus, ContainerStatus) and its guide on a pod's life cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from caraml.schedulers import Job
from caraml.schedulers.kubernetes.kubectl import Kubectl, Object

# From jube/include/pod.yaml.in: the container that trains, and the annotations of a Job.
CONTAINER, FOLDER, PATIENCE = "train", "caraml/folder", "caraml/patience-s"
START_LIMIT_S = 600.0  # for creating a pod, its image and its volumes
END_LIMIT_S = 60.0  # for a sidecar to end after training, and for a pod to end after its grace period
TIME_LIMIT = "state another limit by spec: {activeDeadlineSeconds: SECONDS} in the file kubernetes_pod of site.yaml"
STARTS = {None, "ContainerCreating", "PodInitializing"}  # reasons of a container that makes progress
# Reasons of a container or a Job that carry less information than the exit code.
ORDINARY = {None, "", "Error", "Completed", "BackoffLimitExceeded"}


class Pod:
    """A pod at one moment, and of its containers the one that trains; a missing part is empty."""

    def __init__(self, found: Object) -> None:
        self.metadata, self.spec, self.status = found["metadata"], found["spec"], found["status"]
        self.name, self.node = str(self.metadata["name"]), self.spec.get("nodeName", "")
        self.phase = self.status.get("phase", "Pending")
        statuses = self.status.get("containerStatuses") or []
        self.container: Object = next((one for one in statuses if one["name"] == CONTAINER), {})
        self.init_containers = self.status.get("initContainerStatuses") or []
        self.end = self.container.get("state", {}).get("terminated", {})
        self.end_s = seconds(self.end.get("finishedAt"))
        self.conditions = {(one["type"], one["status"]): one for one in self.status.get("conditions") or []}

    def is_lost(self, now_s: float) -> bool:
        """Return whether its node has been silent for so long that the pod's end will stay unknown."""
        deletion_s = seconds(self.metadata.get("deletionTimestamp"))
        is_late = bool(deletion_s) and not self.end and now_s > deletion_s + END_LIMIT_S
        return is_late or self.phase == "Unknown" or self.status.get("reason") == "NodeLost"

    def waits_for(self, warning: Callable[[str], str]) -> tuple[str, str]:
        """Return the reason why it does not start, and the details; empty while it makes progress."""
        if condition := self.conditions.get(("PodScheduled", "False")):
            return condition.get("reason", "Unschedulable"), condition.get("message", "")
        for container in (*self.init_containers, self.container):
            waiting = container.get("state", {}).get("waiting", {})
            if waiting.get("reason") not in STARTS:
                return waiting["reason"], waiting.get("message", "")
        why = warning(self.name)
        return ("ContainerCreating", why) if why and not why.startswith("FailedScheduling") else ("", "")

    def ended_by(self) -> tuple[str, str]:
        """Return what Kubernetes ended it for, and the details; empty if its own program ended it."""
        for container in [] if self.end else self.init_containers:
            failed = container.get("state", {}).get("terminated", {})
            if code := failed.get("exitCode"):
                why = failed.get("message") or failed.get("reason")
                return "InitContainerFailed", f"init container {container['name']} exited with {code}: {why}"
        for source in (self.status, self.conditions.get(("DisruptionTarget", "True"), {}), self.end):
            if source.get("reason") not in ORDINARY:
                return source["reason"], source.get("message") or f"exit code {self.end.get('exitCode')}"
        return "", ""


@dataclass(frozen=True)
class KubernetesJob(Job):
    """A Job of Kubernetes, with Kubernetes' own name for its state if it has one."""

    where: Kubectl = Kubectl()
    end: str = ""
    version: str = ""  # of the cluster
    pods: Sequence[Pod] = field(default=(), repr=False)

    def ended(self, state: str, reason: str) -> KubernetesJob:
        """Return the job as one that Kubernetes has ended, or will not continue."""
        to_do = TIME_LIMIT if state == "DeadlineExceeded" else ""
        return replace(self, state=state, reason=reason, has_ended=True, ended_by_itself=False, to_do=to_do)


def judge(
    job: KubernetesJob, found: Object, warning: Callable[[str], str], quiet_since_s: float, now_s: float
) -> KubernetesJob:
    """Return a Job with its state, from its object `found` in Kubernetes; `job` has its pods.

    `warning` returns the last warning about an object. No pod of ours has run since `quiet_since_s`: while one runs,
    the others may wait for its node. Both times are seconds of the wall clock.
    """
    metadata, status, pods = found["metadata"], found.get("status", {}), job.pods
    job = replace(job, start=status.get("startTime", ""))
    conditions = {one["type"]: one for one in status.get("conditions") or [] if one["status"] == "True"}
    if end := conditions.get("Complete") or conditions.get("Failed"):
        job = replace(job, state=end["type"], end=end["lastTransitionTime"], has_ended=True, ended_by_itself=True)
        return job if job.state == "Complete" else _failed(job, end)
    if found["spec"].get("suspend"):
        why = warning(job.job_id) or "its queue has not admitted it"
        return replace(job, state="Suspended", reason=why, is_queued=True)
    if lost := next((pod for pod in pods if pod.is_lost(now_s)), None):
        return job.ended("NodeLost", f"node {lost.node} no longer answers for pod {lost.name}")
    if pods and all(pod.end and now_s > pod.end_s + END_LIMIT_S for pod in pods):
        return job.ended("SidecarRunning", "another container outlives training and would hold the node")
    begun_s = max(seconds(job.start or metadata["creationTimestamp"]), quiet_since_s)
    patience_s = float(metadata["annotations"][PATIENCE])
    waiting = [pod for pod in pods if pod.phase == "Pending"]
    reasons = [(*pod.waits_for(warning), seconds(pod.metadata["creationTimestamp"])) for pod in waiting]
    if not pods and (why := warning(job.job_id)):
        reasons = [("FailedCreate", why, begun_s)]
    for state, why, since_s in reasons:
        if state == "Unschedulable":
            since_s, limit_s = begun_s, patience_s
        else:
            limit_s = min(patience_s, START_LIMIT_S)
        if state and now_s - since_s > limit_s:
            return job.ended(state, why)
        if state:
            return replace(job, state=state, reason=f"{state}: {why}", is_queued=True)
    is_queued = bool(waiting) or not pods
    return replace(job, state="Pending" if is_queued else "Running", is_queued=is_queued)


def _failed(job: KubernetesJob, condition: Object) -> KubernetesJob:
    """Return a failed Job with the reason: first what Kubernetes did to a pod, then what a program did."""
    reason, message = condition.get("reason", ""), condition.get("message", "")
    if reason not in ORDINARY:
        return job.ended(reason, message)
    for pod in job.pods:
        state, why = pod.ended_by()
        if state:
            return job.ended(state, f"pod {pod.name}: {why}")
    failed = next((pod for pod in job.pods if pod.end.get("exitCode")), None)
    if not failed:
        return job.ended("Failed", f"{reason}: {message}; its pods are gone: was one deleted?")
    # Of a pod that failed before its first run, the message is the end of its log.
    lines = (failed.end.get("message") or "").strip().splitlines()
    why = ": ".join([f"pod {failed.name} exited with {failed.end['exitCode']}", *lines[-1:]])
    return replace(job, reason=why)


def seconds(moment: str | None) -> float:
    """Return a time of Kubernetes in seconds of the wall clock; 0 without one."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() if moment else 0.0
