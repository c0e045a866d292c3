"""Job of a point: its nodes, copies, devices and limit of time, and its scripts by the templates in jube/include.

JUBE writes what is of the point into POINT, and runs this module in the point's folder:

    python -m caraml.plan.job
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common.measure.together import LIMIT_S
from caraml.installation import checkout
from caraml.plan.tags import FILL, IO, JOB, SHARED
from jpwr.process.whole_file import write_whole
from record.model import SCHEMA_VERSION, Json
from results.find.records import RESULT_NAME, write_record
from results.points.repeats import write_row

POINT = "point.txt"
SCRIPTS = ("job.sh", "node.sh")
NUMBERS = ("run_limit_min", "processes_on_node", "num_devices", "global_batch_size", "repeat")  # of a point
UNFINISHED = {"status": "unfinished", "error": "the job has not ended, or ended without a result"}


class Point(NamedTuple):
    """A point of a sweep, as JUBE writes it: a line `NAME: VALUE` for each."""

    plan: Mapping[str, Any]  # of the sweep
    program: str
    model: str
    run_limit_min: int
    processes_on_node: int
    num_devices: int
    global_batch_size: int
    power_limit: str
    clock_limit: str
    repeat: int  # of the runs that have a job each

    @classmethod
    def read(cls, file: Path) -> Point:
        """Read the file of a point."""
        lines = file.read_text(encoding="utf-8").splitlines()
        values: dict[str, Any] = {name: value for name, _, value in (line.partition(": ") for line in lines)}
        values["plan"] = ast.literal_eval(values["plan"])
        return cls(**values | {name: int(values[name]) for name in NUMBERS})


def job(point: Point) -> dict[str, Any]:
    """Return what the templates of a job name."""
    plan = point.plan
    num_nodes = -(-point.num_devices // plan["devices_per_node"])
    on_node = min(point.num_devices, plan["devices_per_node"])
    is_filled, is_shared = FILL in plan["tags"], SHARED in plan["tags"]
    copies_on_node = plan["devices_per_node"] // on_node if is_filled else 1
    nodes = max(1, plan["fill_nodes"] // num_nodes if is_filled else 1) * num_nodes
    copies = nodes // num_nodes * copies_on_node
    devices_on_node = copies_on_node * on_node
    # Copies wait for each other before and after they measure.
    run_min = point.run_limit_min + (round(2 * LIMIT_S / 60) if is_filled else 0)
    limits = (f"caps {point.power_limit}", f"clocks {point.clock_limit}")
    limit_flags = (plan["limit_flags"].get(limit, "") for limit in limits)
    slurm_limits = " ".join(plan["slurm_limits"].get(limit, "") for limit in limits).strip()
    resources = f"--gres={plan['gres']}:{devices_on_node} " if plan["gres"] else ""
    srun_limits = [slurm_limits] if plan["launcher"] == "srun" and slurm_limits else []
    return {
        **plan,
        **point._asdict(),
        "num_nodes": num_nodes,
        "devices_per_copy": on_node,
        "copies_on_node": copies_on_node,
        "job_nodes": nodes,
        "copies": copies,
        "job_devices": copies * point.num_devices,
        "job_batch_size": copies * point.global_batch_size,
        "devices_on_node": devices_on_node,
        "time_limit": "{:02d}:{:02d}:00".format(*divmod(run_min * plan["runs_in_job"], 60)),
        "sampler_flags": " ".join([plan["power_methods"], *limit_flags]).strip(),
        "gres_line": f"#SBATCH {resources}{slurm_limits}".strip() if resources or slurm_limits else "#",
        "exclusive_line": "#" if is_shared else "#SBATCH --exclusive --mem=0",  # with all of the node's memory
        "is_exclusive": "no" if is_shared else "yes",  # points that share a node disturb each other's power
        "launcher_args": " ".join([plan["launcher_args"], *srun_limits]),
        "fill": "yes" if is_filled else "no",
        "records": f"copy_{{1..{copies}}}/record.json" if is_filled else "record.json",
        "count_reads": "yes" if IO in plan["tags"] else "no",
    }


def planned_result(values: Mapping[str, Any]) -> Json:
    """Return the result of a point until its job has ended."""
    layout = {"num_devices": "job_devices", "num_nodes": "job_nodes", "global_batch_size": "job_batch_size"}
    result = {
        "schema_version": SCHEMA_VERSION,
        **{key: values[key] for key in ("benchmark", "system", "model", "work_unit")},
    }
    result |= {**UNFINISHED, "layout": {key: values[name] for key, name in layout.items()}}
    if values["fill"] == "yes":
        result["fill"] = {"copies": values["copies"], "devices_per_copy": values["num_devices"]}
    if values["meter"]:
        result["site"] = values["meter"]
    return result


def write(folder: Path) -> None:
    """Write the scripts and the planned result of a point; once, as JUBE may run this again."""
    import jinja2

    if (folder / SCRIPTS[-1]).exists():
        return
    values = job(Point.read(folder / POINT))
    if JOB not in values["tags"]:  # without a job there is no point
        write_record(planned_result(values), folder / RESULT_NAME)
        write_row(folder)
    loader = jinja2.FileSystemLoader(checkout() / "jube" / "include")
    # A script of bash has {# and {% in it.
    templates = jinja2.Environment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    for name in SCRIPTS:
        write_whole(folder / name, templates.get_template(f"{name}.j2").render(values))


if __name__ == "__main__":
    write(Path.cwd())
    sys.exit()
