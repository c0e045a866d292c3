"""A small Kubernetes for tests: its API for kubectl, and pods as processes, each in namespaces of its own.

A pod sees the system's programs, the test's Python as that of its image, and its volumes: nothing else of this machine.
Nodes are names with labels, taints and devices. What the tests do to pods and nodes is said as Kubernetes says it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

VERSION = {"major": "1", "minor": "32", "gitVersion": "v1.32.0-small", "platform": "linux/amd64"}
CORE = {"pods": "Pod", "services": "Service", "configmaps": "ConfigMap", "events": "Event", "nodes": "Node"}
CORE |= {"namespaces": "Namespace", "persistentvolumeclaims": "PersistentVolumeClaim"}
GROUPS = {"batch": {"jobs": "Job"}, "authorization.k8s.io": {"selfsubjectaccessreviews": "SelfSubjectAccessReview"}}
PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[\w.]+)/v1)(?:/namespaces/(?P<namespace>[\w-]+))?/(?P<kind>\w+)"
    r"(?:/(?P<name>[\w.-]+))?(?P<log>/log)?"
)
POLL_S = 0.05
# Each pod: a root of its own, with the system's programs, what its image adds, and its volumes.
POD = r"""
set -e
root=$1 hosts=$2 image=$3 mounts=$4; shift 4
mount -t tmpfs none "$root"
for name in usr bin sbin lib lib64 etc dev sys opt; do
    [ -e /$name ] || continue
    if [ -L /$name ]; then cp -P /$name "$root/"; continue; fi
    mkdir "$root/$name"
    mount --rbind /$name "$root/$name"
done
mkdir -p "$root/proc" "$root/tmp" "$root/run"
chmod 1777 "$root/tmp"
mount -t proc proc "$root/proc"
for name in $image; do mkdir -p "$root$name"; mount --bind "$name" "$root$name"; done
mount --bind "$hosts" "$root/etc/hosts"
while read -r source target; do
    mkdir -p "$root$target"
    mount --bind "$source" "$root$target"
done <"$mounts"
cd /
exec chroot --userspec="$POD_USER" "$root" "$@"
"""
HOLD = """
import fcntl, socket, struct, time
name = struct.pack("16sh", b"lo", 0x1)  # up
fcntl.ioctl(socket.socket(), 0x8914, name)
print("up", flush=True)
time.sleep(1e6)
"""


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


class Cluster:
    """What it holds, and what makes it go on; one lock for all."""

    def __init__(self, folder: Path, python: Path, nodes: int) -> None:
        self.folder, self.python = folder, python
        self.image = " ".join(str(path) for path in (python, Path(sys.base_prefix)) if path.parts[1] != "usr")
        self.lock = threading.RLock()
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}  # by kind and name, of one namespace
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ends_s: dict[str, float] = {}  # when pods that are to end are killed
        self.claims: dict[str, Path] = {}
        self.images = {"registry.example.org/caraml/cpu": "sha256:" + "c0ffee" * 10 + "c0ff"}
        self.refused: dict[str, str] = {}  # by kind, why none is taken
        self.refused_pods = ""  # why no pod of a Job is allowed
        self.without_rights = False
        self.lost_nodes: set[str] = set()
        self.is_down = False
        self.serial = 0
        self.stopped = threading.Event()
        self.network = subprocess.Popen(
            ["unshare", "--net", sys.executable, "-c", HOLD], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        assert self.network.stdout is not None and self.network.stdout.readline() == b"up\n"
        for index in range(nodes):
            name = f"node-{index}"
            self.objects["nodes", name] = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "spec": {},
                "status": {"allocatable": {"cpu": "4", "example.org/device": "1"}},
            }

    def add(self, kind: str, found: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        self.serial += 1
        found["metadata"] |= {"uid": f"uid-{self.serial}", "creationTimestamp": now(), **metadata}
        found["metadata"].setdefault("namespace", "default")
        self.objects[kind, found["metadata"]["name"]] = found
        return found

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [found for (one, _), found in self.objects.items() if one == kind]

    def event(self, about: dict[str, Any], reason: str, message: str) -> None:
        name = f"{about['metadata']['name']}.{self.serial}"
        involved = {"kind": about["kind"], "name": about["metadata"]["name"], "namespace": "default"}
        told = {"involvedObject": involved, "type": "Warning", "reason": reason, "message": message}
        self.add(
            "events", {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "lastTimestamp": now(), **told}
        )

    # --- what goes on by itself

    def go_on(self) -> None:
        while not self.stopped.wait(POLL_S):
            with self.lock:
                for job in self.all("jobs"):
                    self._control(job)
                for pod in self.all("pods"):
                    self._schedule(pod)
                    self._start(pod)
                    self._look_after(pod)

    def _control(self, job: dict[str, Any]) -> None:
        """As the Job's controller does."""
        spec, status, name = job["spec"], job.setdefault("status", {}), job["metadata"]["name"]
        if spec.get("suspend") or any(one["type"] in ("Complete", "Failed") for one in status.get("conditions", [])):
            return
        status.setdefault("startTime", now())
        pods = [pod for pod in self.all("pods") if pod["metadata"]["labels"].get("job-name") == name]
        if self.refused_pods:
            if not any(one["involvedObject"]["name"] == name for one in self.all("events")):
                self.event(job, "FailedCreate", self.refused_pods)
            return
        if not status.get("active") and not pods:
            for index in range(spec["completions"]):
                self._make_pod(job, index)
            status["active"] = spec["completions"]
            return
        phases = [pod["status"]["phase"] for pod in pods]
        gone = status.get("active", 0) - len(pods)
        if "Failed" in phases or gone > 0:
            self._end_job(job, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
            for pod in pods:
                if pod["status"]["phase"] not in ("Failed", "Succeeded"):
                    self.delete("pods", pod["metadata"]["name"])
        elif phases and set(phases) == {"Succeeded"}:
            self._end_job(job, "Complete", "", "")

    def _end_job(self, job: dict[str, Any], kind: str, reason: str, message: str) -> None:
        told = {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now()}
        job["status"].setdefault("conditions", []).append(told)

    def _make_pod(self, job: dict[str, Any], index: int) -> None:
        template, name = json.loads(json.dumps(job["spec"]["template"])), job["metadata"]["name"]
        indexed = job["spec"].get("completionMode") == "Indexed"
        pod_name = f"{name}-{index}-{self.serial:05d}" if indexed else f"{name}-{self.serial:05d}"
        template["spec"]["hostname"] = f"{name}-{index}" if indexed else pod_name
        if indexed:
            env = template["spec"]["containers"][0].setdefault("env", [])
            env.append({"name": "JOB_COMPLETION_INDEX", "value": str(index)})
        labels = {**template["metadata"]["labels"], "job-name": name}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod_name}, "spec": template["spec"]}
        self.add("pods", {**pod, "status": {"phase": "Pending"}}, labels=labels)

    def _schedule(self, pod: dict[str, Any]) -> None:
        if "nodeName" in pod["spec"] or pod["status"]["phase"] != "Pending":
            return
        why = {}
        for node in self.all("nodes"):
            reason = self._unfit(pod, node)
            if not reason:
                pod["spec"]["nodeName"] = node["metadata"]["name"]
                pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
                return
            why[reason] = why.get(reason, 0) + 1
        message = f"0/{sum(why.values())} nodes are available: {', '.join(f'{n} {text}' for text, n in why.items())}."
        told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        pod["status"]["conditions"] = [told]

    def _unfit(self, pod: dict[str, Any], node: dict[str, Any]) -> str:
        spec, name = pod["spec"], node["metadata"]["name"]
        if any(node["metadata"]["labels"].get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
            return "node(s) didn't match Pod's node affinity/selector"
        tolerated = {one.get("key") for one in spec.get("tolerations", [])}
        if any(taint["key"] not in tolerated for taint in node["spec"].get("taints", [])):
            return "node(s) had untolerated taint"
        there = [
            other
            for other in self.all("pods")
            if other["spec"].get("nodeName") == name and other["status"]["phase"] in ("Pending", "Running")
        ]
        for term in spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]:
            wanted = term["labelSelector"]["matchLabels"].items()
            if any(wanted <= other["metadata"]["labels"].items() for other in there):
                return "node(s) didn't satisfy pod anti-affinity rules"
        for resource, amount in spec["containers"][0]["resources"]["requests"].items():
            taken = sum(
                int(other["spec"]["containers"][0]["resources"]["requests"].get(resource, 0)) for other in there
            )
            if resource != "memory" and taken + int(amount) > int(node["status"]["allocatable"].get(resource, 0)):
                return f"Insufficient {resource}"
        return ""

    def _start(self, pod: dict[str, Any]) -> None:
        name, spec, status = pod["metadata"]["name"], pod["spec"], pod["status"]
        if "nodeName" not in spec or name in self.processes or status["phase"] != "Pending":
            return
        status.setdefault("startTime", now())
        container = spec["containers"][0]
        if container["image"] not in self.images:
            waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{container["image"]}"'}
            status["containerStatuses"] = [{"name": container["name"], "state": {"waiting": waiting}}]
            return
        mounts = self._mounts(pod)
        if mounts is None:
            return
        home = self.folder / name
        home.mkdir()
        (home / "root").mkdir()
        (home / "mounts").write_text("".join(f"{source} {target}\n" for source, target in mounts))
        names = [one["spec"]["hostname"] for one in self.all("pods")]
        subdomain = spec.get("subdomain", "nowhere")
        (home / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"127.0.0.1 {one} {one}.{subdomain}\n" for one in names)
        )
        environ = {one["name"]: one.get("value", "") for one in container["env"]}
        user = spec["securityContext"]
        environ |= {"POD_USER": f"{user['runAsUser']}:{user['runAsGroup']}", "HOSTNAME": spec["hostname"]}
        environ["PATH"] = f"{self.python}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        inside = ["sh", "-c", POD, "pod", str(home / "root"), str(home / "hosts"), self.image, str(home / "mounts")]
        command = container["command"]
        named = ["sh", "-c", 'hostname "$0" && exec "$@"', spec["hostname"], *inside, *command]
        spaces = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", *named]
        log = (home / "log").open("wb")
        self.processes[name] = subprocess.Popen(
            ["nsenter", f"--net=/proc/{self.network.pid}/ns/net", *spaces],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        log.close()
        status["phase"] = "Running"
        status["containerStatuses"] = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": f"{container['image']}@{self.images[container['image']]}",
                "state": {"running": {"startedAt": now()}},
            }
        ]

    def _mounts(self, pod: dict[str, Any]) -> list[tuple[Path, str]] | None:
        """Folders of this machine with where they are in the pod; None while one is missing."""
        sources = {}
        for volume in pod["spec"]["volumes"]:
            source = Path(tempfile.mkdtemp(dir=self.folder, prefix=f"{volume['name']}-"))
            source.chmod(0o777)
            if "configMap" in volume:
                found = self.objects.get(("configmaps", volume["configMap"]["name"]))
                if found is None:
                    return None
                for name, packed in found["binaryData"].items():
                    (source / name).write_bytes(base64.b64decode(packed))
            if "persistentVolumeClaim" in volume:
                name = volume["persistentVolumeClaim"]["claimName"]
                if name not in self.claims:
                    message = f'persistentvolumeclaim "{name}" not found'
                    pod["status"]["conditions"] = [
                        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
                    ]
                    del pod["spec"]["nodeName"]
                    return None
                source = self.claims[name]
            sources[volume["name"]] = source
        wanted = pod["spec"]["containers"][0]["volumeMounts"]
        found = [(sources[one["name"]], one["mountPath"]) for one in wanted]
        return sorted(found, key=lambda one: one[1])

    def _look_after(self, pod: dict[str, Any]) -> None:
        """As a node does: how a process ended, and whether its time is over."""
        name, status = pod["metadata"]["name"], pod["status"]
        process = self.processes.get(name)
        if process is None or status["phase"] != "Running" or pod["spec"]["nodeName"] in self.lost_nodes:
            return
        limit_s = pod["spec"].get("activeDeadlineSeconds", 1e9)
        if name not in self.ends_s and time.time() - _seconds(status["startTime"]) > limit_s:
            message = "Pod was active on the node longer than the specified deadline"
            self.end(pod, {"reason": "DeadlineExceeded", "message": message})
        if time.time() > self.ends_s.get(name, 1e12):
            self.tell(name, signal.SIGKILL)
        if process.poll() is None:
            return
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": now()}
        told = status.pop("killed_as", "")
        ended |= {"reason": told, "exitCode": 137} if told else {}
        status["containerStatuses"][0]["state"] = {"terminated": ended}
        status["phase"] = "Failed" if ended["exitCode"] or "reason" in status else "Succeeded"

    def end(self, pod: dict[str, Any], why: dict[str, str]) -> None:
        """As a node does: asked first, and killed when its grace is over."""
        name = pod["metadata"]["name"]
        pod["status"] |= why
        self.ends_s[name] = time.time() + pod["spec"]["terminationGracePeriodSeconds"]
        self.tell(name, signal.SIGTERM)

    def tell(self, name: str, number: int) -> None:
        """Send a signal to a pod's first process, the child of what made its namespaces; with that all others end."""
        process = self.processes[name]
        with suppress(OSError):
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), number)

    # --- what tests, and users, do

    def delete(self, kind: str, name: str) -> None:
        with self.lock:
            found = self.objects.pop((kind, name), None)
            if kind == "jobs" and found is not None:
                for pod in self.all("pods"):
                    if pod["metadata"]["labels"].get("job-name") == name:
                        self.delete("pods", pod["metadata"]["name"])
            if kind == "pods" and name in self.processes:
                self.tell(name, signal.SIGKILL)

    def pods_of(self, job: str) -> list[dict[str, Any]]:
        with self.lock:
            return [pod for pod in self.all("pods") if pod["metadata"]["labels"].get("job-name") == job]

    def kill_for_memory(self, pod: str) -> None:
        with self.lock:
            self.objects["pods", pod]["status"]["killed_as"] = "OOMKilled"
            self.tell(pod, signal.SIGKILL)

    def evict(self, pod: str) -> None:
        with self.lock:
            why = {"reason": "Evicted", "message": "The node was low on resource: memory."}
            self.end(self.objects["pods", pod], why)

    def lose_node(self, node: str) -> None:
        """It no longer answers: its pods are to be deleted, and nobody hears that they are."""
        with self.lock:
            self.lost_nodes.add(node)
            for pod in self.all("pods"):
                if pod["spec"].get("nodeName") == node and pod["status"]["phase"] == "Running":
                    self.tell(pod["metadata"]["name"], signal.SIGKILL)
                    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    def stop(self) -> None:
        self.stopped.set()
        for name in self.processes:
            self.tell(name, signal.SIGKILL)
        self.network.kill()
        for process in (*self.processes.values(), self.network):
            process.wait()
        assert self.network.stdout is not None
        self.network.stdout.close()


class _Handler(BaseHTTPRequestHandler):
    """The paths that kubectl asks for, by method."""

    protocol_version = "HTTP/1.1"
    cluster: Cluster

    def log_message(self, *arguments: Any) -> None:
        pass

    def _answer(self, found: Any, code: int = 200) -> None:
        is_text = isinstance(found, bytes)
        body = found if is_text else json.dumps(found).encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, code: int, reason: str, message: str) -> None:
        told = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reason,
            "message": message,
            "code": code,
        }
        self._answer(told, code)

    def _body(self) -> Any:
        """Of questions on rights, which come in a binary form, the words."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}"
        return {"words": body.decode(errors="replace")} if body.startswith(b"k8s\0") else json.loads(body)

    def _handle(self, method: str) -> None:
        body, url = self._body(), urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        with self.cluster.lock:
            if self.cluster.is_down:
                self.close_connection = True
                self.connection.close()
                return
            if known := _discovery(url.path):
                self._answer(known)
                return
            match = PATH.fullmatch(url.path)
            if match is None or match["kind"] not in KINDS:
                self._refuse(404, "NotFound", "the server could not find the requested resource")
                return
            getattr(self, f"_{method}")(match["kind"], match["name"], match["log"], body, query)

    def _get(self, kind: str, name: str, log: str, body: Any, query: dict[str, str]) -> None:
        if log:
            self._answer((self.cluster.folder / name / "log").read_bytes())
        elif name:
            found = self.cluster.objects.get((kind, name))
            self._answer(found) if found else self._refuse(404, "NotFound", f'{kind} "{name}" not found')
        else:
            wanted = dict(part.split("=") for part in query.get("labelSelector", "").split(",") if part)
            items = [
                one for one in self.cluster.all(kind) if wanted.items() <= one["metadata"].get("labels", {}).items()
            ]
            version = "batch/v1" if kind == "jobs" else "v1"
            self._answer({"kind": f"{KINDS[kind]}List", "apiVersion": version, "metadata": {}, "items": items})

    def _post(self, kind: str, name: str, log: str, body: Any, query: dict[str, str]) -> None:
        if kind == "selfsubjectaccessreviews":
            review = {
                "kind": "SelfSubjectAccessReview",
                "apiVersion": "authorization.k8s.io/v1",
                "metadata": {},
                "spec": {},
            }
            self._answer(review | {"status": {"allowed": not self.cluster.without_rights}}, 201)
        elif kind in self.cluster.refused:
            self._refuse(403, "Forbidden", self.cluster.refused[kind])
        elif (kind, body["metadata"]["name"]) in self.cluster.objects:
            self._refuse(409, "AlreadyExists", f'{kind} "{body["metadata"]["name"]}" already exists')
        else:
            self._answer(self.cluster.add(kind, body), 201)

    def _delete(self, kind: str, name: str, log: str, body: Any, query: dict[str, str]) -> None:
        if (kind, name) not in self.cluster.objects:
            self._refuse(404, "NotFound", f'{kind} "{name}" not found')
            return
        self.cluster.delete(kind, name)
        self._answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def do_GET(self) -> None:
        self._handle("get")

    def do_POST(self) -> None:
        self._handle("post")

    def do_DELETE(self) -> None:
        self._handle("delete")


KINDS = {**CORE, **{kind: name for kinds in GROUPS.values() for kind, name in kinds.items()}}


def _discovery(path: str) -> Any:
    """What there is, for kubectl."""
    if path == "/version":
        return VERSION
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        versions = {group: {"groupVersion": f"{group}/v1", "version": "v1"} for group in GROUPS}
        groups = [{"name": group, "versions": [one], "preferredVersion": one} for group, one in versions.items()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    known = {
        "/api/v1": ("v1", CORE),
        **{f"/apis/{group}/v1": (f"{group}/v1", kinds) for group, kinds in GROUPS.items()},
    }
    if path == "/openapi/v3":
        return {"paths": {name[1:]: {"serverRelativeURL": f"/openapi/v3{name}"} for name in known}}
    if path.startswith("/openapi/v3/") and path.removeprefix("/openapi/v3") in known:
        # Fields are checked by the server, which is told how strictly.
        parameters = [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in ("fieldValidation", "dryRun")
        ]
        version, kinds = known[path.removeprefix("/openapi/v3")]
        group = version.rpartition("/")[0]
        paths = {
            f"/{kind}/{{name}}": {
                "patch": {
                    "parameters": parameters,
                    "responses": {},
                    "x-kubernetes-group-version-kind": {"group": group, "version": "v1", "kind": name},
                }
            }
            for kind, name in kinds.items()
        }
        return {"openapi": "3.0.0", "info": {"title": "small", "version": "1"}, "paths": paths}
    if path not in known:
        return None
    version, kinds = known[path]
    resources = [
        {
            "name": kind,
            "singularName": name.lower(),
            "namespaced": kind not in ("nodes", "namespaces", "selfsubjectaccessreviews"),
            "kind": name,
            "verbs": ["create", "delete", "get", "list"],
        }
        for kind, name in kinds.items()
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


@contextmanager
def small_kubernetes(folder: Path, python: Path, nodes: int = 2) -> Iterator[tuple[Cluster, dict[str, str]]]:
    """A cluster, and the environment in which kubectl speaks to it; `python` is what the image adds to the system."""
    pods = folder / "pods"
    pods.mkdir(parents=True)
    cluster = Cluster(pods, python.resolve(), nodes)
    handler = type("Handler", (_Handler,), {"cluster": cluster})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    going: list[Callable[[], None]] = [cluster.go_on, server.serve_forever]
    threads = [threading.Thread(target=one, daemon=True) for one in going]
    for thread in threads:
        thread.start()
    configuration = folder / "kubeconfig"
    known = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "small", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "tester", "user": {}}],
        "contexts": [{"name": "small", "context": {"cluster": "small", "user": "tester"}}],
        "current-context": "small",
    }
    configuration.write_text(yaml.safe_dump(known))
    try:
        yield cluster, {**os.environ, "KUBECONFIG": str(configuration), "HOME": str(folder)}
    finally:
        cluster.stop()
        server.shutdown()
        server.server_close()
        threads[0].join()
