"""Exit codes of the command as a process: on any terminal, next to any folders, after Ctrl-C and internal errors."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys

import pytest

from caraml import __main__
from caraml.installation import checkout
from results.tests import builder
from tests.waiting import PATIENCE_S

REQUIREMENTS = """
workloads: {gpt: {benchmark: llm_training, model: tiny}}
must:
  - {of: gpt, what: failed_runs, at_most: 0}
"""
# ASCII, and one that lacks a plus-minus sign, with Python's UTF-8 mode off: C.UTF-8 and the mode would hide what fails.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}
CYRILLIC = {"PYTHONIOENCODING": "koi8-r"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A sweep of one good point that is not finished, and requirements that it meets."""
    folder = tmp_path_factory.mktemp("sweep")
    run = folder / "llm_run" / "000000"
    for repeat in range(3):
        record = builder.result(tokens_per_s=100.0 + repeat)
        builder.store_run(run / f"00000{repeat}_benchmark" / "work", record)
    (run / "workpackages.xml").touch()
    (folder / "requirements.yaml").write_text(REQUIREMENTS)
    return folder


def started(folder, *arguments, path=(), module="caraml", **environ):
    """The process; `path` comes before everything else on Python's path."""
    python_path = os.pathsep.join(map(str, (*path, checkout())))
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": python_path, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(process):
    out, err = (text.decode(errors="replace") for text in process.communicate(timeout=PATIENCE_S))
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("terminal", "arguments", "words"),
    [
        (ASCII, ("accept", "llm_run", "--requirements", "requirements.yaml"), "\\u2713 passed"),
        (CYRILLIC, ("table", "llm_run", "--repeats"), "\\xb10."),
    ],
)
def test_what_a_terminal_cannot_show_is_escaped_and_changes_no_exit_code(folder, terminal, arguments, words):
    code, out, err = ended(started(folder, *arguments, **terminal))
    assert code == 0, err
    assert words in out
    assert "Traceback" not in err


def test_names_of_folders_reach_a_script_as_they_are_from_any_terminal(folder, tmp_path):
    variables = {"CARAML_DATA_FOLDER": "/dat\u00e4", **CYRILLIC}
    code, out, _ = ended(started(folder, "plan", "CPU", "llm_training", **variables))
    assert (code, ast.literal_eval(out)["data_folder"]) == (0, "/dat\u00e4")
    assert ended(started(tmp_path, "bash", "CPU", module="caraml.schedulers.submit", **variables)) == (0, "", "")
    assert "export CARAML_DATA_FOLDER='/dat\u00e4'" in (tmp_path / "site.sh").read_text(encoding="utf-8")


def test_a_users_folders_with_names_of_ours_change_nothing(folder, tmp_path):
    for file in ("benchmarks/__init__.py", "jpwr.py", "results/__init__.py", "ioprof/a_file"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("raise RuntimeError('of the user')\n")
    code, out, err = ended(started(folder, "table", "llm_run", path=[tmp_path]))
    assert code == 0, err
    assert "A100" in out


def test_an_internal_error_has_an_exit_code_of_its_own_and_its_traceback(monkeypatch, capsys):
    def broken(*arguments):
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr("caraml.cli.tables.published_text", broken)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert __main__.main(["published"]) == 70
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert told.splitlines()[-1].startswith("caraml: internal error")


def test_a_key_that_interrupts_is_no_traceback(folder):
    process = started(folder, "wait", "llm_run", "--interval", "60")
    assert process.stdout.readline()  # it waits
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "", "caraml: interrupted; submitted jobs continue\n")


def test_a_key_that_interrupts_before_a_command_starts_is_no_traceback(folder, tmp_path):
    (tmp_path / "argparse.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    for program in ("jpwr", "ioprof"):
        assert ended(started(folder, "--version", path=[tmp_path], module=program)) == (-signal.SIGINT, "", "")
