from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from benchmarks.common.launch import Launch
from benchmarks.common.options import ConfigError
from benchmarks.common.session import parse_options
from benchmarks.deepcam import prepare
from benchmarks.deepcam.config import FREQUENCIES, SIZES
from benchmarks.deepcam.train import DeepCam
from jpwr.regions import RegionTimer
from tests.later import Later

pytestmark = pytest.mark.long

h5py, torch = Later("h5py"), Later("torch")
target, trainer = (Later(f"benchmarks.on_pytorch.{name}") for name in ("target", "trainer"))
SMALL = (32, 48)


@pytest.fixture
def small(monkeypatch):
    """Few blocks and small pictures."""
    monkeypatch.setitem(SIZES, "192x288", SMALL)
    monkeypatch.setattr("benchmarks.deepcam.model.MIDDLE_BLOCKS", 1)


def on_cpu() -> Any:
    return target.Target("cpu", torch.device("cpu"), "fp32")


def run_of(*flags: str) -> DeepCam:
    run = DeepCam(parse_options(DeepCam, ["--size", "192x288", *flags]), Launch())
    run.regions = RegionTimer()
    return run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    assert prepare.main(["--out", str(folder), "--size", "192x288", "--samples", "4", "--jobs", "1"]) == 0
    return folder


def test_made_fields_are_files_as_the_data_set_has_them(made):
    files = sorted(made.glob("data-*.h5"))
    assert len(files) == 4
    with h5py.File(files[2]) as file, h5py.File(made / "stats.h5") as stats:
        values, labels = file["climate/data"], file["climate/labels_0"]
        assert (values.shape, values.dtype, labels.shape) == ((192, 288, 16), np.float32, (192, 288))
        assert set(np.unique(labels)) <= {0, 1, 2}
        low, high = (stats[f"climate/{name}"][...] for name in ("minval", "maxval"))
        assert np.all(values[...] >= low)
        assert np.all(values[...] <= high)


def test_classes_are_as_seldom_as_in_the_real_set():
    found = np.zeros(3)
    for seed in range(60):
        found += np.bincount(prepare.sample(192, 288, (1, seed))[1].ravel(), minlength=3)
    shares = found / found.sum()
    assert shares[2] == pytest.approx(FREQUENCIES[2], rel=0.1)
    assert shares[1] == pytest.approx(FREQUENCIES[1], rel=0.5)  # a few places of each picture at most
    assert NormalDist().cdf(prepare.RIVER) == pytest.approx(1 - FREQUENCIES[2])


def write(
    folder: Any, name: str, value: float = 1.0, shape: tuple[int, ...] = SMALL, label: int = 2, **options: Any
) -> None:
    """As h5py's own user would, and nothing of ours."""
    with h5py.File(folder / name, "w") as file:
        group = file.create_group("climate")
        group.create_dataset("data", data=np.full((*shape, 16), value, np.float32), **options)
        group.create_dataset("labels_0", data=np.full(shape, label, np.int64), **options)


def write_stats(folder: Any, low: float = 0.0, high: float = 4.0) -> None:
    with h5py.File(folder / "stats.h5", "w") as file:
        for name, value in (("minval", low), ("maxval", high), ("mean", 1.0), ("sqmean", 1.0)):
            file[f"climate/{name}"] = np.full(16, value)
        file["climate/count"] = 3


def passes_of(run: DeepCam) -> Any:
    return run.file_passes(torch.device("cpu"))


@pytest.mark.parametrize("options", [{}, {"compression": "gzip", "chunks": True}])
@pytest.mark.parametrize("folder", ["", "train"])
def test_files_of_the_real_format_are_read(small, tmp_path, folder, options):
    (tmp_path / folder).mkdir(exist_ok=True)
    for index in range(3):
        write(tmp_path / folder, f"data-2000-{index}.h5", value=float(index), label=index, **options)
    write_stats(tmp_path)
    found = passes_of(run_of("--data", "deepcam", "--data-dir", str(tmp_path)))
    values = set()
    for _, (samples, labels) in zip(range(6), found, strict=False):
        assert samples.shape == (2, 16, *SMALL)
        assert samples.is_contiguous()
        assert labels.dtype == torch.int64
        for one, label in zip(samples, labels, strict=True):
            assert one.min() == one.max() == pytest.approx(float(label[0, 0]) / 4)
            values.add(int(label[0, 0]))
    assert values == {0, 1, 2}
    counts = found.counts
    assert (counts.samples, counts.opens, counts.damaged) == (12, 12, 0)
    assert min(counts.bytes, counts.reading_s, counts.decoding_s) > 0


def test_files_that_are_damaged_are_left_out_and_counted(small, tmp_path):
    for index in range(4):
        write(tmp_path, f"data-{index}.h5")
    write_stats(tmp_path)
    write(tmp_path, "data-large.h5", shape=(64, 96))
    write(tmp_path, "data-class.h5", label=3)
    write(tmp_path, "data-negative.h5", label=-1)
    whole = (tmp_path / "data-0.h5").read_bytes()
    (tmp_path / "data-cut.h5").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "data-empty.h5").touch()
    (tmp_path / "data-gone.h5").symlink_to(tmp_path / "nowhere")
    with h5py.File(tmp_path / "data-other.h5", "w") as file:
        file["weather"] = 1
    found = passes_of(run_of("--data", "deepcam", "--data-dir", str(tmp_path), "--global-batch-size", "1"))
    for (samples, labels), _ in zip(found, range(40), strict=False):
        assert samples.min() == samples.max() == 0.25
        assert labels.min() == labels.max() == 2
    assert found.counts.damaged / (found.counts.samples + found.counts.damaged) == pytest.approx(7 / 11, rel=0.2)


def test_data_without_one_good_file_is_an_error_and_no_endless_search(small, tmp_path):
    write(tmp_path, "data-large.h5", shape=(64, 96))
    write_stats(tmp_path)
    with pytest.raises(Exception, match="no file of the data can be used: 1 were tried"):
        next(iter(passes_of(run_of("--data", "deepcam", "--data-dir", str(tmp_path)))))


def test_statistics_that_cannot_be_used_are_one_clear_sentence(small, tmp_path):
    write(tmp_path, "data-0.h5")
    write_stats(tmp_path, low=4.0)
    run = run_of("--data", "deepcam", "--data-dir", str(tmp_path))
    with pytest.raises(ConfigError, match="has no range above 0 for each of 16 channels"):
        run.reader()
    (tmp_path / "stats.h5").write_bytes(b"no HDF5")
    with pytest.raises(ConfigError, match="has no minima and maxima"):
        run.reader()
    (tmp_path / "stats.h5").unlink()
    with pytest.raises(ConfigError, match=r"there is no stats\.h5 in"):
        run.reader()


def test_accumulated_gradients_are_those_of_the_passes_mean(small):
    """Two passes of one sample are a step on their mean: the update is made once, of both."""
    run = run_of("--global-batch-size", "2", "--micro-batch-size", "1")
    with target.process_group(on_cpu()):
        own = run.build(on_cpu())
        replica = own.trainer.model
        passes = own.data.take()
        assert len(passes) == 2
        gradients = []
        for samples, labels in passes:
            replica.zero_grad()
            weights = torch.tensor([one**-0.125 for one in FREQUENCIES])
            logits = replica(samples)
            torch.nn.functional.cross_entropy(logits, labels, weights, reduction="none").mean().backward()
            gradients.append([weight.grad.clone() for weight in replica.parameters()])
        seen: list[Any] = []
        own.trainer.optimizer.register_step_pre_hook(
            lambda optimizer, *_: seen.append([weight.grad.clone() for weight in replica.parameters()])
        )
        own.data.step(passes)
    [summed] = seen
    for first, second, found in zip(*gradients, summed, strict=True):
        assert torch.allclose(found, (first + second) / 2, rtol=1e-3, atol=1e-6)
