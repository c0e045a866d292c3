"""Parts of the documentation that are made from the code: `<!-- generated: NAME -->` in a page stands for one.

Usage: generated.py NAME        (prints it)
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from benchmarks.llm_training.sizes import SIZES  # noqa: E402
from caraml.cli import EXIT_CODES, commands  # noqa: E402
from jpwr.energy import EnergyEstimate  # noqa: E402
from results.files.systems import read_systems  # noqa: E402
from results.files.workloads import workloads  # noqa: E402

MARK = re.compile(r"<!-- generated: (\w+) -->")
FIELD = re.compile(r"^    (\w+): \w+(?: = [^#\n]*?)?(?:  # (.*))?$", re.MULTILINE)
WIDTH = "88"  # of a help text, in characters: the column of a page has no room for more
FIGURES = {
    "devices per node": "devices_per_node",
    "memory [GB]": "memory_gb_per_device",
    "power [W]": "tdp_w_per_device",
    "fp8": "peak_tflops_fp8",
    "bf16": "peak_tflops_bf16",
    "fp32": "peak_tflops_fp32",
    "power methods": "power_methods",
}


def help_of(*command: str) -> str:
    """Return the help of `python -m COMMAND` as a block of code."""
    environ = {**os.environ, "COLUMNS": WIDTH, "PYTHONPATH": str(REPOSITORY), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command, "--help"], env=environ, capture_output=True, text=True, check=True
    )
    return f"```text\n{done.stdout.rstrip()}\n```\n"


def caraml() -> Iterator[str]:
    """Yield a section for each command of `caraml`."""
    for title, group in commands().items():
        yield f"### {title}\n"
        for name in group:
            yield f"#### caraml {name}\n"
            yield help_of("caraml", name)


def samplers() -> Iterator[str]:
    """Yield a section for each command of `jpwr` and `ioprof`."""
    for command in ("jpwr", "jpwr list", "jpwr read", "ioprof", "ioprof read", "ioprof build"):
        yield f"### {command}\n"
        yield help_of(*command.split())


def benchmarks() -> Iterator[str]:
    """Yield a section for each workload and for each program that makes its data."""
    for name in workloads():
        programs = [f"benchmarks.{name}"]
        if (REPOSITORY / "benchmarks" / name / "prepare.py").exists():
            programs.append(f"benchmarks.{name}.prepare")
        for program in programs:
            yield f"### {program}\n"
            yield help_of(program)


def models() -> Iterator[str]:
    """Yield a table of the sizes of GPT training."""
    facts = workloads()["llm_training"]
    yield "| size | layers | hidden | heads (of keys) | feed-forward | experts | parameters | FLOPs/token |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for name, one in SIZES.items():
        experts = f"{one.top_k} of {one.experts}" if one.experts else ""
        [flops] = facts.flops[name].values()
        counts = f"{facts.num_parameters[name] / 1e6:,.1f}M | {flops:.3e}"
        shape = f"{one.num_layers} | {one.hidden_size} | {one.num_heads} ({one.groups}) | {one.ffn_hidden_size}"
        yield f"| `{name}` | {shape} | {experts} | {counts} |"


def exit_codes() -> Iterator[str]:
    """Yield a table of the exit codes of `caraml`."""
    yield "| code | meaning |\n|--:|---|"
    for line in EXIT_CODES.splitlines()[1:]:
        code, meaning = line.split(maxsplit=1)
        yield f"| {code} | {meaning} |"


def systems() -> Iterator[str]:
    """Yield a table of the systems, and one of the sources of their figures."""
    yield f"| tag | accelerator | {' | '.join(FIGURES)} |\n|---|---|{'--:|' * (len(FIGURES) - 1)}---|"
    blocks = read_systems()
    for tag, block in blocks.items():
        figures = " | ".join(_known(block.values[key]) for key in FIGURES.values())
        yield f"| `{tag}` | {block.accelerator} | {figures} |"
    yield "\n| tag | source of the figures |\n|---|---|"
    for tag, block in blocks.items():
        yield f"| `{tag}` | {block.hardware_source} |"


def estimate() -> Iterator[str]:
    """Yield a table of the fields of an energy estimate, with the comments of its code."""
    yield "| field | meaning |\n|---|---|"
    for name, meaning in FIELD.findall(inspect.getsource(EnergyEstimate)):
        yield f"| `{name}` | {meaning or name.rpartition('_')[0].replace('_', ' ')} |"


def _known(value: Any) -> str:
    return "-" if not value else f"{value:g}" if isinstance(value, float) else str(value)


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    part.__name__: part for part in (caraml, samplers, benchmarks, exit_codes, models, systems, estimate)
}


def fill_in(_app: Any, _page: str, source: list[str]) -> None:
    """Replace the marks of a page."""
    source[0] = MARK.sub(lambda mark: "\n".join(PARTS[mark[1]]()), source[0])


if __name__ == "__main__":
    print("\n".join(PARTS[sys.argv[1]]()))
