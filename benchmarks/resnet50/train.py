"""One run: train for some steps, time them, and write the record."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.common.launch import Launch, node_window, read_launch
from benchmarks.common.measure import measure_steps
from benchmarks.common.options import ConfigError, parse_config
from benchmarks.common.provenance import collect_provenance
from benchmarks.common.record import FAILED, OK, Device, RunRecord
from benchmarks.common.run import EXIT_BAD_OPTIONS, check_record_path, run_recorded
from benchmarks.common.step_timer import StepTimer
from benchmarks.resnet50.config import NUM_CLASSES, OPTION_GROUPS, Config
from benchmarks.resnet50.metrics import num_parameters, training_metrics

if TYPE_CHECKING:
    from benchmarks.resnet50.parallel import Target

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
    record = RunRecord(
        BENCHMARK,
        config.run.system,
        f"ResNet-50 {config.model.variant}",
        "images",
        asdict(config),
        layout=layout,
        provenance=collect_provenance(PACKAGES),
    )
    return run_recorded(record, config.run.record, launch, partial(train, config, launch), _is_out_of_memory)


def layout_of(config: Config, launch: Launch) -> dict[str, int]:
    """What the record says of devices and batch; raises ConfigError when the batch cannot be shared out."""
    batch, devices = config.batch.global_batch_size, launch.world_size
    if batch % devices:
        raise ConfigError(
            f"global_batch_size {batch} is not a multiple of the {devices} devices: change one of the two"
        )
    return {
        "num_devices": devices,
        "num_nodes": launch.num_nodes,
        "global_batch_size": batch,
        "micro_batch_size": batch // devices,
        "data_parallel_size": devices,
        "image_size": config.model.image_size,
    }


def _is_out_of_memory(error: Exception) -> bool:
    import tensorflow as tf

    return isinstance(error, tf.errors.ResourceExhaustedError)


def train(config: Config, launch: Launch, record: RunRecord) -> None:
    """Train and fill in the record; raises ConfigError for what does not fit the options or the machine."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # TensorFlow takes seconds to import: only once the options are known to be good.
    from benchmarks.resnet50 import parallel

    target = parallel.choose_target(config.compute, launch)
    record.config["compute"] |= {
        "precision": target.precision,
        "xla": "on" if target.xla else "off",
        "layout": "nchw" if target.data_format == "channels_first" else "nhwc",
        "device": "gpu" if target.on_gpu else "cpu",
    }
    trainer = Trainer(config, target, launch)
    timer = StepTimer(config.window.warmup_steps, time.monotonic, trainer.synchronize)
    parallel.gather(None, target.strategy, launch)  # no rank starts its clock while another still builds its model
    measure_steps(
        lambda step: trainer.call(),
        timer,
        config.window,
        launch,
        agree=lambda steps: int(parallel.gather(steps, target.strategy, launch)[0]),
    )
    losses = [float(loss) for loss in trainer.losses]
    window = node_window(timer.window_start_s, timer.window_end_s) if launch.is_first_on_node else None
    record.windows = parallel.all_windows(window, target.strategy, launch)
    devices = parallel.gather(asdict(parallel.describe_device(launch, target)), target.strategy, launch)
    record.devices = [Device(**device) for device in devices]
    records = parallel.gather(trainer.batches.records(), target.strategy, launch)
    read, damaged = (sum(counts) for counts in zip(*records, strict=True))
    record.losses = list(losses)
    call_times_s = timer.measured_step_times_s
    record.step_times_s = [time_s / config.compute.steps_per_call for time_s in call_times_s]
    record.metrics = {
        "num_parameters": num_parameters(config.model.variant),
        "comparable": config.model.is_comparable,
        "warmup_steps": config.window.warmup_steps * config.compute.steps_per_call,
        "measured_steps": len(call_times_s) * config.compute.steps_per_call,
        "records_read": read,
        "records_damaged": damaged,
        "first_loss": losses[0],
        "last_loss": losses[-1],
        **training_metrics(
            config.model.image_size,
            config.batch.global_batch_size,
            launch.world_size,
            call_times_s,
            config.compute.steps_per_call,
            config.run.peak_tflops_per_device,
        ),
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


class Trainer:
    """Model, optimizer and data of this process."""

    def __init__(self, config: Config, target: Target, launch: Launch) -> None:
        import keras
        import tensorflow as tf

        from benchmarks.resnet50 import data, model

        self.losses: list[Any] = []  # of the last step of every call, a mean over the global batch
        options, batch = config.training, config.batch.global_batch_size
        self._strategy = target.strategy
        with self._strategy.scope():
            self.model = model.build_model(
                config.model.variant, config.model.image_size, target.data_format, options.seed
            )
            self._optimizer = keras.optimizers.SGD(0.0, momentum=options.momentum)
            if target.precision == "fp16":
                self._optimizer = keras.optimizers.LossScaleOptimizer(self._optimizer)
            self._optimizer.build(self.model.trainable_variables)
        kernels = [variable.path.endswith("kernel") for variable in self.model.trainable_variables]
        highest = options.learning_rate * batch / 256
        self._step = 0
        self._rates = (highest * min(1.0, (step + 1) / options.learning_rate_warmup_steps) for step in _count())

        # Compiled without the sum over replicas, which XLA cannot hold.
        @tf.function(jit_compile=target.xla)
        def gradients_of(images: Any, labels: Any) -> Any:
            weights = self.model.trainable_variables
            with tf.GradientTape() as tape:
                logits = self.model(images, training=True)
                goal = tf.one_hot(labels, NUM_CLASSES) * (1 - options.label_smoothing)
                goal += options.label_smoothing / NUM_CLASSES
                # Gradients are summed over replicas, so that each divides by the whole batch.
                loss = tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(goal, logits)) / batch
                scaled = self._optimizer.scale_loss(loss)
            gradients = tape.gradient(scaled, weights)
            share = options.weight_decay / self._strategy.num_replicas_in_sync
            decay = [share * weight if kernel else None for weight, kernel in zip(weights, kernels, strict=True)]
            return loss, [
                gradient if one is None else gradient + self._optimizer.scale_loss(one)
                for gradient, one in zip(gradients, decay, strict=True)
            ]

        def replica_step(images: Any, labels: Any) -> Any:
            loss, gradients = gradients_of(images, labels)
            self._optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
            return loss

        @tf.function
        def one_step(images: Any, labels: Any) -> Any:
            loss = self._strategy.run(replica_step, args=(images, labels))
            return self._strategy.reduce("SUM", loss, axis=None)

        self._one_step = one_step
        self._steps_per_call = config.compute.steps_per_call
        self.batches = data.Batches(config, target, batch // launch.world_size, launch.rank, launch.world_size)

    def call(self) -> None:
        """Some optimizer steps; the loss of the last one is kept on the device."""
        loss = None
        for _ in range(self._steps_per_call):
            self._optimizer.learning_rate = next(self._rates)
            loss = self._one_step(*next(self.batches))
        self.losses.append(loss)

    def synchronize(self) -> None:
        """Wait until the device has done all it was given: fetching a scalar does."""
        if self.losses:
            self.losses[-1] = float(self.losses[-1])


def _count() -> Iterator[int]:
    step = 0
    while True:
        yield step
        step += 1
