"""Options, metrics and request fields that our client needs, compared with those of a server's release."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.llm_inference import address
from benchmarks.llm_inference.answers import Questions
from benchmarks.llm_inference.client import Server
from benchmarks.llm_inference.perplexity import TOKENIZE, asked_text
from benchmarks.llm_inference.prompts import Bodies, template_tokens
from benchmarks.llm_inference.run import parse
from benchmarks.llm_inference.servers import SERVERS, Draft, Start
from tests.contracts.packages import Sources

PATHS = {address.COMPLETIONS: "completions", address.CHAT: "chat", TOKENIZE: "tokenize"}
START = Start(Path("/m"), Path("/f"), 8000, 4, 2048, 8, 2, "bfloat16")
OTHER = {"is_random": True, "is_fp8": True, "keeps_prefixes": True, "draft": Draft(Path("/d"), 3, 2.49)}
STARTS = [START, *(START._replace(**{name: value}) for name, value in OTHER.items())]
KINDS = re.compile("counter|gauge|histogram", re.IGNORECASE)


class Contract(NamedTuple):
    """Names that a server has, or that we ask of it, and when its counters move: with a step, or with a request."""

    flags: set[str]
    settings: set[str]
    fields: dict[str, set[str]]
    metrics: dict[str, str]
    variables: set[str]


def asked_of(name: str) -> Contract:
    """Return what we ask of a server; the value of a metric is when we take it to move, empty for either."""
    program = SERVERS[name]
    starts = [start for start in STARTS if program.quantises or not start.is_fp8]
    commands = [word for start in starts for word in program.command(start)]
    variables = {variable for start in starts for variable in program.environment(start)}
    settings = {word for word in commands if word.startswith("{")} | set(filter(None, map(program.settings, starts)))
    metrics = dict.fromkeys(filter(None, (program.steps, program.proposed, program.accepted)), "")
    if program.counter:
        metrics[program.counter] = "request" if program.counts_requests else "step"
    modules = [f"-m {after}" for word, after in pairwise(commands) if word == "-m" and not after.startswith("bench")]
    return Contract(
        {*(word for word in commands if word.startswith("--")), *modules},
        {word for text in settings for word in re.findall(r'"(\w+)": ', text)},
        _fields(name),
        metrics,
        {variable for variable in variables if not variable.startswith("HF_")},
    )


class _Recorder(address.Address):
    """An address whose requests are kept; it answers each with one token."""

    asked: list[tuple[str, dict[str, Any]]] = []  # noqa: RUF012 - of all instances

    def ask(self, path: str, body: dict[str, Any] | None = None, limit_s: float = 0.0) -> tuple[int, str]:
        self.asked.append((path, body or {}))
        letters = len(json.dumps(body)) - json.dumps(body).count(" ")
        logprobs = {"tokens": ["1"], "token_logprobs": [-1.0], "top_logprobs": [{"1": -1.0, "2": -2.0}]}
        choice = {"text": "a", "logprobs": logprobs, "message": {"content": "a"}}
        return 200, json.dumps({"tokens": [1, 2], "choices": [choice], "usage": {"prompt_tokens": letters}})


def _fields(name: str) -> dict[str, set[str]]:
    """Return the fields of all requests that our client sends, by the kind of request."""
    program, recorder = SERVERS[name], _Recorder("127.0.0.1", 1)
    recorder.asked.clear()
    config = parse(["--server", name, "--device", "cpu" if name == "xllamacpp" else "gpu"])
    for template in (None, 4):
        extra = {**program.request, **program.request_of_turns}
        path = address.COMPLETIONS if template is None else address.CHAT
        recorder.asked.append((path, json.loads(Bodies("m", 32000, extra, "s", template).body(0, 32, 8))))
        server = Server(recorder, (2, ""), "m", 32000, program.request, program.keep_alive, template)
        Questions(server, config, 1.0, lambda: None).ask_idle()
    asked_text(Server(recorder, (2, ""), "m", 32000, {}, program.keep_alive), program, None)
    with suppress(address.LoadError):
        template_tokens(recorder, "m", 1, 1.0)
    found: dict[str, set[str]] = {}
    for path, body in recorder.asked:
        found.setdefault(PATHS[path], set()).update(body)
        found.setdefault("stream_options", set()).update(body.get("stream_options", ()))
    return found


def offered_by(sources: Sources, facts: Mapping[str, Any], asked: Contract) -> Contract:
    """Return what the sources of a server have; of metrics and variables, only what is asked is looked up."""
    flags = {f"--{field.replace('_', '-')}" for one in facts["arguments"] for field in sources.fields(one)}
    for pattern in facts["flags"]:
        for file in sources.folder.glob(pattern):
            words = {node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)}
            flags |= {word for word in words if isinstance(word, str) and re.fullmatch(r"--[\w-]+", word)}
    flags |= {flag.replace("--", "--no-", 1) for flag in flags}  # argparse's BooleanOptionalAction
    for module in (flag.removeprefix("-m ") for flag in asked.flags if flag.startswith("-m ")):
        file = sources.folder / f"{module.replace('.', '/')}.py"
        if file.is_file() and "DeprecationWarning" not in file.read_text():
            flags.add(f"-m {module}")
    moves = {metric: _moves(sources, metric, facts["moves"]) for metric in asked.metrics}
    return Contract(
        flags,
        {field for one in facts["settings"] for field in sources.fields(one)},
        {kind: {field for one in names for field in sources.fields(one)} for kind, names in facts["fields"].items()},
        {metric: when for metric, when in moves.items() if when},
        {variable for variable in asked.variables if sources.files(variable)},
    )


def _moves(sources: Sources, metric: str, moves: Mapping[str, str]) -> str:
    """Return when a counter moves, or what it is in place of a counter; empty if there is none."""
    names = {metric, metric.removesuffix("_total")}  # the client for Prometheus adds the end to a counter's name
    stem = re.compile(rf"\b(?:counter_)?{metric.rpartition(':')[2].removesuffix('_total')}(?:_total)?\b")
    found: set[str] = set()
    for file in {file for name in names for file in sources.files(f'"{name}"')}:
        tree = ast.parse(file.read_text())
        functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        for function in functions:
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
            made = [call for call in calls if KINDS.search(ast.unparse(call.func)) and _names(call) & names]
            if not made and _constants(function) & names:  # its name is a variable's
                made = [call for call in calls if KINDS.search(ast.unparse(call.func)) and _names(call) == {""}]
            found |= {match[0].lower() for call in made if (match := KINDS.search(ast.unparse(call.func)))}
            for call in calls:
                word = ast.unparse(call.func)
                what = word if word.endswith(".inc") else ast.unparse(call.args[0]) if "log_counter" in word else ""
                if stem.search(what):
                    found.add(moves.get(function.name, f"in {function.name}"))
    return " and ".join(sorted(found - {"counter"})) if "counter" in found else ", ".join(found)


def _names(call: ast.Call) -> set[str]:
    """Return the name that a call gives a metric; an empty one for a variable."""
    words = [word.value for word in call.keywords if word.arg == "name"] or call.args[:1]
    return {str(word.value) if isinstance(word, ast.Constant) else "" for word in words}


def _constants(node: ast.AST) -> set[str]:
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def lacking(asked: Contract, offered: Contract) -> set[str]:
    """Return what a server lacks of what we ask."""
    found = asked.flags - offered.flags
    found |= {f"the setting {word}" for word in asked.settings - offered.settings}
    found |= {f"the variable {word}" for word in asked.variables - offered.variables}
    for kind, words in asked.fields.items():
        found |= {f"the field {kind}.{word}" for word in words - offered.fields.get(kind, set())}
    for metric, when in asked.metrics.items():
        seen = offered.metrics.get(metric, "")
        if not seen or when not in ("", seen):
            found.add(f"the counter {metric}" + (f", which moves with a {seen}" if seen else ""))
    return found
