"""scripts/setup.sh with a pip that only takes notes: what it installs on which machine, and what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from caraml.installation import checkout

PIP = """#!/bin/sh
echo "$PYTHONPATH$@" >>"$NOTES"
echo "WARNING: a setting of pip's is old" >&2
case "$*" in *"${REFUSED:-nothing at all}"*)
    echo "ERROR: first line" >&2
    echo "ERROR: last line" >&2
    exit 1 ;;
esac
"""
TORCH = re.search(r'"torch==([^"]+)"', (checkout() / "pyproject.toml").read_text())[1]
GPU = "#!/bin/sh\necho 'GPU 0: NVIDIA H100 NVL (UUID: GPU-1)'\nexit 14\n"  # a corrupted infoROM
NO_GPU = "#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not communicate with the driver'\nexit 9\n"


class Machine:
    """A checkout with an environment that is made already, and the programs and folders that a test adds."""

    def __init__(self, folder):
        self.folder, self.notes = folder, folder / "notes"
        (folder / "scripts").mkdir()
        shutil.copy(checkout() / "scripts" / "setup.sh", folder / "scripts")
        (folder / "jpwr").mkdir()
        for name in ("pyproject.toml", "jpwr/pyproject.toml"):
            shutil.copy(checkout() / name, folder / name)
        self.add(".venv/bin/pip", PIP)
        self.add(".venv/bin/python", '#!/bin/sh\n[ -n "$TORCH" ] && echo "$TORCH"\n')
        self.add("bin/jube", "#!/bin/sh\n")

    def add(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def setup(self, *parts, **environ):
        """What it said, and what pip was asked to do."""
        self.notes.write_text("")
        here = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "NOTES": str(self.notes), "HOME": os.environ["HOME"]}
        rocm = {"ROCM_PATH": str(self.folder / "rocm")}
        command = [self.folder / "scripts" / "setup.sh", *parts]
        done = subprocess.run(command, env={**here, **rocm, **environ}, capture_output=True, text=True)
        return done, self.notes.read_text().splitlines()


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_machine_without_an_accelerator_gets_the_build_for_the_cpu_once_and_no_sensors_package(machine):
    done, asked = machine.setup(PYTHONPATH="/apps/module")  # whose packages are none of .venv's
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in asked] == [f"torch=={TORCH}+cpu", ".[llm,fno,resnet,inference,report]"]
    assert asked[-1].endswith(" --editable ./jpwr --editable .[llm,fno,resnet,inference,report]")
    assert done.stderr == ""
    assert f"installing PyTorch {TORCH} for the CPU (about 190 MB)" in done.stdout
    assert machine.setup()[1] == []


def test_the_stamp_describes_what_is_installed_now(machine):
    def asked(*parts):
        return [line.split()[-1] for line in machine.setup(*parts)[1]]

    assert asked("llm", "report") == [f"torch=={TORCH}+cpu", ".[llm,report]"]
    assert asked("report") == []  # a subset
    assert asked("report", "dev") == [".[report,dev]"]
    assert asked("dev", "llm", "report") == []  # both installations count
    with (machine.folder / "pyproject.toml").open("a") as file:
        file.write("# other requirements\n")
    assert asked("dev") == [".[dev]"]
    assert machine.setup("docs", REFUSED=".[docs]")[0].returncode == 1
    assert asked("dev") == [".[dev]"]  # nobody knows what a failed installation left


def test_the_package_of_a_gpus_sensor_comes_with_the_gpu_also_when_that_is_found_later(machine):
    machine.setup("report")
    machine.add("bin/nvidia-smi", NO_GPU)
    assert machine.setup("report")[1] == []
    machine.add("bin/nvidia-smi", GPU)
    assert [line.split()[-1] for line in machine.setup("report")[1]] == [".[report,nvidia]"]
    assert machine.setup("report")[1] == []


def test_a_cpu_build_of_pytorch_makes_way_for_that_with_cuda_when_a_gpu_is_found(machine):
    machine.add("bin/nvidia-smi", GPU)
    _, asked = machine.setup("llm", TORCH=f"{TORCH}+cpu")
    assert [line.split()[-1] for line in asked] == ["torch", f"torch=={TORCH}", ".[llm,nvidia]"]
    assert asked[0].startswith("uninstall ")
    (machine.folder / ".venv" / "installed").unlink()
    assert [line.split()[-1] for line in machine.setup("llm", TORCH=TORCH)[1]] == [".[llm,nvidia]"]
