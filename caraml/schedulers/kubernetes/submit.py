"""Submit the point of a folder as a Job of Kubernetes.

It makes the objects from the values of the point and jube/include/pod.yaml.in, and leaves in the folder:
`kubernetes.yaml`, the submitted objects, and `job.id`, the name, namespace and context of the Job.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common.node.programs import words
from benchmarks.common.node.provenance import commit, has_changes
from caraml.errors import SchedulerError, SiteError
from caraml.installation import checkout
from caraml.plan.job import POINT, Point
from caraml.plan.job import job as values_of
from caraml.plan.site import Site
from caraml.schedulers.kubernetes.kubectl import NAME, PART, Kubectl, Object
from jpwr.limits.kept import FOLDER
from jpwr.limits.setting import OPTIONS
from record.files import RecordError
from results.files.typed_files import read_mapping, untyped

JOB_ID, OBJECTS = "job.id", "kubernetes.yaml"
LONGEST_NAME = 50  # leaves room for a pod's suffix in a label of 63 characters
SHARED = "ReadWriteMany"


def submit(folder: Path, site: Site) -> None:
    """Create the objects of the point in a folder.

    `job.id` is written first: if it stays unknown whether Kubernetes has the Job, `caraml wait` finds out, and nothing
    is submitted twice. Raises SiteError for unusable settings of the site, and if Kubernetes refuses the objects.
    """
    check_claim(site, {"the sweep": str(folder)})
    file, kubectl = folder / OBJECTS, Kubectl(site.kubernetes_context, site.kubernetes_namespace)
    found = write_objects(folder, site)
    if len(found) > 1 and SHARED not in (modes := access_modes(kubectl, site)):
        raise SiteError(f"several nodes need a claim with {SHARED}, but {site.kubernetes_claim} has {modes}")
    context = site.kubernetes_context or Kubectl().try_to("config", "current-context").stdout.strip()
    name = found[-1]["metadata"]["name"]
    (folder / JOB_ID).write_text(f"{name};{site.kubernetes_namespace};{context}")
    try:
        done = kubectl.try_to("create", "-f", str(file), "-o", "jsonpath={.metadata.namespace} ")
        if not done.returncode:
            (folder / JOB_ID).write_text(f"{name};{done.stdout.split()[0]};{context}")
            return
        delete(kubectl, file)
    except SchedulerError as error:
        print(f"submit: {error}; 'caraml wait' finds out whether it has the job", file=sys.stderr)
        return
    (folder / JOB_ID).unlink()
    raise SiteError(f"Kubernetes refused the job: {words(done)}")


def delete(kubectl: Kubectl, file: Path) -> None:
    """Delete the objects of a file, and rename it; raises SchedulerError if Kubernetes does not answer."""
    kubectl("delete", "--ignore-not-found", "--wait=false", "-f", str(file))
    file.rename(file.with_suffix(".deleted.yaml"))


def write_objects(folder: Path, site: Site) -> list[Object]:
    """Write the objects of the point in a folder, and return them, the Job last.

    Raises SiteError for unusable settings of the site.
    """
    import yaml

    check_claim(site, {})
    point = values_of(Point.read(folder / POINT))
    values = _values(point, site, folder)
    text = (checkout() / "jube/include/pod.yaml.in").read_text(encoding="utf-8")
    text = re.sub("#([A-Z_]+)#", lambda found: json.dumps(values[found[1]], ensure_ascii=False), text)
    service, job = map(_without_nulls, yaml.safe_load_all(text))
    if site.kubernetes_pod:
        job = _with_fields(job, Path(site.kubernetes_pod), folder / OBJECTS)
    found = [service, job] if point["job_nodes"] > 1 else [job]
    (folder / OBJECTS).write_text(yaml.safe_dump_all(found, sort_keys=False, width=120), encoding="utf-8")
    return found


def check_claim(site: Site, folders: dict[str, str]) -> None:
    """Raise SiteError unless the site states a claim, with the checkout, the data and these folders on it."""
    claim, path = site.kubernetes_claim, site.kubernetes_claim_path
    if not claim or not path:
        raise SiteError(
            f"{'kubernetes_claim_path' if claim else 'kubernetes_claim'} in site.yaml is empty, but pods share the "
            f"checkout with this machine: create a PersistentVolumeClaim, or ask for one, with {SHARED} for several "
            "nodes, mount it here, and state its name and this folder as kubernetes_claim and kubernetes_claim_path"
        )
    for what, folder in {"the checkout": str(checkout()), "data_folder": site.data_folder, **folders}.items():
        if not f"{folder}/".startswith(f"{path.rstrip('/')}/"):
            raise SiteError(
                f"{what} is {folder}, which is not on the claim: move it below {path}, or correct kubernetes_claim_path"
            )


def access_modes(kubectl: Kubectl, site: Site) -> str:
    """Return the access modes of the site's claim; raises SiteError if the cluster has no such claim."""
    done = kubectl.try_to("get", "pvc", site.kubernetes_claim, "-o", "jsonpath={.spec.accessModes[*]}")
    if done.returncode:
        raise SiteError(f"kubernetes_claim is {site.kubernetes_claim}: {words(done)}: 'kubectl get pvc' lists yours")
    return done.stdout


def _without_nulls(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_nulls(value) for key, value in node.items() if value is not None}
    if isinstance(node, list):
        return [_without_nulls(item) for item in node if not (isinstance(item, dict) and None in item.values())]
    return node


def _with_fields(job: Object, fields: Path, file: Path) -> Object:
    """Return the Job with the site's own fields of a pod, merged by the rules of Kubernetes."""
    try:
        patch = json.dumps({"spec": {"template": untyped(read_mapping(fields, "fields of a pod"))}})
    except RecordError as error:
        raise SiteError(f"kubernetes_pod: {error}") from error
    file.write_text(json.dumps(job), encoding="utf-8")
    return Kubectl().json("patch", "--local", "-f", str(file), "--type=strategic", "-p", patch)


def _values(point: Mapping[str, Any], site: Site, folder: Path) -> dict[str, Any]:
    """Return the values for the template, by name; raises SiteError for unusable settings of the site."""
    place = "-".join(part.partition("_")[0] for part in folder.parts[-3:-1])
    readable = re.sub(r"[^a-z0-9]+", "-", f"{point['benchmark']}-{place}".lower())[: LONGEST_NAME - 7].strip("-")
    name = f"{readable}-{secrets.token_hex(3)}"
    resource = point["kubernetes_resource"]
    if point["vendor"] != "none" and not resource:
        raise SiteError(
            "the system's block has no kubernetes_resource for a pod to request: add it in systems.yaml if the "
            "cluster offers its devices as a resource"
        )
    cpus, devices = str(point["cpus_per_task"]), {resource: str(point["devices_on_node"])} if resource else {}
    hours, minutes, seconds = map(int, point["time_limit"].split(":"))
    nodes = [f"{name}-{index}.{name}" for index in range(point["job_nodes"])] if point["job_nodes"] > 1 else []
    return {
        "NAME": name,
        "QUEUE": site.kubernetes_queue or None,
        "FOLDER": str(folder),
        "PATIENCE_S": f"{60 * float(site.kubernetes_patience_min):g}",
        "COMPLETION_MODE": "Indexed" if nodes else None,  # versions before 1.24 have none
        "NODES": point["job_nodes"],
        "TIME_LIMIT_S": (hours * 60 + minutes) * 60 + seconds,
        "NODE_SELECTOR": dict(text.split("=", 1) for text in site.kubernetes_node_selector) or None,
        "USER": os.getuid(),
        "GROUP": os.getgid(),
        "IS_NOT_ROOT": os.getuid() != 0,
        "NOT_WITH": {PART: "caraml"} if point["is_exclusive"] == "yes" else {NAME: name},
        "IMAGE": image_of(point["image"], site),
        "RESOURCES": {"cpu": site.kubernetes_cpus or cpus, "memory": site.kubernetes_memory or None} | devices,
        "IMAGE_NAME": point["image"],
        "DATA_FOLDER": site.data_folder,
        "COMMIT": commit(),  # a pod may lack git
        "CHANGED": str(has_changes()),
        "INTERFACE": site.network_interface or None,
        "MASTER_ADDR": nodes[0] if nodes else None,
        "NAMES_OF_NODES": ",".join(nodes) or None,
        "CLAIM": site.kubernetes_claim,
        "CLAIM_PATH": site.kubernetes_claim_path,
        "LIMITS": "limits" if {*OPTIONS.values()} & {*point["sampler_flags"].split()} else None,
        "LIMITS_FOLDER": FOLDER,
    }


def image_of(name: str, site: Site) -> str:
    """Return the address of an image of containers/images.yaml; raises SiteError if the site does not state it."""
    if not site.kubernetes_image and not site.kubernetes_registry:
        raise SiteError(
            f"a pod needs the image {name}: give site.yaml a kubernetes_registry that has it, or for one system a "
            "kubernetes_image"
        )
    return site.kubernetes_image or f"{site.kubernetes_registry.rstrip('/')}/{name}"
