"""The program as a user starts it, its data, and what it optimizes."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from benchmarks.common.launch import Launch
from benchmarks.common.options import ConfigError
from benchmarks.common.session import parse_options
from benchmarks.common.tests.started import recorded
from benchmarks.resnet50_torch.train import ResNet50
from jpwr.regions import RegionTimer
from tests.later import Later

pytestmark = pytest.mark.long

torch, target = Later("torch"), Later("benchmarks.on_pytorch.target")
data = Later("benchmarks.resnet50_torch.data")
PROGRAM = "benchmarks.resnet50_torch"
SHORT = ["--image-size", "32", "--global-batch-size", "4", "--warmup-steps", "1", "--measured-steps", "2"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    prepare = f"-m benchmarks.resnet50.prepare --folders --out {folder} --images 6 --classes 3 --jobs 1"
    subprocess.run([sys.executable, *prepare.split()], check=True)
    return folder


def run_of(*flags: str) -> ResNet50:
    run = ResNet50(parse_options(ResNet50, ["--image-size", "32", *flags]), Launch())
    run.regions = RegionTimer()
    return run


def test_a_run_on_files_states_what_it_read(tmp_path, made):
    flags = ["--data", "fake-imagenet", "--data-dir", str(made), "--effective", "--rounds", "2"]
    found = recorded(tmp_path / "record.json", PROGRAM, *SHORT, *flags)
    metrics = found["metrics"]
    assert metrics["measured_images"] == metrics["effective_images"] == 8
    assert metrics["input_reading_percent"] + metrics["input_decoding_percent"] == pytest.approx(100)
    assert metrics["input_decoding_percent"] > metrics["input_reading_percent"]
    assert (found["variant"], found["sample"], found["config"]["kernels"]["compile"]) == (
        ["eager"],
        "32 pixels",
        "eager",
    )


@pytest.mark.slow
def test_a_compiled_model_has_the_losses_of_the_eager_one(tmp_path):
    flags = ["--learning-rate-warmup-steps", "1", "--compile"]
    kinds = ("eager", "inductor")
    found = [recorded(tmp_path / f"{kind}.json", PROGRAM, *SHORT, *flags, kind, workers=2) for kind in kinds]
    assert found[1]["losses"] == pytest.approx(found[0]["losses"], rel=1e-3)
    assert [one["variant"] for one in found] == [["eager"], ["compiled"]]


def test_kernels_alone_decay_and_the_rate_is_of_the_batch():
    run = run_of("--global-batch-size", "512", "--learning-rate-warmup-steps", "4")
    run._compiled = False
    trainer = run.open_trainer(target.Target("cpu", torch.device("cpu"), "fp32"))
    kernels, others = trainer.optimizer.param_groups
    assert (kernels["weight_decay"], others["weight_decay"], kernels["momentum"]) == (5e-5, 0, 0.9)
    assert len(kernels["params"]) == 53 + 1  # convolutions and the last layer
    assert len(others["params"]) == 2 * 53 + 1  # scale and shift of each norm, and the last layer's bias
    assert kernels["lr"] == others["lr"] == pytest.approx(0.2)


def jpeg(value: int, kind: str = "RGB", form: str = "JPEG") -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new(kind, (48, 40), value if kind == "L" else (value,) * 3).save(file, form)
    return file.getvalue()


def write(folder: Any, images: dict[str, bytes]) -> None:
    for name, content in images.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def test_images_have_the_label_of_their_folder_and_damaged_ones_are_counted(tmp_path):
    images = {"n2/grey.JPEG": jpeg(10, "L"), "n1/a.JPEG": jpeg(200), "n3/png.JPEG": jpeg(90, form="PNG")}
    write(tmp_path / "train", images | {"n1/cut.JPEG": jpeg(1)[:300], "n2/empty.JPEG": b"", "n3/text.JPEG": b"text"})
    run = run_of("--data", "imagenet", "--data-dir", str(tmp_path), "--global-batch-size", "3", "--parallel-files", "1")
    found = run.file_passes(torch.device("cpu"))
    values = {0: 200, 1: 10, 2: 90}
    for (samples, labels), _ in zip(found, range(4), strict=False):
        assert samples.shape == (3, 3, 32, 32)
        for sample, label in zip(samples, labels.tolist(), strict=True):
            pixels = sample.mean((1, 2)).numpy() * data.DEVIATION + data.MEAN
            assert np.allclose(pixels, values[label], atol=2)
    assert found.counts.damaged / found.counts.opens == pytest.approx(0.5, abs=0.15)


def test_more_classes_than_the_model_has_are_refused(tmp_path):
    write(tmp_path, {f"n{number}/a.JPEG": b"" for number in range(1001)})
    with pytest.raises(ConfigError, match="has 1001 folders with images: one for each of 1000 classes"):
        run_of("--data", "imagenet", "--data-dir", str(tmp_path)).reader()
