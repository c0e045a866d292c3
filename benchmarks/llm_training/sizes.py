"""Model sizes as data; workload.yaml has their parameters and FLOPs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

VOCAB_MULTIPLE = 128  # to pad vocabularies to, for matrix sizes that suit the hardware and divide by 2...128
LORA_RANK = 16  # of adapters, as in MLPerf Training's LoRA since round 4.0


@dataclass(frozen=True)
class ModelSize:
    """Architecture of a decoder, with its default layout.

    By default the layers are GPT-2's: LayerNorm, GELU, biases, as many heads of keys and values as of queries, and an
    output that shares its weights with the embedding. `gated` layers are Llama's: RMSNorm, SwiGLU, no biases, and
    weights of their own for the output. Both have rotary positions.
    """

    num_layers: int
    hidden_size: int
    num_heads: int
    ffn_hidden_size: int  # of each expert, where there are experts
    sequence_length: int
    vocab_size: int  # before padding
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    micro_batch_size: int = 1
    gated: bool = False
    kv_heads: int = 0  # 0: num_heads
    head_size: int = 0  # 0: hidden_size / num_heads
    rotary_base: int = 10_000
    experts: int = 0  # in each layer; 0: one feed-forward network for all tokens
    top_k: int = 0  # experts for each token
    shared_ffn_size: int = 0  # width of the network that every token takes next to its experts
    expert_parallel_size: int = 1
    adapted: tuple[str, ...] = ()  # linear layers with an adapter of LoRA, which alone is trained

    @property
    def padded_vocab_size(self) -> int:
        """Size of the vocabulary, padded to VOCAB_MULTIPLE."""
        return -(-self.vocab_size // VOCAB_MULTIPLE) * VOCAB_MULTIPLE

    @property
    def head_width(self) -> int:
        """Numbers of a head."""
        return self.head_size or self.hidden_size // self.num_heads

    @property
    def groups(self) -> int:
        """Number of heads of keys and values."""
        return self.kv_heads or self.num_heads

    @property
    def embeddings(self) -> int:
        """Matrices of the vocabulary: 1 where embedding and output share their weights, else 2."""
        return 2 if self.gated else 1

    @property
    def adapter_parameters(self) -> int:
        """Parameters of all adapters: of each LORA_RANK for an input and an output of its layer."""
        width, keys = self.num_heads * self.head_width, self.groups * self.head_width
        inputs_and_outputs = {
            "linear_qkv": self.hidden_size + width + 2 * keys,
            "linear_proj": width + self.hidden_size,
            "linear_fc1": self.hidden_size + 2 * self.ffn_hidden_size,  # of a gated network
            "linear_fc2": self.ffn_hidden_size + self.hidden_size,
        }
        return LORA_RANK * self.num_layers * sum(inputs_and_outputs[name] for name in self.adapted)


GPT2_VOCAB_SIZE, LLAMA3_VOCAB_SIZE = 50_257, 128_256

SIZES = {
    # Sizes of the original suite: arXiv:2409.12994.
    "tiny": ModelSize(4, 256, 8, 1024, 256, 8_192, 1, 1, 4),
    "117M": ModelSize(12, 768, 12, 3072, 1024, GPT2_VOCAB_SIZE, 1, 1, 4),
    "800M": ModelSize(16, 2048, 8, 8192, 2048, GPT2_VOCAB_SIZE, 1, 1, 4),
    "13B": ModelSize(40, 5120, 32, 20480, 2048, GPT2_VOCAB_SIZE, 2, 2, 2),
    "175B": ModelSize(96, 12288, 96, 49152, 2048, GPT2_VOCAB_SIZE, 8, 8, 2),
    # The shapes of the next two, small enough for a laptop.
    "tiny-llama": ModelSize(4, 256, 8, 704, 256, 8_192, 1, 1, 4, gated=True, kv_heads=2, rotary_base=500_000),
    "tiny-moe": ModelSize(
        4, 256, 8, 256, 256, 8_192, 1, 1, 4, gated=True, kv_heads=2, experts=8, top_k=2, shared_ffn_size=256
    ),
    # Grattafiori et al. 2024, arXiv:2407.21783, table 3.
    "llama3-8B": ModelSize(
        32, 4096, 32, 14336, 8192, LLAMA3_VOCAB_SIZE, 2, 1, 1, gated=True, kv_heads=8, rotary_base=500_000
    ),
    "llama3-70B": ModelSize(
        80, 8192, 64, 28672, 8192, LLAMA3_VOCAB_SIZE, 8, 4, 1, gated=True, kv_heads=8, rotary_base=500_000
    ),
    # Shape of GPT-OSS-20B (OpenAI 2025, arXiv:2508.10925, table 1 and section 2) without its biases, attention sinks
    # and windows of attention.
    "moe": ModelSize(
        24, 2880, 64, 2880, 4096, 201_088, 1, 1, 1, gated=True, kv_heads=8, head_size=64, rotary_base=150_000,
        experts=32, top_k=4, expert_parallel_size=8,
    ),
}  # fmt: skip

ATTENTION, MLP = ("linear_qkv", "linear_proj"), ("linear_fc1", "linear_fc2")
# Frozen weights have no optimizer state, so that 8 devices hold them.
ONE_NODE: dict[str, dict[str, Any]] = {"llama3-70B": {"tensor_parallel_size": 4, "pipeline_parallel_size": 2}}
SIZES |= {
    f"{size}-{kind}": replace(SIZES[size], adapted=adapted, **ONE_NODE.get(size, {}))
    for size in ("tiny-llama", "llama3-8B", "llama3-70B")
    for kind, adapted in (("LoRA", ATTENTION), ("LoRA-MLP", ATTENTION + MLP))
}
