"""Public archives: they state a licence, and show no names of hosts and persons.

Names are replaced before the archive is signed, in all files alike, so that its numbers can still be computed again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from results.collect import RECORD_NAME, SCHEDULERS
from results.errors import RecordError
from results.record.folders import RESULT_NAME
from results.record.restated import hash_of

ABOUT = "about.yaml"
Licence = Literal["CC-BY-4.0", "CC0-1.0"]  # SPDX identifiers of licences by which anybody may hand data on
NAMING = {*SCHEDULERS, "hostname", "elsewhere", "hosts", "url", "command", "environment", "path"}  # have names in texts
HOST = r'("(?:hostname|elsewhere)": ")'  # of a record or the header of a trace
HOME = re.compile(r"(/home/|/Users/)(?!user\b)([\w.+-]+)")
NUMBER = re.compile(r"\d+(\.\d+)?(e\d+)?", re.IGNORECASE)  # in JSON
# Signs of a host or person in any text, and their replacement. RFC 2606 reserves the domain example.org.
SIGNS = (
    (re.compile(HOST + r'(?!node\d+["#]|localhost["#])[^"#]+'), r"\1node0"),
    (HOME, r"\1user"),
    (re.compile(r"[\w.+-]+@(?!example\.org\b)[\w-]+(\.[\w-]+)*\.[A-Za-z]{2,}"), "user@example.org"),
    (re.compile(r"(--account[= ]|SBATCH_ACCOUNT=)(?!account\b)[\w.-]+"), r"\1account"),
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
        text = os.fsdecode(path.read_bytes())
        hosts |= {host for _, host in re.findall(HOST + r'([^"#]+)', text)}
        if path.name in (RECORD_NAME, RESULT_NAME, "job.sh"):
            users |= {user for _, user in HOME.findall(text)}
        if path.name in (RECORD_NAME, RESULT_NAME):
            records.append(json.loads(text))
    # Files are read in the order of their hosts' names, which stays.
    names = {host: f"node{number:0{len(str(len(hosts)))}}" for number, host in enumerate(sorted(hosts), 1)}
    names |= {label: names[host] for host in hosts if not (label := host.partition(".")[0]).isdigit()}
    names |= dict.fromkeys(users, "user")
    for nobody in ("localhost", "", "root"):
        names.pop(nobody, None)
    words = {text for record in records for key, text in _texts(record) if key not in NAMING}
    for name in sorted(name for name in names if name in words or NUMBER.fullmatch(name)):
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


def names_left(name: str, path: Path) -> Iterator[str]:
    """Yield a sentence if a file, or its name in an archive, shows a host or a person."""
    text = f"{name}\n{os.fsdecode(path.read_bytes())}"
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
