"""DeepCAM's model, optimizer, loss and data of one rank."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.common.good_run import run_problem
from benchmarks.common.record import RunRecord
from benchmarks.deepcam.config import FREQUENCIES, WEIGHT_POWER
from benchmarks.deepcam.data import Counts, FilePasses, made_passes, read_scale, to_device
from benchmarks.deepcam.metrics import SAMPLES_PER_EPOCH
from benchmarks.deepcam.model import build_model
from benchmarks.on_pytorch.target import Target
from benchmarks.on_pytorch.trainer import Lamb, Pass, PassFeed, Trainer, forever, rising_rate

if TYPE_CHECKING:
    from benchmarks.deepcam.train import DeepCam

OPTIMIZERS: dict[str, Any] = {"adam": partial(torch.optim.AdamW, fused=True), "lamb": Lamb}


class DeepCamTraining:
    """A Training."""

    steps_per_call = 1

    def __init__(self, run: DeepCam, target: Target) -> None:
        config, plan, device, rank = run.config, run.shares, target.device, run.launch.rank
        options = config.training
        torch.backends.cudnn.benchmark = True
        model = build_model(options.seed).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimizer = OPTIMIZERS[options.optimizer](
            model.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
        )
        weights = torch.tensor([one**WEIGHT_POWER for one in FREQUENCIES], device=device)

        def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
            return functional.cross_entropy(logits.float(), labels, weights, reduction="none").mean()

        rate = rising_rate(options.learning_rate, options.learning_rate_warmup_steps)
        self.trainer = Trainer(model, optimizer, loss_of, rate, plan.grad_accum_steps, target, run.regions)
        self._run, self._target = run, target
        on_host = list(made_passes(config, plan, rank))
        kept = [to_device(*one, device) for one in on_host]
        self.on_device = None
        if config.turns.effective:
            self.on_device = PassFeed(self.trainer, forever(kept), run.regions)
        files = None
        passes: Iterable[Pass] = forever(kept)
        if config.data.reads_files:
            scale = read_scale(run.stats)
            passes = files = FilePasses(config, run.files, scale, plan.micro_batch_size, run.launch, device)
        elif config.data.data == "synthetic-host":
            passes = (to_device(*one, device) for one in forever(on_host))
        self.data = FieldsFeed(self.trainer, passes, run, target, files, on_host)

    def synchronize(self) -> None:
        """Wait until the device has done all it was given."""
        self._target.synchronize()

    def losses(self) -> list[float]:
        """Of every step, the mean over all ranks."""
        return self.trainer.losses()

    def conclude(self, record: RunRecord) -> str:
        """Fill in what was read; why the run is not a good one."""
        counts = self.data.counts
        of_ranks = self._target.gather([counts.samples + counts.damaged, counts.damaged])
        read, damaged = (int(sum(numbers)) for numbers in zip(*of_ranks, strict=True))
        record.metrics |= {
            "comparable": self._run.config.model.is_comparable,
            "samples_per_epoch": SAMPLES_PER_EPOCH,
            "records_read": read,
            "records_damaged": damaged,
        }
        return run_problem(self.losses(), read, damaged, "damaged, or of another size")


class FieldsFeed(PassFeed):
    """An Input: steps on fields."""

    def __init__(
        self,
        trainer: Trainer,
        passes: Iterable[Pass],
        run: DeepCam,
        target: Target,
        files: FilePasses | None,
        on_host: list[Pass],
    ) -> None:
        super().__init__(trainer, passes, run.regions)
        self._files, self._target, self._on_host = files, target, on_host
        self.steps_ahead = -(-files.passes_ahead // trainer.passes) if files else 0

    @property
    def counts(self) -> Counts:
        """What was read for the passes that were taken."""
        return self._files.counts if self._files else Counts()

    def read_so_far(self) -> dict[str, float]:
        """Of files; where nothing is unpacked, nothing is said of it."""
        if not self._files:
            return {}
        counts = self.counts
        return {
            "input_samples": counts.samples,
            "input_bytes": counts.bytes,
            "input_opens": counts.opens,
            "input_reading_s": counts.reading_s,
            "input_decoding_s": counts.decoding_s,
        }

    def copy_batch_s(self) -> float | None:
        """Seconds that the passes of a step take to a GPU."""
        if not self._target.on_gpu:
            return None
        pinned = [(fields.pin_memory(), labels.pin_memory()) for fields, labels in self._on_host]
        self._target.synchronize()
        start_s = time.monotonic()
        for one in pinned:
            to_device(*one, self._target.device)
        self._target.synchronize()
        return time.monotonic() - start_s
