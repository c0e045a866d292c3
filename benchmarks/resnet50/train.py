"""One run: train for some steps, time them, and write the record."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from benchmarks.common.binding import bind
from benchmarks.common.launch import Launch, read_launch
from benchmarks.common.options import EXIT_BAD_OPTIONS, FULL_FP32, ConfigError, parse_config
from benchmarks.common.provenance import collect_provenance
from benchmarks.common.record import FAILED, OK, Device, RunRecord, Window
from benchmarks.common.run import check_record_path, run_recorded
from benchmarks.resnet50.config import NUM_CLASSES, OPTION_GROUPS, Config, num_devices
from benchmarks.resnet50.metrics import num_parameters
from benchmarks.resnet50.points import check_point

BENCHMARK = "resnet50"
MAX_DAMAGED = 0.001  # of the records that were read
PACKAGES = ("tensorflow", "tensorflow-cpu", "tensorflow-rocm", "keras", "numpy")


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code and leaves a record, whatever happens."""
    try:
        options = parse_config(
            OPTION_GROUPS,
            sys.argv[1:] if argv is None else argv,
            prog="python -m benchmarks.resnet50",
            description="Train ResNet-50 for some steps with TensorFlow and record how fast it went. Start it alone "
            "for one device, or with python -m benchmarks.common.spawn (or torchrun) for several.",
        )
        config, launch = Config(*options), read_launch()
        check_record_path(config.run.record)
        layout = layout_of(config, launch)
    except ConfigError as error:
        print(f"{BENCHMARK}: {error}", file=sys.stderr)
        return EXIT_BAD_OPTIONS
    if launch.rank == 0 and config.model.warning:
        print(f"{BENCHMARK}: {config.model.warning}", file=sys.stderr)
    if config.run.dry_run:
        for key, value in {**layout, "num_parameters": num_parameters(config.model.variant)}.items():
            print(f"{key}: {value}")
        return 0
    if config.compute.precision == "fp32":
        os.environ.update(FULL_FP32)
    record = RunRecord(
        BENCHMARK,
        config.run.system,
        f"ResNet-50 {config.model.variant}",
        "images",
        asdict(config),
        layout=layout,
        provenance=collect_provenance(PACKAGES),
    )
    return run_recorded(record, config.run, launch, partial(train, config, launch))


def layout_of(config: Config, launch: Launch) -> dict[str, int]:
    """What the record says of devices and batch; raises ConfigError when the batch cannot be shared out."""
    batch, devices = config.batch.global_batch_size, num_devices(config, launch.world_size)
    check_point(config.model.variant, devices, batch)
    return {
        "num_devices": devices,
        "num_nodes": launch.num_nodes,
        "global_batch_size": batch,
        "micro_batch_size": batch // devices,
        "data_parallel_size": devices,
        "image_size": config.model.image_size,
    }


def train(config: Config, launch: Launch, record: RunRecord) -> None:
    """Train and fill in the record; raises ConfigError for what does not fit the options or the machine."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if config.compute.bind and config.compute.device != "cpu":
        bind(launch, config.compute.devices_per_process)
    # TensorFlow takes seconds to import: only once the options are known to be good.
    from benchmarks.resnet50 import parallel
    from benchmarks.resnet50.measurement import Measurement
    from benchmarks.resnet50.trainer import Trainer

    target = parallel.choose_target(config.compute, launch)
    record.config["compute"] |= {
        "precision": target.precision,
        "xla": "on" if target.xla else "off",
        "layout": "nchw" if target.data_format == "channels_first" else "nhwc",
        "device": target.device,
    }
    trainer = Trainer(config, target)
    run = Measurement(config, launch, target, trainer)
    run.agree(0)  # no rank starts its clock while another still builds its model
    windows = run.measure_effective(record) if config.data.effective else run.measure(record)
    losses = [float(loss) for loss in trainer.losses]
    record.windows = [Window(**one) for own in run.gather([vars(window) for window in windows]) for one in own]
    nodes = run.gather(record.provenance["nodes"] if launch.is_first_on_node else [])
    record.provenance |= {"nodes": [node for own in nodes for node in own], **parallel.software()}
    devices = run.gather([asdict(device) for device in parallel.describe_devices(launch, target)])
    record.devices = [Device(**device) for own in devices for device in own]
    read, damaged = (sum(counts) for counts in zip(*run.gather(run.batches.records()), strict=True))
    record.losses = list(losses)
    record.metrics |= {
        "num_parameters": num_parameters(config.model.variant),
        "comparable": config.model.is_comparable,
        "warmup_steps": config.window.warmup_steps * config.compute.steps_per_call,
        "records_read": read,
        "records_damaged": damaged,
        "first_loss": losses[0],
        "last_loss": losses[-1],
    }
    record.error = run_problem(losses, read, damaged)
    record.status = FAILED if record.error else OK


def run_problem(losses: Sequence[float], read: int, damaged: int) -> str:
    """Why the run is not a good one, or an empty string.

    Random labels cannot be learnt in a few steps: what can be told of the loss is that nothing diverged.
    """
    bad = next((call for call, loss in enumerate(losses) if not abs(loss) < float("inf")), None)
    if bad is not None:
        return f"the loss is {losses[bad]} in call {bad}: the training diverged"
    if damaged > MAX_DAMAGED * read:
        return (
            f"{damaged} of {read} records could not be used (damaged, or a label that is not from 1 to {NUM_CLASSES}), "
            f"more than {MAX_DAMAGED:.1%}: check the data"
        )
    return ""
