"""IQL: the value of good actions in the data by expectile regression, and a policy that imitates these. Offline.

Paper: Kostrikov et al. 2021, Offline Reinforcement Learning with Implicit Q-Learning (arXiv 2110.06169). It is not the
independent Q-learning of teams, which has the same letters.

    L_V  = mean |tau - 1(u < 0)| u²,   u = min_i Q_i'(o, a) - V(o)          an upper expectile of Q over the data
    L_Q  = mean sum_i (r + gamma V(o') - Q_i(o, a))²                        V(o') = 0 after an end, not after a cut
    L_pi = - mean min(exp(beta u), 100) log pi(a | o)
    Q_i' <- (1 - tau_Q) Q_i' + tau_Q Q_i

No action is asked about that is not in the data. Defaults are those of the paper for robots: tau 0.7, beta 3, two
layers of 256, rates 3e-4, batch 256. Rewards are multiplied by 1,000 / (best - worst return of the data), as there.

Deviations: the policy's rate stays (there it falls as a cosine to 0 at the last step), its numbers are Gaussian on
[-1, 1] with a spread of at most 0.5 and no tanh; networks with layer norms (``models.team.actors``); observations in
units of their spread in the data (``--no-normalise``: as they came, as there).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.runs.offline.config import OfflineConfig
from evolvent.runs.team.actors import acting
from evolvent.runs.team.frozen import evaluate_team, policy_of
from evolvent.runs.team.one import check_one_agent

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evolvent.data.recorded.episodes import Recorded
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.replay import Transitions
    from evolvent.learn.team.views import Views
    from evolvent.models.team.actors import Actors, Critic
    from evolvent.models.team.critics import ActionCritics
    from evolvent.runs.offline.run import OfflineRun

PAPER = "arXiv 2110.06169"
LEVELS = ("step",)
STATUS = "tested"
MOST_WEIGHT = 100.0
RETURNS_APART = 1_000.0
"""Difference of the best and the worst return of the data, in scaled rewards."""


@dataclass(frozen=True)
class Config(OfflineConfig):
    """Settings of IQL."""

    gamma: float = 0.99
    """Discount factor per step."""
    expectile: float = 0.7
    """Expectile tau of the value: 0.5 = the mean over the data's actions, towards 1 = the best of them."""
    beta: float = 3.0
    """How much better actions are preferred: weights exp(beta times advantage)."""
    tau: float = 0.005
    """Share by which the critics' copies follow in a step."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of policy, value and critics, as their widths."""
    lr: float = 3e-4
    """Learning rate of all (Adam)."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.runs.offline.run import open_offline

    with open_offline(config, folder, live, resume=resume) as offline:
        loop(config, offline)
        return offline.finish("iql")


def loop(config: Config, offline: OfflineRun) -> None:
    """Draw transitions and learn from them, until the gradient steps are over."""
    from evolvent.learn.team.descent import means

    nets, scale = make_networks(config, offline.views), reward_scale(offline.data)
    adams = nets.adams(config.lr)
    parts: dict[str, Any] = {**nets._asdict(), **{f"{name}_adam": adam for name, adam in adams.items()}}
    offline.keep(acting(nets.actors), **parts)
    for _ in offline.updates():
        with offline.clock("learn"):  # LEARN
            drawn = (offline.replay.sample(config.batch, offline.generator) for _ in range(config.log_every))
            losses = [improve(config, nets, adams, one._replace(reward=scale * one.reward)) for one in drawn]
        offline.log(**means(losses))


class Networks(NamedTuple):
    """Policy, value, two critics and their slow copies."""

    actors: Actors
    value: Critic
    critics: ActionCritics
    old_critics: ActionCritics

    def adams(self, lr: float) -> dict[str, torch.optim.Adam]:
        """An optimizer for each that learns."""
        import torch

        named = {"actors": self.actors, "value": self.value, "critics": self.critics}
        return {name: torch.optim.Adam(net.parameters(), lr=lr, fused=True) for name, net in named.items()}


def improve(config: Config, nets: Networks, adams: dict[str, torch.optim.Adam], drawn: Transitions) -> dict[str, float]:
    """One gradient step of the value, the critics and the policy; what was seen."""
    import torch

    from evolvent.learn.team.targets import follow, td_target

    obs, action = drawn.view.obs, drawn.action
    with torch.no_grad():
        q = nets.old_critics(obs, action).amin(0)
        target = td_target(drawn.reward, drawn.discount, nets.value(drawn.after.obs))
    value = nets.value(obs)
    better = q - value
    logp = nets.actors.logprobs(obs, action, available_BAN=drawn.view.available).logp.sum(-1)
    weight = (config.beta * better.detach()).exp().clamp(max=MOST_WEIGHT)
    losses = {
        "value": expectile_loss(better, config.expectile),
        "critics": (target - nets.critics(obs, action)).square().mean(-1).mean(-1).sum(),
        "actors": -(weight * logp).mean(),
    }
    for name, loss in losses.items():
        adams[name].zero_grad()
        loss.backward()
        adams[name].step()
    follow(nets.old_critics, nets.critics, config.tau)
    seen = {f"{name}_loss": loss.item() for name, loss in losses.items()}
    return {**seen, "value": value.detach().mean().item(), "advantage": better.detach().mean().item()}


def expectile_loss(better: Tensor, tau: float) -> Tensor:
    """``mean |tau - 1(u < 0)| u²``: least where ``u`` is the target minus its ``tau``-expectile."""
    import torch

    return (torch.where(better < 0, 1.0 - tau, tau) * better.square()).mean()


def reward_scale(data: Recorded) -> float:
    """What brings the returns of the data ``RETURNS_APART`` apart; 1 where all are the same."""
    apart = float(data.returns_E.max() - data.returns_E.min())
    return RETURNS_APART / apart if apart > 0 else 1.0


def make_networks(config: Config, views: Views) -> Networks:
    """Policy, value and critics of one agent.

    Raises:
        BadInput: a team, or an agent that chooses and gives numbers at once.
    """
    from evolvent.models.team.actors import Actors, Critic
    from evolvent.models.team.critics import ActionCritics

    team = views.team
    check_one_agent(team, ("discrete", "continuous"), config.env, "use bc")
    critics = ActionCritics(team, config.hidden).to(views.device)
    value = Critic(team.obs_dim, hidden=config.hidden).to(views.device)
    old = copy.deepcopy(critics).requires_grad_(False)
    return Networks(Actors(team, team.obs_dim, hidden=config.hidden).to(views.device), value, critics, old)


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    actors = make_networks(config, views).actors
    return acting(actors), {"actors": actors}


evaluate, policy = partial(evaluate_team, Config, _played), partial(policy_of, Config, _played)
