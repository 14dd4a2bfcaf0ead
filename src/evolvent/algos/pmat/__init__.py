"""PMAT: MAT with a learned order of agents.

Paper: Hu et al. 2025, PMAT: Optimizing Action Generation Order in Multi-Agent Reinforcement Learning (AAMAS 2025,
arXiv 2502.16496).

    s_i = 1 + 9 sigmoid(f(rep_i)),   P(order) = prod_k s_{order_k} / sum_{j >= k} s_{order_j}      (Plackett-Luce)
    L_rank = - mean min(u A, clip(u, 1 +- eps) A),   u = P(order) / P_old(order),   A = mean over agents of A^i
    loss = L_pi + L_V - c H + c_rank L_rank                                       (the first three are MAT's)

Orders are drawn while learning; an evaluation plays in the likeliest one. The gradient of L_rank reaches the encoder.
Agents that look alike have equal scores: an order can be learned only where observations or numbers tell them apart.

Deviations from the released code, which computes log-probabilities in the order of agent indices although actions were
taken in the sampled order (ratios are not 1 before the first step, and the permutation game is not learned): the drawn
order holds for representations, masks and actions in acting and in learning. Hidden layers of the scorer have their own
weights. Those of MAT (``algos/mat.py``) apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from evolvent.core.folder import RunFolder
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.runs.team.actors import make_joint
from evolvent.runs.team.config import JointConfig
from evolvent.runs.team.frozen import evaluate_team

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evolvent.algos.pmat.plackett_luce import Orderly
    from evolvent.learn.team.batch import Batch, View
    from evolvent.learn.team.descent import Rows
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.value_norm import ValueNorm
    from evolvent.learn.team.views import Views
    from evolvent.models.team.joint import JointLogprobs

PAPER = "arXiv 2502.16496"
LEVELS = ("agent", "step")
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(JointConfig):
    """Settings of PMAT."""

    rank_weight: float = 1e-4
    """Coefficient of the loss of the agent order (c_rank)."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch

    from evolvent.learn.team.value_norm import ValueNorm
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        net = make_net(config, team.views)
        optimizer = torch.optim.Adam(net.parameters(), lr=config.lr, eps=1e-5, fused=True)
        norm = ValueNorm()
        team.keep(acting(net), policy=net, optimizer=optimizer, norm=norm)
        for _ in team.updates():
            view = team.view
            for _ in range(config.horizon):
                with team.clock("act"):  # ACT
                    acted, order, order_logp_B = net.act(view, greedy=False, generator=team.generator)
                view = team.step(  # STEP
                    acted.action, acted.logp_BAP, acted.value_BA, order=order, order_logp=order_logp_B
                )
            with team.clock("credit"):  # CREDIT
                batch = team.batch(lambda v: net.policy.value(v.obs, v.active), norm.denormalise)
                ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, config.gae_lambda))
            with team.clock("learn"):  # LEARN
                metrics = learn(config, net, optimizer, norm, batch, ledger, team.generator)
            team.log(ledger, **metrics)
        return team.finish("pmat")


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    net = make_net(config, views)
    return acting(net), {"policy": net}


evaluate = partial(evaluate_team, Config, _played)


def make_net(config: Config, views: Views) -> Orderly:
    """The networks for the team at hand."""
    from evolvent.algos.pmat.plackett_luce import Orderly

    return Orderly(make_joint(config, views)).to(views.device)


def acting(net: Orderly) -> Act:
    """How the team plays in an evaluation; greedy is the likeliest order, too."""

    def act(view: View, greedy: bool, generator: torch.Generator) -> Tensor:
        return net.act(view, greedy=greedy, generator=generator)[0].action

    return act


def learn(
    config: Config,
    net: Orderly,
    optimizer: torch.optim.Optimizer,
    norm: ValueNorm,
    batch: Batch,
    ledger: RolloutLedger,
    generator: torch.Generator,
) -> dict[str, float]:
    """Several passes over one rollout, every joint step in the order in which it was taken; means of the losses."""
    from evolvent.algos.pmat.plackett_luce import order_logp
    from evolvent.learn.losses import clipped_surrogate
    from evolvent.learn.team.ppo import improve_joint

    active = batch.view.flat().active
    order, old_logp_B = batch.extra["order"].flatten(0, 1), batch.extra["order_logp"].flatten(0, 1)

    def ranked(rows: Rows, now: JointLogprobs, adv_BA: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        logp_B = order_logp(net.ranker(now.rep_BAW), order[rows])
        adv_B = team_mean(adv_BA, None if active is None else active[rows])
        gain = clipped_surrogate(logp_B[:, None], old_logp_B[rows][:, None], adv_B, clip=config.clip).mean()
        return -config.rank_weight * gain, {"rank_loss": -gain}

    return improve_joint(config, net.policy, optimizer, norm, batch, ledger, generator, ranked)


def team_mean(adv_BA: Tensor, active_BA: Tensor | None) -> Tensor:
    """Mean advantage of the agents that are alive, ``[B]``; 0 where nobody is."""
    import torch

    if active_BA is None:
        return adv_BA.mean(1)
    return torch.where(active_BA, adv_BA, 0.0).sum(1) / active_BA.sum(1).clamp(min=1)
