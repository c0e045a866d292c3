"""Samples of token ids: random, or from text by megatron-core's dataset builder."""

from __future__ import annotations

import itertools
import json
import struct
from collections import OrderedDict, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.common.batch_plan import BatchPlan
from benchmarks.common.options import ConfigError
from benchmarks.llm_training.config import Config

Item = TypeVar("Item")
Batch = dict[str, torch.Tensor]
IndexHeader = struct.Struct("<9sQBQQ")  # magic, version, code of the token type, sequences, documents
INDEX_MAGIC = b"MMIDIDX\x00\x00"
TOKEN_TYPES = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16}
REMADE = "make it anew with 'python -m benchmarks.llm_training.prepare --out"
TOKENS_CHECKED = 10_000_000  # in less than a second
DRAWN = 0.5  # share of synthetic tokens that no other determines, where losses are compared with a reference
FACTOR = 31  # a token t that is not drawn is followed by FACTOR t + 1, modulo the vocabulary, which 31 does not divide
PASSES_AHEAD = 4  # prefetched for a GPU


class SyntheticSamples:
    """Random tokens by Zipf's law, like the words of a text, so that there is something to learn.

    Only a share of them is `drawn`. Each of the others follows from the token before it, so that all layers have
    something to learn. Sample `index` has `sequence_length + 1` token ids, which depend on seed and index alone.
    """

    def __init__(self, vocab_size: int, sequence_length: int, seed: int, drawn: float = 1.0) -> None:
        weights = 1.0 / np.arange(1, vocab_size + 1)
        self._cumulative = np.cumsum(weights / weights.sum())
        self._length = sequence_length + 1
        self._seed, self._drawn = seed, drawn

    def __len__(self) -> int:
        return 2**31

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        uniform, chance = np.random.default_rng([self._seed, index]).random((2, self._length))
        vocab_size = len(self._cumulative)
        tokens: NDArray[np.int64] = np.minimum(np.searchsorted(self._cumulative, uniform), vocab_size - 1)
        places = np.arange(self._length)
        drawn = np.maximum.accumulate(np.where((chance < self._drawn) | (places == 0), places, 0))
        for steps in range(1, int((places - drawn).max()) + 1):  # since the last drawn token
            tokens = np.where(places - drawn == steps, (FACTOR * np.roll(tokens, 1) + 1) % vocab_size, tokens)
        return tokens


class TextSamples:
    """A .bin/.idx pair, split into samples and shuffled by megatron-core's GPTDataset; repeated after an epoch."""

    def __init__(self, prefix: str, vocab_size: int, sequence_length: int, seed: int) -> None:
        check_prefix(prefix, vocab_size)
        from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
        from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig

        config = GPTDatasetConfig(
            random_seed=seed,
            sequence_length=sequence_length,
            blend=([prefix], None),
            split="1,0,0",
            tokenizer=_Vocabulary(prefix, vocab_size),
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            create_attention_mask=False,
        )
        try:
            self._dataset, _, _ = BlendedMegatronDatasetBuilder(
                GPTDataset, [None, None, None], lambda: True, config
            ).build()
        except OSError as error:
            raise ConfigError(
                f"the index of data prefix {prefix} cannot be stored next to it ({error}): copy the data to a writable "
                "folder"
            ) from error
        if not len(self._dataset):
            raise ConfigError(f"data prefix {prefix} has less than one sample of {sequence_length} tokens: add text")

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        sample = self._dataset[index % len(self._dataset)]
        return np.concatenate([sample["tokens"].numpy(), sample["labels"][-1:].numpy()])


Samples = SyntheticSamples | TextSamples


class _Vocabulary:
    """Attributes of a tokenizer that GPTDataset needs.

    GPTDataset names its stored index after `unique_identifiers`, so that regenerated data gets a new index.
    """

    def __init__(self, prefix: str, vocab_size: int) -> None:
        tokens = Path(f"{prefix}.bin").stat()
        self.vocab_size = vocab_size
        self.eod = describe_prefix(prefix).get("eod", vocab_size - 1)  # GPT-2's <|endoftext|> is its last token
        self.pad = -1
        self.unique_identifiers = OrderedDict(
            vocab_size=vocab_size, eod=self.eod, bytes=tokens.st_size, modified_ns=tokens.st_mtime_ns
        )


def describe_prefix(prefix: str) -> dict[str, Any]:
    """Return the content of PREFIX.json, which prepare writes; empty for data from elsewhere, or synthetic tokens.

    Raises ConfigError if the file is damaged.
    """
    try:
        described: dict[str, Any] = json.loads(Path(f"{prefix}.json").read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ConfigError(f"{prefix}.json is damaged ({error}): make the data again with prepare") from error
    return described


def read_index(prefix: str) -> tuple[NDArray[np.int32], Any]:
    """Return the number of tokens of each document in PREFIX.idx, and their type; raises ConfigError if it is damaged.

    megatron-core's own reader checks the same, but prints tracebacks for a file that it cannot read.
    """
    path = Path(f"{prefix}.idx")
    try:
        with open(path, "rb") as file:
            magic, version, code, sequences, documents = IndexHeader.unpack(file.read(IndexHeader.size))
        if (magic, version) != (INDEX_MAGIC, 1):
            raise ValueError("it is no index of megatron-core")
        if path.stat().st_size < IndexHeader.size + sequences * (4 + 8) + documents * 8:
            raise ValueError("it is truncated")
        return np.fromfile(path, np.int32, sequences, offset=IndexHeader.size), np.dtype(TOKEN_TYPES[code])
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise ConfigError(f"{path} cannot be read ({error}): {REMADE} {prefix}'") from error


def check_prefix(prefix: str, vocab_size: int) -> None:
    """Raise ConfigError unless PREFIX.bin and PREFIX.idx are a complete data set within the vocabulary."""
    (lengths, token_type), tokens = read_index(prefix), Path(f"{prefix}.bin")
    expected_bytes = int(lengths.sum(dtype=np.int64)) * token_type.itemsize
    found_bytes = tokens.stat().st_size if tokens.exists() else 0
    if found_bytes != expected_bytes:
        raise ConfigError(
            f"{tokens} has {found_bytes} bytes, but its index expects {expected_bytes}: {REMADE} {prefix}'"
        )
    largest = int(np.fromfile(tokens, token_type, TOKENS_CHECKED).max(initial=0))
    if largest >= vocab_size:
        raise ConfigError(
            f"{tokens} has token {largest}, but the model's vocabulary ends at {vocab_size - 1}: "
            "prepare the data with the model's own vocabulary size"
        )


def open_samples(config: Config) -> Samples:
    """Return the requested data set; raises ConfigError if it cannot be used."""
    shape, length, seed = config.model.shape, config.model.tokens_per_sample, config.training.seed_of_data
    if config.data.data == "synthetic":
        is_judged = config.training.data_seed is not None
        return SyntheticSamples(shape.vocab_size, length, seed, DRAWN if is_judged else 1.0)
    return TextSamples(config.data.data_prefix, shape.vocab_size, length, seed)


def micro_batches(
    samples: Samples,
    plan: BatchPlan,
    data_parallel_rank: int,
    device: torch.device,
    stay_on_host: bool = False,
) -> Iterator[Batch]:
    """Return tokens and labels of this replica's passes, each of shape [micro_batch_size, sequence_length].

    For a GPU they are prefetched into pinned memory, from which the device copies while it computes; with
    `stay_on_host` the caller copies them.
    """
    passes = _passes(samples, plan, data_parallel_rank)
    if device.type != "cpu":
        passes = ahead(_pinned(passes, device))
    if stay_on_host:
        return passes
    return ({name: part_BT.to(device, non_blocking=True) for name, part_BT in batch.items()} for batch in passes)


def _pinned(passes: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    torch.cuda.set_device(device)  # a new thread starts on the first GPU, and would use memory there
    for batch in passes:
        yield {name: part_BT.pin_memory() for name, part_BT in batch.items()}


def _passes(samples: Samples, plan: BatchPlan, data_parallel_rank: int) -> Iterator[Batch]:
    for step in itertools.count():
        for pass_index in range(plan.grad_accum_steps):
            indices = plan.sample_indices(step, pass_index, data_parallel_rank)
            tokens_BT = torch.from_numpy(np.stack([samples[index] for index in indices]))
            yield {"tokens": tokens_BT[:, :-1].contiguous(), "labels": tokens_BT[:, 1:].contiguous()}


def ahead(items: Iterator[Item], number: int = PASSES_AHEAD) -> Iterator[Item]:
    """Yield the items, prefetched by a thread that is `number` ahead; an exception of the thread is raised here."""
    thread = ThreadPoolExecutor(1)
    made = deque(thread.submit(list, itertools.islice(items, 1)) for _ in range(number))
    while item := made.popleft().result():
        made.append(thread.submit(list, itertools.islice(items, 1)))
        yield item[0]
