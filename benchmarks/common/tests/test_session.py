"""The frame around a workload without a framework: it adds numbers."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import pytest

from benchmarks.common import session
from benchmarks.common.measure.turns import ReadCounts
from benchmarks.common.options import (
    CheckpointOptions,
    ComputeOptions,
    ConfigError,
    RunOptions,
    Seeds,
    TurnsOptions,
    WindowOptions,
    option,
)
from benchmarks.common.record import Device
from benchmarks.common.workload import Feed, Flops, Target, Training, Workload
from jpwr.regions import RegionTimer


@dataclass(frozen=True)
class SumOptions:
    """Sums."""

    numbers: int = option(50, "numbers of a sum")
    way: str = option("plain", "how they are added", ("plain", "twice"))
    falls: bool = option(True, "whether the loss falls")


@dataclass(frozen=True)
class Config:
    sums: SumOptions
    compute: ComputeOptions
    turns: TurnsOptions
    window: WindowOptions
    run: RunOptions
    checkpoint: CheckpointOptions
    training: Seeds


class Processor(Target):
    """A device; `others` is what other ranks would have gathered."""

    kind, precision = "cpu", "fp32"
    others: tuple = ()

    def gather(self, value):
        return [value, *self.others]

    def describe_devices(self):
        return [Device(hostname="n1", name="a processor", device_id="", peak_memory_bytes=1, cpus="0")]

    def software(self):
        return {"sums": "1.0"}

    def statistics(self):
        return {"carries": 7}


class Numbers:
    """An input path of ranges of numbers."""

    def __init__(self, training):
        self.training, self.taken = training, 0

    def feed(self):
        return Feed(lambda: self.call(), self.take, self.step, 2, self.read_so_far)

    def call(self):
        self.step(self.take())

    def take(self):
        self.taken += 1
        with self.training.run.regions.region("IO"):
            return range(self.training.run.config.sums.numbers)

    def step(self, batch):
        with self.training.run.regions.region("Forward"):
            self.training.made.append(sum(batch))

    def read_so_far(self):
        return {"input_numbers": self.taken * self.training.run.config.sums.numbers}


class Adding(Training):
    """Sums of numbers, two in each call."""

    steps_per_call = 2

    def __init__(self, run):
        self.run, self.made = run, []
        self.data = Numbers(self).feed()
        self.on_device = Numbers(self).feed() if run.config.turns.effective else None

    def synchronize(self):
        pass

    def losses(self, first=0):
        return [1.0 / (1 + step) for step in range(first, len(self.made))]

    def conclude(self, record):
        record.metrics["sums"] = len(self.made)
        return "" if self.run.config.sums.falls else "the loss did not fall"


class Sums(Workload):
    name, unit = "sums", "number"
    description = "Add numbers."
    packages = ()
    options = Config
    unusual = {"sums.way": {"twice": "added twice"}}  # noqa: RUF012

    def __init__(self, options, launch):
        self.config = options
        if options.sums.numbers > 99:
            raise ConfigError(f"--numbers {options.sums.numbers} are too many: at most 99")
        self.layout = {"num_devices": 1, "num_nodes": launch.num_nodes, "global_batch_size": 4}
        self.data, self.sample, self.num_parameters = "numbers", f"{options.sums.numbers} numbers", 0
        self.work_per_sample = options.sums.numbers
        self.flops = Flops(1.0, "an addition for each")

    @classmethod
    def facts(cls):
        return {"precisions": "fp32 bf16 fp16", "refused": {"graphcore": "they cannot add"}}

    @staticmethod
    def model(options):
        return options.sums.way

    @contextmanager
    def open(self, record):
        record.config["sums"]["way"] = "twice" if self.config.sums.way == "twice" else "plain"
        yield Processor()

    def build(self, target):
        return Adding(self)


STEPS = ("--warmup-steps", "2", "--measured-steps", "5", "--peak-tflops-per-device", "1")


@pytest.fixture
def ran(run_of):
    """The exit code and the record of a run."""
    return partial(run_of, Sums, *STEPS)


def test_a_run_is_recorded_with_what_the_workload_says_and_what_the_frame_measures(ran):
    code, record = ran()
    metrics = record["metrics"]
    assert (code, record["status"], record["benchmark"], record["model"]) == (0, "ok", "sums", "plain")
    assert (record["work_unit"], record["data"], record["sample"]) == ("numbers", "numbers", "50 numbers")
    assert (record["precision"], record["config"]["compute"]["device"]) == ("fp32", "cpu")
    assert record["layout"]["work_per_sample"] == 50
    [window] = record["windows"]
    window_s = window["end_s"] - window["start_s"]
    # Calls of two steps, each of 4 samples of 50 numbers.
    assert (metrics["warmup_steps"], metrics["measured_steps"], metrics["sums"]) == (4, 10, 7)
    assert metrics["measured_numbers"] == 10 * 4 * 50
    assert metrics["numbers_per_s"] == pytest.approx(10 * 4 * 50 / window_s)
    assert len(record["step_times_s"]) == 5
    assert sum(record["step_times_s"]) == pytest.approx(window_s / 2)
    assert metrics["host_step_time_median_s"] == pytest.approx(metrics["step_time_median_s"])
    assert metrics["tflops_per_device"] == pytest.approx(metrics["numbers_per_s"] / 1e12)
    assert metrics["mfu"] == pytest.approx(metrics["tflops_per_device"])
    assert metrics["model_flops_source"] == "an addition for each"
    assert (metrics["carries"], record["provenance"]["sums"]) == (7, "1.0")
    assert [device["name"] for device in record["devices"]] == ["a processor"]
    assert (metrics["first_loss"], metrics["last_loss"]) == (1.0, pytest.approx(1 / 7))
    assert len(record["losses"]) == 7


@pytest.mark.parametrize(("way", "variant"), [("plain", []), ("twice", ["added twice"])])
def test_a_record_says_what_was_chosen_and_what_of_it_is_unusual(ran, way, variant):
    _, record = ran("--way", way)
    assert (record["config"]["sums"]["way"], record["variant"]) == (way, variant)


def test_in_turns_both_kinds_of_data_have_windows_and_rates(ran, capsys):
    code, record = ran("--effective", "--rounds", "3")
    metrics = record["metrics"]
    assert code == 0
    assert [window["kind"] for window in record["windows"]] == ["measured", "effective"] * 3
    calls = -(-5 // 3)
    for kind in ("measured", "effective"):
        assert record["regions"][kind]["steps"] == 3 * 2
        assert set(record["regions"][kind]["regions"]) == {"IO", "Forward", "Other"}
        assert metrics[f"{kind}_numbers"] == 3 * calls * 2 * 4 * 50
        spans = [one["end_s"] - one["start_s"] for one in record["windows"] if one["kind"] == kind]
        rate = metrics["numbers_per_s" if kind == "measured" else "effective_numbers_per_s"]
        assert rate == pytest.approx(metrics[f"{kind}_numbers"] / sum(spans))
    assert metrics["input_numbers_per_s"] == pytest.approx(3 * calls * 50 / metrics["effective_s"])
    assert metrics["effective_over_compute_pairs"] == 3
    assert capsys.readouterr().out.count(" numbers/s, effective ") == 3


@pytest.mark.parametrize("flags", [[], ["--effective", "--rounds", "3"]], ids=["one window", "in turns"])
def test_throughput_is_over_the_windows_of_the_node_that_took_longest(ran, monkeypatch, flags):
    """Its energy is counted to the end of each node's own window; another node leaves it half as long again later."""

    def with_slower_node(self, value):
        if not (isinstance(value, list) and value and isinstance(value[0], dict) and "end_s" in value[0]):
            return [value]
        ends_s = [one["start_s"] + 1.5 * (one["end_s"] - one["start_s"]) for one in value]
        return [value, [{**one, "hostname": "n2", "end_s": end_s} for one, end_s in zip(value, ends_s, strict=True)]]

    monkeypatch.setattr(Processor, "gather", with_slower_node)
    _, record = ran(*flags)
    own = [one for one in record["windows"] if one["hostname"] != "n2"]
    for kind, rate in (("measured", "numbers_per_s"), ("effective", "effective_numbers_per_s")):
        spans = [one["end_s"] - one["start_s"] for one in own if one["kind"] == kind]
        if spans:
            metrics = record["metrics"]
            assert metrics[f"{kind}_s"] == pytest.approx(1.5 * sum(spans))
            assert metrics[rate] == pytest.approx(metrics[f"{kind}_numbers"] / metrics[f"{kind}_s"])


def test_turns_go_on_until_they_took_as_long_as_was_asked_for(ran, monkeypatch):
    """Steps turn out faster than those of the warm-up, by a clock that only steps move."""
    now_s = [100.0]

    def slow_at_first(self, batch):
        self.training.made.append(sum(batch))
        now_s[0] += 0.05 if self.taken <= 2 else 0.003

    monkeypatch.setattr(Numbers, "step", slow_at_first)
    monkeypatch.setattr("benchmarks.common.measure.turns.time", SimpleNamespace(monotonic=lambda: now_s[0]))
    code, record = ran("--effective", "--rounds", "3", "--min-measured-s", "0.1")
    assert code == 0
    assert record["metrics"]["measured_s"] >= 0.1
    kinds = [window["kind"] for window in record["windows"]]
    assert kinds == ["measured", "effective"] * (len(kinds) // 2)
    assert record["metrics"]["effective_over_compute_pairs"] == len(kinds) // 2 > 3


def test_the_record_says_where_the_steps_time_went_and_a_trace_lies_beside_it(ran, tmp_path):
    _, record = ran()
    [kind] = record["regions"]
    found = record["regions"][kind]
    assert (kind, found["clock"], found["steps"]) == ("measured", "host", 5)
    assert set(found["regions"]) == {"IO", "Forward", "Other"}
    assert sum(one["share_percent"] for one in found["regions"].values()) == pytest.approx(100)
    assert record["metrics"]["io_percent"] == found["regions"]["IO"]["share_percent"]
    assert record["metrics"]["comm_percent"] == 0
    assert 0 < found["step_s"] <= record["metrics"]["step_time_median_s"]  # of the two steps of a call
    names = {one["name"] for one in json.loads((tmp_path / "record.trace.json").read_text())["traceEvents"]}
    assert {"Batch", "IO", "Forward"} <= names


def test_when_each_region_went_on_can_be_had_beside_the_record(ran, tmp_path):
    _, record = ran("--effective", "--rounds", "3", "--region-times")
    [rank] = json.loads((tmp_path / "record.regions.json").read_text())
    [window, *_] = record["windows"]
    assert (rank["hostname"], rank["boot_id"]) == (window["hostname"], window["boot_id"])
    assert [one["kind"] for one in rank["windows"]] == ["measured", "effective"] * 3
    for of_rank, window in zip(rank["windows"], record["windows"], strict=True):
        begin_s, *_, end_s = of_rank["edges_s"]
        assert window["start_s"] - 1e-5 <= begin_s < end_s <= window["end_s"] + 1e-5
    assert {name for one in rank["windows"] for name in one["names"]} == {"IO", "Forward", "Other"}
    assert "reads counted" in record["variant"]


def test_a_step_that_tells_nothing_is_told_by_steps_that_are_split(ran, monkeypatch):
    """Those take an hour on a clock that they move: a usual step is shorter on any machine."""
    ahead_s = [0.0]

    def step_in_parts(training):
        for key, seconds in (("Backward", 3000.0), ("Update", 1000.0)):
            with training.run.regions.region(key):
                ahead_s[0] += seconds

    def now_s():
        return time.monotonic() + ahead_s[0]

    monkeypatch.setattr(Adding, "step_in_parts", step_in_parts)
    monkeypatch.setattr(session, "RegionTimer", lambda: RegionTimer(now_s=now_s))
    monkeypatch.setattr("benchmarks.common.measure.extra_steps.time", SimpleNamespace(monotonic=now_s))
    _, record = ran("--split-steps", "4")
    found = record["regions"]["measured"]
    assert record["regions"]["in parts"]["steps"] == found["in_parts"]["steps"] == 4
    assert set(found["regions"]) == {"IO", "Forward", "Backward", "Update"}
    assert found["regions"]["Backward"]["from"] == "in parts"
    assert len(record["losses"]) == 7


def test_a_profile_is_of_steps_after_the_window_beside_the_record(ran, tmp_path, monkeypatch):
    profiled = []

    @contextmanager
    def profile(target, folder):
        before = len(profiled)
        yield
        assert len(profiled) == before
        profiled.append(folder)

    monkeypatch.setattr(Processor, "has_profiler", True)
    monkeypatch.setattr(Processor, "profile", profile)
    _, record = ran("--profile", "3")
    assert profiled == [tmp_path / "record.profile"]
    assert record["metrics"]["sums"] == 2 + 5 + 3
    assert len(record["step_times_s"]) == record["regions"]["measured"]["steps"] == 5


def test_a_profile_is_never_written_over_another(tmp_path, capsys):
    (tmp_path / "record.profile").mkdir()
    assert session.main(Sums, ["--profile", "3", "--record", str(tmp_path / "record.json")]) == 2
    assert "record.profile, which exists already" in capsys.readouterr().err


def test_a_run_that_the_workload_finds_bad_has_failed(ran):
    code, record = ran("--no-falls")
    assert (code, record["status"], record["error"]) == (1, "failed", "the loss did not fall")


@pytest.mark.parametrize(
    ("flags", "others", "message"),
    [
        ("--profile 3", (), "--profile was asked for, but sums has no profiler on this device: leave it out"),
        ("--effective", (), "--effective was asked for, but sums has no input path: leave it out"),
        ("", ("of others",), "rank 1 was started with other options than rank 0"),
        ("--numbers 100", (), "--numbers 100 are too many: at most 99"),
    ],
)
def test_what_cannot_be_is_a_record_that_says_so_before_a_step(ran, monkeypatch, capsys, flags, others, message):
    monkeypatch.setattr(Sums, "build", lambda run, target: SimpleNamespace(on_device=None))  # no input path
    monkeypatch.setattr(Processor, "others", others)
    code, record = ran(*flags.split())
    assert (code, record["status"], record["metrics"].get("measured_steps")) == (2, "failed", None)
    assert record["error"].startswith(message)
    assert f"sums: error: {message}" in capsys.readouterr().err


def test_a_dry_run_prints_the_plan_and_leaves_no_record(tmp_path, capsys):
    assert session.main(Sums, ["--dry-run", "--record", str(tmp_path / "record.json")]) == 0
    assert {"global_batch_size: 4", "num_parameters: 0"} <= set(capsys.readouterr().out.splitlines())
    assert list(tmp_path.iterdir()) == []
    assert session.main(Sums, ["--dry-run", "--numbers", "100"]) == 2


def test_what_is_read_is_counted_within_edges_alone(tmp_path):
    counters = tmp_path / "io"
    seen = {"input_bytes": 0}

    def now(size_bytes, rchar, read_bytes):
        seen["input_bytes"] = size_bytes
        counters.write_text(f"rchar: {rchar}\nwchar: 1\nread_bytes: {read_bytes}\n")

    now(0, 0, 0)
    counts = ReadCounts(lambda: seen, counters)
    for edge, *numbers in (("begin", 5, 10, 1), ("end", 9, 30, 2), ("begin", 20, 90, 8), ("end", 21, 91, 8)):
        now(*numbers)
        counts.edge(edge)
    assert counts.totals == {"input_bytes": 4 + 1, "io_rchar_bytes": 20 + 1, "io_read_bytes": 1}
    counters.unlink()
    assert ReadCounts(lambda: seen, counters).totals == {"input_bytes": 0}


def test_a_workload_sets_its_environment_before_a_driver_is_initialised(ran, monkeypatch):
    seen = []
    monkeypatch.setattr(Sums, "set_environment", lambda run: seen.append("environment"))
    monkeypatch.setattr(session, "bind", lambda launch: seen.append("driver"))
    ran()
    assert seen == ["environment", "driver"]
