"""Commands before the first job. JUBE plans each step by one: it loads no module of the others."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from caraml.cli.options import add_flag, say
from caraml.errors import SiteError
from caraml.machine.images import ENDINGS, FORMATS, definition, make_image, read_image
from caraml.plan.plan import is_submitted
from caraml.plan.plan import plan as plan_of
from caraml.plan.site import read_site
from caraml.plan.systems import read_system, systems_table
from caraml.plan.workloads import workload_of
from jpwr.messages import near
from results.files.systems import read_systems


def add_commands(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands of this module."""
    parser = add(doctor)
    text = "see 'caraml systems'; default: find the tags that fit this machine's accelerators"
    parser.add_argument("--system", metavar="TAG", help=text)
    text = "with --system: only what this workload needs, such as llm"
    parser.add_argument("--workload", metavar="NAME", help=text)

    parser = add(systems)
    parser.add_argument("--system", metavar="TAG", help="only this one, with all its keys")
    parser.add_argument("--get", metavar="KEY", help="with --system: only this value")

    parser = add(image)
    parser.add_argument("name", metavar="NAME", help="an image of containers/images.yaml")
    either = parser.add_mutually_exclusive_group()
    text = "default: the site's container_runtime, else apptainer"
    either.add_argument("--runtime", choices=ENDINGS, help=text)
    text = "print the image's definition, and build nothing"
    either.add_argument("--print", choices=FORMATS, dest="form", help=text)

    parser = add(job)
    parser.add_argument("system", metavar="SYSTEM", help="see 'caraml systems'")
    parser.add_argument("workload", metavar="WORKLOAD", help="such as llm, whose workflow is jube/llm.yaml")
    parser.add_argument("tags", nargs="*", metavar="TAG", help="further tags of 'jube run', such as 800M")

    parser = add(plan)
    parser.add_argument("system", metavar="SYSTEM", help="see 'caraml systems'")
    parser.add_argument("benchmark", metavar="BENCHMARK", help="a folder of benchmarks/")
    text = "size or variant of the workload's model; default: the system's own"
    parser.add_argument("--model", default="", help=text)
    parser.add_argument("--get", metavar="KEY", help="only this value")
    text = "a run of JUBE: check its tags, and ask the scheduler"
    parser.add_argument("--run", type=Path, dest="run_folder", metavar="FOLDER", help=text)
    text = "check that the workflow has these tags"
    parser.add_argument("--tags", nargs="*", default=[], metavar="TAG", help=text)
    add_flag(parser, "--ask-scheduler", "exit with 2 unless the system's scheduler answers")


def doctor(options: argparse.Namespace) -> int:
    """Print which system this machine is, or what the first job of a system lacks."""
    from caraml.machine.devices import BAD
    from caraml.machine.doctor import examine, identify, report

    if options.workload and not options.system:
        raise SiteError("--workload needs --system TAG: see 'caraml systems'")
    findings = examine(options.system, options.workload) if options.system else identify()
    print(report(findings))
    return 1 if any(finding.state == BAD for finding in findings) else 0


def systems(options: argparse.Namespace) -> int:
    """List the described systems with their tags and figures."""
    if options.get and not options.system:
        raise SiteError("--get needs --system TAG: see 'caraml systems'")
    if not options.system:
        print(systems_table(read_systems()))
        return 0
    values = read_system(options.system).values
    if options.get and options.get not in values:
        raise SiteError(f"a system has no key {options.get}: {near(options.get, values)}")
    print(values[options.get] if options.get else "\n".join(f"{key}: {value}" for key, value in values.items()))
    return 0


def image(options: argparse.Namespace) -> int:
    """Build or pull a container image into the container folder, unless it exists."""
    found = read_image(options.name)
    if options.form:
        print(definition(found, options.form), end="")
        return 0
    site = read_site("")
    chosen = options.runtime or site.container_runtime
    print(make_image(found, chosen if chosen in ENDINGS else "apptainer", Path(site.container_folder)))
    return 0


def job(options: argparse.Namespace) -> int:
    """Print the job that 'jube run' submits for the first point of a sweep, and submit nothing."""
    from caraml.schedulers.preview import job_text

    print(job_text(options.system, workload_of(options.workload), options.tags))
    return 0


def plan(options: argparse.Namespace) -> int:
    """Print what a workflow asks about a system, the site and a workload, as a Python dictionary."""
    found = plan_of(options.system, options.benchmark, options.model, options.run_folder, options.tags)
    if options.ask_scheduler or is_submitted(options.run_folder):  # before anything is submitted
        from caraml.schedulers.submit import check_scheduler

        check_scheduler(found["submit"], read_site(options.system))
    if found["note"]:
        say(found["note"])
    if options.get and options.get not in found:
        raise SiteError(f"a plan has no key {options.get}: {near(options.get, found)}")
    end = "" if options.run_folder else "\n"  # JUBE takes all that is printed as the value, from any terminal
    print(found[options.get] if options.get else ascii(found), end=end)
    return 0
