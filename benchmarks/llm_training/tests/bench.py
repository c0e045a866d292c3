"""Speed of the benchmark against a plain PyTorch GPT of the same shape, batch and optimizer, in one process.

The two take turns, so that whatever else the machine does falls on both. Prints megatron's speed over the plain
model's: 1 is as fast, and what is missing to 1 is the cost of megatron-core on this machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.common.launch import Launch
from benchmarks.common.measure.step_timer import StepTimer
from benchmarks.common.options import option, run_command
from benchmarks.common.record import RunRecord
from benchmarks.common.run import RESULT_PREFIX
from benchmarks.common.session import parse_options
from benchmarks.common.tests.side_by_side import ratio_text, times_in_turns
from benchmarks.llm_training.config import TrainingOptions
from benchmarks.llm_training.corpus import installed_texts
from benchmarks.llm_training.prepare import train_tokenizer, write_indexed
from benchmarks.llm_training.sizes import GPT2_VOCAB_SIZE, ModelSize
from benchmarks.llm_training.train import Gpt
from jpwr.regions import RegionTimer
from jpwr.regions.times import BATCH


@dataclass(frozen=True)
class BenchOptions:
    """Comparison."""

    rounds: int = option(12, "times that each of the two is measured")
    steps: int = option(2, "optimizer steps per round")
    global_batch_size: int = option(8, "samples per optimizer step")


def compare(options: BenchOptions) -> None:
    """Print both speeds and their ratio, with its spread over the rounds."""
    warnings.filterwarnings("ignore", module=r"megatron\.")
    config = parse_options(Gpt, ["--device", "cpu", "--global-batch-size", str(options.global_batch_size)])
    shape = config.model.shape
    run = Gpt(config, Launch())
    run.regions = RegionTimer()
    run.regions.recording = False
    with run.open(RunRecord(Gpt.name, "bench", Gpt.model(config), "tokens", asdict(config))) as target:
        step_ours = run.build(target).data.call

        def step_marked() -> None:
            run.regions.recording = True
            with run.regions.region(BATCH):
                step_ours()
            run.regions.recording = False

        contestants = {
            "megatron-core": step_ours,
            "plain PyTorch": plain_gpt_step(shape, run.batches, config.training),
            "megatron-core, marked": step_marked,
        }
        several = {name: partial(repeat, step, options.steps) for name, step in contestants.items()}
        times_s = times_in_turns(options.rounds, several)
    tokens = options.steps * options.global_batch_size * shape.sequence_length
    for name, measured in times_s.items():
        print(f"{name}: {tokens / statistics.median(measured):.0f} tokens/s")
    ours_s, plain_s, marked_s = times_s.values()
    print(f"ratio megatron-core / plain PyTorch: {ratio_text(plain_s, ours_s)}")
    print(f"time of a marked step over an unmarked: {ratio_text(marked_s, ours_s)}")
    marks = run.regions.count() / (options.steps * (options.rounds + 1))
    cost_s = mark_cost_s()
    step_s = statistics.median(ours_s) / options.steps
    print(
        f"marks of regions: {marks:.0f} of {cost_s * 1e6:.2f} us, {marks * cost_s / step_s:.4%} of a step, "
        "at most 0.5% wanted"
    )
    cost_s = timer_cost_s()
    print(f"timing of a step: {cost_s * 1e6:.1f} us, {cost_s / step_s:.4%} of a step, at most 0.5% wanted")
    whole, encoding = preparation_mb_per_s()
    print(
        f"data preparation on one core: {whole:.1f} MB/s of text, at least 2 wanted; "
        f"{whole / encoding:.2f} of its tokenizer alone"
    )
    shared, alone = data_parallel_tokens_per_s()
    print(
        f"data parallel on two cores: {shared:.0f} tokens/s by 2 ranks, {alone:.0f} by 1 rank with 2 threads; "
        f"ratio {shared / alone:.3f}, at least 0.9 wanted"
    )


def repeat(step: Callable[[], None], steps: int) -> None:
    """Make some steps."""
    for _ in range(steps):
        step()


def data_parallel_tokens_per_s(rounds: int = 3) -> tuple[float, float]:
    """Of two ranks with a thread each, and of one rank with two threads, as users start them; medians, in turns."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    torchrun += ["--nproc-per-node", "2"]
    contestants = {"2": [*torchrun, "-m"], "1": [sys.executable, "-m"]}
    found: dict[str, list[float]] = {ranks: [] for ranks in contestants}
    for _ in range(rounds):
        for ranks, start in contestants.items():
            threads = "1" if ranks == "2" else "2"
            flags = f"--global-batch-size 16 --threads {threads} --device cpu --warmup-steps 2 --measured-steps 8"
            command = [*start, "benchmarks.llm_training", *flags.split(), "--print-record"]
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            [line] = [line for line in printed.splitlines() if line.startswith(RESULT_PREFIX)]
            found[ranks].append(json.loads(line.removeprefix(RESULT_PREFIX))["metrics"]["tokens_per_s"])
    return statistics.median(found["2"]), statistics.median(found["1"])


def mark_cost_s(marks: int = 100_000) -> float:
    """What one mark of a region takes by the host's clock, in seconds."""
    timer = RegionTimer()
    start_s = time.perf_counter()
    for _ in range(marks // 2):
        timer.start(BATCH)
        timer.end(BATCH)
    return (time.perf_counter() - start_s) / marks


def timer_cost_s(steps: int = 10_000) -> float:
    """What the timer itself takes in each measured step, in seconds."""
    timer = StepTimer(time.monotonic, lambda: None)
    timer.begin_window()
    start_s = time.perf_counter()
    for _ in range(steps):
        timer.step_done()
    return (time.perf_counter() - start_s) / steps


def preparation_mb_per_s() -> tuple[float, float]:
    """Of text that is encoded and stored, and of text that is only encoded, both on one core."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts = list(installed_texts())
    tokenizer = train_tokenizer(texts, GPT2_VOCAB_SIZE)
    size_mb = sum(len(text.encode()) for text in texts) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        start_s = time.perf_counter()
        write_indexed(f"{folder}/text", tokenizer, texts, GPT2_VOCAB_SIZE)
        stored_s = time.perf_counter()
        tokenizer.encode_batch_fast(texts)
        return size_mb / (stored_s - start_s), size_mb / (time.perf_counter() - stored_s)


def plain_gpt_step(shape: ModelSize, plan: BatchPlan, options: TrainingOptions) -> Callable[[], None]:
    """One optimizer step of a GPT written in PyTorch alone, of the same shape and with the same optimizer."""
    import torch

    from benchmarks.llm_training.data import SyntheticSamples, micro_batches
    from benchmarks.llm_training.gpt.plain_gpt import PlainGpt

    model = PlainGpt(shape, shape.sequence_length)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=options.weight_decay, fused=True)
    samples = SyntheticSamples(shape.vocab_size, shape.sequence_length, options.seed)
    batches = micro_batches(samples, plan, 0, torch.device("cpu"))

    def step() -> None:
        adam.zero_grad()
        for _ in range(plan.grad_accum_steps):
            batch = next(batches)
            (model(batch["tokens"], batch["labels"]) / plan.grad_accum_steps).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), options.gradient_clip)
        adam.step()

    return step


main = partial(run_command, BenchOptions, "python -m benchmarks.llm_training.tests.bench", __doc__, compare)

if __name__ == "__main__":
    sys.exit(main())
