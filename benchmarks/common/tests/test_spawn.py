from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.common import spawn as spawning
from benchmarks.common.options import ConfigError
from tests.waiting import PATIENCE_S

REPOSITORY = Path(__file__).resolve().parents[3]
ENVIRON = {**os.environ, "PYTHONPATH": f"{REPOSITORY}"}


def spawn(tmp_path, script, *flags, nodes=""):
    (tmp_path / "program.py").write_text(script)
    node = ["--nproc-per-node", "2", *nodes.split()]
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.common.spawn", *node, "-m", "program", *flags],
        env={**ENVIRON, "PYTHONPATH": f"{REPOSITORY}:{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


@pytest.mark.parametrize(("end", "code"), [("sys.exit(5)", 5), ("os.kill(os.getpid(), 9)", 137)])
def test_a_process_that_fails_ends_the_others_and_is_named(tmp_path, end, code):
    script = f"import os, sys, time\nif os.environ['RANK'] == '1': {end}\ntime.sleep({2 * PATIENCE_S})"
    done = spawn(tmp_path, script)
    assert done.returncode == code
    assert "error: rank 1 ended" in done.stderr


@pytest.mark.parametrize("flags", ["", "--nproc-per-node 0 -m x", "-m x", "--nproc-per-node 1 --nnodes 2 -m x"])
def test_a_command_line_that_is_none_is_one_sentence(flags, capsys):
    assert spawning.main(flags.split()) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_nodes_count_on_and_are_told_of_the_first(tmp_path):
    names = "RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT"
    script = f"import os\nos.write(1, (' '.join(os.environ[name] for name in '{names}'.split()) + '\\n').encode())\n"
    done = spawn(tmp_path, script, nodes="--nnodes 3 --node-rank 2 --master-addr first --master-port 4000")
    assert sorted(done.stdout.splitlines()) == ["4 6 0 first 4000", "5 6 1 first 4000"]


@pytest.fixture
def few_ports(monkeypatch):
    """Six ports for all, of which nothing is held."""
    monkeypatch.setattr(spawning, "RESERVED", ExitStack())
    monkeypatch.setattr(spawning, "PORTS", range(9990, 9996))
    yield
    spawning.RESERVED.close()


def test_ports_are_held_until_a_framework_binds_them(few_ports, monkeypatch):
    monkeypatch.setattr(spawning, "PORTS", range(9990, 9999))
    first = spawning.free_ports(3)
    program = "from benchmarks.common import spawn; spawn.PORTS = range(9990, 9999); "
    program += "print(spawn.free_ports(3))"
    other = subprocess.run([sys.executable, "-c", program], env=ENVIRON, capture_output=True, text=True, check=True)
    assert abs(first - int(other.stdout)) >= 3


def test_a_port_that_something_listens_on_is_left_out(few_ports):
    with socket.socket() as taken:
        taken.bind(("", 9992))
        taken.listen()
        assert spawning.free_ports(3) == 9993
    with pytest.raises(ConfigError, match="no 4 consecutive free ports"):
        spawning.free_ports(4)
