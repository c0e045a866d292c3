"""Results that are handed in: what is accepted, what is refused and why, and records that are found wrong later."""

from __future__ import annotations

import dataclasses
import gzip
import importlib
import json
import os
import re
import shutil
import typing
from pathlib import Path

import pytest
import yaml

from caraml.cli import main
from results.collect import collect
from results.exchange.archive import unpacked, verify
from results.exchange.public import FILE, OPTIONS, Neutral
from results.exchange.signature import sign
from results.find.records import find_records, write_record
from results.tests import builder
from results.tests.test_archive import checksums, members, repack
from results.tests.test_archive import keys as keys  # the fixture
from results.tests.test_hosts import asked, node

REPOSITORY = Path(__file__).parents[2]
WORK = "runs/llm_run/8_benchmark/work/"
HOME = "/home/jane/data"
LEFT = "'caraml archive --licence' replaces it"


def private_run(folder, batch=8, **changes):
    """A run that shows who made it: in its options, its environment, its job and its files."""
    config = {**builder.result()["config"], "data": {"data": "text", "data_prefix": f"{HOME}/text"}}
    config["serve"] = {"url": "http://[fe80::5ec]:8000", "hosts": "", "api_key_variable": "SECRET_KEY"}
    record = builder.result(batch=batch, config=config, **changes)
    variables = {"HF_HOME": HOME, "HF_TOKEN": "hf_5ec", "SLURM_JOB_ACCOUNT": "secret1", "OMP_NUM_THREADS": "4"}
    record["provenance"] |= {"environment": variables, "contact": "jane@centre.example"}
    record["provenance"]["command"] += ["-A", "secret1", "--data-prefix", f"{HOME}/text"]
    record["slurm"] = {"partition": "secret2", "job_id": 50055, "consumed_energy_wh": 7.0}
    builder.store_run(folder, record)
    for name in ("job.out", "job.err", "power/n1/power.n1.7.csv", "io/n1/files.csv", "job.sh"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(f"on n1: {HOME}, mail jane.doe@centre.example, sbatch --account=secret1\n")
    (folder / "record.requests.jsonl.gz").write_bytes(gzip.compress(b'{"error": "n1 refused"}\n'))
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
    return archived(runs, runs.parent / "public.zip", keys / "centre", "--licence", "CC-BY-4.0")


@pytest.fixture
def archive(public, tmp_path):
    """One to change."""
    return Path(shutil.copy(public, tmp_path / "a100.zip"))


def signed(archive, key, files):
    """An archive with other files, in order all the same: as its author could make it."""
    return repack(archive, {**files, "SHA256SUMS.sig": sign(checksums(files), key)})


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
    of_a_run = ("power/node1/trace.csv", "record.json", "record.requests.jsonl.gz", "result.json")
    assert {name.removeprefix(WORK) for name in files if WORK in name} == {*of_a_run}
    files[f"{WORK}record.requests.jsonl.gz"] = gzip.decompress(files[f"{WORK}record.requests.jsonl.gz"])
    read = [name for name in files if "SHA256SUMS" not in name and not name.endswith("gz")]
    everything = "\n".join([*files, *(files[name].decode() for name in read)])
    assert not re.search(r"\bn1\b|jane|centre|secret|5ec|50055|HF_|/home|fe80", everything, re.IGNORECASE)
    hidden = json.loads(files[f"{WORK}result.json"].replace(b"node1", b"n1"))
    own = json.loads((runs / "8_benchmark/work/result.json").read_text())
    assert [hidden["energy"], hidden["metrics"]] == [own["energy"], own["metrics"]]
    assert hidden["slurm"] == {"consumed_energy_wh": 7.0}
    assert hidden["provenance"]["environment"] == {"OMP_NUM_THREADS": "4"}


@pytest.mark.parametrize(
    ("hosts", "after"),
    [
        ([f"jwb{number:02}" for number in range(1, 11)], [f"node{number:02}" for number in range(1, 11)]),
        (["10.0.0.7", "fe80::7", "localhost"], ["node1", "node2", "localhost"]),
        (["bf16", "1234"], ["node2", "node1"]),
    ],
)
def test_hosts_are_numbered_in_their_order_and_other_words_stay(tmp_path, hosts, after):
    record = builder.result()
    record["windows"] = [{**record["windows"][0], "hostname": host} for host in hosts]
    for part in (record["devices"][0], record["provenance"], record["provenance"]["nodes"][0]):
        part["hostname"] = hosts[0]
    record["energy"] = None
    found = neutral(tmp_path / "result.json", record)
    assert ([window["hostname"] for window in found["windows"]], found["precision"]) == (after, "bf16")


def neutral(path, record):
    write_record(record, path)
    return json.loads(Neutral({path.name: path}).content(path))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            {"environment": {"HF_TOKEN": "hf_1", "NCCL_ALGO": "Ring", "XLA_FLAGS": "--xla_dump_to=/x"}},
            {"NCCL_ALGO": "Ring", "XLA_FLAGS": "text1"},
        ),
        (
            {"config": {"serve": {"served_model": "ours", "size": "7B", "port": 80}}},
            {"serve": {"served_model": "text1", "size": "7B", "port": 80}},
        ),
        ({"model": "/p/acme/llama", "sample": "128/64 tokens"}, "text0"),
        (
            {"notes": ["no counter: /p/jane/x, ~jane/y", "by https://example.org/a/b, ~5 W/s"]},
            ["no counter: text0, text0", "by https://example.org/a/b, ~5 W/s"],
        ),
        ({"device_id": "PSU 4711"}, "text2 text1"),
        ({"further": {"key": ["jane", "jane", "acme"]}}, {"key": ["text2", "text2", "text1"]}),
    ],
)
def test_only_what_is_known_to_be_needed_stays(tmp_path, before, after):
    found = neutral(tmp_path / "result.json", before)
    assert next(iter(found.values())) == after
    assert neutral(tmp_path / "result.json", found) == found


@pytest.mark.parametrize(
    "name", ["cosmoflow", "deepcam", "fno", "llm_inference", "llm_training", "resnet50", "resnet50_torch"]
)
def test_every_option_with_choices_stays(name):
    def with_choices(options):
        for field in dataclasses.fields(options):
            kind = typing.get_type_hints(options)[field.name]
            if dataclasses.is_dataclass(kind):
                yield from with_choices(kind)
            elif field.metadata.get("choices"):
                yield field.name

    found = set(with_choices(importlib.import_module(f"benchmarks.{name}.config").Config))
    assert "precision" in found <= OPTIONS


def test_devices_are_known_again_by_any_form_of_their_ids_and_no_serial_number_is_shown(tmp_path):
    ids = [
        "GPU-1e1eebfc-1016-1c43-f10f-e6072a6ed47c 0000:00:06.0",
        "1E1EEBFC-1016-1c43-f10f-e6072a6ed47c",
        "GPU-00c0ffee00c0ffee",
    ]
    first, second, third = neutral(tmp_path / "record.json", {"uuid": ids})["uuid"]
    assert first == f"{second} 0000:00:06.0"
    assert len({second, third}) == 2
    assert not re.search("1e1eebfc|c0ffee", f"{first}{third}", re.IGNORECASE)


def test_a_server_on_several_nodes_has_the_same_energies_by_other_names(tmp_path):
    own, public = tmp_path / "own", tmp_path / "public"
    own.mkdir()
    asked(own, "prefill: n2; decode: n1 n10", 3)
    for host in ("n2", "n1", "n10"):
        node(own, host)
    files = [path for path in own.rglob("*") if path.is_file()]
    texts = Neutral({str(path.relative_to(own)): path for path in files})
    for path in files:
        other = public / texts.name(str(path.relative_to(own)))
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_bytes(texts.content(path))
    before, after = collect(own), collect(public)
    assert [one["hostname"] for one in before["windows"]] == ["n2", "n1", "n10"]
    assert [one["hostname"] for one in after["windows"]] == ["node4", "node2", "node3"]
    numbers = [
        {name: value for name, value in result["energy"].items() if isinstance(value, float)}
        for result in (before, after)
    ]
    assert numbers[0] == numbers[1] != {}


def changed(name, old, new):
    return lambda files: {**files, name: files[name].replace(old, new)}


def with_files(change):
    return lambda archive, runs, keys: signed(archive, keys / "centre", change(members(archive)))


def not_signed(archive, runs, keys):
    assert main(["archive", str(runs), "-o", str(archive), "--licence", "CC-BY-4.0"]) == 0


def without_a_good_run(archive, runs, keys):
    folder = builder.store(archive.parent / "bad", [builder.failed()])
    archived(folder, archive, keys / "centre", "--licence", "CC-BY-4.0")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (with_files(lambda files: {**files, "about.yaml": b"{}\n"}), "about.yaml lacks 'licence'"),
        (with_files(lambda files: {n: one for n, one in files.items() if n != "about.yaml"}), "it states no licence"),
        (
            with_files(
                lambda files: {**files, f"{WORK}record.requests.jsonl.gz": gzip.compress(b'{"key": "/home/jane"}\n')}
            ),
            f"gz shows /home/jane: .*{LEFT}",
        ),
        (
            with_files(lambda files: {name: one.replace(b"node1", b"jwb01") for name, one in files.items()}),
            f"trace.csv shows jwb01: .*{LEFT}",
        ),
        (
            with_files(lambda files: {name.replace("llm_run", "jane"): one for name, one in files.items()}),
            f"runs/jane/.*result.json shows more than its results need: .*{LEFT}",
        ),
        (
            with_files(changed(f"{WORK}result.json", b'"tokens_per_s": 1', b'"tokens_per_s": 2')),
            "but its origin gives 100",
        ),
        (
            with_files(lambda files: {**files, "runs/conftest.py": b"{}"}),
            "runs/conftest.py is no file of a public archive",
        ),
        (not_signed, "it is not signed"),
        (without_a_good_run, "none of its points can be ranked: .*: failed: not public"),
    ],
)
def test_an_archive_is_refused_with_the_reason(archive, runs, keys, to, capsys, make, reason):
    make(archive, runs, keys)
    assert main(["submit", str(archive), "--to", str(to)]) == 1
    assert re.search(f"^caraml: refused: .*{reason}", capsys.readouterr().err, re.MULTILINE)
    assert [path.name for path in to.iterdir()] == ["signers"]


@pytest.mark.parametrize(
    "name",
    [
        *("conftest.py", "runs/conftest.py", f"{WORK}power/node1/conftest.py", f"{WORK}io/node1/test_x.py"),
        *(f"{WORK}power/node1/{name}" for name in ("trace.csv.py", "Trace.csv", "trace.\uff43sv", "x/trace.csv")),
        *("runs/.git/config", "runs/.pytest_cache/result.json", f"{WORK}.record.json", f"{WORK}record.json\n"),
        *("runs/wrong_records.yaml", f"{WORK}job.sh", "workflow/a.yaml", "result.json", f"{WORK}rec\u043erd.json"),
    ],
)
def test_only_data_has_the_name_of_a_public_file(name):
    assert FILE.fullmatch(f"{WORK}power/node1/trace.csv") and not FILE.fullmatch(name)


def test_what_is_there_already_is_refused(archive, runs, keys, to, capsys, monkeypatch):
    assert main(["submit", str(archive), "--to", str(to)]) == 0
    again = Path(shutil.copy(archive, archive.with_name("again.zip")))
    assert main(["submit", str(again), "--to", str(to)]) == 1
    printed = capsys.readouterr().err
    path = "runs/llm_run/16_benchmark/work/result.json"
    assert f"{to}/a100/{path} and {path} are the same record: it counts once" in printed
    private_run(archive.parent / "new" / "run", 32)
    archived(archive.parent / "new", archive, keys / "centre", "--licence", "CC-BY-4.0")
    assert main(["submit", str(archive), "--to", str(to)]) == 1
    assert f"{to}/a100 exists, or has a name that is not of" in capsys.readouterr().err
    odd = Path(shutil.copy(archive, archive.with_name("..zip")))
    for name in ("A100.zip", "wrong_records.yaml.zip", "x y.zip"):
        odd = odd.rename(odd.with_name(name))
        assert main(["submit", str(odd), "--to", str(to)]) == 1
        assert "has a name that is not of letters" in capsys.readouterr().err
    other = archive.rename(archive.with_name("other.zip"))
    monkeypatch.setattr("caraml.submission.MOST_GB", 1e-6)
    assert main(["submit", str(other), "--to", str(to)]) == 1
    assert "GB, more than 1e-06 GB: hand in fewer runs at once" in capsys.readouterr().err
    assert sorted(path.name for path in to.iterdir()) == ["a100", "signers"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda place: (place / WORK / "record.json").write_text("other"), "record.json was changed"),
        (lambda place: (place / "SHA256SUMS.sig").unlink(), "it is not signed"),
        (
            lambda place: (place / "runs" / "link").symlink_to(REPOSITORY / "containers"),
            "is a link",
        ),
        (lambda place: shutil.copytree(place, place.with_name("twice")), "are the same record: it counts once"),
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
    words = f"{to}/a100: {WORK[:-1]}: metrics.tokens_per_s is stored as 200, but its origin gives 100"
    assert words in capsys.readouterr().err
    run_id = json.loads((to / "a100" / WORK / "result.json").read_text())["run_id"]
    mark = '{reason: its steps were counted twice, date: 2026-12-01, version: "1"}'
    (to / "wrong_records.yaml").write_text(f"'{run_id}': {mark}")
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


def renamed(files):
    files = {name: re.sub(rb'"run_id": "\w+"', b'"run_id": "0123"', content) for name, content in files.items()}
    return {name.replace("16_benchmark", "3_benchmark"): files[name] for name in files if "8_benchmark" not in name}


@pytest.mark.parametrize("kind", ["marked", "inconsistent"])
def test_a_run_that_is_left_out_does_not_count_by_another_id(archive, keys, to, tmp_path, capsys, kind):
    assert main(["submit", str(archive), "--to", str(to)]) == 0
    path = to / "a100" / WORK.replace("8", "16") / "result.json"
    record = json.loads(path.read_text())
    if kind == "marked":
        mark = '{reason: "counted twice", date: 2026-12-01, version: "1"}'
        (to / "wrong_records.yaml").write_text(f"'{record['run_id']}': {mark}")
    else:
        record["step_times_s"] = [999.0]
        path.write_text(json.dumps(record))
    again = signed(Path(shutil.copy(archive, tmp_path / "again.zip")), keys / "centre", renamed(members(archive)))
    assert main(["submit", str(again), "--to", str(to)]) == 1
    assert "its run is that of" in capsys.readouterr().err
    with unpacked(again) as folder:
        shutil.copytree(folder, to / "again")
    found = find_records([to])
    assert [one.layout.global_batch_size for one in found.records] == [8]
    assert sorted(one.finding.kind for one in found.skipped) == sorted([kind, "run_left_out"])


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
