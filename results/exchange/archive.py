"""Archive of results: the same results give the same bytes, and every file and number can be checked."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from jpwr.errors import JpwrError
from jpwr.messages import printable
from jpwr.process.whole_file import replacing
from record.checks import contradictions
from record.checks.energy import busier_elsewhere
from record.checks.windows import CLOCK_S
from record.derivation import derive
from record.model import Energy, Json, as_json
from record.parts import of_node
from results.collect import RECORD_NAME, collect
from results.exchange.public import ABOUT, About, published
from results.exchange.signature import UncheckedError, sign, signer_of
from results.files.workloads import FILE
from results.find.folders import below, results_below
from results.find.records import (
    RESULT_NAME,
    Record,
    RecordError,
    find_records,
    mark_of,
    named_in,
    read_record,
)
from results.join.copies import FAILED, copy_folder, copy_folders, failed_copy, run_of
from results.join.nodes import TraceSums, read_sums
from results.join.serving import REQUESTS_NAME, TOLERANCE, request_problems

CHECKSUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"
ENDING = ".zip"
RUNS, WORKFLOW = "runs", "workflow"
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
STATED_BY_SITE = {"site"}  # no trace shows it
MARK_S = 2e-6  # marks have six decimals
# Limits of unpacking: the trace of eight GPUs over an hour, ten times a second, has 0.006 GB. Millions of rows take
# many seconds to read.
MOST_GB, SHARE_OF_A_FILE, MOST_FILES = 1.0, 0.05, 100_000
ZIP, ZSTANDARD = b"PK\x03\x04", b"\x28\xb5\x2f\xfd"  # first bytes of files
EARLIEST = (1980, 1, 1, 0, 0, 0)  # time of each file, as only its content counts
GB = 1e9


class Checked(NamedTuple):
    """Outcome of checking an archive."""

    problems: list[str]  # a sentence each
    runs: int  # runs whose numbers were computed again
    is_signed: bool
    signer: str = ""  # empty unless a file of signers was given
    commits: tuple[str, ...] = ()  # of the suite, by which the runs were made; empty without problems
    wrong: tuple[str, ...] = ()  # names of the runs whose numbers have problems


def write_archive(
    folders: Iterable[Path], workflow: Path, archive: Path, key: Path | None = None, about: About | None = None
) -> int:
    """Store all runs below some folders with the workflow's files and checksums; return the number of runs.

    A key signs the list of checksums. A public archive has statements about it, and shows a site only if they say so.
    Raises RecordError without a run, for two folders of one name, for a public archive whose numbers do not follow from
    its traces, and if OpenSSH does not sign.
    """
    if not archive.name.endswith(ENDING) or (archive.exists() and not archive.is_file()):
        raise RecordError(f"--out {archive}: the name of an archive must end with {ENDING}")
    files, runs = files_of(folders, workflow)
    _write(_contents(files, about), archive, key)
    if about and (problems := verify(archive, most_gb=math.inf).problems):
        archive.unlink()
        raise RecordError(
            f"{archive} would be public, but {problems[0]}: store it without --licence to see all problems"
        )
    return runs


def files_of(folders: Iterable[Path], workflow: Path) -> tuple[dict[str, Path], int]:
    """Return the files of all runs below some folders and of the workflow, by name in an archive; and how many runs.

    Raises RecordError without a run, and for two folders of one name.
    """
    files: dict[str, Path] = {}
    runs: set[Path] = set()
    for folder in folders:
        results = results_below(folder)
        runs.update(results)
        every = results_below(folder, with_attempts=True)
        paths = [path for result in every for name in RUN_FILES for path in result.parent.glob(name)]
        paths += [path for name in SWEEP_FILES for path in folder.glob(name)]
        paths = [path for path in paths if path.is_file()]  # reading a pipe would wait for ever
        for path in paths:
            name = str(PurePosixPath(RUNS, _name(folder), path.relative_to(folder)))
            if files.setdefault(name, path) != path:
                raise RecordError(f"two folders are called {_name(folder)}: give the folder above both")
    if not runs:
        raise RecordError(f"no {RESULT_NAME} below {', '.join(map(str, folders))}: run a sweep first")
    for path in [*workflow.glob("*.yaml"), *workflow.glob("include/*")]:
        if path.is_file():
            files[str(PurePosixPath(WORKFLOW, path.relative_to(workflow)))] = path
    for path in workflow.parent.glob(f"benchmarks/*/{FILE}"):
        files[str(PurePosixPath(WORKFLOW, path.relative_to(workflow.parent)))] = path
    return files, len(runs)


def _contents(files: dict[str, Path], about: About | None) -> Iterator[tuple[str, bytes]]:
    if about:
        yield ABOUT, "".join(f"{key}: {json.dumps(value)}\n" for key, value in vars(about).items()).encode()
        yield from published(files, about.keep_names)
    else:
        yield from ((name, path.read_bytes()) for name, path in sorted(files.items()))


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
    try:
        file = zipfile.ZipInfo(name, EARLIEST)
        file.create_system, file.external_attr = 3, (stat.S_IFREG | 0o644) << 16  # as on Unix, from any machine
        packed.writestr(file, content, zipfile.ZIP_DEFLATED, 9)
    except UnicodeEncodeError as error:
        raise RecordError(f"{name!r} was to be stored, but its name is not in UTF-8: rename it") from error


def verify(archive: Path, signers: Path | None = None, most_gb: float = MOST_GB) -> Checked:
    """Check an archive, packed or as a folder, and, with a file of allowed signers, its signature.

    Numbers of runs that are marked as wrong are not checked. Raises RecordError if it cannot be read at all, or would
    unpack to more than `most_gb`.
    """
    checked = _verify(archive, signers, most_gb)
    # Names and texts are untrusted: a terminal must not interpret them.
    return checked._replace(
        problems=[printable(one) for one in checked.problems], commits=tuple(map(printable, checked.commits))
    )


@contextmanager
def unpacked(archive: Path, most_gb: float = MOST_GB) -> Iterator[Path]:
    """Unpack an archive into a folder for a while; raises RecordError unless each of its files is unchanged."""
    with tempfile.TemporaryDirectory() as folder:
        problems, sums = _unpack(archive, Path(folder), most_gb)
        if problems := [*problems, *_check_sums(sums, Path(folder))]:
            raise RecordError(f"{archive}: {printable(problems[0])}; 'caraml verify {archive}' lists all")
        yield Path(folder)


def _verify(archive: Path, signers: Path | None, most_gb: float) -> Checked:
    with tempfile.TemporaryDirectory() as temporary:
        folder = archive if archive.is_dir() else Path(temporary)
        problems, sums = _sums_of(folder) if archive.is_dir() else _unpack(archive, folder, most_gb)
        problems += _check_sums(sums, folder)
        signer = ""
        if signers is not None and not problems:
            try:
                signer = _signer(folder, signers)
            except UncheckedError:
                raise
            except RecordError as error:
                problems.append(str(error))
        if problems:
            return Checked(problems, 0, SIGNATURE in sums)
        results = results_below(folder)
        if not results:
            problems.append("it has no run")
        for record in results_below(folder, RECORD_NAME):
            if not (run_of(record.parent) / RESULT_NAME).exists():
                problems.append(f"{record.parent.relative_to(folder)}: it has a record but no {RESULT_NAME}")
        of_runs = {path: _check_run(path) for path in results_below(folder, with_attempts=True) if not mark_of(path)}
        problems += [f"{path.parent.relative_to(folder)}: {one}" for path, found in of_runs.items() for one in found]
        # Tables would count a file with such a name, too.
        others = (name for name in sums if name.endswith(RESULT_NAME) and PurePosixPath(name).name != RESULT_NAME)
        problems += [f"{name}: a record must be called {RESULT_NAME}" for name in others]
        try:
            skipped = {str(one): one.path for one in find_records([folder]).skipped if one.finding.kind != "marked"}
        except RecordError as error:
            skipped = {str(error): folder}
        named = (one.replace(f"{folder}/", "").replace(f"/{RESULT_NAME}", f": {RESULT_NAME}") for one in skipped)
        problems = list(dict.fromkeys([*problems, *named]))
        paths = [*filter(of_runs.get, of_runs), *skipped.values()]
        wrong = tuple(dict.fromkeys(name for path in paths for name in named_in(path, "run_id")))
        return Checked(problems, len(results), SIGNATURE in sums, signer, _commits(results) if problems else (), wrong)


def _sums_of(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return problems of a folder, and the checksum of each file in it."""
    files, closed = below(folder)
    linked = [path for path in files if path.resolve() != folder.resolve() / path.relative_to(folder)]
    problems = [f"{path.relative_to(folder)} is a link or cannot be entered" for path in [*linked, *closed]]
    sums = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    return problems, sums


def _commits(results: Iterable[Path]) -> tuple[str, ...]:
    commits = set()
    for result in results:
        try:
            commits.add(str((read_record(result).get("provenance") or {}).get("git_commit") or ""))
        except (RecordError, AttributeError):
            continue  # already among the problems
    return tuple(sorted(commits - {""}))


def _signer(folder: Path, signers: Path) -> str:
    if not (folder / SIGNATURE).is_file():
        raise RecordError("it is not signed: sign it with 'caraml archive --sign KEY'")
    return signer_of((folder / CHECKSUMS).read_bytes(), (folder / SIGNATURE).read_bytes(), signers)


def _unpack(archive: Path, folder: Path, most_gb: float) -> tuple[list[str], dict[str, str]]:
    """Unpack into a folder; return problems, and the checksum of each file.

    Raises RecordError if the declared sizes, beyond which nothing is unpacked, exceed `most_gb`.
    """
    problems, sums = [], {}
    try:
        with zipfile.ZipFile(archive) as packed:
            _check_size(packed.infolist(), archive, most_gb)
            for file in packed.infolist():
                place, mode = PurePosixPath(file.filename), file.external_attr >> 16
                if place.is_absolute() or ".." in place.parts or file.is_dir() or not stat.S_ISREG(mode):
                    problems.append(f"{file.filename!r} is not a plain file inside the archive: it was not unpacked")
                    continue
                if str(place) in sums:
                    problems.append(f"{file.filename!r} is in it twice")
                content = packed.read(file)
                (folder / place).parent.mkdir(parents=True, exist_ok=True)
                (folder / place).write_bytes(content)
                sums[str(place)] = hashlib.sha256(content).hexdigest()
    # RuntimeError: encrypted; NotImplementedError: packed in a way that Python cannot unpack; the others: damaged.
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise RecordError(_why(error, archive, folder)) from error
    return problems, sums


def _check_size(files: Sequence[zipfile.ZipInfo], archive: Path, most_gb: float) -> None:
    largest = max(files, key=lambda file: file.file_size, default=None)
    total_bytes = sum(file.file_size for file in files)
    if not largest:
        return
    if max(total_bytes, largest.file_size / SHARE_OF_A_FILE) > most_gb * GB or len(files) > MOST_FILES:
        raise RecordError(
            f"{archive} was to be unpacked, but its {len(files)} files have {total_bytes / GB:.3g} GB, and "
            f"{printable(largest.filename)} has {largest.file_size / GB:.3g} GB: more than {most_gb:g} GB, "
            f"{most_gb * SHARE_OF_A_FILE:g} GB a file, or {MOST_FILES} files: if you trust it, allow more by --most-gb"
        )


def _why(error: Exception, archive: Path, folder: Path) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"{archive} was to be unpacked, but the temporary folder {folder.parent} is full: free space there, or set "
            "TMPDIR to a folder with more"
        )
    begin = _begin_of(archive) if archive.is_file() and not zipfile.is_zipfile(archive) else None
    if begin is not None and ZIP.startswith(begin):
        return f"{archive} is cut short, after {archive.stat().st_size} bytes: copy or download it again"
    if begin == ZSTANDARD:
        return f"{archive} is an archive of release 1.0: that release reads it"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return f"{archive} cannot be read as an archive ({reason}): give a file that 'caraml archive' has written"


def _begin_of(archive: Path) -> bytes:
    with archive.open("rb") as file:
        return file.read(len(ZIP))


def _check_sums(sums: dict[str, str], folder: Path) -> Iterator[str]:
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


def _check_run(result: Path) -> list[str]:
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
        folder = copy_folder(result.parent, failed_copy(result.parent)[0])
        wrong = list(_wrong_status(stored, folder / RECORD_NAME))
        yield from wrong
        if not wrong and stored.get("energy") and collect(result.parent)["status"] == "ok":
            yield f"it is stored as {stored['status']}, but its record and traces give a good run"
        return
    run = Record.of(stored)
    again, not_marked = _again(run, result.parent)
    if again["status"] != "ok":
        yield f"it is stored as ok, but {again['error']}"
        return
    if (energy := stored.get("energy")) and (lacking := again["energy"].keys() - energy.keys()):
        yield f"its energy lacks {', '.join(sorted(lacking))}: a result of release 1.0 is checked by release 1.0"
        return
    for key in ("energy", "energy_effective"):
        if busier := busier_elsewhere(Energy.of(again.get(key) or {})):
            yield f"{key} is not that of the work: the trace has {busier.words}"
    yield from not_marked
    for folder in copy_folders(result.parent, run) or [result.parent]:
        recorded = read_record(folder / RECORD_NAME)
        if run.fill:
            copy = derive(Record.of(recorded | {"energy": {}}))  # only all copies have one
            yield from (f"{folder.name}: {sentence}" for sentence in contradictions(copy))
        yield from derived_otherwise(recorded, f"{folder.name}/{RECORD_NAME}: " if run.fill else f"{RECORD_NAME}: ")
    if stored.get("serving"):
        yield from request_problems(stored, result.parent)
    for key in sorted(stored.keys() | again.keys()):
        yield from _differences(stored.get(key), again.get(key), key)


def _again(stored: Record, folder: Path) -> tuple[Json, list[str]]:
    """Return a run's result as its origin gives it, and what the traces show otherwise; these are read once."""
    traces: list[TraceSums] = []

    def read(folder: Path, record: Record) -> list[TraceSums]:
        traces.extend(read_sums(folder, record))
        return traces

    again = collect(folder, read)
    if again["status"] != "ok":
        return again, []
    if not traces:
        read(folder, stored)
    return again, [*_not_marked(stored, traces), *_other_command(stored, traces)]


def _wrong_status(stored: Json, path: Path) -> Iterator[str]:
    """Yield a problem if the stored status does not follow from the run's record."""
    recorded = read_record(path)["status"] if path.exists() else "unfinished"
    allowed = {"ok": {"failed"}, "unfinished": {"failed", "unfinished"}}.get(recorded, {recorded})
    if stored["status"] not in allowed:
        yield f"it is stored as {stored['status']}, but its record has the status {recorded}"


def _not_marked(record: Record, traces: Sequence[TraceSums]) -> Iterator[str]:
    """Yield the windows of the record, or of its copies, without marks or at another time in the sampler's traces."""
    for window, trace in ((window, of_node(window, traces, lambda one: one.meta)) for window in record.windows):
        begin_s, offset_s = window.start_epoch_s, trace and trace.meta.get("epoch_offset_s")
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
    derived = as_json(derive(Record.of(recorded)))
    for key, value in recorded.items():
        yield from (f"{where}{one}" for one in _differences(value, _with_keys_of(value, derived[key]), key))


def _with_keys_of(stored: Any, derived: Any) -> Any:
    """Return derived values without those that are not stored."""
    if isinstance(stored, dict) and isinstance(derived, dict):
        return {key: _with_keys_of(value, derived.get(key)) for key, value in stored.items()}
    if isinstance(stored, list) and isinstance(derived, list) and len(stored) == len(derived):
        return [_with_keys_of(*both) for both in zip(stored, derived, strict=True)]
    return derived


def _differences(stored: Any, again: Any, name: str) -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(again, dict):
        for key in sorted((stored.keys() | again.keys()) - STATED_BY_SITE):
            yield from _differences(stored.get(key), again.get(key), f"{name}.{key}")
    elif isinstance(stored, list) and isinstance(again, list) and len(stored) == len(again):
        for index, (one, other) in enumerate(zip(stored, again, strict=True)):
            yield from _differences(one, other, f"{name}[{index}]")
    elif isinstance(stored, float) and isinstance(again, float):
        if not math.isclose(stored, again, rel_tol=TOLERANCE):
            yield f"{name} is stored as {stored:.10g}, but its origin gives {again:.10g}"
    elif stored != again or isinstance(stored, bool) != isinstance(again, bool):
        yield f"{name} is stored as {stored!r}, but its origin gives {again!r}"
