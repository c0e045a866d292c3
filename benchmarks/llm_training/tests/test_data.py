from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.common.options import ConfigError
from benchmarks.common.session import parse_options
from benchmarks.llm_training import prepare
from benchmarks.llm_training.train import Gpt
from tests.later import Later

torch, data = Later("torch"), Later("benchmarks.llm_training.data")

WORDS = "the quick brown fox measures power and energy of a device over a window".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder of ten documents of known text."""
    folder = tmp_path_factory.mktemp("corpus")
    random = np.random.default_rng(0)
    for number in range(10):
        (folder / f"{number}.txt").write_text(" ".join(random.choice(WORDS, 1000)))
    return folder


@pytest.fixture(scope="module")
def prefix(corpus, tmp_path_factory):
    prefix = str(tmp_path_factory.mktemp("data") / "text")
    assert prepare.main(["--out", prefix, "--files", str(corpus)]) == 0
    return prefix


def copy_of(prefix: str, folder: Path) -> str:
    for ending in (".bin", ".idx", ".json"):
        (folder / f"copy{ending}").write_bytes(Path(prefix + ending).read_bytes())
    return str(folder / "copy")


def test_samples_are_windows_of_the_text_one_token_longer_than_a_sequence(prefix):
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    samples = data.TextSamples(prefix, 8192, 64, seed=1)
    documents = IndexedDataset(prefix)
    text = " ".join(map(str, np.concatenate([documents[i] for i in range(10)])))
    sample = samples[0]
    assert sample.shape == (65,)
    # Documents are shuffled, so look for a piece that cannot reach over two of them.
    assert any(" ".join(map(str, sample[i : i + 20])) in text for i in (0, 20, 40))


def test_after_the_last_sample_comes_the_first(prefix):
    samples = data.TextSamples(prefix, 8192, 64, seed=1)
    assert np.array_equal(samples[0], samples[len(samples)])


def test_a_data_set_that_is_there_stays(prefix, corpus, capsys):
    before = Path(f"{prefix}.bin").stat().st_mtime_ns
    assert prepare.main(["--out", prefix, "--files", str(corpus)]) == 0
    assert "complete already" in capsys.readouterr().out
    assert Path(f"{prefix}.bin").stat().st_mtime_ns == before


def test_a_data_set_of_other_text_or_half_written_is_made_anew(prefix, corpus, tmp_path):
    copy = copy_of(prefix, tmp_path)
    Path(f"{copy}.bin").write_bytes(Path(f"{copy}.bin").read_bytes()[:-100])
    assert prepare.main(["--out", copy, "--files", str(corpus)]) == 0
    data.check_prefix(copy, 8192)
    (tmp_path / "other.txt").write_text(" ".join(WORDS * 200))
    assert prepare.main(["--out", copy, "--files", str(tmp_path / "other.txt")]) == 0
    assert json.loads(Path(f"{copy}.json").read_text())["documents"] == 1


@pytest.mark.parametrize(
    ("ending", "content", "message"),
    [
        (".idx", lambda whole: None, r"copy\.idx cannot be read .*No such file .*make it anew"),
        (".idx", lambda whole: whole[:20], "cannot be read"),
        (".idx", lambda whole: whole[:150], "it is truncated"),
        (".idx", lambda whole: b"x" * 1000, "no index of megatron-core"),
        (".bin", lambda whole: whole[:100], "has 100 bytes"),
    ],
)
def test_a_data_set_that_is_not_whole_is_refused(prefix, tmp_path, ending, content, message):
    copy = Path(copy_of(prefix, tmp_path))
    file = copy.with_suffix(ending)
    changed = content(file.read_bytes())
    file.unlink() if changed is None else file.write_bytes(changed)
    with pytest.raises(ConfigError, match=message):
        data.check_prefix(str(copy), 8192)


def test_tokens_outside_of_the_models_vocabulary_are_refused(prefix):
    with pytest.raises(ConfigError, match="vocabulary ends at 99"):
        data.check_prefix(prefix, 100)


def test_synthetic_samples_depend_on_seed_and_index_alone():
    samples = data.SyntheticSamples(8192, 64, seed=1)
    assert np.array_equal(samples[5], data.SyntheticSamples(8192, 64, seed=1)[5])
    assert not np.array_equal(samples[5], samples[6])
    assert not np.array_equal(samples[5], data.SyntheticSamples(8192, 64, seed=2)[5])
    assert samples[5].shape == (65,)
    assert 0 <= samples[5].min() <= samples[5].max() < 8192


def test_labels_are_the_tokens_that_follow():
    plan = BatchPlan(global_batch_size=4, micro_batch_size=2, data_parallel_size=1)
    samples = data.SyntheticSamples(100, 8, seed=1)
    tokens_BT, labels_BT = next(data.micro_batches(samples, plan, 0, torch.device("cpu"))).values()
    assert tokens_BT.shape == labels_BT.shape == (2, 8)
    assert torch.equal(tokens_BT[:, 1:], labels_BT[:, :-1])
    assert np.array_equal(tokens_BT[1].numpy(), samples[1][:-1])


def test_half_of_the_synthetic_tokens_of_a_judged_run_follow_from_the_token_before():
    tokens = data.SyntheticSamples(8192, 4096, seed=1, drawn=data.DRAWN)[3]
    follows = tokens[1:] == (data.FACTOR * tokens[:-1] + 1) % 8192
    assert follows.mean() == pytest.approx(1 - data.DRAWN, abs=0.05)


def test_a_seed_of_the_data_keeps_it_for_all_seeds_of_weights():
    def first(*flags: str) -> list[int]:
        return data.open_samples(parse_options(Gpt, list(flags)))[0].tolist()

    assert first("--seed", "5") != first("--seed", "6")
    assert first("--seed", "5", "--data-seed", "1") == first("--seed", "6", "--data-seed", "1")
