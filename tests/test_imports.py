"""No framework and no vendor's library is loaded before it is needed. `lint-imports` checks the layers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
VENDOR_LIBRARIES = ("amdsmi", "gcipuinfo", "poptorch", "pynvml", "pyrsmi", "rsmiBindings")
FRAMEWORKS = ("keras", "matplotlib", "megatron", "numpy", "pandas", "scipy", "tensorflow", "tokenizers", "torch")
WORKLOADS = sorted(path.parent.name for path in REPOSITORY.glob("benchmarks/*/__main__.py"))
BEFORE_THE_FRAMEWORK = [
    f"benchmarks.{name}.{part}"
    for name in WORKLOADS
    for part in ("config", "metrics", "prepare")
    if (REPOSITORY / "benchmarks" / name / f"{part}.py").exists()
]
LOAD = """
import importlib, sys
forbidden, modules = sys.argv[1].split(","), sys.argv[2].split(",")
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in forbidden:
            raise AssertionError(f"{name} is loaded")
sys.meta_path.insert(0, Refuse())
for module in modules:
    importlib.import_module(module)
"""


def modules_of(*folders: str) -> list[str]:
    """Return all modules below some folders but those of tests and those that run when they are loaded."""
    paths = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.py") if "tests" not in path.parts]
    names = [".".join(path.relative_to(REPOSITORY).with_suffix("").parts) for path in sorted(paths)]
    return [name.removesuffix(".__init__") for name in names if not name.endswith((".bench", ".hooks"))]


@pytest.mark.parametrize(
    ("modules", "forbidden"),
    [
        pytest.param(modules_of("jpwr", "ioprof"), FRAMEWORKS + VENDOR_LIBRARIES, id="around a job"),
        pytest.param(modules_of("caraml", "benchmarks/common"), FRAMEWORKS + VENDOR_LIBRARIES, id="before a job"),
        pytest.param(BEFORE_THE_FRAMEWORK, FRAMEWORKS + VENDOR_LIBRARIES, id="options of a workload"),
        pytest.param(
            ["results.collect", "results.show.tables.table", "results.verdicts.accept"], FRAMEWORKS, id="after a job"
        ),
    ],
)
def test_frameworks_and_vendor_libraries_are_not_loaded_before_they_are_needed(modules, forbidden):
    command = [sys.executable, "-c", LOAD, ",".join(forbidden), ",".join(modules)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_workflows_folder_is_no_python_package():
    assert not (REPOSITORY / "jube" / "__init__.py").exists()  # it would shadow JUBE's own package
