"""Signatures by OpenSSH, which every site has: of an archive's list of checksums, and so of all that is in it."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from results.record.records import RecordError

PURPOSE = "caraml-archive"  # OpenSSH's namespace: a signature for something else is none of an archive


def sign(content: bytes, key: Path) -> bytes:
    """The signature of some bytes by a private key, or by a public one of which ssh-agent has the other half.

    OpenSSH asks for a passphrase by itself. Raises RecordError when it does not sign.
    """
    if not key.is_file():
        raise RecordError(f"there is no key {key}: 'ssh-keygen -t ed25519' makes one")
    return _ssh_keygen(f"{key} does not sign", content, "-Y", "sign", "-q", "-n", PURPOSE, "-f", str(key))


def signer_of(content: bytes, signature: bytes, signers: Path) -> str:
    """Return the name of the signer of some bytes, from a file of allowed signers (ssh-keygen(1)).

    Raises RecordError unless an allowed signer signed exactly these bytes.
    """
    if not signers.is_file():
        raise RecordError(f"there is no file {signers}: a line of it is a name and a public key")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "signature"
        file.write_bytes(signature)
        common = ("-s", str(file), "-f", str(signers))
        found = _ssh_keygen(f"the signature is of nobody in {signers}", b"", "-Y", "find-principals", *common)
        name = found.decode(errors="replace").splitlines()[0]
        refused = f"the signature is of {name}, but not of these files"
        _ssh_keygen(refused, content, "-Y", "verify", "-n", PURPOSE, "-I", name, *common)
    return name


def _ssh_keygen(refused: str, content: bytes, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["ssh-keygen", *arguments], input=content, capture_output=True)
    except FileNotFoundError as error:
        raise RecordError("signatures need ssh-keygen: install OpenSSH") from error
    if done.returncode or not done.stdout:
        lines = (done.stderr or done.stdout).decode(errors="replace").split("\n")
        said = next((line.strip() for line in lines if line.strip()), "it says nothing")
        raise RecordError(f"{refused} (ssh-keygen: {said})")
    return done.stdout
