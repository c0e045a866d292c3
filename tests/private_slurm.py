"""A real Slurm of two clusters on this machine, in a folder, without root or systemd: up in seconds, down in another.

Nodes are named 127.0.0.1, 127.0.0.2, ...: names that every machine resolves to itself.
"""

from __future__ import annotations

import os
import pwd
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

CLUSTERS, NODES = ("private", "gpu"), 2  # commands speak to the first one unless they name the other
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "slurmdbd", "mariadbd")

CONFIGURATION = """
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={shared}/munge.sock
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
CPUs=4 RealMemory=1000 Gres=gpu:made:1 State=UNKNOWN
PartitionName=batch Nodes=127.0.0.[1-{nodes}] Default=YES MaxTime=24:00:00 State=UP OverSubscribe=NO
"""


ACCOUNT = "project"
ACCOUNTING = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={shared}/munge.sock
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
def private_slurm(folder: Path, counters: Path) -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands speak to the first of CLUSTERS, with NODES nodes of one GPU each.

    Terminals stand in for the GPUs. The clusters share their accounts, in a database. For root the energy in them is
    that of `counters`, a folder like /sys/cray/pm_counters; without root it is not measured.
    """
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    user, port = pwd.getpwuid(os.getuid()).pw_name, free_ports(2)
    environ = {**os.environ, "SLURM_CONF": str(folder / CLUSTERS[0] / "slurm.conf"), "PATH": PATH}
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o400)
    munged = ["munged", "--force", "--num-threads=2"]
    munged += [f"--{name}={folder}/munge.{end}" for name, end in (("key-file", "key"), ("socket", "sock"))]
    munged += [f"--{name}={folder}/munge{end}" for name, end in (("pid-file", "d.pid"), ("log-file", "d.log"))]
    munged += [f"--seed-file={folder}/munge.seed"]
    for name in CLUSTERS:
        _configure(folder, name, user, port)
    try:
        subprocess.run(munged, env=environ, check=True, capture_output=True)
        _start_accounting(folder, user, port, port + 1, environ)
        for name in CLUSTERS:
            _start_cluster(folder / name, counters)
        yield environ
    finally:
        _stop(folder)


def _configure(folder: Path, name: str, user: str, accounting_port: int) -> None:
    """Write the files of a cluster below the folder of all."""
    for part in ("state", "spool"):
        (folder / name / part).mkdir(parents=True)
    port = free_ports(1 + NODES)
    (folder / name / "slurm.conf").write_text(
        CONFIGURATION.format(
            name=name,
            host=socket.gethostname().split(".")[0],
            user=user,
            port=port,
            first_node=port + 1,
            last_node=port + NODES,
            folder=folder / name,
            shared=folder,
            nodes=NODES,
            accounting=ACCOUNTING.format(port=accounting_port, shared=folder) + ("" if os.getuid() else ENERGY),
        )
    )
    # A file of a gres must be a device node.
    gpus = f"NodeName=127.0.0.[1-{NODES}] Name=gpu Type=made File=/dev/tty0 Flags=nvidia_gpu_env\n"
    (folder / name / "gres.conf").write_text(gpus)
    (folder / name / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nIgnoreSystemd=yes\n")


def _start_cluster(folder: Path, counters: Path) -> None:
    environ = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": PATH}
    below = [] if os.getuid() else ["unshare", "-m", "sh", "-c", UNDER_COUNTERS.format(counters=counters), "-"]
    nodes = [[*below, "slurmd", "-N", f"127.0.0.{index + 1}"] for index in range(NODES)]
    for command in (["slurmctld"], *nodes):
        subprocess.run(command, env=environ, check=True, capture_output=True)
    _until(lambda: _idle_nodes(environ) == NODES, folder)


def _start_accounting(folder: Path, user: str, port: int, database_port: int, environ: dict[str, str]) -> None:
    """A database, the daemon in front of it, and the clusters in it."""
    (folder / "db").mkdir()
    daemon = folder / CLUSTERS[0] / "slurmdbd.conf"  # it looks next to its slurm.conf
    daemon.write_text(DATABASE_DAEMON.format(folder=folder, user=user, port=port, database_port=database_port))
    daemon.chmod(0o600)
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
    clusters = [*manage, "cluster", *CLUSTERS]
    _until(lambda: not subprocess.run(clusters, env=environ, capture_output=True).returncode, folder)
    call([*manage, "account", ACCOUNT])
    call([*manage, "user", user, f"account={ACCOUNT}"])


def _until(is_so: Callable[[], bool], folder: Path) -> None:
    until(is_so, "Slurm", lambda: f"see {folder}/*.log")


def _idle_nodes(environ: dict[str, str]) -> int:
    done = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], env=environ, capture_output=True, text=True)
    return int(done.stdout.strip() or 0)


def _stop(folder: Path) -> None:
    files = [*folder.glob("*.pid"), *folder.glob("*/*.pid")]
    pids = [int(text) for path in files if (text := path.read_text().strip())]
    for number, grace_s in ((signal.SIGTERM, 5), (signal.SIGKILL, 0)):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        deadline_s = time.monotonic() + grace_s
        while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline_s:
            time.sleep(0.05)
