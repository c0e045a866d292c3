"""ResNet-50 of torchvision, its loss and its optimizer."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.on_pytorch.target import Target
from benchmarks.on_pytorch.trainer import Trainer, rising_rate
from benchmarks.resnet50_torch.config import NUM_CLASSES, Config
from jpwr.regions import RegionTimer

OPERATORS = ("nms", "qnms")  # whose shapes torchvision states when it is imported


def import_torchvision() -> None:
    """Import torchvision, also where its operators do not load.

    The package index has torchvision for CUDA alone. Next to a PyTorch for CPUs its compiled operators are missing, of
    which ResNet-50 uses none, and its import fails unless they are declared.
    """
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in OPERATORS:
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def build_model(seed: int) -> nn.Module:
    """Return ResNet-50 v1.5, with the same weights on every rank.

    A block starts as the identity: Goyal et al. 2017 (arXiv:1706.02677), section 5.1.
    """
    import_torchvision()
    from torchvision.models import resnet50

    torch.manual_seed(seed)
    model = resnet50(num_classes=NUM_CLASSES, zero_init_residual=True)
    nn.init.normal_(model.fc.weight, std=0.01)  # the same section
    return model  # type: ignore[no-any-return]


def build_trainer(config: Config, compiled: bool, target: Target, passes: int, regions: RegionTimer) -> Trainer:
    """Return the trainer with `passes` passes per optimizer step."""
    options = config.training
    torch.backends.cudnn.benchmark = True
    model = build_model(options.seed).to(target.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    kernels = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() == 1]  # biases, and those of norms
    groups: list[dict[str, Any]] = [{"params": kernels, "weight_decay": options.weight_decay}, {"params": others}]
    highest = options.highest_rate(config.batch.global_batch_size)
    optimizer = torch.optim.SGD(groups, highest, options.momentum, fused=True)
    loss_of = partial(nn.functional.cross_entropy, label_smoothing=options.label_smoothing)
    rate = rising_rate(highest, options.learning_rate_warmup_steps)
    return Trainer(model, optimizer, loss_of, rate, passes, target, regions, compiled)
