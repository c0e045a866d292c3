"""`caraml history` from the command line: its exit codes, its page, and a run from JUBE to the verdict."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from caraml.cli import _parser, commands, main
from results.tests import made_up

WORKFLOW = "name: llm\noutpath: llm_run\n"
# Leaves the results of a sweep as JUBE does; `jube continue` does nothing.
JUBE = """
[ "$1" = run ] || exit 0
out=$(dirname "$2")/llm_run
case $3 in --outpath | -o) out=$4 ;; --outpath=*) out=${{3#*=}} ;; esac
mkdir -p "$out" && cp -r {results} "$out/000000"
touch "$out/000000/workpackages.xml"
"""


@pytest.fixture
def db(tmp_path):
    return tmp_path / "history.db"


@pytest.fixture
def history(db, tmp_path, capsys):
    """Add some records, run a command, and return its exit code, stdout and stderr."""

    def run(records, *words):
        if records:
            folder = made_up.store(tmp_path / f"runs{len(list(tmp_path.iterdir()))}", records)
            assert main(["history", "add", str(folder), "--db", str(db)]) == 0
            capsys.readouterr()
        code = main(["history", words[0], "--db", str(db), *words[1:]])
        return code, *capsys.readouterr()

    return run


def needs_ruptures():
    pytest.importorskip("ruptures", reason="needs the package ruptures: scripts/setup.sh history")


def test_the_exit_code_says_whether_it_got_worse(history, tmp_path):
    needs_ruptures()
    records = made_up.weekly(40, {}, 1.0)
    assert history(records[:7], "check")[0] == 3
    code, told, _ = history(records, "check")
    assert (code, told.count("passed")) == (0, 2)
    code, told, _ = history(made_up.weekly(40, {30: 0.9}, 1.0, system="A100"), "check")
    assert code == 1
    assert "failed: -10.3 % [-10.6 %, -9.9 %] from 2024-07-29; what else changed: nothing in the records" in told
    assert history([], "check", "--filter", "system=H200")[0] == 0
    assert history([], "check", "--threshold", "15")[0] == 0
    assert history([], "check", "--since", "2024-09-01")[0] == 0
    assert history([], "check", "--since", "2024-12-24")[0] == 3  # no run since then
    known = tmp_path / "known.yaml"
    known.write_text("known:\n- {first_run: 2024-07-29, system: A100, note: the new cooling}\n")
    assert history([], "check", "--known", str(known))[0] == 0
    code, told, _ = history([], "check", "--json")
    assert [one["outcome"] for one in json.loads(told)] == ["failed", "failed", "passed", "passed"]


@pytest.mark.parametrize(
    "words, message",
    [
        (["check", "--since", "soon"], "--since soon was asked for: write a day as 2026-03-09"),
        (["check", "--known", "no.yaml"], "no.yaml cannot be read as known changes: No such file or directory"),
        (["check", "--filter", "colour=red"], "colour"),
        (["run", "no.yaml"], "no.yaml is no workflow (No such file or directory): give one such as jube/llm.yaml"),
    ],
)
def test_a_mistake_is_a_sentence(history, words, message):
    code, _, told = history(made_up.weekly(1), *words)
    assert code == 2 and told.startswith("caraml: ") and message in told and told.count("\n") == 1


def test_a_missing_package_is_a_sentence(history, monkeypatch):
    monkeypatch.setitem(sys.modules, "ruptures", None)
    code, _, told = history(made_up.weekly(10), "check")
    assert code == 2
    assert "install it with scripts/setup.sh llm resnet report history" in told and told.count("\n") == 1
    assert history([], "show")[0] == 0


def test_the_site_names_the_history(tmp_path, monkeypatch, capsys):
    folder = made_up.store(tmp_path / "runs", made_up.weekly(1))
    monkeypatch.setenv("CARAML_HISTORY_DB", str(tmp_path / "of_site" / "history.db"))
    assert main(["history", "add", str(folder)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/of_site/history.db: 1 record added, 0 were there\n"


def test_records_with_other_content_and_unfinished_ones_are_named(db, tmp_path, capsys):
    folder = made_up.store(tmp_path / "runs", [made_up.failed(status="unfinished")])
    assert main(["history", "add", str(folder), "--db", str(db)]) == 1
    assert capsys.readouterr().err.endswith("result.json is not finished: add it when its job has ended\n")


def test_a_page_of_failed_and_single_runs(history, tmp_path):
    page = tmp_path / "page.html"
    assert history([made_up.failed("A100"), *made_up.weekly(1)], "report", "-o", str(page))[0] == 0
    text = page.read_text(encoding="utf-8")
    assert "0 of 3 series got worse, 3 cannot be decided" in text and "No good run." in text
    assert text.count(">2024-01-01<") == 2  # one for each plot


def test_a_result_that_cannot_be_read_exits_with_1_and_all_others_are_added(db, tmp_path, capsys):
    folder = made_up.store(tmp_path / "runs", made_up.weekly(2))
    assert main(["history", "add", str(folder), str(folder), "--db", str(db)]) == 0
    (folder / "result.json").write_text("{")
    assert main(["history", "add", str(folder), "--db", str(db)]) == 1
    told = capsys.readouterr()
    assert "0 records added, 2 were there" in told.out and "cannot be read as a record" in told.err


@pytest.fixture
def workflow(tmp_path, programs):
    needs_ruptures()
    results = made_up.store(tmp_path / "results", made_up.weekly(10, {}, 1.0))
    for work in results.glob("*/work"):
        (work / "ready").touch()
    programs("jube", JUBE.format(results=results), rest="/usr/bin:/bin")
    (tmp_path / "llm.yaml").write_text(WORKFLOW)
    return tmp_path / "llm.yaml"


def test_a_run_goes_from_jube_to_the_verdict(workflow, db, capsys):
    command = ["history", "run", "--db", str(db), str(workflow), "--tag", "H200"]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert f"{db}: 10 records added, 0 were there\n" in told and told.count(": passed\n") == 2
    command = ["history", "run", "--db", str(db), "--threshold", "0.1", str(workflow)]
    for number, words in enumerate((["--outpath", "{}"], ["-o", "{}"], ["--outpath={}"])):
        out = workflow.parent / f"out{number}"
        assert main([*command, *(one.format(out) for one in words)]) == 3
        assert f"{out}/000000: 10 points: 10 ok" in capsys.readouterr().out


def test_a_run_with_a_failed_point_is_added_and_exits_with_1(workflow, db, tmp_path, capsys):
    [work, *_] = sorted((tmp_path / "results").glob("*/work"))
    failed = made_up.failed("H200", 1, 64)
    (work / "result.json").write_text(json.dumps(failed))
    assert main(["history", "run", "--db", str(db), str(workflow)]) == 1
    told = capsys.readouterr()
    assert f"{db}: 10 records added, 0 were there\n" in told.out
    assert "the node burned" in told.err


def test_a_run_that_jube_refuses_judges_no_older_one(workflow, db, programs, capsys):
    assert main(["history", "run", "--db", str(db), str(workflow)]) == 0
    programs("jube", "exit 7", rest="/usr/bin:/bin")
    assert main(["history", "run", "--db", str(db), str(workflow)]) == 2
    assert capsys.readouterr().err == "caraml: 'jube run' ended with exit code 7: nothing was added\n"


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "watch_a_machine.md").read_text(encoding="utf-8")
BLOCKS = [block for _, block in re.findall(r"^```(yaml|text)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]


def recipe(beginning):
    [found] = [block for block in BLOCKS if block.startswith(beginning)]
    return found


def check_command(words):
    """It is a command line of ours, which runs a workflow on one system."""
    options = _parser(commands()).parse_args(words[words.index("history") :])
    assert (options.action, str(options.workflow), options.jube[0]) == ("run", "jube/llm.yaml", "--tag")


def test_the_recipe_for_slurm_is_a_line_of_scrontab():
    *settings, line = recipe("#SCRON").splitlines()
    assert all(re.fullmatch(r"#SCRON --[a-z-]+=\S+", one) for one in settings)
    minute, hour, *rest, command = line.split(maxsplit=5)
    assert (minute, hour, rest) == ("0", "3", ["*", "*", "1"])
    check_command(shlex.split(command))
    limit_s = int(re.search(r"--limit ([0-9]+)", command)[1])
    assert limit_s < 12 * 3600  # ends by itself, with a verdict, before Slurm ends it


def test_the_recipe_for_gitlab_is_a_job():
    [job] = yaml.safe_load(recipe("watch:")).values()
    *_, command = job["script"]
    check_command(shlex.split(command))
    assert job["allow_failure"] == {"exit_codes": 3}
    words = shlex.split(job["after_script"][0])
    assert _parser(commands()).parse_args(words[words.index("history") :]).action == "report"


def test_the_recipe_for_kubernetes_is_a_valid_cronjob():
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    job = yaml.safe_load(recipe("apiVersion:"))
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    check_command(container["command"])
