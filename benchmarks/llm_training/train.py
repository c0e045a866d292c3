"""Workload GPT, and its training step on CPUs and GPUs."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from benchmarks.common import session
from benchmarks.common.launch import Launch
from benchmarks.common.options import ConfigError
from benchmarks.common.record import RunRecord
from benchmarks.common.workload import Feed, Target, Training, Workload, flops_of_token, num_parameters
from benchmarks.llm_training.config import Config, plan_run
from benchmarks.llm_training.metrics import learning_rate, loss_problem, recomputed_share
from jpwr.backends.nvml import compute_capability
from jpwr.regions.times import BACKWARD, FORWARD, UPDATE

if TYPE_CHECKING:
    import torch

    from benchmarks.llm_training.data import Batch
    from benchmarks.on_pytorch import target as on_pytorch

BLACKWELL = (10, 0)  # compute capability
RECORDED = ("num_layers", "hidden_size", "num_heads", "vocab_size")  # so that a tender can fix them
FORWARD_BACKWARD = f"{FORWARD}+{BACKWARD}"  # of a CUDA graph


class Gpt(Workload):
    """One run of GPT training."""

    name = "llm_training"
    unit = "token"
    description = "Train a GPT for some steps with megatron-core and record the speed."
    packages = ("torch", "megatron-core", "numpy", "tokenizers", "transformer-engine")
    options = Config
    unusual = {  # noqa: RUF012
        "parallel.recompute": {"selective": "selective recomputation", "full": "full recomputation"},
        "kernels.layers": {"transformer-engine": "TransformerEngine"},
        "kernels.recipe": {"delayed": "delayed scales", "blockwise": "scales of blocks"},
        "kernels.compile": {"layers": "compiled layers"},
        "kernels.attention": {
            "cudnn": "cuDNN attention",
            "efficient": "efficient attention",
            "math": "plain attention",
        },
        "kernels.cuda_graph": {"True": "CUDA graph"},
    }

    def __init__(self, options: Config, launch: Launch) -> None:
        self.config, self.launch = options, launch
        self._recorded_kernels: dict[str, Any] = {}
        asked, shape = options.parallel, options.model.shape
        if options.run.dry_run:
            devices = asked.devices or launch.local_world_size
            self.launch = Launch(world_size=devices * (asked.nodes or launch.num_nodes), local_world_size=devices)
        elif asked.devices or asked.nodes:
            raise ConfigError(
                "--devices and --nodes need --dry-run: for a run, start that number of processes with torchrun"
            )
        world_size = None if options.compute.device == "ipu" else self.launch.world_size
        self.shares, self.batches = plan_run(options.model, asked, world_size)
        self.data = options.data.data
        length = options.model.tokens_per_sample
        self.sample = f"{length} tokens"
        self.work_per_sample = length
        self.num_parameters = num_parameters(self.name, options.model.size)
        self.flops = flops_of_token(self.name, options.model.size, length)
        self.layout = {
            "num_devices": self.shares.world_size,
            "num_nodes": self.launch.num_nodes,
            "tensor_parallel_size": self.shares.tensor_parallel_size,
            "pipeline_parallel_size": self.shares.pipeline_parallel_size,
            "context_parallel_size": self.shares.context_parallel_size,
            **({"expert_parallel_size": self.shares.expert_parallel_size} if shape.experts else {}),
            **asdict(self.batches),
            "grad_accum_steps": self.batches.grad_accum_steps,
            "sequence_length": length,
        }

    @staticmethod
    def model(options: Config) -> str:
        """Return the model's size."""
        return options.model.size

    def plan(self) -> Iterator[str]:
        """Yield the lines of the plan, for accelerators unless --device cpu is given."""
        self._is_sequence_parallel(on_gpu=self.config.compute.device != "cpu")
        yield from super().plan()
        yield f"tokens_per_step: {self.batches.global_batch_size * self.work_per_sample}"
        yield f"model_flops_per_token: {self.flops.per_unit:.6g}"

    def _is_sequence_parallel(self, on_gpu: bool) -> bool:
        """Return whether sequence parallelism is used; raises ConfigError where the model does not fit it."""
        model, asked = self.config.model, self.config.parallel.sequence_parallel
        tensor, has_experts = self.shares.tensor_parallel_size, model.shape.experts > 0
        if asked == "on" and tensor == 1:
            raise ConfigError("--sequence-parallel on needs a --tensor-parallel-size of 2 or more")
        used = tensor > 1 and (asked == "on" or (asked == "auto" and (on_gpu or has_experts)))
        if has_experts and tensor > 1 and not used:
            raise ConfigError("--sequence-parallel off does not work with experts and tensor parallelism: leave it out")
        parts = tensor * self.shares.context_parallel_size
        if used and model.tokens_per_sample % parts:
            raise ConfigError(
                f"sequence parallelism over {parts} devices needs a sequence length that is a multiple of {parts}, not "
                f"{model.tokens_per_sample}"
            )
        return used

    def set_environment(self) -> None:
        """Set the number of CUDA's queues to a device so that communication starts before the products it overlaps.

        Megatron-LM (validate_args) demands 1 before Blackwell, Megatron-Bridge sets 32 there; HIP reads no such number.
        """
        is_split = max(self.shares.tensor_parallel_size, self.shares.context_parallel_size) > 1
        if is_split and (capability := compute_capability()):
            os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1" if capability < BLACKWELL else "32")

    @contextmanager
    def open(self, record: RunRecord) -> Iterator[Target]:
        """Open the device with megatron-core's process groups, or the IPUs."""
        config, shares = self.config, self.shares
        record.config["model"] |= {name: getattr(config.model.shape, name) for name in RECORDED}
        if config.compute.device == "ipu":
            from benchmarks.llm_training.gpt import ipu

            yield ipu.choose_target(config, self.launch, shares)
            return
        # PyTorch takes seconds to import: do so after the options have been checked.
        warnings.filterwarnings("ignore", module=r"(megatron|torch\.distributed)\.")
        from benchmarks.llm_training.gpt import kernels, parallel, regions
        from benchmarks.on_pytorch.communication import marked_collectives
        from benchmarks.on_pytorch.target import choose_target

        target = choose_target(config.compute, self.launch)
        self.sequence_parallel = self._is_sequence_parallel(target.on_gpu)
        overlap = config.parallel.overlap
        self.overlap = overlap == "on" or (overlap == "auto" and target.on_gpu and shares.data_parallel_size > 1)
        self.kernels = kernels.choose_kernels(config, target, shares)
        record.config["parallel"] |= {"sequence_parallel": self.sequence_parallel, "overlap": self.overlap}
        record.config["kernels"] = self._recorded_kernels = asdict(self.kernels)
        compiled = self.kernels.compile == "layers" or self.kernels.cuda_graph  # no regions inside
        in_layers = shares.tensor_parallel_size > 1 and self.kernels.compile == "layers"
        self.marks_all_communication = not (self.kernels.cuda_graph or in_layers)
        with (
            parallel.parallel_groups(target, shares, config.training.seed, self.kernels.cuda_graph),
            nullcontext() if compiled else marked_collectives(self.regions, regions.MODULES),
        ):
            yield target

    def build(self, target: Any) -> Training:
        """Return model, optimizer and data of this rank."""
        if target.kind == "ipu":
            from benchmarks.llm_training.gpt import ipu

            return ipu.Trainer(self.config, self.batches, target, self.conclude)
        trainer = Trainer(self, target)
        self._recorded_kernels["optimizer"] = trainer.optimizer_description
        return trainer

    def conclude(self, record: RunRecord, tokens: int, steps: int, losses: list[float]) -> str:
        """Record the recomputed FLOPs; return why the run is not valid, or an empty string."""
        if per_token := self.flops.per_unit:
            share = recomputed_share(self.config.model, per_token, self.config.parallel.recompute)
            record.metrics["recomputed_flops_per_token"] = share * per_token
        planned = steps * self.batches.global_batch_size * self.work_per_sample
        if tokens != planned:
            return f"{tokens} tokens were taken from the data instead of {planned}: the throughput is wrong"
        return loss_problem(losses)


class Trainer(Training):
    """Training with model, optimizer and data of this rank under megatron-core."""

    def __init__(self, run: Gpt, target: on_pytorch.Target) -> None:
        from megatron.core import parallel_state
        from megatron.core.full_cuda_graph import FullCudaGraphWrapper
        from megatron.core.pipeline_parallel import get_forward_backward_func

        from benchmarks.llm_training import data
        from benchmarks.llm_training.gpt import model, optimizer, parallel, regions, state

        config, plan, kernels = run.config, run.batches, run.kernels
        shape, length = config.model.shape, config.model.tokens_per_sample
        model_config = model.transformer_config(
            shape,
            run.shares,
            target.dtype,
            target.on_gpu,
            run.sequence_parallel,
            config.parallel.recompute,
            kernels,
        )
        gpt = model.build_model(model_config, shape, length, config.training.seed, kernels)
        self._run, self._target, self.synchronize = run, target, target.synchronize
        self._losses: list[torch.Tensor] = []  # of every step, on the device; empty except on the last pipeline stage
        self._learning_rate = partial(learning_rate, config.training)
        self._taken: list[Taken] = []  # the data of every step
        self._skipped_steps = 0
        # A compiled or captured layer cannot wait for its weights.
        gather_late = kernels.compile != "layers" and not kernels.cuda_graph
        self._model = parallel.distribute(gpt, model_config, target, run.overlap, gather_late, kernels.cuda_graph)
        timers = partial(regions.MegatronTimer, run.regions)
        self._optimizer: optimizer.MegatronOptimizer | optimizer.CpuOptimizer
        if target.on_gpu:
            self._optimizer = optimizer.MegatronOptimizer(self._model, config.training, target, timers)
        else:
            self._optimizer = optimizer.CpuOptimizer(self._model, config.training)
        self.regions, self._in_graph = run.regions, kernels.cuda_graph
        if not kernels.cuda_graph:  # a graph has no regions inside
            model_config.timers = timers
            regions.mark_overlapped_sums(run.regions, self._model, target.on_gpu)
        self.optimizer_description = self._optimizer.description
        self.state = state.State(self._model, self._optimizer)
        model_config.grad_scale_func = self._optimizer.scale_loss
        samples = data.open_samples(config)
        self._description = data.describe_prefix(config.data.data_prefix)
        batches: Callable[[bool], Iterator[Batch]] = lambda on_host: data.micro_batches(  # noqa: E731
            samples, plan, parallel_state.get_data_parallel_rank(), target.device, on_host
        )
        passes = plan.grad_accum_steps
        # All devices of a replica take the same tokens, which count once.
        is_first = (
            parallel_state.get_tensor_model_parallel_rank() == 0
            and parallel_state.get_context_parallel_rank() == 0
            and parallel_state.is_pipeline_first_stage()
        )
        steps_ahead = data.PASSES_AHEAD // passes if target.on_gpu else 0
        # A graph copies the data into its own buffers.
        self._passes, self.taken = passes, Taken(batches(kernels.cuda_graph))
        self.data = replace(
            self._feed(self.taken),
            steps_ahead=steps_ahead,
            read_so_far=lambda: {"input_tokens": self.taken.tokens if is_first else 0},
        )
        if config.turns.effective:
            kept = list(itertools.islice(batches(False), passes))
            self.on_device = self._feed(Taken(itertools.cycle(kept)))
        context, rank = run.shares.context_parallel_size, parallel_state.get_context_parallel_rank()
        self._own_tokens = partial(model.own_tokens, rank=rank, size=context) if context > 1 else lambda tokens: tokens
        self._positions_BT = self._own_tokens(model.positions(plan.micro_batch_size, length, target.device))
        forward_backward = get_forward_backward_func()
        self._forward_backward = partial(
            FullCudaGraphWrapper(forward_backward) if kernels.cuda_graph else forward_backward,
            forward_step_func=self._forward,
            model=[self._model],
            num_microbatches=passes,
            seq_length=length,
            micro_batch_size=plan.micro_batch_size,
            forward_only=False,
        )

    def _forward(self, batches: Iterator[Any], model: torch.nn.Module) -> tuple[torch.Tensor, Callable[..., Any]]:
        batch = next(batches)
        tokens_BT, labels_BT = self._own_tokens(batch["tokens"]), self._own_tokens(batch["labels"])
        output = model(tokens_BT, self._positions_BT, None, labels=labels_BT)
        return output, self._mean_loss

    def _mean_loss(self, loss_BT: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        loss = loss_BT.float().mean()
        # The schedule scales the loss itself in place, for context parallelism with a sum over the sequence.
        return loss / self._run.shares.context_parallel_size, {"loss": loss.detach().clone()}

    def _feed(self, taken: Taken) -> Feed:
        batches = self.regions.io(taken)
        return Feed(
            lambda: self._step(taken, batches),
            lambda: list(itertools.islice(batches, self._passes)),
            lambda batch: self._step(taken, iter(batch)),
        )

    def _step(self, taken: Taken, batches: Iterator[Batch]) -> None:
        """Make one optimizer step over this rank's passes of a global batch."""
        self._model.zero_grad_buffer()
        self._optimizer.zero_grad()
        if self._in_graph:
            with self.regions.region(FORWARD_BACKWARD):
                passes = self._forward_backward(data_iterator=batches)
        else:
            passes = self._forward_backward(data_iterator=batches)
        with self.regions.region(UPDATE):
            self._skipped_steps += not self._optimizer.step(self._learning_rate(len(self._taken)))
        self._taken.append(taken)
        if passes:
            self._losses.append(sum(one["loss"] for one in passes) / len(passes))

    def losses(self, first: int = 0) -> list[float]:
        """Return the losses of all steps from `first` on, as means over all replicas, on every rank."""
        from benchmarks.llm_training.gpt import parallel

        return parallel.average_losses(self._losses[first:], self._target.device)

    def conclude(self, record: RunRecord) -> str:
        """Record the tokens of all ranks; return why the run is not valid, or an empty string."""
        # All devices of a replica take the same tokens.
        shares = self._run.shares
        tokens = sum(self._target.gather(sum(taken.tokens for taken in set(self._taken))))
        tokens = tokens * shares.data_parallel_size // shares.world_size
        record.provenance["data"] = self._description
        record.metrics["skipped_steps"] = self._skipped_steps
        losses = cast(list[float], record.losses)
        # Data on the device repeats the same tokens: only the other losses show whether the model learns.
        learnt = [loss for taken, loss in zip(self._taken, losses, strict=True) if taken is self.taken]
        return self._run.conclude(record, tokens, len(self._taken), learnt)


class Taken:
    """Batches, with the number of their tokens that were taken."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self._batches, self.tokens = iter(batches), 0

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """Return the next batch."""
        batch = next(self._batches)
        self.tokens += batch["tokens"].numel()
        return batch


main = partial(session.main, Gpt)
