"""DeepCAM's optimizer and loss."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.deepcam.config import FREQUENCIES, WEIGHT_POWER, Config
from benchmarks.deepcam.model import build_model
from benchmarks.on_pytorch.target import Target
from benchmarks.on_pytorch.trainer import Lamb, Trainer, rising_rate
from jpwr.regions import RegionTimer

OPTIMIZERS: dict[str, Any] = {"adam": partial(torch.optim.AdamW, fused=True), "lamb": Lamb}


def build_trainer(config: Config, passes: int, target: Target, regions: RegionTimer) -> Trainer:
    """Of steps of so many passes."""
    options = config.training
    torch.backends.cudnn.benchmark = True
    model = build_model(options.seed).to(target.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = OPTIMIZERS[options.optimizer](
        model.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
    )
    weights = torch.tensor([one**WEIGHT_POWER for one in FREQUENCIES], device=target.device)

    def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
        """The mean over pixels, in which a seldom class counts more."""
        return functional.cross_entropy(logits.float(), labels, weights, reduction="none").mean()

    rate = rising_rate(options.learning_rate, options.learning_rate_warmup_steps)
    return Trainer(model, optimizer, loss_of, rate, passes, target, regions)
