"""Check what the first Job in a cluster needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from caraml.check import BAD, GOOD, WARNING, Check
from caraml.errors import SchedulerError, SiteError
from caraml.installation import checkout
from caraml.plan.site import Site
from caraml.programs import words
from caraml.schedulers.kubernetes.kubectl import Kubectl
from caraml.schedulers.kubernetes.submit import image_of, is_below, tolerations
from results.files.systems import System

RIGHTS = (
    *(("create", kind) for kind in ("jobs.batch", "services", "configmaps")),
    *(("list", kind) for kind in ("jobs.batch", "pods", "events")),
    ("get", "pods/log"),
    ("delete", "jobs.batch"),
)
INDEXED_SINCE = (1, 24)


def check_cluster(block: System, site: Site, images: Sequence[str]) -> Iterator[Check]:
    """Yield a finding of each check, until the cluster does not answer."""
    kubectl = Kubectl(site.kubernetes_context, site.kubernetes_namespace)
    try:
        version = kubectl.json("version")["serverVersion"]
        yield from _version(version, block)
        yield from _rights(kubectl)
        yield from _images(site, images)
        yield from _storage(kubectl, site)
        yield from _nodes(kubectl, block, site)
        yield from _queue(kubectl, site)
    except (SchedulerError, KeyError) as error:
        to_do = "check that 'kubectl version' shows a server; see kubernetes_context in site.yaml"
        yield Check("Kubernetes", BAD, str(error), to_do)
    if not site.kubernetes_memory:
        yield Check("memory", WARNING, "a pod has no limit", "state kubernetes_memory, such as 64Gi, in site.yaml")


def _version(server: dict[str, Any], block: System) -> Iterator[Check]:
    yield Check("Kubernetes", GOOD, server["gitVersion"])
    numbers = tuple(int("".join(filter(str.isdigit, server[key])) or 0) for key in ("major", "minor"))
    most = max(map(int, block.devices_sweep.split()))
    if numbers < INDEXED_SINCE and most > block.devices_per_node:
        to_do = "choose the points of one node by CARAML_DEVICES"
        yield Check("several nodes", BAD, f"{server['gitVersion']} has no Indexed Jobs: 1.24 is the first", to_do)


def _rights(kubectl: Kubectl) -> Iterator[Check]:
    refused = [
        f"{verb} {kind}" for verb, kind in RIGHTS if kubectl.try_to("auth", "can-i", verb, kind).stdout.strip() == "no"
    ]
    if refused:
        to_do = "ask for these rights in the namespace, or state another kubernetes_namespace in site.yaml"
        yield Check("rights", BAD, f"you may not {', '.join(refused)}", to_do)
    else:
        yield Check("rights", GOOD, "Jobs can be created, read and deleted")


def _images(site: Site, images: Sequence[str]) -> Iterator[Check]:
    for name in images:
        try:
            yield Check("image", GOOD, f"{image_of(name, site)}; the first pod shows whether it exists")
        except SiteError as error:
            yield Check("image", BAD, str(error), "see docs/howto/kubernetes.md")


def _storage(kubectl: Kubectl, site: Site) -> Iterator[Check]:
    name, path = site.kubernetes_claim, site.kubernetes_claim_path
    if not name:
        found = "no claim: a ConfigMap carries the checkout to the pods, which make their data and log their files"
        yield Check("storage", GOOD, found, "for your own data, state kubernetes_claim in site.yaml")
        return
    done = kubectl.try_to("get", "persistentvolumeclaim", name, "-o", "jsonpath={.status.phase} {.spec.accessModes}")
    if done.returncode:
        yield Check("storage", BAD, words(done), "state another kubernetes_claim in site.yaml")
        return
    phase, _, modes = done.stdout.partition(" ")
    yield Check("storage", GOOD if phase == "Bound" else WARNING, f"claim {name} is {phase}")
    if "ReadWriteMany" not in modes:
        yield Check("storage", WARNING, f"claim {name} is {modes}", "points of several nodes need ReadWriteMany")
    for what, folder in (("the checkout", str(checkout())), ("data_folder", site.data_folder)):
        if not (path and is_below(folder, path)):
            to_do = "kubernetes_claim_path is the folder of this machine that is on the claim"
            yield Check("storage", BAD, f"{what}, {folder}, is not in {path or 'kubernetes_claim_path'}", to_do)


def _nodes(kubectl: Kubectl, block: System, site: Site) -> Iterator[Check]:
    labels = ",".join(site.kubernetes_node_selector)
    tolerated = {one["key"] for one in tolerations(site)}
    done = kubectl.try_to("get", "nodes", "-l", labels, "-o", "name")
    if done.returncode:
        yield Check("nodes", WARNING, f"cannot be listed: {words(done)}", "the first pod shows whether a node fits")
        return
    resource, number = block.kubernetes_resource, block.devices_per_node
    if not resource:
        resource, number = "cpu", int(site.kubernetes_cpus or 1)
    nodes = kubectl.json("get", "nodes", "-l", labels)["items"]
    fitting = [
        node["metadata"]["name"]
        for node in nodes
        if _number(node["status"].get("allocatable", {}).get(resource, "0")) >= number
        and all(
            taint["key"] in tolerated or taint["effect"] == "PreferNoSchedule"
            for taint in node["spec"].get("taints", [])
        )
    ]
    where = f" with {labels}" if labels else ""
    found = f"{len(fitting)} of {len(nodes)}{where} have {number} {resource} and only tolerated taints"
    to_do = "see kubernetes_node_selector and kubernetes_tolerations in site.yaml, and the system's block"
    yield Check("nodes", GOOD, found) if fitting else Check("nodes", BAD, found, to_do)


def _number(text: str) -> float:
    """Return an amount of devices or cores; cores can be in thousandths, such as 3500m."""
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def _queue(kubectl: Kubectl, site: Site) -> Iterator[Check]:
    name = site.kubernetes_queue
    if not name:
        return
    done = kubectl.try_to("get", "localqueues.kueue.x-k8s.io", name, "-o", "name")
    if done.returncode:
        yield Check("queue", BAD, words(done), "check that Kueue is in the cluster, and kubernetes_queue in site.yaml")
    else:
        yield Check("queue", GOOD, name)
