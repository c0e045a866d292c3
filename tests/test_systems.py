"""Systems as data: the same keys in each, known to no other file, and the jobs that come out of them."""

from __future__ import annotations

import itertools
import json
import os
import platform
import re
from pathlib import Path

import pytest
import yaml

from benchmarks.common.measure.together import LIMIT_S
from caraml.cli import main
from caraml.plan.job import SCRIPTS
from caraml.plan.plan import plan
from results.files.systems import read_systems
from tests.conftest import REPOSITORY, SHIPPED, called, read_blocks, write_job

pytestmark = pytest.mark.long

NAMES = list(read_blocks())
GOLDEN = Path(__file__).with_name("golden_jobs.txt")


def test_every_system_of_the_suite_is_described_once_with_a_source_of_its_figures():
    assert set(NAMES) >= SHIPPED
    for name, system in read_systems().items():
        has_peak = any(system.peak_tflops(precision) for precision in ("fp32", "fp16", "bf16", "fp8"))
        assert re.search("20[12][0-9]", system.hardware_source) or not has_peak
        assert system.peak_tflops(system.default_precision) or name == "CPU" or name not in SHIPPED


def test_no_other_file_knows_a_systems_name():
    known = re.compile(rf"\b({'|'.join(sorted(set(NAMES) - {'CPU'}))})\b")
    files = [
        path
        for folder in ("jpwr", "benchmarks", "record", "results", "caraml", "jube", "containers", "scripts")
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in (".py", ".sh", ".yaml", ".in")
        and not any(part == "tests" or part.endswith("_run") for part in path.relative_to(REPOSITORY).parts)
    ]
    assert len(files) > 80
    for path in files:
        if path.name == "systems.yaml":
            continue
        code = re.sub(r'""".*?"""', "", re.sub(r"#.*", "", path.read_text()), flags=re.DOTALL)
        found = known.search(code)
        assert not found, f"{path} knows {found[0]}"


def planned_job(folder: Path, system: str, benchmark: str, *tags: str, devices: int = 0, **limits: str) -> Path:
    """Write the job of a point on a system, by default of its largest number of devices."""
    planned = plan(system, benchmark, tags=["synthetic", *tags]) | {"repo": "$repo", "data_folder": "data"}
    if system == "CPU":
        planned["cpus_per_task"] = 2  # of the machine that plans
    devices = devices or int(planned["devices"].split(",")[-1])
    return write_job(folder, f"-m {benchmark} {planned['common_flags']}", devices, **limits, **planned)


def lines_of(folder: Path) -> list[str]:
    """Return the lines of a job that differ between systems: the scheduler's, the launcher, each node's command."""
    job, node = ((folder / name).read_text() for name in SCRIPTS)
    lines = re.findall(r"^(?:#SBATCH|.*export [A-Z]*_SOCKET|launcher=|    nodes=).*", job, re.MULTILINE)
    return [*lines, *node[node.index("exec ") :].splitlines()]


def test_the_jobs_of_all_systems_are_what_they_were(tmp_path):
    """`UPDATE_GOLDEN=1 pytest tests/test_systems.py` stores what comes out now: look at the difference."""
    lines = []
    for system, benchmark in itertools.product(sorted(SHIPPED), ("llm_training", "resnet50")):
        folder = planned_job(tmp_path / f"{system}_{benchmark}", system, benchmark, "once")
        lines += [f"## {system}, {benchmark}", *lines_of(folder)]
    found = "\n".join(lines) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


def test_an_operating_point_is_set_by_the_sampler_or_by_slurm(monkeypatch, tmp_path):
    monkeypatch.setenv("CARAML_POWER_LIMITS", "70%")
    monkeypatch.setenv("CARAML_CLOCKS", "1380")
    monkeypatch.setenv("CARAML_LIMITS_SET_BY", "jpwr")
    sweep, point = ("H200", "llm_training", "caps", "clocks"), {"power_limit": "70%", "clock_limit": "1380"}
    job = "\n".join(lines_of(planned_job(tmp_path / "jpwr", *sweep, **point)))
    assert " --methods pynvml --power-limit 70% --clock 1380 --interval " in job
    assert "--warmup-steps 15 " in job
    assert "#SBATCH --gres=gpu:8\n" in job
    monkeypatch.setenv("CARAML_LIMITS_SET_BY", "slurm")
    monkeypatch.setenv("CARAML_SLURM_POWER_FLAG", "--gpu-power={}")
    job = "\n".join(lines_of(planned_job(tmp_path / "slurm", *sweep, **{**point, "power_limit": "490"})))
    flags = "--gpu-power=490 --gpu-freq=1380"
    assert f"#SBATCH --gres=gpu:8 {flags}\n" in job
    assert f"launcher=(srun --kill-on-bad-exit=1 --cpu-bind=none {flags})\n" in job
    assert "--power-limit 490 --limits-set-by scheduler --clock 1380 --limits-set-by scheduler" in job
    job = "\n".join(lines_of(planned_job(tmp_path / "observe", "H200", "llm_training", "observe")))
    assert " --methods pynvml --interval " in job


@pytest.mark.parametrize(
    ("tag", "repeats", "time", "exclusive"), [("shared", "1", "00:03:00", 0), ("apart", "1,2,3", "00:01:00", 1)]
)
def test_the_runs_of_a_point_are_one_job_or_each_one(tag, repeats, time, exclusive, tmp_path):
    assert plan("A100", "llm_training", tags=[tag])["repeats"] == repeats
    lines = lines_of(planned_job(tmp_path, "A100", "llm_training", tag))
    assert f"#SBATCH --time={time}" in lines
    assert lines.count("#SBATCH --exclusive --mem=0") == exclusive


def test_the_tag_image_makes_the_image_and_starts_no_job(jube_command, tmp_path):
    runtime = tmp_path / "bin" / "apptainer"
    runtime.parent.mkdir()
    runtime.write_text('#!/bin/sh\necho made >"$2"\n')
    runtime.chmod(0o755)
    environ = {"CARAML_CONTAINER_RUNTIME": "apptainer", "CARAML_CONTAINER_FOLDER": str(tmp_path / "images")}
    environ["PATH"] = f"{runtime.parent}:{os.environ['PATH']}"
    system = "A100" if platform.machine() == "x86_64" else "GH200"
    command = [jube_command, "run", "jube/llm.yaml", "--tag", system, "image", "--outpath", tmp_path / "run"]
    done = called(*command, cwd=REPOSITORY, **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.read_text() for path in tmp_path.glob("images/pytorch-nvidia-*.sif")] == ["made\n"]
    assert [folder.name for folder in tmp_path.glob("run/*/*_*")] == ["000000_prepare"]
    assert main(["wait", str(tmp_path / "run" / "000000")]) == 2


@pytest.mark.parametrize("submit", ["sbatch", pytest.param("kubernetes", marks=pytest.mark.slow)])
def test_a_job_is_printed_without_a_scheduler(jube_command, submit, capsys, monkeypatch):
    monkeypatch.setenv("CARAML_SUBMIT", submit)
    monkeypatch.setenv("CARAML_KUBERNETES_REGISTRY", "registry.example")
    monkeypatch.setenv("CARAML_KUBERNETES_CLAIM", "caraml")
    monkeypatch.setenv("CARAML_KUBERNETES_CLAIM_PATH", str(REPOSITORY))
    limits = {"POWER_LIMITS": "70%", "CLOCKS": "1380", "LIMITS_SET_BY": "jpwr", "ACCOUNT": "hpc1"}
    for name, value in limits.items():
        monkeypatch.setenv(f"CARAML_{name}", value)
    tags = ["caps", "clocks"] if submit == "sbatch" else []
    assert main(["job", "A100", "llm", "800M", "synthetic", "once", *tags]) == 0
    text = capsys.readouterr().out
    if submit == "sbatch":
        assert "--size 800M --data synthetic" in text
        assert " --methods pynvml --power-limit 70% --clock 1380 --interval " in text
        assert text.startswith("# sbatch --parsable --account=hpc1 job.sh\n\n# ----- job.sh\n#!/usr/bin/env bash\n")
        assert "#SBATCH --gres=gpu:1\n" in text
        assert "# ----- node.sh\n" in text
        assert "# ----- site.sh\n" in text
    else:
        [job] = yaml.safe_load_all(text)
        assert job["kind"] == "Job"
        [container] = job["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "/tmp" not in text.replace(str(REPOSITORY), "").replace("value: /tmp", "").replace("HOME=/tmp", "")


def after(flag: str, words: list[str]) -> str:
    return words[words.index(flag) + 1]


@pytest.mark.parametrize(
    ("devices", "nodes", "copies", "on_node", "first", "rendezvous"),
    [
        (1, 9, 36, "4", "21", None),
        (8, 8, 4, "1", "3", ("1", "e")),  # the ninth node has no place for a copy, which takes two
    ],
)
def test_copies_take_the_nodes_to_fill_and_begin_at_a_node_of_their_own(
    devices, nodes, copies, on_node, first, rendezvous, monkeypatch, tmp_path
):
    monkeypatch.setenv("CARAML_FILL_NODES", "9")
    point = planned_job(tmp_path, "A100", "llm_training", "fill", "once", devices=devices)
    assert {f"#SBATCH --nodes={nodes}", "#SBATCH --gres=gpu:4"} <= {*lines_of(point)}
    # The arguments with which the sixth node starts its container.
    script = re.sub(r'exec "\$repo/containers/run.sh"', r"printf '%s\\n'", (point / "node.sh").read_text())
    environ = {"SLURM_NODEID": "5", "CARAML_NODES": ",".join("abcdefghi"), "MASTER_PORT": "20000"}
    words = called("bash", "-c", script, **environ).stdout.splitlines()
    assert (after("--on-node", words), after("--first", words)) == (on_node, first)
    assert after("--vendor", words) == "nvidia"
    planned = json.loads((point / "result.json").read_text())
    assert planned["fill"]["copies"] == int(after("--copies", words)) == copies
    assert planned["layout"]["num_devices"] == 4 * nodes
    if rendezvous:
        assert (after("--node-rank", words), after("--master-addr", words)) == rendezvous
    else:
        assert "--standalone" in words
    [time] = re.findall("--time=(.*):(.*):00", (point / "job.sh").read_text())
    assert 60 * int(time[0]) + int(time[1]) == 1 + 2 * LIMIT_S / 60  # the copies wait twice for each other
