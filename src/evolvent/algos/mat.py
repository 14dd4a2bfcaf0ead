"""MAT: a team as a sequence: an encoder reads all observations, a decoder chooses the actions agent by agent.

Paper: Wen et al. 2022, Multi-Agent Reinforcement Learning is a Sequence Modeling Problem (arXiv 2205.14953).

    A(s, a^1..a^n) = sum_m A^m(s, a^1..a^{m-1}, a^m)          each agent answers to those before it
    L_pi  = - mean_agents sum_parts min(r A, clip(r, 1 +- eps) A),   r = pi(a^m | o^1..o^n, a^1..a^{m-1}) / pi_old
    L_V   = max(H(R - V), H(R - V_clipped)),  one value an agent;   loss = L_pi + L_V - c H

``actor="local"`` is MAT-Dec (actors see their own observation only, the encoder is the critic), ``"encoder"`` acts from
the encoder's output, all agents at once. The defaults are those of the released SMAC script.

Deviations: Huber loss on both sides; time limits are bootstrapped from the observation where the attempt stopped;
value targets are normalised once a rollout and the value head is rescaled with them (``learn.team.value_norm``); acting
caches keys and values and MAT-Dec acts in one pass (same probabilities); entropy is the mean over agents of the sum
over the parts of an action; dead agents may be masked out of attention (``mask_dead``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from evolvent.core.folder import RunFolder
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.runs.team.actors import make_joint
from evolvent.runs.team.config import JointConfig
from evolvent.runs.team.frozen import evaluate_team

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evolvent.learn.team.batch import View
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.views import Views
    from evolvent.models.team.joint import JointPolicy

PAPER = "arXiv 2205.14953"
LEVELS = ("agent", "step")
STATUS = "tested"


@dataclass(frozen=True)
class Config(JointConfig):
    """Settings of MAT."""

    actor: Literal["decoder", "local", "encoder"] = "decoder"
    """Policy: decoder = agent by agent (MAT), local = MAT-Dec, encoder = all agents at once from the encoder."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch

    from evolvent.learn.team.ppo import improve_joint
    from evolvent.learn.team.value_norm import ValueNorm
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        policy = make_joint(config, team.views, actor=config.actor)
        optimizer = torch.optim.Adam(policy.parameters(), lr=config.lr, eps=1e-5, fused=True)
        norm = ValueNorm()
        team.keep(acting(policy), policy=policy, optimizer=optimizer, norm=norm)
        for _ in team.updates():
            view = team.view
            for _ in range(config.horizon):
                with team.clock("act"):  # ACT
                    acted = policy.act(
                        view.obs, available_BAN=view.available, active_BA=view.active, generator=team.generator
                    )
                view = team.step(acted.action, acted.logp_BAP, acted.value_BA)  # STEP
            with team.clock("credit"):  # CREDIT
                batch = team.batch(lambda v: policy.value(v.obs, v.active), norm.denormalise)
                ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, config.gae_lambda))
            with team.clock("learn"):  # LEARN
                metrics = improve_joint(config, policy, optimizer, norm, batch, ledger, team.generator)
            team.log(ledger, **metrics)
        return team.finish("mat")


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    policy = make_joint(config, views, actor=config.actor)
    return acting(policy), {"policy": policy}


evaluate = partial(evaluate_team, Config, _played)


def acting(policy: JointPolicy) -> Act:
    """How the policy plays in an evaluation."""

    def act(view: View, greedy: bool, generator: torch.Generator) -> Tensor:
        return policy.act(
            view.obs, available_BAN=view.available, active_BA=view.active, greedy=greedy, generator=generator
        ).action

    return act
