"""`caraml predict` as a user types it."""

from __future__ import annotations

import csv
import io

import pytest

from caraml.cli import main
from results.predict.examples import TRAINING
from results.tests.made_up import failed, result, store
from results.tests.test_serving import served

BATCHES = (16, 32, 64, 128, 256, 512)


def stored(folder, records):
    return str(store(folder, list(records)))


def sweep(system, speed, power_w, **changes):
    for devices in (1, 2, 4):
        for batch in BATCHES:
            each = batch / devices
            share = each / (each + 1.2)
            record = result(
                system, devices, batch, speed * devices * share, power_w * (0.3 + 0.7 * share), model="800M", **changes
            )
            record["metrics"]["num_parameters"] = 908_759_040
            yield record


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two systems, each without (2, 64) and (4, 512); the first of these failed on the A100."""
    records = [*sweep("A100", 22e3, 400), *sweep("H200", 55e3, 700)]
    left_out = [(2, 64), (4, 512)]
    records = [
        one for one in records if (one["layout"]["num_devices"], one["layout"]["global_batch_size"]) not in left_out
    ]
    return stored(tmp_path_factory.mktemp("runs") / "runs", [*records, failed("A100", 2, 64, model="800M")])


def rows(capsys):
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_without_a_question_what_is_missing_is_predicted(runs, capsys):
    assert main(["predict", runs, "--format", "csv"]) == 0
    found = rows(capsys)
    places = [(one["system"], one["devices"], one["global batch"]) for one in found]
    assert places == [(system, *place) for system in ("A100", "H200") for place in (("2", "64"), ("4", "512"))]
    assert float(found[0]["tokens/s"]) == pytest.approx(2 * 22e3 * 32 / 33.2, rel=0.03)
    assert {one["level"] for one in found} == {"interpolated", "calibrated"}


def test_a_question_is_answered_for_the_system_it_names(runs, capsys):
    assert main(["predict", runs, "--system", "H200", "--devices", "8", "--batch", "512", "1024"]) == 0
    said = capsys.readouterr()
    assert said.out.count("H200 |") == 2
    assert "A100" not in said.out
    assert "PREDICTED, not measured" in said.out


def test_a_system_without_a_run_is_predicted_from_its_datasheet(runs, capsys):
    assert main(["predict", runs, "--system", "H100", "--batch", "128", "--devices", "4", "--format", "csv"]) == 0
    [found] = rows(capsys)
    assert found["level"] == "datasheet (experimental)"
    assert found["energy"].startswith("Q0, ESTIMATED")
    # Where published figures of an H100 PCIe are.
    assert float(found["low tokens/s"]) < 4 * 30e3 < float(found["high tokens/s"])


def test_another_size_is_predicted(runs, capsys):
    assert main(["predict", runs, "--system", "H200", "--size", "13B", "--devices", "4", "--batch", "64"]) == 0
    assert "13B" in capsys.readouterr().out


QUESTIONS = {
    "no devices": (["--devices", "0"], "--devices 0 was asked for: it is at least 1"),
    "a negative batch": (["--batch", "-4"], "--batch -4 was asked for: it is at least 1"),
    "too many devices": (["--devices", "64", "--batch", "512"], "64 devices are more than 4 times above or below"),
    "too large a batch": (["--batch", "65536", "--devices", "4"], "batch 65536 is more than 4 times above or below"),
    "a batch that cannot be shared": (["--devices", "3", "--batch", "64"], "3"),
    "what was measured": (["--devices", "4", "--batch", "128"], "was measured: see its table"),
    "another precision": (["--precision", "fp8"], "fp8 was asked for, and the runs are in bf16"),
    "no such system": (["--system", "NONE"], "there is no run on NONE, nor a block of it in systems.yaml"),
    "a datasheet without a bandwidth": (["--system", "GC200"], "GC200 has no peak_tflops_bf16 and no memory_gb_per_s"),
    "a model of another kind": (["--size", "v1.5"], "GPT training has no model v1.5"),
    "points without validation": (["--points", "x.csv"], "--points needs --validate"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_cannot_be_predicted_is_one_sentence(name, runs, capsys):
    options, words = QUESTIONS[name]
    assert main(["predict", runs, *options]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert all(line.startswith("caraml: ") for line in said.err.splitlines())


def test_nothing_to_predict_from_is_said(tmp_path, capsys):
    for arguments, words in (
        ([], "predict needs runs to predict from"),
        ([str(tmp_path / "none")], "does not exist"),
        ([stored(tmp_path / "failed", [failed()])], "no run was good"),
        ([stored(tmp_path / "served", [served()])], "each good run is of a server"),
        ([stored(tmp_path / "one", [result()]), "--batch", "16"], "has 1 good points, but a prediction needs 3"),
    ):
        assert main(["predict", *arguments]) == 2
        assert words in capsys.readouterr().err


def test_a_whole_sweep_has_nothing_that_is_missing(tmp_path, capsys):
    folder = stored(tmp_path / "whole", sweep("A100", 22e3, 400))
    assert main(["predict", folder]) == 2
    assert (
        "no point of the sweep is missing: give the points to predict by --devices or --batch"
        in capsys.readouterr().err
    )


def test_unlike_software_is_predicted_apart(tmp_path, capsys):
    newer = {"packages": {"torch": "2.20.0"}}
    records = [*sweep("A100", 22e3, 400), *sweep("A100", 33e3, 400)]
    for record in records[len(records) // 2 :]:
        record["provenance"] = {**record["provenance"], **newer}
    folder = stored(tmp_path / "two", records)
    assert main(["predict", folder, "--devices", "4", "--batch", "1024", "--format", "csv"]) == 0
    speeds = sorted(float(one["tokens/s"]) for one in rows(capsys))
    assert len(speeds) == 2
    assert speeds[1] / speeds[0] == pytest.approx(1.5, rel=0.05)


def test_a_layout_that_predictions_do_not_know_is_refused(tmp_path, capsys):
    records = [one for one in sweep("A100", 22e3, 400) if one["layout"]["num_devices"] > 1]
    for record in records:
        layout = record["layout"]
        layout |= {"context_parallel_size": 2, "data_parallel_size": layout["num_devices"] // 2}
        layout["grad_accum_steps"] = (
            layout["global_batch_size"] // layout["micro_batch_size"] // layout["data_parallel_size"]
        )
    folder = stored(tmp_path / "shared", records)
    assert main(["predict", folder, "--system", "H100", "--batch", "128", "--devices", "4"]) == 2
    assert "800M ran with context parallelism, which predictions do not know" in capsys.readouterr().err


def test_a_disturbed_point_is_named(tmp_path, capsys):
    records = list(sweep("A100", 22e3, 400))
    places = [(one["layout"]["num_devices"], one["layout"]["global_batch_size"]) for one in records]
    slow = records[places.index((2, 64))]
    records[records.index(slow)] = result("A100", 2, 64, slow["metrics"]["tokens_per_s"] / 2, model="800M")
    assert main(["predict", stored(tmp_path / "runs", records), "--devices", "8", "--batch", "512"]) == 0
    assert "2 devices, batch 64: outlier" in capsys.readouterr().err


def test_validation_tells_each_level(runs, tmp_path, capsys):
    further = tmp_path / "further.csv"
    lines = TRAINING.read_text().splitlines()
    further.write_text("\n".join([lines[0], *lines[20:40]]))
    assert main(["predict", runs, "--validate", "--points", str(further), "--format", "csv"]) == 0
    found = rows(capsys)
    assert {one["level"] for one in found} == {"interpolated", "calibrated", "datasheet (experimental)"}
    assert {"these runs", "further.csv"} <= {word for one in found for word in one["of"].split(", ")}
    for one in found:
        assert int(one["N"]) > 0
        assert float(one["median [%]"]) <= float(one["largest [%]"])


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "id,layers\n1,x\n"])
def test_points_of_another_form_are_refused(text, tmp_path, capsys):
    further = tmp_path / "further.csv"
    further.write_text(text)
    assert main(["predict", "--validate", "--points", str(further)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"caraml: {further} ")


def test_a_datasheet_does_not_tell_of_more_devices_than_anybody_had(runs, capsys):
    assert main(["predict", runs, "--system", "H200", "--size", "13B", "--devices", "8192", "--batch", "32768"]) == 2
    assert "8192 devices are more than 4 times the 768 of which points are known" in capsys.readouterr().err


def test_a_datasheet_needs_the_network_beyond_a_node(runs, capsys):
    assert main(["predict", runs, "--system", "H100", "--devices", "8", "--batch", "512"]) == 2
    assert "H100 has no network_gb_per_s_per_device in systems.yaml, which 8 devices need" in capsys.readouterr().err


def test_a_datasheet_does_not_tell_of_a_precision_that_nobody_published(tmp_path, capsys):
    folder = stored(tmp_path / "runs", sweep("A100", 2e3, 400, precision="fp32"))
    assert main(["predict", folder, "--system", "H100"]) == 2
    assert "the runs are in fp32, and what was published to learn datasheets from is in bf16" in capsys.readouterr().err


@pytest.mark.parametrize(("system", "known"), [("H200", "36 points of 2 devices"), ("A100", "43 points of 2 sources")])
def test_a_datasheet_does_not_tell_of_a_precision_that_too_few_published(system, known, tmp_path, capsys):
    folder = stored(tmp_path / "runs", sweep(system, 9e3, 400, precision="fp8"))
    assert main(["predict", folder, "--system", "H100", "--devices", "4", "--batch", "128"]) == 2
    said = capsys.readouterr().err
    assert f"in fp8 was asked for by its datasheet, but only {known} are known to estimate the error: measure" in said
    assert len(said.splitlines()) == 1


def test_points_of_an_unknown_device_are_refused_in_one_sentence(tmp_path, capsys):
    further = tmp_path / "further.csv"
    lines = TRAINING.read_text().splitlines()
    further.write_text("\n".join([lines[0], *lines[20:40]]).replace("h100_80gb", "h100_96gb_hbm2e_500w"))
    assert main(["predict", "--validate", "--points", str(further)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert line.startswith("caraml: device 'h100_96gb_hbm2e_500w' was asked for, but ")
