"""Public archives: they state a licence, and show of a site only what is needed to check and compare its results.

Their files are those of FILE. In these, a text stays if its key is known to hold nothing of a site. Any other text
becomes a neutral one before the archive is signed, equal texts alike, so that all energies can still be computed again.
An archive is public if this changes nothing in it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from jpwr.process.device_ids import PCI_ADDRESS, same_ids
from record.demand import ROLES
from results.collect import RECORD_NAME, SCHEDULERS
from results.find.folders import RESULT_NAME, WORKPACKAGES, as_plan
from results.join.copies import FAILED
from results.join.serving import MOST_BYTES, REQUESTS_NAME
from results.points.facts import DRIVER, OF_A_DEVICE, SOFTWARE

ABOUT = "about.yaml"
Licence = Literal["CC-BY-4.0", "CC0-1.0"]  # SPDX identifiers of licences by which anybody may hand data on
DATA = "|".join(map(re.escape, (RESULT_NAME, RECORD_NAME, REQUESTS_NAME, WORKPACKAGES, FAILED)))


def _files(folder: str) -> re.Pattern[str]:
    """Return the pattern of data of runs in folders of some names: logs, scripts and profiles of reads show a site."""
    return re.compile(rf"runs(?:/{folder})+/(?:{DATA}|power/{folder}/trace\.csv)", re.ASCII)


FILE, IN_ANY_FOLDER = _files(r"[A-Za-z0-9][\w.+-]*"), _files("[^/]+")
FOLDER = re.compile(
    r"runs|\d+|\d+_benchmark|work|attempts|copies|(?:run|copy)_\d+|power|"
    r"(?:cosmoflow|deepcam|fno|inference|llm|node_check|resnet50)_run"
)
LEFT_OUT = {"command", "io", "topology"}  # of records and traces
OF_A_JOB = {"image_digest", "state", "exit_code", "consumed_energy_j", "consumed_energy_wh"}  # by a scheduler
# Variables of the environment that may change the speed.
VARIABLES = {
    *("CARAML_COPIES", "CARAML_COPY", "CUDA_DEVICE_MAX_CONNECTIONS", "GLOO_SOCKET_IFNAME", "GOMP_SPINCOUNT"),
    *("NCCL_ALGO", "NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_NET_GDR_LEVEL", "NCCL_PROTO", "NCCL_SOCKET_IFNAME"),
    *("NVIDIA_TF32_OVERRIDE", "NVTE_FUSED_ATTN", "OMP_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF", "SLURM_CPUS_PER_TASK"),
    *("SLURM_NNODES", "TF_ENABLE_ONEDNN_OPTS", "TF_XLA_FLAGS", "XLA_FLAGS"),
}
# Options whose texts are choices of the suite.
OPTIONS = {
    *("acceptance_of", "attention", "compile", "cuda_graph", "data", "device", "endpoint", "fp8", "fp8_recipe"),
    *("layers", "layout", "model", "optimizer", "overlap", "precision", "recipe", "recompute", "sequence_parallel"),
    *("server", "size", "slo", "system", "variant", "xla"),
}
# Keys of texts that are the suite's own, or name a product.
KEPT = {
    *("benchmark", "system", "model", "work_unit", "status", "run_id", "precision", "data", "sample", "variant"),
    *("kind", "boot_id", "cpus", "name", "scope", "unit", "value", "method", "methods", "clock", "from"),
    *("power_kind", "power_scope", "power_source", "accuracy_from", "jpwr_version", "source", "limits_set_by"),
    *("model_flops_source", "slo", "server", "version", "answer", "new"),
    *("created", "git_commit", "exclusive", "architecture", "cpu", "kernel", "missing", "memory_kib"),
    *("event", "channel", "region", "throttle_reasons", "pcie_width", "pcie_speed", "numa_node", "compute_mode"),
    *("text_sha256", "files_sha256", "packing", "persistence_mode", "power.default_limit", "power.max_limit"),
    *(key for name in (*OF_A_DEVICE, *DRIVER) for key in (name, name.rpartition(".")[2])),
    *(OF_A_JOB | {*SOFTWARE} - {"container"}),
}
OBJECTS = {"packages", "numa_cpus"}  # keys of objects with such texts
SENTENCES = {"notes", "counter_not_used", "lacks", "values"}  # of the suite, with names of nodes
OF_A_SITE = re.compile(r"(?<![\w./:])(?:/|~\w*/)[^\s,;]+|\S+@\S+")  # in such texts: a path, or an address
SIMPLE = re.compile(r"[\w.,:=+ -]*")  # value of a variable: no path
HOST = re.compile(r"node\d+|localhost|")  # hosts that may keep their names
NEUTRAL = re.compile(r"text\d+|not public|")
NEUTRAL_ID = re.compile(r"(?:GPU|MIG)-00000000(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
COMMENT = re.compile(r"^(# [\w-]+ )(.*)$", re.MULTILINE)  # of a trace


@dataclass(frozen=True)
class About:
    """Statement about an archive, in its file about.yaml."""

    licence: Licence


class Neutral:
    """Neutral texts in place of those in some files, by their names in an archive."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.shown: list[str] = []  # texts that were replaced
        self._hosts, self._texts = set[str](), set[str]()
        self._names: dict[str, str] = {}
        for name, path in files.items():  # notes all hosts and texts
            self.name(name)
            self.content(path)
        is_neutral = all(map(HOST.fullmatch, self._hosts))
        # Files are read in the order of their hosts' names, which stays.
        hosts = {host: host for host in self._hosts} if is_neutral else _numbered("node", self._hosts)
        self._names = _numbered("text", self._texts) | hosts

    def name(self, name: str) -> str:
        """Return a file's name with neutral folders."""
        *folders, last = PurePosixPath(name).parts
        found = [
            self._host(folder) if above == "power" else folder if FOLDER.fullmatch(folder) else self._text(folder)
            for above, folder in zip(["", *folders], folders, strict=False)
        ]
        return str(PurePosixPath(*found, last))

    def content(self, path: Path) -> bytes:
        """Return a file with neutral texts; the same bytes if it has no others."""
        text = _text_of(path)
        if path.name == WORKPACKAGES:
            other = as_plan(text)
        elif path.suffix == ".csv":
            other = COMMENT.sub(lambda line: f"{line[1]}{self._json(line[2])}", text)
        elif path.suffix == ".gz":
            other = "".join(f"{self._json(line)}\n" for line in text.splitlines())
        else:
            other = self._json(text, indent=1)
        if other == text:
            return path.read_bytes()
        return gzip.compress(os.fsencode(other), mtime=0) if path.suffix == ".gz" else os.fsencode(other)

    def _json(self, text: str, indent: int | None = None) -> str:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return ""  # nobody knows what a damaged line shows
        other = self.of(value)
        return text if other == value else json.dumps(other, indent=indent, sort_keys=indent is not None)

    def of(self, value: Any, key: str = "") -> Any:
        """Return a value of a record or trace with neutral texts."""
        if isinstance(value, dict):
            return self._object(value, key)
        if isinstance(value, list):
            return [self.of(item, key) for item in value]
        if not isinstance(value, str):
            return value
        other = self._replaced(value, key)
        self.shown += [value] * (other != value)
        return other

    def _object(self, value: dict[str, Any], key: str) -> dict[str, Any]:
        if key == "environment":
            known = {name: text for name, text in value.items() if name in VARIABLES}
            return {name: text if SIMPLE.fullmatch(text) else self.of(text) for name, text in known.items()}
        if key == "config":
            return {group: self._options(options) for group, options in value.items()}
        if key in OBJECTS:
            return {name: self.of(item, "name") for name, item in value.items()}
        left_out = value.keys() - OF_A_JOB if key in SCHEDULERS else LEFT_OUT
        kept = {name: item for name, item in value.items() if name not in left_out}
        # Answers are tokens, which are compared.
        return {name: item if name == "answers" else self.of(item, name) for name, item in kept.items()}

    def _options(self, options: Any) -> Any:
        if not isinstance(options, dict):
            return self.of(options)
        return {
            name: value if name in OPTIONS else self.of(value, name if name == "hosts" else "")
            for name, value in options.items()
        }

    def _replaced(self, text: str, key: str) -> str:
        if key == "hosts":
            return re.sub(r"[^\s:;]+", lambda word: word[0] if word[0] in ROLES else self._host(word[0]), text)
        if key in ("hostname", "elsewhere"):
            return self._host(text)
        if key in ("device_id", "uuid"):
            return " ".join(map(self._device, text.split(" ")))
        if key == "error":
            return text and "not public"
        if key in KEPT:
            return OF_A_SITE.sub("text0", text)
        return self._sentence(text) if key in SENTENCES else self._text(text)

    def _host(self, text: str) -> str:
        """Return another name of a host; `collect` adds a number to nodes of one name."""
        host, sign, number = text.partition("#")
        if host not in ("", "localhost"):
            self._hosts.add(host)
        return f"{self._names.get(host, host)}{sign}{number}"

    def _device(self, text: str) -> str:
        """Return the hash of an id: two runs on one device are still seen to be that."""
        known = same_ids(text)
        if not known or PCI_ADDRESS.fullmatch(text.lower()) or NEUTRAL_ID.fullmatch(text):
            return text
        if not known[0].startswith(("GPU-", "MIG-")):
            return self._text(text)
        digits = hashlib.sha256(known[0].encode()).hexdigest()
        return f"{known[0][:3]}-00000000-{digits[:4]}-{digits[4:8]}-{digits[8:12]}-{digits[12:24]}"

    def _sentence(self, text: str) -> str:
        longest_first = "|".join(sorted(map(re.escape, self._names.keys() & self._hosts), key=len, reverse=True))
        if longest_first:
            text = re.sub(rf"(?<![\w-])({longest_first})(?!\w)", lambda found: self._names[found[0]], text)
        return OF_A_SITE.sub("text0", text)

    def _text(self, text: str) -> str:
        if NEUTRAL.fullmatch(text):
            return text
        self._texts.add(text)
        return self._names.get(text, text)


def published(files: Mapping[str, Path]) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the files of a public archive."""
    chosen = {name: path for name, path in sorted(files.items()) if IN_ANY_FOLDER.fullmatch(name)}
    neutral = Neutral(chosen)
    yield from ((neutral.name(name), neutral.content(path)) for name, path in chosen.items())


def names_left(files: Mapping[str, Path]) -> Iterator[str]:
    """Yield a sentence for each file of an archive that shows more of a site than a public one."""
    neutral = Neutral(files)
    for name, path in files.items():
        neutral.shown.clear()
        if (neutral.content(path), neutral.name(name)) != (path.read_bytes(), name):
            texts = ", ".join(dict.fromkeys(neutral.shown)) or "more than its results need"
            yield f"{name} shows {texts}: 'caraml archive --licence' replaces it"


def _numbered(word: str, texts: Collection[str]) -> dict[str, str]:
    return {text: f"{word}{number:0{len(str(len(texts)))}}" for number, text in enumerate(sorted(texts), 1)}


def _text_of(path: Path) -> str:
    """Return a file as text, unpacked if it is packed; without text if it is damaged."""
    if path.suffix != ".gz":
        return os.fsdecode(path.read_bytes())
    try:
        with gzip.open(path) as file:
            return os.fsdecode(file.read(MOST_BYTES))
    except (OSError, EOFError, zlib.error):
        return ""
