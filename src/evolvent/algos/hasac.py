"""HASAC: soft actor-critic for teams: agents improve one after another against twin critics of joint actions.

Paper: Liu et al. 2024, Maximum Entropy Heterogeneous-Agent Reinforcement Learning (arXiv 2306.10715).

    y       = R + gamma^m [ min_k Q_k'(s', a') - sum_i alpha_i log pi^i(a'^i | o'^i) ],   a' ~ pi
    L_Q     = mean sum_k (y - Q_k(s, a))²
    L_pi^i  = mean[ alpha_i log pi^i - min_k Q_k(s, a^1, ..., a^i, ..., a^A) ]      agent after agent, in random order

All actions in L_pi are fresh draws; those of agents that have learned in this step are of their new policies. R sums
``n_step`` rewards of the team (``learn.team.replay``); copies follow by tau. Numbers are squashed Gaussians whose
spread depends on what is seen; choices are one-hot, straight through (``models.team.pathwise``). ``alpha`` is fixed, as
in HARL's file, or with 0 each agent learns its own, towards an entropy of minus its numbers, or .98 log of its choices
(in the released code that target is 0 for choices). In the warm-up all actions are random.

Deviations from HARL: hidden 128 128 (there 256 256), critics 1e-3 (5e-4), ``n_step`` 5 (20; 5 to 20 in tuned files); a
gradient step for 10 steps, batch 256, a buffer of 100,000 (for 1,000 of 2e7 steps, batch 1,000, 1e6); squared errors,
values are not normalised; the entropy of a choice is exact in L_pi; networks are given the size of the numbers they
see (``models.team.sizes``). The credit that is logged and stored is the TD error of the lesser critic by the values
when acting. Environments restart at each checkpoint, and the buffer is a part of it: a run that was killed goes on with
the same numbers.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from evolvent.core.folder import RunFolder
from evolvent.core.team import ActionSpec
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.runs.team.checks import check_kind
from evolvent.runs.team.config import JointReplayConfig
from evolvent.runs.team.frozen import evaluate_team

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from evolvent.learn.team.batch import View
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.replay import Transitions
    from evolvent.learn.team.views import Views
    from evolvent.models.team.action_heads import ActionHead
    from evolvent.models.team.actors import Actors

PAPER = "arXiv 2306.10715"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(JointReplayConfig):
    """Settings of HASAC."""

    n_step: int = 5
    """Rewards that a target sums before it is bootstrapped; fewer where an attempt ends."""
    alpha: float = 0.001
    """Weight of the entropy, in units of reward; 0 = each agent learns its own."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch

    from evolvent.learn.team.descent import means
    from evolvent.learn.team.replay import Replay
    from evolvent.models.team.pathwise import coded, uniform
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        nets = make_networks(config, team.views)
        old = copy.deepcopy(nets.critics).requires_grad_(False)
        adams = {
            "adam": torch.optim.Adam(nets.actors.groups(), lr=config.lr, fused=True),
            "critic_adam": torch.optim.Adam(nets.critics.parameters(), lr=config.critic_lr, fused=True),
            "alpha_adam": torch.optim.Adam(nets.log_alpha.parameters(), lr=config.lr, fused=True),
        }
        replay = Replay(team.views, config.buffer, config.envs, n_step=config.n_step, gamma=config.gamma)
        parts = {"actors": nets.actors, "critics": nets.critics, "log_alpha": nets.log_alpha, "old": old}
        team.keep(acting(nets.head, nets.actors), **parts, **adams, replay=replay)
        for update in team.updates():
            if team.restarted:
                replay.cut()
            view, losses = team.view, list[dict[str, float]]()
            for step in range(update * config.horizon, (update + 1) * config.horizon):
                with team.clock("act"), torch.no_grad():  # ACT
                    action, logp = act(nets.head, nets.actors, view, team.generator)
                    if step * config.envs < config.warmup:
                        action, logp = uniform(nets.head, view.obs, view.available, team.generator)
                    said = least(nets.critics, view, coded(nets.head, action))
                view = team.step(action, logp.sum(-1, keepdim=True), said)  # STEP
                with team.clock("learn"):  # LEARN
                    replay.add(team.steps)
                    if (step + 1) * config.envs > config.warmup and (step + 1) % config.train_every == 0:
                        drawn = replay.sample(config.batch, team.generator)
                        losses.append(improve(config, nets, old, adams, drawn, team.generator))
            with team.clock("credit"):  # CREDIT, for the log: learning has its targets from the buffer
                batch = team.batch(lambda view: least(nets.critics, view, nets.fresh(view, team.generator)[0]))
                ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, 0.0, pooled=True))
            team.log(ledger, **means(losses))
        return team.finish("hasac")


class Networks(NamedTuple):
    """Policies of all agents, twin critics of what they do, and the logs of their weights of entropy (``[A]``)."""

    head: ActionHead
    actors: Actors
    critics: nn.ModuleList
    log_alpha: nn.ParameterList

    def fresh(self, view: View, generator: torch.Generator, agent: int | None = None) -> tuple[Tensor, Tensor]:
        """Draws of all agents as the critics take them ``[..., A, W]``, or of one, and ``log pi`` ``[..., A]``.

        Gradients flow through both; of choices it is the mean of ``log pi`` over all of them.
        """
        from evolvent.models.team.pathwise import squashed, straight_through

        allowed = self.head.allowed(None, agent)
        if agent is None:
            out = self.actors.outlook(view.obs, available_BAN=view.available)
        else:
            available = None if view.available is None else view.available[..., agent, :]
            out = self.actors.params_one(agent, view.obs[..., agent, :], available_BN=available)
        if out.logp is not None:
            return straight_through(out.logp, generator), (out.logp.exp() * out.logp).sum(-1)
        assert out.mean is not None
        return squashed(out.mean, allowed.dims, generator)


def improve(
    config: Config,
    nets: Networks,
    old: nn.ModuleList,
    adams: dict[str, torch.optim.Adam],
    drawn: Transitions,
    generator: torch.Generator,
) -> dict[str, float]:
    """One gradient step of the critics, of one policy after another, and of the copies; what was seen."""
    import torch

    from evolvent.learn.losses import masked_mean
    from evolvent.learn.team.targets import follow
    from evolvent.models.team.pathwise import coded, joined

    view, agents = drawn.view, nets.actors.n_agents
    alpha = torch.full((agents,), config.alpha) if config.alpha else nets.log_alpha[0].detach().exp()
    alpha = alpha.to(view.obs.device)
    target, seen = targets(nets, old, alpha, drawn, generator), joined(view.state, coded(nets.head, drawn.action))
    said = torch.stack([critic(seen) for critic in nets.critics])
    loss = (target - said).square().mean(-1).sum()
    adams["critic_adam"].zero_grad()
    loss.backward()
    adams["critic_adam"].step()
    with torch.no_grad():
        joint, logp = nets.fresh(view, generator)
    for i in torch.randperm(agents, generator=generator, device=generator.device).tolist():
        active = None if view.active is None else view.active[:, i]
        own, logp_i = nets.fresh(view, generator, i)
        joint = put(joint, i, own)
        gain = least(nets.critics, view, joint)[:, i] - alpha[i] * logp_i
        weights = nets.actors.parameters_of(i)
        grads = torch.autograd.grad(-masked_mean(gain, active), weights, allow_unused=True)  # of this policy alone
        adams["adam"].zero_grad()
        for weight, grad in zip(weights, grads, strict=True):
            weight.grad = grad
        adams["adam"].step()
        with torch.no_grad():
            own, logp[:, i] = nets.fresh(view, generator, i)
            joint = put(joint, i, own)
    if not config.alpha:
        short = masked_mean(nets.log_alpha[0] * (logp + target_entropy(nets.head)), view.active)
        adams["alpha_adam"].zero_grad()
        (-short).backward()
        adams["alpha_adam"].step()
    for its, mine in zip(old, nets.critics, strict=True):
        follow(its, mine, config.tau)
    mean = said.detach().mean().item()
    return {"value_loss": loss.item() / 2, "value": mean, "log_pi": logp.mean().item(), "alpha": alpha.mean().item()}


def put(joint: Tensor, agent: int, own: Tensor) -> Tensor:
    """Joint actions ``[M, A, W]`` with other ones of one agent, ``[M, W]``."""
    import torch

    return torch.cat([joint[:, :agent], own.unsqueeze(1), joint[:, agent + 1 :]], dim=1)


def targets(
    nets: Networks, old: nn.ModuleList, alpha: Tensor, drawn: Transitions, generator: torch.Generator
) -> Tensor:
    """``y`` of the module's docstring, ``[M]``."""
    import torch

    with torch.no_grad():
        action, logp = nets.fresh(drawn.after, generator)
        logp = logp if drawn.after.active is None else logp.masked_fill(~drawn.after.active, 0.0)
        value = least(old, drawn.after, action)[:, 0] - (alpha * logp).sum(-1)
        return drawn.reward.mean(-1) + drawn.discount * value


def least(critics: nn.ModuleList, view: View, action: Tensor) -> Tensor:
    """The lesser of what the critics say of coded joint actions, the same for each agent, ``[..., A]``."""
    import torch

    from evolvent.models.team.pathwise import joined

    seen = joined(view.state, action)
    said = torch.minimum(*(critic(seen) for critic in critics))
    return said.unsqueeze(-1).expand(action.shape[:-1])


def target_entropy(head: ActionHead) -> Tensor:
    """What each agent's entropy is held at: minus its numbers, .98 log of its choices, ``[A]`` or a number."""
    import torch

    if head.choices:
        n = torch.tensor(float(head.choices)) if head.choice_AN is None else head.choice_AN.sum(-1).float()
        return 0.98 * n.log()
    return torch.tensor(-float(head.dims)) if head.dim_AD is None else -head.dim_AD.sum(-1).float()


def make_networks(config: Config, views: Views) -> Networks:
    """Policies and critics of the team at hand.

    Raises:
        BadInput: agents whose actions have a choice and numbers.
    """
    import torch
    from torch import nn

    from evolvent.models.team.action_heads import ActionHead
    from evolvent.models.team.actors import Actors, Critic

    team = views.team
    check_kind(team, ("discrete", "continuous"), config.env, "use mappo, happo or mat")
    wide = team if team.choices else replace(team, actions=(ActionSpec(dims=2 * team.dims),) * team.n_agents)
    actors = Actors(wide, team.obs_dim, hidden=config.hidden, ids=views.ids)  # means, and logs of spreads
    width = team.n_agents * (team.choices + team.dims)
    critics = nn.ModuleList(Critic(views.state_dim + width, hidden=config.hidden, ids=width) for _ in range(2))
    log_alpha = nn.ParameterList([nn.Parameter(torch.zeros(team.n_agents))])
    to = views.device
    return Networks(ActionHead(team).to(to), actors.to(to), critics.to(to), log_alpha.to(to))


def act(
    head: ActionHead, actors: Actors, view: View, generator: torch.Generator, *, greedy: bool = False
) -> tuple[Tensor, Tensor]:
    """Actions of all agents, drawn or the likeliest, and their log-probabilities ``[B, A, 1]``."""
    from evolvent.models.team.pathwise import owned, squashed

    out, allowed = actors.outlook(view.obs, available_BAN=view.available), head.allowed(view.available)
    if out.logp is not None:
        return head.sample(out.logp, None, allowed, greedy=greedy, generator=generator)
    assert out.mean is not None
    action, logp = squashed(out.mean, allowed.dims, generator)
    action = owned(out.mean.chunk(2, dim=-1)[0].tanh(), allowed.dims) if greedy else action
    return action, logp.unsqueeze(-1)


def acting(head: ActionHead, actors: Actors) -> Act:
    """How they play."""
    return lambda view, greedy, generator: act(head, actors, view, generator, greedy=greedy)[0]


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    nets = make_networks(config, views)
    return acting(nets.head, nets.actors), {"actors": nets.actors}


evaluate = partial(evaluate_team, Config, _played)
