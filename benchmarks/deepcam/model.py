"""DeepLabv3+ on Xception with output stride 16, and a decoder of transposed convolutions; its loss and its optimizer.

Source: Chen et al. 2018 (arXiv:1802.02611), and for the decoder Kurth et al. 2018 (arXiv:1810.01993); sizes are those
of MLPerf HPC's DeepCAM.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.deepcam.config import CHANNELS, CLASSES, FREQUENCIES, WEIGHT_POWER, Config
from benchmarks.on_pytorch.files import memory_format
from benchmarks.on_pytorch.target import Target
from benchmarks.on_pytorch.trainer import Trainer, rising_rate
from jpwr.regions import RegionTimer

MIDDLE_BLOCKS = 16
ATROUS_RATES = (1, 6, 12, 18)
LOW_LEVEL = 48  # channels of the low-level features of the decoder
WIDTH = 256  # of the decoder


def separable(inputs: int, outputs: int, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    """Return a separable convolution: of each channel, and then of all channels in each pixel."""
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, stride, dilation, dilation, groups=inputs, bias=False),
        nn.Conv2d(inputs, outputs, 1, bias=False),
    )


def normed(convolution: nn.Module, outputs: int) -> nn.Sequential:
    """Return a convolution with batch normalisation and ReLU."""
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def enlarging(outputs: int) -> nn.Module:
    """Return a transposed convolution to twice the height and width."""
    return nn.ConvTranspose2d(WIDTH, outputs, 3, 2, 1, output_padding=1, bias=False)


class Residual(nn.Module):
    """Separable convolutions with a shortcut; the last one is neither normalised nor followed by a ReLU."""

    def __init__(self, widths: tuple[int, ...], stride: int = 1, has_plain_end: bool = True) -> None:
        super().__init__()
        first, last = widths[0], widths[-1]
        body: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(widths):
            body += [separable(inputs, outputs), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        body.pop()
        if has_plain_end:
            body.append(separable(last, last, stride))
        self.body = nn.Sequential(*body)
        self.shortcut: nn.Module = nn.Identity()
        if first != last or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(first, last, 1, stride, bias=False), nn.BatchNorm2d(last))

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of convolutions and shortcut."""
        summed: Tensor = self.body(x) + self.shortcut(x)
        return summed


class Xception(nn.Module):
    """Features at a sixteenth and at a quarter of height and width."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Sequential(
            normed(nn.Conv2d(CHANNELS, 32, 3, 2, 1, bias=False), 32),
            normed(nn.Conv2d(32, 64, 3, 1, 1, bias=False), 64),
            Residual((64, 128, 128), 2),
            nn.ReLU(inplace=True),
        )
        entry = [Residual((128, 256, 256), 2), Residual((256, 728, 728), 2)]
        middle = [Residual((728,) * 4, has_plain_end=False) for _ in range(MIDDLE_BLOCKS)]
        with_relu = [part for block in (*entry, *middle) for part in (block, nn.ReLU(inplace=True))]
        widths = ((1024, 1536), (1536, 1536), (1536, 2048))
        ends = [normed(separable(inputs, outputs, dilation=2), outputs) for inputs, outputs in widths]
        self.rest = nn.Sequential(*with_relu, Residual((728, 728, 1024)), *ends)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the high-level and the low-level features."""
        low_level = self.start(x)
        return self.rest(low_level), low_level


class Mean(nn.Module):
    """Mean over all pixels, for each pixel."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.scale, self.shift = nn.Parameter(torch.ones(outputs, 1, 1)), nn.Parameter(torch.zeros(outputs, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean, expanded to the input's height and width."""
        mean = self.convolution(x.mean((2, 3), keepdim=True))
        return torch.relu(self.scale * mean + self.shift).expand(-1, -1, *x.shape[2:])


class Pyramid(nn.Module):
    """Parallel convolutions of several dilations."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        branches: list[nn.Module] = [Mean(inputs, outputs)]
        for rate in ATROUS_RATES:
            kernel = nn.Conv2d(inputs, outputs, 1, bias=False)
            if rate > 1:
                kernel = nn.Conv2d(inputs, outputs, 3, padding=rate, dilation=rate, bias=False)
            branches.append(normed(kernel, outputs))
        self.branches = nn.ModuleList(branches)
        self.joined = normed(nn.Conv2d(len(branches) * outputs, outputs, 1, bias=False), outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the joined outputs of the convolutions."""
        joined: Tensor = self.joined(torch.cat([branch(x) for branch in self.branches], 1))
        return joined


class DeepLab(nn.Module):
    """Network with logits of shape [samples, 3, height, width] from fields of shape [samples, 16, height, width]."""

    def __init__(self) -> None:
        super().__init__()
        self.features = Xception()
        self.pyramid = Pyramid(2048, WIDTH)
        self.low_level = normed(nn.Conv2d(128, LOW_LEVEL, 1, bias=False), LOW_LEVEL)
        self.to_a_quarter = nn.Sequential(normed(enlarging(WIDTH), WIDTH), normed(enlarging(WIDTH), WIDTH))
        self.to_all = nn.Sequential(
            normed(nn.Conv2d(WIDTH + LOW_LEVEL, WIDTH, 3, padding=1, bias=False), WIDTH),
            normed(nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False), WIDTH),
            nn.Conv2d(WIDTH, WIDTH, 1),
            normed(enlarging(WIDTH), WIDTH),
            enlarging(CLASSES),
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits; height and width must be multiples of 16."""
        features, low_level = self.features(x)
        features = self.to_a_quarter(self.pyramid(features))
        logits: Tensor = self.to_all(torch.cat([features, self.low_level(low_level)], 1))
        return logits


def build_model(seed: int) -> DeepLab:
    """Return the model, with the same weights on every rank."""
    torch.manual_seed(seed)
    return DeepLab()


def build_trainer(config: Config, passes: int, target: Target, regions: RegionTimer) -> Trainer:
    """Return the trainer with `passes` passes per optimizer step."""
    options = config.training
    torch.backends.cudnn.benchmark = True
    model = build_model(options.seed).to(target.device, memory_format=memory_format(target.device))  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(
        model.parameters(), options.learning_rate, weight_decay=options.weight_decay, fused=True
    )
    weights = torch.tensor([one**WEIGHT_POWER for one in FREQUENCIES], device=target.device)

    def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean over pixels, in which a rare class has a larger weight."""
        return functional.cross_entropy(logits.float(), labels, weights, reduction="none").mean()

    rate = rising_rate(options.learning_rate, options.learning_rate_warmup_steps)
    return Trainer(model, optimizer, loss_of, rate, passes, target, regions)
