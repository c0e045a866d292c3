from __future__ import annotations

import re
from datetime import date
from html import escape
from pathlib import Path

import pytest

from caraml.cli import main
from results.record.model import Record
from results.record.records import find_records
from results.reference.anchors import PER_DEVICE_UNITS, read_anchors
from results.reference.published import EFFECTIVE, read_published, throughputs
from results.show.page.sections import sections_of
from results.show.plots.style import GREY, SPEED, styles_of_systems
from results.show.plots.sweep import over_batch, short
from results.show.plots.systems import compute_and_effective
from results.show.tables.anchors import anchor_table
from results.tests import made_up
from results.tests.of_dicts import by_point, write_report
from tests.conftest import SHIPPED


def labels(path):
    return re.findall(r"<text [^>]*>([^<]+)</text>", path.read_text())


def test_the_heat_maps_show_every_published_value(tmp_path):
    assert main(["published", "--plot", "heat-maps", "-o", str(tmp_path / "heat.svg")]) == 0
    shown = labels(tmp_path / "heat.svg")
    found = [one for one in throughputs("resnet50", "ResNet-50") if one.figure.benchmark != "mlperf"]
    assert len(found) > 190
    assert not [text for text in shown if text.startswith("ARCHER2")]
    for one in found:
        assert short(one.units_per_s) in shown
    # JURECA-DC, four A100 at batch 2048, and JEDI, four GH200 at batch 4096, read off the published plots.
    values = {(one.system, one.devices, one.global_batch): one.units_per_s for one in found}
    assert short(values["JURECA-DC", 4, 2048]) == "6.79k"
    assert short(values["JEDI", 4, 4096]) == "21.5k"


def test_the_bars_show_every_published_value(tmp_path):
    assert main(["published", "--plot", "bars", "-o", str(tmp_path / "bars.svg")]) == 0
    shown = labels(tmp_path / "bars.svg")
    metrics = ("throughput_per_gpu", "energy_per_gpu")
    figures = [one for one in read_published() if one.model == "GPT-800M" and one.metric in metrics]
    figures = [one for one in figures if one.global_batch_size]
    assert len(figures) == 72
    assert sorted(text for text in shown if re.fullmatch(r"[\d.]+k|\d{3}", text) and text not in AXES) == sorted(
        text for one in figures if (text := short(float(one.value))) not in AXES
    )


AXES = {"128", "256", "512", "100", "200", "300", "400", "500", "600", "700", "800"}


def test_a_rate_per_device_becomes_that_of_all_devices():
    found = {(one.system, one.devices, one.global_batch): one for one in throughputs("llm_training", "800M")}
    assert found["JURECA-DC", 4, 16].units_per_s == 4 * 20416
    assert found["JURECA-MI200", 8, 32].units_per_s == 88620.76


def test_figures_of_resnet_stand_beside_all_its_variants():
    assert len(throughputs("resnet50", "ResNet-50 v1.5")) == len(throughputs("resnet50", "ResNet-50 v2")) > 190
    assert throughputs("resnet50", "tiny") == []


MLPERF_HPC = [one for one in read_published() if one.benchmark == "mlperf_hpc"]
# Samples/s of a device, from the slowest to the fastest submission.
SLOWEST_AND_FASTEST = {
    ("cosmoflow", "A64FX"): (0.669, 4.587),
    ("cosmoflow", "Xeon Phi"): (1.871, 2.039),
    ("cosmoflow", "P100"): (5.88, 6.202),
    ("cosmoflow", "RTX 5000"): (6.82, 6.83),
    ("cosmoflow", "V100"): (11.81, 26.81),
    ("cosmoflow", "A100"): (48.33, 115.45),
    ("cosmoflow", "H100"): (206.4, 206.5),
    ("deepcam", "P100"): (2.22, 2.41),
    ("deepcam", "V100"): (2.35, 5.5),
    ("deepcam", "A100"): (5.02, 27.8),
    ("deepcam", "H100"): (30.5, 30.6),
}


def test_all_submissions_of_mlperf_hpc_are_there_with_speed_and_time():
    for metric, unit in (("throughput", "samples/s"), ("time_to_train", "s")):
        found = [one for one in MLPERF_HPC if (one.metric, one.unit) == (metric, unit)]
        assert len(found) == 52
        assert sum(one.model == "cosmoflow" for one in found) == 29
        rounds = [re.search(r"hpc_results_(v\d\.\d)\)", one.source)[1] for one in found]
        assert {name: rounds.count(name) for name in rounds} == {"v0.7": 15, "v1.0": 19, "v2.0": 10, "v3.0": 8}
    staging = [one for one in MLPERF_HPC if (one.metric, one.unit) == ("staging_time", "s")]
    assert len(staging) == 36  # others state none
    assert len(MLPERF_HPC) == 2 * 52 + 36


def test_the_submissions_have_the_numbers_of_their_logs():
    values = {
        (one.system, one.model, one.metric, one.source[-5:-1]): (one.value, one.devices, one.global_batch_size)
        for one in MLPERF_HPC
    }
    for system, model, version, samples_per_s, time_s, devices, batch in (
        ("NVIDIA eos_n64_ngc23.09_pytorch", "cosmoflow", "v3.0", "105724.5", "126.92", "512", "512"),
        ("NVIDIA eos_n256_ngc23.09_pytorch", "deepcam", "v3.0", "62588.9", "49.556", "2048", "2048"),
        ("TACC longhorn-tf", "cosmoflow", "v2.0", "1512.7", "8667.214", "128", "128"),
        ("HelmholtzAI horeka_gpu_n512_pytorch1.13", "deepcam", "v2.0", "9727.7", "270.494", "512", "1024"),
        ("Fujitsu fugaku_8192xA64FX_tensorflow_closed", "cosmoflow", "v0.7", "5483.2", "6119.114", "8192", "512"),
    ):
        assert values[system, model, "throughput", version] == (samples_per_s, devices, batch)
        assert values[system, model, "time_to_train", version] == (time_s, devices, batch)


def test_staging_is_told_where_the_log_has_it():
    times = {
        (one.system, one.model, one.source[-5:-1]): one.value for one in MLPERF_HPC if one.metric == "staging_time"
    }
    assert times["NVIDIA eos_n256_ngc23.09_pytorch", "deepcam", "v3.0"] == "15.776"
    assert times["Fujitsu fugaku_8192xA64FX_tensorflow_closed", "cosmoflow", "v0.7"] == "219.302"
    assert times["CSCS daint_gpu_n128_tf2.2.0", "cosmoflow", "v0.7"] == "0.01"
    assert ("HPE+LBNL perlmutter_512x4", "deepcam", "v3.0") not in times


def test_each_submission_is_as_fast_as_its_accelerator_is_elsewhere():
    rates = {}
    for one in MLPERF_HPC:
        if one.metric == "throughput":
            [kind] = [name for model, name in SLOWEST_AND_FASTEST if model == one.model and name in one.accelerator]
            rates.setdefault((one.model, kind), []).append(float(one.value) / int(one.devices))
    assert rates.keys() == SLOWEST_AND_FASTEST.keys()
    for place, (slowest, fastest) in SLOWEST_AND_FASTEST.items():
        assert min(rates[place]) == pytest.approx(slowest, rel=5e-3), place
        assert max(rates[place]) == pytest.approx(fastest, rel=5e-3), place


def test_a_run_to_the_target_takes_longer_than_an_epoch():
    times = {(*one[:2], one.model): float(one.value) for one in MLPERF_HPC if one.metric == "time_to_train"}
    for one in MLPERF_HPC:
        if one.metric == "throughput":
            samples = int(re.match(r"the (\d+) samples of an epoch", one.note)[1])
            assert samples in {121216, 121266, 262144, 524288}
            assert samples / float(one.value) < times[(*one[:2], one.model)] / 5, one.system


def test_devices_are_nodes_where_there_is_no_accelerator_and_the_figure_says_so():
    processors = [one for one in MLPERF_HPC if "1 device = 1 node" in one.accelerator]
    assert len(processors) == 3 * 11
    assert all(one.devices == one.nodes and "devices are nodes" in one.note for one in processors)
    assert not [one for one in MLPERF_HPC if one not in processors and "are nodes" in one.note]


def test_a_submission_that_came_again_is_drawn_once():
    for benchmark, model, again in (("cosmoflow", "CosmoFlow 128", 5), ("deepcam", "DeepCAM 768x1152", 1)):
        rows = [one for one in MLPERF_HPC if one.model == benchmark and one.metric == "throughput"]
        found = [one for one in throughputs(benchmark, model) if one.figure.benchmark == "mlperf_hpc"]
        assert len(found) == len(rows) - again
        # What is left out says no other thing than what is drawn.
        assert {(one.system, one.units_per_s) for one in found} == {(one.system, float(one.value)) for one in rows}


@pytest.mark.parametrize(
    ("benchmark", "model", "values"),
    [
        ("resnet50", "ResNet-50 v1.5", {"ARCHER2 CPU": 40.5, "ARCHER2 GPU": 293.2, "Cirrus": 138, "EIDF": 226.2}),
        ("cosmoflow", "CosmoFlow 128", {"ARCHER2 CPU": 14.9, "ARCHER2 GPU": 479.9, "Cirrus": 112.2, "EIDF": 117.9}),
        ("deepcam", "DeepCAM 768x1152", {"ARCHER2 CPU": 6.1, "ARCHER2 GPU": 26.4, "Cirrus": 54.1, "EIDF": 101.7}),
    ],
)
def test_computing_speeds_of_epcc_stand_beside_ours(benchmark, model, values):
    found = {one.system: one.units_per_s for one in throughputs(benchmark, model) if one.figure.benchmark == "mlperf"}
    assert found == values


def test_the_effective_speeds_of_epcc_are_there_too():
    found = {one.system: one.units_per_s for one in throughputs("cosmoflow", "CosmoFlow 128", EFFECTIVE)}
    assert found == {
        "ARCHER2 CPU": 14.8,
        "ARCHER2 GPU": 72.5,
        "Cirrus": 78.1,
        "EIDF": 58.1,
        "Graphcore Bow Pod64": 14.5,
    }
    assert throughputs("cosmoflow", "CosmoFlow 32", EFFECTIVE) == []


def test_a_label_says_whose_the_figure_is():
    labels = [one.label for one in throughputs("resnet50", "ResNet-50 v1.5")]
    assert "published: EPCC, ARCHER2 GPU, 4 devices" in labels
    assert "published: JEDI, resnet50_v2, 4 devices" in labels


def test_a_smaller_input_than_the_published_one_has_no_figures():
    assert throughputs("cosmoflow", "CosmoFlow 32") == []
    assert throughputs("deepcam", "DeepCAM 192x288") == []


def samples_run(model, devices, batch, samples_per_s):
    """A good run of CosmoFlow."""
    record = made_up.result("H100", devices, batch, samples_per_s, 400, benchmark="cosmoflow", model=model)
    record["layout"].pop("sequence_length")
    return made_up.in_units(record, "samples")


@pytest.mark.slow
def test_a_report_of_cosmoflow_draws_them_beside_ours_and_ranks_ours_alone(tmp_path):
    runs = [samples_run("CosmoFlow 128", 1, 8, 150.0), samples_run("CosmoFlow 128", 1, 16, 160.0)]
    made_up.store(tmp_path / "runs", [*runs, samples_run("CosmoFlow 32", 1, 8, 9000.0)])
    records = find_records([tmp_path / "runs"]).records
    assert len(records) == 3
    pages = {}
    for drawn in (False, True):
        page = tmp_path / str(drawn) / "report.html"
        write_report(records, [], page, with_published=drawn)
        pages[drawn] = page.read_text()
    verdicts = [re.search(r'class="verdict".*?<p class="quiet">', text, re.DOTALL)[0] for text in pages.values()]
    assert verdicts[0] == verdicts[1]
    assert "published: " not in pages[False]
    charts = re.findall(r'<figure id="(\w+)".*?</figure>', pages[True], re.DOTALL)
    with_theirs = [
        name for name in charts if "published: " in re.search(rf'id="{name}".*?</figure>', pages[True], re.DOTALL)[0]
    ]
    assert with_theirs == ["cosmoflow_0_throughput"]
    assert pages[True].count("<title>published: ") == 28
    assert "published: MLPerf HPC, NVIDIA eos_n64_ngc23.09_pytorch, 512 devices" in pages[True]
    assert "hpc_results_v3.0): the 524288 samples of an epoch by the median time" in pages[True]


def test_every_figure_has_its_source():
    assert all(one.source and one.unit for one in read_published())


def test_figures_are_printed_with_their_sources(capsys):
    assert main(["published", "JEDI", "GPT-800M", "throughput_per_gpu"]) == 0
    out = capsys.readouterr().out
    assert "[1] github FZJ-JSC/CARAML" in out
    assert "39231" not in out  # that is another system's
    assert "40" in out


def test_the_table_leaves_out_what_all_leave_empty_and_names_the_accelerator(capsys):
    assert main(["published", "deepcam", "H100"]) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = "system accelerator model data devices batch metric value unit source"
    assert [title.strip() for title in lines[0].split("|")] == titles.split()
    assert [field.strip() for field in lines[2].split("|")][:3] == [
        "NVIDIA eos_n256_ngc23.09_pytorch",
        "NVIDIA H100 80GB HBM3",
        "deepcam",
    ]
    assert lines[-1] == "[1] MLCommons, MLPerf HPC Training v3.0 results (github.com/mlcommons/hpc_results_v3.0)"


def test_each_benchmark_has_a_table_of_its_own_width_above_the_sources_of_all(capsys):
    assert main(["published", "deepcam"]) == 0
    epcc, mlperf_hpc = capsys.readouterr().out.split("\n\n")
    assert epcc.splitlines()[0] == "mlperf:"
    assert len(epcc.splitlines()) == 3 + 8
    lines = mlperf_hpc.splitlines()
    assert lines[0] == "mlperf_hpc:"
    assert [line[:4] for line in lines[-5:]] == ["[1] ", "[2] ", "[3] ", "[4] ", "[5] "]
    assert len(epcc.splitlines()[1]) < len(lines[1])


def test_no_table_is_wider_than_it_was_with_the_original_figures_alone(capsys):
    assert main(["published"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 182


def test_what_epcc_read_with_their_files_is_below_ours_on_the_same_axis():
    run = samples_run("CosmoFlow 128", 1, 8, 150.0)
    run["metrics"]["effective_samples_per_s"] = 90.0
    theirs = [throughputs("cosmoflow", "CosmoFlow 128", *kinds) for kinds in ((), (EFFECTIVE,))]
    points = by_point([run])
    axes = compute_and_effective(points, styles_of_systems(points), *theirs).figure.axes[0]
    rows = [text.get_text() for text in axes.get_yticklabels()]
    assert rows[0] == "H100, 1 device, batch 8"
    assert len(rows) == 1 + 5
    assert rows[2] == "published:\nEPCC, ARCHER2 GPU, 4 devices, batch 32"
    widths = {round(bar.get_y() + bar.get_height() / 2, 1): bar.get_width() for bar in axes.patches}
    assert widths[-0.2] == 150.0
    assert widths[0.2] == 90.0
    assert (widths[1.8], widths[2.2]) == (479.9, 72.5)
    assert 4.8 not in widths  # Graphcore's computing speed was not published
    assert widths[5.2] == 14.5
    assert len(compute_and_effective(points, styles_of_systems(points)).figure.axes[0].get_yticklabels()) == 1


def drawn_beside(model, benchmark, samples_per_s):
    """The chart of throughput of a run at two batch sizes, beside the published figures."""
    points = by_point([samples_run(model, 1, batch, samples_per_s) for batch in (8, 16)])
    [chart] = over_batch(points, SPEED, styles_of_systems(points), throughputs(benchmark, model))
    return chart


def test_theirs_are_grey_in_a_panel_of_their_own_and_each_tells_whose_it_is():
    chart = drawn_beside("CosmoFlow 128", "cosmoflow", 150.0)
    ours, theirs = chart.figure.axes
    [legend] = chart.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["H100", "published (28)"]
    assert theirs.get_title() == "published"
    assert {line.get_color() for line in theirs.lines} == {GREY}
    assert not any(line.get_color() == GREY for line in ours.lines)
    every = throughputs("cosmoflow", "CosmoFlow 128")
    drawn = sorted(value for line in theirs.lines for value in line.get_ydata())
    assert drawn == pytest.approx(sorted(one.units_per_s / one.devices for one in every))
    svg = chart.svg()
    assert all(f"<title>{escape(one.label)}</title>" in svg for one in every)


def test_ours_are_seen_beside_devices_that_are_many_times_faster():
    assert drawn_beside("CosmoFlow 128", "cosmoflow", 1.0).figure.axes[0].get_yscale() == "log"
    assert drawn_beside("CosmoFlow 128", "cosmoflow", 150.0).figure.axes[0].get_yscale() == "linear"


def test_no_batch_size_covers_another_on_the_axis():
    axes = drawn_beside("DeepCAM 768x1152", "deepcam", 30.0).figure.axes[0]
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    assert len(ticks) <= 6
    assert ticks[0] == "8"


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


H200 = Path(__file__).parents[1] / "records" / "H200"


def test_figures_of_the_same_chip_are_next_to_ours_with_software_and_source(capsys):
    assert main(["published", "--results", str(H200)]) == 0
    lines = capsys.readouterr().out.splitlines()
    ours, theirs = ([line for line in lines if word in line] for word in (", ours", ", published"))
    assert [line.split("|")[1].strip() for line in ours] == ["117M"] * 3 + ["800M"] * 3
    assert [line.split("|")[5].strip() for line in ours[:3]] == ["tokens/s/device", "J/token", "% of achievable"]
    assert any(
        re.search(r"92,500 \| tokens/s/device \| +nanochat 92d63d4, one scale per tensor", line) for line in theirs
    )
    assert all("read 2026-11-27" in line and "H100 SXM" in line for line in theirs)  # the chip of an H200


def test_the_report_shows_them_without_ranking_them(tmp_path):
    [page] = [
        path for path in write_report(*find_records([H200])[:2], tmp_path / "page.html") if path.suffix == ".html"
    ]
    section = re.search(r'<section id="published">.*?</section>', page.read_text(), re.S)[0]
    assert "never ranked" in section
    assert "Megatron-Bridge 25.11" in section
    assert "a grey marker a published" not in page.read_text()  # no figure of an H200 agrees


def test_the_report_explains_the_markers_that_it_draws(tmp_path):
    runs = [Record.of(made_up.result("GH200", model="800M", precision="fp16"))]
    page, *_ = write_report(runs, [], tmp_path / "page.html", None, True, with_details=False)
    assert "a grey marker a published figure." in page.read_text()


def test_a_chip_without_published_figures_is_said(tmp_path, capsys):
    made_up.store(tmp_path, [made_up.result("MI250", 1, 8, 1e4, 300.0)])
    assert main(["published", "--results", str(tmp_path)]) == 2
    assert "no figure is known that was published for the same chip" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "is_drawn"),
    [({}, True), ({"precision": "bf16"}, False), ({"model": "117M"}, False), ({"system": "JEDI"}, False)],
)
def test_a_figure_is_drawn_next_to_ours_if_system_model_and_precision_agree(changes, is_drawn):
    run = made_up.result(**{"system": "GH200", "model": "800M", "precision": "fp16", **changes})
    label = "published: CARAML, read 2026-11-27"
    [section] = sections_of([Record.of(run)], None, True, False)
    speed, efficiency = section.dots
    assert (label in speed.svg(), f"{label}: 47,505" in speed.words) == (is_drawn, is_drawn)
    assert label not in efficiency.svg()
    [without] = sections_of([Record.of(run)], None, False, False)
    assert label not in without.dots[0].svg()


def test_a_figure_without_a_precision_is_in_the_table_and_never_drawn(tmp_path):
    table = anchor_table(by_point([made_up.result("B300") | {"benchmark": "llm_inference"}]))
    unstated = [row for row in table.rows if "MLPerf Inference v6.1" in row]
    assert [(row[1], row[2]) for row in unstated[:2]] == [
        ("gpt-oss-120b", "not stated"),
        ("gpt-oss-120b", "not stated"),
    ]
    assert all("derived; total / number of accelerators" in row[-1] for row in unstated)
    of_none = [one for one in read_anchors() if not one.precision]
    known = [one._replace(ours=one.model) for one in of_none]
    assert known and not any(one.agrees(one.systems, one.benchmark, one.model, "") for one in known)


def test_every_figure_is_of_a_system_and_has_a_source_and_a_date():
    for one in read_anchors():
        assert {*one.systems.split(), *one.like.split()} <= SHIPPED
        assert one.source
        assert date.fromisoformat(one.read) <= date.today()
        assert one.unit in (*PER_DEVICE_UNITS, "J/output token", "min")
        assert float(one.value) > 0


def test_an_estimated_energy_is_not_next_to_published_ones():
    measured, estimated = (by_point([made_up.result("A100", estimated=one)]) for one in (False, True))
    units = [{row[5] for row in anchor_table(one).rows if row[0] == "A100, ours"} for one in (measured, estimated)]
    assert units == [{"tokens/s/device", "J/token"}, {"tokens/s/device"}]
