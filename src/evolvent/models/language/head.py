"""From hidden states to log-probabilities without ever holding more than a piece of the logits.

The vocabulary is the widest thing in a small model. ``log_softmax_at`` gives log-probabilities of chosen tokens and
entropies in pieces; what the backward pass of the log-probabilities needs is one vector for each position, so the
forward pass computes that instead of keeping logits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

PIECE = 1 << 23  # logits held at once


def log_softmax_at(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, position: Tensor, token: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of ``token[i]`` at ``hidden[position[i]]``, and the entropy of every position.

    Hidden states ``[M, D]``, ``weight`` ``[V, D]`` and ``bias`` ``[V]`` that make logits of them; ``position``
    (ascending) and ``token`` are int64 ``[N]``, the temperature is above 0. float32 ``[N]`` and ``[M]``, both
    differentiable in hidden, weight and bias.
    """
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
        hidden, weight, bias = hidden.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    with torch.autocast(hidden.device.type, enabled=False):
        return _LogSoftmaxAt.apply(hidden, weight, bias, position, token, temperature)  # type: ignore[return-value]


def logits_at(hidden: Tensor, weight: Tensor, bias: Tensor | None, position: Tensor, token: Tensor) -> Tensor:
    """Single logits, float32 ``[N]``: of ``token[i]`` at ``hidden[position[i]]``; see ``log_softmax_at``."""
    picked = (hidden[position].float() * weight[token].float()).sum(-1)
    return picked if bias is None else picked + bias[token].float()


def segment_log_softmax(logits: Tensor, segment: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities float32 ``[N]`` of logits within segments, and the entropies of these ``[n]``.

    ``segment`` int64 ``[N]`` in [0, n), no segment empty.
    """
    top = torch.full((n,), float("-inf"), device=logits.device).scatter_reduce(0, segment, logits.detach(), "amax")
    shifted = logits - top[segment]
    total = torch.zeros(n, device=logits.device).index_add(0, segment, shifted.exp())
    logp = shifted - total.log()[segment]
    entropy = torch.zeros(n, device=logits.device).index_add(0, segment, -logp.exp() * logp)
    return logp, entropy


class _LogSoftmaxAt(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        position: Tensor,
        token: Tensor,
        temperature: float,
    ) -> tuple[Tensor, Tensor]:
        logp = torch.empty(len(token), dtype=torch.float32, device=hidden.device)
        entropy = torch.empty(len(hidden), dtype=torch.float32, device=hidden.device)
        # without a gradient of the weights, d logp / d hidden is (weight[token] - mean of weight under p) / T
        mean = torch.empty_like(hidden) if ctx.needs_input_grad[0] and not any(ctx.needs_input_grad[1:3]) else None
        for low, high, first, last in _pieces(position, len(hidden), len(weight)):
            z = _tempered(hidden[low:high], weight, bias, temperature)
            normaliser = z.logsumexp(-1)
            logp[first:last] = z[position[first:last] - low, token[first:last]] - normaliser[position[first:last] - low]
            p = (z - normaliser[:, None]).exp_()
            entropy[low:high] = normaliser - torch.linalg.vecdot(p, z)
            if mean is not None:
                mean[low:high] = p.to(weight.dtype) @ weight
        ctx.save_for_backward(hidden, weight, bias, position, token, mean)
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)
        return logp, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden, weight, _, position, token, mean = ctx.saved_tensors
        grad_logp, grad_entropy = grads
        if mean is None or grad_entropy is not None:
            return _by_logits(ctx, grad_logp, grad_entropy)
        if grad_logp is None:
            return (None,) * 6
        total = torch.zeros(len(hidden), device=hidden.device).index_add(0, position, grad_logp)
        out = -total[:, None] * mean.float()
        out.index_add_(0, position, grad_logp[:, None] * weight[token].float())
        return (out / ctx.temperature).to(hidden.dtype), None, None, None, None, None


def _by_logits(ctx: Any, grad_logp: Tensor | None, grad_entropy: Tensor | None) -> tuple[Tensor | None, ...]:
    """The general case: logits once more, piece by piece."""
    hidden, weight, bias, position, token, _ = ctx.saved_tensors
    want_hidden, want_weight, want_bias = ctx.needs_input_grad[:3]
    d_hidden = torch.zeros_like(hidden) if want_hidden else None
    d_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device) if want_weight else None
    d_bias = torch.zeros(weight.shape[0], device=weight.device) if want_bias else None
    for low, high, first, last in _pieces(position, len(hidden), len(weight)):
        z = _tempered(hidden[low:high], weight, bias, ctx.temperature)
        log_p = z - z.logsumexp(-1, keepdim=True)
        p = log_p.exp()
        d_z = torch.zeros_like(p)
        if grad_entropy is not None:
            entropy = -torch.linalg.vecdot(p, log_p)
            d_z -= grad_entropy[low:high, None] * p * (log_p + entropy[:, None])
        if grad_logp is not None:
            local, g = position[first:last] - low, grad_logp[first:last]
            d_z -= torch.zeros(high - low, device=z.device).index_add(0, local, g)[:, None] * p
            d_z.index_put_((local, token[first:last]), g, accumulate=True)
        d_z /= ctx.temperature
        small = d_z.to(weight.dtype)
        if d_hidden is not None:
            d_hidden[low:high] = small @ weight
        if d_weight is not None:
            d_weight += (small.T @ hidden[low:high]).float()
        if d_bias is not None:
            d_bias += d_z.sum(0)
    d_weight = None if d_weight is None else d_weight.to(weight.dtype)
    return d_hidden, d_weight, None if d_bias is None or bias is None else d_bias.to(bias.dtype), None, None, None


def _tempered(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float) -> Tensor:
    z = F.linear(hidden, weight, bias).float()
    return z if temperature == 1.0 else z / temperature


def _pieces(position: Tensor, n_positions: int, n_vocab: int) -> Iterator[tuple[int, int, int, int]]:
    """Positions ``low`` to ``high`` and the pairs ``first`` to ``last`` that are theirs."""
    size = max(1, PIECE // n_vocab)
    lows = list(range(0, n_positions, size))
    bounds = torch.searchsorted(position, torch.tensor([*lows, n_positions], device=position.device)).tolist()
    for i, low in enumerate(lows):
        yield low, min(low + size, n_positions), bounds[i], bounds[i + 1]
