"""Job of a point as JUBE writes it, without submitting it."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.node.programs import ProgramError, ask
from caraml.errors import CaramlError
from caraml.installation import checkout
from caraml.plan.job import SCRIPTS
from caraml.plan.plan import plan
from caraml.plan.site import Site, job_lines, read_site, sbatch_flags
from caraml.plan.tags import JOB
from caraml.schedulers.kubernetes.submit import OBJECTS, write_objects
from results.files.workloads import Facts

LIMIT_S = 600
ASKED_MODEL = re.compile(r"""\{name: asked_model, *tag: *["']?([\w.-]+)["']?, *_: *([\w.-]+)\}""")


def job_text(system: str, facts: Facts, tags: Sequence[str]) -> str:
    """Return the job of the first point of a workload's sweep: the command that submits it, and its files.

    Raises SiteError for what cannot be run, and CaramlError if JUBE fails.
    """
    workflow = checkout() / "jube" / f"{facts.workflow}.yaml"
    models = dict(ASKED_MODEL.findall(workflow.read_text(encoding="utf-8")))
    model = next((models[tag] for tag in tags if tag in models), "")
    planned = plan(system, facts.name, model, tags=[system, *tags])
    site, devices = read_site(system), planned["devices"].split(",")[0]
    point = {"CARAML_DEVICES": devices, "CARAML_BATCHES": planned["batches"][devices].split(",")[0]}
    with tempfile.TemporaryDirectory() as folder:
        command = [os.environ.get("JUBE", "jube"), "run", str(workflow), "-o", folder, "--tag", system, *tags, JOB]
        try:
            done = ask(*command, limit_s=LIMIT_S, environ={**os.environ, **point})
        except ProgramError as error:
            raise CaramlError(f"{error}: install JUBE, or set JUBE") from error
        if done.returncode:
            printed = done.stderr.strip() or done.stdout.strip() or "no message"
            raise CaramlError(printed.splitlines()[-1].removeprefix("caraml: "))
        jobs = sorted(Path(folder).glob("[0-9]*/[0-9]*_benchmark/work"))
        if not jobs:
            raise CaramlError(f"'{shlex.join(command)}' wrote no job: run it to see why")
        return _submitted(planned["submit"], jobs[0], site).replace(folder, str(workflow.with_suffix("")) + "_run")


def _submitted(submit: str, job: Path, site: Site) -> str:
    if submit == "kubernetes":
        write_objects(job, site)
        return (job / OBJECTS).read_text(encoding="utf-8").rstrip()
    command = ["sbatch", "--parsable", *sbatch_flags(site)] if submit == "sbatch" else ["bash"]
    files = {name: (job / name).read_text(encoding="utf-8") for name in SCRIPTS}
    files["site.sh"] = "\n".join(job_lines(site))
    texts = [f"# ----- {name}\n{text.rstrip()}" for name, text in files.items()]
    return "\n\n".join([f"# {shlex.join([*command, 'job.sh'])}", *texts])
