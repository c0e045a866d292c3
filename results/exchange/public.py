"""Public archives: they state a licence, and show no names of hosts and persons.

Names are replaced before the archive is signed, in all files alike, so that its numbers can still be computed again.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from results.collect import RECORD_NAME, SCHEDULERS
from results.errors import RecordError
from results.files.systems import read_systems
from results.join.serving import MOST_BYTES
from results.record.folders import RESULT_NAME
from results.record.restated import hash_of

ABOUT = "about.yaml"
PACKED = ".gz"
Licence = Literal["CC-BY-4.0", "CC0-1.0"]  # SPDX identifiers of licences by which anybody may hand data on
NAMING = {*SCHEDULERS, "hostname", "elsewhere", "hosts", "url", "command", "environment", "path"}  # have names in texts
OF_NODES = ("power", "io")  # folders with one for each node
NEUTRAL = re.compile(r"node\d+")  # names of hosts that may stay
HOST = r'("(?:hostname|elsewhere)": ")'  # of a record or the header of a trace
# Also C:\\Users\\jane of Windows, /home/users/jane, and /p/home/jusers/jane of JSC.
HOME = re.compile(r"((?:[/\\]+(?:home|j?users))+[/\\]+)(?!(?:j?users?)\b)([\w.+-]+)", re.IGNORECASE)
NUMBER = re.compile(r"\d+(\.\d+)?(e\d+)?", re.IGNORECASE)  # in JSON
IN_A_URL = r"(?<![\d.])(?!127\.|0\.|192\.0\.2\.)\d{1,3}(\.\d{1,3}){3}(?=:\d|<\d)"  # or by NCCL; others can be versions
# Signs of a host or person in any text, and their replacement, by names that RFC 2606 and RFC 5737 reserve.
SIGNS = (
    (re.compile(HOST + rf'(?!{NEUTRAL.pattern}["#]|localhost["#])[^"#]+'), r"\1node0"),
    (HOME, r"\1user"),
    (re.compile(r"[\w.+-]+@(?!example\.org\b)[\w-]+(\.[\w-]+)*\.[A-Za-z]{2,}"), "user@example.org"),
    (re.compile(IN_A_URL), "192.0.2.1"),
    (re.compile(r"(--account[= ]|#SBATCH -A ?|_ACCOUNT=)(?!account\b)[\w.-]+"), r"\1account"),
    (re.compile(r"(--mail-user[= ]|\b(?:USER|LOGNAME|SLURM_JOB_USER)=)(?!user\b)[\w.+-]+"), r"\1user"),
)


@dataclass(frozen=True)
class About:
    """Statements about an archive, in its file about.yaml."""

    licence: Licence
    keep_names: bool = False


def names_of(paths: Iterable[Path]) -> dict[str, str]:
    """Return the names of hosts and users in files of runs, each with its replacement.

    Raises RecordError for a name that is also another word of a record, which would then be replaced, too.
    """
    hosts, records = set[str](), []
    users = {os.environ.get(name, "") for name in ("USER", "LOGNAME")}
    for path in paths:
        text = _text_of(path)
        hosts |= {host for _, host in re.findall(HOST + r'([^"#]+)', text)}
        if path.parent.parent.name in OF_NODES:
            hosts.add(path.parent.name)
        if path.name in (RECORD_NAME, RESULT_NAME, "job.sh"):
            users |= {user for _, user in HOME.findall(text)}
        if path.name in (RECORD_NAME, RESULT_NAME):
            records.append(json.loads(text))
    # Files are read in the order of their hosts' names, which stays.
    labels = {host: host if (label := host.partition(".")[0]).isdigit() else label for host in hosts}
    every = sorted({*labels.values()})
    names = {label: f"node{number:0{len(str(len(every)))}}" for number, label in enumerate(every, 1)}
    if all(map(NEUTRAL.fullmatch, every)):  # NUMA nodes have such names, too
        names = {label: label for label in every}
    suffixes = {system.host_suffix for system in read_systems().values()} - {""}
    names |= {f"{label}{suffix}": f"{names[label]}{suffix}" for label in every for suffix in suffixes}
    names |= {host: names[label] for host, label in labels.items()}
    names |= dict.fromkeys(users, "user")
    for nobody in ("localhost", "", "root"):
        names.pop(nobody, None)
    words = {text for record in records for key, text in _texts(record) if key not in NAMING}
    for name in sorted(
        name for name, other in names.items() if other != name and (name in words or NUMBER.fullmatch(name))
    ):
        raise RecordError(
            f"the name '{name}' of a host or user was to be replaced, but it is also another word or a number of "
            "records: keep all names with --keep-names"
        )
    for record in records:
        config, digest = record.get("config") or {}, (record.get("provenance") or {}).get("config_hash")
        if digest == hash_of(config):
            names[digest] = hash_of(json.loads(hide(json.dumps(config), names)))
    return names


def hide(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other names, and without any other sign of a host or person."""
    if names:
        longest_first = sorted(map(re.escape, names), key=len, reverse=True)
        text = re.sub(rf"(?<![\w-])({'|'.join(longest_first)})(?!\w)", lambda found: names[found[0]], text)
    for pattern, other in SIGNS:
        text = pattern.sub(other, text)
    return text


def hidden(path: Path, names: Mapping[str, str]) -> bytes:
    """Return the content of a file with other names, packed again if it was packed."""
    text = _text_of(path)
    if (other := hide(text, names)) == text:
        return path.read_bytes()
    return gzip.compress(os.fsencode(other), mtime=0) if path.suffix == PACKED else os.fsencode(other)


def _text_of(path: Path) -> str:
    """Return a file as text, unpacked if it is packed; without text if it is damaged."""
    if path.suffix != PACKED:
        return os.fsdecode(path.read_bytes())
    try:
        with gzip.open(path) as file:
            return os.fsdecode(file.read(MOST_BYTES))
    except (OSError, EOFError, zlib.error):
        return ""


def names_left(name: str, path: Path) -> Iterator[str]:
    """Yield a sentence if a file, or its name in an archive, shows a host or a person."""
    text = f"{name}\n{_text_of(path)}"
    if found := [match[0] for pattern, _ in SIGNS if (match := pattern.search(text))]:
        yield f"{name} shows {', '.join(found)}: 'caraml archive --licence' replaces it, or keeps it by --keep-names"


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text of a record with its key; a key itself has none."""
    if isinstance(value, dict):
        for name, one in value.items():
            inner = key if key in NAMING else name
            if inner not in NAMING:
                yield "", name
            yield from _texts(one, inner)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, key)
    elif isinstance(value, str):
        yield key, value
