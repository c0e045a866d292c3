"""What is submitted for a point of a sweep, as objects of Kubernetes; nothing is read, and nothing asked.

`pod` is what one node does; `job` is what runs so many of them. JobSet or Kubeflow's Trainer would be another function
beside `job`, with the same pods.
"""

from __future__ import annotations

import base64
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from caraml.errors import SiteError
from caraml.site import Site

Object = dict[str, Any]

PART = "app.kubernetes.io/name"
NAME = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
FOLDER = "caraml/folder"  # annotation: where the point is that the Job belongs to
PATIENCE = "caraml/patience-s"  # annotation: for so long a pod may wait for a node while no other of ours runs
QUEUE = "kueue.x-k8s.io/queue-name"
CONTAINER = "train"
CHECKOUT_FOLDER, ARCHIVE = "/caraml-checkout", "checkout.tar.gz"
FORGOTTEN_AFTER_S = 7 * 24 * 3600  # a Job that nobody waits for
QUEUED_AT_MOST_S = 7 * 24 * 3600
GRACE_S = 60  # to write a record, between being told to end and being killed
TOLERATION = re.compile(r"(?P<key>[\w./-]*)(=(?P<value>[\w.-]*))?(:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?")


class Request(NamedTuple):
    """What a point asks of a cluster: one pod on each of its nodes."""

    benchmark: str
    nodes: int
    vendor: str
    devices_on_node: int
    resource: str  # what Kubernetes calls the devices; empty: none
    cpus: int
    time_limit_s: int
    image: str  # of containers/images.yaml
    exclusive: bool  # no other point on its nodes
    runs: int
    prepare: str  # makes the data; empty: none is needed


class Place(NamedTuple):
    """Where the point is on this machine, and who submits it."""

    name: str
    repo: str
    folder: str
    user: int
    group: int
    commit: str
    changed: str  # True or False, empty where it is not known
    namespace: str = ""  # empty: kubectl's own


def objects(request: Request, site: Site, place: Place, archive: bytes | None, further: Object) -> list[Object]:
    """All of a point; `archive` is the checkout where no storage has it, `further` the site's own fields of a pod."""
    found = [job(request, site, place, merged(pod(request, site, place), further))]
    if request.nodes > 1:
        found.insert(0, service(request, place))
    if archive is not None:
        found.insert(0, checkout(request, place, archive))
    return found


def job(request: Request, site: Site, place: Place, template: Object) -> Object:
    """So many pods, each on a node of its own; the first that fails ends all."""
    meta = _meta(request, place)
    meta["annotations"] = {FOLDER: place.folder, PATIENCE: f"{patience_s(site):g}"}
    spec: Object = {
        "backoffLimit": 0,
        "parallelism": request.nodes,
        "completions": request.nodes,
        # Of the Job with its time in the queue; the time limit of a run is its pod's.
        "activeDeadlineSeconds": QUEUED_AT_MOST_S + request.time_limit_s,
        "ttlSecondsAfterFinished": FORGOTTEN_AFTER_S,
        "template": template,
    }
    if request.nodes > 1:
        spec["completionMode"] = "Indexed"
    if site["kubernetes_queue"]:
        meta["labels"][QUEUE] = site["kubernetes_queue"]
        spec["suspend"] = True  # until Kueue admits it
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def patience_s(site: Site) -> float:
    """How long a pod may wait for a node; raises SiteError for no number of minutes."""
    try:
        found = 60.0 * float(site["kubernetes_patience_min"])
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise SiteError(f"kubernetes_patience_min is {site['kubernetes_patience_min']!r}: give a number of minutes")
    return found


def service(request: Request, place: Place) -> Object:
    """The names of a Job's pods, NAME-0.NAME and so on, known before they are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(request, place),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {NAME: place.name}},
    }


def checkout(request: Request, place: Place, archive: bytes) -> Object:
    """The code that a pod runs, where no storage has it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta(request, place),
        "binaryData": {ARCHIVE: base64.b64encode(archive).decode()},
    }


def _meta(request: Request, place: Place) -> Object:
    found: Object = {"name": place.name} | ({"namespace": place.namespace} if place.namespace else {})
    return found | {"labels": {PART: "caraml", NAME: place.name, COMPONENT: request.benchmark.replace("_", "-")}}


def pod(request: Request, site: Site, place: Place) -> Object:
    """One node's part: a template of a pod."""
    own_checkout = not site["kubernetes_claim"]
    volumes, mounts = _volumes(site, place)
    resources = {"cpu": site["kubernetes_cpus"] or str(request.cpus)}
    if site["kubernetes_memory"]:
        resources["memory"] = site["kubernetes_memory"]
    if request.vendor != "none" and not request.resource:
        raise SiteError(
            "the system's block has no kubernetes_resource, which a pod would ask for: its devices are handed out in "
            "another way, for which no template is written"
        )
    if request.resource:
        resources[request.resource] = str(request.devices_on_node)
    start = f'cd "$0" && PYTHONPATH={shlex.quote(place.repo)}"${{PYTHONPATH:+:$PYTHONPATH}}" exec "$@"'
    program = ["python3", "-m", "caraml.kubernetes.pod", "--runs", str(request.runs)]
    if own_checkout:
        start = f"python3 -m tarfile -e {CHECKOUT_FOLDER}/{ARCHIVE} / && {start}"
        program += ["--parcel", *(["--prepare", request.prepare] if request.prepare else [])]
    container: Object = {
        "name": CONTAINER,
        "image": image_of(request.image, site),
        "command": ["bash", "-c", start, place.folder, *program],
        "env": [{"name": name, "value": value} for name, value in _environment(request, site, place).items()],
        "resources": {"requests": resources, "limits": dict(resources)},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": mounts,
    }
    spec: Object = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": request.time_limit_s,
        "terminationGracePeriodSeconds": GRACE_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _security(site, place),
        "affinity": _apart(request, place),
        "containers": [container],
        "volumes": volumes,
    }
    if request.nodes > 1:
        spec["subdomain"] = place.name
    if site["kubernetes_node_selector"]:
        spec["nodeSelector"] = dict(pair(text) for text in site["kubernetes_node_selector"])
    if site["kubernetes_tolerations"]:
        spec["tolerations"] = [toleration(text) for text in site["kubernetes_tolerations"]]
    if site["kubernetes_pull_secret"]:
        spec["imagePullSecrets"] = [{"name": site["kubernetes_pull_secret"]}]
    return {"metadata": {"labels": _meta(request, place)["labels"]}, "spec": spec}


def image_of(name: str, site: Site) -> str:
    """Where an image of containers/images.yaml is; raises SiteError when the site does not say."""
    if site["kubernetes_image"]:
        return str(site["kubernetes_image"])
    if not site["kubernetes_registry"]:
        raise SiteError(
            f"a pod needs the image {name}: give site.yaml a kubernetes_registry that has it, or for one system a "
            "kubernetes_image"
        )
    return f"{site['kubernetes_registry'].rstrip('/')}/{name}"


def _volumes(site: Site, place: Place) -> tuple[list[Object], list[Object]]:
    """Folders are where they are on this machine: on the claim, or empty ones that the checkout is unpacked to."""
    found: list[tuple[str, str, Object]] = [("shm", "/dev/shm", {"emptyDir": {"medium": "Memory"}})]
    if site["kubernetes_claim"]:
        claim = {"persistentVolumeClaim": {"claimName": site["kubernetes_claim"]}}
        found.append(("storage", site["kubernetes_claim_path"], claim))
    else:
        found.append(("checkout", CHECKOUT_FOLDER, {"configMap": {"name": place.name}}))
        wanted = {"repo": place.repo, "point": place.folder, "data": site["data_folder"]}
        for name, path in wanted.items():
            if not any(is_below(path, other) for _, other, _ in found):
                found.append((name, path, {"emptyDir": {}}))
    volumes = [{"name": name, **source} for name, _, source in found]
    mounts = [{"name": name, "mountPath": path} for name, path, _ in found]
    return volumes, mounts


def is_below(path: str, folder: str) -> bool:
    """Is a path that of a folder, or of something in it?"""
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def _environment(request: Request, site: Site, place: Place) -> dict[str, str]:
    found = {
        "PYTHONUNBUFFERED": "1",
        "HOME": "/tmp",  # a user of whom the image knows nothing has no other
        "USER": "caraml",
        "CARAML_IMAGE": request.image,
        "CARAML_DATA_FOLDER": site["data_folder"],
        "CARAML_RESERVED": "",  # nothing keeps others off the node, whatever the workflow's tags say
        "CARAML_GIT_COMMIT": place.commit,
        "CARAML_GIT_DIRTY": place.changed,
    }
    if not site["kubernetes_claim"]:
        found["CARAML_DATA_APART"] = "yes"
    if site["network_interface"]:
        found |= dict.fromkeys(("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"), site["network_interface"])
    if request.nodes > 1:
        names = [f"{place.name}-{index}.{place.name}" for index in range(request.nodes)]
        found |= {"MASTER_ADDR": names[0], "CARAML_NODES": ",".join(names)}
    return found


def _security(site: Site, place: Place) -> Object:
    """Files on a claim are those of who submits; without one any user will do, but for root."""
    if site["kubernetes_user"]:
        user, _, group = site["kubernetes_user"].partition(":")
        if not (user.isdecimal() and (group or user).isdecimal()):
            raise SiteError(f"kubernetes_user is {site['kubernetes_user']!r}: give numbers, such as 1000 or 1000:100")
        numbers = int(user), int(group or user)
    elif place.user or site["kubernetes_claim"]:
        numbers = place.user, place.group
    else:
        numbers = 1000, 1000
    found = {
        "runAsUser": numbers[0],
        "runAsGroup": numbers[1],
        "runAsNonRoot": numbers[0] != 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    # Of a claim it would change the owner of all files.
    return found if site["kubernetes_claim"] else {**found, "fsGroup": numbers[1]}


def _apart(request: Request, place: Place) -> Object:
    """The sampler measures a whole node: two pods of a Job are never on one, nor two points that ask to be alone."""
    others = {PART: "caraml"} if request.exclusive else {NAME: place.name}
    term = {"labelSelector": {"matchLabels": others}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def pair(text: str) -> tuple[str, str]:
    """Of LABEL=VALUE; raises SiteError for anything else."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise SiteError(f"kubernetes_node_selector holds {text!r}: write LABEL=VALUE")
    return name, value


def toleration(text: str) -> Object:
    """Of KEY[=VALUE][:EFFECT], as kubectl writes a taint; raises SiteError for anything else."""
    found = TOLERATION.fullmatch(text)
    if not found or not found["key"]:
        raise SiteError(
            f"kubernetes_tolerations holds {text!r}: write KEY, KEY:EFFECT or KEY=VALUE:EFFECT, with NoSchedule, "
            "PreferNoSchedule or NoExecute"
        )
    parts: Object = {"key": found["key"], "operator": "Exists"}
    if found["value"] is not None:
        parts |= {"operator": "Equal", "value": found["value"]}
    return parts | ({"effect": found["effect"]} if found["effect"] else {})


def merged(template: Any, further: Any) -> Any:
    """A template with further fields: maps are joined, named things in lists too, and other lists get longer."""
    if isinstance(template, Mapping) and isinstance(further, Mapping):
        return {**template, **{key: merged(template.get(key), value) for key, value in further.items()}}
    if isinstance(template, Sequence) and isinstance(further, list) and not isinstance(template, str):
        named = {one.get("name"): one for one in further if isinstance(one, Mapping) and "name" in one}
        known = [merged(one, named.pop(_name(one))) if _name(one) in named else one for one in template]
        return known + [
            one for one in further if not isinstance(one, Mapping) or _name(one) is None or _name(one) in named
        ]
    return further


def _name(one: Any) -> Any:
    return one.get("name") if isinstance(one, Mapping) else None
