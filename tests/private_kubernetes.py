"""A real Kubernetes of one node on this machine, in a folder: its API server, controllers, scheduler and kubelet, with
etcd and containerd. Takes root, and what scripts/build_kubernetes.sh has built.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from benchmarks.common.spawn import free_ports
from tests.waiting import until

PROGRAMS = ("etcd", "containerd", "ctr", "openssl", "kubectl", "podman", "mmdebstrap")
INSTALL = "apt-get install etcd-server containerd containernetworking-plugins openssl kubectl podman mmdebstrap"
NODE, ADDRESS, PODS = "node", "10.99.0.1", "10.98.0.0/24"
PAUSE = "localhost/pause:1"
CONTAINERD = """
version = 2
root = "{folder}/containers"
state = "{folder}/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
"""
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "cgroupfs",
    "clusterDNS": ["10.96.0.10"],  # there is none, and nobody asks it
    "clusterDomain": "cluster.local",
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "failSwapOn": False,
    "oomScoreAdj": 0,
    "readOnlyPort": 0,
    "healthzPort": 0,
    "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    "makeIPTablesUtilChains": False,
}


def missing_programs() -> str:
    """What has to be installed, empty where all is there."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{', '.join(missing)}: {INSTALL}" if missing else ""


@contextmanager
def private_kubernetes(folder: Path, built: Path, images: Sequence[Path]) -> Iterator[dict[str, str]]:
    """The environment in which kubectl speaks to it; `images` are archives that its node has."""
    running: list[subprocess.Popen[bytes]] = []
    first = free_ports(7)
    etcd, etcd_peer, api, controllers, scheduler, kubelet, _ = range(first, first + 7)
    token, server = secrets.token_hex(16), f"https://127.0.0.1:{api}"
    configuration = folder / "kubeconfig"

    def start(*command: object) -> None:
        name = Path(str(command[0])).name
        with (folder / f"{name}.log").open("wb") as log:
            running.append(subprocess.Popen([*map(str, command)], stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def waited_for(what: str, *command: object) -> None:
        call = [*map(str, command)]
        until(lambda: not subprocess.run(call, capture_output=True).returncode, what, lambda: f"see {folder}/*.log")

    folder.mkdir(parents=True, exist_ok=True)
    key = folder / "sa.key"
    for command in (["genrsa", "-out", key], ["rsa", "-in", key, "-pubout", "-out", folder / "sa.pub"]):
        subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
    (folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    known = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "private", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "private", "context": {"cluster": "private", "user": "admin"}}],
        "current-context": "private",
    }
    configuration.write_text(yaml.safe_dump(known))
    (folder / "cni").mkdir()
    addresses = {"type": "host-local", "ranges": [[{"subnet": PODS}]], "dataDir": str(folder / "addresses")}
    network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": addresses}]}
    (folder / "cni" / "pods.conflist").write_text(json.dumps(network))
    (folder / "containerd.toml").write_text(CONTAINERD.format(folder=folder, pause=PAUSE))
    (folder / "kubelet.yaml").write_text(yaml.safe_dump({**KUBELET, "port": kubelet}))
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], capture_output=True)
    kubectl = ["kubectl", f"--kubeconfig={configuration}"]
    try:
        start(
            "etcd",
            f"--data-dir={folder}/etcd",
            *(f"--{kind}-client-urls=http://127.0.0.1:{etcd}" for kind in ("listen", "advertise")),
            f"--listen-peer-urls=http://127.0.0.1:{etcd_peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{etcd_peer}",
            f"--initial-cluster=default=http://127.0.0.1:{etcd_peer}",
        )
        start(
            built / "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            f"--secure-port={api}",
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"),
            f"--cert-dir={folder}/api",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--token-auth-file={folder}/tokens.csv",
            "--authorization-mode=RBAC",
            *(f"--service-account-key-file={folder}/sa.pub", f"--service-account-signing-key-file={key}"),
            *(f"--service-account-issuer={server}", f"--api-audiences={server}"),
            "--disable-admission-plugins=ServiceAccount",
            *("--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP"),
        )
        waited_for("the API server", *kubectl, "get", "--raw=/readyz")
        own = ("--leader-elect=false", "--port=0", "--bind-address=127.0.0.1", f"--kubeconfig={configuration}")
        start(
            built / "kube-controller-manager",
            *own,
            f"--secure-port={controllers}",
            f"--cert-dir={folder}/controllers",
            "--controllers=job,garbagecollector,namespace,podgc,nodelifecycle,persistentvolume-binder",
            f"--service-account-private-key-file={key}",
        )
        start(built / "kube-scheduler", *own, f"--secure-port={scheduler}", f"--cert-dir={folder}/scheduler")
        start("containerd", "-c", folder / "containerd.toml")
        ctr = ["ctr", "-a", folder / "containerd.sock"]
        waited_for("containerd", *ctr, "version")
        for image in images:
            command = [*ctr, "-n", "k8s.io", "images", "import", "--snapshotter", "native", image]
            subprocess.run([*map(str, command)], check=True, capture_output=True)
        start(
            built / "kubelet",
            f"--kubeconfig={configuration}",
            f"--config={folder}/kubelet.yaml",
            *(f"--root-dir={folder}/kubelet", f"--cert-dir={folder}/kubelet-certificates"),
            *("--container-runtime=remote", f"--container-runtime-endpoint=unix://{folder}/containerd.sock"),
            *(f"--hostname-override={NODE}", f"--node-ip={ADDRESS}"),
        )
        waited_for("the node", *kubectl, "get", "node", NODE)
        waited_for("the node", *kubectl, "wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=600s")
        yield {**os.environ, "KUBECONFIG": str(configuration), "HOME": str(folder)}
    finally:
        for process in reversed(running):
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()
        shims = ["pkill", "-f", str(folder)]  # of its containers; ends with 1 where there is none
        until(lambda: subprocess.run(shims, capture_output=True).returncode, "the end of its containers")
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            if (place := line.split()[1]).startswith(f"{folder}/"):
                subprocess.run(["umount", "--lazy", place], capture_output=True)
        subprocess.run(["ip", "address", "del", f"{ADDRESS}/32", "dev", "lo"], capture_output=True)
