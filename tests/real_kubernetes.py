"""The workflow through a real Kubernetes of one node: `make test-kubernetes`, which builds its programs first."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.conftest import SMALL, made_up_system, make_checkout, run_in_place_of_training
from tests.private_kubernetes import PAUSE, missing_programs, private_kubernetes
from tests.test_containers import PACKAGES, PODMAN, SITE_PACKAGES, STORAGE
from tests.test_kubernetes import Sweep as AnySweep
from tests.waiting import NEVER_S, until

BUILT = Path(os.environ.get("CARAML_KUBERNETES_PROGRAMS", "build/kubernetes")).absolute()
IMAGE = "localhost/caraml/cpu"
VALUES = {"cpus_per_task": 1, "devices_sweep": "1", "warmup_steps": 1, "measured_steps": 2, "min_measured_s": 1}
SITE = "submit: kubernetes\nkubernetes_image: localhost/caraml/cpu:1\nkubernetes_pod: pod.yaml\n" + SMALL
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


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """Archives of an image with Debian's Python, and of what holds a pod together."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "containers.conf").write_text(PODMAN)
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    environ = {
        **os.environ,
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }
    codename = re.search(r"VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text())[1]
    base = str(folder / "base.tar")
    change = ["--change", f"ENV PYTHONPATH={SITE_PACKAGES}", "--change", f"ENV PATH={os.defpath}"]
    for command in (
        ["mmdebstrap", "--quiet", "--variant=extract", f"--include={PACKAGES}", codename, base],
        ["podman", "import", "--quiet", *change, base, f"{IMAGE}:1"],
        ["podman", "import", "--quiet", "--change", 'CMD ["/bin/sleep", "infinity"]', base, PAUSE],
        ["podman", "save", "--quiet", "-o", str(folder / "cpu.tar"), f"{IMAGE}:1"],
        ["podman", "save", "--quiet", "-o", str(folder / "pause.tar"), PAUSE],
    ):
        done = subprocess.run(command, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return [folder / "cpu.tar", folder / "pause.tar"]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory, images):
    if missing := missing_programs():
        pytest.fail(f"Kubernetes is needed: {missing}")
    with private_kubernetes(tmp_path_factory.mktemp("kubernetes"), BUILT, images) as environ:
        yield environ


@pytest.fixture
def checkout(tmp_path):
    folder = make_checkout(tmp_path / "caraml", made_up_system(**VALUES, batch_sweep="8"), SITE)
    (folder / "pod.yaml").write_text(yaml.safe_dump(FIELDS))
    return folder


class Sweep(AnySweep):
    """One point, and what a user sees of it in a cluster."""

    def __init__(self, jube: str, checkout: Path, environ: dict[str, str], **more: str) -> None:
        super().__init__(jube, checkout, (None, environ), "synthetic", **more)

    def until_it_runs(self) -> str:
        """The name of the pod in which a program says that it is up."""
        find = ("kubectl", "get", "pods", "-l", f"job-name={self.job(0)}", "-o", "jsonpath={.items[*].metadata.name}")
        pod = until(lambda: self.call(*find).stdout.strip(), "the pod")
        until(
            lambda: "up" in self.call("kubectl", "logs", pod).stdout,
            "the program",
            self.call("kubectl", "get", "events").stdout.strip,
        )
        return pod

    def left_behind(self) -> str:
        found = ("kubectl", "get", "jobs,services,configmaps,pods", "-l", "app.kubernetes.io/name=caraml", "-o", "name")
        until(lambda: "pod/" not in self.call(*found).stdout, "the end of the pods")
        return self.call(*found).stdout


def test_a_model_is_trained(cluster, checkout, jube_command):
    sweep = Sweep(jube_command, checkout, cluster)
    done = sweep.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    result = sweep.result(0)
    said = result["kubernetes"]
    assert result["status"] == "ok"
    assert (said["state"], said["pods"][0]["node"]) == ("Complete", "node")
    assert said["cluster_version"].startswith("v1.20")
    assert result["provenance"]["container_digest"] == said["image_digest"] != ""
    assert result["energy"]["energy_wh"] > 0
    assert not sweep.left_behind()


def test_a_sidecar_that_outlives_training_costs_no_result_and_does_not_hold_the_node(cluster, checkout, jube_command):
    further = {"name": "proxy", "image": f"{IMAGE}:1", "command": ["sleep", str(NEVER_S)]}
    spec = {
        **FIELDS["spec"],
        "containers": [*FIELDS["spec"]["containers"], further],
        "terminationGracePeriodSeconds": 2,
    }
    (checkout / "pod.yaml").write_text(yaml.safe_dump({"spec": spec}))
    sweep = Sweep(jube_command, checkout, cluster)
    done = sweep.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    assert (sweep.result(0)["status"], sweep.result(0)["kubernetes"]["state"]) == ("ok", "SidecarRunning")
    assert "container proxy of pod" in done.stderr
    assert not sweep.left_behind()


def delete_the_job(sweep):
    sweep.until_it_runs()
    sweep.call("kubectl", "delete", "job", sweep.job(0))


def nothing(sweep):
    pass


SLEEP = f"bash -c 'echo up; sleep {NEVER_S}'"
EATS = "python3 -c 'print(\"up\", flush=True); x = [bytearray(10**7) for _ in range(200)]'"
FEW = {"CARAML_KUBERNETES_PATIENCE_MIN": "0.1"}
ENDS = {
    "too much memory": (EATS, nothing, {"CARAML_KUBERNETES_MEMORY": "300Mi"}, "OOMKilled"),
    "time is over": (SLEEP, nothing, {"CARAML_KUBERNETES_POD": "short.yaml"}, "DeadlineExceeded"),
    "an init container fails": (
        SLEEP,
        nothing,
        {"CARAML_KUBERNETES_POD": "init.yaml"},
        "container fetch exited with 3",
    ),
    "deleted by hand": (SLEEP, delete_the_job, {}, "Deleted"),
    "no such image": (SLEEP, nothing, {**FEW, "CARAML_KUBERNETES_IMAGE": "localhost/none:1"}, "Image"),
    "no such node": (SLEEP, nothing, {**FEW, "CARAML_KUBERNETES_NODE_SELECTOR": "kind=none"}, "didn't match"),
    "too many cores": (SLEEP, nothing, {**FEW, "CARAML_KUBERNETES_CPUS": "640"}, "Insufficient cpu"),
    "no such claim": (
        SLEEP,
        nothing,
        {**FEW, "CARAML_KUBERNETES_CLAIM": "none", "CARAML_KUBERNETES_CLAIM_PATH": "/"},
        'persistentvolumeclaim "none" not found',
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_kubernetes_ends_is_a_failed_row(name, cluster, checkout, jube_command):
    program, end, environ, words = ENDS[name]
    run_in_place_of_training(checkout, program)
    short = {"spec": {**FIELDS["spec"], "activeDeadlineSeconds": 5, "terminationGracePeriodSeconds": 2}}
    (checkout / "short.yaml").write_text(yaml.safe_dump(short))
    init = {"name": "fetch", "image": f"{IMAGE}:1", "command": ["sh", "-c", "exit 3"]}
    (checkout / "init.yaml").write_text(yaml.safe_dump({"spec": {**FIELDS["spec"], "initContainers": [init]}}))
    sweep = Sweep(jube_command, checkout, cluster, **environ)
    end(sweep)
    done = sweep.wait()
    assert done.returncode == 1, done.stdout + done.stderr
    assert sweep.result(0)["status"] == "failed"
    assert words in sweep.result(0)["error"]
    assert not sweep.left_behind()
