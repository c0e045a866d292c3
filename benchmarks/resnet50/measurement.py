"""How a run is measured, on one kind of data or in turns on two."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks.common.launch import Launch, mark, node_window, usable_cores
from benchmarks.common.measure import WINDOW, measure_steps
from benchmarks.common.record import EFFECTIVE, MEASURED, RunRecord, Window
from benchmarks.common.step_timer import StepTimer
from benchmarks.resnet50.config import Config, DataOptions, num_devices
from benchmarks.resnet50.data import Batches, drop_from_cache
from benchmarks.resnet50.metrics import effective_metrics, training_metrics
from benchmarks.resnet50.parallel import Target, gather
from benchmarks.resnet50.trainer import Trainer
from benchmarks.resnet50.turns import Turns, measure_in_turns

TOGETHER_S = 1.0  # as in blocks that are measured in turns, a GPU is not waited for at each step
IO_COUNTERS = Path("/proc/self/io")


class Measurement:
    """How this process measures its trainer, in step with all others."""

    def __init__(self, config: Config, launch: Launch, target: Target, trainer: Trainer) -> None:
        self.config, self.launch, self.target, self.trainer = config, launch, target, trainer
        self.batches = self._batches(config)

    def _batches(self, config: Config) -> Batches:
        micro_batch_size = config.batch.global_batch_size // num_devices(config, self.launch.world_size)
        return Batches(config, self.target, micro_batch_size, self.launch.rank, self.launch.world_size)

    def gather(self, value: Any) -> list[Any]:
        """The value of every rank, on every rank."""
        return gather(value, self.target.strategy, self.launch)

    def agree(self, steps: int) -> int:
        """Rank 0's number."""
        return int(self.gather(steps)[0])

    def measure(self, record: RunRecord) -> list[Window]:
        """The window of this process's node, where it is the first on it; all steps are on the data asked for."""
        timer = StepTimer(time.monotonic, self.trainer.synchronize)
        measure_steps(
            lambda step: self.trainer.call(self.batches),
            timer,
            self.config.window,
            self.launch,
            self.agree,
            TOGETHER_S if self.target.on_gpu else 0.0,
        )
        self._fill_in(record, timer.host_times_s, timer.steps_together * self.config.compute.steps_per_call)
        if not self.launch.is_first_on_node:
            return []
        return [node_window(timer.window_start_s, timer.window_end_s)]

    def measure_effective(self, record: RunRecord) -> list[Window]:
        """The windows of this process's node, where it is the first on it: of compute and effective blocks in turns."""
        config, trainer = self.config, self.trainer
        on_device = self._batches(replace(config, data=DataOptions()))
        compute, effective = _Feed(trainer, on_device), _Feed(trainer, self.batches)
        calls_per_block = self._warm_up(compute, effective)
        turns = Turns(calls_per_block)
        cores = usable_cores() // self.launch.local_world_size
        ahead = config.data.prefetch_batches + 1 + cores // config.batch.global_batch_size
        read = ReadCounts(self.batches.read_so_far)

        def block_edge(edge: str, kind: str) -> None:
            if kind == EFFECTIVE:
                read.edge(edge)
            if self.launch.is_first_on_node:
                mark(edge, WINDOW.format(kind=kind), time.monotonic())

        def before_effective() -> None:
            if config.data.cold_cache and self.launch.is_first_on_node:
                drop_from_cache(Path(config.data.data_dir))

        for done in measure_in_turns(
            compute,
            effective,
            turns,
            config.data.rounds,
            ceil(ahead / config.compute.steps_per_call),
            time.monotonic,
            trainer.synchronize,
            before_effective,
            block_edge,
        ):
            if self.launch.rank == 0:
                images = calls_per_block * config.compute.steps_per_call * config.batch.global_batch_size
                rates = [images / turns.durations_s(kind)[-1] for kind in (MEASURED, EFFECTIVE)]
                print(
                    f"round {done} of {config.data.rounds}: compute {rates[0]:.1f} images/s, "
                    f"effective {rates[1]:.1f} images/s",
                    flush=True,
                )
        steps_per_call = config.compute.steps_per_call
        self._fill_in(record, turns.durations_s(MEASURED), calls_per_block * steps_per_call)
        own_share = sum(turns.waits_s) / (sum(turns.waits_s) + sum(turns.effective_steps_s))
        reads = self.gather(read.totals)
        record.metrics |= effective_metrics(
            config.batch.global_batch_size,
            num_devices(config, self.launch.world_size),
            steps_per_call,
            turns,
            max(self.gather(own_share)),  # the others wait for the rank that waits most
            {key: sum(one[key] for one in reads) for key in read.totals},
        )
        if not self.launch.is_first_on_node:
            return []
        return [node_window(block.start_s, block.end_s, block.kind) for block in turns.blocks]

    def _warm_up(self, compute: _Feed, effective: _Feed) -> int:
        """Steps on both kinds of data; returns how many calls a block has, from the times of the last kind."""
        window = self.config.window
        for feed in (effective, compute):
            times_s = []
            for _ in range(window.warmup_steps):
                start_s = time.monotonic()
                feed.call()
                self.trainer.synchronize()
                times_s.append(time.monotonic() - start_s)
        return self.agree(ceil(window.steps_to_measure(times_s) / self.config.data.rounds))

    def _fill_in(self, record: RunRecord, times_s: list[float], steps_each: int) -> None:
        config = self.config
        record.step_times_s = [time_s / steps_each for time_s in times_s]
        record.metrics |= {
            "measured_steps": len(times_s) * steps_each,
            **training_metrics(
                config.model.image_size,
                config.batch.global_batch_size,
                num_devices(config, self.launch.world_size),
                times_s,
                steps_each,
                config.run.peak_tflops_per_device,
            ),
        }


class _Feed:
    """A trainer on one kind of data."""

    def __init__(self, trainer: Trainer, batches: Batches) -> None:
        self._trainer, self._batches = trainer, batches

    def call(self) -> None:
        self._trainer.call(self._batches)

    def take(self) -> tuple[Any, Any]:
        return next(self._batches)

    def step(self, batch: tuple[Any, Any]) -> None:
        self._trainer.step(*batch)


class ReadCounts:
    """What this process read between pairs of edges: by its data set's own count, and by the kernel's."""

    def __init__(self, read_so_far: Callable[[], tuple[int, int]], counters: Path = IO_COUNTERS) -> None:
        self._read_so_far, self._counters = read_so_far, counters
        self._begin = self._now()
        self.totals = dict.fromkeys(self._begin, 0)

    def _now(self) -> dict[str, int]:
        images, size_bytes = self._read_so_far()
        found = {"input_images": images, "input_bytes": size_bytes}
        try:
            lines = dict(line.split(": ") for line in self._counters.read_text().splitlines())
        except OSError:  # no such file but on Linux
            return found
        # proc(5): bytes that were asked for, and those of them that came from storage
        return found | {"io_rchar_bytes": int(lines["rchar"]), "io_read_bytes": int(lines["read_bytes"])}

    def edge(self, edge: str) -> None:
        """To be told of "begin" and "end"."""
        if edge == "begin":
            self._begin = self._now()
        else:
            for key, value in self._now().items():
                self.totals[key] += value - self._begin[key]
