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

from jpwr.errors import JpwrError
from jpwr.trace.writers import open_trace
from results.collect import RECORD_NAME, SCHEDULERS
from results.errors import RecordError
from results.files.typed_files import read_file
from results.record.folders import RESULT_NAME
from results.record.records import read_record
from results.record.restated import hash_of

ABOUT = "about.yaml"
Licence = Literal["CC-BY-4.0", "CC0-1.0"]  # SPDX identifiers of licences by which anybody may hand data on
HOSTS = ("hostname", "elsewhere")  # keys of records, with the name of a host
NAMING = {*HOSTS, *SCHEDULERS, "hosts", "url", "command", "environment", "path"}  # keys whose texts may contain names
NODE = re.compile(r"node\d+|localhost")
NUMBER = re.compile(r"\d+(\.\d+)?(e\d+)?", re.IGNORECASE)  # in JSON
NOBODY = {"", "root", "user"}
# Signs of a person in any text, and their replacement. RFC 2606 reserves the domain example.org.
HOME = re.compile(r"(/home/|/Users/)(?!user\b)([\w.+-]+)")
PERSONAL = (
    (HOME, r"\1user"),
    (re.compile(r"[\w.+-]+@(?!example\.org\b)[\w-]+(\.[\w-]+)*\.[A-Za-z]{2,}"), "user@example.org"),
    (re.compile(r"(--account[= ]|SBATCH_ACCOUNT=)(?!account\b)([\w.-]+)"), r"\1account"),
)


@dataclass(frozen=True)
class About:
    """Statements about an archive, in its file about.yaml."""

    licence: Licence
    keep_names: bool = False

    @property
    def text(self) -> str:
        """Content of the file."""
        return f"licence: {self.licence}\nkeep_names: {str(self.keep_names).lower()}\n"


def read_about(folder: Path) -> About:
    """Return what an unpacked archive states; raises RecordError without a licence that lets others hand it on."""
    if not (folder / ABOUT).is_file():
        raise RecordError("it states no licence: make it with 'caraml archive --licence CC-BY-4.0'")
    try:
        about: About = read_file(About, folder / ABOUT, "statements about an archive")
    except RecordError as error:
        raise RecordError(str(error).replace(f"{folder}/", "")) from error
    return about


def names_of(paths: Iterable[Path]) -> dict[str, str]:
    """Return the names of hosts and users in files of runs, each with its replacement.

    Raises RecordError for a name that is also another word of a record, which would then be replaced, too.
    """
    paths = list(paths)
    hosts = sorted({host for path in paths for host in _hosts(path)} - {"localhost"})
    names = {host: f"node{number:0{len(str(len(hosts)))}}" for number, host in enumerate(hosts, 1)}  # in the same order
    for host in hosts:
        label = host.partition(".")[0]
        names |= {} if label.isdigit() else {label: names[host]}  # an address of the Internet has no short form
    records = [read_record(path) for path in paths if path.name in (RECORD_NAME, RESULT_NAME)]
    scripts = [path.read_text(errors="replace") for path in paths if path.name == "job.sh"]
    users = {found[1] for text in (*map(json.dumps, records), *scripts) for found in HOME.findall(text)}
    users |= {os.environ.get(name, "") for name in ("USER", "LOGNAME")}
    names |= dict.fromkeys(users - NOBODY, "user")
    words = {text for record in records for key, text in _texts(record) if key not in NAMING}
    for name in sorted(name for name in names if name in words or NUMBER.fullmatch(name)):
        raise RecordError(
            f"the name '{name}' of a host or user was to be replaced, but it is also another word or a number of "
            "records: keep all names with --keep-names"
        )
    for record in records:  # the hash of options with a name
        config, digest = record.get("config") or {}, (record.get("provenance") or {}).get("config_hash")
        if digest == hash_of(config):
            names[digest] = hash_of(json.loads(hide(json.dumps(config), names)))
    return names


def hide(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other names, and without any other sign of a person."""
    if names:
        longest_first = sorted(map(re.escape, names), key=len, reverse=True)
        text = re.sub(rf"(?<![\w-])({'|'.join(longest_first)})(?!\w)", lambda found: names[found[0]], text)
    for pattern, other in PERSONAL:
        text = pattern.sub(other, text)
    return text


def names_left(paths: Mapping[str, Path]) -> Iterator[str]:
    """Yield a sentence for each file that shows a host or a person; paths: files of an archive by their names in it."""
    for name, path in paths.items():
        text = f"{name}\n{path.read_bytes().decode(errors='replace')}"
        found = [host for host in sorted(_hosts(path)) if not NODE.fullmatch(host)]
        found += [match[0] for pattern, _ in PERSONAL if (match := pattern.search(text))]
        if found:
            yield (
                f"{name} shows {', '.join(map(repr, found))}: 'caraml archive --licence' replaces names of hosts and "
                "persons, or keeps them on purpose with --keep-names"
            )


def _hosts(path: Path) -> set[str]:
    """Return the hosts that a file of a run names: a record, or the header of a trace."""
    found: set[str] = set()
    if path.name == "trace.csv":
        try:
            with open_trace(path) as reader:
                found.add(str(reader.meta.get("hostname") or ""))
        except JpwrError:  # the trace of a failed run may be damaged
            found.add(path.parent.name)
    elif path.name in (RECORD_NAME, RESULT_NAME):
        found.update(text.partition("#")[0] for key, text in _texts(read_record(path)) if key in HOSTS)
    return found - {""}


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
