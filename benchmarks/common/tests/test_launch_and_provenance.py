from __future__ import annotations

import os

import pytest

from benchmarks.common.launch import Launch, read_launch
from benchmarks.common.node import provenance
from benchmarks.common.node.provenance import collect_provenance
from benchmarks.common.options import ConfigError
from jpwr.process.processor import Processor


def test_a_process_started_alone_is_a_world_of_one():
    assert read_launch({}) == Launch(rank=0, world_size=1, local_rank=0, local_world_size=1)


def test_torchruns_variables_tell_rank_and_nodes():
    launch = read_launch({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"})
    assert launch == Launch(5, 8, 1, 4)
    assert launch.num_nodes == 2
    assert not launch.is_first_on_node


@pytest.mark.parametrize(
    ("cores", "ranks", "bound", "own"),
    [(64, 4, 64, 16), (64, 4, 16, 16), (64, 4, 32, 16), (72, 1, 72, 72), (2, 4, 2, 1), (64, 4, 8, 8)],
)
def test_the_cores_of_a_node_are_divided_among_its_ranks_once(monkeypatch, cores, ranks, bound, own):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr("benchmarks.common.launch.cpu_quota", lambda: None)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    launch = read_launch(dict(zip(names, map(str, (0, ranks, 0, ranks)), strict=True)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(bound)))  # to those near its GPU
    assert launch.own_cores == own


def test_half_of_the_variables_is_an_error_that_names_the_others():
    with pytest.raises(ConfigError, match="LOCAL_RANK, LOCAL_WORLD_SIZE"):
        read_launch({"RANK": "0", "WORLD_SIZE": "2"})


def test_provenance_names_versions_and_leaves_the_rest_of_the_environment_out(monkeypatch):
    monkeypatch.setenv("MY_SECRET", "x" * 20)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    origin = collect_provenance(["pytest", "no-such-package"])
    assert origin["packages"]["pytest"] == pytest.__version__
    assert origin["packages"]["no-such-package"] is None
    assert origin["environment"]["SLURM_JOB_ID"] == "4711"
    assert "x" * 20 not in str(origin)


@pytest.mark.parametrize("name", ["ARM Neoverse-V2", ""])
def test_provenance_names_the_processor_or_lists_it_as_missing(monkeypatch, name):
    monkeypatch.setattr(provenance, "read_processor", lambda: Processor(name, True, 1))
    [origin] = collect_provenance([])["nodes"]
    assert (origin["cpu"], "cpu" in origin["missing"]) == (name or None, not name)


FACTS = ", ".join(f"fact {number}" for number in range(len(provenance.NVIDIA_FACTS) - 2))
NVIDIA_SMI = f"""#!/bin/sh
case "$*" in
topo*) printf '\\033[4m\\tGPU0 GPU1\\033[0m\\n' ;;
*--query-gpu=name,uuid,*UNKNOWN*) echo 'Field "UNKNOWN" is not a valid field to query.'; exit 2 ;;
*) printf 'NVIDIA X, GPU-0, {FACTS}\\nNVIDIA X, GPU-1, {FACTS}\\n' ;;
esac
"""
AMD_SMI = """#!/bin/sh
echo 'User is missing the following required groups: render, video'
echo '[WARNING] one'
echo '{"gpu_data": [{"gpu": 0, "asic": {"market_name": "MI300X"}}]}'
echo 'WARNING: two'
"""
INFOROM = "WARNING: infoROM is corrupted at gpu 0000:1E:00.0"
CORRUPTED = f"echo '{INFOROM}'\nexit 14\n"


def with_tool(folder, monkeypatch, name, script):
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    [node] = collect_provenance([])["nodes"]
    return node


@pytest.mark.parametrize(
    ("after", "missing"), [("", None), (CORRUPTED, f"nvidia-smi exited with 14: {INFOROM}")], ids=["good", "corrupted"]
)
def test_devices_are_described_as_the_vendors_tool_does(tmp_path, monkeypatch, after, missing):
    found = with_tool(tmp_path, monkeypatch, "nvidia-smi", NVIDIA_SMI + after)
    assert [device["uuid"] for device in found["devices"]] == ["GPU-0", "GPU-1"]
    assert found["devices"][0]["driver_version"] == "fact 0"
    assert found["topology"].startswith("GPU0 GPU1")
    assert [words for words in found["missing"] if " " in words] == ([missing] if missing else [])
    assert not {"devices", "topology"} & set(found["missing"])


def test_a_field_that_the_driver_does_not_know_costs_no_other_one(tmp_path, monkeypatch):
    script = NVIDIA_SMI.replace("UNKNOWN", "compute_mode").replace("fact 0, ", "")
    found = with_tool(tmp_path, monkeypatch, "nvidia-smi", script)
    assert [device["uuid"] for device in found["devices"]] == ["GPU-0", "GPU-1"]
    assert "compute_mode" not in found["devices"][0]
    assert "nvidia-smi knows no compute_mode" in found["missing"]


def test_warnings_around_the_facts_of_amds_tool_hide_none(tmp_path, monkeypatch):
    found = with_tool(tmp_path, monkeypatch, "amd-smi", AMD_SMI)
    assert found["devices"] == [{"gpu": 0, "asic": {"market_name": "MI300X"}}]
    found = with_tool(tmp_path, monkeypatch, "amd-smi", "#!/bin/sh\necho 'no driver' >&2; exit 1\n")
    assert found["devices"] is None
    assert {"amd-smi shows no device: no driver", "devices"} <= set(found["missing"])


def test_what_cannot_be_found_out_is_named_as_missing(monkeypatch):
    monkeypatch.delenv("CARAML_IMAGE", raising=False)
    monkeypatch.setattr(provenance, "TOOLS", {})
    origin = collect_provenance([])
    assert "container" in origin["missing"]
    for found in (origin, *origin["nodes"]):
        assert all(found[key] is None for key in found["missing"])
        assert not any(value is None for key, value in found.items() if key not in found["missing"])
