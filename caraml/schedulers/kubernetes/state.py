"""State of a Job and its pods: waiting and for what, running, or ended and why. Sends no request.

Sources: the API reference of Kubernetes (JobStatus, PodStatus, ContainerStatus) and its guide on a pod's life cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from caraml.schedulers.job import Job
from caraml.schedulers.kubernetes.kubectl import Kubectl, Object

# From jube/include/pod.yaml.in: the container that trains, and the annotations of a Job.
CONTAINER, FOLDER, PATIENCE = "train", "caraml/folder", "caraml/patience-s"
# Reasons why a container does not start; those of NEVER are final.
NOT_STARTED = {
    *("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "InvalidImageName"),
    *("ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
}
NEVER = {"InvalidImageName", "ErrImageNeverPull"}
START_LIMIT_S = 600.0  # for creating a pod, its image and its volumes
SIDECAR_S = 60.0  # for a sidecar to end after the container that trains
LOST_S = 60.0  # after its grace period, a pod that has not ended is on a lost node
TIME_LIMIT = "state another limit by spec: {activeDeadlineSeconds: SECONDS} in the file kubernetes_pod of site.yaml"
# Reasons of a container or a Job that carry less information than the exit code.
ORDINARY = {"", "Error", "Completed", "BackoffLimitExceeded"}


@dataclass(frozen=True)
class KubernetesJob(Job):
    """A Job of Kubernetes, with Kubernetes' own name for its state if it has one."""

    where: Kubectl = Kubectl()
    end: str = ""
    version: str = ""  # of the cluster
    pods: Sequence[Object] = field(default=(), repr=False)

    def ended(self, state: str, reason: str) -> KubernetesJob:
        """Return the job as one that Kubernetes has ended, or will not continue."""
        to_do = TIME_LIMIT if state == "DeadlineExceeded" else ""
        return replace(self, state=state, reason=reason, has_ended=True, to_do=to_do)

    def to_record(self) -> dict[str, Any]:
        """Return the job's entry in a result, with the node and the image of each pod."""
        pods = [describe(pod) for pod in self.pods]
        digests = {pod["image_id"].rpartition("@")[2] for pod in pods} - {""}
        return {
            "job_id": self.job_id,
            "namespace": self.where.namespace,
            "context": self.where.context,
            "cluster_version": self.version,
            "state": self.state,
            "reason": self.reason,
            "start": self.start,
            "end": self.end,
            "image_digest": " ".join(sorted(digests)),
            "pods": pods,
        }


def describe(pod: Object) -> dict[str, Any]:
    """Return a pod's node, its pulled image and its exit code and reason; a missing text is empty."""
    container = container_of(pod)
    ended = terminated(pod)
    return {
        "pod": name_of(pod),
        "node": pod["spec"].get("nodeName", ""),
        "image": container.get("image", ""),
        "image_id": container.get("imageID", ""),
        "exit_code": ended.get("exitCode"),
        "reason": pod["status"].get("reason") or ended.get("reason", ""),
    }


def judge(
    job: KubernetesJob, found: Object, warning: Callable[[Sequence[str]], str], quiet_since_s: float, now_s: float
) -> KubernetesJob:
    """Return a Job with its state, from its object `found` in Kubernetes; `job` has its pods.

    `warning` returns the last warning about any of some names. No pod of ours has run since `quiet_since_s`: while one
    runs, the others may wait for its node. Both times are seconds of the wall clock.
    """
    status = found.get("status", {})
    conditions = {one["type"]: one for one in status.get("conditions") or [] if one["status"] == "True"}
    job = replace(job, start=status.get("startTime", ""))
    if end := conditions.get("Complete"):
        moment = end.get("lastTransitionTime", "")
        return replace(job, state="Complete", end=moment, has_ended=True, ended_by_itself=True)
    if end := conditions.get("Failed"):
        return _failed(job, end)
    if found["spec"].get("suspend"):
        why = warning([job.job_id]) or "its queue has not admitted it"
        return replace(job, state="Suspended", reason=why, is_queued=True)
    for pod in job.pods:
        if _is_lost(pod, now_s):
            why = f"node {pod['spec'].get('nodeName', '')} no longer answers for pod {name_of(pod)}"
            return job.ended("NodeLost", why)
    if outliving := _outliving(job.pods, now_s):
        return job.ended("SidecarRunning", outliving)
    begun_s = max(_seconds(job.start or found["metadata"]["creationTimestamp"]), quiet_since_s)
    patience_s = float(found["metadata"].get("annotations", {}).get(PATIENCE, START_LIMIT_S))
    start_limit_s = min(patience_s, START_LIMIT_S)
    if not job.pods:
        why = warning([job.job_id])
        if why and now_s - begun_s > start_limit_s:
            return job.ended("FailedCreate", why)
        return replace(job, state="Pending", reason=why, is_queued=True)
    waiting = [pod for pod in job.pods if pod["status"].get("phase", "Pending") == "Pending"]
    for pod in waiting:
        state, why = _waits_for(pod, warning)
        if not state:
            continue
        waited_s = now_s - (begun_s if state == "Unschedulable" else _seconds(pod["metadata"]["creationTimestamp"]))
        limit_s = 0.0 if state in NEVER else patience_s if state == "Unschedulable" else start_limit_s
        if waited_s > limit_s:
            return job.ended(state, why)
        return replace(job, state=state, reason=f"{state}: {why}" if why else state, is_queued=True)
    limits_s = [
        _seconds(pod["status"]["startTime"]) + pod["spec"].get("activeDeadlineSeconds", 0)
        for pod in job.pods
        if pod["status"].get("startTime")
    ]
    latest = datetime.fromtimestamp(max(limits_s), timezone.utc).isoformat() if limits_s else ""
    return replace(job, state="Pending" if waiting else "Running", is_queued=bool(waiting), latest_end=latest)


def _waits_for(pod: Object, warning: Callable[[Sequence[str]], str]) -> tuple[str, str]:
    """Return the reason why a pod does not start, and the details; empty while it makes progress."""
    for condition in pod["status"].get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return condition.get("reason", "Unschedulable"), condition.get("message", "")
    for container in (*_init_containers(pod), container_of(pod)):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") in NOT_STARTED:
            return waiting["reason"], waiting.get("message", "")
    why = warning([name_of(pod)])
    return ("ContainerCreating", why) if why and not why.startswith("FailedScheduling") else ("", "")


def _failed(job: KubernetesJob, condition: Object) -> KubernetesJob:
    """Return a failed Job with the reason: first what Kubernetes did to a pod, then what a program did."""
    job = replace(job, end=condition.get("lastTransitionTime", ""))
    reason, message = condition.get("reason", ""), condition.get("message", "")
    if reason not in ORDINARY:
        return job.ended(reason, message)
    for pod in job.pods:
        state, why = _ended_by(pod)
        if state:
            return job.ended(state, f"pod {name_of(pod)}{': ' if why else ''}{why}")
    if not any(map(terminated, job.pods)):
        return job.ended("Failed", f"{reason}: {message}; its pods are gone: was one deleted?")
    return replace(job, state="Failed", reason=f"{reason}: {message}", has_ended=True, ended_by_itself=True)


def _ended_by(pod: Object) -> tuple[str, str]:
    """Return the reason and the message of a pod's end; empty if its own program ended it."""
    status, ended = pod["status"], terminated(pod)
    for one in [] if ended else _init_containers(pod):  # afterwards, Kubernetes itself ends a sidecar among them
        failed = one.get("state", {}).get("terminated", {})
        if code := failed.get("exitCode"):
            why = failed.get("message") or failed.get("reason") or "no reason given"
            return "InitContainerFailed", f"init container {one['name']} exited with {code}: {why}"
    if status.get("reason", "") not in ORDINARY:
        return status["reason"], status.get("message", "")
    for condition in status.get("conditions") or []:
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            return condition.get("reason", "DisruptionTarget"), condition.get("message", "")
    if ended.get("reason", "") not in ORDINARY:
        return ended["reason"], ended.get("message") or f"exit code {ended.get('exitCode')}"
    return "", ""


def _init_containers(pod: Object) -> Sequence[Object]:
    return pod["status"].get("initContainerStatuses") or []


def _outliving(pods: Sequence[Object], now_s: float) -> str:
    """Return which container still runs in a pod although training has ended in all pods; empty without one."""
    if not all(terminated(pod) and now_s > end_s(pod) + SIDECAR_S for pod in pods):
        return ""
    running = [
        f"container {one['name']} of pod {name_of(pod)}"
        for pod in pods
        for one in pod["status"].get("containerStatuses") or []
        if one.get("state", {}).get("running") is not None
    ]
    return f"{running[0]} outlives training and would hold the node: end it with training" if running else ""


def _is_lost(pod: Object, now_s: float) -> bool:
    """Return whether the node of a pod has been silent for so long that the pod's end will stay unknown."""
    if pod["status"].get("phase") == "Unknown" or pod["status"].get("reason") == "NodeLost":
        return True
    deletion = pod["metadata"].get("deletionTimestamp")
    return bool(deletion) and not terminated(pod) and now_s > _seconds(deletion) + LOST_S


def name_of(pod: Object) -> str:
    """Return a pod's name."""
    return str(pod["metadata"]["name"])


def container_of(pod: Object) -> Object:
    """Return the status of the container that trains; empty before it exists."""
    statuses = pod["status"].get("containerStatuses") or []
    return next((one for one in statuses if one.get("name") == CONTAINER), {})


def terminated(pod: Object) -> Object:
    """Return the end of the container that trains; empty while it has not ended."""
    found: Object = container_of(pod).get("state", {}).get("terminated", {})
    return found


def has_run(pod: Object) -> bool:
    """Return whether the container that trains has started, so that there is a log."""
    return bool(terminated(pod) or container_of(pod).get("state", {}).get("running"))


def end_s(pod: Object) -> float:
    """Return when the container that trains ended, in seconds of the wall clock; 0 if it has not."""
    return _seconds(end) if (end := terminated(pod).get("finishedAt")) else 0.0


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
