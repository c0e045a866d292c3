"""Commands that hand results on: a site, tracking servers, archives and the repository of results."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from caraml import submission
from caraml.cli.options import add_file, add_filter, add_folders, add_out, say
from caraml.cli.tables import loaded
from caraml.errors import CaramlError
from caraml.installation import checkout
from caraml.sweep import no_results, run_folder
from record.values import count
from results.exchange import archive as archives
from results.exchange.public import Licence
from results.find.folders import results_below
from results.find.records import RecordError
from results.show.tracking import MODES, log_to_mlflow, log_to_tensorboard, log_to_wandb


def add_commands(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands of this module."""
    parser = add(site)
    add_folders(parser)
    add_out(parser, "a new or empty folder, or an older site; default: %(default)s", "public")
    add_filter(parser)

    parser = add(track)
    add_folders(parser)
    parser.add_argument("--mlflow", metavar="URI", help="a tracking server or store, such as sqlite:///mlflow.db")
    parser.add_argument("--wandb", choices=MODES, help="offline: into the folder wandb, for 'wandb sync'")
    parser.add_argument("--tensorboard", type=Path, metavar="DIR", help="curves and numbers, for TensorBoard")
    parser.add_argument("--project", default="caraml", help="project in Weights & Biases; default: %(default)s")

    parser = add(archive)
    add_folders(parser)
    add_out(parser, default="results.zip")
    parser.add_argument("--sign", type=Path, metavar="KEY", help="sign the archive with a private key of OpenSSH")
    text = "make it public: data alone, with neutral texts"
    parser.add_argument("--licence", choices=get_args(Licence), help=text)

    parser = add(verify)
    text = "a file written by 'caraml archive', packed or unpacked"
    parser.add_argument("archive", type=Path, metavar="ARCHIVE", help=text)
    add_file(parser, "--signers", "refuse the archive unless one of these signed it: lines of a name and a public key")

    parser = add(submit)
    text = "signed and public; default: check FOLDER"
    parser.add_argument("archive", nargs="?", type=Path, metavar="ARCHIVE", help=text)
    text = "the repository of results; default: results/records"
    parser.add_argument("--to", type=Path, metavar="FOLDER", help=text)


def site(options: argparse.Namespace) -> int:
    """Write a folder of static pages over all results, to publish: systems, workloads, points and their records."""
    from results.show.page.site import files_of_site, write_site

    files_of_site(options.out)  # an error after the work would waste it
    found = loaded(options.folders, conditions=options.filter)
    say(f"{count(len(found.records), 'record')} read")
    files = write_site(found.records, found.skipped, options.out)
    print(f"{options.out / 'index.html'}: open it in a browser, or publish the folder, which has {files} files")
    return 0


def track(options: argparse.Namespace) -> int:
    """Log runs into MLflow, Weights & Biases or TensorBoard, each once."""
    if not (options.mlflow or options.wandb or options.tensorboard):
        raise RecordError(
            "track needs a place to log to: give --mlflow URI, --wandb offline, --wandb online or --tensorboard DIR"
        )
    records = [record for record in loaded(options.folders).records if record.run_id]  # without one, it never ran

    def say_logged(place: str, new: int) -> None:
        others = ", the others were there" if new < len(records) else ""
        print(f"{place}: {new} of {len(records)} runs logged{others}")

    if options.mlflow:
        say_logged(options.mlflow, log_to_mlflow(records, options.mlflow))
    if options.wandb:
        say_logged(f"wandb ({options.wandb})", log_to_wandb(records, options.wandb, options.project))
    if options.tensorboard:
        say_logged(str(options.tensorboard), log_to_tensorboard(records, options.tensorboard))
    return 0


def archive(options: argparse.Namespace) -> int:
    """Store results, traces and workflow in one file that can be checked."""
    for folder in options.folders:
        if folder.exists() and not results_below(run_folder(folder)):
            raise CaramlError(no_results(folder))
    folders = [run_folder(folder) for folder in options.folders]
    runs = archives.write_archive(folders, checkout() / "jube", options.out, options.sign, options.licence)
    print(f"{options.out}: {count(runs, 'run')}{', signed' if options.sign else ''}")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Check each file of an archive, and recompute its numbers from the traces."""
    checked = archives.verify(options.archive, options.signers)
    for problem in checked.problems:
        say(problem)
    if checked.problems:
        return 1
    runs = count(checked.runs, "run")
    print(f"{options.archive}: {runs}, all files unchanged, all numbers as recomputed from the traces")
    if checked.signer:
        print(f"signed by {checked.signer}")
    elif checked.is_signed:
        print("signed, but the signer was not checked: give the allowed ones by --signers FILE")
    else:
        print("not signed: its author is not known")
    return 0


def submit(options: argparse.Namespace) -> int:
    """Put an archive into the repository of results, or check all that are there; exits with 1 if one is refused."""
    to = options.to or checkout() / "results" / "records"
    done, refused = submission.hand_in(options.archive, to) if options.archive else submission.check(to)
    for reason in refused:
        say(f"refused: {reason}")
    if not refused:
        print(done)
    return int(bool(refused))
