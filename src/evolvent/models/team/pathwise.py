"""Actions that gradients flow through, as a critic of joint actions takes them.

A choice is its one-hot row and numbers are themselves: W = N or dims columns an agent, 0 where it has no such part. All
agents choose, or all give numbers. Draws of choices are straight through (Jang et al. 2017, arXiv 1611.01144): one-hot
forwards, the softmax of the same perturbed logits backwards. Numbers of a soft policy are Gaussian, squashed by tanh
(Haarnoja et al. 2018, arXiv 1801.01290).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from evolvent.models.team.action_heads import LOG_TAU, ActionHead, gumbel, normal

LOG_SIGMA = (-5.0, 2.0)
"""Least and largest log of a spread."""


def coded(head: ActionHead, action: Tensor) -> Tensor:
    """Actions ``[..., A]`` or ``[..., A, dims]`` as a critic takes them, float32 ``[..., A, W]``."""
    return functional.one_hot(action, head.choices).float() if head.choices else action


def joined(state: Tensor, action: Tensor) -> Tensor:
    """State ``[..., S]`` and coded actions ``[..., A, W]`` in a row, ``[..., S + A W]``."""
    return torch.cat([state, action.flatten(-2)], dim=-1)


def uniform(
    head: ActionHead, obs: Tensor, available: Tensor | None, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Actions of all agents at random, and their log-probabilities by part ``[B, A, P]``; obs says how many."""
    allowed, size = head.allowed(available), (*obs.shape[:-1], head.width)
    if head.choices:
        return head.sample(obs.new_zeros(size), None, allowed, greedy=False, generator=generator)
    action = torch.rand(size, generator=generator, device=obs.device) * 2.0 - 1.0
    return owned(action, allowed.dims), owned(torch.full_like(action, -math.log(2.0)), allowed.dims)


def owned(x: Tensor, own: Tensor | None) -> Tensor:
    """``x``, 0 where an agent has no such number; ``own`` is bool ``[A, dims]``, ``None`` = everybody has all."""
    return x if own is None else x.masked_fill(~own, 0.0)


def straight_through(logp: Tensor, generator: torch.Generator) -> Tensor:
    """Draws as one-hot rows, from log-probabilities ``[..., N]``; gradients are those of their relaxation."""
    soft = (logp + gumbel(logp.shape, logp, generator)).softmax(-1)
    hard = functional.one_hot(soft.argmax(-1), logp.shape[-1]).to(soft.dtype)
    return hard + soft - soft.detach()


def squashed(out: Tensor, own: Tensor | None, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """``tanh(u)``, u Gaussian of the means and log spreads ``out`` ``[..., 2 dims]``, and its log-density ``[...]``.

    Numbers that an agent does not have (``owned``) are 0 and count nothing.
    """
    mean, log_sigma = out.chunk(2, dim=-1)
    log_sigma = log_sigma.clamp(*LOG_SIGMA)
    eps = normal(mean.shape, mean, generator)
    u = mean + log_sigma.exp() * eps
    stretch = 2.0 * (math.log(2.0) - u - functional.softplus(-2.0 * u))  # log(1 - tanh² u)
    action, logp = u.tanh(), -0.5 * (eps.square() + LOG_TAU) - log_sigma - stretch
    return owned(action, own), owned(logp, own).sum(-1)
