"""Devices, precision and the distribution over processes, under TensorFlow."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.common import workload
from benchmarks.common.launch import Launch, check_gpus, described_device, peak_memory_bytes
from benchmarks.common.node.gpu_ids import gpu_ids
from benchmarks.common.options import ConfigError, precision_on_gpu
from benchmarks.common.record import Device
from benchmarks.on_tensorflow.options import ComputeOptions

POLICIES = {"fp32": "float32", "bf16": "mixed_bfloat16", "fp16": "mixed_float16"}
BF16_CAPABILITY = (8, 0)  # of CUDA, and more; AMD's GPUs have no such number, and all have bf16
MESSAGE_BYTES = 4096
# Size of packs of gradients: over the ring of CPUs small packs are faster, and a worker needs 0.4 GB less (measured).
RING_PACK_BYTES = 4 * 2**20
HEARTBEAT_TIMEOUT_MS = 60_000  # in place of 10 s, as a node can be busy


@dataclass(frozen=True)
class Target(workload.Target):
    """Devices and settings of this process."""

    kind: str  # cpu, gpu or ipu
    precision: str
    xla: bool
    strategy: Any  # a tf.distribute.Strategy
    launch: Launch = Launch()

    has_profiler = True

    @property
    def copied_to(self) -> str:
        """Device that batches are copied to in advance; empty for none."""
        return "/GPU:0" if self.on_gpu else ""

    @property
    def on_gpu(self) -> bool:
        """Whether the devices are GPUs."""
        return self.kind == "gpu"

    @property
    def on_ipu(self) -> bool:
        """Whether the device is an IPU."""
        return self.kind == "ipu"

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in their order, on every rank; a value is anything that JSON can hold."""
        if self.launch.world_size == 1:
            return [value]
        text = np.frombuffer(json.dumps(value).encode(), np.uint8)
        lengths = self.strategy.gather(tf.constant([len(text)]), axis=0).numpy()
        width = -(-max(lengths) // MESSAGE_BYTES) * MESSAGE_BYTES  # few widths, as each needs its own graph
        padded = np.zeros((1, width), np.int32)
        padded[0, : len(text)] = text
        gathered = self.strategy.gather(tf.constant(padded), axis=0).numpy()
        return [json.loads(bytes(row[:size].astype(np.uint8))) for row, size in zip(gathered, lengths, strict=True)]

    def describe_devices(self) -> list[Device]:
        """Return this process's devices with their peak memory: of each GPU, or of the process on a CPU."""
        if self.on_ipu:
            return [described_device(self.launch, "IPU")]
        if not self.on_gpu:
            threads = tf.config.threading.get_intra_op_parallelism_threads()
            name = f"CPU, {threads} threads"
            return [described_device(self.launch, name, peak_memory_bytes=peak_memory_bytes())]
        ids, experimental = dict(enumerate(gpu_ids())), tf.config.experimental
        return [
            described_device(
                self.launch,
                experimental.get_device_details(gpu).get("device_name", "GPU"),
                ids.get(int(gpu.name.rpartition(":")[2]), ""),  # /physical_device:GPU:0, as the driver counts
                experimental.get_memory_info(f"GPU:{index}")["peak"],
            )
            for index, gpu in enumerate(tf.config.get_visible_devices("GPU"))
        ]

    def software(self) -> dict[str, Any]:
        """Return the versions of the libraries of TensorFlow; None for one it was built without."""
        built = tf.sysconfig.get_build_info()
        return {key: built.get(f"{key}_version") for key in ("cuda", "cudnn", "rocm")}

    def profile(self, folder: Path) -> AbstractContextManager[object]:
        """Return TensorFlow's profiler, which writes into a folder."""
        profiler: AbstractContextManager[object] = tf.profiler.experimental.Profile(str(folder))
        return profiler


def choose_target(options: ComputeOptions, launch: Launch, environ: Mapping[str, str] = os.environ) -> Target:
    """Return the GPUs of this process's local rank, or its share of the CPU; raises ConfigError if unavailable."""
    if options.device == "ipu":
        strategy = open_ipu(options, launch)
        precision = "fp16" if options.precision == "auto" else options.precision
        keras.mixed_precision.set_global_policy(POLICIES[precision])
        return Target("ipu", precision, True, strategy, launch)
    gpus = tf.config.list_physical_devices("GPU") if options.device != "cpu" else []
    check_gpus(options.device, len(gpus), launch, "TensorFlow")
    on_gpu = bool(gpus)
    if on_gpu:
        gpu = gpus[launch.local_rank]
        tf.config.set_visible_devices([gpu], "GPU")
        tf.config.experimental.set_memory_growth(gpu, True)
        details = tf.config.experimental.get_device_details(gpu)
        has_bf16 = details.get("compute_capability", BF16_CAPABILITY) >= BF16_CAPABILITY
        precision = precision_on_gpu(options.precision, has_bf16, details.get("device_name", "the GPU"))
    else:
        precision = "fp32" if options.precision == "auto" else options.precision
        tf.config.set_visible_devices([], "GPU")
        threads = options.threads or launch.own_cores
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(2)
    # By default TensorFlow uses TF32 on a GPU that has it, and MFU would not refer to the peak in fp32.
    tf.config.experimental.enable_tensor_float_32_execution(precision != "fp32")
    keras.mixed_precision.set_global_policy(POLICIES[precision])
    return Target(
        "gpu" if on_gpu else "cpu",
        precision,
        on_gpu if options.xla == "auto" else options.xla == "on",
        make_strategy(launch, on_gpu, environ),
        launch,
    )


def open_ipu(options: ComputeOptions, launch: Launch) -> Any:
    """Return a strategy on one IPU; raises ConfigError for unsupported options, and without the SDK.

    Written from documentation, never run on hardware. Source: Graphcore, Targeting the IPU from TensorFlow 2, version
    3.4: "Distributed training" (IPUStrategy) and "Training loops" (steps in one compiled loop).
    """
    if launch.world_size > 1:
        raise ConfigError("--device ipu trains on one IPU: start one process")
    if options.precision == "bf16":
        raise ConfigError("--precision bf16 was asked for, but IPUs have none: use fp16 or fp32")
    if options.xla == "off":
        raise ConfigError("--xla off was asked for, but IPUs run compiled programs only: leave the flag out")
    try:
        from tensorflow.python import ipu
    except ImportError as error:
        raise ConfigError(
            "--device ipu needs the TensorFlow of the Poplar SDK, which has tensorflow.python.ipu: use its container"
        ) from error
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()


def make_strategy(launch: Launch, on_gpu: bool, environ: Mapping[str, str]) -> Any:
    """Return the strategy for one device, or for replicas in several processes."""
    if launch.world_size == 1:
        return tf.distribute.get_strategy()
    os.environ["TF_CONFIG"] = json.dumps(tf_config(launch, environ))
    implementations = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        bytes_per_pack=0 if on_gpu else RING_PACK_BYTES,
        implementation=implementations.NCCL if on_gpu else implementations.RING,
    )
    extend_heartbeat_timeout()
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def extend_heartbeat_timeout() -> None:
    """Let TensorFlow wait longer for a silent process before it counts as lost."""
    from tensorflow.python.eager import context

    own = context.context()
    configure = getattr(own, "configure_coordination_service", None)
    if configure is not None:  # the strategy calls it without a timeout
        own.configure_coordination_service = partial(configure, heartbeat_timeout_in_ms=HEARTBEAT_TIMEOUT_MS)


def tf_config(launch: Launch, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return TensorFlow's description of all workers and of this one, from the launcher's variables.

    CARAML_NODES has the names of several nodes in the order of their ranks, separated by commas. Raises ConfigError if
    it does not fit the launch, or without a MASTER_PORT.
    """
    nodes = environ.get("CARAML_NODES", environ.get("MASTER_ADDR", "localhost")).split(",")
    if len(nodes) != launch.num_nodes:
        raise ConfigError(
            f"CARAML_NODES has {len(nodes)} nodes, but the launcher started processes on {launch.num_nodes}: correct it"
        )
    first_port = int(environ.get("MASTER_PORT", "0"))
    if not first_port:
        raise ConfigError("the launcher set no MASTER_PORT: start with python -m benchmarks.common.spawn, or torchrun")
    hosts = [node for node in nodes for _ in range(launch.local_world_size)]
    workers = [f"{host}:{first_port + rank}" for rank, host in enumerate(hosts)]
    return {"cluster": {"worker": workers}, "task": {"type": "worker", "index": launch.rank}}
