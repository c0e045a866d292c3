"""Signatures by OpenSSH of an archive's list of checksums, which covers all files in the archive."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from results.record.records import RecordError

PURPOSE = "caraml-archive"  # OpenSSH's namespace: a signature made for another purpose is refused
OLDEST = "8.2"  # the first version with find-principals (its release notes)
TOO_OLD = re.compile(rb"(unknown|illegal|invalid|unrecognized) option.*Y|[Uu]nsupported operation for -Y")
LINE = re.compile(r'^[ \t]*("[^"\n]*"|\S+)', re.MULTILINE)  # the names in a line of allowed signers


class OpenSshError(RecordError):
    """OpenSSH is missing or too old, so that a signature cannot be checked or made."""


def sign(content: bytes, key: Path) -> bytes:
    """Return the signature of some bytes by a private key, or by the public key of one that ssh-agent holds.

    OpenSSH asks for a passphrase itself. Raises RecordError if it does not sign.
    """
    if not key.is_file():
        raise RecordError(f"key {key} does not exist: make one with 'ssh-keygen -t ed25519'")
    if b"UNPROTECTED PRIVATE KEY" in _run(b"", "-y", "-P", "", "-f", str(key)).stderr:
        mode = key.stat().st_mode & 0o777
        raise RecordError(f"key {key} does not sign, as others can use it (mode {mode:04o}): run 'chmod 600 {key}'")
    return _ssh_keygen(f"{key} does not sign", content, "-Y", "sign", "-q", "-n", PURPOSE, "-f", str(key))


def signer_of(content: bytes, signature: bytes, signers: Path, purpose: str = PURPOSE) -> str:
    """Return the name of the signer of some bytes for a purpose, from a file of allowed signers (ssh-keygen(1)).

    Raises RecordError unless an allowed signer signed exactly these bytes.
    """
    if not signers.is_file():
        raise RecordError(f"file of signers {signers} does not exist: write a name and a public key in each line")
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
        principals = _ssh_keygen(f"no signer in {signers} made the signature", b"", "-Y", "find-principals", *common)
        name = principals.decode(errors="replace").splitlines()[0]
        _ssh_keygen(f"the signature by {name} is not for these files", content, *check, name)
    return name


def _names(line: str) -> list[str]:
    return [name for name in line.strip('"').split(",") if name and not name.startswith(("!", "#"))]


def _run(content: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        done = subprocess.run(["ssh-keygen", *arguments], input=content, capture_output=True)
    except FileNotFoundError as error:
        raise OpenSshError("signatures need ssh-keygen: install OpenSSH") from error
    if TOO_OLD.search(done.stderr):
        raise OpenSshError(
            f"signatures need OpenSSH {OLDEST} or later, but {_version()} was found: install a newer OpenSSH"
        )
    return done


def _version() -> str:
    try:
        done = subprocess.run(["ssh", "-V"], capture_output=True)
    except OSError:
        return "an older version"
    return done.stderr.decode(errors="replace").partition(",")[0].strip() or "an older version"


def _ssh_keygen(refused: str, content: bytes, *arguments: str) -> bytes:
    done = _run(content, *arguments)
    if done.returncode or not done.stdout:
        lines = (done.stderr or done.stdout).decode(errors="replace").split("\n")
        reason = next((line.strip(" @\r") for line in lines if line.strip(" @\r")), "no reason given")
        raise RecordError(f"{refused} (ssh-keygen: {reason})")
    return done.stdout
