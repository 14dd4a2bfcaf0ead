"""What ``credit.agent_optimal_baseline`` asks for, from a team's actors and their critic of joint actions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from evolvent.core.errors import BadInput
from evolvent.formulas.baselines import gaussian_optimal_baseline
from evolvent.learn.team.value_norm import ValueNorm
from evolvent.models.team.actors import Actors, JointQ, Member


@torch.no_grad()
def choice_columns(
    actors: Actors,
    q: JointQ,
    norm: ValueNorm,
    seen: tuple[Tensor, Tensor, Tensor | None],
    action: Tensor,
    *,
    exact: bool,
) -> dict[str, np.ndarray]:
    """``q_TBAN``, ``policy_TBAN`` and, where ``exact``, ``norm_TBAN`` of a team that chooses.

    ``q`` speaks in the scale of ``norm``. Seen were the state ``[T, B, S]``, observations ``[T, B, A, D]`` and what was
    available ``[T, B, A, N]``; ``action`` ``[T, B, A]``. Exact lengths of scores are those with respect to all weights.
    """
    state, obs, available = seen
    policy = policy_of(actors, obs, available)
    out = {"q_TBAN": _numpy(norm.denormalise(q.of_choices(state, obs, action))), "policy_TBAN": _numpy(policy)}
    if exact:
        norms = torch.empty_like(policy)
        for i in range(actors.n_agents):
            member = actors.members[0 if actors.shared else i]
            assert isinstance(member, Member)
            shown = actors.seen_by(i, obs[:, :, i].flatten(0, 1))
            flat = score_norms(member.net, shown, policy[:, :, i].flatten(0, 1))
            norms[:, :, i] = flat.view(policy[:, :, i].shape)
        out["norm_TBAN"] = _numpy(norms)
    return out


@torch.no_grad()
def policy_of(actors: Actors, obs: Tensor, available: Tensor | None) -> Tensor:
    """Probabilities ``[..., A, N]`` of all choices, 0 for what is not available; obs ``[..., A, D]``."""
    flat = None if available is None else available.flatten(0, -3)
    logp = actors.outlook(obs.flatten(0, -3), available_BAN=flat).logp
    if logp is None:
        raise BadInput("a team without choices", expected="discrete actions", where="policy_of")
    return logp.exp().view(*obs.shape[:-1], -1)


@torch.no_grad()
def number_columns(
    actors: Actors, q: JointQ, norm: ValueNorm, seen: tuple[Tensor, Tensor], action: Tensor, *, samples: int, seed: int
) -> dict[str, np.ndarray]:
    """``baseline_TBA`` of a team whose actions are numbers, from ``samples`` actions drawn for each step of each agent.

    ``q`` speaks in the scale of ``norm``. Seen were the state ``[T, B, S]`` and observations ``[T, B, A, D]``;
    ``action`` is ``[T, B, A, dims]``.
    """
    state, obs = seen
    outlook = actors.outlook(obs.flatten(0, 1))
    if outlook.mean is None or outlook.sigma is None:
        raise BadInput("a team without numbers", expected="continuous actions", where="number_columns")
    sigma = outlook.sigma.expand(outlook.mean.shape)
    sigma = sigma if actors.action.dim_AD is None else sigma.masked_fill(~actors.action.dim_AD, 0.0)
    mean_MD, sigma_MD = (_numpy(x.flatten(0, 1)) for x in (outlook.mean, sigma))
    around = q.around(state, obs, action).flatten(0, 2)

    def q_of(rows: slice, own_MKD: np.ndarray) -> np.ndarray:
        own = torch.from_numpy(own_MKD).to(around.device, around.dtype)
        return _numpy(norm.denormalise(q.own(around[rows], own)))

    rng = np.random.default_rng(seed)
    baseline_M = gaussian_optimal_baseline(q_of, mean_MD, sigma_MD, rng, samples=samples)
    return {"baseline_TBA": baseline_M.reshape(obs.shape[:3])}


def score_norms(net: nn.Module, x: Tensor, policy: Tensor, *, chunk: int = 64) -> Tensor:
    """``|grad log pi(a)|²`` with respect to all weights of a network, for every choice, ``[M, N]``.

    With J the Jacobian of the logits, ``grad log pi(a) = J^T (e_a - pi)``, so only the small matrix ``G = J J^T`` is
    needed: ``G_aa - 2 (G pi)_a + pi^T G pi`` (Kuba et al. 2021, arXiv 2108.08612). It costs N backward passes a row.

    ``net`` takes rows ``[D]`` of ``x`` to logits ``[N]``; the policy is after masking, 0 for what was not available. A
    Jacobian of N x parameters is held for each of the ``chunk`` rows at once.
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


def _numpy(tensor: Tensor) -> np.ndarray:
    return tensor.cpu().numpy()
