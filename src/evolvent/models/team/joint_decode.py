"""Acting agent by agent with caches: row by row what ``JointPolicy`` computes in one training pass, exactly.

Row m of the decoder depends on earlier actions only through the rows before it, and with folded projections
(``attention``) those rows themselves are the keys and values. So each agent costs one row: look its token up (tokens of
choices are a table that is embedded once), attend over the cached rows, write the new row to the next cache, and draw.
Queries of the second attention are known beforehand. Draws are an arg-max of logits plus Gumbel noise. Caches are
``[A, B, d]``, so that a row of all environments is contiguous.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from evolvent.models.team.action_heads import BLOCKED, Allowed, gumbel, normal
from evolvent.models.team.attention import DecoderBlock, Folded

Norm = tuple[Tensor, Tensor]


class Layer(NamedTuple):
    """Weights of a decoder block, matrices transposed for ``addmm``."""

    first: Folded
    second: Folded
    up: tuple[Tensor, Tensor]
    down: tuple[Tensor, Tensor]
    norm1: Norm
    norm2: Norm
    norm3: Norm


class Decoder(NamedTuple):
    """Weights of a decoder as acting wants them: its blocks, its head (up, norm, out), and what makes tokens.

    The table has N choices, start, no choice: before or, where there are no numbers, after GELU and LN. ``numbers`` are
    the token columns of the numbers, ``token_norm`` the LN of tokens where there are some, ``sigma`` their deviation.
    """

    layers: list[Layer]
    up: tuple[Tensor, Tensor]
    norm: Norm
    out: tuple[Tensor, Tensor]
    table: Tensor
    numbers: Tensor | None
    token_norm: Norm
    sigma: Tensor | None
    choices: int
    heads: int


def prepare(
    blocks: Iterable[nn.Module],
    tokens: tuple[Tensor, Tensor | None],
    token_norm: nn.Module,
    head: Iterable[nn.Module],
    sigma: Tensor | None,
    *,
    choices: int,
    heads: int,
) -> Decoder:
    """Fold and transpose the weights of a policy; ``tokens`` are the token table and the columns of the numbers."""
    table, numbers = tokens
    if numbers is None:
        table = token_norm(nn.functional.gelu(table))
    layers: list[Layer] = []
    for block in blocks:
        assert isinstance(block, DecoderBlock)
        first, second, up, down = block.attention1.fold(), block.attention2.fold(), block.mlp.up, block.mlp.down
        norms = (_norm(x) for x in (block.norm1, block.norm2, block.norm3))
        layers.append(Layer(first, second, _pair(up), _pair(down), *norms))
    up, _, norm, out = head
    return Decoder(layers, _pair(up), _norm(norm), _pair(out), table, numbers, _norm(token_norm), sigma, choices, heads)


def decode(
    net: Decoder,
    rep_ABW: Tensor,
    allowed: Allowed,
    dead_AB: Tensor | None,
    *,
    greedy: bool,
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Decode in the order of the first axis; everything here is ``[A, B, …]``.

    Representations are contiguous, ``allowed`` is ``[A, B or 1, …]``, nobody attends to ``dead_AB``. Returns the head's
    output ``[A, B, N + dims]`` (unavailable logits at -1e10), choices ``[A, B]`` and numbers ``[A, B, dims]``.
    """
    agents, batch, width = rep_ABW.shape
    n, dims = net.choices, net.out[1].numel() - net.choices
    out = rep_ABW.new_empty(agents, batch, n + dims)
    choice = torch.empty(agents, batch, dtype=torch.long, device=rep_ABW.device) if n else None
    vector = rep_ABW.new_empty(agents, batch, dims) if dims else None
    bias = _out_bias(net, allowed, agents)
    noise = None if greedy or not n else gumbel((agents, batch, n), rep_ABW, generator)
    wobble = None if greedy or net.sigma is None else net.sigma * normal((agents, batch, dims), rep_ABW, generator)
    caches = [Cache(layer, rep_ABW, net.heads) for layer in net.layers]
    hide = _hidden_rows(dead_AB, rep_ABW)
    x = net.table[n].expand(batch, width)
    if net.numbers is not None:
        x = torch.layer_norm(nn.functional.gelu(x), (width,), *net.token_norm)
    for m in range(agents):
        for index, cache in enumerate(caches):
            x = cache.step(m, x, None if hide is None else hide[min(index, 1)][:, :, : m + 1])
        inner = nn.functional.gelu(torch.addmm(net.up[1], x, net.up[0]))
        row = torch.addmm(bias[m], torch.layer_norm(inner, (width,), *net.norm), net.out[0])
        out[m] = row
        token = None
        if choice is not None:
            logits = row[:, :n] if dims else row
            token = (logits if noise is None else logits + noise[m]).argmax(1)
            if allowed.chooses is None:
                choice[m] = token
            else:
                choice[m] = token.masked_fill(~allowed.chooses[m], 0)
                token = token.masked_fill(~allowed.chooses[m], n + 1)
        if vector is not None:
            number = row[:, n:] if wobble is None else row[:, n:] + wobble[m]
            vector[m] = number if allowed.dims is None else number.masked_fill(~allowed.dims[m], 0.0)
        if m + 1 < agents:
            x = _token(net, token, None if vector is None else vector[m], (width,))
    return out, choice, vector


class Cache:
    """Rows of one block so far, in ``[A, B, d]``, and what does not depend on actions, worked out for all agents."""

    def __init__(self, layer: Layer, rep_ABW: Tensor, heads: int) -> None:
        agents, batch, width = rep_ABW.shape
        self.layer, self.shape, self.mixed = layer, (batch, heads, width), (batch, heads * width)
        self.rows1, self.rows2 = torch.empty_like(rep_ABW), torch.empty_like(rep_ABW)
        asks = torch.addmm(layer.second.shift, rep_ABW.view(-1, width), layer.second.query)
        self.asks = asks.view(agents, *self.shape).unbind(0)
        self.rests = (rep_ABW + layer.second.bias).unbind(0)

    def step(self, m: int, x: Tensor, hide: Tensor | None) -> Tensor:
        """Row m of the next block ``[B, d]``, given this block's row m."""
        (query, shift, out, bias), second, up, down, norm1, norm2, norm3 = self.layer
        width = x.shape[-1:]
        self.rows1[m] = x
        ask = torch.addmm(shift, x, query).view(self.shape)
        mixed = _mix(ask, self.rows1[: m + 1], hide).view(self.mixed)
        row = torch.layer_norm(torch.addmm(bias, mixed, out).add_(x), width, *norm1)
        self.rows2[m] = row
        mixed = _mix(self.asks[m], self.rows2[: m + 1], hide).view(self.mixed)
        row = torch.layer_norm(torch.addmm(self.rests[m], mixed, second.out), width, *norm2)
        inner = nn.functional.gelu(torch.addmm(up[1], row, up[0]))
        return torch.layer_norm(torch.addmm(down[1], inner, down[0]).add_(row), width, *norm3)


def _token(net: Decoder, token: Tensor | None, vector: Tensor | None, shape: tuple[int]) -> Tensor:
    if vector is None or net.numbers is None:
        assert token is not None
        return net.table.index_select(0, token)
    known = net.table[net.choices + 1] if token is None else net.table.index_select(0, token)
    return torch.layer_norm(nn.functional.gelu(torch.addmm(known, vector, net.numbers)), shape, *net.token_norm)


def _mix(ask_BHW: Tensor, rows_KBW: Tensor, hide: Tensor | None) -> Tensor:
    keys = rows_KBW.permute(1, 2, 0)
    score = torch.bmm(ask_BHW, keys) if hide is None else torch.baddbmm(hide, ask_BHW, keys)
    return torch.bmm(torch.softmax(score, -1), rows_KBW.transpose(0, 1))


def _out_bias(net: Decoder, allowed: Allowed, agents: int) -> Tensor | list[Tensor]:
    bias = net.out[1]
    if allowed.choices is None:
        return [bias] * agents
    pad = torch.nn.functional.pad(allowed.choices, (0, bias.numel() - net.choices), value=True)
    return bias.masked_fill(~pad, BLOCKED)


def _hidden_rows(dead_AB: Tensor | None, like: Tensor) -> tuple[Tensor, Tensor] | None:
    """Scores to add ``[B, 1, A]``: a row holds the action before it in the first block, its own agent later."""
    if dead_AB is None:
        return None
    now = (dead_AB.to(like.dtype) * BLOCKED).t()[:, None]
    before = torch.cat([torch.zeros_like(now[:, :, :1]), now[:, :, :-1]], 2)
    return before, now


def _pair(layer: nn.Module) -> tuple[Tensor, Tensor]:
    assert isinstance(layer, nn.Linear)
    return layer.weight.t().contiguous(), layer.bias


def _norm(layer: nn.Module) -> Norm:
    assert isinstance(layer, nn.LayerNorm)
    return layer.weight, layer.bias
