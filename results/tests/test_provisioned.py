"""Provisioned power: worked examples of the rules of MLPerf Endpoints, and the checker of MLCommons itself."""

from __future__ import annotations

import json

import pytest
import yaml

from caraml.cli import main
from results.files.systems import read_systems
from results.record.records import RecordError
from results.tests.made_up import result, store
from results.verdicts.provisioned import as_written, kw_of, read_system_power
from tests.needs import package

pytestmark = pytest.mark.arithmetic
SYSTEMS = read_systems()


def figure(value, unit="value_w", source_type="vendor_spec", source="https://example.org/spec"):
    return {unit: value, "source_type": source_type, "source": source}


def node_set(number=0, nodes=1, method="component_sum", **more):
    ids = {"node_set_id": number, "system_node_ensemble_id": number, "nodes_provisioned": nodes}
    return {**ids, "power_method": method, **more}


NIC = {"count_per_node": 8, "bandwidth_per_nic_gbps": 800}
SWITCH = {"model": "NVIDIA Spectrum SN5610", "count": 2, "bandwidth_tbps": 51.2}
PROTOCOL = {"value_pj": 5, "source_type": "mlc_default", "source": "D.1"}
DGX = {
    "cpu": {"model": "Intel Xeon 6776P", "count_per_node": 2, "tdp_per_unit": figure(350)},
    "accelerator": {"model": "NVIDIA B300", "count_per_node": 8, "tdp_per_unit": figure(1100)},
    "scale_up_network": {
        "method": "bandwidth_estimate",
        "aggregate_bandwidth_tbps": 14.4,
        "energy_per_bit_pj": PROTOCOL,
    },
}
HELIOS = {
    "cpu": {"model": "AMD Venice 256-core", "count_per_node": 18},
    "accelerator": {"model": "AMD Instinct MI455X", "count_per_node": 72},
    "scale_up_network": {"method": "declared_tdp", "switch_count": 6, "tdp_per_switch": figure(7000)},
}


def system(*sets, cooling="air", scale_out=None, **more):
    return {
        "system_desc_id": "one",
        "cooling": cooling,
        "node_sets": sets,
        "scale_out": scale_out or {"present": False},
        **more,
    }


def ethernet(cabling="passive", nics=NIC, **switch):
    return {"present": True, "cabling": cabling, "nics": nics, "switches": [{**SWITCH, **switch}]}


def published(nodes, kw=14.5, number=0, rack=None):
    more = {"published_power": figure(kw, "value_kw")} | ({"nodes_in_published_rack": rack} if rack else {})
    return node_set(number, nodes, "node_scaling" if rack else "published_system", **more)


BOTH = {"combined_cpu_accelerator": figure(10, "value_kw"), "scale_up_network": {"method": "none"}}
# The examples of appendices C and E state these totals in kW, and whether they are estimated.
EXAMPLES = {
    "E.6.1": (system(node_set(components=HELIOS), cooling="liquid"), 300.30, True),
    "E.6.2": (
        system(node_set(components=DGX), declared_provisioned_power=figure(14.5, "value_kw")),
        14.50,
        False,
    ),
    "an open part": (
        system(
            node_set(components=DGX | {"cpu": {"model": "a new one", "count_per_node": 2}}),
            declared_provisioned_power=figure(14.5, "value_kw"),
        ),
        14.50,
        False,
    ),
    "both in one": (system(node_set(components=BOTH)), 15.00, False),
    "E.6.2, sum": (system(node_set(components=DGX)), 15.11, True),
    "E.6.3": (system(published(10), scale_out=ethernet()), 146.80, True),
    "E.6.3, optical": (system(published(10), scale_out=ethernet("active_optical")), 149.16, True),
    "E.6.4": (system(published(5, 120, rack=8), published(3, 96, 1, 8), cooling="liquid"), 111.00, False),
    "C.11": (system(node_set(nodes=10, components=DGX), scale_out=ethernet()), 161.94, True),
    "mixed": (
        system(published(5), node_set(1, 5, components=DGX), scale_out=ethernet(nics=NIC | {"counted": True})),
        154.37,
        True,
    ),
}


def read(tmp_path, content, name=None):
    (tmp_path / "power.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(content))))
    return read_system_power(tmp_path / "power.yaml", name, SYSTEMS)


def the_checker():
    """The package of MLCommons."""
    package("submission_checker.models", "endpoints-submission-cli")
    return package("submission_checker", "endpoints-submission-cli")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_rules_have_their_totals(tmp_path, name):
    content, kw, is_estimated = EXAMPLES[name]
    power = read(tmp_path, content)
    assert (power.provisioned_power_kw, power.mlc_estimated_power) == (kw, is_estimated)
    again = tmp_path / "system_power.json"
    again.write_text(json.dumps(as_written(power)))
    assert read_system_power(again, None, {}) == power


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_checker_of_mlcommons_accepts_what_is_written(tmp_path, name):
    checker, power = the_checker(), read(tmp_path, EXAMPLES[name][0])
    theirs = checker.models.SystemPower.model_validate(as_written(power)).compute()
    assert theirs.problems == []
    assert theirs.provisioned_power_kw == power.provisioned_power_kw
    assert bool(theirs.estimated) == power.mlc_estimated_power
    for used in ({}, *({one.node_set_id: 1} for one in power.node_sets)):
        assert theirs.point_power_kw(used) == kw_of(power, used)
    place = tmp_path / "submission" / "results" / "one"
    (place / "a model").mkdir(parents=True)
    assert main(["system-power", str(tmp_path / "power.yaml"), "-o", str(place / "system_power.json")]) == 0
    found = [one for one in checker.SubmissionChecker(tmp_path / "submission").run().results if "power" in one.rule]
    assert f"Provisioned power {power.provisioned_power_kw:.2f} kW" in [one.message for one in found]
    assert [one.message for one in found if one.severity == "error"] == []


def of_parts(**changes):
    return system(node_set(components=DGX | changes))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({**of_parts(), "cooling": "water"}, "cooling is 'water', but must be liquid or air"),
        (system(), "node_sets is []"),
        (system(node_set()), "node set 0 lacks components, the sum of which"),
        (system(node_set(method="published_system")), "nodes of node set 0 have no power"),
        (system(published(5, rack=5)), "node_scaling of 5 nodes needs a rack of more"),
        (system(published(1), published(2)), "two node sets have the same node_set_id"),
        (of_parts(cpu=None), "processors of node set 0 have no number: add it"),
        (of_parts(cpu={"model": "Intel Xeon", "count_per_node": 2}), "processors of node set 0 have no power"),
        (of_parts(cpu={"model": "a 64-core", "count_per_node": 2}), "processors of node set 0 have no power"),
        (of_parts(cpu={"model": "Arm AGI 136-core", "count_per_node": 2}), "processors of node set 0 have no power"),
        (
            of_parts(accelerator={"model": "NVIDIA H200", "count_per_node": 8}),
            "accelerators of node set 0 have no power, also in appendix D",
        ),
        (
            of_parts(combined_cpu_accelerator=figure(9e3)),
            "combined_cpu_accelerator has the power of the processors, too",
        ),
        (
            of_parts(scale_up_network={"method": "declared_tdp", "switch_count": 2}),
            "scale-up switches of node set 0 have no power",
        ),
        (
            of_parts(accelerator={"model": "B300", "count_per_node": 8, "tdp_per_unit": figure(0)}),
            "value_w is 0, but must be a number above 0",
        ),
        (
            of_parts(accelerator={"model": "B300", "count_per_node": 8, "tdp_per_unit": figure(5, "value_pj")}),
            "accelerators of node set 0 have no power",
        ),
        (
            of_parts(accelerator={"model": "B300", "count_per_node": 8, "tdp_per_unit": figure(1, source="a talk")}),
            "is a vendor_spec from 'a talk', which is not an address",
        ),
        (
            of_parts(
                accelerator={
                    "model": "B300",
                    "count_per_node": 8,
                    "tdp_per_unit": figure(900, source_type="mlc_default", source="D.3"),
                }
            ),
            "900 W are stated as mlc_default of D.3, which has 1100 W",
        ),
        (
            of_parts(accelerator={"model": "B300", "count_per_node": 8, "tdp_per_unit": figure(1) | {"value_kw": 1}}),
            "has two values: give one of",
        ),
        (of_parts(cpu=None) | {"declared_provisioned_power": figure(9e3)}, "processors of node set 0 have no number"),
        # An open part before it, which the declared power makes up for.
        (
            of_parts(cpu={"model": "a new one", "count_per_node": 2}, accelerator=None)
            | {"declared_provisioned_power": figure(9e3)},
            "accelerators of node set 0 have no number",
        ),
        (
            of_parts(combined_cpu_accelerator=figure(9e3)) | {"declared_provisioned_power": figure(9e3)},
            "combined_cpu_accelerator has the power of the processors, too",
        ),
        (
            system(node_set(method="published_system")) | {"declared_provisioned_power": figure(9e3)},
            "nodes of node set 0 have no power",
        ),
        (of_parts() | {"computed": {"major_components_w": 9000}}, "major_components_w is 9000, but its parts"),
        (
            of_parts() | {"provisioned_power_kw": 14.5},
            "provisioned_power_kw is 14.5, but its parts give 15.11: leave it out",
        ),
        (
            of_parts() | {"declared_provisioned_power": figure(1, "value_pj")},
            "it states a power of 0 kW, or none in watts",
        ),
        (
            system(node_set(nodes=2, components=DGX | {"scale_up_network": {"method": "none"}})),
            "nothing joins its 2 nodes",
        ),
        (system(published(10), scale_out={"present": True}), "scale_out is present and lacks cabling, nics"),
        (
            system(published(10), scale_out=ethernet(count=1)),
            "have 64 Tbit/s, required_bandwidth_tbps is 64, and its sw",
        ),
        (system(published(10), scale_out=ethernet(model="other")), "other of the network have no power"),
        (system(published(10), scale_out=ethernet(nics=NIC | {"counted": True})), "nics.counted is true, but"),
        (
            system(node_set(nodes=10, components=DGX), scale_out=ethernet(nics=NIC | {"counted": False})),
            "counted is false",
        ),
    ],
)
def test_what_is_missing_or_impossible_is_refused_in_a_sentence(tmp_path, content, words):
    with pytest.raises(RecordError) as error:
        read(tmp_path, content)
    assert words in str(error.value)
    assert str(error.value).startswith(f"{tmp_path}/power.yaml")
    try:
        accepts = not the_checker().models.SystemPower.model_validate(content).compute().problems
    except ValueError:  # of pydantic
        accepts = False
    # Theirs lets a part have 0 W, and a default another value than its own.
    assert accepts == any(one in words for one in ("value_w is 0", "stated as mlc_default"))


@pytest.mark.parametrize(
    ("name", "components", "watts"),
    [
        # 8 devices of 700 W in systems.yaml, with the address that the file states
        ("H200", {"accelerator": {"tdp_per_unit": {"source_type": "vendor_spec", "source": "https://a.org"}}}, 5600),
        ("B200", {}, 8000),  # D.3
        ("JEDI", {"combined_cpu_accelerator": {"source_type": "publication", "source": "https://a.org"}}, 2720),
    ],
)
def test_a_file_leaves_out_what_the_block_of_its_system_has(tmp_path, name, components, watts):
    none = (
        {"cpu": {"count_per_node": 0, "tdp_per_unit": figure(1)}}
        if "combined_cpu_accelerator" not in components
        else {}
    )
    content = system(node_set(components={**none, **components, "scale_up_network": {"method": "none"}}))
    power = read(tmp_path, content, name)
    assert power.computed["major_components_w"] == watts
    assert power.node_sets[0].components.accelerator.model == SYSTEMS[name].accelerator
    with pytest.raises(RecordError, match="there is no block of a system 'H201'"):
        read(tmp_path, content, "H201")


def test_a_table_and_a_report_have_throughput_by_provisioned_power(tmp_path, capsys):
    runs = [result("B200", 8, 64, speed) for speed in (1000.0, 1010.0, 1020.0)]
    store(tmp_path / "runs", [*runs, result("H200", 8, 64, 900.0)])
    (tmp_path / "power.yaml").write_text(json.dumps(system(published(2))))
    given = ["--system-power", f"B200={tmp_path}/power.yaml"]
    assert main(["table", str(tmp_path / "runs"), "--repeats", "--format", "csv", *given]) == 0
    first, *rows = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    at = first.index("tokens/s/kW")
    points = {row[0]: row for row in rows}
    # One of two nodes of 14.5 kW; 4.303 is Student's t of three runs.
    assert float(points["B200"][at]) == pytest.approx(1010 / 14.5)
    assert float(points["B200"][at + 1]) == pytest.approx(4.303 * 10 / 3**0.5 / 14.5, rel=1e-3)
    assert points["B200"][first.index("provisioned power")] == "from public sources"
    assert points["H200"][at] == ""
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "report.html"), *given]) == 0
    assert "tokens/s/kW" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ("B200=power.yaml --system-power=B200=power.yaml", "--system-power names B200 twice"),
        ("power.yaml", "--system-power 'power.yaml' is not SYSTEM=FILE with one of the systems B200"),
        ("B300=power.yaml", "is not SYSTEM=FILE with one of the systems B200"),
        ("B200=power.yaml", "has no throughput by provisioned power: a run used 2 nodes of set 0, which has 1"),
    ],
)
def test_a_run_that_the_file_is_not_of_has_no_such_throughput(tmp_path, capsys, monkeypatch, stated, words):
    monkeypatch.chdir(tmp_path)
    record = result("B200", 8, 64, 1000.0)
    record["layout"]["num_nodes"] = 2
    record["windows"].append(record["windows"][0] | {"hostname": "n2"})
    record["devices"][4:] = [one | {"hostname": "n2"} for one in record["devices"][4:]]
    store(tmp_path / "runs", [record])
    (tmp_path / "power.yaml").write_text(json.dumps(system(published(1))))
    code = main(["table", "runs", "--system-power", *stated.split()])
    shown = capsys.readouterr()
    assert words in shown.err
    assert (code, "tokens/s/kW" in shown.out) == (0 if "throughput" in words else 2, False)


def test_a_run_on_a_part_of_a_node_is_noted(tmp_path, capsys):
    store(tmp_path / "runs", [result("B200", devices, 64, 1000.0) for devices in (4, 8)])
    (tmp_path / "power.yaml").write_text(json.dumps(system(node_set(components=DGX))))
    assert main(["table", str(tmp_path / "runs"), "--system-power", f"B200={tmp_path}/power.yaml"]) == 0
    assert (
        "caraml: 1 run used a part of a node's devices: provisioned power is that of the wh" in capsys.readouterr().err
    )


def test_the_command_writes_the_complete_file(tmp_path, capsys):
    (tmp_path / "power.yaml").write_text(json.dumps(EXAMPLES["C.11"][0]))
    written = tmp_path / "system_power.json"
    assert main(["system-power", str(tmp_path / "power.yaml"), "--nodes", "0=5", "-o", str(written)]) == 0
    shown = capsys.readouterr().out
    assert "accelerators: 88,000 W, vendor_spec https://example.org/spec\n" in shown
    assert shown.endswith("provisioned power: 161.94 kW, MLC Estimated Power\npower of the point: 80.97 kW\n")
    assert json.loads(written.read_text())["provisioned_power_kw"] == 161.94
    for nodes, words in (
        (["0"], "--nodes 0 is not SET=N"),
        (["0=11"], "a run used 11 nodes of set 0, which has 10"),
        (["0=1", "0=2"], "--nodes 0=1 0=2 names a set twice"),
    ):
        given = [word for one in nodes for word in ("--nodes", one)]
        assert main(["system-power", str(written), *given]) == 2
        assert words in capsys.readouterr().err
