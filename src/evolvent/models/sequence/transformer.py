"""A causal transformer over tokens that are embedded already: GPT-2's blocks, without positions of its own.

    x <- x + attention(LN x);   x <- x + MLP(LN x);   LN at the end

A token never depends on a later one: change one, and every output before it is equal to the last bit, with dropout,
too. So windows are padded at their end and need no mask. ``step`` goes on from keys and values that are kept, each row
of a batch at a place of its own: copies of an environment restart at different times.

Sources: Radford et al. 2019 (GPT-2); as Decision Transformer uses it, Chen et al. 2021 (arXiv 2106.01345). Weights
N(0, 0.02), biases 0.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional


class Kept:
    """Keys and values of the tokens so far, ``[layers, B, heads, K, D/heads]``, of which each row has ``length_B``."""

    def __init__(self, like: Tensor, layers: int, batch: int, heads: int, most: int) -> None:
        shape = (layers, batch, heads, most, like.shape[-1] // heads)
        self.key, self.value = like.new_zeros(shape), like.new_zeros(shape)
        self.length_B = torch.zeros(batch, dtype=torch.int64, device=like.device)

    def forget(self, rows: Tensor) -> None:
        """These rows (int64) start over."""
        self.length_B[rows] = 0


class Block(nn.Module):
    """Attention to what came before, then an MLP; normalised before each."""

    def __init__(self, width: int, heads: int, expansion: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, expansion * width), nn.Linear(expansion * width, width)

    def forward(self, x_BKW: Tensor) -> Tensor:
        """All tokens at once."""
        query, key, value = self.project(x_BKW)
        p = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=True)
        return self.after(x_BKW, mixed)

    def project(self, x_BKW: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, ``[B, heads, K, D/heads]`` each."""
        batch, tokens, _ = x_BKW.shape
        qkv = self.qkv(self.norm1(x_BKW)).view(batch, tokens, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        return query, key, value

    def after(self, x_BKW: Tensor, mixed_BHKD: Tensor) -> Tensor:
        """What follows the attention, residuals with it."""
        x = x_BKW + self._drop(self.out(mixed_BHKD.transpose(1, 2).flatten(2)))
        return x + self._drop(self.down(functional.gelu(self.up(self.norm2(x)))))

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)


class Transformer(nn.Module):
    """``[B, K, width]`` to the same, causal; see the module."""

    def __init__(self, width: int, *, layers: int, heads: int, expansion: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.blocks = nn.ModuleList(Block(width, heads, expansion, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.apply(small_weights)

    def forward(self, x_BKW: Tensor) -> Tensor:
        """All tokens at once, for learning."""
        for block in self.blocks:
            x_BKW = block(x_BKW)
        return self.norm(x_BKW)

    def start(self, batch: int, most: int) -> Kept:
        """Nothing kept yet, and room for ``most`` tokens in each of ``batch`` rows."""
        return Kept(self.norm.weight, len(self.blocks), batch, self.heads, most)

    @torch.no_grad()
    def step(self, x_MJW: Tensor, kept: Kept, rows: Tensor) -> Tensor:
        """J further tokens of M rows (int64, distinct), ``[M, J, width]`` to the same; what they are is kept.

        The same numbers as ``forward`` of all their tokens, up to rounding; without dropout or gradients.
        """
        place_MJ = kept.length_B[rows, None] + torch.arange(x_MJW.shape[1], device=x_MJW.device)
        longest = int(place_MJ.max()) + 1
        seen_MJK = torch.arange(longest, device=x_MJW.device) <= place_MJ.unsqueeze(-1)
        for layer, block in enumerate(cast("list[Block]", list(self.blocks))):
            query, key, value = block.project(x_MJW)
            # indices side by side go first: [M, J, heads, D/heads]
            kept.key[layer, rows[:, None], :, place_MJ] = key.transpose(1, 2)
            kept.value[layer, rows[:, None], :, place_MJ] = value.transpose(1, 2)
            keys, values = kept.key[layer, rows, :, :longest], kept.value[layer, rows, :, :longest]
            mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen_MJK.unsqueeze(1))
            x_MJW = block.after(x_MJW, mixed)
        kept.length_B[rows] += x_MJW.shape[1]
        return self.norm(x_MJW)


def small_weights(module: nn.Module) -> None:
    """GPT-2's start: weights N(0, 0.02), biases 0."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
