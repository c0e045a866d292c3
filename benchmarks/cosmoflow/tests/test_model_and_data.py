from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import pytest

from benchmarks.common.launch import Launch
from benchmarks.common.session import parse_options
from benchmarks.cosmoflow import prepare
from benchmarks.cosmoflow.prepare import sample
from benchmarks.cosmoflow.train import CosmoFlow
from jpwr.regions import RegionTimer
from tests.later import Later

pytestmark = pytest.mark.long

tf = Later("tensorflow")
data, model = (Later(f"benchmarks.cosmoflow.{name}") for name in ("data", "model"))
on_tensorflow, tfrecords = (Later(f"benchmarks.on_tensorflow.{name}") for name in ("target", "tfrecords"))


def on_cpu() -> Any:
    return on_tensorflow.Target("cpu", "fp32", False, tf.distribute.get_strategy())


def run_of(*flags: str, launch: Launch | None = None) -> CosmoFlow:
    run = CosmoFlow(parse_options(CosmoFlow, ["--size", "32", "--global-batch-size", "4", *flags]), launch or Launch())
    run.regions = RegionTimer()
    return run


def reading(folder: Any, *flags: str) -> CosmoFlow:
    return run_of("--data", "cosmoflow", "--data-dir", str(folder), *flags)


def test_dropout_leaves_out_the_same_units_of_a_sample_wherever_it_is():
    whole = model.factors(0.5, 1, 7, 8, 0, 8)
    second = model.factors(0.5, 1, 7, 8, 4, 4)
    for all_of_them, own in zip(whole, second, strict=True):
        assert np.array_equal(all_of_them[4:], own)
        assert set(np.unique(all_of_them)) == {0.0, 2.0}
    assert not np.array_equal(whole[0], model.factors(0.5, 1, 8, 8, 0, 8)[0])


def test_a_rank_has_its_part_of_the_same_global_batch():
    whole, wanted = data.made_batch(32, 1, 4, 0)
    second, wanted_of_second = data.made_batch(32, 1, 2, 1)
    assert np.array_equal(whole[2:], second)
    assert np.array_equal(wanted[2:], wanted_of_second)


@pytest.fixture(scope="module")
def volumes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("volumes")
    assert prepare.main(["--out", str(folder), "--size", "32", "--samples", "8", "--jobs", "1"]) == 0
    return folder


def test_made_volumes_are_files_of_one_packed_record_each(volumes):
    files = sorted(volumes.glob("*.tfrecord"))
    assert len(files) == 8
    [record] = tf.data.TFRecordDataset(str(files[3]), "GZIP")
    example = tf.io.parse_single_example(record, data.FEATURES)
    counts, targets = sample(32, (1234, 3))
    assert example["x"].numpy() == counts.tobytes()
    assert np.array_equal(example["y"], targets)
    packed = np.mean([len(gzip.compress(path.read_bytes())) for path in files])
    assert 4 < counts.nbytes / packed < 8  # simulated volumes: 5.9


def test_the_targets_show_in_the_volumes():
    """Lumps are the higher the second target is: of volumes of one seed, the deviation of the counts follows it."""
    spread = []
    for seed in range(12):
        counts, targets = sample(32, (5, seed))
        spread.append((targets[1], counts[..., -1].std()))
    assert np.corrcoef(np.array(spread).T)[0, 1] > 0.7


def test_batches_are_counts_and_targets_of_the_files(volumes):
    made = {sample(32, (1234, index))[1].tobytes(): sample(32, (1234, index))[0] for index in range(8)}
    batches = reading(volumes).open_batches(on_cpu())
    counts, targets = next(batches)
    assert (counts.dtype, counts.shape, targets.shape) == (tf.int16, (4, 32, 32, 32, 4), (4, 4))
    for one, wanted in zip(counts.numpy(), targets.numpy(), strict=True):
        assert np.array_equal(one, made[wanted.tobytes()])


def write(path: Any, volumes: list[tuple[bytes, list[float]]], packed: str = "GZIP") -> None:
    """As TensorFlow's own writer does, and nothing of ours."""
    with tf.io.TFRecordWriter(str(path), packed) as writer:
        for counts, targets in volumes:
            feature = {
                "x": tf.train.Feature(bytes_list=tf.train.BytesList(value=[counts])),
                "y": tf.train.Feature(float_list=tf.train.FloatList(value=targets)),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def volume(value: int, size: int = 32) -> tuple[bytes, list[float]]:
    return np.full((size, size, size, 4), value, np.int16).tobytes(), [value / 10] * 4


@pytest.mark.parametrize(("packed", "folder"), [("GZIP", "train"), ("", "train"), ("GZIP", "")])
def test_files_of_the_real_format_are_read_packed_or_not(tmp_path, packed, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    for value in range(4):
        write(tmp_path / folder / f"univ_ics_{value}.tfrecord", [volume(value)], packed)
    counts, targets = next(reading(tmp_path).open_batches(on_cpu()))
    assert sorted(np.unique(counts)) == [0, 1, 2, 3]
    assert np.allclose(counts[:, 0, 0, 0, 0] / 10, targets[:, 0])


def damage(folder: Any) -> int:
    """Files of which none can be used, beside others; how many."""
    path = folder / "cut.tfrecord"
    write(path, [volume(1)])
    path.write_bytes(path.read_bytes()[:-20])
    flipped = bytearray((folder / "good_0.tfrecord").read_bytes())
    flipped[len(flipped) // 2] ^= 0x55
    (folder / "flipped.tfrecord").write_bytes(flipped)
    (folder / "empty.tfrecord").write_bytes(b"")
    write(folder / "two.tfrecord", [volume(1), volume(2)])
    write(folder / "small.tfrecord", [volume(1, size=16)])
    write(folder / "nan.tfrecord", [(volume(1)[0], [float("nan")] * 4)])
    (folder / "gone.tfrecord").symlink_to(folder / "nowhere")
    return 7


def test_files_that_are_damaged_are_left_out_and_counted(tmp_path):
    for index in range(4):
        write(tmp_path / f"good_{index}.tfrecord", [volume(9)])
    bad = damage(tmp_path)
    batches = reading(tmp_path).open_batches(on_cpu())
    for _ in range(8):
        assert set(np.unique(next(batches)[0])) == {9}
    tried, damaged = batches.records()
    assert damaged / tried == pytest.approx(bad / (bad + 4), rel=0.2)


def test_a_step_in_parts_trains_as_a_whole_one_does():
    losses = []
    for in_parts in (False, True):
        run = run_of("--learning-rate", "0.1", "--learning-rate-warmup-steps", "1")
        trainer, batches = model.build_trainer(run.config, on_cpu(), run.regions), run.open_batches(on_cpu())
        for _ in range(2):
            (trainer.in_parts if in_parts else trainer.step)(*next(batches))
        trainer.call(batches)
        trainer.synchronize()
        losses.append(trainer.losses[-1])
    # Where two of a pooling's voxels are nearly the same, TensorFlow's kernels outside of a graph take both.
    assert losses[0] == pytest.approx(losses[1], rel=0.01)
