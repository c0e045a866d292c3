"""State of a job, from the answers of Kubernetes about a Job and its pods."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from caraml.schedulers.kubernetes import cluster
from caraml.schedulers.kubernetes.kubectl import Kubectl
from caraml.schedulers.kubernetes.state import FOLDER, START_LIMIT_S, TIME_LIMIT, KubernetesJob, Pod, judge

# By a Kubernetes 1.20, in tests/real_kubernetes.py; without fields that nobody reads.
ANSWERS = json.loads(Path(__file__).with_name("kubernetes_answers.json").read_text())
BEGAN, BEGAN_S = "2026-01-01T00:00:00Z", 1767225600.0
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def job(*condition, **spec):
    status = {"startTime": BEGAN}
    if condition:
        kind, reason = condition
        found = {"type": kind, "status": "True", "reason": reason, "message": "words", "lastTransitionTime": BEGAN}
        status["conditions"] = [{"type": "Suspended", "status": "False"}, found]
    return {
        "metadata": {"creationTimestamp": BEGAN, "annotations": {"caraml/patience-s": "1800"}},
        "spec": spec,
        "status": status,
    }


def pod(phase="Running", name="p-0", conditions=(SCHEDULED,), metadata=None, state=None, **more):
    statuses = [{"name": "other", "state": {}}, {"name": "train", "imageID": "r/i@sha256:1", "state": state or {}}]
    status = {"phase": phase, "conditions": [*conditions], "containerStatuses": statuses, **more}
    found = {"name": name, "creationTimestamp": BEGAN, **(metadata or {})}
    return {"metadata": found, "spec": {"nodeName": "n0"}, "status": status}


def ended(code, reason="Error", phase="Failed", message="", **more):
    end = {"exitCode": code, "reason": reason, "finishedAt": BEGAN, "message": message}
    return pod(phase, state={"terminated": end}, **more)


def waiting(reason, **more):
    return pod("Pending", state={"waiting": {"reason": reason, "message": "words"}}, **more)


def judged(found, *pods, after_s=1.0, warning="", quiet_since_s=0.0):
    about = KubernetesJob("j", pods=[*map(Pod, pods)])
    return judge(about, found, lambda name: warning, quiet_since_s, BEGAN_S + after_s)


FAILED = job("Failed", "BackoffLimitExceeded")
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "taint"}
INIT = {"initContainerStatuses": [{"name": "fetch", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}


@pytest.mark.parametrize(
    ("found", "pods", "state", "by_itself", "words"),
    [
        (job("Complete", ""), [ended(0, "Completed", "Succeeded")], "Complete", True, ""),
        (job("Complete", ""), [], "Complete", True, ""),
        (FAILED, [ended(143)], "Failed", True, "pod p-0 exited with 143"),
        (FAILED, [], "Failed", False, "was one deleted?"),
        (job("Failed", "DeadlineExceeded"), [], "DeadlineExceeded", False, "words"),
        (job("Failed", "PodFailurePolicy"), [ended(1)], "PodFailurePolicy", False, "words"),
        (FAILED, [ended(1), ended(137, "OOMKilled", name="p-1")], "OOMKilled", False, "pod p-1: exit code 137"),
        (FAILED, [ended(128, "ContainerCannotRun")], "ContainerCannotRun", False, "exit code 128"),
        (FAILED, [ended(1, **INIT)], "Failed", True, ""),  # a sidecar, which Kubernetes ended afterwards
        (FAILED, [ended(143, conditions=[DISRUPTED])], "DeletionByTaintManager", False, "pod p-0: taint"),
        *(
            (FAILED, [ended(143) | {"status": {"reason": reason, "message": "low"}}], reason, False, "pod p-0: low")
            for reason in ("Preempting", "NodeShutdown")
        ),
    ],
)
def test_the_end_of_a_job_has_the_reason_of_kubernetes_before_that_of_a_program(found, pods, state, by_itself, words):
    end = judged(found, *pods)
    assert (end.state, end.has_ended, end.ended_by_itself, end.end) == (state, True, by_itself, BEGAN)
    assert words in end.reason
    assert (TIME_LIMIT in str(end)) == (state == "DeadlineExceeded")


LATE = START_LIMIT_S + 1
PULL = {"initContainerStatuses": [{"name": "fetch", "state": {"waiting": {"reason": "ErrImagePull"}}}]}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
ON_ITS_WAY = pod("Pending", state={"waiting": {"reason": "ContainerCreating"}})
NO_NODE = pod("Pending", conditions=[UNSCHEDULABLE])
LEAVES = {"deletionTimestamp": BEGAN}
HOLDS = ended(0, "Completed", "Running")


@pytest.mark.parametrize(
    ("pods", "more", "state", "gives_up"),
    [
        ([pod(), pod(name="p-1")], {}, "Running", False),
        ([ended(1)], {}, "Running", False),  # the Job has not heard of it
        ([], {"after_s": LATE}, "Pending", False),
        ([], {"warning": "FailedCreate: quota"}, "FailedCreate", False),
        ([], {"warning": "FailedCreate: quota", "after_s": LATE}, "FailedCreate", True),
        ([NO_NODE], {"after_s": 1799}, "Unschedulable", False),
        ([NO_NODE], {"after_s": 1801}, "Unschedulable", True),
        ([NO_NODE], {"after_s": 9000, "quiet_since_s": BEGAN_S + 8000}, "Unschedulable", False),
        ([waiting("ErrImagePull"), pod(name="p-1")], {"after_s": LATE - 2}, "ErrImagePull", False),
        ([waiting("ErrImagePull"), pod(name="p-1")], {"after_s": LATE}, "ErrImagePull", True),
        ([waiting("InvalidImageName")], {"after_s": LATE}, "InvalidImageName", True),
        ([waiting("PodInitializing", **PULL)], {"after_s": LATE}, "ErrImagePull", True),
        ([ON_ITS_WAY], {"after_s": 1e5}, "Pending", False),
        ([ON_ITS_WAY], {"after_s": 1e5, "warning": "FailedMount: no export"}, "ContainerCreating", True),
        ([pod(metadata=LEAVES)], {"after_s": 59}, "Running", False),
        ([pod(metadata=LEAVES)], {"after_s": 61}, "NodeLost", True),
        ([ended(143, metadata=LEAVES), pod(name="p-1")], {"after_s": 61}, "Running", False),
        ([pod("Unknown")], {}, "NodeLost", True),
        ([HOLDS], {"after_s": 59}, "Running", False),
        ([HOLDS], {"after_s": 61}, "SidecarRunning", True),
        ([HOLDS, pod(name="p-1")], {"after_s": 61}, "Running", False),  # which still trains
    ],
)
def test_a_job_is_waited_for_until_it_cannot_run(pods, more, state, gives_up):
    found = judged(job(), *pods, **more)
    assert (found.state, found.has_ended) == (state, gives_up)
    assert found.is_queued == (not gives_up and state != "Running")
    assert more.get("warning", "").removeprefix("FailedCreate: ") in found.reason


def test_a_suspended_job_waits_for_its_queue_without_end():
    found = judged(job(suspend=True), after_s=1e7, warning="QuotaReserved: no quota")
    assert (found.is_queued, found.has_ended, found.reason) == (True, False, "QuotaReserved: no quota")


@pytest.mark.parametrize(("name", "answer"), ANSWERS.items())
def test_real_answers_are_read(name, answer, monkeypatch, tmp_path):
    asked = {"get jobs.batch,pods": answer["objects"], "get events": {"items": answer["events"]}}
    asked["version"] = {"serverVersion": {"gitVersion": "v1.20.2"}}
    monkeypatch.setattr(Kubectl, "json", lambda where, *words: asked.get(" ".join(words[:2]), asked.get(words[0])))
    monkeypatch.setattr(cluster.time, "time", lambda: BEGAN_S + 1e9)
    found = cluster.jobs({tmp_path: f"{answer['job']};;"})[tmp_path]
    assert (found.state, found.has_ended, found.ended_by_itself) == (answer["state"], True, answer["by_itself"])
    assert answer["words"] in str(found)


def test_a_record_has_the_image_as_it_was_pulled():
    found = cluster.entry(judged(job("Complete", ""), ended(0, "Completed", "Succeeded"), ended(0, name="p-1")))
    assert found["image_digest"] == "sha256:1"
    pods = [(pod["pod"], pod["node"], pod["exit_code"]) for pod in found["pods"]]
    assert pods == [("p-0", "n0", 0), ("p-1", "n0", 0)]


@pytest.mark.parametrize(
    ("at_home", "state"), [(None, "Complete"), ("other;;", "Complete"), ("name;;", "UNKNOWN")], ids=str
)
def test_a_job_is_of_a_renamed_folder_and_not_of_a_copy(tmp_path, monkeypatch, at_home, state):
    home, here = tmp_path / "home", tmp_path / "here"
    for folder, text in ((home, at_home), (here, "name;;")):
        if text:
            folder.mkdir()
            (folder / "job.id").write_text(text)
    found = job("Complete", "")
    found["metadata"]["annotations"][FOLDER] = str(home)
    monkeypatch.setattr(cluster, "_look", lambda where: ({"name": found}, [], ""))
    assert cluster.jobs({here: "name;;"})[here].state == state
