"""Submit the point of the current folder as a Job of Kubernetes, for the workflow.

The workflow has written the point's resources to `request.yaml`. This command makes the objects from
jube/include/pod.yaml.in, and leaves in the folder: `kubernetes/*.yaml`, the submitted objects; `job.id`, the name,
namespace and context of the Job; and `kubernetes/in_cluster`, until the objects are removed.

python -m caraml.schedulers.kubernetes.submit SYSTEM
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import secrets
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from caraml.errors import CaramlError, SchedulerError, SiteError
from caraml.installation import checkout
from caraml.plan.site import TOLERATION, Site, read_site
from caraml.programs import words
from caraml.schedulers.kubernetes.kubectl import NAME, PART, Kubectl, Object, job_id
from jpwr.limits.kept import FOLDER
from jpwr.limits.setting import OPTIONS
from results.errors import RecordError
from results.files.typed_files import From0, From1, Text, like, no_keys, read_file
from results.files.workloads import Vendor

REQUEST, JOB_ID = "request.yaml", "job.id"
OBJECTS, CHECKOUT, JOB, IN_CLUSTER = "kubernetes", "checkout.yaml", "job.yaml", "in_cluster"
TEMPLATE = Path("jube/include/pod.yaml.in")
CHECKOUT_FOLDER, ARCHIVE = "/caraml-checkout", "checkout.tar.gz"
QUEUED_AT_MOST_S = 7 * 24 * 3600  # a week, for the queue of a busy cluster
# The part of the checkout that a pod needs.
CODE = (
    *("benchmarks", "jpwr", "ioprof", "caraml", "containers/run.sh", "jube/include/python.sh"),
    *("results/__init__.py", "results/errors.py", "results/record"),  # the types and formulas of a record
)
NOT_CODE = {"tests", "__pycache__", "images"}
MOST_ARCHIVE_BYTES = 700_000  # an object takes 1 MiB, in base64
LONGEST_NAME = 50  # leaves room for a pod's suffix in a label of 63 characters


@dataclass(frozen=True)
class Request:
    """Resources that a point requests from a cluster: one pod on each of its nodes."""

    benchmark: Text
    nodes: From1
    vendor: Vendor
    devices_on_node: From0
    resource: str  # name of the devices in Kubernetes; empty: none
    cpus: From1
    time_limit: Annotated[str, like(r"\d+:\d\d:\d\d", "such as 02:30:00")]
    image: Text  # of containers/images.yaml
    exclusive: Literal["yes", "no"]  # whether no other point may use its nodes
    runs: From1
    data: str
    prepare: str  # command that makes the data; empty: none is needed
    sampler: str = ""  # its flags

    @property
    def time_limit_s(self) -> int:
        """Time limit of the job, in seconds."""
        hours, minutes, seconds = map(int, self.time_limit.split(":"))
        return (hours * 60 + minutes) * 60 + seconds


@dataclass(frozen=True)
class PodFields:
    """Fields of a pod that a site adds to those of the suite."""

    metadata: Mapping[str, Any] = no_keys()
    spec: Mapping[str, Any] = no_keys()


class Place(NamedTuple):
    """Location of a point on this machine, and the user who submits it."""

    name: str
    repo: str
    folder: str
    user: int
    group: int
    commit: str
    changed: str  # True or False; empty if not known
    namespace: str = ""  # empty: kubectl's own


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return 1, after one sentence, if the point cannot be submitted."""
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 1:
        print("usage: python -m caraml.schedulers.kubernetes.submit SYSTEM", file=sys.stderr)
        return 2
    try:
        submit(Path.cwd(), read_site(arguments[0]))
    except CaramlError as error:
        print(f"submit: {error}", file=sys.stderr)
        return 1
    return 0


def point_objects(folder: Path, site: Site) -> tuple[Place, list[Object]]:
    """Return the place and the objects of the point in a folder; raises SiteError for unusable settings of the site."""
    request, repo = read_request(folder), checkout()
    place = Place(
        _name(request, folder),
        str(repo),
        str(folder),
        os.getuid(),
        os.getgid(),
        *_version(repo),
        site.kubernetes_namespace,
    )
    archive = None
    if site.kubernetes_claim:
        _check_claim(site, place, bool(request.prepare))
    else:
        archive = _archive(repo, folder)
    return place, objects(request, site, place, archive, _further(site))


def submit(folder: Path, site: Site) -> None:
    """Write the point's objects and create them in the cluster.

    Raises SiteError for unusable settings of the site, and SchedulerError if Kubernetes refuses the objects.
    """
    import yaml

    place, found = point_objects(folder, site)
    kubectl = Kubectl(site.kubernetes_context or _current_context(), site.kubernetes_namespace)
    files = folder / OBJECTS
    files.mkdir(exist_ok=True)
    for name, kinds in ((CHECKOUT, {"ConfigMap"}), (JOB, {"Service", "Job"})):
        documents = [one for one in found if one["kind"] in kinds]
        if documents:
            (files / name).write_text(yaml.safe_dump_all(documents, sort_keys=False, width=120))
    (files / IN_CLUSTER).touch()
    (folder / JOB_ID).write_text(job_id(place.name, kubectl))
    done = kubectl.try_to("create", "-f", str(files), "-o", "jsonpath={.metadata.namespace} ")
    if done.returncode:
        kubectl.try_to("delete", "--ignore-not-found", "--wait=false", "-f", str(files))
        (files / IN_CLUSTER).unlink()
        (folder / JOB_ID).unlink()
        raise SchedulerError(f"Kubernetes refused the job: {words(done)}")
    namespace = done.stdout.split()[0]
    (folder / JOB_ID).write_text(job_id(place.name, kubectl._replace(namespace=namespace)))


def read_request(folder: Path) -> Request:
    """Return the request of the point in a folder; raises SiteError if its file cannot be used."""
    try:
        found: Request = read_file(Request, folder / REQUEST, "a request")
    except RecordError as error:
        raise SiteError(f"{error}: a workflow does not write this, so run the sweep again") from error
    if found.resource.startswith("$"):  # JUBE leaves the name of a parameter that a system's block omits
        found = replace(found, resource="")
    return replace(found, prepare="") if found.data == "synthetic" else found


def objects(request: Request, site: Site, place: Place, archive: bytes | None, further: Object) -> list[Object]:
    """Return the objects of a point.

    `archive` is the checkout if no storage has it, `further` the site's own fields of a pod.
    """
    import yaml

    values = _values(request, site, place)
    text = (checkout() / TEMPLATE).read_text(encoding="utf-8")
    text = re.sub("#([A-Z_]+)#", lambda found: json.dumps(values[found[1]], ensure_ascii=False), text)
    config, service, job = map(_without_nulls, yaml.safe_load_all(text))
    job["spec"]["template"] = merged(job["spec"]["template"], further)
    found = [service, job] if request.nodes > 1 else [job]
    if archive is not None:
        found.insert(0, {**config, "binaryData": {ARCHIVE: base64.b64encode(archive).decode()}})
    return found


def _without_nulls(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_nulls(value) for key, value in node.items() if value is not None}
    if isinstance(node, list):
        return [_without_nulls(one) for one in node if not (isinstance(one, dict) and None in one.values())]
    return node


def _values(request: Request, site: Site, place: Place) -> dict[str, Any]:
    """Return the values for the template, by name; raises SiteError for unusable settings of the site."""
    claim, name = site.kubernetes_claim, place.name
    labels = {PART: "caraml", NAME: name, "app.kubernetes.io/component": request.benchmark.replace("_", "-")}
    queue = {"kueue.x-k8s.io/queue-name": site.kubernetes_queue} if site.kubernetes_queue else {}
    nodes = [f"{name}-{index}.{name}" for index in range(request.nodes)] if request.nodes > 1 else []
    user, group = _user(site, place)
    mounts = _mounts(request, site, place)
    return {
        "NAME": name,
        "NAMESPACE": place.namespace or None,
        "LABELS": labels,
        "LABELS_OF_JOB": labels | queue,
        "FOLDER": place.folder,
        "PATIENCE_S": f"{60 * float(site.kubernetes_patience_min):g}",
        "IS_SUSPENDED": True if queue else None,
        "COMPLETION_MODE": "Indexed" if nodes else None,  # versions before 1.24 have none
        "NODES": request.nodes,
        "JOB_LIMIT_S": QUEUED_AT_MOST_S + request.time_limit_s,
        "TIME_LIMIT_S": request.time_limit_s,
        "SUBDOMAIN": name if nodes else None,
        "NODE_SELECTOR": node_selector(site) or None,
        "TOLERATIONS": tolerations(site) or None,
        "PULL_SECRET": site.kubernetes_pull_secret or None,
        "USER": user,
        "GROUP": group,
        "IS_NOT_ROOT": user != 0,
        "FS_GROUP": None if claim else group,  # would change the group of all files on a claim
        "NOT_WITH": {PART: "caraml"} if request.exclusive == "yes" else {NAME: name},
        "IMAGE": image_of(request.image, site),
        "COMMAND": _command(request, site, place),
        "RESOURCES": _resources(request, site),
        "IMAGE_NAME": request.image,
        "DATA_FOLDER": site.data_folder,
        "OWN_DATA": None if claim else "yes",
        "COMMIT": place.commit,
        "CHANGED": place.changed,
        "INTERFACE": site.network_interface or None,
        "MASTER_ADDR": nodes[0] if nodes else None,
        "NAMES_OF_NODES": ",".join(nodes) or None,
        "MOUNTS": [{"name": one, "mountPath": path} for one, path, _ in mounts],
        "VOLUMES": [{"name": one, **source} for one, _, source in mounts],
    }


def _user(site: Site, place: Place) -> tuple[int, int]:
    """Return user and group of the pods: on a claim those of its files, the submitting user's; else any except root."""
    if site.kubernetes_user:
        user, _, group = site.kubernetes_user.partition(":")
        return int(user), int(group or user)
    return (place.user, place.group) if place.user or site.kubernetes_claim else (1000, 1000)


def _command(request: Request, site: Site, place: Place) -> list[str]:
    start = f'cd "$0" && PYTHONPATH={shlex.quote(place.repo)}"${{PYTHONPATH:+:$PYTHONPATH}}" exec "$@"'
    program = ["python3", "-m", "caraml.schedulers.kubernetes.pod", "--runs", str(request.runs)]
    if not site.kubernetes_claim:
        start = f"python3 -m tarfile -e {CHECKOUT_FOLDER}/{ARCHIVE} / && {start}"
        program += ["--parcel", *(["--prepare", request.prepare] if request.prepare else [])]
    return ["bash", "-c", start, place.folder, *program]


def _resources(request: Request, site: Site) -> dict[str, str]:
    if request.vendor != "none" and not request.resource:
        raise SiteError(
            "the system's block has no kubernetes_resource for a pod to request: add it in systems.yaml if the "
            "cluster offers its devices as a resource"
        )
    memory = {"memory": site.kubernetes_memory} if site.kubernetes_memory else {}
    devices = {request.resource: str(request.devices_on_node)} if request.resource else {}
    return {"cpu": site.kubernetes_cpus or str(request.cpus), **memory, **devices}


def image_of(name: str, site: Site) -> str:
    """Return the address of an image of containers/images.yaml; raises SiteError if the site does not state it."""
    if site.kubernetes_image:
        return str(site.kubernetes_image)
    if not site.kubernetes_registry:
        raise SiteError(
            f"a pod needs the image {name}: give site.yaml a kubernetes_registry that has it, or for one system a "
            "kubernetes_image"
        )
    return f"{site.kubernetes_registry.rstrip('/')}/{name}"


def _mounts(request: Request, site: Site, place: Place) -> list[tuple[str, str, Object]]:
    """Return volumes with their paths.

    Folders have the same paths as on this machine: on the claim, or as empty ones for the unpacked checkout. If jpwr
    sets limits, a folder of the node has what a later pod restores if this one is killed.
    """
    kept: Object = {"hostPath": {"path": FOLDER, "type": "Directory"}}
    sets_limits = {*OPTIONS.values()} & {*request.sampler.split()}
    of_node = [("limits", FOLDER, kept)] if sets_limits else []
    found: list[tuple[str, str, Object]] = [("shm", "/dev/shm", {"emptyDir": {"medium": "Memory"}})]
    if site.kubernetes_claim:
        claim = {"persistentVolumeClaim": {"claimName": site.kubernetes_claim}}
        return [*found, ("storage", site.kubernetes_claim_path, claim), *of_node]
    found.append(("checkout", CHECKOUT_FOLDER, {"configMap": {"name": place.name}}))
    for name, path in (("repo", place.repo), ("point", place.folder), ("data", site.data_folder)):
        if not any(is_below(path, other) for _, other, _ in found):
            found.append((name, path, {"emptyDir": {}}))
    return [*found, *of_node]


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder or inside of it."""
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def node_selector(site: Site) -> dict[str, str]:
    """Return the labels that nodes must have."""
    return dict(text.split("=", 1) for text in site.kubernetes_node_selector)


def tolerations(site: Site) -> list[Object]:
    """Return the tolerations, which the site writes as kubectl writes taints."""
    found = []
    for text in site.kubernetes_tolerations:
        key, _, value, _, effect = re.fullmatch(TOLERATION, text).groups()  # type: ignore[union-attr]
        one = {"operator": "Exists" if value is None else "Equal", "key": key, "value": value, "effect": effect}
        found.append({name: text for name, text in one.items() if text is not None})
    return found


def merged(template: Any, further: Any) -> Any:
    """Merge further fields into a template: maps, and list items of the same name; other list items are appended."""
    if isinstance(template, Mapping) and isinstance(further, Mapping):
        return {**template, **{key: merged(template.get(key), value) for key, value in further.items()}}
    if isinstance(template, list) and isinstance(further, list):
        named = {one["name"]: one for one in further if isinstance(one, Mapping) and "name" in one}
        known = [merged(one, named.pop(_name_of(one))) if _name_of(one) in named else one for one in template]
        return known + [one for one in further if _name_of(one) is None or _name_of(one) in named]
    return further


def _name_of(one: Any) -> Any:
    return one.get("name") if isinstance(one, Mapping) else None


def _name(request: Request, folder: Path) -> str:
    """Return a unique name of a Job: the workload, the point and a random suffix."""
    parts = [request.benchmark, *(part.partition("_")[0] for part in folder.parts[-3:-1])]
    readable = re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
    return f"{readable[: LONGEST_NAME - 7].strip('-')}-{secrets.token_hex(3)}"


def _version(repo: Path) -> tuple[str, str]:
    """Return the commit, and whether there are local changes, as a pod may lack git; empty: not known."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(repo), *arguments], capture_output=True, text=True)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit, status = git("rev-parse", "HEAD"), git("status", "--porcelain", "--untracked-files=no")
    return commit or "", "" if status is None else str(bool(status))


def _check_claim(site: Site, place: Place, needs_data: bool) -> None:
    path = site.kubernetes_claim_path
    if not path:
        raise SiteError("kubernetes_claim needs kubernetes_claim_path: the folder of this machine that is on the claim")
    wanted = {"the checkout": place.repo, "the sweep": place.folder}
    if needs_data:
        wanted["data_folder"] = site.data_folder
    for what, folder in wanted.items():
        if not is_below(folder, path):
            raise SiteError(
                f"{what} is {folder}, which is not on the claim: move it below {path}, or correct kubernetes_claim_path"
            )


def _further(site: Site) -> Object:
    """Return the site's own fields of a pod."""
    if not site.kubernetes_pod:
        return {}
    try:
        return dict(vars(read_file(PodFields, Path(site.kubernetes_pod), "fields of a pod")))
    except RecordError as error:
        raise SiteError(f"kubernetes_pod: {error}") from error


def _archive(repo: Path, folder: Path) -> bytes:
    """Pack the checkout's code and the point's own files, with their absolute paths."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for path in [*_code(repo), *(one for one in sorted(folder.rglob("*.*")) if one.is_file())]:
            tar.add(path, str(path.relative_to("/")), recursive=False, filter=_without_owner)
    if len(packed.getvalue()) > MOST_ARCHIVE_BYTES:
        raise SiteError(
            f"the checkout is {len(packed.getvalue()) / 1e3:.0f} kB when packed, and a ConfigMap takes "
            f"{MOST_ARCHIVE_BYTES / 1e3:.0f}: give site.yaml a kubernetes_claim"
        )
    return packed.getvalue()


def _code(repo: Path) -> Iterator[Path]:
    for name in CODE:
        path = repo / name
        for one in [path] if path.is_file() else sorted(path.rglob("*")):
            if one.is_file() and not NOT_CODE & set(one.relative_to(repo).parts) and one.suffix not in (".md", ".pyc"):
                yield one


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _current_context() -> str:
    """Return the current context of kubectl's configuration; empty if it has none, as in a pod."""
    done = Kubectl().try_to("config", "current-context")
    return "" if done.returncode else done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
