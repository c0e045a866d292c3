"""The site's facts, and what the doctor says of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from caraml.cli import main
from caraml.errors import SiteError
from caraml.installation import checkout
from caraml.machine import doctor
from caraml.plan import site
from caraml.plan.site import KEYS, Site, job_lines, read_site, sbatch_flags
from caraml.plan.systems import read_system
from tests.conftest import called

REPOSITORY = checkout()


@pytest.fixture
def site_file(tmp_path):
    return tmp_path / "site.yaml"


def test_the_example_copied_as_it_is_changes_nothing(site_file):
    example = (REPOSITORY / "examples/site.yaml").read_text()
    site_file.write_text(example)
    assert read_site("JEDI", site_file, {}) == read_site("JEDI", site_file.with_name("none.yaml"), {})
    site_file.write_text(example.replace("# systems:", "systems:").replace("#   JEDI", "  JEDI"))
    assert sbatch_flags(read_site("JEDI", site_file, {})) == ["--partition=all"]


def test_the_environment_comes_before_the_file_and_the_file_before_the_default(site_file):
    site_file.write_text("partition: one\naccount: me\n")
    site = read_site("A100", site_file, {"CARAML_PARTITION": "two", "CARAML_SBATCH": "--hold --nice=5"})
    assert sbatch_flags(site) == ["--account=me", "--partition=two", "--hold", "--nice=5"]
    assert read_site("A100", site_file.with_name("none.yaml"), {}).account == ""


def test_a_variable_that_nothing_reads_is_refused_with_its_value():
    with pytest.raises(SiteError) as error:
        read_site("A100", REPOSITORY / "none.yaml", {"CARAML_BATCH": "16"})
    assert "has CARAML_BATCH=16, which nothing reads: unset it, or did you mean 'CARAML_BATCHES'?" in str(error.value)
    assert read_site("A100", REPOSITORY / "none.yaml", dict.fromkeys(site.OTHER_VARIABLES, "1")).batches == ""


def test_every_variable_that_is_read_is_known():
    """Names of variables in programs and templates, but for those of a longer name, such as CARAML_COLUMNS."""
    listed = ["git", "grep", "-ohE", r"(\$\{?|environ\S*\(?\"|_VARIABLE = \"|export |env:? .*)CARAML_[A-Z0-9_]+"]
    listed += ["--", "*.py", "*.sh", "*.in", ".ci", "Makefile", ":!*tests/*"]
    names = set(re.findall("CARAML_[A-Z0-9_]+", called(*listed).stdout))
    known = {f"CARAML_{key.upper()}" for key in KEYS} | site.OTHER_VARIABLES
    assert {"CARAML_NODES", "CARAML_TORCH", "CARAML_IMAGE", "CARAML_CORES"} <= names <= known


def test_a_job_takes_in_modules_folders_and_the_interface(site_file):
    site_file.write_text("modules: [GCC/13, 'a b']\nnetwork_interface: ib1\nsrun: ['--mpi=none']\ndata_folder: /d\n")
    lines = job_lines(read_site("A100", site_file, {}))
    assert [line.split(maxsplit=2)[2] for line in lines[:2]] == ["GCC/13 || exit", "'a b' || exit"]
    assert "export CARAML_DATA_FOLDER=/d" in lines
    assert "export NCCL_SOCKET_IFNAME=ib1 GLOO_SOCKET_IFNAME=ib1" in lines
    assert any("launcher+=(--mpi=none)" in line for line in lines)


# Environment Modules 3.2 have GCC/13 and Python/3.11, and answer 0 whatever is asked for; newer ones answer 1.
MODULES = """module() {
    case $2 in
    GCC | GCC/13) LOADEDMODULES=${LOADEDMODULES:+$LOADEDMODULES:}GCC/13 ;;
    Python/3.11) [[ :$LOADEDMODULES: == *:Python/3.11:* ]] || LOADEDMODULES+=:Python/3.11 ;;
    *) echo "ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for '$2'" >&2; return ${CODE:-0} ;;
    esac
}
"""


@pytest.mark.parametrize(
    ("modules", "code", "words"),
    [
        (["GCC"], 0, ""),
        (["GCC/13", "Python/3.11", "Python/3.11"], 0, ""),
        (["GCC", "GC"], 1, "the module 'GC' was asked for, but"),
    ],
)
def test_a_module_that_is_not_loaded_ends_the_job_whatever_the_exit_code(modules, code, words):
    lines = job_lines(Site(modules=tuple(modules)))
    for answer in ("", "CODE=1\n"):
        script = "\n".join(["set -uo pipefail", f"repo={REPOSITORY}", f"{answer}{MODULES}", *lines])
        done = called("bash", "-c", script)
        assert done.returncode == code
        assert answer or words in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("null: me", "unknown key 'None': choose one of submit"),
        ("acount: me", "unknown key 'acount': did you mean 'account'?"),
        ("modules: GCC", "modules is 'GCC', but must be a list"),
        ("systems: {JEDI: {partion: x}}", "system JEDI has an unknown key 'partion'"),
        ("systems: {JEDY: {partition: x}}", "systems: there is no system 'JEDY': did you mean 'JEDI'?"),
        ("systems: [JEDI]", "systems is ['JEDI'], but must be keys with their values"),
        ("container_runtime: docker", "container_runtime is 'docker', but must be one of"),
        ("slurm_power_flag: --power", "slurm_power_flag is '--power', but must be a flag of sbatch and srun"),
        ("data_folder: ~nobody-of-that-name/x", "there is no such user or environment variable"),
        ("container_mounts: [$NO_SUCH_VARIABLE/x]", "there is no such user or environment variable"),
    ],
)
def test_a_site_with_a_mistake_is_one_clear_sentence(site_file, text, message):
    site_file.write_text(text)
    with pytest.raises(SiteError) as error:
        read_site("JEDI", site_file, {})
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_folders_are_whole_paths(site_file, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("SCRATCH", "/scratch")
    monkeypatch.setenv("STARTER", "sbatch")
    text = "data_folder: ~/data\ncontainer_folder: images\ncontainer_mounts: [~, $SCRATCH/x]\nsubmit: $STARTER\n"
    site_file.write_text(text)
    site = read_site("JEDI", site_file, {})
    assert (site.data_folder, site.submit) == ("/home/me/data", "sbatch")
    assert site.container_folder == str(REPOSITORY / "images")
    assert site.container_mounts == ("/home/me", "/scratch/x")
    assert read_site("JEDI", site_file, {"CARAML_DATA_FOLDER": "~/other"}).data_folder == "/home/me/other"


def states(findings):
    return {finding.what: finding.state for finding in findings}


def test_a_partition_that_slurm_does_not_know_is_found_before_the_first_job(programs):
    programs("sbatch", "exit 0")
    programs("sinfo", "echo 'batch 2:00:00 gpu:4'; echo 'cpu 1-00:00:00 (null)'")
    block = read_system("A100")
    site = read_site("A100", REPOSITORY / "none.yaml", {})
    assert states(doctor.scheduler(block, replace(site, partition="gpu")))["partition"] == "FAIL"
    assert states(doctor.scheduler(block, site)) == {"partition": "look", "account": "look"}


@pytest.mark.parametrize(
    ("gres", "offers", "has_devices"),
    [
        ("gpu", ["(null)", "gpu:a100:4(S:0,3)", "gpu:v100:2"], True),
        ("gpu", ["craynetwork:4,gpu:a100:4"], True),
        ("gpu:a100", ["gpu:h100:4", "gpu:v100:2,gpu:a100:4"], True),
        ("gpu:a100", ["gpu:a100_80g:4", "mygpu:a100:4"], False),
    ],
)
def test_a_partition_has_devices_if_any_of_its_kinds_of_nodes_does(programs, gres, offers, has_devices):
    """With a line of `sinfo` for each kind of node, whose resources come in any order."""
    programs("sbatch", "exit 0")
    programs("sinfo", "\n".join(f"echo 'batch 2:00:00 {offer}'" for offer in offers))
    found = states(doctor.scheduler(replace(read_system("A100"), gres=gres), Site(partition="batch")))
    assert found == {"account": "look"} | ({} if has_devices else {"devices": "FAIL"})


@pytest.mark.parametrize(
    ("runtime", "listed", "states"),
    [
        ("none", "Python has no module pynvml: pip install nvidia-ml-py", ["FAIL"]),
        ("apptainer", "Python has no module pynvml: pip install nvidia-ml-py", []),  # the image's package counts
        ("none", "NVML cannot be used", ["look"]),
    ],
)
def test_a_sensor_without_its_package_is_told_from_one_without_its_device(monkeypatch, runtime, listed, states):
    says = subprocess.CompletedProcess([], 0, f"pynvml: unavailable: {listed}\n", "")
    monkeypatch.setattr(doctor, "ask", lambda *command, limit_s: says)
    found = list(doctor.sensors(replace(read_system("A100"), power_methods="pynvml"), runtime))
    assert [finding.state for finding in found] == states


def test_the_command_names_what_is_missing_and_fails(capsys, programs):
    programs("sinfo", "echo 'slurm_load_partitions: no controller' >&2; exit 1")
    programs("sbatch", "exit 1", rest="/usr/bin:/bin")
    assert main(["doctor", "--system", "GH200"]) == 1
    out = capsys.readouterr().out
    assert "FAIL  scheduler: slurm_load_partitions: no controller" in out
    assert "-> caraml image pytorch-nvidia-aarch64 --runtime apptainer" in out
    assert main(["doctor", "--system", "GH200", "--workload", "llm"]) == 1
    out = capsys.readouterr().out
    assert "pytorch-nvidia-aarch64" in out
    assert not [word for word in ("tensorflow", "vllm", "jube/resnet50.yaml") if word in out]
    assert main(["doctor", "--system", "GH2000"]) == 2
    assert "there is no system 'GH2000': did you mean 'GH200'?" in capsys.readouterr().err


def test_a_method_that_jpwr_does_not_have_is_named():
    found = {one.what: one for one in doctor.sensors(replace(read_system("CPU"), power_methods="rapl/estimte"), "none")}
    wrong = found["sensor estimte"]
    assert (wrong.state, wrong.found) == ("FAIL", "jpwr has no such method")
    assert (wrong.to_do, list(found)) == ("did you mean 'estimate'?", ["sensor estimte"])
    assert list(doctor.sensors(read_system("CPU"), "none")) == []  # one of rapl/estimate is enough


@pytest.mark.parametrize("key", ["data_folder", "container_folder", "container_mounts", "kubernetes_pod"])
def test_a_folder_that_would_be_read_as_more_than_one_is_refused(site_file, monkeypatch, key):
    assert all(site.wrong_path(f"/some{odd}where", key) for odd in " ,:;|\"'`\\&()*?#\n\t")
    monkeypatch.setenv("ODD", "/some\nwhere")
    site_file.write_text(f"{key}: {'[$ODD]' if key == 'container_mounts' else '$ODD'}\n")
    with pytest.raises(SiteError, match=rf"{key} is '/some\nwhere', with .* in its name: take a path of"):
        read_site("JEDI", site_file, {})


def test_a_workflow_in_a_folder_that_cannot_work_is_found_by_the_first_check(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "my project"
    shutil.copytree(REPOSITORY / "jube", folder / "jube")
    assert main(["check", str(folder / "jube" / "llm.yaml")]) == 1
    assert "my project/jube/llm.yaml', with a space in its name" in capsys.readouterr().err
    monkeypatch.setattr(site, "checkout", lambda: folder)
    with pytest.raises(SiteError, match=r"the checkout is '.*my project', with a space"):
        read_site("JEDI", environ={})
