"""The command `ioprof`: count what a command and all that it starts read, and pass on its exit code."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Sequence

from ioprof.counters import read_counters
from ioprof.counts import Profile
from ioprof.coverage import coverage
from ioprof.darshan_log import DARSHAN, from_darshan
from ioprof.folder import load, save
from ioprof.library import build, library
from ioprof.summary import lines, to_dict
from ioprof.watch import Watcher
from jpwr import __version__
from jpwr.errors import JpwrError
from jpwr.messages import open_standard_streams, printable, settle_streams, write
from jpwr.process.child import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Child
from jpwr.process.host import described
from jpwr.process.parser import EXIT_FAILED, Parser

SHOWN = 10  # default number of files and folders in a summary


def log(message: str) -> None:
    """Print a message on stderr, after `ioprof: `; that never ends a run."""
    write(f"ioprof: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    open_standard_streams()
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        if arguments[:1] == ["read"]:
            return _read(arguments[1:])
        if arguments[:1] == ["build"]:
            return _build(arguments[1:])
        return _run(_parse(arguments))
    except JpwrError as error:
        log(str(error))
        return EXIT_FAILED
    finally:
        settle_streams()


USAGE = """ioprof --out DIR -- command [argument ...]
       ioprof read DIR | build FILE"""
DESCRIPTION = """\
Count the reads of a command and of all processes that it starts: by file, and
over time.

  ioprof --out io -- ./my_program   print a summary on stderr, and write the
                                    profile to the folder io
  ioprof read io                    print the summary of a folder, with files
  ioprof build FILE                 build the counting library for systems
                                    without a compiler: IOPROF_LIBRARY=FILE"""
EPILOG = f"""exit codes:
  the command's own, or 128+n if signal n ended it
  {EXIT_FAILED}  ioprof itself failed, and the command did not run
  {EXIT_NOT_EXECUTABLE}  the command cannot be executed
  {EXIT_NOT_FOUND}  the command was not found"""


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="ioprof",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the profile; replaces an existing one")
    parser.add_argument("--version", action="version", version=f"ioprof {__version__}")
    options = parser.parse_with_command(argv, "ioprof --out io -- python3 train.py")
    if options.out is None:
        parser.error("no folder was given for the profile: add --out DIR")
    return options


def _run(options: argparse.Namespace) -> int:
    counting = library()
    try:
        folder = tempfile.mkdtemp(prefix="ioprof-")
    except OSError as error:
        raise JpwrError(f"no temporary folder can be made ({error.strerror}): set TMPDIR to a writable one") from error
    try:
        _check_out(options.out)
        counting = _without_separators(counting, folder)
        child = Child(options.command, log)
        child.take_signals()
        watcher = Watcher(lambda: child.pid, counting, Path(folder))
        begin_s = time.monotonic()
        exit_code = child.run(_environment(counting, folder))
        end_s = time.monotonic()
        try:
            about = {"source": f"ioprof {__version__}", "command": options.command, "exit_code": exit_code}
            about |= {**described(time.time() - time.monotonic()), "begin_s": begin_s, "end_s": end_s}
            _finish(options.out, Path(folder), watcher, about)
        except Exception as error:  # the command's exit code stays
            log(str(error) if isinstance(error, JpwrError) else f"{type(error).__name__}: {error}")
        return exit_code
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_out(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise JpwrError(
            f"the profile cannot be written to {out} ({error.strerror}): choose another folder with --out"
        ) from error


def _without_separators(counting: Path, folder: str) -> Path:
    """Return a path of the library without spaces and colons, which separate names in LD_PRELOAD."""
    if not set(" :") & set(str(counting)):
        return counting
    if set(" :") & set(folder):
        raise JpwrError(
            f"{folder} has a space or a colon, which separate names in LD_PRELOAD: set TMPDIR to a folder without"
        )
    copy = Path(folder) / counting.name.replace(" ", "_").replace(":", "_")
    shutil.copyfile(counting, copy)
    return copy


def _environment(counting: Path, folder: str) -> dict[str, str]:
    before = os.environ.get("LD_PRELOAD")
    return {
        **os.environ,
        "LD_PRELOAD": f"{counting}:{before}" if before else str(counting),
        "IOPROF_COUNTERS": folder,
    }


def _finish(out: Path, counters: Path, watcher: Watcher, about: dict[str, Any]) -> None:
    watched, kernel_bytes = watcher.seen(), watcher.read_bytes()
    found = {path.name: read_counters(path) for path in counters.iterdir() if path.name[:1].isdigit()}
    processes = sorted((one for one in found.values() if one), key=lambda process: process.begin_s)
    without_room = {name.partition("-")[0] for name, one in found.items() if one is None}
    profile = Profile(about, processes, coverage(kernel_bytes, processes, watched), len(without_room))
    for line in lines(profile, files=0):
        log(line)
    try:
        save(profile, out)
    except OSError as error:
        other = Path(tempfile.mkdtemp(prefix="ioprof-"))
        try:
            save(profile, other)
        except OSError:
            shutil.rmtree(other, ignore_errors=True)
            raise JpwrError(f"the profile cannot be written to {out} ({error.strerror}): make room there") from error
        raise JpwrError(f"the profile cannot be written to {out} ({error.strerror}): it is in {other}") from error


def _read(argv: list[str]) -> int:
    parser = Parser(prog="ioprof read", description="Print the summary of a profile.")
    parser.add_argument("path", type=Path, metavar="DIR", help="folder of a profile, or a log of Darshan (.darshan)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write the profile to a folder")
    parser.add_argument("--files", type=int, default=SHOWN, metavar="N", help="files and folders to show (default: 10)")
    parser.add_argument("--tier", type=float, metavar="MB/S", help="also print the time on storage of that bandwidth")
    text = "also print which files to copy to a fast storage of N bytes, and the gain"
    parser.add_argument("--stage-bytes", type=float, metavar="N", help=text)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    options = parser.parse_args(argv)
    if options.files < 0:
        parser.error(f"--files must be 0 or more, got {options.files}")
    for flag, value, unit in (("tier", options.tier, "MB/s"), ("stage-bytes", options.stage_bytes, "bytes")):
        if value is not None and not 0 < value < float("inf"):
            parser.error(f"--{flag} must be more than 0 {unit}, got {value:g}")
    profile = from_darshan(options.path) if options.path.name.endswith(DARSHAN) else load(options.path)
    if options.out is not None:
        _check_out(options.out)
        save(profile, options.out)
    if options.json:
        print(json.dumps(to_dict(profile, options.files, options.tier, options.stage_bytes), indent=1))
    else:
        for line in lines(profile, options.files, options.tier, options.stage_bytes):
            print(printable(line))
    return 0


def _build(argv: list[str]) -> int:
    parser = Parser(prog="ioprof build", description="Build the counting library, for IOPROF_LIBRARY=FILE.")
    parser.add_argument("file", type=Path)
    options = parser.parse_args(argv)
    try:
        build(options.file)
    except OSError as error:
        raise JpwrError(f"{options.file} cannot be written ({error.strerror}): choose another file") from error
    return 0
