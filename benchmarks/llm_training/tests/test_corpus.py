"""Text from packed files and over the network, and GPT-2's kind of vocabulary."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common.options import ConfigError
from benchmarks.llm_inference.tests.mock_server import Scripted
from benchmarks.llm_training import prepare
from benchmarks.llm_training.corpus import documents, fetch

WORDS = "a benchmark counts tokens and watt hours of every device on every node".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def texts():
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, 800)) + " ✓\n" for _ in range(8)]


@pytest.fixture(scope="module")
def packed(texts, tmp_path_factory):
    """The texts as JSON lines, packed."""
    path = tmp_path_factory.mktemp("corpus") / "oscar.jsonl.xz"
    path.write_bytes(lzma.compress("".join(json.dumps({"id": 1, "text": text}) + "\n" for text in texts).encode()))
    return path


@pytest.fixture
def server(packed):
    """The address of the packed file, whose first answer is cut short, and what was asked."""
    content = packed.read_bytes()
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(content)
    with closing(Scripted([[head, content[:1000], None], [head, content, None]])) as running:
        yield f"http://127.0.0.1:{running.port}/oscar.jsonl.xz?download=true", running.asked


def test_documents_come_from_lines_of_json_and_packed_text(texts, packed, tmp_path):
    assert list(documents([str(packed)])) == texts
    (tmp_path / "one.txt.gz").write_bytes(gzip.compress(texts[0].encode()))
    (tmp_path / "two.txt").write_text(texts[1])
    assert list(documents([str(tmp_path)])) == texts[:2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"txt": "x"}\n', "a.jsonl, line 2, is not a JSON object"),
        ("a.jsonl", b'{"text": 3}\n', 'line 1, has a "text" that is not a text'),
        ("a.jsonl.xz", lzma.compress(b'{"text": "x"}\n' * 999)[:60], "is damaged or incomplete"),
        ("a.txt.gz", b"no gzip", "is damaged or incomplete"),
    ],
)
def test_a_corpus_that_is_damaged_is_one_clear_sentence(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        list(documents([str(tmp_path / name)]))


def test_a_download_that_broke_off_leaves_nothing(server, packed, tmp_path):
    address, asked = server
    with pytest.raises(ConfigError, match=r"the connection ended \d+ bytes before the end"):
        fetch(address, tmp_path)
    assert list(tmp_path.iterdir()) == []
    path = fetch(address, tmp_path, hashlib.sha256(packed.read_bytes()).hexdigest())
    assert Path(path).read_bytes() == packed.read_bytes()
    assert fetch(address, tmp_path) == path
    assert len(asked) == 2  # what is there is not fetched again


def test_oscar_and_gpt2s_vocabulary_are_one_flag(server, packed, vocabulary, tmp_path, monkeypatch, capsys):
    address, _ = server
    with pytest.raises(ConfigError):
        fetch(address, tmp_path / "elsewhere")  # the server's first answer
    files = {f"{address.partition('?')[0]}/{Path(name).name}": Path(name).read_bytes() for name in vocabulary}
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    for name, content in files.items():
        (downloads / name.rpartition("/")[2]).write_bytes(content)
    monkeypatch.setattr(prepare, "OSCAR", address)
    monkeypatch.setattr(prepare, "GPT2_VOCABULARY", tuple(files))
    monkeypatch.setattr(
        prepare, "SHA256", {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    )
    assert prepare.main(["--out", str(tmp_path / "text"), "--corpus", "oscar"]) == 0
    assert (downloads / "oscar.jsonl.xz").read_bytes() == packed.read_bytes()

    (downloads / "merges.txt").write_text("other")
    assert prepare.main(["--out", str(tmp_path / "other"), "--corpus", "oscar"]) == 2
    assert "was asked for: it was removed" in capsys.readouterr().err


@pytest.fixture(scope="module")
def vocabulary(texts, tmp_path_factory):
    """vocab.json and merges.txt of the kind that GPT-2 comes with."""
    folder = tmp_path_factory.mktemp("vocabulary")
    tokenizer = prepare.train_tokenizer(texts, 500)
    tokenizer.model.save(str(folder))
    return [str(folder / "vocab.json"), str(folder / "merges.txt")]


def test_a_given_vocabulary_is_used_and_megatron_reads_the_documents(texts, packed, vocabulary, tmp_path):
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from tokenizers import Tokenizer

    out = str(tmp_path / "text")
    assert prepare.main(["--out", out, "--files", str(packed), "--vocabulary", *vocabulary]) == 0
    tokenizer, found = Tokenizer.from_file(f"{out}.tokenizer.json"), IndexedDataset(out)
    known = json.loads(Path(vocabulary[0]).read_text())
    assert {word: tokenizer.token_to_id(word) for word in known} == known
    assert [tokenizer.decode(found[number][:-1].tolist()) for number in range(len(found))] == texts
    assert found[0][-1] == known["<|endoftext|>"]
    # One stored tokenizer is another way to say it.
    again = str(tmp_path / "again")
    assert prepare.main(["--out", again, "--files", str(packed), "--vocabulary", f"{out}.tokenizer.json"]) == 0
    assert Path(f"{again}.bin").read_bytes() == Path(f"{out}.bin").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vocabulary", "{tmp}/none.json"], "none.json does not exist"),
        (["--vocabulary", "{merges}", "{vocab}"], "cannot be read as a vocabulary"),
        (["--vocabulary", "{vocab}", "{merges}", "{merges}"], "takes vocab.json and merges.txt"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_one_clear_sentence(
    arguments, message, packed, vocabulary, tmp_path, capsys
):
    names = {"tmp": tmp_path, "vocab": vocabulary[0], "merges": vocabulary[1]}
    given = [argument.format(**names) for argument in arguments]
    assert prepare.main(["--out", str(tmp_path / "x"), "--files", str(packed), *given]) == 2
    assert message in capsys.readouterr().err
