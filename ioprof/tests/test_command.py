"""The command as a user starts it."""

from __future__ import annotations

import itertools
import json
import sys

import pytest

from ioprof.folder import FILES, PROFILE, READS
from ioprof.tests.conftest import run_ioprof
from ioprof.tests.test_counts import python


@pytest.fixture
def run(tmp_path, cache):
    """Run ioprof in an empty folder."""

    def run(*arguments, **variables):
        done = run_ioprof(*arguments, cwd=tmp_path, cache=cache, **variables)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["no-such-command"], 127),
        (["/etc/passwd"], 126),
    ],
)
def test_the_exit_code_is_the_commands_own(run, command, code):
    assert run("--out", "io", "--", *command)[0] == code


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no command was given: put it after '--'"),
        (["--out", "io"], "no command was given"),
        (["--", "true"], "no folder was given for the profile: add --out DIR"),
        (
            ["--out", "/dev/null/io", "--", "true"],
            "cannot be written to /dev/null/io (Not a directory): choose another",
        ),
        (["--uot", "io", "--", "true"], "there is no option --uot: did you mean '--out'?"),
        (["read", "nowhere"], "nowhere has no profile, because profile.json is missing"),
        (["read", "io", "--files", "-1"], "--files must be 0 or more, got -1"),
        (["read", "io", "--tier", "0"], "--tier must be more than 0 MB/s, got 0"),
        (["read", "io", "--tier", "nan"], "--tier must be more than 0 MB/s, got nan"),
        (["build", "/dev/null/library.so"], "/dev/null/library.so cannot be written"),
    ],
)
def test_bad_input_is_125_with_one_clear_sentence(run, arguments, sentence):
    code, out, err = run(*arguments)
    assert (code, out) == (125, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_without_a_compiler_a_sentence_reports_what_to_do(run, tmp_path, cache):
    code, _, err = run("--out", "io", "--", sys.executable, "-c", "", PATH="/nowhere", XDG_CACHE_HOME=str(tmp_path))
    assert code == 125
    assert "install gcc, or set IOPROF_LIBRARY to a file made by 'python3 -m ioprof build FILE'" in err
    code, _, err = run("--out", "io", "--", "true", CC="false", XDG_CACHE_HOME=str(tmp_path))
    assert (code, len(err.splitlines())) == (125, 1)
    assert "'false' cannot build the counting library" in err
    code, _, err = run("--out", "io", "--", "true", CC="no-such-compiler", XDG_CACHE_HOME=str(tmp_path))
    assert (code, len(err.splitlines())) == (125, 1)
    assert run("--out", "io", "--", "true", IOPROF_LIBRARY="gone.so")[0] == 125


def test_a_library_that_was_built_before_needs_no_compiler(run, tmp_path):
    assert run("build", "own library.so")[0] == 0
    library = str(tmp_path / "own library.so")  # a space, which LD_PRELOAD cannot hold
    reads = [sys.executable, "-ISc", "open('/etc/passwd').read()"]
    code, _, err = run("--out", "io", "--", *reads, IOPROF_LIBRARY=library, CC="false", XDG_CACHE_HOME=str(tmp_path))
    assert code == 0, err
    assert "/etc/passwd" in (tmp_path / "io" / FILES).read_text()


def test_another_library_that_is_put_before_programs_stays(run, tmp_path):
    code, out, _ = run("--out", "io", "--", "sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD="libc.so.6")
    assert code == 0
    assert out.endswith(".so:libc.so.6\n")


def test_no_folder_of_its_own_is_left(run, tmp_path):
    (tmp_path / "own").mkdir()
    assert run("--out", "io", "--", "true", TMPDIR=str(tmp_path / "own"))[0] == 0
    assert list((tmp_path / "own").iterdir()) == []


def test_a_profile_that_cannot_be_written_goes_elsewhere_and_changes_no_exit_code(run, tmp_path):
    code, _, err = run("--out", "io", "--", "sh", "-c", "rm -r io; echo > io; exit 3", TMPDIR=str(tmp_path))
    assert code == 3
    [place] = [path for path in tmp_path.iterdir() if path.name.startswith("ioprof-")]
    assert f"the profile cannot be written to io (File exists): it is in {place}" in err
    assert {PROFILE, FILES, READS} == {path.name for path in place.iterdir()}


def test_the_summary_is_there_for_people_and_machines(run, tmp_path):
    (tmp_path / "data").write_bytes(bytes(4_000_000))
    run("--out", "io", "--", *python("for _ in range(3): open('data', 'rb').read()"))
    code, out, _ = run("read", "io", "--tier", "1000")
    assert code == 0
    assert "12 MB" in out
    assert "each byte 3.0 times" in out
    assert "at 1,000 MB/s they take 0.012 s" in out
    code, out, _ = run("read", "io", "--json", "--files", "1")
    found = json.loads(out)
    assert code == 0
    assert found["files"][0]["path"] == str(tmp_path / "data")
    assert found["files"][0]["bytes"] == 12_000_000
    assert found["coverage"]["share"] > 0.95
    assert sum(found["bytes_over_time"]["bytes"]) == pytest.approx(found["total"]["bytes"], rel=1e-6)


def test_a_damaged_profile_is_refused_in_a_sentence(run, tmp_path):
    run("--out", "io", "--", "cat", "/etc/passwd")
    damages = (lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"\0\xff" * 40, None)
    for path, damage in itertools.product([tmp_path / "io" / name for name in (PROFILE, FILES, READS)], damages):
        whole = path.read_bytes()
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage(whole))
        code, out, err = run("read", "io")
        assert (code, out) == (125, "")
        assert err.startswith("ioprof: ")
        assert len(err.splitlines()) == 1
        assert "Traceback" not in err
        path.write_bytes(whole)
