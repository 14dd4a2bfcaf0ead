"""ETPO's losses: a policy and a soft Q function over the vocabulary (Wen et al. 2024, arXiv 2402.06700).

    softV(s) = sum_w pi(w|s) Q(s, w) - beta KL(pi(.|s), rho(.|s))
    actor     KL(pi, rho exp(Q / beta) / Z) beta  =  sum_w pi(w) [beta log pi(w) - beta log rho(w) - Q(w)] + beta log Z
    critic    Huber(Q(s, w_taken) - y)

rho is the frozen language model. The fixed point is ``pi = rho exp(Q / beta) / Z``. The targets y are credit; the
released code averages the actor's bracket over the vocabulary without pi and without rho, this is the equation.
Positions ``[U]``, vocabulary V.
"""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent.learn.losses import huber


def soft_q_actor(logp_UV: Tensor, ref_logp_UV: Tensor, q_UV: Tensor, beta: float) -> Tensor:
    """The actor's loss at each position, ``[U]``, up to the constant ``log Z``: ``-softV / beta`` with Q detached.

    Its gradient is that of ``sum_w p_w (x_w - mean x)`` with ``x = log pi - log rho - Q / beta`` held: what vanishes on
    paper, ``sum_w p_w grad log p_w``, is left out, since in bfloat16 it does not vanish and AdamW would follow it.
    """
    p = logp_UV.exp()
    x = (logp_UV - ref_logp_UV - q_UV / beta).detach()
    x = torch.where(p > 0, x, torch.zeros_like(x))  # 0 * (-inf) of a token that is not allowed must count 0
    mean = (p.detach() * x).sum(-1, keepdim=True)
    pull = (p * (x - mean)).sum(-1)
    return mean.squeeze(-1) + pull - pull.detach()


def soft_q_critic(q_UV: Tensor, token_U: Tensor, target_U: Tensor, *, delta: float = 10.0) -> Tensor:
    """Huber loss of the taken token's entry against its target, ``[U]``; ``token_U`` int64."""
    return huber(q_UV.gather(-1, token_U[:, None]).squeeze(-1) - target_U.detach(), delta)


@torch.no_grad()
def polyak(target: torch.nn.Module, source: torch.nn.Module, tau: float = 0.005) -> None:
    """``target <- (1 - tau) target + tau source``, parameter by parameter."""
    for slow, fast in zip(target.parameters(), source.parameters(), strict=True):
        slow.lerp_(fast, tau)
