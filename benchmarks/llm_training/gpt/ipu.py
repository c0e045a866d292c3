"""Graphcore's IPUs, by PopTorch of the Poplar SDK. Written from its documentation, never run on hardware.

The layers of the model are a pipeline over several IPUs, fed by one process. Source: Graphcore, PyTorch for the IPU:
User Guide, version 3.4: "Multi-IPU execution strategies", "Gradient accumulation" and "Optimizers".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.common.launch import Launch, node_name, usable_cpus
from benchmarks.common.options import ConfigError
from benchmarks.common.record import Device, RunRecord
from benchmarks.llm_training.config import ADAM_BETAS, Config, Layout
from benchmarks.llm_training.data import describe, open_samples
from benchmarks.llm_training.gpt.plain_gpt import PlainGpt, written_out_attention
from benchmarks.llm_training.metrics import learning_rate

Conclude = Callable[[RunRecord, int, int, list[float]], str]

WITHOUT = "--device ipu needs PopTorch of the Poplar SDK: use its container"
LOSS_SCALE = 2.0**10  # of fp16


class Target:
    """IPUs on which this process computes."""

    kind = "ipu"
    record_event = None

    def __init__(self, precision: str, num_ipus: int) -> None:
        self.precision, self.num_ipus = precision, num_ipus

    def gather(self, value: Any) -> list[Any]:
        """There is one rank."""
        return [value]

    def describe_devices(self) -> list[Device]:
        """The IPUs in the order of the pipeline; PopTorch tells neither their ids nor their memory."""
        return [Device(node_name(), 0, "IPU", "", None, usable_cpus()) for _ in range(self.num_ipus)]

    def software(self) -> dict[str, Any]:
        """Nothing: PopTorch's version is that of its container."""
        return {}

    statistics = software
    profile = None  # PopVision's is switched on for the whole program


def choose_target(config: Config, launch: Launch, layout: Layout) -> Target:
    """The IPUs of the pipeline; raises ConfigError for what they cannot do, or without an SDK."""
    if launch.world_size > 1:
        raise ConfigError("--device ipu trains with one process, which holds all IPUs: start it alone")
    if layout.tensor_parallel_size > 1 or layout.data_parallel_size > 1:
        raise ConfigError(
            "--device ipu shares layers in turn only: give --pipeline-parallel-size for the number of IPUs"
        )
    precision = "fp16" if config.compute.precision == "auto" else config.compute.precision
    if precision in ("bf16", "fp8"):
        raise ConfigError(f"--precision {precision} was asked for, but that is not there on IPUs: use fp16 or fp32")
    if config.parallel.recompute != "none":
        raise ConfigError("--recompute is not there on IPUs: a pipeline computes again what it must by itself")
    _poptorch()
    return Target(precision, layout.pipeline_parallel_size)


def _poptorch() -> Any:
    try:
        import poptorch
    except ImportError as error:
        raise ConfigError(WITHOUT) from error
    return poptorch


class PipelinedGpt(nn.Module):
    """The model for PopTorch, each part on its IPU.

    Embedding and output share their weights and so their IPU, the first. The layers are spread over the others, or over
    both of two, or are all on the only one.
    """

    def __init__(self, gpt: PlainGpt, num_ipus: int) -> None:
        super().__init__()
        poptorch = _poptorch()
        self.gpt, self.poptorch = gpt, poptorch
        poptorch.BeginBlock(gpt.embedding, user_id="embedding", ipu_id=0)
        before = None
        for layer, ipu in enumerate(ipus_of_layers(len(gpt.blocks), num_ipus)):
            if ipu != before:
                poptorch.BeginBlock(gpt.blocks[layer], user_id=f"layers from {layer}", ipu_id=ipu)
            before = ipu
        poptorch.BeginBlock(gpt.norm, user_id="output", ipu_id=0)

    def forward(self, tokens_BT: Tensor, labels_BT: Tensor) -> Tensor:
        loss: Tensor = self.poptorch.identity_loss(self.gpt(tokens_BT, labels_BT), reduction="none")
        return loss


def ipus_of_layers(num_layers: int, num_ipus: int) -> list[int]:
    """The IPU of each layer: the first is left to the embedding where there are more than two."""
    first = 1 if num_ipus > 2 else 0
    each = -(-num_layers // (num_ipus - first))
    return [first + layer // each for layer in range(num_layers)]


class Trainer:
    """A Training on all IPUs, one optimizer step at a time."""

    steps_per_call = 1
    on_device = None

    def __init__(self, config: Config, plan: BatchPlan, target: Target, conclude: Conclude) -> None:
        """`conclude` fills in what follows from the number of tokens and of steps, and from the losses."""
        poptorch = _poptorch()
        self._conclude = conclude
        shape, length = config.model.shape, config.model.tokens_per_sample
        if target.num_ipus > 1 and plan.grad_accum_steps < 2 * target.num_ipus:
            raise ConfigError(
                f"a pipeline of {target.num_ipus} IPUs is not filled by {plan.grad_accum_steps} micro batches: "
                f"global_batch_size must be {2 * target.num_ipus * plan.micro_batch_size} or more"
            )
        torch.manual_seed(config.training.seed)
        gpt = PlainGpt(shape, length, written_out_attention)
        options = poptorch.Options()
        options.randomSeed(config.training.seed)
        options.deviceIterations(1)
        options.Training.gradientAccumulation(plan.grad_accum_steps)
        options.outputMode(poptorch.OutputMode.All)  # the loss of every micro batch
        options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
        if target.precision == "fp16":
            gpt.half()
        decayed = [weight for weight in gpt.parameters() if weight.dim() > 1]
        others = [weight for weight in gpt.parameters() if weight.dim() == 1]
        self._optimizer = poptorch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": config.training.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=config.training.learning_rate,
            betas=ADAM_BETAS,
            max_grad_norm=config.training.gradient_clip,
            loss_scaling=LOSS_SCALE if target.precision == "fp16" else 1.0,
        )
        self._model = poptorch.trainingModel(
            PipelinedGpt(gpt, target.num_ipus), options=options, optimizer=self._optimizer
        )
        self._config, self._samples, self._batch = config, open_samples(config), plan.global_batch_size
        self._losses: list[Tensor] = []
        self._tokens = 0

    @property
    def data(self) -> Trainer:
        """One process takes all data."""
        return self

    def call(self) -> None:
        """Forward, backward and update over one global batch."""
        self.step(self.take())

    def take(self) -> Tensor:
        """The next global batch, each sample with the token after it."""
        first = len(self._losses) * self._batch
        return torch.from_numpy(np.stack([self._samples[first + index] for index in range(self._batch)]))

    def step(self, batch: Tensor) -> None:
        """One optimizer step on it."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(self._config.training, len(self._losses))
        self._model.setOptimizer(self._optimizer)
        inputs_BT, labels_BT = batch[:, :-1].int(), batch[:, 1:].int()
        self._tokens += inputs_BT.numel()
        self._losses.append(self._model(inputs_BT, labels_BT).float().mean())

    def synchronize(self) -> None:
        """Nothing: a call of a PopTorch model returns when its step is done."""

    def losses(self) -> list[float]:
        """Return the loss of every step."""
        return [float(loss) for loss in self._losses]

    def conclude(self, record: RunRecord) -> str:
        """Why the run is not a good one, or an empty string."""
        config = self._config
        record.provenance["data"] = describe(config.data.data_prefix, config.model.tokens_per_sample)
        record.metrics["skipped_steps"] = 0
        return self._conclude(record, self._tokens, len(self._losses), self.losses())
