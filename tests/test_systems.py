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
from tests.conftest import (
    REPOSITORY,
    SHIPPED,
    called,
    made_up_system,
    make_checkout,
    read_blocks,
    write_job,
    write_systems,
)

pytestmark = pytest.mark.long

ONE_POINT = made_up_system(submit="sbatch", devices_sweep="1", batch_sweep="8", image_batch_sweep="8")
BLOCKS = read_blocks()
NAMES = list(BLOCKS)
GOLDEN = Path(__file__).with_name("golden_jobs.txt")


def test_every_system_of_the_suite_is_described_once_with_a_source_of_its_figures():
    assert set(NAMES) >= SHIPPED
    for name, system in read_systems().items():
        has_peak = any(system.peak_tflops(precision) for precision in ("fp32", "fp16", "bf16", "fp8"))
        assert re.search("20[12][0-9]", system.hardware_source) or not has_peak
        assert system.peak_tflops(system.default_precision) or name == "CPU" or name not in SHIPPED


@pytest.mark.parametrize(
    ("vendor", "values"),
    [
        ("nvidia", ("pynvml", "gpu", "nvidia.com/gpu", "pytorch-nvidia-x86_64", "apptainer")),
        ("amd", ("rocm", "gpu", "amd.com/gpu", "pytorch-amd-x86_64", "apptainer")),
        ("graphcore", ("gc", "", "", "pytorch-graphcore-x86_64", "apptainer")),
        ("none", ("rapl/estimate", "", "", "cpu", "none")),
    ],
)
def test_a_block_states_what_differs_from_the_defaults_of_its_vendor(tmp_path, vendor, values):
    file = tmp_path / "systems.yaml"
    file.write_text(f"X: {{vendor: {vendor}, accelerator: a device, devices_per_node: 6, hardware_source: none}}\n")
    system = read_systems(file)["X"]
    found = (system.power_methods, system.gres, system.kubernetes_resource)
    assert (*found, system.image_of("pytorch"), system.container_runtime) == values
    assert (system.system_name, system.devices_sweep, system.submit) == ("X", "1 2 4", "sbatch")
    assert (system.values["default_repeats"], system.values["warmup_steps"]) == (3, "5")


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


@pytest.fixture(scope="module")
def one_point_checkout(tmp_path_factory):
    """A checkout whose workflows have their largest point alone, and a scheduler that only takes jobs."""
    folder = make_checkout(tmp_path_factory.mktemp("golden") / "caraml")
    for path in (folder / "benchmarks").glob("*/workload.yaml"):
        path.write_text(re.sub(r"(batch_sweep: ).* (\d+)$", r"\1\2", path.read_text(), flags=re.MULTILINE))
    (folder / "bin").mkdir()
    for name, said in (("sbatch", "1"), ("scontrol", "ClusterName = made-up; Slurmctld(primary) is UP")):
        (folder / "bin" / name).write_text(f"#!/bin/sh\necho '{said}'\n")
        (folder / "bin" / name).chmod(0o755)
    return folder


def one_point(system: str) -> dict:
    """Return the block of a system with its largest point alone."""
    block = {"devices_sweep": read_systems()[system].devices_sweep} if system in BLOCKS else {}
    block |= {**BLOCKS, **ONE_POINT}[system]
    sweeps = r"(devices|batch|\w+_batch)_sweep"
    return {key: value.split()[-1] if re.fullmatch(sweeps, key) else value for key, value in block.items()}


def jube_run(checkout: Path, jube: str, workflow: str, system: str, *tags: str, out: Path, **environ: str):
    """Run a workflow in a checkout with one system alone, whose scheduler may be replaced by `PATH`."""
    write_systems(checkout, {system: one_point(system)})
    path = f"{environ.pop('PATH', '')}:{checkout}/bin:{os.environ['PATH']}"
    command = [jube, "run", f"jube/{workflow}.yaml", "--tag", system, *tags, "--outpath", out]
    return called(*command, cwd=checkout, PATH=path, **environ)


def job_of(checkout: Path, jube: str, workflow: str, system: str, *tags: str, out: Path) -> str:
    """Return what differs between systems in the job that a workflow submits."""
    done = jube_run(checkout, jube, workflow, system, "synthetic", "once", *tags, out=out)
    assert done.returncode == 0, done.stdout + done.stderr
    [point] = out.glob("*/*_benchmark/work")
    assert (point / "job.id").read_text() == "1\n"
    return "\n".join(lines_of(point)).replace(str(checkout), "$repo") + "\n"


def test_an_operating_point_is_set_by_the_sampler_or_by_slurm(one_point_checkout, jube_command, monkeypatch, tmp_path):
    monkeypatch.setenv("CARAML_POWER_LIMITS", "70%")
    monkeypatch.setenv("CARAML_CLOCKS", "1380")
    monkeypatch.setenv("CARAML_LIMITS_SET_BY", "jpwr")
    job = job_of(one_point_checkout, jube_command, "llm", "H200", "caps", "clocks", out=tmp_path / "jpwr")
    assert " --methods pynvml --power-limit 70% --clock 1380 --interval " in job
    assert "--warmup-steps 15 " in job
    assert "#SBATCH --gres=gpu:8\n" in job
    monkeypatch.setenv("CARAML_LIMITS_SET_BY", "slurm")
    monkeypatch.setenv("CARAML_SLURM_POWER_FLAG", "--gpu-power={}")
    job = job_of(one_point_checkout, jube_command, "resnet50", "H200", "caps", "clocks", out=tmp_path / "slurm")
    flags = "--gpu-power=490 --gpu-freq=1380"
    assert f"#SBATCH --gres=gpu:8 {flags}\n" in job
    assert f"launcher=(srun --kill-on-bad-exit=1 --cpu-bind=none {flags})\n" in job
    assert "--power-limit 490 --limits-set-by scheduler --clock 1380 --limits-set-by scheduler" in job
    job = job_of(one_point_checkout, jube_command, "llm", "H200", "observe", out=tmp_path / "observe")
    assert " --methods pynvml --interval " in job


def test_the_runs_of_a_point_are_one_job_or_each_one(one_point_checkout, jube_command, tmp_path):
    found = {}
    for tag in ("shared", "apart"):
        done = jube_run(one_point_checkout, jube_command, "llm", "A100", "synthetic", tag, out=tmp_path / tag)
        assert done.returncode == 0, done.stdout + done.stderr
        points = sorted((tmp_path / tag).glob("*/*_benchmark/work"))
        found[tag] = [(point / "job.sh").read_text().split("#SBATCH --time=")[1].split()[0] for point in points]
        results = [len(list(point.rglob("result.json"))) for point in points]
        assert results == ([3] if tag == "shared" else [1, 1, 1])
    assert found == {"shared": ["06:00:00"], "apart": ["02:00:00"] * 3}


def test_the_tag_image_makes_the_image_and_starts_no_job(one_point_checkout, jube_command, tmp_path):
    script = one_point_checkout / "bin" / "apptainer"
    script.write_text('#!/bin/sh\necho made >"$2"\n')
    script.chmod(0o755)
    environ = {"CARAML_CONTAINER_RUNTIME": "apptainer", "CARAML_CONTAINER_FOLDER": str(tmp_path / "images")}
    system = "A100" if platform.machine() == "x86_64" else "GH200"
    done = jube_run(one_point_checkout, jube_command, "llm", system, "image", out=tmp_path / "run", **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.read_text() for path in tmp_path.glob("images/pytorch-nvidia-*.sif")] == ["made\n"]
    assert [folder.name for folder in tmp_path.glob("run/*/*_*")] == ["000000_prepare"]
    assert main(["wait", str(tmp_path / "run" / "000000")]) == 2


@pytest.mark.long
@pytest.mark.parametrize("submit", ["sbatch", "kubernetes"])
def test_a_job_is_printed_without_a_scheduler(jube_command, submit, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CARAML_SUBMIT", submit)
    monkeypatch.setenv("CARAML_KUBERNETES_REGISTRY", "registry.example")
    monkeypatch.setenv("CARAML_KUBERNETES_CLAIM", "caraml")
    monkeypatch.setenv("CARAML_KUBERNETES_CLAIM_PATH", str(REPOSITORY))
    monkeypatch.setenv("CARAML_ACCOUNT", "hpc1")
    assert main(["job", "A100", "llm", "800M", "synthetic", "once"]) == 0
    text = capsys.readouterr().out
    assert "--size 800M --data synthetic" in text or submit == "kubernetes"
    if submit == "sbatch":
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


def started_on(node: int, script: str, names: str) -> list[str]:
    """The arguments with which a node's part of a job starts its container."""
    text = re.sub(r'exec "\$repo/containers/run.sh"', r"printf '%s\\n'", script)
    environ = {"SLURM_NODEID": str(node), "CARAML_NODES": names, "MASTER_PORT": "20000"}
    return called("bash", "-c", text, **environ).stdout.splitlines()


def after(flag: str, words: list[str]) -> str:
    return words[words.index(flag) + 1]


@pytest.mark.parametrize(
    ("devices", "nodes", "copies", "on_node", "first", "rendezvous"),
    [
        ("1", 9, 36, "4", "21", None),
        ("8", 8, 4, "1", "3", ("1", "e")),  # the ninth node has no place for a copy, which takes two
    ],
)
def test_copies_take_the_nodes_to_fill_and_begin_at_a_node_of_their_own(
    devices, nodes, copies, on_node, first, rendezvous, one_point_checkout, jube_command, monkeypatch, tmp_path
):
    monkeypatch.setenv("CARAML_FILL_NODES", "9")
    monkeypatch.setenv("CARAML_DEVICES", devices)
    out = tmp_path / "filled"
    job = job_of(one_point_checkout, jube_command, "llm", "A100", "fill", out=out)
    assert f"#SBATCH --nodes={nodes}\n#SBATCH" in job
    assert "#SBATCH --gres=gpu:4\n" in job
    [point] = out.glob("*/*_benchmark/work")
    planned = json.loads((point / "result.json").read_text())
    words = started_on(5, (point / "node.sh").read_text(), ",".join("abcdefghi"))
    assert (after("--on-node", words), after("--first", words)) == (on_node, first)
    assert after("--vendor", words) == "nvidia"
    assert planned["fill"]["copies"] == int(after("--copies", words)) == copies
    assert planned["layout"]["num_devices"] == 4 * nodes
    if rendezvous:
        assert (after("--node-rank", words), after("--master-addr", words)) == rendezvous
    else:
        assert "--standalone" in words
    request = json.loads((point / "request.json").read_text())
    assert (request["nodes"], request["devices_on_node"]) == (nodes, 4)
    hours, minutes, _ = map(int, request["time_limit"].split(":"))
    of_800m_min = 120  # each run, and the copies wait twice for each other
    runs = int(re.search(r"i <= (\d+); i\+\+", (point / "job.sh").read_text())[1])
    assert 60 * hours + minutes == runs * (of_800m_min + 2 * LIMIT_S / 60)


def lines_of(folder: Path) -> list[str]:
    """Return the lines of a job that differ between systems: the scheduler's, the launcher, each node's command."""
    job, node = ((folder / name).read_text() for name in SCRIPTS)
    lines = re.findall(r"^(?:#SBATCH|.*export [A-Z]*_SOCKET|launcher=|    nodes=).*", job, re.MULTILINE)
    return [*lines, *node[node.index("exec ") :].splitlines()]


def test_the_jobs_of_all_systems_are_what_they_were(tmp_path):
    """`UPDATE_GOLDEN=1 pytest tests/test_systems.py` stores what comes out now: look at the difference."""
    lines = []
    for system, benchmark in itertools.product(sorted(SHIPPED), ("llm_training", "resnet50")):
        planned = plan(system, benchmark, tags=["synthetic", "once"]) | {"repo": "$repo", "data_folder": "data"}
        if system == "CPU":
            planned["cpus_per_task"] = 2  # of the machine that plans
        devices = int(planned["devices"].split(",")[-1])
        folder = tmp_path / f"{system}_{benchmark}"
        folder.mkdir()
        write_job(folder, f"-m {benchmark} {planned['common_flags']}", devices, **planned)
        lines += [f"## {system}, {benchmark}", *lines_of(folder)]
    found = "\n".join(lines) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()
