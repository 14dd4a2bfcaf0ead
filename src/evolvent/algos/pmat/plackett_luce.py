"""An order of agents that can be learned: Plackett–Luce over scores read from their representations (PMAT, AAMAS 2025).

Agents are drawn without replacement, ``P(order) = prod_k s_{order_k} / sum_{j >= k} s_{order_j}``. Sorting log-scores
plus Gumbel noise, largest first, is an exact draw (Yellott 1977), and the probability is one reversed cumulative
log-sum-exp; no loop over agents in either.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evolvent.core.errors import BadInput
from evolvent.models.team.action_heads import gumbel
from evolvent.models.team.attention import ROOT2, linear


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
    """An order for every row and its log-probability.

    Args:
        score_BA: log-scores.
        greedy: the likeliest order, highest score first, instead of a draw.
        generator: source of the draw.

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
