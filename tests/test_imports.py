"""Imports go down the floors of the house, and the parts that must not know each other do not."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = ("jpwr", "ioprof", "benchmarks", "results", "caraml")

# The last entry that is a prefix of a module's name tells its floor.
FLOORS = {
    "jpwr": 4,
    "jpwr.channel": 0,
    "jpwr.device_ids": 0,
    "jpwr.errors": 0,
    "jpwr.sentinels": 1,
    "jpwr.process": 2,
    "jpwr.process.clock": 0,
    "jpwr.process.threads": 0,
    "jpwr.process.words": 0,
    "jpwr.rules": 1,
    "jpwr.trace": 1,
    "jpwr.energy": 1,
    "jpwr.slope": 1,
    "jpwr.region_times": 1,
    "jpwr.regions": 2,
    "jpwr.backends": 2,
    "jpwr.sampler": 3,
    "jpwr.sampling": 3,
    "jpwr.sampling.pace": 1,
    "jpwr.sampling.round": 1,
    "jpwr.edges": 3,
    "jpwr.files": 2,
    "jpwr.say": 2,
    "jpwr.process.parser": 3,
    "jpwr.writers": 3,
    "ioprof": 4,
    "ioprof.errors": 0,
    "ioprof.counts": 0,
    "ioprof.coverage": 1,
    "ioprof.summary": 1,
    "ioprof.counters": 2,
    "ioprof.folder": 2,
    "ioprof.other_tools": 2,
    "ioprof.library": 2,
    "ioprof.watch": 3,
    "benchmarks": 4,
    "benchmarks.common.cgroup": 2,
    "benchmarks.common.options": 1,
    "benchmarks.common.batch_plan": 1,
    "benchmarks.common.good_run": 1,
    "benchmarks.common.input_files": 2,
    "benchmarks.common.prepare": 3,
    "benchmarks.common.side_by_side": 2,
    "benchmarks.common.step_timer": 1,
    "benchmarks.common.throughput": 2,
    "benchmarks.common.record": 1,
    "benchmarks.common.launch": 2,
    "benchmarks.common.gpu_ids": 2,
    "benchmarks.common.binding": 2,
    "benchmarks.common.out_of_memory": 1,
    "benchmarks.common.workload": 2,
    "benchmarks.common.turns": 2,
    "benchmarks.common.regions": 3,
    "benchmarks.common.measure": 3,
    "benchmarks.common.session": 3,
    "benchmarks.common.run": 3,
    "benchmarks.common.summary": 3,
    "benchmarks.common.provenance": 2,
    "benchmarks.on_pytorch": 3,
    "benchmarks.on_tensorflow": 3,
    "benchmarks.on_pytorch.options": 1,
    "benchmarks.on_tensorflow.options": 1,
    "benchmarks.llm_training.config": 1,
    "benchmarks.llm_training.metrics": 1,
    "benchmarks.llm_training.plan": 1,
    "benchmarks.llm_training.cpu_stand_ins": 3,
    "benchmarks.llm_training.kernels": 3,
    "benchmarks.llm_training.regions": 3,
    "benchmarks.llm_training.ipu": 4,
    "benchmarks.llm_training.model": 3,
    "benchmarks.llm_training.plain_gpt": 3,
    "benchmarks.llm_training.data": 3,
    "benchmarks.llm_training.parallel": 3,
    "benchmarks.llm_training.optimizer": 3,
    "benchmarks.cosmoflow.config": 1,
    "benchmarks.cosmoflow.metrics": 1,
    "benchmarks.cosmoflow.fields": 3,
    "benchmarks.cosmoflow.model": 3,
    "benchmarks.cosmoflow.data": 3,
    "benchmarks.cosmoflow.trainer": 3,
    "benchmarks.deepcam.config": 1,
    "benchmarks.deepcam.metrics": 1,
    "benchmarks.deepcam.fields": 3,
    "benchmarks.deepcam.model": 3,
    "benchmarks.deepcam.data": 3,
    "benchmarks.deepcam.trainer": 3,
    "benchmarks.resnet50.config": 1,
    "benchmarks.resnet50.metrics": 1,
    "benchmarks.resnet50.imagenet": 3,
    "benchmarks.resnet50.pictures": 3,
    "benchmarks.resnet50.model": 3,
    "benchmarks.resnet50.data": 3,
    "benchmarks.resnet50.trainer": 3,
    "results": 3,
    "results.notebook": 5,
    "results.verdicts": 4,
    "results.prediction": 5,
    "results.prediction.curve": 3,
    "results.prediction.leave_out": 3,
    "results.prediction.step_work": 1,
    "results.prediction.datasheet": 3,
    "results.tables": 5,
    "results.plots": 6,
    "results.page": 7,
    "caraml": 8,
}
PURE = 1
REGIONS = ("jpwr.regions", "jpwr.region_times")  # all that a benchmark takes of jpwr: it is measured from outside
IMPURE_MODULES = {"datetime", "io", "os", "pathlib", "random", "shutil", "socket", "subprocess", "tempfile", "time"}
VENDOR_LIBRARIES = {"amdsmi", "gcipuinfo", "poptorch", "pynvml", "pyrsmi", "rsmiBindings"}
FRAMEWORKS = {"keras", "megatron", "numpy", "pandas", "tensorflow", "tokenizers", "torch"}
# What a workload is asked before its framework is needed.
BEFORE_THE_FRAMEWORK = ("__main__", "config", "metrics", "points", "prepare")


def source_files() -> list[Path]:
    files = [path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py")]
    return [path for path in files if "tests" not in path.parts]


def module_name(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floor_of(module: str) -> int | None:
    known = [name for name in FLOORS if module == name or module.startswith(name + ".")]
    return FLOORS[max(known, key=len)] if known else None


def imports(tree: ast.AST) -> Iterator[str]:
    """Full names of what is imported, `a.b.c` for `from a.b import c`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_at_module_level(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Try):
            yield from imports(node)


FILES = {module_name(path): path for path in source_files()}
TREES = {module: ast.parse(path.read_text()) for module, path in FILES.items()}
WORKLOADS = sorted(
    module.removesuffix(".__main__") for module in TREES if re.fullmatch(r"benchmarks\.\w+\.__main__", module)
)


def test_there_are_modules_to_look_at():
    assert {"jpwr.sampling.monitor", "results.collect", "benchmarks.llm_training.train", "caraml.cli"} <= set(TREES)


@pytest.mark.parametrize("module", TREES)
def test_imports_go_down(module):
    own_floor = floor_of(module)
    for imported in imports(TREES[module]):
        floor = floor_of(imported)
        if module == "results":  # its front door, for a notebook
            continue
        if floor is not None and imported not in ("jpwr.__version__", "jpwr", "benchmarks", "results"):
            assert floor <= own_floor, f"{module} (floor {own_floor}) imports {imported} (floor {floor})"


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("jpwr", {"benchmarks", "ioprof", "results", "caraml"} | FRAMEWORKS),
        ("ioprof", {"benchmarks", "results", "caraml"} | FRAMEWORKS),
        ("benchmarks", {"ioprof", "jpwr", "results", "caraml"}),
        ("benchmarks.common", {"benchmarks.on_pytorch", "benchmarks.on_tensorflow", *WORKLOADS}),
        ("results", {"benchmarks", "caraml"}),
        ("benchmarks.llm_training", {"keras", "tensorflow"}),
        ("benchmarks.resnet50", {"megatron", "torch"}),
        ("benchmarks.cosmoflow", {"megatron", "torch"}),
        ("benchmarks.deepcam", {"keras", "tensorflow", "megatron"}),
        ("benchmarks.on_pytorch", {"keras", "tensorflow", *WORKLOADS}),
        ("benchmarks.on_tensorflow", {"megatron", "torch", *WORKLOADS}),
        *((name, set(WORKLOADS) - {name}) for name in WORKLOADS),
    ],
)
def test_parts_that_must_not_know_each_other_do_not(package, forbidden):
    for module, tree in TREES.items():
        # What compares a benchmark with a peer needs both.
        if not f"{module}.".startswith(f"{package}.") or module.endswith(".bench"):
            continue
        for imported in imports(tree) if package != "jpwr" else imports_at_module_level(tree):
            if package == "benchmarks" and imported.startswith(REGIONS):
                continue
            for name in forbidden:
                assert not f"{imported}.".startswith(f"{name}."), f"{module} imports {imported}"


@pytest.mark.parametrize("module", [module for module in TREES if module.split(".")[0] in ("ioprof", "jpwr")])
def test_what_is_put_around_a_job_needs_the_standard_library_only(module):
    for imported in imports_at_module_level(TREES[module]):
        top = imported.split(".")[0]
        assert top in ("ioprof", "jpwr") or top in sys.stdlib_module_names, f"{module} imports {imported}"


@pytest.mark.parametrize("module", [module for module in TREES if (floor_of(module) or 0) <= PURE])
def test_arithmetic_touches_no_file_no_clock_and_no_environment(module):
    if module == "jpwr.process.clock":
        return
    for imported in imports(TREES[module]):
        assert imported.split(".")[0] not in IMPURE_MODULES, f"{module} imports {imported}"
    called = {
        node.func.id
        for node in ast.walk(TREES[module])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"open", "input"}


def loaded_with(module: str) -> set[str]:
    """Our modules that are loaded when one is, itself among them, by imports at module level."""
    found, left = set(), [module]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        for imported in imports_at_module_level(TREES[name]):
            left += [known for known in (imported, imported.rpartition(".")[0]) if known in TREES]
    return found


@pytest.mark.parametrize("module", TREES)
def test_vendor_libraries_are_not_loaded_before_they_are_needed(module):
    assert not {imported.split(".")[0] for imported in imports_at_module_level(TREES[module])} & VENDOR_LIBRARIES


FRAMEWORK_FOLDERS = ("benchmarks.on_pytorch", "benchmarks.on_tensorflow")
FITS = ("results.joined.state_power", "results.joined.state_energy")  # asked for where there is something to fit
QUICK = [
    module
    for module in TREES
    if module not in FITS and not any(module.startswith(f"{name}.") for name in (*WORKLOADS, *FRAMEWORK_FOLDERS))
]
QUICK += [f"{name}.{part}" for name in WORKLOADS for part in BEFORE_THE_FRAMEWORK if f"{name}.{part}" in TREES]


@pytest.mark.parametrize("module", QUICK)
def test_frameworks_are_not_loaded_before_they_are_needed(module):
    for loaded in loaded_with(module):
        tops = {imported.split(".")[0] for imported in imports_at_module_level(TREES[loaded])}
        assert not tops & FRAMEWORKS, f"{module} loads {loaded}, which loads {tops & FRAMEWORKS}"


def test_the_workflows_folder_is_no_python_package():
    assert not (REPOSITORY / "jube" / "__init__.py").exists()  # it would shadow JUBE's own package
