"""Records whose words and numbers differ from what their options, workload and system state."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import pytest

from caraml.cli import main
from record.derivation import derive
from record.model import Record
from record.part import as_json
from results.files import systems
from results.find import records
from results.tests.builder import altered
from results.tests.of_dicts import contradictions, with_todays_figures
from results.tests.test_derived import place

RECORDS = Path(__file__).parents[1] / "records" / "H200"
REAL = sorted(RECORDS.glob("*/result.json"))


def real(name="llm_800M_micro4_batch16_*"):
    [path] = RECORDS.glob(f"{name}/result.json")
    record = json.loads(path.read_text())
    record["metrics"] |= {"recomputed_flops_per_token": 0.0}
    return record


def scaled(record, flops=1.0, peak=1.0):
    """The same with other FLOPs or another peak, and all that follows from them."""
    metrics = record["metrics"]
    metrics["model_flops_per_token"] *= flops
    metrics["tflops_per_device"] *= flops
    metrics["peak_tflops_per_device"] *= peak
    metrics["mfu"] *= flops / peak
    metrics["hfu"] *= flops / peak
    record["config"]["run"]["peak_tflops_per_device"] *= peak
    command = record["provenance"]["command"]
    command[command.index("--peak-tflops-per-device") + 1] = str(metrics["peak_tflops_per_device"])
    return record


def longer(record, times):
    """The same with samples of another length, fewer of which make the same work."""
    for name in ("sequence_length", "work_per_sample"):
        record["layout"][name] *= times
    record["sample"] = f"{record['layout']['sequence_length']} tokens"
    record["metrics"]["measured_tokens"] *= times
    return record


def images():
    """A record of ResNet-50, as far as its workload states something of it."""
    record = real()
    record |= {"benchmark": "resnet50", "work_unit": "images", "model": "ResNet-50 v1.5", "sample": "224 pixels"}
    record["config"] |= {"model": {"variant": "v1.5", "image_size": 224}}
    record["layout"] |= {"image_size": 224, "sequence_length": None}
    record["metrics"] |= {"comparable": True, "model_flops_per_image": 24_535_105_536}
    return record


@pytest.mark.parametrize(
    ("record", "edit", "path"),
    [
        (real(), {"layout.grad_accum_steps": 8}, "layout.grad_accum_steps"),
        (real(), {"layout.tensor_parallel_size": 1, "sample": "9 tokens"}, "sample"),
        (images(), {"metrics.comparable": False}, "metrics.comparable"),
    ],
)
def test_a_fact_that_was_edited_is_shown_as_the_rest_of_the_record_has_it(record, edit, path):
    found = with_todays_figures(as_json(derive(Record.of(altered(deepcopy(record), edit)))))
    inside, last = place(found, path)
    wanted, _ = place(record, path)
    assert inside[last] == wanted[last]


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (longer(real(), 2), "sample is stored as '4096 tokens', but its model has '2048 tokens'"),
        (altered(real(), {"config.window.warmup_steps": 1}), "config.window.warmup_steps is stored as 1, but its"),
        (altered(real(), {"losses": real()["losses"][:-1]}), "it has 49 losses, but 45 measured and 5 warm-up steps"),
        (altered(real(), {"devices.0.name": "NVIDIA B200"}), "device GPU-1e1eebfc"),
        (altered(real(), {"energy.channels.0.source": "NVIDIA B200, instant power of the board by NVML"}), "device"),
        (altered(real(), {"windows.0.end_epoch_s": 2e9}), "its measured window of node vm lasts"),
        (altered(real(), {"provenance.created": "2026-11-27T06:01:23+00:00"}), "its measured window of node vm begins"),
        (
            altered(real(), {"config.run.system": "\u041d200"}),
            "system is stored as '\u041d200', which has U+041D",
        ),
    ],
)
def test_a_value_that_differs_from_what_is_stated_of_it_is_named(record, sentence):
    assert any(found.startswith(sentence) for found in contradictions(record)), contradictions(record)


@pytest.mark.parametrize(("group", "option"), [("turns", "effective"), ("run", "profile")])
def test_calls_beyond_the_window_have_losses_of_their_own(group, option):
    record = altered(real(), {"losses": [*real()["losses"], 5.0]})
    assert contradictions(record) == ["it has 51 losses, but 45 measured and 5 warm-up steps"]
    record["config"].setdefault(group, {})[option] = True
    assert contradictions(record) == []


def test_parameters_are_those_of_the_table_of_known_models():
    found = with_todays_figures(altered(real(), {"metrics.num_parameters": 13e9}))
    assert str(found["corrected"][0]) == "parameters: 1.3e+10 recorded, 908759040 in the tables"
    assert found["metrics"] == real()["metrics"]
    other = altered(real(), {"model": "mine", "metrics.num_parameters": 5.0})
    assert with_todays_figures(other)["metrics"]["num_parameters"] == 5.0


def test_a_length_that_was_asked_for_has_flops_of_its_own():
    record = longer(real(), 2)
    record["config"]["model"]["sequence_length"] = 4096
    assert not any(found.startswith("sample") for found in contradictions(record))
    corrected = with_todays_figures(record)
    assert corrected["metrics"]["model_flops_per_token"] == 7060586496


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (scaled(real(), flops=1.5), "FLOPs per unit of work: 9382920192 recorded, 6255280128 in the tables"),
        (scaled(real(), peak=500 / 989), "peak TFLOP/s per device: 500 recorded, 989 in the tables"),
    ],
)
def test_a_corrected_table_leaves_the_measurement_and_its_figures_follow(record, words):
    assert contradictions(record) == []
    found = with_todays_figures(record)
    assert str(found["corrected"][0]).startswith(words)
    wanted = real()["metrics"]
    assert found["metrics"] == {
        name: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value for name, value in wanted.items()
    }
    assert record["metrics"] != wanted
    assert with_todays_figures(real()) == real()


def test_a_corrected_data_sheet_leaves_out_no_run(monkeypatch, capsys):
    monkeypatch.setattr(records, "peak_of", lambda system, precision: 990.0)
    assert main(["table", str(RECORDS.parent), "--format", "csv"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1 + len(REAL) == 8
    assert "inconsistent" not in printed.err


@pytest.mark.parametrize(
    ("words", "options", "wrong"),
    [
        (["--rounds=6"], {"rounds": 5}, ["rounds is stored as 5, but its command line has 6.0"]),
        (["--rounds", "4", "--rounds", "6"], {"rounds": 6}, []),  # as argparse takes them
        (["--length", "4096"], {"length": None}, ["length is stored as 'null', but its command line has '4096'"]),
        (["--overlap", "auto"], {"overlap": True}, []),
        (["--overlap", "off"], {"overlap": True}, ["overlap is stored as True, but its command line has False"]),
        (["--no-pin"], {"pin": True}, ["pin is stored as True, but its command line has False"]),
        (["--unknown", "1", "-m", "--"], {"rounds": 6}, []),
    ],
)
def test_options_are_those_of_the_command_line(words, options, wrong):
    record = altered(real(), {"config.turns": options})
    record["provenance"]["command"] += words
    assert contradictions(record) == [f"config.turns.{sentence}" for sentence in wrong]


def test_peaks_are_those_of_the_readers_checkout(tmp_path, monkeypatch):
    record = altered(real(), {"system": "mine", "config.run.system": "mine"})
    record["provenance"]["command"][record["provenance"]["command"].index("H200")] = "mine"
    assert contradictions(record) == []  # of a system that is not described, nothing is known
    monkeypatch.setattr(systems, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    table = tmp_path / systems.SYSTEMS
    table.parent.mkdir(parents=True)
    block = {"vendor": "nvidia", "accelerator": "mine", "devices_per_node": 8, "hardware_source": "none"}
    table.write_text(json.dumps({"mine": {**block, "peak_tflops_bf16": 2000}}))
    assert with_todays_figures(record)["metrics"]["peak_tflops_per_device"] == 2000.0
    systems.known_systems.cache_clear()
    table.write_text("mine: 5")
    assert with_todays_figures(record) == record  # `caraml check` reports it
    systems.known_systems.cache_clear()
