"""MADDPG: a deterministic policy for each agent, which climbs a critic that sees the state and what everybody does.

Paper: Lowe et al. 2017, Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments (arXiv 1706.02275).

    y^i  = R^i + gamma^m Q'^i(s', mu'^1(o'^1), ..., mu'^A(o'^A))
    L_Q  = mean sum_i (y^i - Q^i(s, a))²,     L_mu^i = - mean Q^i(s, a^1, ..., mu^i(o^i), ..., a^A)
    theta' <- (1 - tau) theta' + tau theta

The others' actions in L_mu are those of the buffer, as in the paper. R sums ``n_step`` rewards (``learn.team.replay``).
Numbers are acted with Gaussian noise. Agents that choose draw from a softmax whose gradient is straight through
(``models.team.pathwise``); a share ``noise`` of their choices is random. In the warm-up all actions are. Sizes and
rates are those of HARL (hidden 128 128, 5e-4, critic 1e-3, tau 0.005, noise 0.1).

Deviations: one network has the critics of all agents, each its own output; networks are given the size of the numbers
they see (``models.team.sizes``); a gradient step for 10 steps, batch 256, a buffer of 100,000 (HARL: for 1,000 of 2e7
steps, batch 1,000, 1e6); no policy ensembles, no inference of others' policies, no penalty on logits (EPyMARL). The
credit that is logged and stored is the TD error of each agent by the values when acting. Environments restart at each
checkpoint, and the buffer is a part of it: a run that was killed goes on with the same numbers.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from evolvent.core.folder import RunFolder
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.runs.team.checks import check_kind
from evolvent.runs.team.config import JointReplayConfig
from evolvent.runs.team.frozen import evaluate_team

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evolvent.learn.team.batch import View
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.replay import Transitions
    from evolvent.learn.team.views import Views
    from evolvent.models.team.actors import Actors, Critic

PAPER = "arXiv 1706.02275"
LEVELS = ("agent", "step")
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(JointReplayConfig):
    """Settings of MADDPG."""

    shared: bool = False
    """Share the parameters of one actor among all agents."""
    noise: float = 0.1
    """Standard deviation of the noise of numbers, on the scale of [-1, 1]; share of random choices."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch

    from evolvent.learn.team.descent import means
    from evolvent.learn.team.replay import Replay
    from evolvent.models.team.pathwise import coded
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        nets = make_networks(config, team.views)
        old = copy.deepcopy(nets)
        adam = torch.optim.Adam(nets.actors.groups(), lr=config.lr, fused=True)
        critic_adam = torch.optim.Adam(nets.critic.parameters(), lr=config.critic_lr, fused=True)
        replay = Replay(team.views, config.buffer, config.envs, n_step=config.n_step, gamma=config.gamma)
        parts = {"actors": nets.actors, "critic": nets.critic, "old_actors": old.actors, "old_critic": old.critic}
        team.keep(acting(nets.actors, config.noise), **parts, adam=adam, critic_adam=critic_adam, replay=replay)
        for update in team.updates():
            if team.restarted:
                replay.cut()
            view, losses = team.view, list[dict[str, float]]()
            for step in range(update * config.horizon, (update + 1) * config.horizon):
                with team.clock("act"), torch.no_grad():  # ACT
                    noise = config.noise if step * config.envs >= config.warmup else None
                    action, logp = explore(nets.actors, view, noise, team.generator)
                    said = nets.values(view, coded(nets.actors.action, action))
                view = team.step(action, logp, said)  # STEP
                with team.clock("learn"):  # LEARN
                    replay.add(team.steps)
                    if (step + 1) * config.envs > config.warmup and (step + 1) % config.train_every == 0:
                        drawn = replay.sample(config.batch, team.generator)
                        losses.append(improve(config, nets, old, (adam, critic_adam), drawn, team.generator))
            with team.clock("credit"):  # CREDIT, for the log: learning has its targets from the buffer
                batch = team.batch(lambda view: nets.values(view, nets.act(view, team.generator)))
                ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, 0.0))
            team.log(ledger, **means(losses))
        return team.finish("maddpg")


class Networks(NamedTuple):
    """Policies of all agents and the network of their critics."""

    actors: Actors
    critic: Critic

    def act(self, view: View, generator: torch.Generator) -> Tensor:
        """``mu(o)`` of every agent as the critic takes it, ``[..., A, W]``; gradients flow through it."""
        from evolvent.models.team.pathwise import owned, straight_through

        out = self.actors.outlook(view.obs, available_BAN=view.available)
        if out.logp is not None:
            return straight_through(out.logp, generator)
        assert out.mean is not None
        return owned(out.mean.tanh(), self.actors.action.allowed().dims)

    def values(self, view: View, action: Tensor) -> Tensor:
        """``Q^i(s, a)`` of every agent, ``[..., A]``, of coded joint actions."""
        from evolvent.models.team.pathwise import joined

        return self.critic(joined(view.state, action)).view(*action.shape[:-1])


def improve(
    config: Config,
    nets: Networks,
    old: Networks,
    adams: tuple[torch.optim.Adam, torch.optim.Adam],
    drawn: Transitions,
    generator: torch.Generator,
) -> dict[str, float]:
    """One gradient step of the critics and of the policies, and of their copies; what was seen."""
    import torch

    from evolvent.learn.losses import masked_mean
    from evolvent.learn.team.targets import follow
    from evolvent.models.team.pathwise import coded

    taken = coded(nets.actors.action, drawn.action)
    said = nets.values(drawn.view, taken)
    loss = (targets(old, drawn, generator) - said).square().mean()
    adams[1].zero_grad()
    loss.backward()
    adams[1].step()
    gain = masked_mean(own_values(nets, drawn.view, taken, generator), drawn.view.active)
    weights = [*nets.actors.parameters()]
    grads = torch.autograd.grad(-gain, weights, allow_unused=True)  # of the policies alone; a spread has none
    for weight, grad in zip(weights, grads, strict=True):
        weight.grad = grad
    adams[0].step()
    for its, mine in zip(old, nets, strict=True):
        follow(its, mine, config.tau)
    return {"value_loss": loss.item(), "value": said.detach().mean().item()}


def own_values(nets: Networks, view: View, taken: Tensor, generator: torch.Generator) -> Tensor:
    """``Q^i`` where agent i does what its policy says and the others what they did, ``[M, A]``."""
    import torch

    from evolvent.learn.team.batch import View

    agents = taken.shape[-2]
    own = torch.eye(agents, dtype=torch.bool, device=taken.device).unsqueeze(-1)
    joint = torch.where(own, nets.act(view, generator).unsqueeze(-3), taken.unsqueeze(-3))  # [M, A (whose), A, W]
    state = view.state.unsqueeze(-2).expand(-1, agents, -1)
    return nets.values(View(view.obs, state), joint).diagonal(dim1=-2, dim2=-1)


def targets(old: Networks, drawn: Transitions, generator: torch.Generator) -> Tensor:
    """``y`` of the module's docstring, ``[M, A]``."""
    import torch

    from evolvent.learn.team.targets import td_target

    with torch.no_grad():
        return td_target(drawn.reward, drawn.discount, old.values(drawn.after, old.act(drawn.after, generator)))


def explore(actors: Actors, view: View, noise: float | None, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Actions with noise, or uniform ones (``None``), and their logp by part; of numbers *before* they are clipped."""
    import torch

    from evolvent.models.team.action_heads import LOG_TAU, normal
    from evolvent.models.team.pathwise import owned, uniform

    head = actors.action
    if noise is None:
        return uniform(head, view.obs, view.available, generator)
    out, allowed = actors.outlook(view.obs, available_BAN=view.available), head.allowed(view.available)
    if out.logp is not None:
        share, flat = min(noise, 1.0), head.log_softmax(torch.zeros_like(out.logp), allowed)
        assert flat is not None
        mixed = (share * flat.exp() + (1.0 - share) * out.logp.exp()).log()
        return head.sample(mixed, None, allowed, greedy=False, generator=generator)
    assert out.mean is not None
    mean = out.mean.tanh()
    eps = normal(mean.shape, mean, generator)
    logp = -0.5 * (eps.square() + LOG_TAU) - math.log(noise)
    return owned((mean + noise * eps).clamp(-1.0, 1.0), allowed.dims), owned(logp, allowed.dims)


def make_networks(config: Config, views: Views) -> Networks:
    """Policies and critics of the team at hand.

    Raises:
        BadInput: agents whose actions have a choice and numbers.
    """
    from evolvent.models.team.actors import Actors, Critic

    team = views.team
    check_kind(team, ("discrete", "continuous"), config.env, "use mappo, happo or mat")
    actors = Actors(team, team.obs_dim, hidden=config.hidden, shared=config.shared, ids=views.ids)
    width = team.n_agents * (team.choices + team.dims)
    critic = Critic(views.state_dim + width, team.n_agents, config.hidden, ids=width)
    return Networks(actors.to(views.device), critic.to(views.device))


def acting(actors: Actors, noise: float) -> Act:
    """How they play: greedily, or with noise."""

    def act(view: View, greedy: bool, generator: torch.Generator) -> Tensor:
        if not greedy:
            return explore(actors, view, noise, generator)[0]
        out = actors.outlook(view.obs, available_BAN=view.available)
        if out.logp is not None:
            return out.logp.argmax(-1)
        assert out.mean is not None
        return out.mean.tanh()

    return act


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    nets = make_networks(config, views)
    return acting(nets.actors, config.noise), {"actors": nets.actors}


evaluate = partial(evaluate_team, Config, _played)
