"""Signatures by OpenSSH of an archive's list of checksums, which covers all files in the archive."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from results.find.records import RecordError

PURPOSE = "caraml-archive"  # OpenSSH's namespace: a signature made for another purpose is refused
OLDEST = "8.2"  # the first version with find-principals (its release notes)
TOO_OLD = re.compile(rb"(unknown|illegal|invalid|unrecognized) option.*Y|[Uu]nsupported operation for -Y")
LINE = re.compile(r'^[ \t]*("[^"\n]*"|\S+)', re.MULTILINE)  # the names in a line of allowed signers


class UncheckedError(RecordError):
    """A signature cannot be checked or made: there is no file of signers, or OpenSSH is missing or too old."""


def sign(content: bytes, key: Path) -> bytes:
    """Return the signature of some bytes by a private key, or by the public key of one that ssh-agent holds.

    OpenSSH asks for a passphrase itself. Raises RecordError if it does not sign.
    """
    if not key.is_file():
        raise RecordError(f"key {key} does not exist: make one with 'ssh-keygen -t ed25519'")
    done = _run(content, "-Y", "sign", "-q", "-n", PURPOSE, "-f", str(key))
    if b"UNPROTECTED PRIVATE KEY" in done.stderr:
        private = key.with_suffix("") if key.suffix == ".pub" else key
        mode = private.stat().st_mode & 0o777
        raise RecordError(
            f"key {private} does not sign, as others can use it (mode {mode:04o}): run 'chmod 600 {private}'"
        )
    return _answer(done, f"{key} does not sign")


def signer_of(content: bytes, signature: bytes, signers: Path, purpose: str = PURPOSE) -> str:
    """Return the name of the signer of some bytes for a purpose, from a file of allowed signers (ssh-keygen(1)).

    Raises RecordError unless an allowed signer signed exactly these bytes.
    """
    if not signers.is_file():
        raise UncheckedError(f"no file of signers {signers}: write one with a name and a public key in each line")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "signature"
        file.write_bytes(signature)
        common = ("-s", str(file), "-f", str(signers))
        names = dict.fromkeys(
            name for line in LINE.findall(signers.read_text("utf-8", "replace")) for name in _names(line)
        )
        check = ("-Y", "verify", "-n", purpose, *common, "-I")
        # One key may stand in several lines: its owner then has several names.
        if accepted := [name for name in names if _run(content, *check, name).returncode == 0]:
            return " or ".join(accepted)
        found = _run(b"", "-Y", "find-principals", *common)
        name = _answer(found, f"no signer in {signers} made the signature").decode(errors="replace").splitlines()[0]
        _answer(_run(content, *check, name), f"the signature by {name} is not for these files")
    return name


def _names(line: str) -> list[str]:
    return [name for name in line.strip('"').split(",") if name and not name.startswith(("!", "#"))]


def _run(content: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        done = subprocess.run(["ssh-keygen", *arguments], input=content, capture_output=True)
    except FileNotFoundError as error:
        raise UncheckedError("signatures need ssh-keygen: install OpenSSH") from error
    if TOO_OLD.search(done.stderr):
        raise UncheckedError(
            f"signatures need OpenSSH {OLDEST} or later, but {_version()} was found: install a newer OpenSSH"
        )
    return done


def _version() -> str:
    try:
        done = subprocess.run(["ssh", "-V"], capture_output=True)
    except OSError:
        return "an older version"
    return done.stderr.decode(errors="replace").partition(",")[0].strip() or "an older version"


def _answer(done: subprocess.CompletedProcess[bytes], refused: str) -> bytes:
    if done.returncode or not done.stdout:
        lines = (done.stderr or done.stdout).decode(errors="replace").split("\n")
        reason = next((line.strip(" @\r") for line in lines if line.strip(" @\r")), "no reason given")
        raise RecordError(f"{refused} (ssh-keygen: {reason})")
    return done.stdout
