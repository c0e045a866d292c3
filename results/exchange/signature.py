"""Signatures by OpenSSH of an archive's list of checksums, which covers all files in the archive."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from results.find.records import RecordError

PURPOSE = "caraml-archive"  # OpenSSH's namespace: a signature made for another purpose is refused


class UncheckedError(RecordError):
    """A signature cannot be checked or made: there is no file of signers, or no OpenSSH."""


def sign(content: bytes, key: Path) -> bytes:
    """Return the signature of some bytes by a private key, or by the public key of one that ssh-agent holds.

    OpenSSH asks for a passphrase itself. Raises RecordError if it does not sign.
    """
    if not key.is_file():
        raise RecordError(f"key {key} does not exist: make one with 'ssh-keygen -t ed25519'")
    return _run(f"{key} does not sign", content, "-Y", "sign", "-q", "-n", PURPOSE, "-f", str(key))


def signer_of(content: bytes, signature: bytes, signers: Path, purpose: str = PURPOSE) -> str:
    """Return the name of the signer of some bytes for a purpose, from a file of allowed signers (ssh-keygen(1)).

    Raises RecordError unless an allowed signer signed exactly these bytes.
    """
    if not signers.is_file():
        raise UncheckedError(f"no file of signers {signers}: write one with a name and a public key in each line")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "signature"
        file.write_bytes(signature)
        common = ("-n", purpose, "-s", str(file), "-f", str(signers))
        refused = f"no signer in {signers} made the signature"
        names = _run(refused, b"", "-Y", "find-principals", *common).decode(errors="replace")
        name = names.split()[0].partition(",")[0]
        refused = f"the signature by {name} is not for these files"
        _run(refused, content, "-Y", "verify", *common, "-I", name)
    return name


def _run(refused: str, content: bytes, *arguments: str) -> bytes:
    """Return what ssh-keygen 8.2 or later prints; raises RecordError with its reason if it fails."""
    try:
        done = subprocess.run(["ssh-keygen", *arguments], input=content, capture_output=True)
    except FileNotFoundError as error:
        raise UncheckedError("signatures need ssh-keygen: install OpenSSH 8.2 or later") from error
    if done.returncode or not done.stdout:
        lines = (done.stderr or done.stdout).decode(errors="replace").split("\n")
        reason = next((line.strip(" @\r") for line in lines if line.strip(" @\r")), "no reason given")
        raise RecordError(f"{refused} (ssh-keygen: {reason})")
    return done.stdout
