"""The files of a point that was submitted to Kubernetes, in its folder.

`request.yaml`: what it asks of a cluster, written by the workflow. `kubernetes/*.yaml`: the objects that were
submitted, for people, too. `job.id`: the Job's name, namespace and context. `kubernetes/in_cluster` is there until the
objects have been removed.
"""

from __future__ import annotations

from pathlib import Path

from caraml.errors import SiteError
from caraml.kubernetes.kubectl import Kubectl
from caraml.kubernetes.objects import Request
from results.yaml_files import YamlError, read_yaml

REQUEST, JOB_ID = "request.yaml", "job.id"
OBJECTS, CHECKOUT, JOB, IN_CLUSTER = "kubernetes", "checkout.yaml", "job.yaml", "in_cluster"


def read_request(folder: Path) -> Request:
    """What the point in a folder asks for; raises SiteError when its file cannot be used."""
    file = folder / REQUEST
    try:
        found = read_yaml(file)
        hours, minutes, seconds = map(int, found.pop("time_limit").split(":"))
        found["exclusive"] = found["exclusive"] == "yes"
        if found.pop("data") == "synthetic":
            found["prepare"] = ""
        if found["resource"].startswith("$"):  # JUBE leaves the name of what a system's block does not state
            found["resource"] = ""
        return Request(**found, time_limit_s=(hours * 60 + minutes) * 60 + seconds)
    except (YamlError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise SiteError(f"{file} is not what a workflow writes ({error}): run the sweep again") from error


def job_id(name: str, where: Kubectl) -> str:
    """What is written to JOB_ID."""
    return f"{name};{where.namespace};{where.context}"


def read_job_id(text: str) -> tuple[str, Kubectl]:
    """The Job's name and where it is."""
    name, namespace, context = (*text.split(";"), "", "")[:3]
    return name, Kubectl(context, namespace)
