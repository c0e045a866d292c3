"""Submit the point of the current folder as a Job of Kubernetes, for the workflow.

python -m caraml.kubernetes.submit SYSTEM
"""

from __future__ import annotations

import gzip
import io
import os
import re
import secrets
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from caraml.errors import CaramlError, SchedulerError, SiteError
from caraml.installation import checkout
from caraml.kubernetes.kubectl import Kubectl
from caraml.kubernetes.objects import Object, Place, Request, is_below, objects
from caraml.kubernetes.submission import CHECKOUT, IN_CLUSTER, JOB, JOB_ID, OBJECTS, job_id, read_request
from caraml.programs import words
from caraml.site import Site, read_site
from results.yaml_files import YamlError, read_yaml

# What runs in a pod, of the checkout.
CODE = ("benchmarks", "jpwr", "ioprof", "caraml", "containers/run.sh", "jube/include/python.sh")
NOT_CODE = {"tests", "__pycache__", "images"}
MOST_ARCHIVE_BYTES = 700_000  # an object takes 1 MiB, in base64
LONGEST_NAME = 50  # of 63, with the number of a pod


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns 1, with one sentence, when the point cannot be submitted."""
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 1:
        print("usage: python -m caraml.kubernetes.submit SYSTEM", file=sys.stderr)
        return 2
    try:
        submit(Path.cwd(), read_site(arguments[0]))
    except CaramlError as error:
        print(f"submit: {error}", file=sys.stderr)
        return 1
    return 0


def submit(folder: Path, site: Site) -> None:
    """Write the point's objects and create them.

    Raises SiteError when the site's facts do not do, and SchedulerError when Kubernetes does not take them.
    """
    request, repo = read_request(folder), checkout()
    place = Place(
        _name(request, folder),
        str(repo),
        str(folder),
        os.getuid(),
        os.getgid(),
        *_version(repo),
        site["kubernetes_namespace"],
    )
    archive = None
    if site["kubernetes_claim"]:
        _check_claim(site, place, bool(request.prepare))
    else:
        archive = _archive(repo, folder)
    found = objects(request, site, place, archive, _further(site))
    kubectl = Kubectl(site["kubernetes_context"] or _current_context(), site["kubernetes_namespace"])
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


def _name(request: Request, folder: Path) -> str:
    """Of a Job: the workload and the point, for people, and what tells it from all others."""
    parts = [request.benchmark, *(part.partition("_")[0] for part in folder.parts[-3:-1])]
    readable = re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
    return f"{readable[: LONGEST_NAME - 7].strip('-')}-{secrets.token_hex(3)}"


def _version(repo: Path) -> tuple[str, str]:
    """The commit and whether there are local changes; a pod may have no git. Empty: not known."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(repo), *arguments], capture_output=True, text=True)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit, status = git("rev-parse", "HEAD"), git("status", "--porcelain", "--untracked-files=no")
    return commit or "", "" if status is None else str(bool(status))


def _check_claim(site: Site, place: Place, needs_data: bool) -> None:
    path = site["kubernetes_claim_path"]
    if not path:
        raise SiteError("kubernetes_claim needs kubernetes_claim_path: the folder of this machine that is on the claim")
    wanted = {"the checkout": place.repo, "the sweep": place.folder}
    if needs_data:
        wanted["data_folder"] = site["data_folder"]
    for what, folder in wanted.items():
        if not is_below(folder, path):
            raise SiteError(f"{what} is {folder}, which is not on the claim, in {path}: a pod would not see it")


def _further(site: Site) -> Object:
    """The site's own fields of a pod."""
    file = site["kubernetes_pod"]
    if not file:
        return {}
    try:
        found = read_yaml(Path(file))
    except (YamlError, OSError) as error:
        raise SiteError(f"kubernetes_pod: {file} cannot be read: {error}") from error
    if not isinstance(found, dict) or not set(found) <= {"metadata", "spec"}:
        raise SiteError(f"kubernetes_pod: {file} must hold fields of a pod, under 'metadata' and 'spec'")
    return found


def _archive(repo: Path, folder: Path) -> bytes:
    """The checkout's code and the point's own files, each where it is on this machine."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for path in [*_code(repo), *(one for one in sorted(folder.rglob("*.*")) if one.is_file())]:
            tar.add(path, str(path.relative_to("/")), recursive=False, filter=_nobodys)
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


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _current_context() -> str:
    """Of kubectl's own configuration; empty where it has none, as in a pod."""
    done = Kubectl().try_to("config", "current-context")
    return "" if done.returncode else done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
