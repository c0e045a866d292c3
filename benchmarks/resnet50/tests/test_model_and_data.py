from __future__ import annotations

import dataclasses
import math
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.common.launch import Launch
from benchmarks.common.options import ConfigError, ImageTrainingOptions
from benchmarks.common.session import parse_options
from benchmarks.on_tensorflow.options import ComputeOptions
from benchmarks.resnet50 import prepare
from benchmarks.resnet50.config import DataOptions
from benchmarks.resnet50.imagenet import find_tfrecords
from benchmarks.resnet50.train import ResNet50
from jpwr.regions import RegionTimer
from tests.later import Later

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[3]
keras, tf = Later("keras"), Later("tensorflow")
few_stages = Later("benchmarks.resnet50.tests.few_stages")
data, model = (Later(f"benchmarks.resnet50.{name}") for name in ("data", "model"))
on_tensorflow, tfrecords, trainers = (
    Later(f"benchmarks.on_tensorflow.{name}") for name in ("target", "tfrecords", "trainer")
)


def on_cpu() -> Any:
    return on_tensorflow.Target("cpu", "fp32", False, tf.distribute.get_strategy())


def test_logits_are_float32_in_mixed_precision():
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        made = model.build_model("v1.5", 32, 1)
    finally:
        keras.mixed_precision.set_global_policy(before)
    assert made(tf.zeros((1, 32, 32, 3))).dtype == tf.float32


def config(*flags: str) -> Any:
    return parse_options(ResNet50, ["--image-size", "64", "--global-batch-size", "8", *flags])


def flags_of(kind: str, folder: Path) -> list[str]:
    return ["--data", kind, *([] if kind.startswith("synthetic") else ["--data-dir", str(folder)])]


def batches_of(flags: list[str], target: Any, size: int, rank: int = 0, ranks: int = 1) -> Any:
    """Of one rank, each of so many pictures."""
    options = config(*flags, "--global-batch-size", str(size * ranks))
    return ResNet50(options, Launch(rank, ranks, rank, ranks)).open_batches(target)


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", "float32"), ("bf16", "bfloat16"), ("fp16", "float16")])
@pytest.mark.parametrize("kind", ["synthetic", "synthetic-host", "fake-imagenet"])
def test_images_are_of_the_type_that_is_computed_in(pictures, kind, precision, dtype):
    batches = batches_of(flags_of(kind, pictures), dataclasses.replace(on_cpu(), precision=precision), 4)
    images, labels = next(batches)
    assert (images.dtype.name, images.shape, labels.shape) == (dtype, (4, 64, 64, 3), (4,))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    assert prepare.main(["--out", str(folder), "--images", "32", "--files", "2"]) == 0
    return folder


def test_made_pictures_are_real_jpegs_of_the_usual_size_with_labels_from_1(pictures):
    files = find_tfrecords(DataOptions("imagenet", str(pictures)))
    assert [Path(file).name for file in files] == ["train-00000-of-00002", "train-00001-of-00002"]
    labels, sizes = [], []
    for serialised in tf.data.TFRecordDataset(list(map(str, files))):
        found = tf.io.parse_single_example(serialised, data.FEATURES)
        labels.append(int(found["image/class/label"]))
        image = tf.io.decode_jpeg(found["image/encoded"])
        sizes.append(len(found["image/encoded"].numpy()))
        assert 300 < image.shape[0] < 501
    assert sorted(labels) == list(range(1, 33))
    assert 30_000 < np.mean(sizes) < 200_000


def test_ranks_read_different_pictures(pictures):
    def labels(rank):
        batches = batches_of(flags_of("fake-imagenet", pictures), on_cpu(), 16, rank, 2)
        return set(next(batches)[1].numpy().tolist())

    assert labels(0) | labels(1) == set(range(32))
    assert not labels(0) & labels(1)


def test_a_rank_has_its_part_of_the_same_global_batch():
    whole, whole_labels = data.made_batch(config(), 8, 0)
    second, second_labels = data.made_batch(config(), 4, 1)
    assert np.array_equal(whole[4:], second)
    assert np.array_equal(whole_labels[4:], second_labels)


def imagenet_folder(folder):
    """Two classes of four pictures each, one of them a PNG, and one file that is no picture."""
    for name in ("n02", "n01"):
        (folder / name).mkdir(parents=True)
        for index in range(4):
            (folder / name / f"{name}_{index}.JPEG").write_bytes(jpeg(40 + index))
    (folder / "n01" / "n01_0.JPEG").write_bytes(tf.io.encode_png(np.zeros((40, 40, 3), np.uint8)).numpy())
    (folder / "n02" / "n02_9.JPEG").write_bytes(b"no picture")
    return folder


def imagenet_tar(folder):
    """A tar file of a tar file for each class, as ImageNet is handed out."""
    pictures = imagenet_folder(folder / "pictures")
    with tarfile.open(folder / "train.tar", "w") as whole:
        for name in ("n01", "n02"):
            with tarfile.open(folder / f"{name}.tar", "w") as one:
                for path in sorted((pictures / name).iterdir()):
                    one.add(path, path.name)
            whole.add(folder / f"{name}.tar", f"{name}.tar")
    return folder / "train.tar"


@pytest.mark.parametrize(
    ("make_source", "jobs"), [(imagenet_folder, "1"), pytest.param(imagenet_tar, "2", marks=pytest.mark.slow)]
)
def test_imagenet_is_converted_whole_and_what_is_no_picture_is_named(make_source, jobs, tmp_path, capsys):
    source, out = make_source(tmp_path / "source"), tmp_path / "out"
    assert prepare.main(["--imagenet", str(source), "--out", str(out), "--files", "3", "--jobs", jobs]) == 0
    files = find_tfrecords(DataOptions("imagenet", str(out)))
    assert [Path(file).name for file in files] == [f"train-{index:05d}-of-00003" for index in range(3)]
    found = [tf.io.parse_single_example(one, data.FEATURES) for one in tf.data.TFRecordDataset(list(map(str, files)))]
    sides = [(int(one["image/class/label"]), tf.io.decode_jpeg(one["image/encoded"]).shape[0]) for one in found]
    assert sorted(sides) == [(label, 40 + index) for label in (1, 2) for index in range(4)]
    assert (out / "classes.txt").read_text().split() == ["n01", "n02"]
    assert len((out / "train.left_out.txt").read_text().splitlines()) == 1
    assert "1 files are not images" in capsys.readouterr().err


def test_files_that_are_missing_are_not_trained_without(pictures, tmp_path):
    shutil.copy(pictures / "train-00000-of-00002", tmp_path)
    with pytest.raises(ConfigError, match="has 1 of 2 TFRecords"):
        find_tfrecords(DataOptions("imagenet", str(tmp_path)))


def jpeg(side=80, grey=0):
    return tf.io.encode_jpeg(np.full((side, side, 3), grey, np.uint8)).numpy()


def write_records(path, examples):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for encoded, label in examples:
            writer.write(prepare.serialise(encoded, label))


def test_records_that_are_damaged_are_left_out_and_counted(tmp_path):
    good = [(jpeg(grey=20 * i), 1 + i) for i in range(10)]
    write_records(
        tmp_path / "train-00000-of-00001", [*good, (b"no jpeg", 1), (jpeg()[:200], 2), (jpeg(), 1001), (jpeg(), 0)]
    )
    batches = batches_of(flags_of("imagenet", tmp_path), on_cpu(), 5)
    labels = set()
    for _ in range(8):
        images, found = next(batches)
        labels |= set(found.numpy().tolist())
        assert np.allclose(images[:, 0, 0, 0], (20 * found.numpy() - data.MEAN[0]) / data.DEVIATION[0], atol=0.1)
    read, damaged = batches.records()
    assert labels == set(range(10))
    assert read >= 40
    assert damaged / read == pytest.approx(4 / 14, rel=0.2)


def copied_ahead() -> Any:
    """A target as that of a process with one GPU, to which batches are copied in advance; here it is the CPU."""
    kind = type("Copied", (on_tensorflow.Target,), {"copied_to": "/CPU:0"})
    return kind(*(getattr(on_cpu(), field.name) for field in dataclasses.fields(kind)))


@pytest.mark.parametrize("steps_per_call", [1, 2])
@pytest.mark.parametrize("kind", ["synthetic-host", "fake-imagenet"])
def test_batches_that_are_copied_ahead_train_as_others_do(pictures, monkeypatch, kind, steps_per_call):
    monkeypatch.setattr("benchmarks.resnet50.model.STAGES", few_stages.FEW_STAGES)
    flags, target = [*flags_of(kind, pictures), "--steps-per-call", str(steps_per_call)], copied_ahead()
    trainer, batches = model.build_trainer(config(*flags), target, RegionTimer()), batches_of(flags, target, 4)
    for _ in range(3):
        trainer.call(batches)
    assert all(math.isfinite(loss) for loss in trainer.losses)
    images, labels = next(batches)
    assert (images.shape, labels.shape) == ((4, 64, 64, 3), (4,))
    assert batches.records()[1] == 0


@pytest.mark.parametrize("is_copied", [False, True])
def test_data_without_one_good_record_is_an_error_and_no_endless_search(tmp_path, is_copied):
    write_records(tmp_path / "train-00000-of-00001", [(b"no jpeg", 1)] * 5)
    batches = batches_of(flags_of("imagenet", tmp_path), copied_ahead() if is_copied else on_cpu(), 5)
    with pytest.raises(tfrecords.DataError, match="no record of the data can be used: 5 were tried"):
        next(batches)


@pytest.mark.parametrize(
    ("details", "asked", "precision"),
    [
        ({"device_name": "Tesla V100", "compute_capability": (7, 0)}, "auto", "fp16"),
        ({"device_name": "Tesla V100", "compute_capability": (7, 0)}, "bf16", None),
        ({"device_name": "NVIDIA A100", "compute_capability": (8, 0)}, "auto", "bf16"),
        ({"device_name": "AMD Instinct MI300X"}, "auto", "bf16"),
    ],
)
def test_a_gpu_without_bf16_trains_in_fp16_unless_bf16_is_asked_for(details, asked, precision, monkeypatch):
    gpu, experimental = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU"), tf.config.experimental
    for owner, name, found in (
        (tf.config, "list_physical_devices", [gpu]),
        (tf.config, "set_visible_devices", None),
        (experimental, "set_memory_growth", None),
        (experimental, "get_device_details", details),
        (experimental, "enable_tensor_float_32_execution", None),
        (keras.mixed_precision, "set_global_policy", None),
    ):
        monkeypatch.setattr(owner, name, lambda *_, found=found: found)
    options = ComputeOptions(precision=asked)
    if precision is None:
        with pytest.raises(ConfigError, match="Tesla V100 has no bf16: use fp16 or fp32"):
            on_tensorflow.choose_target(options, Launch())
    else:
        target = on_tensorflow.choose_target(options, Launch())
        assert (target.precision, target.copied_to) == (precision, "/GPU:0")


def test_tensorflow_is_told_of_all_workers():
    one_node = on_tensorflow.tf_config(Launch(1, 2, 1, 2), {"MASTER_ADDR": "localhost", "MASTER_PORT": "5000"})
    assert one_node == {
        "cluster": {"worker": ["localhost:5000", "localhost:5001"]},
        "task": {"type": "worker", "index": 1},
    }
    two_nodes = on_tensorflow.tf_config(Launch(2, 4, 0, 2), {"CARAML_NODES": "a,b", "MASTER_PORT": "5000"})
    assert two_nodes["cluster"]["worker"] == ["a:5000", "a:5001", "b:5002", "b:5003"]
    with pytest.raises(ConfigError, match="has 1 nodes"):
        on_tensorflow.tf_config(Launch(2, 4, 0, 2), {"CARAML_NODES": "a", "MASTER_PORT": "5000"})


def test_several_steps_in_one_call_train_as_many_calls_do(monkeypatch):
    monkeypatch.setattr("benchmarks.resnet50.model.STAGES", few_stages.FEW_STAGES)
    losses = []
    for flags, calls in ((["--steps-per-call", "3"], 1), ([], 3)):
        trainer, batches = model.build_trainer(config(*flags), on_cpu(), RegionTimer()), batches_of(flags, on_cpu(), 8)
        for _ in range(calls):
            trainer.call(batches)
        trainer.synchronize()
        losses.append(trainer.losses[-1])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0] == pytest.approx(6.9, abs=0.5)  # of chance alone


def test_the_learning_rate_rises_in_a_line_and_stays():
    rate = trainers.rising_rate(ImageTrainingOptions(learning_rate=0.1).highest_rate(512), 4)
    assert [float(rate(step)) for step in (0, 1, 3, 4, 100)] == pytest.approx([0.05, 0.1, 0.2, 0.2, 0.2])
    assert trainers.rising_rate(0.1, 1) == 0.1
