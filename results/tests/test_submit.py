"""Results that are handed in: what is accepted, what is refused and why, and records that are found wrong later."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

from caraml.cli import main
from results.collect import collect
from results.exchange.archive import unpacked, verify
from results.exchange.public import hide, names_of
from results.exchange.signature import sign
from results.record.records import RecordError, find_records, write_record
from results.record.restated import hash_of
from results.tests import made_up
from results.tests.test_archive import keys as keys  # the fixture
from results.tests.test_archive import members, repack
from results.tests.test_hosts import asked, node

REPOSITORY = Path(__file__).parents[2]
WORK = "runs/llm_run/8_benchmark/work/"
HOME = "/home/jane/data"
LEFT = "replaces it, or keeps it by --keep-names"


def private_run(folder, batch=8, **changes):
    """A run that shows who made it: in its options, in its command, and in its output."""
    config = {**made_up.result()["config"], "data": {"data": "text", "data_prefix": f"{HOME}/text"}}
    record = made_up.result(batch=batch, config=config, **changes)
    record["provenance"] |= {"config_hash": hash_of(config), "environment": {"HF_HOME": HOME}}
    record["provenance"]["command"] += ["--data-prefix", f"{HOME}/text"]
    made_up.store_run(folder, record)
    (folder / "job.out").write_text(f"on n1: {HOME}, mail jane.doe@centre.example, sbatch --account=secret1\n")
    (folder / "record.requests.jsonl.gz").write_bytes(gzip.compress(b'{"error": "n1 refused"}\n'))
    (folder / "job.sh").write_text('repo="/p/project/jane/caraml"\n')
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "llm_run"
    for batch in (8, 16):
        private_run(folder / f"{batch}_benchmark" / "work", batch)
    return folder


@pytest.fixture
def to(keys, tmp_path):
    """A repository of results in which nothing is yet."""
    folder = tmp_path / "records"
    folder.mkdir()
    shutil.copy(keys / "signers", folder)
    return folder


def archived(runs, path, key, *flags):
    assert main(["archive", str(runs), "-o", str(path), "--sign", str(key), *flags]) == 0
    return path


@pytest.fixture(scope="module")
def public(runs, keys):
    return archived(runs, runs.parent / "public.tar.zst", keys / "centre", "--licence", "CC-BY-4.0")


@pytest.fixture
def archive(public, tmp_path):
    """One to change."""
    return Path(shutil.copy(public, tmp_path / "a100.tar.zst"))


def signed(archive, key, files):
    """An archive with other files, in order all the same: as its author could make it."""
    files = {name: content for name, content in files.items() if "SHA256SUMS" not in name}
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items()).encode()
    return repack(archive, {**files, "SHA256SUMS.sig": sign(sums, key)}, sums)


def test_an_archive_that_is_handed_in_is_in_every_table(archive, to, capsys):
    assert main(["submit", str(archive), "--to", str(to)]) == 0
    printed = capsys.readouterr().out
    assert f"{to}/a100: commit it with 'git add {to}'" in printed
    assert "breaks a rule: 1 run, 3 wanted" in printed
    stored = {str(path.relative_to(to / "a100")) for path in (to / "a100").rglob("*") if path.is_file()}
    assert stored == members(archive).keys()
    assert main(["table", str(to)]) == 0
    assert capsys.readouterr().out.count("A100") == 2
    assert main(["submit", "--to", str(to)]) == 0
    assert "1 archive, 2 runs: all in order" in capsys.readouterr().out
    assert main(["verify", str(to / "a100"), "--signers", str(to / "signers")]) == 0


def test_a_public_archive_names_nobody_and_has_the_same_numbers(runs, public):
    assert verify(public).problems == []
    files = members(public)
    packed = f"{WORK}record.requests.jsonl.gz"
    assert gzip.decompress(files[packed]) == b'{"error": "node1 refused"}\n'
    everything = "\n".join([*files, *(content.decode() for name, content in files.items() if not name.endswith("gz"))])
    assert not re.search(r"\bn1\b|jane|centre\.example|secret1", everything)
    assert {"node1", "/home/user/data/text", "user@example.org", "--account=account"} <= {
        *re.findall(r"node1|/home/user/data/text|user@example\.org|--account=account", everything)
    }
    assert f"{WORK}power/node1/trace.csv" in files
    hidden, own = (
        json.loads(files[f"{WORK}result.json"]),
        json.loads((runs / "8_benchmark/work/result.json").read_text()),
    )
    assert (hidden["energy"]["energy_wh"], hidden["metrics"]) == (own["energy"]["energy_wh"], own["metrics"])
    assert hidden["provenance"]["config_hash"] == hash_of(hidden["config"]) != own["provenance"]["config_hash"]


def test_names_are_kept_on_purpose_alone(runs, keys, to, tmp_path, capsys):
    path = archived(runs, tmp_path / "open.tar.zst", keys / "centre", "--licence", "CC0-1.0", "--keep-names")
    assert f"{WORK}power/n1/trace.csv" in members(path)
    assert main(["submit", str(path), "--to", str(to)]) == 0
    assert main(["archive", str(runs), "-o", str(path), "--keep-names"]) == 2
    assert "--keep-names needs --licence" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("hosts", "environ", "before", "after"),
    [
        (["n1"], {}, "n1 n1#2 n1.csv n1-eth x-n1 n1x", "node1 node1#2 node1.csv node1-eth x-n1 n1x"),
        ([f"jwb{number:02}" for number in range(1, 11)], {}, "jwb01 jwb10", "node01 node10"),
        (["login.centre.example"], {}, "login.centre.example login", "node1 node1"),
        (["node7", "node1"], {}, "node7 node1 node2", "node7 node1 node2"),
        (["10.0.0.7"], {}, "10.0.0.7 10", "node1 10"),
        (["jwb0123"], {}, "jwb0123i --master-addr=jwb0123i.x jwb0123ib", "node1i --master-addr=node1i.x jwb0123ib"),
        (["n1.centre.example", "n1"], {}, "n1.centre.example n1", "node1 node1"),
        (
            ["n1"],
            {},
            "http://10.0.0.7:80 eth0:10.0.0.8<0> curand 10.3.5.147",
            "http://192.0.2.1:80 eth0:192.0.2.1<0> curand 10.3.5.147",
        ),
        (
            ["n1"],
            {},
            "/p/home/jusers/doe1/x /users/doe2 /home/users/doe3 /home/users/user",
            "/p/home/jusers/user/x /users/user /home/users/user /home/users/user",
        ),
        (["n1"], {}, r"C:\Users\jane\x C:\\Users\\jane", r"C:\Users\user\x C:\\Users\\user"),
        (
            ["n1"],
            {},
            "#SBATCH -A secret1, SLURM_JOB_ACCOUNT=secret1 USER=jane --mail-user=jane",
            "#SBATCH -A account, SLURM_JOB_ACCOUNT=account USER=user --mail-user=user",
        ),
        (["localhost"], {}, "http://localhost:8000", "http://localhost:8000"),
        (["n1"], {"USER": "jane"}, "/scratch/jane/x janes", "/scratch/user/x janes"),
        (["n1"], {"USER": "root"}, "the root of it", "the root of it"),
    ],
)
def test_a_name_is_replaced_where_it_stands_alone(tmp_path, monkeypatch, hosts, environ, before, after):
    for name in ("USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    record = made_up.result()
    record["windows"] = [{**record["windows"][0], "hostname": host} for host in hosts]
    record["devices"][0]["hostname"] = record["provenance"]["hostname"] = hosts[0]
    record["energy"] = None
    write_record(record, tmp_path / "result.json")
    assert hide(before, names_of([tmp_path / "result.json"])) == after


def test_a_server_on_several_nodes_has_the_same_energies_by_other_names(tmp_path):
    own, public = tmp_path / "own", tmp_path / "public"
    own.mkdir()
    asked(own, "prefill: n2; decode: n1 n10", 3)
    for host in ("n2", "n1", "n10"):
        node(own, host)
    files = [path for path in own.rglob("*") if path.is_file()]
    names = names_of(files)
    for path in files:
        other = public / hide(str(path.relative_to(own)), names)
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_text(hide(path.read_text(), names))
    before, after = collect(own), collect(public)
    assert [one["hostname"] for one in after["windows"]] == [names[one["hostname"]] for one in before["windows"]]
    assert len({names[host] for host in ("n1", "n2", "n10", "client")}) == 4
    numbers = [
        {name: value for name, value in result["energy"].items() if isinstance(value, float)}
        for result in (before, after)
    ]
    assert numbers[0] == numbers[1] != {}


@pytest.mark.parametrize("host", ["bf16", "metrics", "1234", "2e5"])
def test_a_name_that_is_another_word_too_is_not_replaced_in_silence(tmp_path, host):
    record = made_up.result()
    record["windows"][0]["hostname"] = host
    write_record(record, tmp_path / "record.json")
    with pytest.raises(RecordError, match=f"the name '{host}' of a host or user .* keep all names with --keep-names"):
        names_of([tmp_path / "record.json"])


def changed(name, old, new):
    return lambda files: {**files, name: files[name].replace(old, new)}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda files: {**files, "about.yaml": b"keep_names: false\n"}, "about.yaml lacks 'licence'"),
        (changed("about.yaml", b"CC-BY-4.0", b"CC-BY-NC-4.0"), "licence is 'CC-BY-NC-4.0', but must be CC-BY-4.0 or"),
        (lambda files: {name: one for name, one in files.items() if name != "about.yaml"}, "it states no licence"),
        (lambda files: {**files, f"{WORK}job.err": b"in /home/jane/x"}, f"job.err shows /home/jane: .*{LEFT}"),
        (
            lambda files: {**files, f"{WORK}record.requests.jsonl.gz": gzip.compress(b"/home/jane")},
            f"gz shows /home/jane: .*{LEFT}",
        ),
        (lambda files: {**files, "runs/.git/config": b"[core]"}, "config is no file of an archive: hand in what"),
        (lambda files: {**files, "conftest.py": b"import os"}, "conftest.py is no file of an archive"),
        (lambda files: {**files, "runs/wrong_records.yaml": b""}, "wrong_records.yaml is no file of an archive"),
        (lambda files: {**files, f"{WORK}io/jane@centre.example/x": b""}, f"shows jane@centre.example: .*{LEFT}"),
        (
            lambda files: {name: one.replace(b"node1", b"jwb01") for name, one in files.items()},
            f'trace.csv shows "hostname": "jwb01: .*{LEFT}',
        ),
        (changed(f"{WORK}record.json", b'"status": "ok"', b'"status": "failed"'), "it is stored as ok, but"),
        (changed(f"{WORK}result.json", b'"tokens_per_s": 1', b'"tokens_per_s": 2'), "but its origin gives 100"),
    ],
)
def test_an_archive_by_a_known_signer_is_refused_with_the_reason(archive, keys, to, capsys, change, reason):
    signed(archive, keys / "centre", change(members(archive)))
    assert main(["submit", str(archive), "--to", str(to)]) == 1
    assert re.search(f"^caraml: refused: .*{reason}", capsys.readouterr().err, re.MULTILINE)
    assert [path.name for path in to.iterdir()] == ["signers"]


def changed_later(archive, runs, keys):
    repack(archive, members(archive) | {f"{WORK}job.out": b"another"}, members(archive)["SHA256SUMS"])


def by_a_stranger(archive, runs, keys):
    archived(runs, archive, keys / "stranger", "--licence", "CC-BY-4.0")


def not_signed(archive, runs, keys):
    assert main(["archive", str(runs), "-o", str(archive), "--licence", "CC-BY-4.0"]) == 0


def without_a_good_run(archive, runs, keys):
    folder = made_up.store(archive.parent / "bad", [made_up.failed()])
    archived(folder, archive, keys / "centre", "--licence", "CC-BY-4.0")


def with_another_record(archive, runs, keys):
    files = members(archive)
    signed(archive, keys / "centre", {**files, "runs/fake_result.json": files[f"{WORK}result.json"]})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (changed_later, "job.out was changed: its SHA-256 is"),
        (by_a_stranger, "no signer in .*signers made the signature"),
        (not_signed, "it is not signed"),
        (without_a_good_run, "none of its points can be ranked: .*: failed: the node burned"),
        (with_another_record, "fake_result.json: a record must be called result.json"),
    ],
)
def test_an_archive_that_cannot_be_trusted_is_refused(archive, runs, keys, to, capsys, make, reason):
    make(archive, runs, keys)
    assert main(["submit", str(archive), "--to", str(to)]) == 1
    assert re.search(f"^caraml: refused: .*{reason}", capsys.readouterr().err, re.MULTILINE)
    assert [path.name for path in to.iterdir()] == ["signers"]


def test_what_is_there_already_is_refused(archive, runs, keys, to, capsys, monkeypatch):
    assert main(["submit", str(archive), "--to", str(to)]) == 0
    again = Path(shutil.copy(archive, archive.with_name("again.tar.zst")))
    assert main(["submit", str(again), "--to", str(to)]) == 1
    printed = capsys.readouterr().err
    path = "runs/llm_run/16_benchmark/work/result.json"
    assert f"{to}/a100/{path} and {path} are the same record: it counts once" in printed
    private_run(archive.parent / "new" / "run", 32)
    archived(archive.parent / "new", archive, keys / "centre", "--licence", "CC-BY-4.0")
    assert main(["submit", str(archive), "--to", str(to)]) == 1
    assert f"{to}/a100 exists, or has a name that is not of" in capsys.readouterr().err
    odd = Path(shutil.copy(archive, archive.with_name("..tar.zst")))
    assert main(["submit", str(odd), "--to", str(to)]) == 1
    assert "has a name that is not of letters" in capsys.readouterr().err
    other = archive.rename(archive.with_name("other.tar.zst"))
    monkeypatch.setattr("caraml.submission.MOST_GB", 1e-6)
    assert main(["submit", str(other), "--to", str(to)]) == 1
    assert "GB, more than 1e-06 GB: hand in fewer runs at once" in capsys.readouterr().err
    assert sorted(path.name for path in to.iterdir()) == ["a100", "signers"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda place: (place / WORK / "job.out").write_text("other"), "job.out was changed"),
        (lambda place: (place / "SHA256SUMS.sig").unlink(), "it is not signed"),
        (lambda place: (place.parent / "signers").write_text(""), "no signer in"),
        (lambda place: (place / "SHA256SUMS").unlink(), "it has no SHA256SUMS"),
        (
            lambda place: (place / "runs" / "link").symlink_to(REPOSITORY / "schemas"),
            "link/images.schema.json is a link",
        ),
        (lambda place: shutil.copy(place / WORK / "result.json", place.parent), "result.json is in no archive"),
        (lambda place: shutil.copytree(place, place.with_name("twice")), "are the same record: it counts once"),
        (lambda place: made_up.store(place.parent / "B", [made_up.result()]), "it has no SHA256SUMS"),
        (
            lambda place: (place.parent / "wrong_records.yaml").write_text(
                '0123: {reason: a, date: 2026-12-01, version: "1"}'
            ),
            "wrong_records.yaml marks the run '0123', which no record has",
        ),
    ],
)
def test_a_change_of_what_is_there_does_not_pass_the_check(archive, to, capsys, change, problem):
    assert main(["submit", str(archive), "--to", str(to)]) == 0
    change(to / "a100")
    assert main(["submit", "--to", str(to)]) == 1
    assert problem in capsys.readouterr().err


def test_a_record_that_is_found_wrong_is_marked_and_stays(archive, keys, to, capsys):
    """An archive in which a number is wrong stands for one by a version that computed it otherwise."""
    better = changed(f"{WORK}result.json", b'"tokens_per_s": 1', b'"tokens_per_s": 2')
    with unpacked(signed(archive, keys / "centre", better(members(archive)))) as folder:
        shutil.copytree(folder, to / "a100")
    before = verify(to / "a100").problems
    assert main(["submit", "--to", str(to)]) == 1
    printed = capsys.readouterr().err
    assert f"{to}/a100: {WORK[:-1]}: metrics.tokens_per_s is stored as 200, but its origin gives 100" in printed
    [line] = re.findall(r"wrong_records\.yaml: .* mark it with the line (.*)", printed)
    (to / "wrong_records.yaml").write_text(line.replace("...", "its steps were counted twice"))
    assert main(["submit", "--to", str(to)]) == 0
    for folder in (to, to / "a100" / "runs"):
        found = find_records([folder])
        assert [one.file.path for one in found.records] == [str(to / "a100" / WORK.replace("8", "16") / "result.json")]
        assert [(one.finding.kind, one.may_be_of("A100")) for one in found.skipped] == [("marked", True)]
    capsys.readouterr()
    assert main(["table", str(to)]) == 0
    printed = capsys.readouterr()
    assert "200.0" not in printed.out
    assert re.search(r"found it wrong on 20..-..-..: its steps were counted twice", printed.err)
    (to / "wrong_records.yaml").unlink()
    assert verify(to / "a100").problems == before != []


@pytest.mark.parametrize("text", ["run: {reason: x, version: 1}", "run: {reason: x, date: soon, version: 1}", "- run"])
def test_a_mistake_in_the_marks_is_a_sentence(to, capsys, text):
    made_up.store(to / "A100", [made_up.result()])
    (to / "wrong_records.yaml").write_text(text)
    assert main(["table", str(to)]) == 2
    assert f"{to}/wrong_records.yaml" in capsys.readouterr().err


def lines(text):
    """The commands in a workflow file."""
    if isinstance(text, dict | list):
        return [line for part in (text.values() if isinstance(text, dict) else text) for line in lines(part)]
    return text.splitlines() if isinstance(text, str) else []


@pytest.mark.parametrize("name", [".github/workflows/results.yaml", ".gitlab-ci.yml"])
def test_both_services_run_the_check_of_the_repository_which_passes(name, capsys, monkeypatch):
    """A change of how a number is computed marks the records that are then wrong."""
    monkeypatch.chdir(REPOSITORY)
    content = yaml.safe_load((REPOSITORY / name).read_text())
    assert "results/records/**" in os.fsdecode(json.dumps(content))
    [command] = [line for line in lines(content) if "caraml submit" in line]
    program, *words = command.split()
    assert (program, main(words)) == (".venv/bin/caraml", 0)
    assert re.search(r" [1-9]\d* archives?, [1-9]\d* runs: all in order", capsys.readouterr().out)
