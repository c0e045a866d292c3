"""Make a data set for training from text: tokenizer, token ids and index.

Text becomes documents, a byte-level BPE is trained on them, and their token ids are stored in megatron-core's
.bin/.idx form. PREFIX.json is written last: while it is not there, the data set is not whole.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.options import ConfigError, option, run_command
from benchmarks.llm_training.config import SIZES

END_OF_DOCUMENT = "<|endoftext|>"
LICENCES = Path("/usr/share/common-licenses")  # Debian and Ubuntu
MIN_TEXT_BYTES = 10_000
SIZES_HELP = ", ".join(f"{name} {size.vocab_size}" for name, size in SIZES.items())


@dataclass(frozen=True)
class PrepareOptions:
    """Data to make."""

    out: str = option("", "path of the data set without ending; PREFIX.bin, .idx, .tokenizer.json and .json are made")
    files: tuple[str, ...] = option(
        (), "text files, one document each, or folders of .txt files; default: the text in this Python installation"
    )
    size: str = option("tiny", f"model size whose vocabulary is wanted ({SIZES_HELP})", tuple(SIZES))

    def __post_init__(self) -> None:
        if not self.out:
            raise ConfigError("--out PREFIX is needed: the path of the data set without ending, such as data/text-tiny")


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    return run_command(
        PrepareOptions,
        "python -m benchmarks.llm_training.prepare",
        "Make a data set for --data text. A data set that is there already, from the same text, stays.",
        prepare,
        argv,
    )


def prepare(options: PrepareOptions) -> None:
    """Make the data set, unless it is there; raises ConfigError for text or folder that cannot be used."""
    request = {
        "files": [str(Path(name).resolve()) for name in options.files],
        "vocab_size": SIZES[options.size].vocab_size,
    }
    try:
        Path(options.out).parent.mkdir(parents=True, exist_ok=True)
        with _locked(f"{options.out}.lock"):
            _prepare(options, request)
    except OSError as error:
        raise ConfigError(f"the data set {options.out} cannot be made: {error}") from error


def _prepare(options: PrepareOptions, request: dict[str, Any]) -> None:
    out = options.out
    texts = list(read_texts(options.files)) if options.files else list(installed_texts())
    size = sum(len(text) for text in texts)
    if size < MIN_TEXT_BYTES:
        where = ", ".join(options.files) or "this Python installation"
        raise ConfigError(f"{where} has {size} characters of text, {MIN_TEXT_BYTES} are needed: give more with --files")
    request["text_sha256"] = _sha256(texts)
    if _is_there(out, request):
        print(f"{out}: is there already")
        return
    print(f"{out}: training a tokenizer on {len(texts)} documents, {size / 1e6:.1f} million characters", flush=True)
    tokenizer = train_tokenizer(texts, request["vocab_size"])
    Path(f"{out}.json").unlink(missing_ok=True)
    tokens = write_indexed(out, tokenizer, texts, request["vocab_size"])
    tokenizer.save(f"{out}.tokenizer.json")
    described = {
        **request,
        "eod": tokenizer.token_to_id(END_OF_DOCUMENT),
        "documents": len(texts),
        "characters": size,
        "tokens": tokens,
        "source": "files given"
        if options.files
        else f"docstrings and licence texts of Python {sys.version.split()[0]}",
    }
    part = Path(f"{out}.json.part")
    part.write_text(json.dumps(described, indent=1) + "\n")
    part.replace(f"{out}.json")
    print(f"{out}: {tokens} tokens")


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold a lock, so that two jobs do not make the same data set at once; the second finds it made."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_there(out: str, request: dict[str, Any]) -> bool:
    from benchmarks.llm_training.data import check_prefix, describe_prefix

    try:
        described = describe_prefix(out)
        if any(described.get(key) != value for key, value in request.items()):
            return False
        check_prefix(out, request["vocab_size"])
    except ConfigError:
        return False
    return True


def _sha256(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def read_texts(names: Sequence[str]) -> Iterator[str]:
    """The text of each file, and of each .txt file below each folder, in the order of names."""
    for name in names:
        path = Path(name)
        files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
        if not files:
            raise ConfigError(f"the folder {path} holds no .txt file: give files, or a folder that has some")
        for file in files:
            try:
                yield file.read_text()
            except FileNotFoundError as error:
                raise ConfigError(f"the text file {file} does not exist: check the path") from error
            except UnicodeDecodeError as error:
                raise ConfigError(f"{file} is not UTF-8 text ({error.reason}): convert it first") from error


def installed_texts() -> Iterator[str]:
    """Text that is on every machine: documentation strings of Python's library, and licences."""
    library = Path(sysconfig.get_path("stdlib"))
    for file in sorted(library.rglob("*.py")):
        if {"test", "tests", "idle_test", "site-packages", "dist-packages"} & set(file.relative_to(library).parts):
            continue
        try:
            text = "\n\n".join(_docstrings(ast.parse(file.read_text())))
        except (OSError, SyntaxError, UnicodeDecodeError):
            continue
        if text:
            yield text
    for folder in (LICENCES, library):
        for file in sorted(folder.glob("[A-Z]*")):
            if file.is_file() and not file.is_symlink():
                yield file.read_text(errors="replace")


def _docstrings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text


def train_tokenizer(texts: Sequence[str], vocab_size: int) -> Any:
    """A byte-level BPE (the kind of GPT-2) of at most `vocab_size` tokens, the end of a document among them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_DOCUMENT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def write_indexed(out: str, tokenizer: Any, texts: Sequence[str], vocab_size: int) -> int:
    """Write PREFIX.bin and PREFIX.idx with one document per text; returns the number of tokens."""
    import torch
    from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder

    builder = IndexedDatasetBuilder(f"{out}.bin.part", dtype=DType.optimal_dtype(vocab_size))
    end = tokenizer.token_to_id(END_OF_DOCUMENT)
    tokens = 0
    for encoded in tokenizer.encode_batch(texts):
        ids = [*encoded.ids, end]
        builder.add_document(torch.tensor(ids), [len(ids)])
        tokens += len(ids)
    builder.finalize(f"{out}.idx.part")
    for ending in (".bin", ".idx"):
        Path(f"{out}{ending}.part").replace(f"{out}{ending}")
    return tokens


if __name__ == "__main__":
    sys.exit(main())
