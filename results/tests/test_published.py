from __future__ import annotations

import re

import pytest

from caraml.cli import main
from results import plots
from results.published import read_published, throughputs


def labels(path):
    return re.findall(r"<text [^>]*>([^<]+)</text>", path.read_text())


def test_the_heat_maps_show_every_published_value(tmp_path):
    assert main(["published", "--plot", "heat-maps", "-o", str(tmp_path / "heat.svg")]) == 0
    shown = labels(tmp_path / "heat.svg")
    found = throughputs("resnet50", "ResNet-50")
    assert len(found) > 190
    for one in found:
        assert plots.short(one.units_per_s) in shown
    # JURECA-DC, four A100 at batch 2048, and JEDI, four GH200 at batch 4096, read off the published plots.
    values = {(one.system, one.devices, one.global_batch): one.units_per_s for one in found}
    assert plots.short(values["JURECA-DC", 4, 2048]) == "6.79k"
    assert plots.short(values["JEDI", 4, 4096]) == "21.5k"


def test_the_bars_show_every_published_value(tmp_path):
    assert main(["published", "--plot", "bars", "-o", str(tmp_path / "bars.svg")]) == 0
    shown = labels(tmp_path / "bars.svg")
    metrics = ("throughput_per_gpu", "energy_per_gpu")
    figures = [one for one in read_published() if one.model == "GPT-800M" and one.metric in metrics]
    figures = [one for one in figures if one.global_batch_size]
    assert len(figures) == 72
    assert sorted(text for text in shown if re.fullmatch(r"[\d.]+k|\d{3}", text) and text not in AXES) == sorted(
        text for one in figures if (text := plots.short(float(one.value))) not in AXES
    )


AXES = {"128", "256", "512", "100", "200", "300", "400", "500", "600", "700", "800"}


def test_a_rate_per_device_becomes_that_of_all_devices():
    found = {(one.system, one.devices, one.global_batch): one for one in throughputs("llm_training", "800M")}
    assert found["JURECA-DC", 4, 16].units_per_s == 4 * 20416
    assert found["JURECA-MI200", 8, 32].units_per_s == 88620.76


def test_figures_of_resnet_stand_beside_all_its_variants():
    assert len(throughputs("resnet50", "ResNet-50 v1.5")) == len(throughputs("resnet50", "ResNet-50 v2")) > 190
    assert throughputs("resnet50", "tiny") == []


def test_every_figure_has_its_source():
    assert all(one.source and one.unit for one in read_published())


def test_figures_are_printed_with_their_sources(capsys):
    assert main(["published", "JEDI", "GPT-800M", "throughput_per_gpu"]) == 0
    out = capsys.readouterr().out
    assert "[1] github FZJ-JSC/CARAML" in out
    assert "39231" not in out  # that is another system's
    assert "40" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-machine"], "no published figure has no-such-machine"),
        (["--plot", "bars", "-o", "x.doc"], "a .png or a .svg"),
    ],
)
def test_a_wrong_wish_is_refused(arguments, message, capsys):
    assert main(["published", *arguments]) == 2
    assert message in capsys.readouterr().err
