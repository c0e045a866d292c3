"""jpwr as a distribution of its own: built, looked at, and installed in Pythons old and new."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import jpwr
from jpwr.tests.conftest import DEADLINE_S, REPOSITORY
from jpwr.trace.writers import read_trace
from tests.needs import not_run, package

NOT_SOURCE = ("__pycache__", "build", "*.egg-info")
# Whatever points to this checkout, or to a virtual environment, would hide what is missing.
ENVIRON = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "JPWR_"))},
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, env=ENVIRON, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of a copy of the folder."""
    package("setuptools", "setuptools")
    out = tmp_path_factory.mktemp("jpwr")
    shutil.copytree(REPOSITORY / "jpwr", out / "jpwr", ignore=shutil.ignore_patterns(*NOT_SOURCE))
    options = ("--no-deps", "--no-build-isolation", "--no-index")
    run(sys.executable, "-m", "pip", "wheel", *options, "-w", out, out / "jpwr", cwd=out)
    [wheel] = out.glob("*.whl")
    return wheel


def test_the_wheel_has_every_module_of_the_package_and_nothing_else(wheel):
    sources = (path.relative_to(REPOSITORY) for path in (REPOSITORY / "jpwr").rglob("*.py"))
    expected = {path.as_posix() for path in sources if not {"tests", "build"} & set(path.parts)}
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [about] = [archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")]
    in_package = {name for name in names if ".dist-info/" not in name}
    assert in_package == expected
    about = Parser().parsestr(about)
    assert (about["Name"], about["Version"], about["Requires-Python"]) == ("caraml-jpwr", jpwr.__version__, ">=3.8")
    assert all("extra ==" in needs for needs in about.get_all("Requires-Dist", []))
    assert any(name.endswith("LICENSE") for name in names)


USE = """
import importlib, pkgutil, sys, time
import jpwr
from jpwr.ctxmgr import get_power

for module in pkgutil.walk_packages(jpwr.__path__, "jpwr."):
    if module.name != "jpwr.__main__":
        importlib.import_module(module.name)
with get_power(["estimate"], 20) as measured:
    with jpwr.region("work"):
        time.sleep(0.05)
energy, _ = measured.energy()
print(energy["estimate:cpu"] > 0, [region.name for region in measured.trace.regions()], "pandas" in sys.modules)
"""


def interpreter(version):
    """The path of a Python of that version that starts: where pyenv and uv keep theirs, or in PATH."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local" / "share" / "uv" / "python"))
    kept = [*pyenv.glob(f"versions/{version}.*/bin/python{version}"), *uv.glob(f"*-{version}.*/bin/python{version}")]
    for path in filter(None, [*map(str, kept), shutil.which(f"python{version}")]):
        # One of pyenv's in PATH may be there and not start.
        if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    return not_run(f"Python {version}: uv python install {version}")


@pytest.mark.parametrize("version", ["3.8", pytest.param("3.13", marks=pytest.mark.slow)])
def test_it_is_installed_and_measures_on_the_oldest_and_the_newest_python(version, wheel, tmp_path):
    python = interpreter(version)
    if subprocess.run([python, "-c", "import ensurepip"], capture_output=True).returncode:
        pytest.fail(f"Python {version} makes no virtual environments: apt-get install python{version}-venv")
    run(python, "-m", "venv", "env", cwd=tmp_path)
    folder = tmp_path / "env" / "bin"
    run(folder / "python", "-m", "pip", "install", "--no-index", "--no-compile", wheel, cwd=tmp_path)
    assert run(folder / "jpwr", "--version", cwd=tmp_path) == f"jpwr {jpwr.__version__}\n"
    measured = [folder / "python", "-c", "import jpwr\nwith jpwr.region('work'):\n    print('at work')"]
    assert (
        run(folder / "jpwr", "--methods", "estimate", "--df-out", "out", "--", *measured, cwd=tmp_path) == "at work\n"
    )
    trace = read_trace(tmp_path / "out" / "trace.csv")
    assert {event.name: event.details for event in trace.events}["command_ended"] == {"exit_code": 0}
    assert [region.name for region in trace.regions()] == ["work"]
    assert len(list((tmp_path / "out").glob("energy.*.csv"))) == 1
    assert "estimate:cpu" in run(folder / "jpwr", "read", "out/trace.csv", cwd=tmp_path)
    assert run(folder / "python", "-c", USE, cwd=tmp_path) == "True ['work'] False\n"
