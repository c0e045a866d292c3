from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from caraml.cli import main
from results.find.records import find_records
from results.published import EFFECTIVE, published, throughputs
from results.show.tables.anchors import anchor_table
from results.tests import builder
from results.tests.of_dicts import by_point, write_report
from tests.conftest import SHIPPED


def labels(path):
    return re.findall(r"<text [^>]*>([^<]+)</text>", path.read_text())


AXES = {"128", "256", "512", "100", "200", "300", "400", "500", "600", "700", "800"}


def test_a_rate_per_device_becomes_that_of_all_devices():
    found = {(one.system, one.devices, one.global_batch): one for one in throughputs("llm_training", "800M")}
    assert found["JURECA-DC", 4, 16].units_per_s == 4 * 20416
    assert found["JURECA-MI200", 8, 32].units_per_s == 88620.76


def test_figures_of_resnet_stand_beside_all_its_variants():
    assert len(throughputs("resnet50", "ResNet-50 v1.5")) == len(throughputs("resnet50", "ResNet-50 v2")) > 190
    assert throughputs("resnet50", "tiny") == []


MLPERF_HPC = [one for one in published() if one.benchmark == "mlperf_hpc"]
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
    times = {
        (one.source, one.system, one.model): float(one.value) for one in MLPERF_HPC if one.metric == "time_to_train"
    }
    for one in MLPERF_HPC:
        if one.metric == "throughput":
            samples = int(re.match(r"the (\d+) samples of an epoch", one.note)[1])
            assert samples in {121216, 121266, 262144, 524288}
            assert samples / float(one.value) < times[one.source, one.system, one.model] / 5, one.system


def test_devices_are_nodes_where_there_is_no_accelerator_and_the_figure_says_so():
    processors = [one for one in MLPERF_HPC if "1 device = 1 node" in one.accelerator]
    assert len(processors) == 3 * 11
    assert all(one.devices == one.nodes and "devices are nodes" in one.note for one in processors)
    assert not [one for one in MLPERF_HPC if one not in processors and "are nodes" in one.note]


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


def test_a_smaller_input_than_the_published_one_has_no_figures():
    assert throughputs("cosmoflow", "CosmoFlow 32") == []
    assert throughputs("deepcam", "DeepCAM 192x288") == []


def test_every_figure_has_its_source():
    assert all(one.source and one.unit for one in published())


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-machine"], "no published figure has no-such-machine"),
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
    # An H200 has the chip of an H100.
    assert all("read 2026-11-2" in line and re.match(r" *H(100 SXM|200),", line) for line in theirs)


def test_the_report_shows_them_without_ranking_them(tmp_path):
    [page] = [
        path for path in write_report(*find_records([H200])[:2], tmp_path / "page.html") if path.suffix == ".html"
    ]
    section = re.search(r'<section id="published">.*?</section>', page.read_text(), re.S)[0]
    assert "never ranked" in section
    assert "Megatron-Bridge 25.11" in section


def test_a_chip_without_published_figures_is_said(tmp_path, capsys):
    builder.store(tmp_path, [builder.result("MI250", 1, 8, 1e4, 300.0)])
    assert main(["published", "--results", str(tmp_path)]) == 2
    assert "no figure is known that was published for the same chip" in capsys.readouterr().err


def test_a_figure_without_a_precision_is_in_the_table():
    table = anchor_table(by_point([builder.result("B300") | {"benchmark": "llm_inference"}]))
    unstated = [row for row in table.rows if "MLPerf Inference v6.1" in row]
    assert [(row[1], row[2]) for row in unstated[:2]] == [
        ("gpt-oss-120b", "not stated"),
        ("gpt-oss-120b", "not stated"),
    ]
    assert all("derived; total / number of accelerators" in row[-1] for row in unstated)


def test_every_figure_is_of_a_system_and_has_a_source_and_a_date():
    for one in filter(lambda figure: figure.read, published()):
        assert {*one.systems.split(), *one.like.split()} <= SHIPPED
        assert one.source
        assert date.fromisoformat(one.read) <= date.today()
        assert one.unit in ("tokens/s/device", "output tokens/s/device", "J/output token", "TFLOP/s/device", "min")
        assert float(one.value) > 0


def test_an_estimated_energy_is_not_next_to_published_ones():
    measured, estimated = (by_point([builder.result("A100", estimated=one)]) for one in (False, True))
    units = [{row[5] for row in anchor_table(one).rows if row[0] == "A100, ours"} for one in (measured, estimated)]
    assert units == [{"tokens/s/device", "J/token"}, {"tokens/s/device"}]
