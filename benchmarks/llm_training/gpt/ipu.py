"""Graphcore's IPUs, by PopTorch of the Poplar SDK. Written from its documentation, never run on hardware.

The layers of the model are a pipeline over several IPUs, which one process feeds. Source: Graphcore, PyTorch for the
IPU: User Guide, version 3.4: "Multi-IPU execution strategies", "Gradient accumulation" and "Optimizers".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.common import workload
from benchmarks.common.batch_plan import BatchPlan
from benchmarks.common.launch import Launch, described_device
from benchmarks.common.options import NARROW, ConfigError
from benchmarks.common.record import Device, RunRecord
from benchmarks.llm_training.config import ADAM_BETAS, Config, Layout
from benchmarks.llm_training.data import describe_prefix, open_samples
from benchmarks.llm_training.gpt.plain_gpt import PlainGpt, written_out_attention
from benchmarks.llm_training.metrics import learning_rate

Conclude = Callable[[RunRecord, int, int, list[float]], str]

WITHOUT = "--device ipu needs PopTorch of the Poplar SDK: use its container"
LOSS_SCALE = 2.0**10  # in fp16


class Target(workload.Target):
    """IPUs of this process."""

    kind = "ipu"

    def __init__(self, precision: str, num_ipus: int) -> None:
        self.precision, self.num_ipus = precision, num_ipus

    def describe_devices(self) -> list[Device]:
        """Return the IPUs in the order of the pipeline; PopTorch reports neither their ids nor their memory."""
        return [described_device(Launch(), "IPU")] * self.num_ipus


def choose_target(config: Config, launch: Launch, layout: Layout) -> Target:
    """Return the IPUs of the pipeline; raises ConfigError for unsupported options, and without the SDK."""
    if launch.world_size > 1:
        raise ConfigError("--device ipu trains with one process for all IPUs: start one process")
    if layout.tensor_parallel_size > 1 or layout.data_parallel_size > 1:
        raise ConfigError(
            "--device ipu has pipeline parallelism only: give the number of IPUs by --pipeline-parallel-size"
        )
    if config.model.shape.gated or layout.context_parallel_size > 1:
        asked = f"--size {config.model.size}" if config.model.shape.gated else "--context-parallel-size"
        raise ConfigError(f"{asked} was asked for, but --device ipu trains GPT-2's layers only, each sample on one IPU")
    precision = "fp16" if config.compute.precision == "auto" else config.compute.precision
    if precision in ("bf16", *NARROW):
        raise ConfigError(f"--precision {precision} was asked for, but IPUs do not have it: use fp16 or fp32")
    if config.parallel.recompute != "none":
        raise ConfigError(
            "--recompute was asked for, but a pipeline of IPUs recomputes what it needs by itself: leave it out"
        )
    _poptorch()
    return Target(precision, layout.pipeline_parallel_size)


def _poptorch() -> Any:
    try:
        import poptorch
    except ImportError as error:
        raise ConfigError(WITHOUT) from error
    return poptorch


class PipelinedGpt(nn.Module):
    """Model for PopTorch, with each part on its IPU.

    Embedding and output share their weights and are on the first IPU. The layers are distributed over the others; with
    one or two IPUs, over all.
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
        """Return the loss."""
        loss: Tensor = self.poptorch.identity_loss(self.gpt(tokens_BT, labels_BT), reduction="none")
        return loss


def ipus_of_layers(num_layers: int, num_ipus: int) -> list[int]:
    """Return the IPU of each layer; of more than two IPUs, the first has the embedding alone."""
    first = 1 if num_ipus > 2 else 0
    each = -(-num_layers // (num_ipus - first))
    return [first + layer // each for layer in range(num_layers)]


class Trainer(workload.Training):
    """Training on all IPUs, one optimizer step per call."""

    def __init__(self, config: Config, plan: BatchPlan, target: Target, conclude: Conclude) -> None:
        """Build the model; `conclude` completes the record from the numbers of tokens and steps, and the losses."""
        poptorch = _poptorch()
        self._conclude = conclude
        shape, length = config.model.shape, config.model.tokens_per_sample
        if target.num_ipus > 1 and plan.grad_accum_steps < 2 * target.num_ipus:
            raise ConfigError(
                f"{plan.grad_accum_steps} micro batches do not fill a pipeline of {target.num_ipus} IPUs: "
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
        self.data = workload.Feed(self._call)
        self.synchronize = lambda: None  # a call of a PopTorch model returns when its step is done

    def _call(self) -> None:
        """Make one optimizer step on the next global batch, each sample with the token after it."""
        first = len(self._losses) * self._batch
        batch = torch.from_numpy(np.stack([self._samples[first + index] for index in range(self._batch)]))
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(self._config.training, len(self._losses))
        self._model.setOptimizer(self._optimizer)
        inputs_BT, labels_BT = batch[:, :-1].int(), batch[:, 1:].int()
        self._tokens += inputs_BT.numel()
        self._losses.append(self._model(inputs_BT, labels_BT).float().mean())

    def losses(self, first: int = 0) -> list[float]:
        """Return the losses of all steps from `first` on."""
        return [float(loss) for loss in self._losses[first:]]

    def conclude(self, record: RunRecord) -> str:
        """Complete the record; return why the run is not valid, or an empty string."""
        config = self._config
        record.provenance["data"] = describe_prefix(config.data.data_prefix)
        record.metrics["skipped_steps"] = 0
        return self._conclude(record, self._tokens, len(self._losses), self.losses())
