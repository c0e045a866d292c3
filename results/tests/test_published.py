from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from caraml.cli import main
from results.published import published, throughputs
from results.show.tables.table import anchor_table
from results.tests import builder
from results.tests.of_dicts import by_point
from tests.conftest import SHIPPED


def test_a_rate_per_device_becomes_that_of_all_devices():
    found = {(one.system, one.devices, one.global_batch): one for one in throughputs("llm_training", "800M")}
    assert found["JURECA-DC", 4, 16].units_per_s == 4 * 20416
    assert found["JURECA-MI200", 8, 32].units_per_s == 88620.76


def test_a_smaller_input_than_the_published_one_has_no_figures():
    assert throughputs("cosmoflow", "CosmoFlow 32") == []
    assert throughputs("deepcam", "DeepCAM 192x288") == []


def test_figures_are_printed_with_their_sources(capsys):
    assert main(["published", "JEDI", "GPT-800M", "throughput_per_gpu"]) == 0
    out = capsys.readouterr().out
    assert "[1] github FZJ-JSC/CARAML" in out
    assert "39,231" not in out  # that is another system's
    assert "36,037" in out


def test_words_without_a_figure_are_named(capsys):
    assert main(["published", "no-such-machine"]) == 2
    assert "no published figure has no-such-machine" in capsys.readouterr().err


H200 = Path(__file__).parents[1] / "records" / "H200"


def test_figures_of_the_same_chip_are_next_to_ours_with_software_and_source(capsys):
    assert main(["published", "--results", str(H200)]) == 0
    lines = capsys.readouterr().out.splitlines()
    ours, theirs = ([line for line in lines if word in line] for word in (", ours", ", published"))
    assert [line.split("|")[1].strip() for line in ours] == ["117M"] * 3 + ["800M"] * 3
    assert [line.split("|")[8].strip() for line in ours[:3]] == ["tokens/s/device", "J/token", "% of achievable"]
    assert any(
        re.search(r"92,500 \| tokens/s/device \| +nanochat 92d63d4, one scale per tensor", line) for line in theirs
    )
    # An H200 has the chip of an H100.
    assert all("read 2026-11-2" in line and re.match(r" *H(100 SXM|200),", line) for line in theirs)


def test_a_chip_without_published_figures_is_said(tmp_path, capsys):
    builder.store(tmp_path, [builder.result("MI250", 1, 8, 1e4, 300.0)])
    assert main(["published", "--results", str(tmp_path)]) == 2
    assert "no figure is known that was published for the same chip" in capsys.readouterr().err


def test_a_figure_without_a_precision_is_in_the_table():
    table = anchor_table(by_point([builder.result("B300") | {"benchmark": "llm_inference"}]))
    unstated = [row for row in table.rows if "MLPerf Inference v6.1" in row]
    assert {(row[table.at("model")], row[table.at("precision")]) for row in unstated[:2]} == {
        ("gpt-oss-120b", "not stated")
    }
    assert all("derived; total / number of accelerators" in row[-1] for row in unstated)


def test_every_figure_has_a_source_and_a_recent_one_a_system_and_a_date():
    assert all(one.source and one.unit for one in published())
    for one in filter(lambda figure: figure.read, published()):
        assert {*one.systems.split(), *one.like.split()} <= SHIPPED
        assert date.fromisoformat(one.read) <= date.today()
        assert one.unit in ("tokens/s/device", "output tokens/s/device", "J/output token", "TFLOP/s/device", "min")
        assert float(one.value) > 0


def test_an_estimated_energy_is_not_next_to_published_ones():
    measured, estimated = (by_point([builder.result("A100", estimated=one)]) for one in (False, True))
    tables = [anchor_table(one) for one in (measured, estimated)]
    units = [{row[one.at("unit")] for row in one.rows if row[0] == "A100, ours"} for one in tables]
    assert units == [{"tokens/s/device", "J/token"}, {"tokens/s/device"}]
