from __future__ import annotations

import hashlib
import json
import shutil
import stat
import subprocess
import warnings
import zipfile
from pathlib import Path

import pytest

from caraml.cli import main
from jpwr.trace.trace import Trace
from record.model import Record
from results.collect import collect
from results.exchange import archive as archives
from results.exchange.archive import verify, write_archive
from results.find.records import RecordError, find_records, write_record
from results.join.nodes import sums_of
from results.tests import builder
from results.tests.builder import PACKAGE, JobFolder, make_record
from tests.needs import need


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two good runs with their traces, and a failed one, for all to read."""
    folder = tmp_path_factory.mktemp("runs") / "llm_run"
    for batch in (8, 16):
        builder.store_run(folder / f"{batch}_benchmark" / "work", builder.result(batch=batch))
    builder.store(folder, [builder.failed()])
    return folder


@pytest.fixture(scope="module")
def stored(runs):
    path = runs.parent / "a.zip"
    assert main(["archive", str(runs), "-o", str(path)]) == 0
    return path


@pytest.fixture
def archive(stored, tmp_path):
    """One to change."""
    return Path(shutil.copy(stored, tmp_path))


def members(archive):
    with zipfile.ZipFile(archive) as packed:
        return {file.filename: packed.read(file) for file in packed.infolist()}


def repack(archive, files, sums=None, twice=()):
    """With other content; with its checksums, unless given, made to fit: as somebody would who knows how."""
    files = {**files, "SHA256SUMS": checksums(files) if sums is None else sums}
    with zipfile.ZipFile(archive, "w") as packed, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name twice
        for name, content in [*files.items(), *((name, files[name]) for name in twice)]:
            packed.writestr(regular(name), content, zipfile.ZIP_DEFLATED)
    return archive


def checksums(files):
    names = (name for name in files if "SHA256SUMS" not in name)
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in names).encode()


def regular(name, mode=stat.S_IFREG | 0o644):
    member = zipfile.ZipInfo(name)
    member.create_system, member.external_attr = 3, mode << 16
    return member


def test_an_archive_holds_records_traces_and_workflow_and_is_verified(archive, capsys):
    names = set(members(archive))
    assert {"SHA256SUMS", "workflow/llm.yaml", "workflow/include/systems.yaml"} < names
    assert "workflow/benchmarks/llm_training/workload.yaml" in names
    assert {
        f"runs/llm_run/8_benchmark/work/{name}" for name in ("result.json", "record.json", "power/n1/trace.csv")
    } < names
    assert main(["verify", str(archive)]) == 0
    printed = capsys.readouterr().out
    assert "3 runs" in printed and "not signed: its author is not known" in printed


def test_the_same_results_give_the_same_bytes(runs, archive, tmp_path):
    for path in runs.rglob("*"):
        path.touch()
    assert main(["archive", str(runs), "-o", str(tmp_path / "b.zip")]) == 0
    assert archive.read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(archive) as packed:
        facts = {(one.external_attr >> 16, one.create_system, one.date_time, one.comment) for one in packed.infolist()}
    assert facts == {(stat.S_IFREG | 0o644, 3, (1980, 1, 1, 0, 0, 0), b"")}


def test_a_flipped_byte_changes_no_file_without_a_word(archive, tmp_path, capsys):
    content, files = archive.read_bytes(), members(archive)
    found = 0
    for place in range(0, len(content), len(content) // 200):
        changed = tmp_path / "changed.zip"
        changed.write_bytes(content[:place] + bytes([content[place] ^ 0x80]) + content[place + 1 :])
        if (code := main(["verify", str(changed)])) == 0:
            assert members(changed) == files, place  # a bit of the time or of an attribute
        else:
            assert code in (1, 2), place
            assert capsys.readouterr().err.startswith("caraml: ")
            found += 1
        capsys.readouterr()
    assert found > 150


@pytest.mark.parametrize("kept", [0, 10, -1])
def test_an_archive_that_is_cut_short_is_refused(archive, capsys, kept):
    archive.write_bytes(archive.read_bytes()[:kept])
    assert main(["verify", str(archive)]) == 2
    assert "if it is cut short, copy or download it again" in capsys.readouterr().err


def altered(content, values):
    """Return a record's file with other values."""
    return json.dumps(builder.altered(json.loads(content), values)).encode()


MORE_WORK = {"energy.tokens_per_wh": 37.0}  # 36 by its trace


WORK = "runs/llm_run/8_benchmark/work/"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("result.json", lambda text: altered(text, {"energy_effective": {}}), "energy_effective lacks 'energy_wh'"),
        ("power/n1/trace.csv", lambda text: text.replace(b"100.0", b"90.0"), "but its origin gives"),
        ("power/n1/trace.csv", lambda text: b"", "it is stored as ok, but"),
    ],
)
def test_a_number_that_does_not_follow_from_its_trace_is_found_even_under_a_good_checksum(
    archive, name, change, message
):
    files = members(archive)
    files[WORK + name] = change(files[WORK + name])
    problems = verify(repack(archive, files)).problems
    assert any(message in problem and "8_benchmark" in problem for problem in problems), problems


def test_every_run_whose_numbers_do_not_follow_is_named(archive):
    files = members(archive)
    of_16 = WORK.replace("/8_", "/16_")
    files[WORK + "result.json"] = altered(files[WORK + "result.json"], MORE_WORK)
    files[of_16 + "result.json"] = b"{"
    found = verify(repack(archive, files))
    first, *others = found.problems
    assert first.startswith(f"{of_16.rstrip('/')}: result.json cannot be read as a record (")
    assert others
    assert all(problem.startswith(WORK.rstrip("/")) and "energy.tokens_per_wh " in problem for problem in others)
    assert found.runs == 3


def test_a_run_whose_result_was_taken_away_is_named(archive):
    files = members(archive)
    del files[WORK + "result.json"]
    [problem] = verify(repack(archive, files)).problems
    assert problem == f"{WORK.rstrip('/')}: it has a record but no result.json"
    left = {name: content for name, content in files.items() if not name.startswith("runs/")}
    assert verify(repack(archive, left)).problems == ["it has no run"]


@pytest.mark.parametrize(("offset_s", "is_wrong"), [(1000.0, False), (941.0, False), (4600.0, True)])
def test_the_wall_clock_of_a_window_is_that_of_the_trace(offset_s, is_wrong):
    record = Record.of(make_record())
    trace = Trace([], {"hostname": "n1", "boot_id": "boot-1", "epoch_offset_s": offset_s})
    found = [one for one in archives._not_marked(record, sums_of(record, [trace])) if "wall clock" in one]
    assert len(found) == is_wrong and all("-3600 s later by its wall clock" in one for one in found)


@pytest.mark.parametrize(
    ("sampled", "is_wrong"),
    [
        (["torchrun", "-m", "benchmarks.llm_training", "--global-batch-size", "8"], False),
        (["torchrun", "-m", "benchmarks.llm_training", "--global-batch-size", "4"], True),
        (None, False),
    ],
)
def test_the_command_of_a_run_is_the_one_that_the_sampler_started(sampled, is_wrong):
    command = ["python", "-u", "-m", "benchmarks.llm_training", "--global-batch-size", "8"]
    record = Record.of(make_record(provenance={"command": command}))
    trace = Trace([], {} if sampled is None else {"command": sampled})
    found = list(archives._other_command(record, [trace]))
    assert ["but the sampler has started 'benchmarks.llm_training" in one for one in found] == [True] * is_wrong


def test_a_good_run_is_not_stored_as_failed(archive):
    files = members(archive)
    name = WORK + "result.json"
    files[name] = altered(files[name], {"status": "failed", "error": "exit code 1"})
    [problem] = verify(repack(archive, files)).problems
    assert problem.endswith("it is stored as failed, but its record and traces give a good run")
    stored = json.loads(files[name])
    files[name] = json.dumps(
        {key: stored[key] for key in stored if key != "energy"}
    ).encode()  # as the result of a job that failed after its record
    assert not verify(repack(archive, files)).problems


@pytest.mark.parametrize(
    ("of_run", "status", "is_wrong"),
    [
        ("ok", "out_of_memory", True),
        ("unfinished", "failed", False),
        ("out_of_memory", "failed", True),
    ],
)
def test_a_run_is_not_stored_as_one_that_ended_otherwise(archive, of_run, status, is_wrong):
    files = members(archive)
    for name, ended in (("record.json", of_run), ("result.json", status)):
        files[WORK + name] = altered(files[WORK + name], {"status": ended})
    problems = verify(repack(archive, files)).problems
    assert [problem.partition(": ")[2] for problem in problems] == [
        f"it is stored as {status}, but its record has the status {of_run}"
    ] * is_wrong


def test_a_file_that_was_changed_added_or_taken_away_is_named(archive):
    files = members(archive)
    sums = files["SHA256SUMS"]
    files[WORK + "record.json"] += b" "
    files["runs/new"] = b"new"
    del files["workflow/llm.yaml"]
    problems = verify(repack(archive, files, sums)).problems
    text = "\n".join(problems)
    assert f"{WORK}record.json was changed" in text
    assert "runs/new has no checksum" in text
    assert "workflow/llm.yaml is missing" in text


@pytest.mark.parametrize(
    ("name", "kind"),
    [("../../climbed", stat.S_IFREG), ("/tmp/climbed_of_a_test", stat.S_IFREG), ("runs/climbed", stat.S_IFLNK)],
)
def test_a_link_or_a_path_that_climbs_out_is_not_unpacked(archive, tmp_path, name, kind):
    with zipfile.ZipFile(archive, "a") as packed:
        packed.writestr(regular(name, kind | 0o777), "/etc/passwd")
    assert verify(archive).problems == [f"'{name}' is not a plain file inside the archive: it was not unpacked"]
    assert not list(tmp_path.rglob("*climbed*"))


def test_two_sweeps_are_in_one_archive(tmp_path, capsys):
    for sweep, batches in (("llm_run", (8, 16)), ("resnet50_run", (8,))):
        run = tmp_path / sweep / "000000"
        for batch in batches:
            builder.store_run(run / f"{batch}_benchmark" / "work", builder.result(batch=batch))
        (run / "workpackages.xml").touch()
    archive = tmp_path / "a.zip"
    assert main(["archive", str(tmp_path / "llm_run"), str(tmp_path / "resnet50_run"), "-o", str(archive)]) == 0
    assert capsys.readouterr().out == f"{archive}: 3 runs\n"
    assert "runs/resnet50_run/000000/8_benchmark/work/result.json" in members(archive)
    assert main(["verify", str(archive)]) == 0


def test_a_folder_without_a_run_is_refused_and_leaves_no_file(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["archive", str(tmp_path / "empty"), "-o", str(tmp_path / "c.zip")]) == 2
    assert f"{tmp_path / 'empty'} has no result" in capsys.readouterr().err
    assert not (tmp_path / "c.zip").exists()
    folders = [tmp_path / "empty", tmp_path / "none"]
    with pytest.raises(RecordError, match=f"no result.json below {folders[0]}, {folders[1]}: run a sweep first"):
        write_archive(folders, tmp_path, tmp_path / "c.zip")


@pytest.mark.parametrize("name", ["a.tar.gz", ".", "folder.zip"])
def test_what_is_no_name_of_an_archive_is_refused(runs, tmp_path, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.zip").mkdir()
    assert main(["archive", str(runs), "-o", name]) == 2
    assert f"--out {name}: the name of an archive must end with .zip" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["folder.zip"]


@pytest.mark.parametrize(("later_s", "earlier_s"), [(1.0, -1.0), (0.0, 0.001)])
def test_a_window_that_the_sampler_knows_nothing_of_is_found(archive, later_s, earlier_s):
    files = members(archive)
    for name in (WORK + "record.json", WORK + "result.json"):
        record = json.loads(files[name])
        record["windows"][0]["start_s"] += later_s
        record["windows"][0]["end_s"] -= earlier_s
        files[name] = json.dumps(record).encode()
    assert any("is not marked in the trace" in problem for problem in verify(repack(archive, files)).problems)


def test_a_file_with_two_checksums_or_two_contents_is_found(archive):
    files = members(archive)
    name = WORK + "record.json"
    before = checksums({name: files[name]})
    files[name] = b"another"
    assert f"{name} has two checksums" in verify(repack(archive, files, before + checksums(files))).problems


def test_a_file_that_is_in_it_twice_is_named(archive):
    name = WORK + "record.json"
    assert verify(repack(archive, members(archive), twice=[name])).problems == [f"'{name}' is in it twice"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Two keys, and a file of those who may sign, in which there is one of them."""
    need("ssh-keygen")
    folder = tmp_path_factory.mktemp("keys")
    for name in ("centre", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "signers").write_text(f"buyer@centre.example {(folder / 'centre.pub').read_text()}")
    return folder


def archived(runs, folder, *flags):
    path = folder / "signed.zip"
    assert main(["archive", str(runs), "-o", str(path), *map(str, flags)]) == 0
    return path


def test_an_archive_is_signed_and_its_signer_is_told(runs, keys, tmp_path, capsys):
    path = archived(runs, tmp_path, "--sign", keys / "centre")
    assert main(["verify", str(path), "--signers", str(keys / "signers")]) == 0
    assert "signed by buyer@centre.example\n" in capsys.readouterr().out
    assert main(["verify", str(path)]) == 0
    assert "signed, but the signer was not checked" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "name"), [("# ours\nb@x {other}\na@x {key}", "a@x"), ("a@x,b@x {key}", "a@x"), ("a@x {other}", "")]
)
def test_the_names_in_the_line_of_a_key_are_told(runs, keys, tmp_path, lines, name):
    path = archived(runs, tmp_path, "--sign", keys / "centre")
    text = lines.format(key=(keys / "centre.pub").read_text(), other=(keys / "stranger.pub").read_text())
    (tmp_path / "signers").write_text(text)
    found = verify(path, tmp_path / "signers")
    assert (bool(found.problems), found.signer) == (not name, name)


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_file_of_signers_that_is_none_is_not_blamed_on_the_archive(runs, keys, tmp_path, capsys, name):
    path = archived(runs, tmp_path, "--sign", keys / "centre")
    assert main(["verify", str(path), "--signers", str(keys / name)]) == 2
    assert f"no file of signers {keys / name}" in capsys.readouterr().err


def test_a_signature_does_not_go_with_other_files(runs, keys, tmp_path):
    path = archived(runs, tmp_path, "--sign", keys / "centre")
    files = members(path)
    signature = files.pop("SHA256SUMS.sig")
    name = next(name for name in files if name.startswith("workflow/"))
    files[name] += b" "
    changed = repack(path, {**files, "SHA256SUMS.sig": signature})
    assert verify(changed, None).problems == []
    [problem] = verify(changed, keys / "signers").problems
    assert "by buyer@centre.example is not for these files" in problem


@pytest.mark.parametrize(
    ("flags", "words"), [(("--sign", "no-key"), "key no-key does not exist"), (("--sign", "SHA"), "does not sign")]
)
def test_a_key_that_is_none_leaves_no_archive(runs, tmp_path, monkeypatch, capsys, flags, words):
    if "SHA" in flags:
        need("ssh-keygen")
    monkeypatch.chdir(tmp_path)
    Path("SHA").write_text("no key\n")
    assert main(["archive", str(runs), *flags]) == 2
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["SHA"]


@pytest.mark.parametrize(
    "files", [{f"runs/{index}": 1 << 20 for index in range(40)}, {f"runs/{index}": 0 for index in range(300)}]
)
def test_an_archive_that_unpacks_to_too_much_is_refused_before(tmp_path, monkeypatch, files):
    monkeypatch.setattr("results.exchange.archive.MOST_FILES", 200)
    monkeypatch.setattr("results.exchange.archive.MOST_GB", 0.03)
    monkeypatch.setattr("pathlib.Path.write_bytes", None)
    path = tmp_path / "large.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for name, size in files.items():
            packed.writestr(regular(name), bytes(size), zipfile.ZIP_DEFLATED)
    with pytest.raises(RecordError, match=r"more than 200 files or 0\.03 GB: if you trust it, unpack it"):
        verify(path)


def test_no_name_or_text_of_an_archive_is_obeyed_by_a_terminal(archive, capsys):
    files = members(archive)
    files["runs/\x1b[2J\x1b]0;owned\x07"] = b"x"
    files["runs/a\r\x9b1m/result.json"] = b"{"
    files["/abs\x1b[31m"] = b""
    assert main(["verify", str(repack(archive, files))]) == 1
    told = capsys.readouterr().err
    assert not set("\x1b\x07\x9b\r") & set(told)
    assert "\\x1b[31m" in told
    files = {name: content for name, content in members(archive).items() if "SUMS" not in name}
    path = next(name for name in files if name.endswith("result.json"))
    files[path] = files[path].replace(b'"status": "ok"', b'"status": "\\u001b[2J"')
    assert main(["verify", str(repack(archive, files))]) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_what_was_run_again_is_kept_and_verified_and_is_no_run(tmp_path, capsys):
    point = tmp_path / "llm_run" / "000001_benchmark" / "work"
    builder.store_run(point, builder.result())
    builder.store_run(point / "attempts" / "1", builder.result(batch=16))
    archive = tmp_path / "a.zip"
    assert main(["archive", str(tmp_path / "llm_run"), "-o", str(archive)]) == 0
    assert main(["verify", str(archive)]) == 0
    assert ": 1 run," in capsys.readouterr().out
    assert [record.layout.global_batch_size for record in find_records([tmp_path]).records] == [8]
    files = {name: content for name, content in members(archive).items() if "SUMS" not in name}
    path = "runs/llm_run/000001_benchmark/work/attempts/1/result.json"
    files[path] = altered(files[path], MORE_WORK)
    assert main(["verify", str(repack(archive, files))]) == 1
    assert "attempts/1: " in capsys.readouterr().err


def test_a_window_that_is_not_of_the_work_is_a_problem(tmp_path):
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    job = JobFolder(run).record()
    job.trace(
        [PACKAGE], lambda _, time_s: 690.0 if time_s >= 30 else 126.0, times_s=[step * 0.5 for step in range(101)]
    )
    write_record(collect(run), run / "result.json")
    write_archive([tmp_path / "runs"], tmp_path, tmp_path / "results.zip")
    words = "the trace has 126 W from the first to the last window, and 690 W over another time of the same length"
    assert f"runs/runs/one: energy is not that of the work: {words}" in verify(tmp_path / "results.zip").problems
