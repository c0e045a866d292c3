"""Read what the vendors' tools report of this node's devices: one reader for each tool.

A tool prints what it has even if it exits with an error, as nvidia-smi does with 14 for a corrupted infoROM, and some
print warnings before or after it. A reader returns what was reported, and what is missing, in words.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.common.node.programs import ProgramError, ask, words

LIMIT_S = 30  # of one tool; a driver that wakes many devices takes seconds
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # nvidia-smi underlines even in a pipe
REFUSED_FIELD = re.compile(r'Field "(.+)" is not a valid field to query')


class ToolError(Exception):
    """A tool reports no device; the message is one sentence."""


class Reported(NamedTuple):
    """Facts that a tool reports, and what it could not report, in words."""

    facts: Any
    missing: tuple[str, ...] = ()


def nvidia_smi(*fields: str) -> Reported:
    """Return the fields of each device, with nvidia-smi's own units in the values, and [N/A] for a missing value.

    It refuses a query with a field that it does not know: this one is left out. Raises ToolError without any device.
    """
    asked, missing = list(fields), []
    while True:
        done = run("nvidia-smi", f"--query-gpu={','.join(asked)}", "--format=csv,noheader")
        refused = REFUSED_FIELD.search(done.stdout + done.stderr)
        if not refused or refused[1] not in asked or len(asked) == 1:
            break
        asked.remove(refused[1])
        missing.append(f"nvidia-smi knows no {refused[1]}")
    rows = list(csv.reader(done.stdout.splitlines(), skipinitialspace=True))
    found = [dict(zip(asked, row, strict=True)) for row in rows if len(row) == len(asked)]
    if not found:
        raise ToolError(f"nvidia-smi shows no device: {words(done)}")
    remarks = [", ".join(row) for row in rows if row and len(row) != len(asked)]
    return Reported(found, (*missing, *_failure(done, remarks)))


def nvidia_topology() -> str | None:
    """Return the links between NVIDIA's devices, as nvidia-smi draws them; None if they are unavailable."""
    try:
        drawn = run("nvidia-smi", "topo", "-m").stdout.strip()
    except ToolError:
        return None
    return drawn if re.search(r"\bGPU\d", drawn) else None


def amd_smi(*parts: str) -> Reported:
    """Return the facts of `amd-smi static` on each device; of some `parts`, such as --asic, or of all."""
    found, missing = _json("amd-smi", "static", *parts, "--json")
    devices = found.get("gpu_data", []) if isinstance(found, dict) else found  # by release
    if not devices:
        raise ToolError("amd-smi shows no device: is the amdgpu driver loaded?")
    return Reported(devices, missing)


def rocm_smi(*questions: Sequence[str]) -> Reported:
    """Return the facts of rocm-smi on each device, which answer the questions."""
    cards: dict[str, dict[str, Any]] = {}
    missing: tuple[str, ...] = ()
    for question in questions:  # some releases answer several with the last one's table alone
        found, failure = _json("rocm-smi", *question, "--json")
        missing += tuple(why for why in failure if why not in missing)
        for card, facts in found.items():
            if card.startswith("card"):
                cards[card] = cards.get(card, {}) | facts
    if not cards:
        raise ToolError("rocm-smi shows no device: is the amdgpu driver loaded?")
    return Reported(list(cards.values()), missing)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Return a completed program with its output, whatever its exit code; raises ToolError if it does not answer."""
    try:
        done = ask(*command, limit_s=LIMIT_S)
    except ProgramError as error:
        raise ToolError(str(error)) from error
    done.stdout = COLOURS.sub("", done.stdout)
    return done


def _json(*command: str) -> Reported:
    """Return the JSON object or list in a tool's output, between lines of warnings."""
    done, decoder = run(*command), json.JSONDecoder()
    for start in re.finditer(r"^[{\[]", done.stdout, re.MULTILINE):
        try:
            found, length = decoder.raw_decode(done.stdout[start.start() :])
        except ValueError:  # a warning in brackets
            continue
        return Reported(found, _failure(done, [done.stdout[start.start() + length :].strip()]))
    raise ToolError(f"{command[0]} shows no device: {words(done)}")


def _failure(done: subprocess.CompletedProcess[str], remarks: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence on a tool that exits with an error after it has printed its devices; none otherwise."""
    why = "; ".join(text for text in (*remarks, done.stderr.strip()) if text)
    return (f"{done.args[0]} exited with {done.returncode}: {why or 'it gave no reason'}",) if done.returncode else ()
