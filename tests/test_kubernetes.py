"""The workflow through Kubernetes: the real kubectl, a small API server, pods as processes, and all ways to fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import SMALL, made_up_system, make_checkout, run_in_place_of_training
from tests.needs import need
from tests.small_kubernetes import small_kubernetes
from tests.waiting import NEVER_S, PATIENCE_S, until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.getuid() != 0, reason="pods get roots and users of their own: run this test as root"),
]

REPOSITORY = Path(__file__).resolve().parents[1]
REGISTRY = "registry.example.org/caraml"
VALUES = {
    "devices_per_node": 1,
    "kubernetes_resource": "example.org/device",
    "cpus_per_task": 2,
    "devices_sweep": "1 2",
    "batch_sweep": "8",
    "image_batch_sweep": "8",
    "warmup_steps": 1,
    "measured_steps": 2,
    "min_measured_s": 1,
}
SITE = f"submit: kubernetes\nkubernetes_registry: {REGISTRY}\nnetwork_interface: lo\n"


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory):
    need("kubectl")
    with small_kubernetes(tmp_path_factory.mktemp("kubernetes"), REPOSITORY / ".venv") as found:
        yield found


class Sweep:
    """A sweep that is submitted, and what a user asks of it."""

    def __init__(
        self, jube: str, checkout: Path, kubernetes, *tags: str, workflow: str = "llm", **environ: str
    ) -> None:
        self.cluster, known = kubernetes
        self.environ = {**known, "JUBE": jube, "PYTHONPATH": str(checkout), **environ}
        self.checkout = checkout
        done = self.call(jube, "run", f"jube/{workflow}.yaml", "--tag", "TESTBED", *tags)
        assert done.returncode == 0, done.stdout + done.stderr
        self.run = sorted((checkout / "jube" / f"{workflow}_run").glob("[0-9]*"))[-1]

    def call(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.checkout, env=self.environ, capture_output=True, text=True, timeout=PATIENCE_S
        )

    def wait(self, *flags: str) -> subprocess.CompletedProcess[str]:
        return self.call(sys.executable, "-m", "caraml", "wait", str(self.run), "--interval", "1", *flags)

    def points(self) -> list[Path]:
        return sorted(path.parent for path in self.run.glob("*_benchmark/work/result.json"))

    def result(self, index: int, run: str = ".") -> dict:
        return json.loads((self.points()[index] / run / "result.json").read_text())

    def job(self, index: int) -> str:
        return (self.points()[index] / "job.id").read_text().split(";")[0]

    def pod(self, index: int, number: int = 0) -> str:
        """The name of a pod whose program runs."""
        job = self.job(index)

        def running() -> list[str]:
            pods = self.cluster.pods_of(job)
            return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"]

        names = until(lambda: len(found := running()) > number and found, "the pod")
        until(lambda: "up" in self.log(names[number]), "the pod's program", lambda: self.log(names[number]))
        return names[number]

    def log(self, pod: str) -> str:
        file = self.cluster.folder / pod / "log"
        return file.read_text() if file.exists() else ""

    def objects(self) -> list[dict]:
        files = [file for point in self.points() for file in sorted(point.glob("kubernetes/*.yaml"))]
        return [one for file in files for one in yaml.safe_load_all(file.read_text())]


def left_behind(cluster) -> list[tuple[str, str]]:
    return [key for key in cluster.objects if key[0] not in ("nodes", "events")]


@pytest.fixture(scope="module")
def trained(jube_command, tmp_path_factory, kubernetes):
    """A sweep over one and two nodes without shared storage, of text that each pod makes, and what is said of it."""
    checkout = make_checkout(tmp_path_factory.mktemp("checkout") / "caraml", made_up_system(**VALUES), SITE + SMALL)
    sweep = Sweep(jube_command, checkout, kubernetes)
    done = sweep.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    return sweep, done.stdout


@pytest.mark.slow
def test_a_sweep_over_one_and_two_pods_becomes_a_table(trained):
    sweep, said = trained
    table = sweep.call(sweep.environ["JUBE"], "result", str(sweep.run.parent), "--id", "last", "-a").stdout
    rows = [line for line in table.splitlines() if line.startswith("| TESTBED")]
    assert [row.split("|")[-2].strip() for row in rows] == ["ok", "ok"]
    assert "2 points: 2 ok" in said


@pytest.mark.slow
def test_each_pod_samples_its_own_node_and_says_where_it_was(trained):
    sweep, _ = trained
    one, two = sweep.result(0), sweep.result(1)
    assert (one["layout"]["num_nodes"], two["layout"]["num_nodes"]) == (1, 2)
    assert {window["hostname"] for window in two["windows"]} == {f"{sweep.job(1)}-0", f"{sweep.job(1)}-1"}
    assert {channel["hostname"] for channel in two["energy"]["channels"]} == {f"{sweep.job(1)}-0", f"{sweep.job(1)}-1"}
    said = two["kubernetes"]
    assert (said["state"], said["cluster_version"], said["namespace"]) == ("Complete", "v1.32.0-small", "default")
    assert sorted(pod["node"] for pod in said["pods"]) == ["node-0", "node-1"]
    digest = sweep.cluster.images[f"{REGISTRY}/cpu"]
    assert two["provenance"]["container_digest"] == said["image_digest"] == digest
    assert "container_digest" not in two["provenance"]["missing"]
    # Nothing keeps others off a node of Kubernetes.
    assert two["provenance"]["exclusive"] is None


@pytest.mark.slow
def test_its_records_are_like_those_of_a_laptop(trained, jube_command, tmp_path):
    """Same keys, but for what the scheduler says."""
    sweep, _ = trained
    (sweep.checkout / "site.yaml").write_text(SITE.replace("kubernetes\n", "bash\n", 1) + SMALL)
    here = Sweep(jube_command, sweep.checkout, (sweep.cluster, sweep.environ), "synthetic", CARAML_DEVICES="1")
    assert here.wait().returncode == 0

    def keys(found: object, name: str = "") -> set[str]:
        if isinstance(found, list):
            return {key for one in found for key in keys(one, f"{name}[]")}
        return (
            {name}.union(*(keys(value, f"{name}.{key}") for key, value in found.items()))
            if isinstance(found, dict)
            else {name}
        )

    free = (".kubernetes", ".provenance", ".options")
    ours, theirs = ({key for key in keys(one) if not key.startswith(free)} for one in (sweep.result(0), here.result(0)))
    assert ours == theirs
    assert set(sweep.result(0)["provenance"]) == set(here.result(0)["provenance"])


@pytest.mark.slow
def test_nothing_is_left_in_the_cluster(trained):
    sweep, _ = trained
    mine = {sweep.job(0), sweep.job(1)}
    assert not [key for key in left_behind(sweep.cluster) if any(key[1].startswith(name) for name in mine)]


@pytest.mark.slow
def test_what_is_verified_in_the_archive_is_what_the_pods_wrote(trained):
    sweep, _ = trained
    archive = sweep.checkout / "results.tar.zst"
    for command in (["archive", str(sweep.run), "-o", str(archive)], ["verify", str(archive)]):
        done = sweep.call(sys.executable, "-m", "caraml", *command)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", ["1.25", "1.31", "1.36"])
@pytest.mark.slow
def test_every_object_is_what_the_api_of_a_version_takes(trained, version):
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    sweep, _ = trained
    found = sweep.objects()
    assert sorted(one["kind"] for one in found) == ["ConfigMap", "ConfigMap", "Job", "Job", "Service"]
    for one in found:
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.slow
def test_what_is_submitted_can_be_read_and_applied_by_hand(trained):
    sweep, _ = trained
    assert len((sweep.points()[1] / "kubernetes" / "job.yaml").read_text().splitlines()) < 150
    for _ in ("create", "delete"):
        done = sweep.call(
            "kubectl", _, "-f", str(sweep.points()[0] / "kubernetes"), "--wait=false" if _ == "delete" else "-v=0"
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_tensorflow_trains_in_two_pods_with_storage(jube_command, tmp_path, kubernetes):
    """The claim has the checkout and the data; runs of a point follow each other."""
    cluster, _ = kubernetes
    cluster.claims["work"] = tmp_path
    site = SITE + SMALL + f"kubernetes_claim: work\nkubernetes_claim_path: {tmp_path}\n"
    checkout = make_checkout(tmp_path / "caraml", made_up_system(**VALUES, default_repeats=2), site)
    sweep = Sweep(jube_command, checkout, kubernetes, "synthetic", workflow="resnet50", CARAML_DEVICES="2")
    done = sweep.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(sweep.points()[0].glob("kubernetes/checkout.yaml"))
    for run in (".", "run_2"):
        found = sweep.result(0, run)
        assert found["layout"]["num_devices"] == 2
        assert len(found["energy"]["channels"]) == 2
        assert found["kubernetes"]["state"] == "Complete"


@pytest.mark.slow
def test_copies_of_a_point_fill_two_pods(jube_command, tmp_path, kubernetes):
    cluster, _ = kubernetes
    cluster.claims["filled"] = tmp_path
    site = SITE + f"kubernetes_claim: filled\nkubernetes_claim_path: {tmp_path}\n"
    checkout = make_checkout(tmp_path / "caraml", made_up_system(**{**VALUES, "devices_sweep": "1"}), site)
    run_in_place_of_training(checkout, f"python3 {checkout}/tests/quick_run.py")
    sweep = Sweep(jube_command, checkout, kubernetes, "synthetic", "fill", CARAML_FILL_NODES="2")
    done = sweep.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    found = sweep.result(0)
    assert (found["fill"]["copies"], found["fill"]["slowest"], found["metrics"]["tokens_per_s"]) == (2, 100.0, 200.0)
    assert {window["hostname"] for window in found["windows"]} == {f"{sweep.job(0)}-0", f"{sweep.job(0)}-1"}
    assert found["kubernetes"]["state"] == "Complete"


# --- failures, each a row that says why


@pytest.fixture(scope="module")
def slow_checkout(tmp_path_factory):
    """Points of one pod that never end by themselves, so that each can be made to fail."""
    sweep = {"devices_sweep": "1", "batch_sweep": "8"}
    folder = make_checkout(tmp_path_factory.mktemp("slow") / "caraml", made_up_system(**{**VALUES, **sweep}), SITE)
    run_in_place_of_training(folder, f"bash -c 'echo up; sleep {NEVER_S}'")
    return folder


def kill_for_memory(sweep):
    sweep.cluster.kill_for_memory(sweep.pod(0))


def evict(sweep):
    sweep.cluster.evict(sweep.pod(0))


def lose_the_node(sweep):
    [pod] = [one for one in sweep.cluster.pods_of(sweep.job(0)) if one["metadata"]["name"] == sweep.pod(0)]
    sweep.cluster.lose_node(pod["spec"]["nodeName"])


def delete_the_job(sweep):
    sweep.pod(0)
    sweep.call("kubectl", "delete", "job", sweep.job(0), "--wait=false")


def delete_the_pod(sweep):
    sweep.call("kubectl", "delete", "pod", sweep.pod(0), "--wait=false")


def nothing(sweep):
    pass


ENDS = {
    "killed for memory": (kill_for_memory, {}, "OOMKilled"),
    "evicted": (evict, {}, "Evicted"),
    "node lost": (lose_the_node, {}, "NodeLost"),
    "job deleted by hand": (delete_the_job, {}, "Deleted"),
    "pod deleted by hand": (delete_the_pod, {}, "its pods are gone"),
    "time is over": (nothing, {"CARAML_KUBERNETES_POD": "short.yaml"}, "DeadlineExceeded"),
    "no such image": (
        nothing,
        {"CARAML_KUBERNETES_REGISTRY": "none.example.org", "CARAML_KUBERNETES_PATIENCE_MIN": "0.02"},
        "ImagePullBackOff",
    ),
    "no such node": (
        nothing,
        {"CARAML_KUBERNETES_NODE_SELECTOR": "kind=none", "CARAML_KUBERNETES_PATIENCE_MIN": "0.02"},
        "Unschedulable (0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector",
    ),
    "no such claim": (
        nothing,
        {
            "CARAML_KUBERNETES_CLAIM": "none",
            "CARAML_KUBERNETES_CLAIM_PATH": "/",
            "CARAML_KUBERNETES_PATIENCE_MIN": "0.02",
        },
        'persistentvolumeclaim "none" not found',
    ),
    "more than a pod may have": (
        nothing,
        {"CARAML_KUBERNETES_CPUS": "64", "CARAML_KUBERNETES_PATIENCE_MIN": "0.02"},
        "2 Insufficient cpu",
    ),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.slow
def test_a_job_that_kubernetes_ends_is_a_failed_row(name, jube_command, slow_checkout, kubernetes):
    (slow_checkout / "short.yaml").write_text("spec: {activeDeadlineSeconds: 2, terminationGracePeriodSeconds: 5}\n")
    end, environ, words = ENDS[name]
    sweep = Sweep(jube_command, slow_checkout, kubernetes, "synthetic", **environ)
    end(sweep)
    try:
        done = sweep.wait()
    finally:
        sweep.cluster.lost_nodes.clear()
    assert done.returncode == 1, done.stdout + done.stderr
    result = sweep.result(0)
    assert result["status"] == "failed"
    assert words in result["error"]
    assert not left_behind(sweep.cluster)


@pytest.mark.slow
def test_a_job_that_was_given_up_cannot_run_later(jube_command, slow_checkout, kubernetes):
    cluster, _ = kubernetes
    environ = {"CARAML_KUBERNETES_NODE_SELECTOR": "kind=none", "CARAML_KUBERNETES_PATIENCE_MIN": "0.02"}
    sweep = Sweep(jube_command, slow_checkout, kubernetes, "synthetic", **environ)
    assert sweep.wait("--keep").returncode == 1
    assert not left_behind(cluster)


@pytest.mark.slow
def test_pods_that_a_namespace_does_not_allow_are_a_failed_row(jube_command, slow_checkout, kubernetes):
    cluster, _ = kubernetes
    cluster.refused_pods = "pods is forbidden: exceeded quota"
    try:
        sweep = Sweep(jube_command, slow_checkout, kubernetes, "synthetic", CARAML_KUBERNETES_PATIENCE_MIN="0.02")
        assert sweep.wait().returncode == 1
    finally:
        cluster.refused_pods = ""
    assert "FailedCreate (FailedCreate: pods is forbidden: exceeded quota" in sweep.result(0)["error"]
    assert not left_behind(cluster)


def test_a_job_that_the_api_refuses_is_a_failed_row_and_leaves_nothing(jube_command, slow_checkout, kubernetes):
    cluster, _ = kubernetes
    cluster.refused["jobs"] = "jobs.batch is forbidden: denied by policy"
    try:
        sweep = Sweep(jube_command, slow_checkout, kubernetes, "synthetic")
    finally:
        cluster.refused.clear()
    assert sweep.wait().returncode == 1
    assert "Kubernetes refused the job" in sweep.result(0)["error"]
    assert "denied by policy" in sweep.result(0)["error"]
    assert not left_behind(cluster)


def refused(jube: str, checkout: Path, environ: dict[str, str]) -> str:
    """What is said of a sweep that does not start."""
    command = [jube, "run", "jube/llm.yaml", "--tag", "TESTBED", "synthetic"]
    before = set(checkout.glob("jube/llm_run/[0-9]*"))
    done = subprocess.run(command, cwd=checkout, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
    assert set(checkout.glob("jube/llm_run/[0-9]*")) == before
    return done.stdout + done.stderr


def test_a_cluster_without_rights_or_without_an_answer_is_said_before_anything_is_submitted(
    jube_command, slow_checkout, kubernetes
):
    cluster, known = kubernetes
    environ = {**known, "PYTHONPATH": str(slow_checkout)}
    cluster.without_rights = True
    try:
        assert "does not let you create Jobs" in refused(jube_command, slow_checkout, environ)
    finally:
        cluster.without_rights = False
    assert "Kubernetes does not answer" in refused(jube_command, slow_checkout, {**environ, "KUBECONFIG": "/none"})
    nowhere = {**environ, "CARAML_KUBERNETES_CONTEXT": "nowhere"}
    assert 'context "nowhere" does not exist' in refused(jube_command, slow_checkout, nowhere)


@pytest.mark.slow
def test_an_api_server_that_is_gone_for_a_while_costs_no_result(jube_command, slow_checkout, kubernetes):
    cluster, _ = kubernetes
    sweep = Sweep(jube_command, slow_checkout, kubernetes, "synthetic")
    pod = sweep.pod(0)
    command = [sys.executable, "-m", "caraml", "wait", str(sweep.run), "--interval", "0.2"]
    with subprocess.Popen(command, cwd=sweep.checkout, env=sweep.environ, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout is not None
        assert "1 running" in waiting.stdout.readline()
        cluster.is_down = True
        assert "Kubernetes does not answer" in waiting.stdout.readline()
        cluster.is_down = False
        assert "1 running" in waiting.stdout.readline()
        cluster.kill_for_memory(pod)
        assert "1 failed" in waiting.stdout.read()
    assert waiting.returncode == 1
    assert "OOMKilled" in sweep.result(0)["error"]
    assert not left_behind(cluster)


@pytest.mark.slow
def test_a_queue_is_waited_for_and_its_jobs_are_suspended(jube_command, slow_checkout, kubernetes):
    cluster, _ = kubernetes
    environ = {"CARAML_KUBERNETES_QUEUE": "team", "CARAML_KUBERNETES_PATIENCE_MIN": "0.01"}
    sweep = Sweep(jube_command, slow_checkout, kubernetes, "synthetic", **environ)
    done = sweep.wait("--limit", "2")
    assert done.returncode == 3
    assert "1 queued (its queue has not admitted it)" in done.stdout
    with cluster.lock:
        job = cluster.objects["jobs", sweep.job(0)]
        assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
        job["spec"]["suspend"] = False
    cluster.kill_for_memory(sweep.pod(0))
    assert sweep.wait().returncode == 1


@pytest.fixture
def told(jube_command, tmp_path, kubernetes):
    """A sweep whose programs end well when a file says so; the storage claim has it."""
    cluster, _ = kubernetes
    cluster.claims["told"] = tmp_path
    site = SITE + f"kubernetes_claim: told\nkubernetes_claim_path: {tmp_path}\n"
    checkout = make_checkout(tmp_path / "caraml", made_up_system(**{**VALUES, "devices_sweep": "1"}), site)
    program = tmp_path / "program.sh"
    program.write_text(
        f"echo up; until [ -e {tmp_path}/told ]; do sleep 0.1; done; exec python3 {checkout}/tests/quick_run.py"
    )
    run_in_place_of_training(checkout, f"bash {program}")
    return Sweep(jube_command, checkout, kubernetes, "synthetic"), tmp_path / "told"


def test_what_failed_is_submitted_again_and_what_is_asked_for_is_kept(told):
    sweep, file = told
    sweep.cluster.kill_for_memory(sweep.pod(0))
    assert sweep.wait("--keep").returncode == 1
    first = sweep.job(0)
    assert ("jobs", first) in sweep.cluster.objects
    file.touch()
    done = sweep.wait("--retry-failed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "submitted again: 1 point" in done.stdout
    assert sweep.job(0) != first
    [kept] = sweep.points()[0].glob("attempts/1/result.json")
    assert "OOMKilled" in json.loads(kept.read_text())["error"]
    assert not left_behind(sweep.cluster)


@pytest.mark.slow
def test_a_pod_that_is_made_again_does_not_write_over_what_is_there(told):
    """Of a deleted pod, older versions make another one."""
    sweep, file = told
    file.touch()
    assert sweep.wait("--keep").returncode == 0
    with sweep.cluster.lock:
        sweep.cluster._make_pod(sweep.cluster.objects["jobs", sweep.job(0)], 0)

    def again() -> str:
        return "".join(sweep.log(pod["metadata"]["name"]) for pod in sweep.cluster.pods_of(sweep.job(0))[1:])

    until(lambda: "has a run already" in again(), "the second pod's refusal", again)
    assert sweep.wait().returncode == 0
    assert not left_behind(sweep.cluster)


@pytest.mark.slow
def test_a_log_that_was_cut_is_a_failed_row_and_stays(jube_command, tmp_path, kubernetes):
    cluster, _ = kubernetes
    checkout = make_checkout(tmp_path / "caraml", made_up_system(**{**VALUES, "devices_sweep": "1"}), SITE)
    run_in_place_of_training(checkout, "bash -c 'echo the last words >&2; exit 3'")
    sweep = Sweep(jube_command, checkout, kubernetes, "synthetic")

    def ended() -> list[str]:
        return [one["metadata"]["name"] for one in cluster.pods_of(sweep.job(0)) if one["status"]["phase"] == "Failed"]

    [pod] = until(ended, "the pod's end")
    log = cluster.folder / pod / "log"
    log.write_text(log.read_text().rstrip()[:-50])
    assert sweep.wait().returncode == 1
    error = sweep.result(0)["error"]
    assert "are incomplete" in error
    assert "the last words" in error
    assert "the last words" in (sweep.points()[0] / "kubernetes" / f"{pod}.log").read_text()


def findings(sweep_environ: dict[str, str], checkout: Path) -> dict[str, str]:
    """What the doctor says, by what it looked at."""
    command = [sys.executable, "-m", "caraml", "doctor", "--system", "TESTBED"]
    done = subprocess.run(command, cwd=checkout, env=sweep_environ, capture_output=True, text=True, timeout=PATIENCE_S)
    lines = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    return {line[6:].partition(":")[0]: line for line in lines}


GOOD = [
    "ok    Kubernetes: v1.32.0-small",
    "ok    rights: Jobs can be created, read and deleted",
    "ok    nodes: 2 of 2 have 1 example.org/device",
    "ok    storage: no claim",
    f"ok    image: {REGISTRY}/cpu",
    "look  memory: a pod has no limit",
]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, GOOD),
        (
            {
                "CARAML_KUBERNETES_NODE_SELECTOR": "kind=none",
                "CARAML_KUBERNETES_CLAIM": "none",
                "CARAML_KUBERNETES_QUEUE": "team",
            },
            [
                "FAIL  nodes: 0 of 0 with kind=none",
                "FAIL  storage: Error from server (NotFound): persistentvolume",
                "FAIL  queue: error: the server doesn't have a resource type",
            ],
        ),
        ({"KUBECONFIG": "/none"}, ["FAIL  Kubernetes: Kubernetes does not answer: "]),
    ],
)
def test_the_doctor_says_what_is_missing_in_a_cluster(environ, expected, slow_checkout, kubernetes):
    _, known = kubernetes
    found = findings({**known, "PYTHONPATH": str(slow_checkout), **environ}, slow_checkout)
    for line in expected:
        assert found[line[6:].partition(":")[0]].startswith(line)
