"""GPT of the benchmark in plain PyTorch: for devices without megatron-core, and as a reference for its speed."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.llm_training.config import INIT_STD
from benchmarks.llm_training.sizes import ModelSize

ROTARY_BASE = 10_000

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]  # takes q, k, v, each of shape [B, H, T, K]


def fused_attention(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> Tensor:
    """Return causal attention by PyTorch's fastest kernel."""
    return functional.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, is_causal=True)


def written_out_attention(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> Tensor:
    """Return causal attention by matrix products, for compilers without a fused kernel."""
    length = q_BHTK.shape[-2]
    scores_BHTT = q_BHTK @ k_BHTK.transpose(-1, -2) / math.sqrt(q_BHTK.shape[-1])
    hidden_TT = torch.ones(length, length, dtype=torch.bool, device=q_BHTK.device).triu(1)
    return scores_BHTT.masked_fill(hidden_TT, -1e4).softmax(-1) @ v_BHTK  # -1e4: within float16


class Block(nn.Module):
    """One layer: attention and feed-forward, each on a norm of the residual stream."""

    def __init__(self, shape: ModelSize, sequence_length: int, attention: Attention) -> None:
        super().__init__()
        width, inner = shape.hidden_size, shape.ffn_hidden_size
        self.attention, self.num_heads, self.head_size = attention, shape.num_heads, width // shape.num_heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        frequency = ROTARY_BASE ** (-torch.arange(0, self.head_size, 2) / self.head_size)
        angle_TK = torch.outer(torch.arange(sequence_length), torch.cat([frequency, frequency]))
        self.cos_TK: Tensor
        self.sin_TK: Tensor
        self.register_buffer("cos_TK", angle_TK.cos(), persistent=False)
        self.register_buffer("sin_TK", angle_TK.sin(), persistent=False)

    def rotate(self, x_BHTK: Tensor) -> Tensor:
        """Apply rotary positions (Su et al. 2021, arXiv:2104.09864)."""
        first, second = x_BHTK.chunk(2, dim=-1)
        return x_BHTK * self.cos_TK + torch.cat([-second, first], dim=-1) * self.sin_TK

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Return the output of the layer."""
        batch, length, width = x_BTD.shape
        qkv = self.qkv(self.norm1(x_BTD)).view(batch, length, self.num_heads, 3 * self.head_size)
        q_BHTK, k_BHTK, v_BHTK = qkv.transpose(1, 2).chunk(3, dim=-1)
        out_BHTK = self.attention(self.rotate(q_BHTK), self.rotate(k_BHTK), v_BHTK)
        x_BTD = x_BTD + self.proj(out_BHTK.transpose(1, 2).reshape(batch, length, width))
        out_BTD: Tensor = x_BTD + self.down(functional.gelu(self.up(self.norm2(x_BTD))))
        return out_BTD


class PlainGpt(nn.Module):
    """GPT with a mean loss; embedding and output share their weights."""

    def __init__(self, shape: ModelSize, sequence_length: int, attention: Attention = fused_attention) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.padded_vocab_size, shape.hidden_size)
        nn.init.normal_(self.embedding.weight, std=INIT_STD)
        self.blocks = nn.Sequential(*(Block(shape, sequence_length, attention) for _ in range(shape.num_layers)))
        self.norm = nn.LayerNorm(shape.hidden_size)

    def forward(self, tokens_BT: Tensor, labels_BT: Tensor) -> Tensor:
        """Return the mean loss."""
        return self.loss(self.blocks(self.embedding(tokens_BT)), labels_BT)

    def loss(self, x_BTD: Tensor, labels_BT: Tensor) -> Tensor:
        """Return the cross-entropy loss for the last layer's output."""
        logits_BTV = functional.linear(self.norm(x_BTD), self.embedding.weight)
        return functional.cross_entropy(logits_BTV.flatten(0, 1).float(), labels_BT.flatten())
