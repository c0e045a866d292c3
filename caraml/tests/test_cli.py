from __future__ import annotations

import json
import subprocess
import sys

import pytest

from caraml.cli import HIDDEN, commands, main
from results.tests import builder

RECORD = builder.result("CPU", tokens_per_s=123.4)


@pytest.fixture
def sweep(tmp_path):
    """A folder of two runs as JUBE leaves them; the last has one good point."""
    for number in ("000000", "000001"):
        (tmp_path / number).mkdir()
        (tmp_path / number / "workpackages.xml").touch()
    add_point(tmp_path / "000001", "000001_benchmark", RECORD)
    return tmp_path


def add_point(run, name, record=None, marker="done"):
    work = run / name / "work"
    work.mkdir(parents=True)
    if record:
        (work / "result.json").write_text(json.dumps(record))
    if marker:
        (run / name / marker).touch()
    return work


def test_a_good_sweep_passes(sweep):
    assert main(["check", str(sweep)]) == 0


@pytest.mark.parametrize("status", ["failed", "out_of_memory", "unfinished"])
def test_a_point_that_is_not_ok_fails_the_sweep_and_is_named(sweep, capsys, status):
    add_point(sweep / "000001", "000002_benchmark", builder.failed("CPU", status=status, error="why"))
    assert main(["check", str(sweep)]) == 1
    assert f"000002_benchmark: CPU, tiny, 1 device, batch 8: {status}: why" in capsys.readouterr().err


def test_points_that_jube_never_started_fail_the_sweep_and_are_left_to_the_user(sweep, capsys):
    planned = "".join(f'<workpackage id="{number}"/>' for number in (1, 2, 3))
    (sweep / "000001" / "000001_benchmark" / "work" / "ready").touch()
    (sweep / "000001" / "workpackages.xml").write_text(f"<workpackages>{planned}</workpackages>")
    told = f"caraml: 2 of its points were never started: 'jube continue {sweep} --id 1' starts them\n"
    assert main(["check", str(sweep)]) == 1
    assert capsys.readouterr().err == told
    assert main(["wait", str(sweep), "--interval", "0.001"]) == 1
    assert capsys.readouterr() == (f"{sweep}/000001: 3 points: 2 not started, 1 ok\n", told)
    assert not (sweep / "000001" / "continue.log").exists()


def test_a_step_that_failed_or_did_not_end_fails_the_sweep(sweep, capsys):
    work = add_point(sweep / "000001", "000003_prepare", marker="error")
    (work / "stderr").write_text("prepare: no text\n")
    add_point(sweep / "000001", "000004_collect", marker=None)
    assert main(["check", str(sweep)]) == 1
    told = capsys.readouterr().err
    assert "000003_prepare: failed; prepare: no text" in told
    assert "000004_collect: not finished" in told


@pytest.mark.parametrize(
    "command", [["check"], ["table"], ["wait"], ["archive", "-o", "{folder}/a.zip"], ["compare", "{folder}/000001"]]
)
def test_a_last_run_without_a_result_is_named_with_the_one_that_has_some(sweep, capsys, command):
    (sweep / "000004").mkdir()
    (sweep / "000004" / "workpackages.xml").touch()
    name, *arguments = [text.format(folder=sweep) for text in command]
    assert main([name, *arguments, str(sweep)]) == (1 if name == "check" else 2)
    told = capsys.readouterr().err
    assert (
        f"caraml: {sweep}/000004 has no result; the last run with results is {sweep}/000001: give that folder" in told
    )


def test_scripts_of_jobs_that_were_only_written_are_no_run(sweep, capsys):
    written = sweep / "000002"
    written.mkdir()
    (written / "workpackages.xml").write_text('<workpackage id="0"><step>benchmark</step></workpackage>')
    (written / "configuration.xml").write_text("<selection>\n<tag>job</tag>\n</selection>")
    assert main(["table", str(sweep)]) == main(["check", str(sweep)]) == 0
    assert "000002" not in capsys.readouterr().err
    assert main(["check", str(written)]) == main(["wait", str(written)]) == 2
    assert capsys.readouterr().err.count("started no jobs, by the tag job or image") == 2


def test_a_sweep_without_any_result_fails(sweep, capsys):
    assert main(["check", str(sweep / "000000")]) == 1
    assert f"{sweep}/000000 has no result" in capsys.readouterr().err
    (sweep / "000001").rename(sweep / "other")
    assert main(["table", str(sweep)]) == 2
    assert f"{sweep}/000000 has no result: run a sweep first" in capsys.readouterr().err


def test_help_names_every_command_but_hidden_ones_on_one_screen(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 45
    for name in (name for group in commands().values() for name in group):
        assert (f"\n  {name} " in text) is (name not in HIDDEN)
    assert main([]) == 2
    assert capsys.readouterr().err == text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["table", "{run}", "--repeats", "--titles", "caraml"], "not allowed with argument"),
        (["table", "{run}", "--regions", "--sort", "devices"], "leave out --sort"),
        (["table", "{run}", "--largest-first"], "--largest-first needs --sort"),
        (["table", "{run}", "--repeats", "--sort", "speed"], "there is no column 'speed': choose one of system,"),
        (["table", "{run}", "--filter", "modle=tiny"], "there is no column 'modle': did you mean 'model'?"),
        (["table", "{run}", "--filter", "devices=7"], "no record matches devices=7"),
        (["systems", "--get", "vendor"], "--get needs --system"),
        (["doctor", "--workload", "llm"], "--workload needs --system"),
        (["plan", "CPU", "resnet50", "--get", "x"], "a plan has no key x: choose one of repo, "),
        (["job", "CPU", "lmm"], "there is no workload 'lmm': did you mean 'llm'?"),
        (["tabel", "{run}"], "there is no 'tabel': did you mean 'table'?"),
        (["table", "{run}", "--filtr", "devices=4"], "there is no option --filtr: did you mean '--filter'?"),
        (["table", "{run}", "--format", "cvs"], "argument --format: there is no 'cvs': did you mean 'csv'?"),
        (["table", "{run}", "-o", "{run}"], "caraml: '{run}': Is a directory"),
        (["table", "{run}", "-o", "{run}/none/table.txt"], "there is no folder '{run}/none': make it first"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(tmp_path, capsys, arguments, words):
    run = builder.store(tmp_path / "run", [builder.result()])
    try:
        code = main([text.format(run=run) for text in arguments])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert words.format(run=run) in capsys.readouterr().err


def test_the_planning_of_a_step_loads_no_record_s_reader_and_no_plots():
    code = "import sys; from caraml.cli import main; main(['plan', 'CPU', 'llm_training']); print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "caraml.cli.machine" in loaded
    assert not {"caraml.cli.tables", "results.show.page", "results.frames", "pandas", "scipy"} & set(loaded)
