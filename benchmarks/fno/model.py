"""Fourier neural operator of the package neuraloperator, its loss, its optimizer, and its evaluation.

Source: Li et al. 2021 (arXiv:2010.08895).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from neuralop.layers.spectral_convolution import SpectralConv
from neuralop.models.fno import FNO
from torch import Tensor, nn

from benchmarks.fno.config import LAYERS, SIZES, Config
from benchmarks.on_pytorch.target import Target
from benchmarks.on_pytorch.trainer import Pass, Trainer, rising_rate
from jpwr.regions import RegionTimer
from jpwr.regions.times import FORWARD

EXPANSION = 4  # hidden channels of lifting and projection, as a multiple of the width


class Spectral(SpectralConv):
    """Spectral convolution in fp32: FFTs have no bf16, and fp16 only for sizes that are powers of two."""

    def forward(self, x: Tensor, output_shape: Any = None) -> Tensor:
        """Return the convolved fields."""
        with torch.autocast(x.device.type, enabled=False):
            convolved: Tensor = super().forward(x.float(), output_shape)
        return convolved


class Operator(FNO):
    """Operator whose state has tensors alone, as checkpoints need it."""

    state_dict = nn.Module.state_dict


def build_model(size: str, seed: int) -> Operator:
    """Return the model, with the same weights on every rank."""
    shape = SIZES[size]
    torch.manual_seed(seed)
    return Operator(
        n_modes=shape.modes,
        in_channels=shape.fields,
        out_channels=shape.fields,
        hidden_channels=shape.width,
        n_layers=LAYERS,
        lifting_channel_ratio=EXPANSION,
        projection_channel_ratio=EXPANSION,
        positional_embedding=None,
        use_channel_mlp=False,
        conv_module=Spectral,
    )


def relative_error(predicted: Tensor, fields: Tensor) -> Tensor:
    """Return the norm of the error relative to that of the fields, as the mean over samples."""
    errors, norms = (torch.linalg.vector_norm(part.flatten(1), dim=1) for part in (predicted.float() - fields, fields))
    mean: Tensor = (errors / norms).mean()
    return mean


class Evaluator(Trainer):
    """Forward passes alone, whose losses are kept."""

    def step(self, passes: Iterable[Pass]) -> None:
        """Predict this rank's part of a global batch."""
        with torch.inference_mode(), self._regions.region(FORWARD), self._in_precision():
            losses = [self.loss_of(self.model(fields), later) for fields, later in passes]
        self._losses.append(torch.stack(losses).mean())


def build_trainer(config: Config, passes: int, target: Target, regions: RegionTimer) -> Trainer:
    """Return the trainer, or the evaluator, with `passes` passes per step."""
    options = config.training
    model = build_model(config.model.size, options.seed).to(target.device)
    # The fused Adam has no complex weights.
    optimizer = torch.optim.Adam(model.parameters(), options.learning_rate, weight_decay=options.weight_decay)
    rate = rising_rate(options.learning_rate, options.learning_rate_warmup_steps)
    kind = Evaluator if config.model.evaluation else Trainer
    return kind(model, optimizer, relative_error, rate, passes, target, regions)
