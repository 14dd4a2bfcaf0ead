"""An order of agents that can be learned: Plackett–Luce over scores read from their representations (PMAT, AAMAS 2025).

Agents are drawn without replacement, ``P(order) = prod_k s_{order_k} / sum_{j >= k} s_{order_j}``. Sorting log-scores
plus Gumbel noise, largest first, is an exact draw (Yellott 1977), and the probability is one reversed cumulative
log-sum-exp; no loop over agents in either.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from evolvent.core.errors import BadInput
from evolvent.learn.team.batch import View
from evolvent.models.team.action_heads import gumbel
from evolvent.models.team.attention import ROOT2, linear
from evolvent.models.team.joint import Acted, JointPolicy


class Ranker(nn.Module):
    """Log-scores of agents: LN, then [Linear, GELU, LN] x layers, Linear, and ``log(1 + (odds - 1) sigmoid)``.

    Args:
        width: of the representations.
        layers: hidden layers, each with its own weights.
        hidden: their width.
        odds: the largest ratio of two scores. A bound of 10 gives the favourite of n agents the first place with
            probability 10 / (9 + n) at most.
    """

    def __init__(self, width: int, *, layers: int = 2, hidden: int = 64, odds: float = 10.0) -> None:
        super().__init__()
        if layers < 1 or odds <= 1.0:
            raise BadInput("a ranker of no use", got=(layers, odds), expected="layers >= 1, odds > 1", where="Ranker")
        parts: list[nn.Module] = [nn.LayerNorm(width)]
        for index in range(layers):
            parts += [linear(hidden if index else width, hidden, ROOT2), nn.GELU(), nn.LayerNorm(hidden)]
        self.net, self.odds = nn.Sequential(*parts, linear(hidden, 1, 0.01)), odds

    def forward(self, rep_BAW: Tensor) -> Tensor:
        """Log-scores ``[B, A]``, between 0 and log(odds)."""
        return torch.log1p((self.odds - 1.0) * torch.sigmoid(self.net(rep_BAW).squeeze(-1)))


def draw_order(
    score_BA: Tensor, *, greedy: bool = False, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """An order for every row of log-scores and its log-probability; ``greedy``: the likeliest, highest score first.

    Returns:
        ``(order_BA, logp_B)``: ``order_BA[b, m]`` is the agent that comes m-th.
    """
    noisy = score_BA if greedy else score_BA + gumbel(score_BA.shape, score_BA, generator)
    # stable: agents with equal scores keep their own order, on every machine
    order_BA = noisy.argsort(dim=1, descending=True, stable=True)
    return order_BA, order_logp(score_BA, order_BA)


def order_logp(score_BA: Tensor, order_BA: Tensor) -> Tensor:
    """Log-probability ``[B]`` of orders under log-scores, with gradients to the scores."""
    in_order = score_BA.gather(1, order_BA)
    left = torch.logcumsumexp(in_order.flip(1), 1).flip(1)  # of agents that are still to come at each place
    return (in_order - left).sum(1)


class Orderly(nn.Module):
    """A joint policy and the ranker that orders its agents."""

    def __init__(self, policy: JointPolicy) -> None:
        super().__init__()
        self.policy, self.ranker = policy, Ranker(policy.width)

    def act(self, view: View, *, greedy: bool, generator: torch.Generator) -> tuple[Acted, Tensor, Tensor]:
        """What is done, in which order ``[B, A]``, and the log-probability ``[B]`` of that order."""
        drawn: list[Tensor] = []

        def choose(rep_BAW: Tensor) -> Tensor:
            drawn.extend(draw_order(self.ranker(rep_BAW), greedy=greedy, generator=generator))
            return drawn[0]

        acted = self.policy.act(
            view.obs,
            available_BAN=view.available,
            active_BA=view.active,
            order_BA=choose,
            greedy=greedy,
            generator=generator,
        )
        # clones are ordinary tensors, which autograd takes later
        return acted, drawn[0].clone(), drawn[1].clone()

    def adopt(self, state: Mapping[str, Tensor]) -> None:
        """Take the weights of a team of any size; ``ModelError`` where they do not fit."""
        self.policy.adopt({k.removeprefix("policy."): x for k, x in state.items() if k.startswith("policy.")})
        self.ranker.load_state_dict({k.removeprefix("ranker."): x for k, x in state.items() if k.startswith("ranker.")})
