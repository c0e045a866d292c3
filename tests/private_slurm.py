"""A real Slurm of one's own on this machine, in a folder, without root or systemd: up in a second, down in another.

Nodes are named 127.0.0.1, 127.0.0.2, ...: names that every machine resolves to itself.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.common.spawn import free_ports
from tests.needs import PATH
from tests.waiting import until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "slurmdbd", "mariadbd")

CONFIGURATION = """
ClusterName=private
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.sock
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=10000
GresTypes=gpu
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/linux
KillWait=2
MinJobAge=600
SlurmctldTimeout=30
SlurmdTimeout=10
{accounting}
NodeName=127.0.0.[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first_node}-{last_node}] \
CPUs={cpus} RealMemory=1000 Gres=gpu:made:{gpus} State=UNKNOWN
PartitionName=batch Nodes=127.0.0.[1-{nodes}] Default=YES MaxTime=24:00:00 State=UP OverSubscribe=NO
"""


ACCOUNT = "project"
ACCOUNTING = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.sock
"""
ENERGY = """
AcctGatherEnergyType=acct_gather_energy/pm_counters
AcctGatherNodeFreq=1
JobAcctGatherFrequency=task=1,energy=1
"""

DATABASE_DAEMON = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
DbdHost=localhost
DbdPort={port}
SlurmUser={user}
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass=private
StorageLoc=slurm_acct_db
"""
# A tree of its own in place of /sys, with a node's counters of power and energy in it.
UNDER_COUNTERS = 'mount -t tmpfs none /sys && mkdir -p /sys/cray && ln -s {counters} /sys/cray/pm_counters && exec "$@"'


@contextmanager
def private_slurm(
    folder: Path, counters: Path, nodes: int = 2, gpus: int = 1, cpus: int = 4
) -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands speak to this one; terminals stand in for the GPUs of each node.

    Its accounts are in a database. For root the energy in them is that of `counters`, a folder like
    /sys/cray/pm_counters; without root it is not measured.
    """
    is_root = os.getuid() == 0
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    user = _say("id", "-un")
    port = free_ports(3 + nodes)
    ports = range(port, port + 3 + nodes)
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o400)
    (folder / "slurm.conf").write_text(
        CONFIGURATION.format(
            host=socket.gethostname().split(".")[0],
            user=user,
            port=ports[0],
            first_node=ports[3],
            last_node=ports[-1],
            folder=folder,
            nodes=nodes,
            gpus=gpus,
            cpus=cpus,
            accounting=ACCOUNTING.format(port=ports[1], folder=folder) + (ENERGY if is_root else ""),
        )
    )
    # A file of a gres must be a device node.
    (folder / "gres.conf").write_text(
        f"NodeName=127.0.0.[1-{nodes}] Name=gpu Type=made File=/dev/tty[0-{gpus}] Flags=nvidia_gpu_env\n".replace(
            f"[0-{gpus}]", "0" if gpus == 1 else f"[0-{gpus - 1}]"
        )
    )
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nIgnoreSystemd=yes\n")
    environ = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": PATH}
    munged = ["munged", "--force", "--num-threads=2"]
    munged += [f"--{name}={folder}/munge.{end}" for name, end in (("key-file", "key"), ("socket", "sock"))]
    munged += [f"--{name}={folder}/munge{end}" for name, end in (("pid-file", "d.pid"), ("log-file", "d.log"))]
    munged += [f"--seed-file={folder}/munge.seed"]
    in_namespace = ["unshare", "-m", "sh", "-c", UNDER_COUNTERS.format(counters=counters), "-"] if is_root else []
    try:
        subprocess.run(munged, env=environ, check=True, capture_output=True)
        _start_accounting(folder, user, ports[1], ports[2], environ)
        for command in (["slurmctld"], *([*in_namespace, "slurmd", "-N", f"127.0.0.{i + 1}"] for i in range(nodes))):
            subprocess.run(command, env=environ, check=True, capture_output=True)
        _until(lambda: _idle_nodes(environ) == nodes, folder)
        yield environ
    finally:
        _stop(folder)


def _start_accounting(folder: Path, user: str, port: int, database_port: int, environ: dict[str, str]) -> None:
    """A database, the daemon in front of it, and this cluster in it."""
    (folder / "db").mkdir()
    (folder / "slurmdbd.conf").write_text(
        DATABASE_DAEMON.format(folder=folder, user=user, port=port, database_port=database_port)
    )
    (folder / "slurmdbd.conf").chmod(0o600)
    data = ["--no-defaults", f"--user={user}", f"--datadir={folder}/db"]
    call = partial(subprocess.run, env=environ, check=True, capture_output=True)
    call(["mariadb-install-db", *data, "--auth-root-authentication-method=normal", "--skip-test-db"])
    database = ["mariadbd", *data, f"--socket={folder}/db.sock", f"--port={database_port}", "--bind-address=127.0.0.1"]
    database += [f"--pid-file={folder}/mariadbd.pid", "--innodb-buffer-pool-size=64M"]
    call(["sh", "-c", '"$@" >mariadbd.log 2>&1 &', "-", *database], cwd=folder)
    client = ["mariadb", "--no-defaults", "-uroot", "-S", str(folder / "db.sock"), "-e"]
    _until(lambda: not subprocess.run([*client, "select 1"], env=environ, capture_output=True).returncode, folder)
    grant = "create database slurm_acct_db; " + "".join(
        f"create user slurm@'{host}' identified by 'private'; grant all on slurm_acct_db.* to slurm@'{host}';"
        for host in ("localhost", "127.0.0.1")
    )
    call([*client, grant])
    call(["slurmdbd"])
    manage = ["sacctmgr", "-n", "-i", "add"]
    cluster = [*manage, "cluster", "private"]
    _until(lambda: not subprocess.run(cluster, env=environ, capture_output=True).returncode, folder)
    call([*manage, "account", ACCOUNT])
    call([*manage, "user", user, f"account={ACCOUNT}"])


def _say(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _until(is_so: Callable[[], bool], folder: Path) -> None:
    until(is_so, "Slurm", lambda: f"see {folder}/*.log")


def _idle_nodes(environ: dict[str, str]) -> int:
    done = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], env=environ, capture_output=True, text=True)
    return int(done.stdout.strip() or 0)


def _stop(folder: Path) -> None:
    pids = [int(path.read_text()) for path in folder.glob("*.pid") if path.read_text().strip()]
    for number, grace_s in ((signal.SIGTERM, 5), (signal.SIGKILL, 0)):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        deadline_s = time.monotonic() + grace_s
        while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline_s:
            time.sleep(0.05)
