"""One run: train for some steps, time them, and write the record."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from math import cos, pi
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.common.binding import bind
from benchmarks.common.launch import Launch, gather, node_window, read_launch
from benchmarks.common.measure import measure_steps
from benchmarks.common.options import EXIT_BAD_OPTIONS, FULL_FP32, ConfigError, parse_config
from benchmarks.common.provenance import collect_provenance
from benchmarks.common.record import FAILED, OK, RunRecord
from benchmarks.common.run import check_record_path, run_recorded
from benchmarks.common.step_timer import StepTimer, percentile
from benchmarks.llm_training.config import DEFAULT_BATCH, OPTION_GROUPS, Config, Layout, TrainingOptions
from benchmarks.llm_training.metrics import loss_problem, training_metrics
from benchmarks.llm_training.plan import describe, stage_memory

if TYPE_CHECKING:
    import torch

    from benchmarks.llm_training.data import Batch
    from benchmarks.llm_training.kernels import Kernels
    from benchmarks.llm_training.parallel import Target

BENCHMARK = "llm_training"
PACKAGES = ("torch", "megatron-core", "numpy", "tokenizers", "transformer-engine")
DECAY_STEPS = 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code and leaves a record, whatever happens."""
    try:
        options = parse_config(
            OPTION_GROUPS,
            sys.argv[1:] if argv is None else argv,
            prog="python -m benchmarks.llm_training",
            description="Train a GPT for some steps with megatron-core and record how fast it went. "
            "Start it alone for one device, or with torchrun for several.",
        )
        config, launch = Config(*options), read_launch()
        check_record_path(config.run.record)
    except ConfigError as error:
        print(f"{BENCHMARK}: {error}", file=sys.stderr)
        return EXIT_BAD_OPTIONS

    if config.run.dry_run:
        return dry_run(config, launch)
    if (config.parallel.tensor_parallel_size or config.model.shape.tensor_parallel_size) > 1:
        # megatron-core's linear layers rely on it to have sums under way before products; read when CUDA starts
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    if config.model.precision == "fp32":
        os.environ.update(FULL_FP32)
    record = RunRecord(
        BENCHMARK,
        config.run.system,
        config.model.size,
        "tokens",
        asdict(config),
        provenance=collect_provenance(PACKAGES),
    )
    return run_recorded(record, config.run, launch, partial(train, config, launch))


def dry_run(config: Config, launch: Launch) -> int:
    """Print what a run would do, on an accelerator unless --device cpu is given; returns the exit code."""
    asked, model = config.parallel, config.model
    on_gpu = model.device != "cpu"
    devices = asked.devices or launch.local_world_size
    launch = Launch(world_size=devices * (asked.nodes or launch.num_nodes), local_world_size=devices)
    try:
        layout, plan = plan_run(config, launch)
        sequence_parallel = asked.is_sequence_parallel(on_gpu, layout.tensor_parallel_size)
    except ConfigError as error:
        print(f"{BENCHMARK}: {error}", file=sys.stderr)
        return EXIT_BAD_OPTIONS
    for key, value in layout_of(config, launch, layout, plan).items():
        print(f"{key}: {value}")
    memory = [
        stage_memory(
            model.shape,
            layout,
            plan,
            model.tokens_per_sample,
            stage,
            precision=model.precision if model.precision != "auto" else "bf16" if on_gpu else "fp32",
            recompute=asked.recompute,
            sequence_parallel=sequence_parallel,
            shards_optimizer=on_gpu,
        )
        for stage in range(layout.pipeline_parallel_size)
    ]
    print("\n".join(describe(model.shape, layout, plan, model.tokens_per_sample, memory)))
    return 0


def plan_run(config: Config, launch: Launch) -> tuple[Layout, BatchPlan]:
    """How devices and batch are shared out; raises ConfigError when the options do not fit each other."""
    shape, asked = config.model.shape, config.parallel
    tensor = asked.tensor_parallel_size or shape.tensor_parallel_size
    pipeline = asked.pipeline_parallel_size or shape.pipeline_parallel_size
    # One process holds all IPUs of its pipeline.
    world_size = launch.world_size if config.model.device != "ipu" else tensor * pipeline
    layout = Layout(world_size, tensor, pipeline)
    layout.check(shape)
    micro_batch_size = asked.micro_batch_size or shape.micro_batch_size
    one_pass = micro_batch_size * layout.data_parallel_size
    global_batch_size = asked.global_batch_size or max(1, DEFAULT_BATCH // one_pass) * one_pass
    return layout, BatchPlan(global_batch_size, micro_batch_size, layout.data_parallel_size)


def layout_of(config: Config, launch: Launch, layout: Layout, plan: BatchPlan) -> dict[str, int]:
    """What the record says of devices and batch."""
    return {
        "num_devices": layout.world_size,
        "num_nodes": launch.num_nodes,
        "tensor_parallel_size": layout.tensor_parallel_size,
        "pipeline_parallel_size": layout.pipeline_parallel_size,
        **asdict(plan),
        "grad_accum_steps": plan.grad_accum_steps,
        "sequence_length": config.model.tokens_per_sample,
    }


def train(config: Config, launch: Launch, record: RunRecord) -> None:
    """Train and fill in the record; raises ConfigError for what does not fit the options or the machine."""
    if config.parallel.devices or config.parallel.nodes:
        raise ConfigError("--devices and --nodes are for --dry-run: for a run start so many processes with torchrun")
    layout, plan = plan_run(config, launch)
    record.layout = layout_of(config, launch, layout, plan)
    record.metrics["num_parameters"] = config.model.shape.num_parameters
    if config.model.device == "ipu":
        train_on_ipus(config, launch, layout, plan, record)
    else:
        train_with_megatron(config, launch, layout, plan, record)


def train_with_megatron(config: Config, launch: Launch, layout: Layout, plan: BatchPlan, record: RunRecord) -> None:
    """Train on CPUs or GPUs with megatron-core, one process for each."""
    if config.parallel.bind and config.model.device != "cpu":
        bind(launch)
    # PyTorch takes seconds to import: only once the options are known to be good.
    warnings.filterwarnings("ignore", module=r"megatron\.")
    from benchmarks.llm_training import kernels, parallel

    target = parallel.choose_target(launch, config.model.device, config.model.precision, config.parallel.threads)
    record.config["model"] |= {"precision": target.precision, "device": "gpu" if target.on_gpu else "cpu"}
    record.config["parallel"] |= {
        "sequence_parallel": config.parallel.is_sequence_parallel(target.on_gpu, layout.tensor_parallel_size),
        "overlap": config.parallel.overlaps(target.on_gpu, layout.data_parallel_size),
    }
    chosen = kernels.choose_kernels(config, target, layout)
    record.config["kernels"] = asdict(chosen)
    with parallel.parallel_groups(launch, target, layout, config.training.seed, chosen.cuda_graph):
        check_same_options(record.config_hash, launch)
        trainer = Trainer(config, layout, plan, target, chosen)
        if launch.rank == 0 and trainer.data_description:
            print(trainer.data_description["packing"], flush=True)
        record.config["kernels"]["optimizer"] = trainer.optimizer_description
        record_event = target.record_event if target.on_gpu else None
        timer = StepTimer(time.monotonic, target.synchronize, record_event)
        gather(None, launch)  # no rank starts its clock while another still builds its model
        agree: Callable[[int], int] = lambda steps: int(gather(steps, launch)[0])  # noqa: E731
        measure_steps(partial(_step, trainer, config), timer, config.window, launch, agree)
        losses = parallel.average_losses(trainer.losses, target.device)
        # Every device of a replica takes the same tokens.
        tokens = sum(gather(trainer.tokens, launch)) * layout.data_parallel_size // layout.world_size
        window = node_window(timer.window_start_s, timer.window_end_s) if launch.is_first_on_node else None
        record.windows = [window for window in gather(window, launch) if window]
        nodes = gather(record.provenance["nodes"] if launch.is_first_on_node else [], launch)
        record.provenance |= {"nodes": [node for own in nodes for node in own], **parallel.software(target)}
        record.devices = gather(parallel.describe_device(launch, target), launch)
        record.metrics |= parallel.allocator_statistics(target)
    _conclude(config, plan, record, trainer, timer, losses, tokens)


def train_on_ipus(config: Config, launch: Launch, layout: Layout, plan: BatchPlan, record: RunRecord) -> None:
    """Train on a pipeline of IPUs with PopTorch, in one process."""
    from benchmarks.llm_training import ipu

    target = ipu.choose_target(config, launch, layout)
    record.config["model"] |= {"precision": target.precision}
    trainer = ipu.Trainer(config, plan, target)
    timer = StepTimer(time.monotonic, target.synchronize)
    measure_steps(partial(_step, trainer, config), timer, config.window, launch, agree=int)
    record.windows = [node_window(timer.window_start_s, timer.window_end_s)]
    record.devices = ipu.describe_devices(target)
    _conclude(config, plan, record, trainer, timer, [float(loss) for loss in trainer.losses], trainer.tokens)


class StepsTrainer(Protocol):
    """What trains, one optimizer step at a time."""

    skipped_steps: int
    tokens: int  # that it took from the data
    data_description: dict[str, Any]

    def step(self, learning_rate: float) -> None:
        """Forward, backward and update over one global batch."""
        ...


def _step(trainer: StepsTrainer, config: Config, index: int) -> None:
    trainer.step(learning_rate(config.training, index))


def _conclude(
    config: Config,
    plan: BatchPlan,
    record: RunRecord,
    trainer: StepsTrainer,
    timer: StepTimer,
    losses: list[float],
    tokens: int,
) -> None:
    """Fill in what follows from losses and times; a run that did not learn, or not from all tokens, has failed."""
    record.provenance["data"] = trainer.data_description
    record.losses = list(losses)
    record.step_times_s = timer.measured_step_times_s
    record.metrics |= {
        "warmup_steps": config.window.warmup_steps,
        "measured_steps": len(record.step_times_s),
        "first_loss": losses[0],
        "last_loss": losses[-1],
        "skipped_steps": trainer.skipped_steps,
        "host_step_time_median_s": percentile(timer.host_times_s, 50),
        **training_metrics(
            config.model.shape,
            config.model.tokens_per_sample,
            plan.global_batch_size,
            record.layout["num_devices"],
            record.step_times_s,
            config.run.peak_tflops_per_device,
            timer.window_s,
            config.parallel.recompute,
        ),
    }
    planned = (config.window.warmup_steps + len(record.step_times_s)) * plan.global_batch_size
    planned *= config.model.tokens_per_sample
    record.metrics["trained_tokens"] = tokens
    if tokens != planned:
        record.error = f"{tokens} tokens were taken from the data, {planned} were to be: the throughput is wrong"
    record.error = record.error or loss_problem(losses)
    record.status = FAILED if record.error else OK


class Trainer:
    """Model, optimizer and data of this rank, one optimizer step at a time."""

    def __init__(self, config: Config, layout: Layout, plan: BatchPlan, target: Target, kernels: Kernels) -> None:
        from megatron.core import parallel_state
        from megatron.core.full_cuda_graph import FullCudaGraphWrapper
        from megatron.core.pipeline_parallel import get_forward_backward_func

        from benchmarks.llm_training import data, model, optimizer, parallel

        shape, length = config.model.shape, config.model.tokens_per_sample
        asked = config.parallel
        model_config = model.transformer_config(
            shape,
            layout,
            target.dtype,
            target.on_gpu,
            asked.is_sequence_parallel(target.on_gpu, layout.tensor_parallel_size),
            asked.recompute,
            kernels,
            fp8=target.precision == "fp8",
        )
        gpt = model.build_model(model_config, shape, length, config.training.seed, kernels)
        self.target = target
        self.losses: list[torch.Tensor] = []  # of every step, on the device; empty but for the last pipeline stage
        self.skipped_steps = 0
        # A compiled or captured layer cannot wait for its weights on the way.
        gather_late = kernels.compile != "layers" and not kernels.cuda_graph
        overlap = asked.overlaps(target.on_gpu, layout.data_parallel_size)
        self._model = parallel.distribute(gpt, model_config, target, overlap, gather_late)
        self._optimizer = optimizer.build_optimizer(self._model, config.training, target)
        self.optimizer_description = self._optimizer.description
        model_config.grad_scale_func = self._optimizer.scale_loss
        self.tokens = 0
        self._batches = self._counted(
            data.micro_batches(
                data.open_samples(config),
                plan,
                parallel_state.get_data_parallel_rank(),
                target.device,
                stay_on_host=kernels.cuda_graph,  # the graph reads from buffers of its own
            )
        )
        self.data_description = data.describe(config.data.data_prefix, length)
        self._positions_BT = model.positions(plan.micro_batch_size, length, target.device)
        forward_backward = get_forward_backward_func()
        self._forward_backward = partial(
            FullCudaGraphWrapper(forward_backward) if kernels.cuda_graph else forward_backward,
            forward_step_func=self._forward,
            data_iterator=self._batches,
            model=[self._model],
            num_microbatches=plan.grad_accum_steps,
            seq_length=length,
            micro_batch_size=plan.micro_batch_size,
            forward_only=False,
        )

    def _counted(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self.tokens += batch["tokens"].numel()
            yield batch

    def _forward(self, batches: Iterator[Any], model: torch.nn.Module) -> tuple[torch.Tensor, Callable[..., Any]]:
        batch = next(batches)
        output = model(batch["tokens"], self._positions_BT, None, labels=batch["labels"])
        return output, _mean_loss

    def step(self, learning_rate: float) -> None:
        """Forward, backward and update over one global batch."""
        self._model.zero_grad_buffer()
        self._optimizer.zero_grad()
        passes = self._forward_backward()
        self.skipped_steps += not self._optimizer.step(learning_rate)
        if passes:
            self.losses.append(sum(one["loss"] for one in passes) / len(passes))


def _mean_loss(loss_BT: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    loss = loss_BT.float().mean()
    return loss, {"loss": loss.detach().clone()}  # the schedule scales the loss itself in place


def check_same_options(config_hash: str, launch: Launch) -> None:
    """Raise ConfigError, on every rank, unless all ranks were started with the same options."""
    hashes = gather(config_hash, launch)
    others = [rank for rank, found in enumerate(hashes) if found != hashes[0]]
    if others:
        raise ConfigError(f"rank {others[0]} was started with other options than rank 0: start all ranks with the same")


def learning_rate(options: TrainingOptions, step: int) -> float:
    """Cosine from the highest rate to a tenth of it over DECAY_STEPS steps, then constant."""
    lowest = options.learning_rate / 10
    return lowest + (options.learning_rate - lowest) * (1 + cos(pi * min(step / DECAY_STEPS, 1))) / 2
