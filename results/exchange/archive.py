"""Archive of results: the same results give the same bytes, and every file and number can be checked."""

from __future__ import annotations

import hashlib
import json
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from jpwr.errors import JpwrError
from jpwr.messages import printable
from jpwr.process.whole_file import replacing
from record.checks import contradictions
from record.checks.energy import busier_elsewhere
from record.checks.windows import CLOCK_S
from record.derivation import derive
from record.model import Json, Record
from record.part import as_json
from results.collect import RECORD_NAME, joined
from results.exchange.public import ABOUT, Licence, published
from results.exchange.signature import UncheckedError, sign, signer_of
from results.files.workloads import FILE
from results.find.folders import below, is_attempt, results_below
from results.find.records import RESULT_NAME, RecordError, find_records, mark_of, read_record
from results.join.copies import FAILED, copy_folder, copy_folders, failed_copy, run_of
from results.join.nodes import TraceSums, of_node, read_sums
from results.join.serving import REQUESTS_NAME, differences, request_problems

CHECKSUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"
ENDING = ".zip"
RUNS, WORKFLOW = "runs", "workflow"
MARK_S = 2e-6  # marks have six decimals
# Files of a run, in its job's folder.
RUN_FILES = (
    RESULT_NAME,
    RECORD_NAME,
    "job.sh",
    "node.sh",
    "job.out",
    "job.err",
    FAILED,
    f"copy_*/{RECORD_NAME}",
    "copy_*/job.out",
    "copy_*/job.err",
    "record.trace.json",
    REQUESTS_NAME,
    "record.regions.json",
    "io/*/*",
    "power/*/*",
)
# Files of a sweep, above its jobs' folders.
SWEEP_FILES = ("configuration.xml", "workpackages.xml")
# Limits of unpacking: the trace of eight GPUs over an hour, ten times a second, has 0.006 GB.
MOST_GB, MOST_FILES = 1.0, 100_000
EARLIEST = (1980, 1, 1, 0, 0, 0)  # time of each file, as only its content counts
GB = 1e9


class Checked(NamedTuple):
    """Outcome of checking an archive."""

    problems: list[str]  # a sentence each
    runs: int  # runs whose numbers were computed again
    is_signed: bool
    signer: str = ""  # empty unless a file of signers was given


def write_archive(
    folders: Iterable[Path], workflow: Path, archive: Path, key: Path | None = None, licence: Licence | None = None
) -> int:
    """Store all runs below some folders with the workflow's files and checksums; return the number of runs.

    A key signs the list of checksums. A public archive states its licence, and shows nothing of a site.
    Raises RecordError without a run, for two folders of one name, and if OpenSSH does not sign.
    """
    if not archive.name.endswith(ENDING) or (archive.exists() and not archive.is_file()):
        raise RecordError(f"--out {archive}: the name of an archive must end with {ENDING}")
    files: dict[str, Path] = {}
    runs: set[Path] = set()
    for folder in folders:
        results = results_below(folder, with_attempts=True)
        runs.update(path for path in results if not is_attempt(path, folder))
        paths = [path for result in results for name in RUN_FILES for path in result.parent.glob(name)]
        paths += [path for name in SWEEP_FILES for path in folder.glob(name)]
        for path in filter(Path.is_file, paths):  # reading a pipe would wait for ever
            name = str(PurePosixPath(RUNS, _name(folder), path.relative_to(folder)))
            if files.setdefault(name, path) != path:
                raise RecordError(f"two folders are called {_name(folder)}: give the folder above both")
    if not runs:
        raise RecordError(f"no {RESULT_NAME} below {', '.join(map(str, folders))}: run a sweep first")
    for path in filter(Path.is_file, [*workflow.glob("*.yaml"), *workflow.glob("include/*")]):
        files[str(PurePosixPath(WORKFLOW, path.relative_to(workflow)))] = path
    for path in workflow.parent.glob(f"benchmarks/*/{FILE}"):
        files[str(PurePosixPath(WORKFLOW, path.relative_to(workflow.parent)))] = path
    contents: Iterable[tuple[str, bytes]] = ((name, path.read_bytes()) for name, path in sorted(files.items()))
    if licence:
        contents = chain([(ABOUT, f"licence: {json.dumps(licence)}\n".encode())], published(files))
    _write(contents, archive, key)
    return len(runs)


def _name(folder: Path) -> PurePosixPath:
    """Return the name of a folder in an archive; a JUBE run, whose name is a number, keeps its parent folder."""
    *_, above, name = folder.absolute().parts
    return PurePosixPath(above, name) if name.isdigit() else PurePosixPath(name)


def _write(contents: Iterable[tuple[str, bytes]], archive: Path, key: Path | None) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    sums = ""
    with replacing(archive) as file, zipfile.ZipFile(file.buffer, "w") as packed:
        for name, content in contents:
            sums += f"{hashlib.sha256(content).hexdigest()}  {name}\n"
            _add(packed, name, content)
        _add(packed, CHECKSUMS, sums.encode())
        if key is not None:
            _add(packed, SIGNATURE, sign(sums.encode(), key))


def _add(packed: zipfile.ZipFile, name: str, content: bytes) -> None:
    file = zipfile.ZipInfo(name, EARLIEST)
    file.create_system, file.external_attr = 3, (stat.S_IFREG | 0o644) << 16  # as on Unix, from any machine
    packed.writestr(file, content, zipfile.ZIP_DEFLATED, 9)


def verify(archive: Path, signers: Path | None = None) -> Checked:
    """Check an archive, packed or as a folder, and, with a file of allowed signers, its signature.

    Numbers of runs that are marked as wrong are not checked. Raises RecordError if it cannot be read at all, or would
    unpack to more than MOST_GB, which a folder may have.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = archive if archive.is_dir() else Path(temporary)
        problems = [] if archive.is_dir() else _unpack(archive, folder)
        problems += _check_files(folder)
        signature, signer, runs = folder / SIGNATURE, "", 0
        is_signed = signature.is_file()
        if signers is not None and not problems:
            try:
                if not is_signed:
                    raise RecordError("it is not signed: sign it with 'caraml archive --sign KEY'")
                signer = signer_of((folder / CHECKSUMS).read_bytes(), signature.read_bytes(), signers)
            except UncheckedError:
                raise
            except RecordError as error:
                problems.append(str(error))
        if not problems:
            runs = len(results_below(folder))
            problems = list(dict.fromkeys(_check_runs(folder)))
    # Names and texts are untrusted: a terminal must not interpret them.
    return Checked([printable(text) for text in problems], runs, is_signed, signer)


def _check_runs(folder: Path) -> Iterator[str]:
    """Yield the problems of the runs in an unpacked archive."""
    if not results_below(folder):
        yield "it has no run"
    for record in results_below(folder, RECORD_NAME):
        if not (run_of(record.parent) / RESULT_NAME).exists():
            yield f"{record.parent.relative_to(folder)}: it has a record but no {RESULT_NAME}"
    for path in results_below(folder, with_attempts=True):
        if not mark_of(path):
            yield from (f"{path.parent.relative_to(folder)}: {text}" for text in problems_of_run(path))
    try:
        skipped = [str(file) for file in find_records([folder]).skipped if file.finding.kind != "marked"]
    except RecordError as error:
        skipped = [str(error)]
    yield from (text.replace(f"{folder}/", "").replace(f"/{RESULT_NAME}", f": {RESULT_NAME}") for text in skipped)


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """Unpack an archive into a folder for a while; raises RecordError unless each of its files is unchanged."""
    with tempfile.TemporaryDirectory() as folder:
        if problems := [*_unpack(archive, Path(folder)), *_check_files(Path(folder))]:
            raise RecordError(f"{archive}: {printable(problems[0])}; 'caraml verify {archive}' lists all")
        yield Path(folder)


def _unpack(archive: Path, folder: Path) -> list[str]:
    """Unpack into a folder; return a sentence for each file that is not unpacked, or is there twice.

    Raises RecordError if the declared sizes, beyond which nothing is unpacked, exceed MOST_GB.
    """
    problems = []
    try:
        with zipfile.ZipFile(archive) as packed:
            files = packed.infolist()
            size_gb = sum(file.file_size for file in files) / GB
            if size_gb > MOST_GB or len(files) > MOST_FILES:
                raise RecordError(
                    f"{archive} was to be unpacked, but has {len(files)} files of {size_gb:.3g} GB, more than "
                    f"{MOST_FILES} files or {MOST_GB:g} GB: if you trust it, unpack it yourself, and give the folder"
                )
            for file in files:
                place, mode = PurePosixPath(file.filename), file.external_attr >> 16
                if place.is_absolute() or ".." in place.parts or file.is_dir() or not stat.S_ISREG(mode):
                    problems.append(f"{file.filename!r} is not a plain file inside the archive: it was not unpacked")
                    continue
                if (folder / place).exists():
                    problems.append(f"{file.filename!r} is in it twice")
                content = packed.read(file)
                (folder / place).parent.mkdir(parents=True, exist_ok=True)
                (folder / place).write_bytes(content)
    # RuntimeError: encrypted; NotImplementedError: packed in a way that Python cannot unpack; the others: damaged.
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise RecordError(
            f"{archive} cannot be unpacked as an archive ({reason}): give a file that 'caraml archive' of this release "
            "has written; if it is cut short, copy or download it again"
        ) from error
    return problems


def _check_files(folder: Path) -> Iterator[str]:
    """Yield the problems of the files in an unpacked archive, by their checksums."""
    files, closed = below(folder)
    linked = (path for path in files if path.resolve() != folder.resolve() / path.relative_to(folder))
    yield from (f"{path.relative_to(folder)} is a link or cannot be entered" for path in (*linked, *closed))
    sums = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    if CHECKSUMS not in sums:
        yield f"it has no {CHECKSUMS}: it is not an archive of this suite, or it was cut short"
        return
    lines = (folder / CHECKSUMS).read_text(errors="replace").split("\n")
    wanted: dict[str, str] = {}
    for digest, _, name in (line.partition("  ") for line in lines):
        if name in wanted:
            yield f"{printable(name)} has two checksums"
        if name:
            wanted[name] = digest
    for name in sorted(wanted.keys() | sums.keys() - {CHECKSUMS, SIGNATURE}):
        words = printable(name)
        if name not in sums:
            yield f"{words} is missing"
        elif name not in wanted:
            yield f"{words} has no checksum: it was added later"
        elif sums[name] != wanted[name]:
            yield f"{words} was changed: its SHA-256 is {sums[name]}, and was {wanted[name]}"


def problems_of_run(result: Path) -> list[str]:
    """Return the problems of a run, after computing all its numbers again from the record and the traces."""
    problems: list[str] = []
    try:
        for problem in _problems(result):
            problems.append(problem)  # one by one, so that they are kept if an error follows
    except (RecordError, JpwrError, OSError) as error:
        problems.append(str(error).replace(f"{result.parent}/", ""))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        problems.append(f"{RECORD_NAME} and {RESULT_NAME} are not as a benchmark writes them: {error!r}")
    return list(dict.fromkeys(problems))


def _problems(result: Path) -> Iterator[str]:
    stored = read_record(result)
    if stored["status"] != "ok":
        path = copy_folder(result.parent, failed_copy(result.parent)[0]) / RECORD_NAME
        recorded = read_record(path)["status"] if path.exists() else "unfinished"
        allowed = {"ok": {"failed"}, "unfinished": {"failed", "unfinished"}}.get(recorded, {recorded})
        if stored["status"] not in allowed:
            yield f"it is stored as {stored['status']}, but its record has the status {recorded}"
        elif stored.get("energy") and joined(result.parent)[0].is_good:
            yield f"it is stored as {stored['status']}, but its record and traces give a good run"
        return
    run = Record.of(stored)
    again, traces = joined(result.parent)
    if not again.is_good:
        yield f"it is stored as ok, but {again.error}"
        return
    for key, energy in again.energies.items():
        if busier := busier_elsewhere(energy):
            yield f"{key} is not that of the work: the trace has {busier.words}"
    traces = traces or read_sums(result.parent, run)
    yield from _not_marked(run, traces)
    yield from _other_command(run, traces)
    for folder in copy_folders(result.parent, run) or [result.parent]:
        recorded = read_record(folder / RECORD_NAME)
        if run.fill:
            copy = derive(Record.of(recorded | {"energy": {}}))  # only all copies have one
            yield from (f"{folder.name}: {sentence}" for sentence in contradictions(copy))
        yield from derived_otherwise(recorded, f"{folder.name}/{RECORD_NAME}: " if run.fill else f"{RECORD_NAME}: ")
    if stored.get("serving"):
        yield from request_problems(stored, result.parent)
    yield from differences(stored, as_json(again), "")


def _not_marked(record: Record, traces: Sequence[TraceSums]) -> Iterator[str]:
    """Yield the windows of the record, or of its copies, without marks or at another time in the sampler's traces."""
    for window in record.windows:
        trace = of_node(window, [sums.meta for sums in traces])
        begin_s, offset_s = window.start_epoch_s, trace is not None and traces[trace].meta.get("epoch_offset_s")
        if begin_s is not None and offset_s and abs(begin_s - window.start_s - offset_s) > CLOCK_S:
            apart_s = begin_s - window.start_s - offset_s
            yield f"its {window.kind} window begins {apart_s:.4g} s later by its wall clock than by that of the trace"
    marks = [(trace.meta.get("boot_id"), region) for trace in traces for region in trace.marks]
    of_copies = record.fill.per_copy if record.fill else []
    named = [(f" of copy {copy.copy}", window) for copy in of_copies for window in copy.windows]
    # Of a server's nodes, only the client's has marks: on the others, the window is as its record and clocks give it.
    own = [one for one in record.windows if one.number("clock_error_s") is None or not record.option("run.hosts")]
    for words, window in named or [("", window) for window in own]:
        if not any(
            region.name == f"{window.kind} window{words}"
            and abs(region.start_s - window.start_s) <= MARK_S
            and abs(region.end_s - window.end_s) <= MARK_S
            for boot_id, region in marks
            if boot_id == window.boot_id
        ):
            yield (
                f"its {window.kind} window{words} from {window.start_s:.3f} s to {window.end_s:.3f} s of node "
                f"{window.hostname} is not marked in the trace"
            )


def _other_command(record: Record, traces: Sequence[TraceSums]) -> Iterator[str]:
    """Compare the module and its options with those of the command that the sampler started, if it names the module."""
    words = record.provenance.command or []
    own = words[words.index("-m") + 1 :] if "-m" in words else [""]
    for trace in traces:
        sampled = trace.meta.get("command") or []
        if own[0] in sampled and (started := sampled[sampled.index(own[0]) :]) != own:
            yield f"its command is '{' '.join(own)}', but the sampler has started '{' '.join(started)}'"


def derived_otherwise(recorded: Json, where: str) -> Iterator[str]:
    """Yield each stored value of a record that follows otherwise from its other values."""
    for difference in differences(recorded, as_json(derive(Record.of(recorded))), "", of_stored=True):
        yield f"{where}{difference}"
