"""The workflow through a real Kubernetes of one node: `make test-kubernetes`, which builds its programs first."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.conftest import SMALL, InCheckout, made_up_system, make_checkout, run_in_place_of_training
from tests.private_kubernetes import PAUSE, missing_programs, private_kubernetes
from tests.test_containers import SITE_PACKAGES, with_base
from tests.waiting import NEVER_S, PATIENCE_S, until

BUILT = Path(os.environ.get("CARAML_KUBERNETES_PROGRAMS", "build/kubernetes")).absolute()
IMAGE = "localhost/caraml/cpu"
VALUES = {
    "cpus_per_task": 1,
    "devices_sweep": "1",
    "batch_sweep": "8",
    "warmup_steps": 1,
    "measured_steps": 2,
    "min_measured_s": 1,
}
SITE = f"submit: kubernetes\nkubernetes_image: {IMAGE}:1\nkubernetes_claim: work\nkubernetes_pod: pod.yaml\n" + SMALL
# The image has Debian's Python; its packages are those of this machine.
FIELDS = {
    "spec": {
        "containers": [
            {
                "name": "train",
                "imagePullPolicy": "IfNotPresent",
                "volumeMounts": [{"name": "packages", "mountPath": SITE_PACKAGES}],
            }
        ],
        "volumes": [{"name": "packages", "hostPath": {"path": SITE_PACKAGES}}],
    }
}
CLAIM = """
apiVersion: v1
kind: PersistentVolume
metadata: {{name: work}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: none
  hostPath: {{path: {path}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: work}}
spec: {{accessModes: [ReadWriteOnce], storageClassName: none, resources: {{requests: {{storage: 1Gi}}}}}}
"""


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """Archives of an image with Debian's Python, and of what holds a pod together."""
    folder = tmp_path_factory.mktemp("images")
    base = str(folder / "base.tar")
    change = ["--change", f"ENV PYTHONPATH={SITE_PACKAGES}", "--change", f"ENV PATH={os.defpath}"]
    with_base(
        folder,
        ["podman", "import", "--quiet", *change, base, f"{IMAGE}:1"],
        ["podman", "import", "--quiet", "--change", 'CMD ["/bin/sleep", "infinity"]', base, PAUSE],
        ["podman", "save", "--quiet", "-o", str(folder / "cpu.tar"), f"{IMAGE}:1"],
        ["podman", "save", "--quiet", "-o", str(folder / "pause.tar"), PAUSE],
    )
    return [folder / "cpu.tar", folder / "pause.tar"]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory, images):
    if missing := missing_programs():
        pytest.fail(f"Kubernetes is needed: {missing}")
    folder = tmp_path_factory.mktemp("kubernetes")
    with private_kubernetes(folder, BUILT, images) as environ:
        claim = folder / "claim.yaml"
        claim.write_text(CLAIM.format(path=tmp_path_factory.getbasetemp()))
        subprocess.run(["kubectl", "create", "-f", str(claim)], env=environ, check=True)
        yield {**environ, "CARAML_KUBERNETES_CLAIM_PATH": str(tmp_path_factory.getbasetemp())}


def checkout_of(folder: Path, **values: object) -> Path:
    made = make_checkout(folder, made_up_system(**{**VALUES, **values}), SITE)
    (made / "pod.yaml").write_text(yaml.safe_dump(FIELDS))
    return made


@pytest.fixture
def checkout(tmp_path):
    return checkout_of(tmp_path / "caraml")


class Sweep(InCheckout):
    """A sweep that is submitted, and what a user asks of it."""

    def __init__(self, jube: str, checkout: Path, environ: dict[str, str], **more: str) -> None:
        self.environ = {**environ, "JUBE": jube, "PYTHONPATH": str(checkout), **more}
        self.checkout = checkout
        self.started = self.call(jube, "run", "jube/llm.yaml", "--tag", "TESTBED", "synthetic")

    @property
    def point(self) -> Path:
        [result] = self.checkout.glob("jube/llm_run/000000/*_benchmark/work/result.json")
        return result.parent

    @property
    def job(self) -> str:
        return (self.point / "job.id").read_text().split(";")[0]

    def wait(self, *flags: str) -> subprocess.CompletedProcess[str]:
        return self.caraml("wait", "jube/llm_run", "--interval", "1", *flags)

    def result(self) -> dict:
        return json.loads((self.point / "result.json").read_text())

    def until_it_runs(self) -> str:
        """Return the name of the pod, once its program has written that it is up."""
        out = self.point / "job.out"
        events = ("kubectl", "get", "events")
        until(lambda: out.exists() and "up" in out.read_text(), "the program", lambda: self.call(*events).stdout)
        find = ("kubectl", "get", "pods", "-l", f"job-name={self.job}", "-o", "jsonpath={.items[*].metadata.name}")
        return self.call(*find).stdout

    def left_behind(self) -> str:
        found = ("kubectl", "get", "jobs,services,pods", "-l", "app.kubernetes.io/name=caraml", "-o", "name")
        until(lambda: "pod/" not in self.call(*found).stdout, "the end of the pods")
        return self.call(*found).stdout


def test_a_model_is_trained(cluster, checkout, jube_command):
    sweep = Sweep(jube_command, checkout, cluster)
    done = sweep.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    result = sweep.result()
    said = result["kubernetes"]
    assert result["status"] == "ok"
    assert (said["state"], said["pods"][0]["node"]) == ("Complete", "node")
    assert said["cluster_version"].startswith("v1.20")
    assert result["provenance"]["container_digest"] == said["image_digest"] != ""
    assert result["energy"]["energy_wh"] > 0
    assert not sweep.left_behind()


def test_the_runs_of_a_point_follow_each_other_and_stay_where_they_are_asked_for(cluster, tmp_path, jube_command):
    checkout = checkout_of(tmp_path / "caraml", default_repeats=2)
    run_in_place_of_training(checkout, f"python3 {checkout}/tests/quick_run.py")
    sweep = Sweep(jube_command, checkout, cluster)
    done = sweep.wait("--keep")
    assert done.returncode == 0, done.stdout + done.stderr
    results = [
        json.loads(file.read_text()) for file in (sweep.point / "result.json", sweep.point / "run_2/result.json")
    ]
    assert [result["metrics"]["tokens_per_s"] for result in results] == [100, 200]
    assert sweep.call("kubectl", "get", "job", sweep.job).returncode == 0
    assert sweep.wait().returncode == 0
    assert not sweep.left_behind()


def delete_the_job(sweep):
    sweep.until_it_runs()
    sweep.call("kubectl", "delete", "job", sweep.job)


def delete_the_pod(sweep):
    sweep.call("kubectl", "delete", "pod", sweep.until_it_runs())


def nothing(sweep):
    pass


SLEEP = f"bash -c 'echo up; sleep {NEVER_S}'"
EATS = "python3 -c 'print(\"up\", flush=True); x = [bytearray(10**7) for _ in range(200)]'"
FEW = {"CARAML_KUBERNETES_PATIENCE_MIN": "0.1"}
# caraml/tests/kubernetes_answers.json has a cluster's answers about other ends.
ENDS = {
    "too much memory": (EATS, nothing, {"CARAML_KUBERNETES_MEMORY": "300Mi"}, "OOMKilled"),
    "the job is deleted by hand": (SLEEP, delete_the_job, {}, "Deleted"),
    "the pod is deleted by hand": (SLEEP, delete_the_pod, {}, "signal 15"),
    "no such image": (SLEEP, nothing, {**FEW, "CARAML_KUBERNETES_IMAGE": "localhost/none:1"}, "Image"),
    "no such node": (SLEEP, nothing, {**FEW, "CARAML_KUBERNETES_NODE_SELECTOR": "kind=none"}, "didn't match"),
    "a program fails": ("bash -c 'echo error: it broke >&2; exit 3'", nothing, {}, "exit code 3: error: it broke"),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_kubernetes_ends_is_a_failed_row(name, cluster, checkout, jube_command):
    program, end, environ, words = ENDS[name]
    run_in_place_of_training(checkout, program)
    sweep = Sweep(jube_command, checkout, cluster, **environ)
    end(sweep)
    done = sweep.wait()
    assert done.returncode == 1, done.stdout + done.stderr
    assert sweep.result()["status"] == "failed"
    assert words in sweep.result()["error"]
    assert not sweep.left_behind()


REFUSED = {
    "no such claim": ({"CARAML_KUBERNETES_CLAIM": "none"}, '"none" not found'),
    "no such namespace": ({"CARAML_KUBERNETES_NAMESPACE": "none"}, "not found"),
    "no cluster": ({"KUBECONFIG": "/none"}, "Kubernetes does not answer"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_cluster_cannot_do_is_refused_before_anything_is_submitted(name, cluster, checkout, jube_command):
    environ, words = REFUSED[name]
    sweep = Sweep(jube_command, checkout, cluster, **environ)
    assert sweep.started.returncode != 0
    assert words in sweep.started.stdout + sweep.started.stderr
    assert words in sweep.caraml("doctor", "--system", "TESTBED").stdout
    assert not sweep.left_behind()


def test_several_nodes_are_refused_by_a_cluster_without_indexed_jobs(cluster, tmp_path, jube_command):
    checkout = checkout_of(tmp_path / "caraml", devices_per_node=1, devices_sweep="2")
    sweep = Sweep(jube_command, checkout, cluster)
    assert sweep.wait().returncode == 1
    assert "several nodes need a claim with ReadWriteMany" in sweep.result()["error"]
    assert "need Indexed Jobs" in sweep.caraml("doctor", "--system", "TESTBED").stdout
    objects = str(sweep.point / "kubernetes.yaml")
    strictly = sweep.call("kubectl", "create", "--dry-run=server", "-f", objects)
    assert 'unknown field "completionMode"' in strictly.stderr
    done = sweep.call("kubectl", "create", "--dry-run=server", "--validate=false", "-f", objects, "-o", "name")
    assert len(done.stdout.splitlines()) == 2, done.stderr


def test_what_the_pods_of_two_nodes_run_trains_together(tmp_path, jube_command):
    """Without a cluster, as no package has one with Indexed Jobs: each process has the host name of a pod."""
    checkout = checkout_of(tmp_path / "caraml", devices_per_node=1, devices_sweep="2")
    environ = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [jube_command, "run", "jube/llm.yaml", "--tag", "TESTBED", "synthetic", "job"]
    subprocess.run(command, cwd=checkout, env=environ, check=True, capture_output=True)
    [work] = checkout.glob("jube/llm_run/*/*_benchmark/work")
    more = {
        "CARAML_POD": "yes",
        "CARAML_IMAGE": "cpu",
        "MASTER_ADDR": "127.0.0.1",
        "CARAML_NODES": "127.0.0.1,127.0.0.2",
    }
    command = ["unshare", "--uts", "bash", "-c", "hostname node-$JOB_COMPLETION_INDEX; exec bash job.sh"]
    environ |= {**more, "GLOO_SOCKET_IFNAME": "lo", "CARAML_RESERVED": ""}
    pods = [subprocess.Popen(command, cwd=work, env={**environ, "JOB_COMPLETION_INDEX": index}) for index in "01"]
    assert [pod.wait(PATIENCE_S) for pod in pods] == [0, 0]
    record = json.loads((work / "record.json").read_text())
    assert (record["status"], record["layout"]["num_nodes"]) == ("ok", 2)
    assert {window["hostname"] for window in record["windows"]} == {"node-0", "node-1"}
    assert {folder.name for folder in (work / "power").iterdir()} == {"node-0", "node-1"}
