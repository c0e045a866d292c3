"""`caraml predict` as a user types it."""

from __future__ import annotations

import csv
import io

import pytest

from caraml.cli import main
from results.tests.builder import result, store

BATCHES = (16, 32, 64, 128, 256, 512)


def stored(folder, records):
    return str(store(folder, list(records)))


def sweep(system, speed, power_w, **changes):
    for devices in (1, 2, 4):
        for batch in BATCHES:
            each = batch / devices
            share = each / (each + 1.2)
            power = power_w * (0.3 + 0.7 * share)
            yield result(system, devices, batch, speed * devices * share, power, model="800M", **changes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two systems, each without (2, 64) and (4, 512)."""
    records = [*sweep("A100", 22e3, 400), *sweep("H200", 55e3, 700)]
    left_out = [(2, 64), (4, 512)]
    records = [
        one for one in records if (one["layout"]["num_devices"], one["layout"]["global_batch_size"]) not in left_out
    ]
    return stored(tmp_path_factory.mktemp("runs") / "runs", records)


def rows(capsys):
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_without_a_question_what_is_missing_is_predicted(runs, capsys):
    assert main(["predict", runs, "--format", "csv"]) == 0
    found = rows(capsys)
    places = [(one["system"], one["devices"], one["global batch"]) for one in found]
    assert places == [(system, *place) for system in ("A100", "H200") for place in (("2", "64"), ("4", "512"))]
    assert float(found[0]["tokens/s"]) == pytest.approx(2 * 22e3 * 32 / 33.2, rel=0.03)
    assert {one["from"] for one in found} == {"smaller and larger batches", "batches on one side"}


def test_a_question_is_answered_for_the_system_it_names(runs, capsys):
    assert main(["predict", runs, "--system", "H200", "--devices", "8", "--batch", "512", "1024"]) == 0
    said = capsys.readouterr()
    assert said.out.count("H200 |") == 2
    assert "A100" not in said.out
    assert "PREDICTED, not measured" in said.out


QUESTIONS = {
    "no devices": (["--devices", "0"], "--devices 0 was asked for: it is at least 1"),
    "too many devices": (["--devices", "64", "--batch", "512"], "64 devices are not within 2 times"),
    "a batch that cannot be shared": (["--devices", "3", "--batch", "64"], "3"),
    "what was measured": (["--devices", "4", "--batch", "128"], "was measured: see its table"),
    "no such system": (["--system", "NONE"], "there is no run on NONE, nor a block of it in systems.yaml"),
    "no data sheet": (["--system", "GC200"], "GC200 has no peak_tflops_bf16 or no memory_gb_per_s_per_device"),
    "several nodes": (
        ["--system", "GH200", "--devices", "4"],
        "takes several nodes of it, and data sheets",
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_cannot_be_predicted_is_one_sentence(name, runs, capsys):
    options, words = QUESTIONS[name]
    assert main(["predict", runs, *options]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert all(line.startswith("caraml: ") for line in said.err.splitlines())
