"""The workflow as a user runs it, with real JUBE."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jpwr.trace.writers import read_trace
from tests.conftest import (
    IDLE,
    REPOSITORY,
    SMALL,
    STARTER,
    called,
    caraml,
    cells_of,
    made_up_system,
    make_checkout,
    results,
    run_in_place_of_training,
    sweep,
    write_job,
)
from tests.needs import need, not_run
from tests.waiting import NEVER_S, PATIENCE_S, processes, sleeper, until

pytestmark = pytest.mark.long

NEWER_JUBE = REPOSITORY / "build" / "test-packages" / "jube"  # by `make test-packages`, on Debian 12
COLUMNS = ["model", "devices", "batch", "tokens/s", "avg power [W]", "tokens/Wh", "power source", "status"]


IS_OLD = "VERSION_CODENAME=bookworm" in Path("/etc/os-release").read_text()


@pytest.fixture(params=["jube", *[pytest.param(str(NEWER_JUBE), marks=pytest.mark.slow)] * IS_OLD], scope="module")
def jube(request):
    if request.param == "jube":
        need("jube")
    elif not NEWER_JUBE.exists():
        not_run("the newer JUBE: make test-packages gets it")
    return request.param


def table_of(jube: str, out: Path) -> list[dict[str, str]]:
    done = called(jube, "result", out, "--id", "last", "--analyse")
    assert done.returncode == 0, done.stderr
    header, *body = cells_of(done.stdout)
    assert header == COLUMNS
    assert max(map(len, done.stdout.splitlines())) <= 120
    return [dict(zip(header, row, strict=True)) for row in body]


def kill_when_it_trains(out: Path, point: str, ended: threading.Event) -> None:
    """SIGKILL the training process of one point, as soon as it is there."""
    while not ended.wait(0.05):
        found = processes(out / "000000" / point / "work", "-u", "benchmarks.llm_training")
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        if found:
            return


@pytest.fixture(scope="module")
def swept(jube, tmp_path_factory):
    """A sweep on made tokens, the benchmark of its second point killed."""
    # A batch of 12 does not go onto two devices: its micro batches are of 4.
    block = made_up_system(batch_sweep="8 12", warmup_steps=1, measured_steps=2, min_measured_s=1)
    checkout = make_checkout(tmp_path_factory.mktemp("sweep") / "caraml", block, SMALL)
    ended = threading.Event()
    killer = threading.Thread(target=kill_when_it_trains, args=(checkout / "run", "000002_benchmark", ended))
    killer.start()
    try:
        return jube, sweep(jube, checkout, "TESTBED", "synthetic")
    finally:
        ended.set()
        killer.join()


def test_the_sweep_has_a_row_for_each_point_with_energy_over_its_window(swept):
    table = table_of(*swept)
    assert [(row["devices"], row["batch"]) for row in table] == [("1", "8"), ("1", "12"), ("2", "8")]
    for row in (table[0], table[2]):
        assert row["status"] == "ok"
        assert row["model"] == "tiny"
        per_wh = 3600 * float(row["tokens/s"]) / float(row["avg power [W]"])
        assert float(row["tokens/Wh"]) == pytest.approx(per_wh, rel=1e-2)
        assert re.fullmatch(r"ESTIMATED, cpu|measured, cpu(\+dram)?", row["power source"])


def test_throughput_and_energy_are_of_the_same_window(swept):
    _, out = swept
    result = results(out)[0]
    [window] = result["windows"]
    seconds = window["end_s"] - window["start_s"]
    assert seconds == pytest.approx(sum(result["step_times_s"]))
    assert result["energy"]["window_s"] == pytest.approx(seconds)
    assert result["energy"]["avg_power_w"] * seconds / 3600 == pytest.approx(result["energy"]["energy_wh"])
    [file] = (out / "000000" / "000001_benchmark" / "work" / "power").glob("*/trace.csv")
    trace = read_trace(file)
    times_s = trace.series()[0].times_s
    assert result["energy"]["samples"] == sum(window["start_s"] <= time_s <= window["end_s"] for time_s in times_s) > 0
    [region] = trace.regions()
    assert region.start_s == pytest.approx(window["start_s"], abs=1e-5)
    assert region.end_s == pytest.approx(window["end_s"], abs=1e-5)
    assert result["energy"]["tokens_per_wh"] == pytest.approx(
        result["metrics"]["tokens_per_s"] * 3600 / result["energy"]["avg_power_w"]
    )


def test_a_killed_point_is_a_failed_row_and_makes_the_check_fail(swept):
    jube, out = swept
    row = table_of(jube, out)[1]
    assert row["status"] == "failed"
    assert row["tokens/s"] == row["tokens/Wh"] == ""
    done = caraml("check", out)
    assert done.returncode == 1
    assert "000002_benchmark: TESTBED, tiny, 1 device, batch 12: failed" in done.stderr
    assert "SIGKILL" in done.stderr


@pytest.mark.parametrize(
    ("workflow", "tags", "message"),
    [
        ("llm", ["cpu", "syntetic"], "llm_training has no tag 'cpu' (did you mean 'CPU'?); 'syntetic' (did you mean"),
        ("node_check", [], "no system was given: add its tag, such as --tag CPU"),
        pytest.param("resnet50", ["CS2"], "CS2 was asked for, but a Cerebras CS-2 needs", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_refused_is_one_sentence_and_leaves_no_folder(jube, workflow, tags, message, tmp_path):
    done = called(
        jube, "run", f"jube/{workflow}.yaml", "--outpath", tmp_path / "run", *(["--tag", *tags] if tags else [])
    )
    assert (done.returncode, done.stdout) == (1, "")
    [sentence] = done.stderr.strip().splitlines()
    assert sentence.startswith(f"caraml: {message}")
    assert not list((tmp_path / "run").iterdir())


def test_the_runs_of_a_point_share_a_job_and_one_that_fails_fails_the_point(jube_command, tmp_path):
    block = made_up_system(default_repeats=3, devices_sweep="1", batch_sweep="8", power_methods="estimate")
    checkout = make_checkout(tmp_path / "caraml", block)
    run_in_place_of_training(checkout, f"python3 {checkout}/tests/quick_run.py --effective run_2")
    out = sweep(jube_command, checkout, "TESTBED", "synthetic")
    [point] = out.glob("000000/*_benchmark/work")
    runs = [json.loads((point / name / "result.json").read_text()) for name in ("", "run_2", "run_3")]
    assert [result["status"] for result in runs] == ["ok", "failed", "ok"]
    assert "this run is to fail" in runs[1]["error"]
    assert runs[1]["metrics"]["measured_steps"] > 0  # whose speed no table shows
    shown = caraml("table", out).stdout.splitlines()
    assert [" 200.0 " in line for line in shown if "TESTBED" in line and "|" in line] == [False, False, True]
    assert len({result["run_id"] for result in runs}) == 3
    assert all(result["energy"]["energy_wh"] > 0 for result in (runs[0], runs[2]))
    [row] = table_of(jube_command, out)
    assert (row["status"], row["tokens/s"]) == ("1 of 3 failed", "150.0")
    median = {key: sum(runs[index]["energy"][key] for index in (0, 2)) / 2 for key in ("tokens_per_wh", "avg_power_w")}
    assert all(result["energy_effective"]["tokens_per_wh"] < median["tokens_per_wh"] / 10 for result in runs[::2])
    assert float(row["tokens/Wh"]) == pytest.approx(median["tokens_per_wh"], rel=1e-3)
    assert float(row["avg power [W]"]) == pytest.approx(median["avg_power_w"], abs=0.051)
    checked = caraml("check", out)
    assert checked.returncode == 1
    assert "000001_benchmark, run_2: TESTBED, tiny, 1 device, batch 8: failed" in checked.stderr


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["", "apart"])
def test_the_runs_of_a_point_to_a_loss_have_other_seeds_and_begin_with_the_first_step(jube_command, tag, tmp_path):
    block = made_up_system(default_repeats=3, devices_sweep="1", batch_sweep="8", default_size="tiny")
    checkout = make_checkout(tmp_path / "caraml", block, SMALL)
    seen, node, script = tmp_path / "seen", checkout / "jube" / "include" / "node.sh.j2", tmp_path / "training.sh"
    script.write_text(f'echo "$*" >>{seen}; exit 1\n')
    node.write_text(node.read_text().replace(STARTER, f" bash {script} ").replace(IDLE, "--idle 0"))
    tags = ("TESTBED", "to-loss", *filter(None, [tag]))
    sweep(jube_command, checkout, *tags)
    flags = [line.split() for line in seen.read_text().splitlines()]
    names = ("--seed", "--to-loss", "--warmup-steps", "--data")
    values = [{name: line[line.index(name) + 1] for name in names} for line in flags]
    assert sorted(one.pop("--seed") for one in values) == ["1234", "1235", "1236", "1237", "1238"]
    assert values == [{"--to-loss": "7.2", "--warmup-steps": "0", "--data": "synthetic"}] * 5


@pytest.fixture(scope="module")
def filled(jube_command, tmp_path_factory):
    """A sweep of copies of a point on a laptop, of which one fails at its end in the second point."""
    folder = tmp_path_factory.mktemp("filled")
    program = f"""case $PWD in */000002_benchmark/*) bad=copy_2 ;; esac
exec python3 {folder}/caraml/tests/quick_run.py $bad
"""
    block = {"batch_sweep": "8 16", "devices_sweep": "1", "power_methods": "estimate", "default_repeats": 1}
    checkout = make_checkout(folder / "caraml", made_up_system(**block))
    (folder / "program.sh").write_text(program)
    run_in_place_of_training(checkout, f"bash {folder}/program.sh")
    return sweep(jube_command, checkout, "TESTBED", "fill", "synthetic")


def test_copies_that_fill_a_laptop_are_one_result(jube_command, filled):
    result = results(filled)[0]
    assert (result["status"], result["error"]) == ("ok", "")
    fill, layout = result["fill"], result["layout"]
    assert (fill["copies"], fill["devices_per_copy"], fill["slowest"], fill["spread_percent"]) == (2, 1, 100.0, 50.0)
    assert (layout["num_devices"], layout["global_batch_size"]) == (2, 16)
    assert result["metrics"]["tokens_per_s"] == 200.0
    assert result["energy"]["avg_power_w"] > 0
    assert fill["common_s"] == pytest.approx(result["energy"]["window_s"])
    row = table_of(jube_command, filled)[0]
    assert (row["devices"], row["batch"], row["tokens/s"]) == ("2", "16", "200.0")


def test_a_copy_that_fails_fails_the_group(jube_command, filled):
    point = filled / "000000" / "000002_benchmark" / "work"
    result = results(filled)[1]
    assert result["status"] == "failed"
    assert result["error"] == "copy 2: ended with exit code 1: error: this run is to fail"
    assert (result["layout"]["num_devices"], result["layout"]["global_batch_size"]) == (2, 32)
    assert (point / "error").exists()
    checked = caraml("check", filled)
    assert checked.returncode == 1
    assert "TESTBED, tiny, 2 devices, batch 32, 2 copies: failed: copy 2" in checked.stderr


def quick_checkout(tmp_path: Path, command: str, **block: object) -> Path:
    """A checkout whose jobs run a shell's command before they end soon and well."""
    values = {"devices_sweep": "1", "power_methods": "estimate", "default_repeats": 1, **block}
    checkout = make_checkout(tmp_path / "caraml", made_up_system(**values))
    program = tmp_path / "program.sh"
    program.write_text(f"{command}\nexec python3 {checkout}/tests/quick_run.py\n")
    run_in_place_of_training(checkout, f"bash {program}")
    return checkout


def test_a_point_that_failed_is_retried_once_and_its_good_run_stays(jube, tmp_path):
    checkout = quick_checkout(tmp_path, f"[ -e {tmp_path}/repaired ] || exit 7", batch_sweep="8")
    out = sweep(jube, checkout, "TESTBED", "synthetic")
    assert [row["status"] for row in table_of(jube, out)] == ["failed"]
    (tmp_path / "repaired").touch()
    retried = caraml("wait", out, "--retry-failed", "--interval", "1", JUBE=jube)
    assert retried.returncode == 0, retried.stdout + retried.stderr
    assert "1 point: 1 ok" in retried.stdout
    [point] = out.glob("000000/*_benchmark/work")
    assert json.loads((point / "result.json").read_text())["status"] == "ok"
    assert len(list(point.glob("attempts/*"))) == len(list(point.glob("power/*"))) == 1
    assert [row["status"] for row in table_of(jube, out)] == ["ok"]
    assert caraml("check", out, JUBE=jube).returncode == 0
    assert "failed" not in caraml("table", out, "--repeats", JUBE=jube).stdout


def test_a_sweep_whose_jube_was_killed_goes_on_where_it_was(jube, tmp_path):
    command = f"echo begun >>begun; until [ -e {tmp_path}/told ]; do sleep 0.1; done"
    checkout = quick_checkout(tmp_path, command, batch_sweep="8 16")
    out = checkout / "run"
    arguments = ["run", "jube/llm.yaml", "--tag", "TESTBED", "synthetic", "--outpath", str(out)]
    first = out / "000000" / "000001_benchmark" / "work"
    with subprocess.Popen([jube, *arguments], cwd=checkout, stdout=subprocess.DEVNULL) as started:
        until((first / "begun").exists, "the first job's program")
        started.kill()
    waited = caraml("wait", out, "--interval", "1", "--limit", "1", JUBE=jube)
    assert (waited.returncode, waited.stdout.split(": ", 1)[1]) == (3, "2 points: 1 running, 1 not started\n")
    told = caraml("check", out, JUBE=jube).stderr
    assert f"1 of its points were never started: 'jube continue {out} --id 0' starts them" in told
    go_on = [jube, "continue", str(out), "--id", "0"]
    with subprocess.Popen(go_on, stdout=subprocess.DEVNULL) as continued:
        until((out / "000000" / "continue.log").exists, "JUBE's going on")
        (tmp_path / "told").touch()
        assert continued.wait(PATIENCE_S) == 0
    points = sorted(out.glob("000000/*_benchmark/work"))
    assert [(point / "begun").read_text() for point in points] == ["begun\n", "begun\n"]
    assert [row["status"] for row in table_of(jube, out)] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ("H200", "H200 runs by sbatch, which cannot be used here: 'caraml doctor --system H200' lists what is missing"),
        ("H2000", "there is no system 'H2000'"),
        ("CPU foo", "llm_training has no tag 'foo'"),
    ],
)
def test_the_demo_refuses_a_system_or_a_tag_before_it_makes_data(tmp_path, tags, reason):
    (tmp_path / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "scontrol").chmod(0o755)
    data = tmp_path / "data"
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = called("scripts/demo.sh", *tags.split(), PATH=path, CARAML_DATA_FOLDER=str(data))
    assert done.returncode
    assert reason in done.stderr
    assert not data.exists()


SPAWN = "python3 -m benchmarks.common.spawn"


def submit(folder: Path) -> tuple[subprocess.CompletedProcess[str], dict]:
    done = called(REPOSITORY / "jube/include/submit.sh", "bash", "CPU", cwd=folder)
    return done, json.loads((folder / "result.json").read_text())


@pytest.mark.parametrize(
    ("program", "methods", "reason"),
    [
        ("-m benchmarks.llm_training --micro-batch-size x", "estimate", "error: argument --micro-batch-size"),
        ("-m benchmarks.llm_training", "pynvml", "method 'pynvml' was asked for, but"),
    ],
)
def test_a_job_that_fails_says_why_in_its_row(tmp_path, program, methods, reason):
    done, result = submit(write_job(tmp_path, program, power_methods=methods))
    assert done.returncode == 1
    assert result["status"] == "failed"
    assert reason in result["error"]
    assert (tmp_path / "error").exists()
    assert not (tmp_path / "ready").exists()


def test_a_modules_packages_do_not_go_before_those_of_the_environment(tmp_path):
    """As of a module of the site that sets PYTHONPATH and PYTHONHOME."""
    (tmp_path / "module").mkdir()
    for name in ("torch", "yaml", "argparse"):
        (tmp_path / "module" / f"{name}.py").write_text("raise SystemExit('from the module')\n")
    (tmp_path / "rank.py").write_text("import yaml\nopen('package', 'w').write(yaml.__file__)\n")
    environ = {"PYTHONPATH": str(tmp_path / "module"), "PYTHONHOME": str(tmp_path)}
    done = called("bash", write_job(tmp_path, "rank.py") / "node.sh", cwd=tmp_path, **environ)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) not in (tmp_path / "package").read_text()
    assert f"PYTHONPATH '{tmp_path}/module' is not used" in done.stderr
    python = [REPOSITORY / "jube" / "include" / "python.sh", "-c", "import yaml, results; print(yaml.__file__)"]
    done = called(*python, cwd=tmp_path, **environ)
    assert (done.returncode, str(tmp_path) in done.stdout) == (0, False)


def test_a_job_needs_no_package_of_python_but_its_programs_own(tmp_path):
    repo, job = tmp_path / "checkout", tmp_path / "job"
    for folder in (repo, job):
        folder.mkdir()
    for name in ("benchmarks", "containers", "ioprof", "jpwr", "jube", "record", "results", "tests"):
        (repo / name).symlink_to(REPOSITORY / name)
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')  # without the folder of packages
    python.chmod(0o755)
    planned = {"tags": ["fill", "io"], "meter": {"accuracy_percent": 1.0}, "process_starter": SPAWN}
    write_job(job, "-m tests.quick_run", repo=str(repo), **planned)
    (job / "site.sh").touch()
    done = called("bash", "job.sh", cwd=job, PATH=f"{python.parent}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    result = json.loads((job / "result.json").read_text())
    assert (result["status"], result["error"]) == ("ok", "")
    assert result["energy"]["energy_wh"] > 0
    assert result["energy"]["site"] == {"accuracy_percent": 1.0}
    assert result["fill"]["copies"] == 2
    assert list(job.glob("copy_1/io/*"))


def test_a_job_that_is_told_to_stop_leaves_a_failed_row(tmp_path):
    folder = write_job(tmp_path, f"--no-python sleep {NEVER_S}")
    (folder / "site.sh").touch()
    with (
        open(folder / "job.err", "w") as errors,
        subprocess.Popen(["bash", "job.sh"], cwd=folder, stderr=errors) as job,
    ):
        until(lambda: sleeper(folder), "the program", (folder / "job.err").read_text)
        job.terminate()
        assert job.wait(timeout=PATIENCE_S) == 143
    result = json.loads((folder / "result.json").read_text())
    assert (result["status"], result["error"].split(":")[0]) == ("failed", "ended by signal 15 (SIGTERM)")


@pytest.mark.parametrize(
    ("checkout", "out"), [pytest.param("my project,b:c|d", "out", marks=pytest.mark.slow), ("good", "a,b")]
)
def test_a_folder_that_jube_or_a_shell_would_read_otherwise_is_one_sentence(jube_command, tmp_path, checkout, out):
    folder = make_checkout(tmp_path / checkout)
    done = called(jube_command, "run", "jube/llm.yaml", "--tag", "CPU", "--outpath", tmp_path / out, cwd=folder)
    assert done.returncode != 0
    assert "in its name: take a path of letters" in done.stdout + done.stderr
    assert not list((tmp_path / out).glob("*/*_benchmark"))
