"""The record of one run: its parts, their types and units.

Units are in the names. A field without a default is required. None is a number or text that is unknown, or a part that
the record lacks. A record may have further keys, which are kept and not checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal

from record.part import FROM_0, Allowed, Part

SCHEMA_VERSION = 4
Json = dict[str, Any]  # a record as its file has it
COPIES_VARIABLE = "CARAML_COPIES"  # number of copies that run at once; unset without any

# In Annotated, a text is the description, and `Allowed` limits the values.
Number = float | None
Amount = Annotated[float | None, FROM_0]
Text = str | None
Name = Annotated[str, Allowed("a text that is not empty", bool)]
COUNTED = Allowed("a whole number from 0 to 10^9", lambda number: 0 <= number <= 10**9)
Count = Annotated[int, COUNTED]
Whole = Annotated[int, Allowed("a whole number from 0 on", FROM_0.test)]
KnownAmount = Annotated[float, FROM_0]
Options = dict[str, str | float | bool | list[Any] | None]
SAME_LIMIT_W = 1.0  # drivers round power limits to less
Size = Annotated[int | None, COUNTED]
# Keys of `Numbers` that match hold a number; a rate is not below 0.
PATTERNS = {
    "^(ttft|tpot|e2e)_": Amount,
    "(_per_s|_per_wh|_per_j|_per_s_per_device)$": Amount,
    "(_s|_wh|_w|_token|_per_request|_per_image|_per_device|_percent|_bytes)$": Number,
    "^(mfu|hfu|samples|missing|(measured|effective|epcc)_(tokens|images|samples))$": Number,
}


def _empty(kind: type) -> Any:
    return field(default_factory=kind)


def _added(default: Any = None) -> Any:
    """Return a field that a new part lacks; `changed` adds it."""
    return field(default=default, init=False)


class Numbers(Part):
    """An object in which the value of each key that ends with a unit is a number."""

    OTHERS: ClassVar = PATTERNS


class Window(Part):
    """A time on one node that throughput and energy are of."""

    hostname: str
    boot_id: Annotated[str, "of the node's kernel; empty if unknown"]
    start_s: Annotated[float, "on the node's monotonic clock, as is end_s"]
    end_s: float
    start_epoch_s: Annotated[Number, "since 1970, on the node's wall clock"] = None
    end_epoch_s: Number = None
    clock_error_s: Annotated[Amount, "by which this clock and that of the window's client may differ"] = _added()
    kind: Annotated[
        Literal["measured", "effective", "checkpoint", "restore"],
        "of a throughput, without or with the input path, or as a checkpoint is written or read",
    ]

    @property
    def duration_s(self) -> float:
        """Length of the window, in seconds."""
        return self.end_s - self.start_s


def total_s(windows: Iterable[Window]) -> float:
    """Return the sum of the windows' durations, in seconds."""
    return sum(window.duration_s for window in windows)


class Device(Part):
    """A device that one process, its rank, trained on."""

    hostname: str
    device_id: Annotated[Text, "its UUID or bus address; empty for a processor"]
    name: Text = None
    cpus: Annotated[Text, "on which the process may run"] = None
    rank: Whole = 0
    peak_memory_bytes: Amount = None


class Metrics(Numbers):
    """Work, times and rates; most are checked by the unit that ends their names."""

    comparable: Annotated[bool | None, "with published results of the workload"] = None
    measured_steps: Amount = None
    target_loss: Annotated[Amount, "of a training to a loss"] = None
    reached_loss: Annotated[Number, "mean of its last losses"] = None


class Clocks(Numbers):
    """Clock, temperature and throttling of a device over the windows."""

    mean_mhz: Amount = None
    least_mhz: Amount = None
    hottest_c: Number = None
    throttled: Annotated[dict[str, KnownAmount] | None, "percent of the time, by reason; unknown if missing"] = _added()


class Limits(Numbers):
    """Limits of a device in the windows."""

    power_limit_w: Annotated[Amount, "in force for the longest time"] = None
    clock_limit_mhz: Annotated[Amount, "as set; unknown if the sampler did not set or check it"] = None
    limits_set_by: Annotated[str, "empty if the sampler only observed them"] = ""
    power_limit_mean_w: Annotated[Amount, "over the time; missing if it was not read in the windows"] = _added()
    power_limit_least_w: Annotated[Amount, "in force, or as set"] = _added()
    power_limit_most_w: Annotated[Amount, "in force, or as set"] = _added()

    @property
    def varied(self) -> bool:
        """Whether the power limit changed in the windows, or was not as set."""
        least_w, most_w = self.number("power_limit_least_w"), self.number("power_limit_most_w")
        return least_w is not None and most_w is not None and most_w - least_w > SAME_LIMIT_W


class Uncertain(Numbers):
    """An energy with the half-width of its interval, and the two components of it."""

    uncertainty_wh: Amount = None
    random_wh: Amount = None
    systematic_wh: Amount = None
    accuracy: Annotated[Amount, "of the sensor, relative"] = None
    accuracy_from: Annotated[Text, "data sheet, or assumed"] = None
    samples: Amount = None
    missing: Annotated[Amount, "readings that failed"] = None


class Channel(Uncertain):
    """Energy by one sensor, in watt-hours."""

    name: str
    hostname: str
    scope: Annotated[str, "what the sensor covers, such as device or node"]
    estimated: bool
    energy_wh: Number
    source: Text = None
    limit_w: Annotated[Amount, "of the board"] = None
    integral_wh: Number = None
    integral_uncertainty_wh: Number = None
    counter_wh: Number = None
    counter_not_used: Annotated[Text, "the reason, or why a source is in doubt; empty if none is"] = None
    idle_power_w: Number = None
    method: Annotated[Text, "counter, integral, or counter+integral"] = None
    device_id: Text = None
    num_devices: KnownAmount = 0
    largest_gap_s: Amount = None
    integral_vs_counter: Annotated[Number, "relative difference"] = None
    limits: Limits = Limits.of({})
    clocks: Clocks = _added(Clocks.of({}))


class SitePower(Part):
    """Statements of the site about the power of its nodes, from the system's block in systems.yaml."""

    accuracy_percent: Annotated[Amount, "bound on the error of the node's sensor or meter"] = None
    losses: Annotated[str, "of the conversion: upstream, maker, offline or together; empty if not stated"] = ""
    measured: Annotated[list[str], "subsystems that are measured with the nodes"] = _empty(list)
    estimated: Annotated[list[str], "subsystems with an estimate that is added"] = _empty(list)
    machine_nodes: Annotated[Amount, "nodes of the machine; 0: the nodes of the run are the machine"] = None


class Energy(Uncertain):
    """Energy and power over the windows of one kind, summed over all devices."""

    energy_wh: float
    power_kind: Literal["measured", "estimated"]
    power_scope: str
    channels: Annotated[list[Channel], Allowed("a list that is not empty", bool)]
    power_source: Annotated[str, "kind and scope, equal for energies that can be compared"] = ""
    energy_wh_per_device: Number = None
    epoch_wh: Annotated[Number, "of one pass over the data"] = None
    window_s: Amount = None
    avg_power_w: Number = None
    idle_power_w: Number = None
    windows_w: Annotated[Number, "from the first window to the last, where elsewhere_w is clearly higher"] = _added()
    elsewhere_w: Annotated[Number, "highest mean power over an equal time outside of the windows"] = _added()
    sensor_channels: Annotated[list[Channel] | None, "of the run's own sensors, where a meter counts"] = _added()
    power_limit_w: Annotated[Amount, "of each device; null if they differ"] = None
    clock_limit_mhz: Annotated[Amount, "of each device; null if none is known, or they differ"] = None
    power_limited_percent: Annotated[Amount, "of the windows in which the power limit bound"] = None
    notes: list[str] = _empty(list)
    sampled_by_scope: Numbers = Numbers.of({})
    run_wh: Annotated[Amount, "from the start of the command to its end"] = _added()
    run_s: Annotated[Amount, "from the start of the command to its end"] = _added()
    before_s: Annotated[Amount, "from the start of the command to the first window"] = _added()
    tenths: Annotated[list[Amount] | None, "mean powers in ten equal parts of the windows, in watts"] = _added()
    part_s: Annotated[Amount, "length of the parts of the windows whose mean powers the percentiles are of"] = _added()
    p75_power_w: Amount = _added()
    p90_power_w: Amount = _added()
    p99_power_w: Amount = _added()
    site: SitePower = _added(SitePower.of({}))


class Region(Part):
    """Time of a step in one region."""

    median_s: Amount
    share_percent: Amount
    from_: str = ""
    p95_s: Amount = None
    whole_s: Annotated[Amount, "with the regions inside it"] = None
    imbalance_percent: Amount = None
    by_rank_s: list[Amount] = _empty(list)


class Regions(Part):
    """Regions of a step in windows of one kind; their own times add up to the step."""

    steps: Count
    regions: dict[str, Region]
    clock: Literal["host", "device"] = "host"
    step_s: Amount = None
    all_communication: Annotated[bool, "whether all of it has regions"] = True
    in_parts: Numbers = Numbers.of({})


class Reads(Part):
    """Reads of files."""

    files: Whole
    opens: Whole
    reads: Whole
    bytes: Whole
    read_s: KnownAmount
    sequential_reads: Whole
    maps: Whole
    mapped_bytes: Whole
    size_bytes: Whole


class FileReads(Reads):
    """Reads of one file."""

    path: str
    window_bytes: Annotated[Whole, "read in the windows"]
    waited_for_bytes: Annotated[Whole, "of them, while steps waited for input"]


class WindowReads(Part):
    """Reads in the windows of one kind."""

    files: Whole
    bytes: Whole
    reads: Whole
    reading_s: Annotated[KnownAmount, "in which any process read"]
    by_region: Annotated[dict[str, Whole], "bytes"]


class JobReads(Part):
    """Reads of the job, as ioprof counted them."""

    coverage_percent: Annotated[Amount, "of the bytes that the kernel counted"]
    missing: list[str]
    lost_opens: Whole
    lost_stretches: Whole
    job: Reads
    windows: dict[str, WindowReads]
    files: list[FileReads]


class Node(Part):
    """Name, processor and devices of one node."""

    hostname: Text = None
    cpu: Text = None
    devices: list[dict[str, Any]] | dict[str, Any] | None = None

    @property
    def reported_devices(self) -> list[dict[str, Any]]:
        """Reports of the vendor's tool on each device; newer versions of amd-smi put the list into an object."""
        found = self.devices.get("gpu_data") if isinstance(self.devices, dict) else self.devices
        return [device for device in found if isinstance(device, dict)] if isinstance(found, list) else []


class Provenance(Part):
    """Origin of the run: code, container, packages, environment and nodes."""

    command: list[Any] | None = None
    created: Text = None
    git_commit: Text = None
    git_dirty: bool | None = None
    container: Text = None
    container_digest: Text = None
    exclusive: Text = None
    environment: dict[str, str] | None = None
    packages: Annotated[dict[str, str | None] | None, "their versions"] = None
    nodes: list[Node] = _empty(list)


class Figure(Numbers):
    """Rate of a device, or of the links of a node or of all nodes."""

    name: Name
    unit: Literal["TFLOP/s", "GB/s"]
    scope: Annotated[Literal["device", "node", "all"], "what it belongs to"]
    rank: Annotated[Whole, "of the device, or the first of several"]
    values: Annotated[list[KnownAmount], "of its repeats"]
    reason: Annotated[str, "why it has no values"] = ""
    bytes: Annotated[Amount, "of a message"] = None
    ranks: Annotated[Whole, "devices that share it"] = 1


class CheckedDevice(Numbers):
    """A device's link to the host, as the kernel has it, and the time in which a quota held its process back."""

    rank: Whole
    pcie_width: Text = None
    pcie_speed: Text = None
    numa_node: Text = None


class NodeCheck(Part):
    """Rates of devices and links."""

    figures: list[Figure] = _empty(list)
    devices: list[CheckedDevice] = _empty(list)


class StoredFinding(Part):
    """A finding: record/kinds.py has the kinds and the names of their values."""

    kind: Name
    values: dict[str, str | float | None] = _empty(dict)


class Speculation(Part):
    """Speculative decoding at a stated acceptance; a step has accepted draft tokens and one of the model's own."""

    draft_tokens: Annotated[Whole, "proposed in a step"]
    stated_length: Annotated[KnownAmount, "tokens of a step, in the mean"]
    steps: Annotated[Amount, "in the window, by the server; unknown without its counters"] = None
    accepted_tokens: Annotated[Amount, "draft tokens, in the window, by the server"] = None
    measured_length: Amount = None


class Serving(Part):
    """A server under load."""

    server: str = ""
    version: str = ""
    slo: str = ""
    elsewhere: Annotated[str, "host of a server on other nodes, whose energy needs their traces"] = ""
    clock_error_s: Annotated[Amount, "by which the wall clock of the client's node may be wrong"] = None
    findings: Annotated[list[StoredFinding], "that limit the run"] = _empty(list)
    answers: Annotated[dict[str, float | bool], "under load, compared; see record/answers.py"] = _empty(dict)
    speculation: Speculation | None = None


class Copy(Part):
    """One of the copies that ran at once."""

    copy: Annotated[Whole, "its number, from 1"]
    rate: Annotated[KnownAmount, "work per second"]
    windows: list[Window] = _empty(list)


class Fill(Numbers):
    """Copies of a point that ran at once; the record's throughput is that of the slowest times their number."""

    copies: Count
    devices_per_copy: Count
    slowest: Annotated[Amount, "rate of the slowest copy"] = None
    spread_percent: Annotated[Amount, "by which the slowest is behind the fastest"] = None
    common_s: Annotated[Amount, "time common to the windows of all copies"] = None
    per_copy: list[Copy] = _empty(list)


class Layout(Part):
    """Devices, nodes, parallel sizes and batch sizes."""

    OTHERS: ClassVar = {"": Count}
    num_devices: Size = None
    num_nodes: Size = None
    global_batch_size: Size = None
    micro_batch_size: Size = None
    data_parallel_size: Size = None
    tensor_parallel_size: Size = None
    pipeline_parallel_size: Size = None
    context_parallel_size: Size = None
    expert_parallel_size: Size = None
    grad_accum_steps: Size = None
    sequence_length: Size = None
    image_size: Size = None
    work_per_sample: Size = None


class Learnt(Part):
    """Verdict on a run's losses, against those of reference runs."""

    how: Annotated[str, "as the reference, worse, too fast or not judged"] = ""
    loss: Annotated[Number, "mean of the last quarter of the reference's steps"] = None
    reference: Annotated[Number, "mean of the reference runs there"] = None
    most: Annotated[Number, "highest loss there of a run that learns as they do"] = None
    findings: Annotated[tuple[Any, ...], "why the run is not ranked, or not judged"] = ()


class File(Part):
    """File that a record was read from."""

    path: str = ""
    sha256: str = ""


class Record(Part, eq=False):
    """Record of one run: units are in the keys, an unknown number is null, further keys are not checked."""

    ADDED: ClassVar = ("file", "corrected", "learnt")  # by the reader; no file has them
    schema_version: Literal[4]
    benchmark: Name
    system: Name
    model: Annotated[Name, "its size or variant"]
    work_unit: Annotated[Name, "counted by throughput, such as tokens"]
    status: Literal["ok", "failed", "out_of_memory", "unfinished"]
    layout: Layout
    run_id: Annotated[str, "unique; empty for a run that left no record"] = ""
    error: Annotated[str, "why the status is not ok"] = ""
    config: Annotated[dict[str, Options], "options as used, by group"] = _empty(dict)
    precision: str = ""
    data: str = ""
    sample: Annotated[str, "its size, such as 2048 tokens"] = ""
    variant: Annotated[list[str], "unusual options that change the speed of the same work, in words"] = _empty(list)
    metrics: Metrics = Metrics.of({})
    losses: list[Number] = _empty(list)
    step_times_s: list[Amount] = _empty(list)
    windows: list[Window] = _empty(list)
    devices: list[Device] = _empty(list)
    provenance: Provenance = Provenance.of({})
    regions: Annotated[dict[str, Regions], "by kind of window"] = _empty(dict)
    serving: Serving = Serving.of({})
    node_check: NodeCheck = NodeCheck.of({})
    energy: Energy | None = None
    energy_effective: Energy | None = None
    io: JobReads = JobReads.of({})
    fill: Fill | None = None
    slurm: Numbers = Numbers.of({})
    file: File = File.of({})
    corrected: Annotated[tuple[Any, ...], "findings on values that follow today's tables"] = ()
    learnt: Learnt = Learnt.of({})

    @classmethod
    def from_file(cls, values: Json, **file: str) -> Record:
        """Return the record with the file that has it, whose own keys of these names do not count."""
        return cls.of({name: value for name, value in values.items() if name not in cls.ADDED} | {"file": file})

    @property
    def is_good(self) -> bool:
        """Whether the run ended as it should."""
        return self.status == "ok"

    def option(self, path: str) -> Any:
        """Return the option with a path such as `compute.device`, as used; None without one."""
        group, _, name = path.partition(".")
        options = self.config.get(group)
        return options.get(name) if isinstance(options, dict) else None

    def windows_of(self, kind: str) -> dict[str, list[Window]]:
        """Return the windows of one kind by the node's host name."""
        nodes: dict[str, list[Window]] = {}
        for window in self.windows:
            if window.kind == kind:
                nodes.setdefault(window.hostname, []).append(window)
        return nodes

    def longest_s(self, kind: str) -> float:
        """Return the longest total duration of any node's windows of a kind, in seconds; 0 without any."""
        return max(map(total_s, self.windows_of(kind).values()), default=0.0)

    @property
    def sensor_channels(self) -> list[Channel]:
        """Energy channels of the run's own sensors, also if a meter counts, which knows no limits or clocks."""
        return (self.energy.sensor_channels or self.energy.channels) if self.energy else []

    @property
    def reported_devices(self) -> list[dict[str, Any]]:
        """Reports of the vendor's tool on each device of all nodes."""
        return [device for node in self.provenance.nodes for device in node.reported_devices]

    @property
    def energies(self) -> dict[str, Energy]:
        """Energies by their keys: of the measured and of the effective windows."""
        known = {"energy": self.energy, "energy_effective": self.energy_effective}
        return {key: energy for key, energy in known.items() if energy}
