"""Layers over agents: attention with its projections folded together, encoder and decoder blocks, heads.

With q = Wq x + bq, k = Wk y + bk and v = Wv y + bv, a head's score is ``q.k = x' (Wq' Wk) y + (bq' Wk) y + c(x)``, and
c(x) cancels in the softmax; its output is ``Wo v = (Wo Wv) sum_j p_j y_j + Wo bv``. So the rows y themselves are keys
and values of every head: two products of d x d a head and token are left instead of four, and a cache of rows instead
of two of keys and values. This is exact; the bias of k has no effect and is left out. Above two heads folding costs
more than it saves; the published networks have one.

Blocks and initialisation are those of the Multi-Agent Transformer (Wen et al. 2022): normalised after each residual,
MLPs keep the width, orthogonal weights with gain sqrt 2 before a GELU and 0.01 elsewhere.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

ROOT2 = math.sqrt(2.0)


class Folded(NamedTuple):
    """Folded weights of H heads: ``query [D, H D]``, ``shift [H D]``; ``out [H D, D]``, ``bias [D]``."""

    query: Tensor
    shift: Tensor
    out: Tensor
    bias: Tensor


class Attention(nn.Module):
    """Multi-head attention whose parameters are the usual four projections (orthogonal, gain 0.01)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k = linear(width, width, 0.01), linear(width, width, 0.01, bias=False)
        self.v, self.o = linear(width, width, 0.01), linear(width, width, 0.01)

    def fold(self) -> Folded:
        """The folded weights, differentiable in the parameters; the scale 1/sqrt(D/H) is in the query."""
        heads, width = self.heads, self.q.in_features
        q_HCD, k_HCD, v_HCD = (x.weight.view(heads, -1, width) for x in (self.q, self.k, self.v))
        o_HCD = self.o.weight.t().reshape(heads, -1, width)
        k_HCD = k_HCD * (width // heads) ** -0.5
        query = torch.bmm(q_HCD.transpose(1, 2), k_HCD).transpose(0, 1).reshape(width, heads * width)
        shift = torch.bmm(self.q.bias.view(heads, 1, -1), k_HCD).flatten()
        out = torch.bmm(v_HCD.transpose(1, 2), o_HCD).view(heads * width, width)
        return Folded(query, shift, out, torch.addmv(self.o.bias, self.o.weight, self.v.bias))


def attend(folded: Folded, asks_BAD: Tensor, rows_BAD: Tensor, bias: Tensor | None) -> Tensor:
    """What ``asks_BAD`` gather from ``rows_BAD`` (keys and values), projected: ``[B, A, D]`` without residual.

    ``bias`` is added to the scores, ``[1 or B, A H, A]``, row = agent x H + head; -inf hides.
    """
    batch, agents, width = rows_BAD.shape
    ask = torch.addmm(folded.shift, asks_BAD.reshape(-1, width), folded.query).view(batch, -1, width)
    keys = rows_BAD.transpose(1, 2)
    score = torch.bmm(ask, keys) if bias is None else torch.baddbmm(bias, ask, keys)
    mixed = torch.bmm(torch.softmax(score, -1), rows_BAD)
    return torch.addmm(folded.bias, mixed.view(batch * agents, -1), folded.out).view_as(asks_BAD)


def attend_words(folded: Folded, words_BA: Tensor, table_VD: Tensor, shown_BA: Tensor | None) -> Tensor:
    """Causal self-attention with its residual, ``[B, A, D]``, where each row is one of V words; exact.

    Without positions a score depends on two words only, and the attention of row m on how often each word has come:
    ``softmax(score[word_m] + log count_m)`` over the V words. So scores and values are worked out once for each word,
    not once for each agent of each team.

    ``words_BA`` int64, rows of the table; ``shown_BA`` bool, words that may be attended to (the first one always may).
    """
    (batch, agents), (words, width) = words_BA.shape, table_VD.shape
    ask = torch.addmm(folded.shift, table_VD, folded.query).view(-1, width)  # V H rows
    score = torch.mm(ask, table_VD.t()).view(words, -1)
    value = torch.matmul(table_VD, folded.out.view(-1, width, width)).view(-1, width)  # H V rows
    seen = table_VD.new_zeros(batch, agents, words).scatter_(2, words_BA.unsqueeze(2), 1.0)
    seen = seen if shown_BA is None else seen * shown_BA.unsqueeze(2)
    known = functional.embedding(words_BA, torch.cat([score, table_VD + folded.bias], 1))
    score, residual = known.split([score.shape[1], width], 2)
    score = score.view(batch, agents, -1, words) + seen.cumsum_(1).log_().unsqueeze(2)
    share = torch.softmax(score, -1).view(batch * agents, -1)
    return torch.addmm(residual.reshape(-1, width), share, value).view(batch, agents, width)


class Mlp(nn.Module):
    """Linear, GELU, Linear, of one width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = linear(width, width, ROOT2), linear(width, width, 0.01)

    def forward(self, x: Tensor) -> Tensor:
        """``[..., D]`` to ``[..., D]``."""
        return self.down(functional.gelu(self.up(x)))


class Head(nn.Sequential):
    """Linear, GELU, LN, Linear: ``[..., width]`` to ``[..., outputs]``."""

    def __init__(self, width: int, outputs: int) -> None:
        up, out = linear(width, width, ROOT2), linear(width, outputs, 0.01)
        super().__init__(up, nn.GELU(), nn.LayerNorm(width), out)

    @property
    def last(self) -> nn.Linear:
        """The last layer."""
        layer = self[-1]
        assert isinstance(layer, nn.Linear)
        return layer


class Look(nn.Module):
    """LN, Linear, GELU, LN of what an agent sees.

    Observations are standardised once for all layers that look at them.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.norm1, self.linear, self.norm2 = nn.LayerNorm(inputs), linear(inputs, width, ROOT2), nn.LayerNorm(width)

    def forward(self, standard: Tensor) -> Tensor:
        """Observations already standardised ``[..., inputs]`` to ``[..., width]``."""
        return self.norm2(functional.gelu(functional.linear(standard, *fold_norm(self.norm1, self.linear))))


class EncoderBlock(nn.Module):
    """Attention over all agents, then an MLP; normalised after each."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.norm1 = Attention(width, heads), nn.LayerNorm(width)
        self.mlp, self.norm2 = Mlp(width), nn.LayerNorm(width)

    def forward(self, x_BAD: Tensor, bias: Tensor | None) -> Tensor:
        """The next rows; ``bias`` as in ``attend``."""
        x = self.norm1(x_BAD + attend(self.attention.fold(), x_BAD, x_BAD, bias))
        return self.norm2(x + self.mlp(x))


class DecoderBlock(nn.Module):
    """Attention over the action rows, attention of the representations over the result, then an MLP."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention1, self.norm1 = Attention(width, heads), nn.LayerNorm(width)
        self.attention2, self.norm2 = Attention(width, heads), nn.LayerNorm(width)
        self.mlp, self.norm3 = Mlp(width), nn.LayerNorm(width)

    def forward(self, x_BAD: Tensor, rep_BAD: Tensor, bias: Tensor) -> Tensor:
        """The next rows, teacher forced; ``bias`` hides what comes later."""
        return self.second(self.norm1(x_BAD + attend(self.attention1.fold(), x_BAD, x_BAD, bias)), rep_BAD, bias)

    def second(self, x_BAD: Tensor, rep_BAD: Tensor, bias: Tensor) -> Tensor:
        """What follows the attention over action rows."""
        x = self.norm2(rep_BAD + attend(self.attention2.fold(), rep_BAD, x_BAD, bias))
        return self.norm3(x + self.mlp(x))


def linear(inputs: int, outputs: int, gain: float, *, bias: bool = True) -> nn.Linear:
    """A linear layer with orthogonal weights of this gain and zero bias."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.orthogonal_(layer.weight, gain)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def fold_norm(norm: nn.LayerNorm, layer: nn.Linear) -> tuple[Tensor, Tensor]:
    """Weight and bias that do to standardised rows what ``layer(norm(x))`` does to x.

    Where x are observations, nothing then needs a gradient as wide as they are.
    """
    return layer.weight * norm.weight, torch.addmv(layer.bias, layer.weight, norm.bias)
