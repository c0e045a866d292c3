"""What runs in a pod, and how its files come back."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import lzma
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from caraml.schedulers.kubernetes import pod
from tests.waiting import PATIENCE_S, until

REPOSITORY = Path(__file__).resolve().parents[2]


def start(point, *flags, **environ):
    return subprocess.Popen(
        [sys.executable, "-m", "caraml.schedulers.kubernetes.pod", *flags],
        cwd=point,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(point, *flags, **environ):
    process = start(point, *flags, **environ)
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


@pytest.fixture
def point(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()

    def write(program):
        (folder / "node.sh").write_text(program)
        return folder

    return write


def test_runs_follow_each_other_each_in_its_folder(point):
    folder = point("echo here $MASTER_PORT; echo there >&2; pwd >where")
    code, out, err = run(folder, "--runs", "3")
    assert code == 0
    assert out.count("here") == err.count("there") == 3
    ports = set()
    for one in pod.folders(folder, 3):
        assert (one / "where").read_text().strip() == str(one)
        assert (one / "job.err").read_text() == "there\n"
        assert (one / "exit_code.0").read_text() == "0\n"
        ports.add((one / "job.out").read_text())
    assert len(ports) == 3  # what is left of one run holds up no other


def test_a_run_that_fails_on_one_node_does_not_end_the_others_runs(point):
    folder = point('[ "$(basename $PWD)" = run_2 ] && exit 7; exit 0')
    code, _, _ = run(folder, "--runs", "3")
    assert code == 7
    assert [(one / "exit_code.0").read_text().strip() for one in pod.folders(folder, 3)] == ["0", "7", "0"]


def test_a_run_that_fails_on_one_of_several_nodes_ends_the_pod(point):
    folder = point('[ "$(basename $PWD)" = run_2 ] && exit 7; exit 0')
    code, _, _ = run(folder, "--runs", "3", MASTER_ADDR="localhost", JOB_COMPLETION_INDEX="1")
    assert code == 7
    assert [(one / "exit_code.1").exists() for one in pod.folders(folder, 3)] == [True, True, False]
    assert (folder / "job.1.out").exists()


def test_data_that_cannot_be_made_fail_the_point(point):
    folder = point("touch begun")
    code, _, err = run(folder, "--prepare", "echo no text >&2; exit 3")
    assert (code, err) == (3, "no text\n")
    assert (folder / "exit_code.0").read_text() == "3\n"
    assert (folder / "job.err").read_text() == "no text\n"
    assert not (folder / "begun").exists()


def test_a_signal_reaches_the_run_and_its_files_come_back(point):
    folder = point("trap 'echo told; exit 9' TERM; touch up; while :; do sleep 0.05; done")
    process = start(folder, "--runs", "2", "--parcel")
    until((folder / "up").exists, "the run")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 9
    assert out.startswith("told\n")
    assert not (folder / "run_2").exists()
    back = folder.parent / "back"
    pod.unpack(pod.parcel_of(out), back)
    assert (back / "exit_code.0").read_text() == "9\n"
    assert (back / "job.out").read_text() == "told\n"
    assert not (back / "node.sh").exists()


def test_a_program_that_is_killed_counts_as_a_shell_counts(point):
    code, _, _ = run(point("kill -9 $$"))
    assert code == 137


@pytest.mark.slow
def test_what_a_run_leaves_behind_does_not_hold_up_the_pod(point, monkeypatch):
    folder = point("sleep 86399 & echo $! >left")
    try:
        code, _, _ = run(folder)
        assert code == 0
    finally:
        os.kill(int((folder / "left").read_text()), signal.SIGKILL)


def test_a_folder_is_run_in_once(point):
    folder = point("true")
    assert run(folder)[0] == 0
    code, _, err = run(folder)
    assert code == 1
    assert "has a run already" in err


def test_files_come_back_as_they_were(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "run_2" / "power").mkdir(parents=True)
    (source / "run_2" / "power" / "trace.csv").write_bytes(bytes(range(256)))
    (source / "kubernetes").mkdir()
    (source / "kubernetes" / "job.yaml").write_text("theirs")
    (source / "run_2" / "result.json").write_text("theirs")
    (source / "link").symlink_to("/etc/passwd")
    line = pod.pack(source, ("kubernetes", "result.json"))
    assert "\n" not in line
    pod.unpack(pod.parcel_of(f"said\n{line}\n"), target)
    assert [path.name for path in target.rglob("*") if path.is_file()] == ["trace.csv"]
    assert (target / "run_2" / "power" / "trace.csv").read_bytes() == bytes(range(256))


@pytest.mark.parametrize(
    "spoil",
    [lambda line: line[:-4], lambda line: line[:100], lambda line: line.replace("A", "B", 1), lambda line: line[:13]],
)
def test_a_log_that_was_cut_gives_no_files(tmp_path, spoil):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "record.json").write_text("{}" * 1000)
    line = pod.pack(tmp_path / "source", ())
    spoilt = spoil(line)
    if spoilt == line:
        spoilt = line[:-1]
    with pytest.raises(pod.ParcelError):
        pod.unpack(spoilt, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_log_without_files_is_said():
    with pytest.raises(pod.ParcelError, match="does not end with the files"):
        pod.parcel_of("words\nmore words\n")


def test_files_that_no_log_takes_are_said(tmp_path, monkeypatch):
    monkeypatch.setattr(pod, "MOST_BYTES", 1000)
    (tmp_path / "trace.csv").write_bytes(os.urandom(5000))
    with pytest.raises(pod.ParcelError, match=r"give site\.yaml a kubernetes_claim"):
        pod.pack(tmp_path, ())


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "a/../../outside"])
def test_no_file_leaves_the_folder(tmp_path, name):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    text = base64.b64encode(lzma.compress(packed.getvalue())).decode()
    line = f"{pod.WORD} {hashlib.sha256(text.encode()).hexdigest()} {text}"
    with pytest.raises(pod.ParcelError, match="which is not a file of a run"):
        pod.unpack(line, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_pod_needs_nothing_but_the_standard_library():
    """Whatever an image has; names of modules from a Python that has nothing else."""
    code = "import sys, caraml.schedulers.kubernetes.pod; import json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); {code}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert "caraml" in loaded
    assert not loaded & {"yaml", "numpy", "torch", "pandas", "jpwr", "results", "benchmarks"}
