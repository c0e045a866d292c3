"""Make a data set for training from text: tokenizer, token ids and index.

The token ids of the text's documents, by GPT-2's vocabulary or a byte-level BPE trained on the text, are stored in
megatron-core's .bin/.idx format. PREFIX.json is written last: without it, the data set is incomplete.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common.options import ConfigError, option, run_command
from benchmarks.common.prepare import locked
from benchmarks.common.progress import Pace
from benchmarks.common.run import skip_imports
from benchmarks.llm_training.corpus import GPT2_VOCABULARY, OSCAR, SHA256, documents, fetch
from benchmarks.llm_training.sizes import SIZES
from jpwr.process.whole_file import replaced

END_OF_DOCUMENT = "<|endoftext|>"
MIN_TEXT_BYTES = 10_000
TRAINED_ON_CHARACTERS = 100_000_000  # of the text, to train a tokenizer
BATCH_CHARACTERS = 8_000_000  # encoded at once, on all cores
SIZES_HELP = ", ".join(f"{name} {size.vocab_size}" for name, size in SIZES.items())


@dataclass(frozen=True)
class PrepareOptions:
    """Data to make."""

    out: str = option(
        MISSING,
        "path of the data set without ending, such as data/text-tiny: writes .bin, .idx, .tokenizer.json and .json",
    )
    corpus: str = option(
        "given",
        "given: by --files and --vocabulary; oscar: fetch the original suite's text, 1 GB of OSCAR, and GPT-2's "
        "vocabulary",
        ("given", "oscar"),
    )
    files: tuple[str, ...] = option(
        (),
        "text: .txt files of one document, .jsonl files with one in the key text of each line, also as .xz or .gz, "
        "folders of them, or addresses to fetch; default: the text in this Python installation",
    )
    vocabulary: tuple[str, ...] = option(
        (),
        "GPT-2's vocab.json and merges.txt, or one tokenizer.json, or addresses; default: train one on the text",
    )
    size: str = option("tiny", f"model size, which determines the size of the vocabulary ({SIZES_HELP})", tuple(SIZES))

    def __post_init__(self) -> None:
        if self.corpus == "oscar" and (self.files or self.vocabulary):
            raise ConfigError(
                "--corpus oscar has its own text and vocabulary: leave --files and --vocabulary out, or give both "
                "without --corpus"
            )
        if len(self.vocabulary) > 2:
            raise ConfigError("--vocabulary takes vocab.json and merges.txt, or one tokenizer.json")


def prepare(options: PrepareOptions) -> None:
    """Make the data set, unless it exists; raises ConfigError if text or folder cannot be used."""
    warnings.filterwarnings("ignore", module=r"megatron\.")
    try:
        Path(options.out).parent.mkdir(parents=True, exist_ok=True)
        with locked(Path(f"{options.out}.lock")):
            folder = Path(options.out).parent / "downloads"
            names = ((OSCAR,), GPT2_VOCABULARY) if options.corpus == "oscar" else (options.files, options.vocabulary)
            files, vocabulary = ([fetch(name, folder, SHA256.get(name, "")) for name in some] for some in names)
            _prepare(options, files, vocabulary)
    except OSError as error:
        raise ConfigError(f"the data set {options.out} cannot be made: {error}") from error


def _prepare(options: PrepareOptions, files: Sequence[str], vocabulary: Sequence[str]) -> None:
    out, vocab_size = options.out, SIZES[options.size].vocab_size
    request = {"files": _stamps(files), "vocabulary": _stamps(vocabulary), "vocab_size": vocab_size}
    if _exists(out, request):
        print(f"{out}: is complete already")
        return
    if vocabulary:
        tokenizer = read_tokenizer(vocabulary, vocab_size)
    else:
        print(f"{out}: training a tokenizer", flush=True)
        tokenizer = train_tokenizer(_first(documents(files), TRAINED_ON_CHARACTERS), vocab_size)
    Path(f"{out}.json").unlink(missing_ok=True)
    text = Text(documents(files))
    tokens = write_indexed(out, tokenizer, text, vocab_size)
    if text.characters < MIN_TEXT_BYTES:
        where = ", ".join(files) or "this Python installation"
        raise ConfigError(
            f"{where} has {text.characters} characters of text, {MIN_TEXT_BYTES} are needed: give more with --files"
        )
    tokenizer.save(f"{out}.tokenizer.json")
    described = {
        **request,
        "text_sha256": text.digest.hexdigest(),
        "eod": tokenizer.token_to_id(END_OF_DOCUMENT),
        "documents": text.documents,
        "characters": text.characters,
        "tokens": tokens,
        "source": "files given" if files else f"docstrings and licence texts of Python {sys.version.split()[0]}",
    }
    with replaced(Path(f"{out}.json")) as part:
        part.write_text(json.dumps(described, indent=1) + "\n")
    print(f"{out}: {tokens} tokens")


def _stamps(names: Sequence[str]) -> list[list[Any]]:
    """Return path, bytes and time of change of each file, and of the files in each folder."""
    found = []
    for name in names:
        path = Path(name).resolve()
        for file in [path, *sorted(path.rglob("*"))] if path.is_dir() else [path]:
            stamp = file.stat() if file.is_file() else None
            found.append([str(file), stamp and stamp.st_size, stamp and stamp.st_mtime_ns])
    return found


def _exists(out: str, request: dict[str, Any]) -> bool:
    from benchmarks.llm_training.data import check_prefix, describe_prefix

    try:
        described = describe_prefix(out)
        if any(described.get(key) != value for key, value in request.items()):
            return False
        check_prefix(out, request["vocab_size"])
    except ConfigError:
        return False
    return True


class Text:
    """Documents, with their number, characters and SHA-256 so far; prints the progress every few seconds."""

    def __init__(self, documents: Iterator[str]) -> None:
        self._documents, self._pace, self._started_s = documents, Pace(), time.monotonic()
        self.documents, self.characters, self.digest = 0, 0, hashlib.sha256()

    def __iter__(self) -> Iterator[str]:
        for document in self._documents:
            self.digest.update(document.encode() + b"\0")
            self.documents, self.characters = self.documents + 1, self.characters + len(document)
            yield document
            if self._pace.due:
                millions = self.characters / 1e6
                print(
                    f"{millions:.0f} million characters, {millions / (time.monotonic() - self._started_s):.1f}/s",
                    flush=True,
                )


def _first(texts: Iterable[str], characters: int) -> Iterator[str]:
    for text in texts:
        yield text
        characters -= len(text)
        if characters < 0:
            return


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Any:
    """Return a trained byte-level BPE, as GPT-2's, of at most `vocab_size` tokens including the end of a document."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = _byte_level(Tokenizer(models.BPE()))
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_DOCUMENT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def read_tokenizer(names: Sequence[str], vocab_size: int) -> Any:
    """Return the tokenizer of GPT-2's vocabulary and merges, or a stored one; raises ConfigError if it does not fit."""
    from tokenizers import Tokenizer, models

    for name in names:
        if not Path(name).is_file():
            raise ConfigError(f"the vocabulary file {name} does not exist: check the path")
    try:
        tokenizer = (
            Tokenizer.from_file(names[0]) if len(names) == 1 else _byte_level(Tokenizer(models.BPE.from_file(*names)))
        )
    except Exception as error:  # tokenizers raises nothing narrower
        raise ConfigError(
            f"{' and '.join(names)} cannot be read as a vocabulary ({error}): give vocab.json, then merges.txt"
        ) from error
    if len(names) > 1:
        tokenizer.add_special_tokens([END_OF_DOCUMENT])
    if tokenizer.token_to_id(END_OF_DOCUMENT) is None:
        raise ConfigError(f"{names[0]} has no token {END_OF_DOCUMENT}: give GPT-2's vocabulary, or one made by prepare")
    if tokenizer.get_vocab_size() > vocab_size:
        raise ConfigError(
            f"{names[0]} has {tokenizer.get_vocab_size()} tokens, the model's vocabulary {vocab_size}: choose a --size "
            f"that fits ({SIZES_HELP})"
        )
    return tokenizer


def _byte_level(tokenizer: Any) -> Any:
    from tokenizers import decoders, pre_tokenizers

    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def write_indexed(out: str, tokenizer: Any, texts: Iterable[str], vocab_size: int) -> int:
    """Write PREFIX.bin and PREFIX.idx with one document per text; return the number of tokens."""
    import torch
    from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder

    builder = IndexedDatasetBuilder(f"{out}.bin.part", dtype=DType.optimal_dtype(vocab_size))
    end = tokenizer.token_to_id(END_OF_DOCUMENT)
    tokens = 0
    for batch in _batches(texts):
        for encoded in tokenizer.encode_batch_fast(batch):
            ids = [*encoded.ids, end]
            builder.add_document(torch.tensor(ids), [len(ids)])
            tokens += len(ids)
    builder.finalize(f"{out}.idx.part")
    for ending in (".bin", ".idx"):
        Path(f"{out}{ending}.part").replace(f"{out}{ending}")
    return tokens


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


main = partial(run_command, PrepareOptions, "python -m benchmarks.llm_training.prepare", __doc__, prepare)

if __name__ == "__main__":
    skip_imports("tensorboard", "wandb")  # of megatron-core
    sys.exit(main())
