"""Objects that are submitted for a point, the command of each pod, and the results of the job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from caraml.errors import SiteError
from caraml.plan.site import Site
from caraml.schedulers.kubernetes import cluster, submit
from caraml.schedulers.kubernetes.submit import write_objects
from results.tests.builder import make_record
from tests.conftest import write_job
from tests.needs import PATH, need, package
from tests.waiting import PATIENCE_S, until

REPOSITORY = Path(__file__).resolve().parents[2]
POINT = {"vendor": "nvidia", "devices_per_node": 4, "cpus_per_task": 16, "kubernetes_resource": "nvidia.com/gpu"}
POINT |= {"image": "pytorch-nvidia-x86_64", "power_methods": "pynvml"}
SITE = Site(
    kubernetes_registry="registry.example.org/caraml/",
    data_folder="/data",
    kubernetes_claim="work",
    kubernetes_claim_path="/",
)


@pytest.fixture
def point(tmp_path):
    folder = tmp_path / "A_long_name_of_a_folder_that_a_user_has_chosen_for_its_runs" / "000001_benchmark" / "work"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def made(point):
    """A function that returns the objects of a point by kind."""

    def make(site: Site = SITE, nodes: int = 1, **planned: object) -> dict:
        write_job(point, "", 4 * nodes, **{**POINT, **planned})
        return {found["kind"]: found for found in write_objects(point, site)}

    return make


def pod_of(found: dict) -> dict:
    return found["Job"]["spec"]["template"]["spec"]


def environ_of(found: dict) -> dict:
    return {entry["name"]: entry["value"] for entry in pod_of(found)["containers"][0]["env"]}


def test_a_pod_gets_all_it_asks_for_on_the_claim_and_no_more(made, point):
    found = made(replace(SITE, kubernetes_memory="64Gi"))
    job = found["Job"]["spec"]
    assert (job["backoffLimit"], job["completions"], job["parallelism"], "completionMode" in job) == (0, 1, 1, False)
    assert (pod_of(found)["restartPolicy"], pod_of(found)["activeDeadlineSeconds"]) == ("Never", 60)
    [train] = pod_of(found)["containers"]
    assert train["resources"]["requests"] == {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "4"}
    assert train["resources"]["limits"] == train["resources"]["requests"]
    assert (train["workingDir"], train["command"]) == (str(point), ["bash", "job.sh"])
    assert train["image"] == "registry.example.org/caraml/pytorch-nvidia-x86_64"
    assert train["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert {mount["name"]: mount["mountPath"] for mount in train["volumeMounts"]} == {"shm": "/dev/shm", "claim": "/"}
    assert {"name": "claim", "persistentVolumeClaim": {"claimName": "work"}} in pod_of(found)["volumes"]
    assert environ_of(found)["CARAML_DATA_FOLDER"] == "/data"


def test_pods_of_several_nodes_know_each_other_and_are_never_on_one(made):
    found = made(nodes=2, tags=["shared"])
    job, service, name = found["Job"]["spec"], found["Service"]["spec"], found["Job"]["metadata"]["name"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 2, 2)
    assert service == {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": service["selector"]}
    assert service["selector"].items() <= job["template"]["metadata"]["labels"].items()
    assert pod_of(found)["subdomain"] == name == found["Service"]["metadata"]["name"]
    assert environ_of(found)["MASTER_ADDR"] == f"{name}-0.{name}"
    assert environ_of(found)["CARAML_NODES"] == f"{name}-0.{name},{name}-1.{name}"
    [term] = pod_of(found)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == {"app.kubernetes.io/instance": name}


@pytest.mark.parametrize(("user", "is_not_root"), [(1234, True), (0, False)])
def test_a_pod_runs_as_the_user_whose_files_are_on_the_claim(made, monkeypatch, user, is_not_root):
    monkeypatch.setattr(os, "getuid", lambda: user)
    found = pod_of(made())["securityContext"]
    assert (found["runAsUser"], found["runAsNonRoot"], "fsGroup" in found) == (user, is_not_root, False)


def test_the_sites_facts_reach_the_objects(made):
    facts = {"kubernetes_queue": "team", "kubernetes_patience_min": "1.5", "kubernetes_cpus": "8"}
    facts |= {"kubernetes_image": "other/image:1", "network_interface": "eth0"}
    site = replace(SITE, kubernetes_node_selector=("gpu=h100", "zone=a=b"), **facts)
    found = made(site)
    metadata, [train] = found["Job"]["metadata"], pod_of(found)["containers"]
    assert metadata["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert metadata["annotations"]["caraml/patience-s"] == "90"
    assert pod_of(found)["nodeSelector"] == {"gpu": "h100", "zone": "a=b"}
    assert (train["image"], train["resources"]["limits"]["cpu"]) == ("other/image:1", "8")
    assert environ_of(found)["NCCL_SOCKET_IFNAME"] == environ_of(found)["GLOO_SOCKET_IFNAME"] == "eth0"


@pytest.mark.parametrize(("nodes", "version"), [(1, "1.25"), (2, "1.36")])
def test_every_object_is_what_the_api_of_a_version_takes(made, nodes, version):
    validate = package("kubernetes_validate", "kubernetes-validate").validate
    site, limited = replace(SITE, kubernetes_queue="q"), "pynvml --power-limit 70%"
    for found in made(site, nodes, power_methods=limited).values():
        validate(found, version, strict=True)


def test_further_fields_of_a_site_join_those_of_a_pod(made, tmp_path):
    need("kubectl")
    file = tmp_path / "pod.yaml"
    train = {"name": "train", "resources": {"limits": {"rdma/ib": 1}}, "env": [{"name": "HOME", "value": "/home"}]}
    spec = {"securityContext": {"runAsUser": 5}, "containers": [train], "tolerations": [{"operator": "Exists"}]}
    spec["volumes"] = [{"name": "dev", "hostPath": {"path": "/dev"}}]
    file.write_text(json.dumps({"metadata": {"annotations": {"network": "fast"}}, "spec": spec}))
    found = made(replace(SITE, kubernetes_pod=str(file)))
    [train], spec = pod_of(found)["containers"], pod_of(found)
    assert found["Job"]["spec"]["template"]["metadata"]["annotations"] == {"network": "fast"}
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsGroup"]) == (5, os.getgid())
    assert train["resources"]["limits"] == {"cpu": "16", "nvidia.com/gpu": "4", "rdma/ib": 1}
    assert (environ_of(found)["HOME"], environ_of(found)["USER"]) == ("/home", "caraml")
    assert {volume["name"] for volume in spec["volumes"]} == {"shm", "claim", "dev"}


NOWHERE = {"kubernetes_claim": "work", "kubernetes_claim_path": "/elsewhere"}


@pytest.mark.parametrize(
    ("site", "words"),
    [
        ({"kubernetes_claim": ""}, "kubernetes_claim in site.yaml is empty.* create a PersistentVolumeClaim"),
        ({"kubernetes_claim_path": ""}, "kubernetes_claim_path in site.yaml is empty"),
        (NOWHERE, "the checkout is .*, which is not on the claim: move it below /elsewhere"),
        ({"kubernetes_claim_path": str(REPOSITORY)}, "data_folder is /data, which is not on the claim"),
        ({"kubernetes_registry": ""}, "a pod needs the image pytorch-nvidia-x86_64"),
        ({"kubernetes_pod": "/none.yaml"}, "kubernetes_pod: /none.yaml cannot be read as fields of a pod"),
    ],
)
def test_what_a_site_lacks_is_one_sentence(made, site, words):
    with pytest.raises(SiteError, match=words):
        made(replace(SITE, **site))


def test_devices_that_no_resource_hands_out_are_refused(made):
    with pytest.raises(SiteError, match="no kubernetes_resource"):
        made(vendor="graphcore", kubernetes_resource="")
    assert pod_of(made(vendor="none", kubernetes_resource=""))["containers"][0]["resources"]["limits"] == {"cpu": "16"}


@pytest.fixture
def kubectl(tmp_path, programs):
    """A function that lets kubectl answer `create` by a line of shell."""

    def answer(create: str) -> None:
        text = f'case "$*" in *" create "*) {create} ;; *" current-context"*) echo here ;; *" pvc "*) echo RWO ;; esac'
        programs("kubectl", f'echo "$*" >>{tmp_path}/calls\n{text}', rest=PATH)

    return answer


def test_a_job_that_is_refused_leaves_nothing_and_several_nodes_need_a_shared_claim(kubectl, made, point, tmp_path):
    kubectl("echo 'denied by policy' >&2; exit 1")
    made()
    with pytest.raises(SiteError, match="Kubernetes refused the job: denied by policy"):
        submit.submit(point, SITE)
    assert not (point / "job.id").exists()
    assert " delete " in (tmp_path / "calls").read_text()
    made(nodes=2)
    with pytest.raises(SiteError, match="several nodes need a claim with ReadWriteMany, but work has RWO"):
        submit.submit(point, SITE)


def test_a_job_of_which_it_is_unknown_whether_it_was_made_is_not_made_twice(kubectl, made, point, capsys):
    kubectl("exit 1 ;; *' delete '*) exit 1")
    made()
    submit.submit(point, SITE)
    assert (point / "job.id").exists()
    assert "'caraml wait' finds out" in capsys.readouterr().err


def start(point: Path, program: str, runs: int = 1, nodes: int = 1, **environ: str) -> subprocess.Popen[bytes]:
    """Start job.sh as in a pod."""
    (point / "node.sh").unlink(missing_ok=True)
    write_job(point, "", nodes, devices_per_node=1, runs_in_job=runs)
    (point / "node.sh").write_text(program)
    for run in range(2, runs + 1):
        (point / f"run_{run}").mkdir(exist_ok=True)
    known = {**os.environ, "CARAML_POD": "yes", **environ}
    return subprocess.Popen(["bash", "job.sh"], cwd=point, env=known, stderr=subprocess.PIPE)


def run(point: Path, program: str, *arguments: int, **environ: str) -> tuple[int, str]:
    """Return the exit code of job.sh, and what it writes to the pod's log."""
    with start(point, program, *arguments, **environ) as job:
        _, log = job.communicate(timeout=PATIENCE_S)
    return job.returncode, log.decode()


FAILS_IN_RUN_2 = 'echo $MASTER_PORT; pwd >&2; [ "$(basename $PWD)" = run_2 ] && exit 7; exit 0'


@pytest.mark.parametrize(("nodes", "node", "codes"), [(1, 0, ["0", "7", "0"]), (2, 0, ["0", "7"]), (2, 1, ["0", "7"])])
def test_runs_follow_each_other_and_of_several_nodes_the_first_that_fails_ends_all(point, nodes, node, codes):
    more = {"MASTER_ADDR": "localhost", "JOB_COMPLETION_INDEX": str(node)} if nodes > 1 else {}
    assert run(point, FAILS_IN_RUN_2, 3, nodes, **more) == (7, "")
    folders = [point, point / "run_2", point / "run_3"]
    files = [folder / f"exit_code.{node}" for folder in folders]
    assert [file.read_text().strip() for file in files if file.exists()] == codes
    name = "job" if node == 0 else "job.1"
    assert (point / f"{name}.err").read_text() == f"{point}\n"
    ports = {(folder / f"{name}.out").read_text() for folder in folders[: len(codes)]}
    assert len(ports) == len(codes)  # what is left of one run holds up no other


def test_a_signal_reaches_the_run_and_ends_the_pod(point):
    with start(point, "trap 'echo told; exit 9' TERM; touch up; while :; do sleep 0.05; done", runs=2) as job:
        until((point / "up").exists, "the run")
        job.send_signal(signal.SIGTERM)
        assert job.wait(PATIENCE_S) == 143
    assert ((point / "job.out").read_text(), (point / "exit_code.0").read_text()) == ("told\n", "143\n")
    assert not (point / "run_2" / "job.out").exists()


def test_a_pod_that_is_made_again_does_not_write_over_what_is_there(point):
    assert run(point, "echo first") == (0, "")
    code, log = run(point, "echo second")
    assert (code, (point / "job.out").read_text()) == (1, "first\n")
    assert "has a run already" in log


@pytest.mark.parametrize(
    ("codes", "status", "error"),
    [
        ({0: 0, 1: 3}, "failed", "ended with exit code 3: error: of node 1"),
        ({1: 137}, "failed", "ended by signal 9"),
        ({0: 0}, "unfinished", None),  # the caller reports how the Job ended
        ({}, "unfinished", None),
        ({0: 0, 1: 0}, "failed", "all nodes exited with 0 and wrote no usable record"),
    ],
)
def test_a_result_is_made_of_the_exit_codes_of_all_nodes(point, codes, status, error):
    planned = make_record(status="unfinished", error="")
    planned["layout"]["num_nodes"] = 2
    (point / "result.json").write_text(json.dumps(planned))
    (point / "job.1.err").write_text("error: of node 1\n")
    for node, code in codes.items():
        (point / f"exit_code.{node}").write_text(f"{code}\n")
    found = cluster._result(point, planned)
    assert found["status"] == status
    assert (error or "") in (found["error"] or "")
