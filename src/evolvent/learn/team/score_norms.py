"""Squared length of ``grad log pi(a)`` with respect to all weights of a network, for every choice of every row.

With J the Jacobian of the logits, ``grad log pi(a) = J^T (e_a - pi)``, so only the small matrix ``J J^T`` is needed:
``|grad log pi(a)|² = G_aa - 2 (G pi)_a + pi^T G pi``. This is what the exact optimal baseline weighs by (Kuba et al.
2021, arXiv 2108.08612); it costs N backward passes a row.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap


def score_norms(net: nn.Module, x: Tensor, policy: Tensor, *, chunk: int = 64) -> Tensor:
    """``|grad log pi(a)|²`` for every choice, ``[M, N]``.

    Args:
        net: rows ``[D]`` to logits ``[N]``; every parameter counts.
        x: what it saw, ``[M, D]``.
        policy: probabilities ``[M, N]`` after masking, 0 for what was not available.
        chunk: rows at once; a Jacobian of N x parameters is held for each.
    """
    params = {name: param.detach() for name, param in net.named_parameters()}
    n = policy.shape[-1]

    def logits(given: dict[str, Tensor], row: Tensor) -> Tensor:
        return functional_call(net, given, (row,))[..., :n]

    jacobian = vmap(jacrev(logits), in_dims=(None, 0))
    out: list[Tensor] = []
    for rows, pi in zip(x.split(chunk), policy.split(chunk), strict=True):
        gram = torch.zeros(len(rows), n, n, dtype=x.dtype, device=x.device)
        for slope in jacobian(params, rows).values():
            flat = slope.flatten(2)
            gram += flat @ flat.transpose(1, 2)
        at_pi = (gram @ pi.unsqueeze(-1)).squeeze(-1)
        out.append(gram.diagonal(dim1=1, dim2=2) - 2.0 * at_pi + (at_pi * pi).sum(-1, keepdim=True))
    return torch.cat(out).clamp(min=0.0)
