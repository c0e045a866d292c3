"""What is made of a Job's and its pods' own words; the API itself is in tests/test_kubernetes.py."""

from __future__ import annotations

import pytest

from caraml.schedulers.kubernetes import cluster
from caraml.schedulers.kubernetes.kubectl import Kubectl, job_id, read_job_id
from caraml.schedulers.kubernetes.state import FOLDER, START_LIMIT_S, TIME_LIMIT, KubernetesJob, judge

BEGAN, BEGAN_S = "2026-01-01T00:00:00Z", 1767225600.0
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def job(condition=None, **spec):
    status = {"startTime": BEGAN}
    if condition:
        kind, reason = condition
        status["conditions"] = [
            {"type": "Suspended", "status": "False"},
            {"type": kind, "status": "True", "reason": reason, "message": "words", "lastTransitionTime": BEGAN},
        ]
    metadata = {"creationTimestamp": BEGAN, "annotations": {"caraml/patience-s": "1800"}}
    return {"metadata": metadata, "spec": spec, "status": status}


def pod(phase="Running", name="p-0", conditions=(SCHEDULED,), metadata=None, **more):
    state = more.pop("state", {})
    statuses = [
        {"name": "other", "state": {}},
        {"name": "train", "image": "i", "imageID": "r/i@sha256:1", "state": state},
    ]
    return {
        "metadata": {"name": name, "creationTimestamp": BEGAN, **(metadata or {})},
        "spec": {"nodeName": "n0", "activeDeadlineSeconds": 60},
        "status": {
            "phase": phase,
            "startTime": BEGAN,
            "conditions": list(conditions),
            "containerStatuses": statuses,
            **more,
        },
    }


def ended(code, reason="Error", phase="Failed", **more):
    state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": BEGAN}}
    return pod(phase, state=state, **more)


def waiting(reason, **more):
    return pod("Pending", state={"waiting": {"reason": reason, "message": "words"}}, **more)


def unschedulable():
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    return pod("Pending", conditions=[condition])


def judged(found, *pods, after_s=1.0, warning="", quiet_since_s=0.0):
    about = KubernetesJob("j", pods=pods)
    return judge(about, found, lambda names: warning, quiet_since_s, BEGAN_S + after_s)


@pytest.mark.parametrize(
    "pods", [[ended(0, "Completed", "Succeeded")], []], ids=["with its pods", "whose pods are gone"]
)
def test_a_job_that_is_complete_ended_by_itself(pods):
    found = judged(job(("Complete", "")), *pods)
    assert (found.state, found.has_ended, found.ended_by_itself, found.end) == ("Complete", True, True, BEGAN)


def test_a_program_that_failed_is_told_by_its_exit_code():
    found = judged(job(("Failed", "BackoffLimitExceeded")), ended(1))
    assert (found.state, found.ended_by_itself) == ("Failed", True)


@pytest.mark.parametrize(
    ("condition", "pods", "state", "words"),
    [
        ("DeadlineExceeded", [], "DeadlineExceeded", "words"),
        ("PodFailurePolicy", [ended(1)], "PodFailurePolicy", "words"),
        ("BackoffLimitExceeded", [ended(137, "OOMKilled")], "OOMKilled", "pod p-0: exit code 137"),
        ("BackoffLimitExceeded", [ended(1), ended(137, "OOMKilled", name="p-1")], "OOMKilled", "pod p-1"),
        ("BackoffLimitExceeded", [ended(143)], "Failed", "BackoffLimitExceeded: words"),
        ("BackoffLimitExceeded", [], "Failed", "was one deleted?"),
        ("BackoffLimitExceeded", [ended(128, "ContainerCannotRun")], "ContainerCannotRun", "exit code 128"),
    ],
)
def test_what_kubernetes_did_comes_before_what_a_program_did(condition, pods, state, words):
    found = judged(job(("Failed", condition)), *pods)
    assert found.has_ended
    assert found.state == state
    assert words in found.reason


def init_container(**state):
    return {"initContainerStatuses": [{"name": "fetch", "state": state}]}


def test_an_init_container_that_fails_is_the_reason():
    lost = waiting("PodInitializing", **init_container(terminated={"exitCode": 3, "reason": "Error"}))
    found = judged(job(("Failed", "BackoffLimitExceeded")), lost)
    assert (found.state, found.ended_by_itself) == ("InitContainerFailed", False)
    assert found.reason == "pod p-0: init container fetch exited with 3: Error"
    # A sidecar among them is ended by Kubernetes itself, after the program that failed.
    after = ended(1, **init_container(terminated={"exitCode": 143, "reason": "Error"}))
    assert judged(job(("Failed", "BackoffLimitExceeded")), after).state == "Failed"


def test_an_init_container_whose_image_does_not_come_is_given_up():
    late = waiting("PodInitializing", **init_container(waiting={"reason": "ErrImagePull", "message": "words"}))
    found = judged(job(), late, after_s=START_LIMIT_S + 1)
    assert (found.state, found.has_ended) == ("ErrImagePull", True)


@pytest.mark.parametrize(
    ("sidecar", "other_pod", "after_s", "gives_up"),
    [
        ({"running": {}}, [], 61, True),
        ({"running": {}}, [], 59, False),  # it may need a moment
        ({"terminated": {"exitCode": 0}}, [], 61, False),
        ({"running": {}}, [pod(name="p-1", state={"running": {}})], 61, False),  # which still trains
    ],
)
def test_a_sidecar_that_outlives_training_does_not_hold_the_node(sidecar, other_pod, after_s, gives_up):
    holding = ended(0, "Completed", "Running")
    holding["status"]["containerStatuses"][0]["state"] = sidecar
    found = judged(job(), holding, *other_pod, after_s=after_s)
    assert (found.state == "SidecarRunning", found.has_ended) == (gives_up, gives_up)
    assert ("container other of pod p-0 outlives training" in found.reason) == gives_up


@pytest.mark.parametrize(
    "reason", ["Evicted", "DeadlineExceeded", "Preempting", "NodeShutdown", "UnexpectedAdmissionError"]
)
def test_a_pod_that_its_node_ended_says_why(reason):
    lost = ended(143)
    lost["status"] |= {"reason": reason, "message": "the node was low on memory"}
    found = judged(job(("Failed", "BackoffLimitExceeded")), lost)
    assert (found.state, found.ended_by_itself) == (reason, False)
    assert found.reason == "pod p-0: the node was low on memory"


def test_a_pod_that_was_disrupted_says_by_what():
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "taint"}
    found = judged(job(("Failed", "BackoffLimitExceeded")), ended(143, conditions=[SCHEDULED, condition]))
    assert (found.state, found.reason) == ("DeletionByTaintManager", "pod p-0: taint")


def test_a_job_runs_when_all_its_pods_do_and_says_until_when():
    found = judged(job(), pod(), pod(name="p-1"))
    assert (found.state, found.is_queued, found.has_ended) == ("Running", False, False)
    assert found.latest_end == "2026-01-01T00:01:00+00:00"


def test_pods_whose_end_the_job_has_not_heard_of_are_waited_for():
    assert not judged(job(), ended(1)).has_ended


def test_a_suspended_job_waits_for_its_queue_without_end():
    found = judged(job(suspend=True), after_s=1e7, warning="QuotaReserved: no quota")
    assert (found.is_queued, found.has_ended, found.reason) == (True, False, "QuotaReserved: no quota")


@pytest.mark.parametrize(
    ("after_s", "quiet_since_s", "gives_up"), [(1799, 0, False), (1801, 0, True), (9000, 8000, False)]
)
def test_a_node_is_waited_for_while_others_of_ours_run(after_s, quiet_since_s, gives_up):
    found = judged(job(), unschedulable(), after_s=after_s, quiet_since_s=BEGAN_S + quiet_since_s)
    assert (found.has_ended, found.is_queued) == (gives_up, not gives_up)
    assert "0/1 nodes" in found.reason
    assert found.state == "Unschedulable"


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError"])
@pytest.mark.parametrize(("after_s", "gives_up"), [(START_LIMIT_S - 1, False), (START_LIMIT_S + 1, True)])
def test_an_image_that_does_not_come_is_given_up(reason, after_s, gives_up):
    found = judged(job(), waiting(reason), pod(name="p-1"), after_s=after_s)
    assert (found.state, found.has_ended) == (reason, gives_up)


def test_a_name_that_no_image_can_have_is_given_up_at_once():
    assert judged(job(), waiting("InvalidImageName")).has_ended


def test_an_image_that_is_on_its_way_is_waited_for():
    found = judged(job(), waiting("ContainerCreating"), after_s=1e5)
    assert (found.has_ended, found.is_queued) == (False, True)


def test_a_volume_that_does_not_come_is_given_up():
    found = judged(job(), waiting("ContainerCreating"), after_s=1e5, warning="FailedMount: no such export")
    assert (found.has_ended, found.reason) == (True, "FailedMount: no such export")


@pytest.mark.parametrize(("after_s", "gives_up"), [(10, False), (START_LIMIT_S + 1, True)])
def test_a_job_for_which_no_pod_may_be_made_is_given_up(after_s, gives_up):
    found = judged(job(), after_s=after_s, warning="FailedCreate: exceeded quota")
    assert (found.has_ended, found.reason) == (gives_up, "FailedCreate: exceeded quota")
    assert not judged(job(), after_s=after_s).has_ended


@pytest.mark.parametrize(
    ("lost", "after_s", "gives_up"),
    [
        (pod(metadata={"deletionTimestamp": BEGAN}), 59, False),
        (pod(metadata={"deletionTimestamp": BEGAN}), 61, True),
        (pod("Unknown"), 1, True),
        (ended(143, metadata={"deletionTimestamp": BEGAN}), 61, False),
    ],
)
def test_a_node_that_no_longer_answers_is_lost(lost, after_s, gives_up):
    found = judged(job(), lost, after_s=after_s)
    assert found.has_ended == gives_up
    assert (found.state == "NodeLost") == gives_up


def test_a_record_has_the_image_as_it_was_pulled():
    found = judged(job(("Complete", "")), ended(0, "Completed", "Succeeded"), ended(0, name="p-1")).to_record()
    assert found["image_digest"] == "sha256:1"
    assert [(one["pod"], one["node"], one["exit_code"]) for one in found["pods"]] == [
        ("p-0", "n0", 0),
        ("p-1", "n0", 0),
    ]


@pytest.mark.parametrize("where", [Kubectl("c", "n"), Kubectl("", "n"), Kubectl()])
def test_where_a_job_was_submitted_is_kept(where):
    assert read_job_id(job_id("name", where)) == ("name", where)


@pytest.mark.parametrize(
    ("at_home", "state"), [(None, "Complete"), ("other;;", "Complete"), ("name;;", "UNKNOWN")], ids=str
)
def test_a_job_is_of_a_renamed_folder_and_not_of_a_copy(tmp_path, monkeypatch, at_home, state):
    home, here = tmp_path / "home", tmp_path / "here"
    for folder, text in ((home, at_home), (here, "name;;")):
        if text:
            folder.mkdir()
            (folder / "job.id").write_text(text)
    found = job(("Complete", ""))
    found["metadata"]["annotations"][FOLDER] = str(home)
    seen = cluster._Seen(Kubectl(), {"name": found}, [], "")
    monkeypatch.setattr(cluster, "_look", lambda where: seen)
    assert cluster.Kubernetes().jobs({here: "name;;"})[here].state == state


def test_a_time_limit_is_named_with_what_sets_another():
    assert TIME_LIMIT in str(judged(job(("Failed", "DeadlineExceeded"))))
    assert TIME_LIMIT not in str(judged(job(("Failed", "Evicted"))))
