"""What is submitted for a point: objects, the checkout in them, and the site's facts that they take."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from caraml.errors import SiteError
from caraml.plan.site import Site, read_site
from caraml.schedulers.kubernetes import submit
from caraml.schedulers.kubernetes.submit import Place, Request, merged, objects, read_request, tolerations

REQUEST = Request(
    *("llm_training", 1, "nvidia", 4, "nvidia.com/gpu", 16, "00:30:00", "pytorch-nvidia-x86_64", "yes", 3, "text"),
    "make data",
)
PLACE = Place(
    "llm-000001-abc",
    "/work/caraml",
    "/work/caraml/jube/llm_run/000000/000001_benchmark/work",
    1234,
    100,
    "c0de",
    "False",
)
SITE = Site(kubernetes_registry="registry.example.org/caraml/", data_folder="/data")
CLAIM = {"kubernetes_claim": "work", "kubernetes_claim_path": "/work"}
WRITTEN = """
benchmark: "b"
nodes: 2
vendor: "amd"
devices_on_node: 8
resource: "amd.com/gpu"
cpus: 96
time_limit: "02:30:00"
image: "i"
exclusive: no
runs: 3
data: "text"
sampler: "rocm --clock 70%"
prepare: |-
  "/somewhere/python.sh" -m module --out "/d/text"
"""


def made(request=REQUEST, place=PLACE, archive=b"packed", further=None, **site):
    return {one["kind"]: one for one in objects(request, replace(SITE, **site), place, archive, further or {})}


def pod(**what):
    return made(**what)["Job"]["spec"]["template"]["spec"]


def container(**what):
    return pod(**what)["containers"][0]


def test_a_pod_gets_all_it_asks_for_and_no_more():
    resources = container(kubernetes_memory="64Gi")["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "4"}
    assert container(kubernetes_cpus="8")["resources"]["limits"]["cpu"] == "8"


def test_a_job_is_tried_once_and_ends_in_time():
    job = made()["Job"]["spec"]
    assert (job["backoffLimit"], job["completions"], job["parallelism"]) == (0, 1, 1)
    assert "completionMode" not in job  # versions before 1.24 have none
    assert pod()["restartPolicy"] == "Never"
    assert pod()["activeDeadlineSeconds"] == 1800
    assert job["activeDeadlineSeconds"] > 1800


def test_pods_of_several_nodes_know_each_other_and_are_never_on_one():
    found = made(request=replace(REQUEST, nodes=2, exclusive="no"))
    job, service = found["Job"]["spec"], found["Service"]["spec"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 2, 2)
    template = job["template"]
    assert service == {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": service["selector"]}
    assert service["selector"].items() <= template["metadata"]["labels"].items()
    environ = {one["name"]: one["value"] for one in template["spec"]["containers"][0]["env"]}
    assert template["spec"]["subdomain"] == PLACE.name == found["Service"]["metadata"]["name"]
    assert environ["MASTER_ADDR"] == "llm-000001-abc-0.llm-000001-abc"
    assert environ["CARAML_NODES"] == "llm-000001-abc-0.llm-000001-abc,llm-000001-abc-1.llm-000001-abc"
    [term] = template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == {"app.kubernetes.io/instance": PLACE.name}


def test_points_that_ask_to_be_alone_are_never_on_one_node():
    [term] = pod()["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == {"app.kubernetes.io/name": "caraml"}
    assert (
        term["labelSelector"]["matchLabels"].items() <= made()["Job"]["spec"]["template"]["metadata"]["labels"].items()
    )


@pytest.mark.parametrize(
    ("user", "site", "expected"),
    [
        (1234, {}, (1234, 100, True, 100)),
        (0, {}, (1000, 1000, True, 1000)),
        (1234, CLAIM, (1234, 100, True, None)),  # a claim's files keep their owners
        (0, CLAIM, (0, 0, False, None)),
        (1234, {"kubernetes_user": "5:6"}, (5, 6, True, 6)),
        (1234, {"kubernetes_user": "0"}, (0, 0, False, 0)),
    ],
)
def test_a_pod_is_nobodys_root_unless_the_files_or_the_site_say_so(user, site, expected):
    place = PLACE._replace(user=user, group=100 if user else 0)
    found = pod(place=place, **site)["securityContext"]
    assert (found["runAsUser"], found["runAsGroup"], found["runAsNonRoot"], found.get("fsGroup")) == expected
    security = container(place=place, **site)["securityContext"]
    assert security == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert "privileged" not in str(made())


def test_the_checkout_and_the_data_are_where_they_are_outside():
    mounts = {one["name"]: one["mountPath"] for one in container()["volumeMounts"]}
    assert mounts == {"shm": "/dev/shm", "checkout": "/caraml-checkout", "repo": "/work/caraml", "data": "/data"}
    assert {"name": "shm", "emptyDir": {"medium": "Memory"}} in pod()["volumes"]
    assert container()["command"][-2:] == ["--prepare", "make data"]
    mounts = {one["name"]: one["mountPath"] for one in container(archive=None, **CLAIM)["volumeMounts"]}
    assert mounts == {"shm": "/dev/shm", "storage": "/work"}
    assert PLACE.folder in container(archive=None, **CLAIM)["command"]
    assert "--prepare" not in container(archive=None, **CLAIM)["command"]


@pytest.mark.parametrize("where", [{}, CLAIM])
def test_a_pod_that_sets_limits_keeps_what_it_restores_on_its_node(where):
    for flags, is_mounted in (("pynvml --power-limit 70%", True), ("pynvml --clock 900", True), ("pynvml rapl", False)):
        found = pod(request=replace(REQUEST, sampler=flags), **where)
        assert ({"name": "limits", "mountPath": "/var/tmp"} in found["containers"][0]["volumeMounts"]) is is_mounted
        assert ("hostPath" in str(found["volumes"])) is is_mounted


def test_the_sites_facts_reach_the_objects():
    site = {
        "kubernetes_queue": "team",
        "kubernetes_node_selector": ["gpu=h100", "zone=a=b"],
        "kubernetes_tolerations": ["nvidia.com/gpu:NoSchedule"],
        "kubernetes_pull_secret": "secret",
        "kubernetes_patience_min": "1.5",
        "network_interface": "eth0",
    }
    job = made(place=PLACE._replace(namespace="ml"), **site)["Job"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert (job["metadata"]["namespace"], job["spec"]["suspend"]) == ("ml", True)
    assert job["metadata"]["annotations"]["caraml/patience-s"] == "90"
    spec = job["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"gpu": "h100", "zone": "a=b"}
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert spec["imagePullSecrets"] == [{"name": "secret"}]
    environ = {one["name"]: one["value"] for one in spec["containers"][0]["env"]}
    assert environ["NCCL_SOCKET_IFNAME"] == environ["GLOO_SOCKET_IFNAME"] == "eth0"
    assert (environ["CARAML_GIT_COMMIT"], environ["CARAML_GIT_DIRTY"]) == ("c0de", "False")
    assert spec["containers"][0]["image"] == "registry.example.org/caraml/pytorch-nvidia-x86_64"
    assert container(kubernetes_image="other/image:1")["image"] == "other/image:1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("team", {"key": "team", "operator": "Exists"}),
        ("team=a", {"key": "team", "operator": "Equal", "value": "a"}),
        ("a.b/c=d:NoExecute", {"key": "a.b/c", "operator": "Equal", "value": "d", "effect": "NoExecute"}),
        ("team=:NoSchedule", {"key": "team", "operator": "Equal", "value": "", "effect": "NoSchedule"}),
    ],
)
def test_a_toleration_is_written_as_a_taint(text, expected):
    assert tolerations(Site(kubernetes_tolerations=(text,))) == [expected]


def test_an_image_that_is_nowhere_is_one_sentence():
    with pytest.raises(SiteError, match="a pod needs the image pytorch-nvidia-x86_64"):
        made(kubernetes_registry="")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (
            "tolerations",
            "team:Never",
            "is 'team:Never', but must be KEY, KEY:EFFECT or KEY=VALUE:EFFECT, with NoSchedule",
        ),
        ("tolerations", ":NoSchedule", "is ':NoSchedule', but must be KEY"),
        ("node_selector", "gpu", "is 'gpu', but must be LABEL=VALUE"),
        ("user", "me", "is 'me', but must be numbers, such as 1000"),
        ("patience_min", "soon", "is 'soon', but must be a number from 0 on"),
        ("patience_min", "-1", "is '-1'"),
        ("patience_min", "nan", "is 'nan'"),
    ],
)
def test_what_a_site_cannot_mean_is_one_sentence(key, value, words):
    with pytest.raises(SiteError, match=f"kubernetes_{key} {words}"):
        read_site("CPU", environ={f"CARAML_KUBERNETES_{key.upper()}": value})


def test_devices_that_no_resource_hands_out_are_refused():
    with pytest.raises(SiteError, match="no kubernetes_resource"):
        made(request=replace(REQUEST, vendor="graphcore", resource=""))
    assert "limits" in container(request=replace(REQUEST, vendor="none", resource=""))["resources"]


def test_further_fields_of_a_site_join_those_of_a_pod():
    further = yaml.safe_load(
        """
        metadata: {annotations: {network: fast}}
        spec:
          hostNetwork: true
          containers:
            - name: train
              resources: {limits: {rdma/ib: 1}}
              env: [{name: HOME, value: /home}, {name: NEW, value: "1"}]
              securityContext: {privileged: true}
          volumes: [{name: dev, hostPath: {path: /dev}}]
        """
    )
    template = made(further=further)["Job"]["spec"]["template"]
    assert template["metadata"]["annotations"] == {"network": "fast"}
    [train] = template["spec"]["containers"]
    assert train["resources"]["limits"] == {"cpu": "16", "nvidia.com/gpu": "4", "rdma/ib": 1}
    environ = {one["name"]: one["value"] for one in train["env"]}
    assert (environ["HOME"], environ["NEW"], environ["USER"]) == ("/home", "1", "caraml")
    assert train["securityContext"]["privileged"] is True
    assert {one["name"] for one in template["spec"]["volumes"]} == {"shm", "checkout", "repo", "data", "dev"}
    assert merged([1], [2]) == [1, 2]
    assert merged("a", ["b"]) == ["b"]


def test_a_request_is_what_the_workflow_wrote(tmp_path):
    (tmp_path / "request.yaml").write_text(WRITTEN)
    found = read_request(tmp_path)
    assert (found.nodes, found.time_limit_s, found.exclusive, found.runs) == (2, 9000, "no", 3)
    assert found.prepare == '"/somewhere/python.sh" -m module --out "/d/text"'
    assert found.sampler == "rocm --clock 70%"
    (tmp_path / "request.yaml").write_text(WRITTEN.replace('"text"', '"synthetic"', 1))
    assert read_request(tmp_path).prepare == ""
    (tmp_path / "request.yaml").write_text(WRITTEN.replace("amd.com/gpu", "$kubernetes_resource"))
    assert read_request(tmp_path).resource == ""


@pytest.mark.parametrize("text", ["", "[]", "a: 1", WRITTEN.replace("02:30:00", "soon"), WRITTEN + "more: 1\n", "{"])
def test_a_request_that_was_changed_is_one_sentence(tmp_path, text):
    (tmp_path / "request.yaml").write_text(text)
    with pytest.raises(SiteError, match=r"request.yaml.*: a workflow does not write this, so run the sweep again"):
        read_request(tmp_path)


def test_an_archive_has_what_runs_in_a_pod_and_the_points_files(tmp_path):
    point = tmp_path / "work"
    point.mkdir()
    (point / "node.sh").write_text("true")
    repo = Path(submit.__file__).resolve().parents[3]
    with tarfile.open(fileobj=io.BytesIO(submit._archive(repo, point))) as tar:
        members = tar.getmembers()
    names = {f"/{member.name}" for member in members}
    for name in (
        "benchmarks/llm_training/__main__.py",
        "jpwr/cli.py",
        "ioprof/preload.c",
        "caraml/schedulers/kubernetes/pod.py",
    ):
        assert f"{repo}/{name}" in names
    assert str(point / "node.sh") in names
    assert {member.uid for member in members} == {0}
    assert not [name for name in names if "/tests/" in name or "__pycache__" in name]


def test_a_checkout_that_no_object_takes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(submit, "MOST_ARCHIVE_BYTES", 1000)
    with pytest.raises(SiteError, match=r"a ConfigMap takes 1: give site\.yaml a kubernetes_claim"):
        submit._archive(Path(submit.__file__).resolve().parents[3], tmp_path)


@pytest.mark.parametrize(
    ("path", "data", "words"),
    [
        ("", "/work/d", "kubernetes_claim needs kubernetes_claim_path"),
        ("/elsewhere", "/elsewhere/d", "the checkout is /work/caraml, which is not on the claim"),
        ("/work/cara", "/work/cara/d", "the checkout is /work/caraml, which is not on the claim"),
        ("/work", "/data", "data_folder is /data, which is not on the claim"),
    ],
)
def test_what_is_not_on_the_claim_is_one_sentence(path, data, words):
    site = replace(SITE, kubernetes_claim="work", kubernetes_claim_path=path, data_folder=data)
    with pytest.raises(SiteError, match=words):
        submit._check_claim(site, PLACE, needs_data=True)


@pytest.mark.parametrize("text", ["[1]", "spec: {", "kind: Pod\nspec: {}\n"])
def test_further_fields_that_are_none_of_a_pod_are_one_sentence(tmp_path, text):
    file = tmp_path / "pod.yaml"
    file.write_text(text)
    with pytest.raises(SiteError, match=f"kubernetes_pod: {file}"):
        submit._further(replace(SITE, kubernetes_pod=str(file)))


def test_a_jobs_name_is_one_that_a_cluster_takes():
    folder = Path("/x/A_very_long_name_of_a_folder_that_a_user_has_chosen_for_its_runs/000001_benchmark/work")
    names = {submit._name(REQUEST, folder) for _ in range(9)}
    assert len(names) == 9
    for name in names:
        assert len(name) <= submit.LONGEST_NAME
        assert all((part and part.isalnum() and part.islower()) or part.isdecimal() for part in name.split("-"))
