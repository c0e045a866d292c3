"""Images and the workflow inside them, with real containers: made of Debian packages, as no registry is needed."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from caraml.errors import SiteError
from caraml.machine.images import definition, image_path, make_image, read_image, read_images
from results.files.systems import read_systems
from results.find.records import RecordError
from tests.conftest import REPOSITORY, SMALL, called, made_up_system, make_checkout
from tests.needs import need, need_root

pytestmark = pytest.mark.long

FOR_APPTAINER = "base-files,bash,dash,coreutils,libc-bin,mount,util-linux"
PACKAGES = "python3,base-files,bash,dash,coreutils,libc-bin,hostname,libgomp1,libstdc++6"
# Runtimes mount no folder that is named by way of a link.
SITE_PACKAGES = str(Path(next(path for path in sys.path if path.endswith("site-packages"))).resolve())
# What runs without a session of systemd, and as root without all rights.
PODMAN = """
[containers]
netns = "host"
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
STORAGE = '[storage]\ndriver = "vfs"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'
BLOCK = made_up_system(
    devices_sweep="1", batch_sweep="8", warmup_steps=2, measured_steps=2, min_measured_s=5, image="cpu"
)


def with_base(folder: Path, *commands: list[str], **more: str) -> dict[str, str]:
    """Make base.tar, an image of Debian's Python, and run commands; return the environment of podman in that folder."""
    (folder / "containers.conf").write_text(PODMAN)
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    found = {
        **os.environ,
        "PATH": f"/usr/bin:{os.environ['PATH']}",
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        **more,
    }
    codename = re.search(r"VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text())[1]
    hook = 'touch "$1/etc/passwd" "$1/etc/group" "$1/etc/hosts" "$1/etc/resolv.conf"'  # charliecloud mounts over them
    packages = ["--variant=extract", f"--include={PACKAGES}", f"--extract-hook={hook}"]
    for command in (["mmdebstrap", "--quiet", *packages, codename, str(folder / "base.tar")], *commands):
        done = called(*command, **found)
        assert done.returncode == 0, done.stderr
    return found


@pytest.fixture(scope="module")
def environ(tmp_path_factory):
    """The environment of podman and charliecloud with a store of their own, which holds an image of Debian's Python."""
    need("podman", "runc", "ch-run", "ch-image", "mmdebstrap")
    folder = tmp_path_factory.mktemp("containers")
    more = {"CH_IMAGE_STORAGE": str(folder / "ch"), "USER": os.environ.get("USER", "root")}
    more["BASE_IMAGE"] = base = str(folder / "base.tar")
    imports = (["podman", "import", "--quiet"], ["ch-image", "import"])
    return with_base(folder, *([*one, base, "localhost/caraml-base:1"] for one in imports), **more)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A checkout whose image `cpu` starts from the base that is there, and which sees our packages from outside."""
    folder = make_checkout(tmp_path_factory.mktemp("container_checkout") / "caraml", BLOCK)
    table = folder / "containers" / "images.yaml"
    changed = table.read_text().replace("docker.io/library/python:3.11-slim", "localhost/caraml-base:1")
    changed = re.sub(r"(\ncpu:(?:\n  .*)*?\n  pip: )\[.*\]", r"\1[]", changed)
    table.write_text(changed)
    (folder / "site.yaml").write_text(f"{SMALL}container_mounts: ['{REPOSITORY}', '{SITE_PACKAGES}']\n")
    return folder


# Debian's stable has no apptainer: that of sid runs in a root of its own, which sees some folders of this machine, and
# as a user without rights, as on a cluster.
APPTAINER = """#!/bin/sh
exec unshare -m sh -c '
    here=$PWD
    mount --bind "$0" "$0"
    for folder in /proc /dev /sys {folders}; do mkdir -p "$0$folder"; mount --rbind "$folder" "$0$folder"; done
    mkdir -p "$0/outside"
    cd "$0" && pivot_root . outside
    exec {user} env -C "$here" HOME=/tmp /usr/bin/apptainer "$@"
' {root} "$@"
"""


@pytest.fixture(scope="module")
def apptainer(environ, checkout):
    """A folder with the command `apptainer`, and an image of Debian's Python as a SIF file."""
    need_root("who may have a root folder of its own")
    folder = Path(tempfile.mkdtemp(prefix="apptainer-"))  # for a user without rights, too
    folder.chmod(0o755)
    policy = subprocess.run(["apt-cache", "policy", "bash"], capture_output=True, text=True, check=True).stdout
    source = f"deb [trusted=yes] {re.search('http[^ ]+', policy)[0]} sid main"
    root, builder, wrapper = folder / "root", folder / "builder", folder / "apptainer"
    folders = f"{REPOSITORY} {SITE_PACKAGES} {checkout} {folder}"
    for script, user in ((builder, ""), (wrapper, "setpriv --reuid 65534 --regid 65534 --clear-groups")):
        script.write_text(APPTAINER.format(root=root, folders=folders, user=user))
        script.chmod(0o755)
    (folder / "image").mkdir()
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    for command in (
        [
            *("mmdebstrap", "--quiet", "--variant=extract", f"--include=apptainer,{FOR_APPTAINER}"),
            *('--aptopt=Acquire::Check-Valid-Until "false"', "sid", root, source),
        ],
        ["cp", *(f"/etc/{name}" for name in ("passwd", "group", "hosts", "resolv.conf", "localtime")), root / "etc"],
        ["tar", "-xf", environ["BASE_IMAGE"], "-C", folder / "image"],
        [builder, "build", folder / "cpu.sif", folder / "image"],
    ):
        done = called(*command, **environ)
        assert done.returncode == 0, done.stderr
    yield folder
    shutil.rmtree(folder)


def trained(point: Path) -> dict:
    """Return the result of a point, which is good and was measured in the container."""
    result = json.loads((point / "result.json").read_text())
    assert result["status"] == "ok", (result["error"], (point / "job.err").read_text()[-2000:])
    assert result["provenance"]["container"] == "cpu"
    assert result["provenance"]["command"][0] == "/usr/bin/python3"  # Debian's, of the image
    assert result["energy"]["energy_wh"] > 0
    return result


@pytest.mark.slow
def test_the_workflow_trains_under_apptainer(apptainer, environ, checkout, jube_command):
    images = checkout / "containers" / "images"
    images.mkdir(exist_ok=True)
    shutil.copy(apptainer / "cpu.sif", images)
    environ = {
        **environ,
        "PATH": f"{apptainer}:{environ['PATH']}",
        "CARAML_CONTAINER_RUNTIME": "apptainer",
        "APPTAINER_TMPDIR": str(apptainer / "tmp"),
        "PYTHONPATH": SITE_PACKAGES,
    }
    out = checkout / "run_apptainer"
    out.mkdir(mode=0o777)
    command = ["sh", "-c", 'umask 0; exec "$@"', "-", jube_command, "run", "jube/llm.yaml", "--outpath", str(out)]
    done = called(*command, "--tag", "TESTBED", "synthetic", cwd=checkout, **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    trained(next(out.glob("000000/*_benchmark/work")))


@pytest.fixture
def fabric():
    """A device of a network between nodes; it is another name for /dev/null."""
    need_root("who may make a device")
    device = Path("/dev/hfi1_caraml")
    device.unlink(missing_ok=True)  # of a run that was killed
    subprocess.run(["mknod", str(device), "c", "1", "3"], check=True)
    yield device
    device.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["podman", "charliecloud"])
def test_the_workflow_trains_in_a_container(runtime, environ, checkout, jube_command, fabric):
    environ = {**environ, "CARAML_CONTAINER_RUNTIME": runtime, "PYTHONPATH": SITE_PACKAGES}

    def call(*command):
        return called(*command, cwd=checkout, **environ)

    out = checkout / f"run_{runtime}"
    run = [jube_command, "run", "jube/llm.yaml", "--outpath", str(out)]
    assert call(*run, "--tag", "TESTBED", "synthetic").returncode == 0
    [point] = out.glob("000000/*_benchmark/work")
    without = json.loads((point / "result.json").read_text())
    assert without["status"] == "failed"
    assert "there is no image" in without["error"]
    assert f"caraml image cpu --runtime {runtime}" in without["error"]

    # The image has no compiler: what counts reads is built outside.
    environ["IOPROF_LIBRARY"] = str(checkout / "libioprof.so")
    assert call(sys.executable, "-m", "ioprof", "build", environ["IOPROF_LIBRARY"]).returncode == 0
    made = call(*run, "--tag", "TESTBED", "synthetic", "container", "io")  # which makes the image first
    assert made.returncode == 0, made.stdout + made.stderr
    assert image_path(checkout / "containers" / "images", "cpu", runtime).exists()
    [point] = out.glob("000001/*_benchmark/work")
    result = trained(point)
    assert re.fullmatch("sha256:[0-9a-f]{64}", result["provenance"]["container_digest"])
    assert result["io"]["coverage_percent"] > 95, result["io"]["missing"]

    seen = call("containers/run.sh", runtime, "cpu", "none", "sh", "-c", f"test -c {fabric} && ulimit -l")
    assert (seen.returncode, seen.stdout) == (0, call("sh", "-c", "ulimit -l").stdout), seen.stderr


def test_a_container_has_the_nodes_folder_of_limits_to_restore(tmp_path, monkeypatch):
    (tmp_path / "podman").write_text('#!/bin/sh\n[ "$1" = run ] && echo "$@" || true\n')
    (tmp_path / "podman").chmod(0o755)
    (tmp_path / "cpu.tar").touch()
    monkeypatch.delenv("JPWR_LIMITS_DIR", raising=False)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CARAML_CONTAINER_FOLDER": str(tmp_path)}
    for more, folder in (({}, "/var/tmp"), ({"JPWR_LIMITS_DIR": str(tmp_path)}, str(tmp_path))):
        done = called(REPOSITORY / "containers" / "run.sh", "podman", "cpu", "nvidia", "true", **environ, **more)
        assert f"--volume {folder}:{folder}" in done.stdout, done.stderr


def test_every_system_has_its_images_and_each_a_definition():
    images = read_images()
    for name, block in read_systems().items():
        for framework in ("pytorch", "tensorflow"):
            image = block.image_of(framework)
            assert image in images, name
            if block.cpu_arch != "any":
                assert images[image].arch == block.cpu_arch
    for image in images.values():
        # Graphcore's documentation has no tag with the version of its last TensorFlow.
        assert re.search(r":\S*\d\.\d", image.base) or image.name == "tensorflow-graphcore-x86_64"
        if "-amd-" in image.name:  # AMD's images have no amdsmi for their Python: ROCm's own fits its library
            assert any(package.startswith("amdsmi @ file:///opt/rocm") for package in image.pip)
        for package in [*image.pip, *image.without_dependencies]:
            assert f"'{package}'" in definition(image, "containerfile")


def test_an_image_that_is_there_is_not_made_again_nor_by_two_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda program: program)
    image = read_image("cpu")
    there = image_path(tmp_path, "cpu", "podman")
    there.touch()
    assert make_image(image, "podman", tmp_path) == there
    with (tmp_path / ".cpu.podman.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SiteError, match="is being built by another process"):
            make_image(image, "podman", tmp_path)


def test_what_keeps_an_image_from_being_made_is_said(tmp_path):
    with pytest.raises(SiteError, match="there is no image cpx: did you mean 'cpu'"):
        read_image("cpx")
    other = next(image for image in read_images().values() if image.arch != platform.machine())
    need("podman")
    with pytest.raises(SiteError, match=f"is for {other.arch}, this machine is {platform.machine()}"):
        make_image(other, "podman", tmp_path)
    (tmp_path / "images.yaml").write_text("a: {base: b, arch: c, bsae: d}")
    with pytest.raises(RecordError, match=r"images, a has an unknown key 'bsae': did you mean 'base'"):
        read_images(tmp_path / "images.yaml")
    for base in ("docker.io/rocm/pytorch:latest", "localhost:5000/vllm"):
        (tmp_path / "images.yaml").write_text(f"a: {{base: '{base}', arch: c}}")
        with pytest.raises(SiteError, match="which moves: state a version or a digest"):
            read_images(tmp_path / "images.yaml")
