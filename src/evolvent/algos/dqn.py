"""DQN: Q-learning with a network, a replay buffer and a target network, for one agent that chooses.

Paper: Mnih et al. 2015, Human-level control through deep reinforcement learning (Nature 518). Double Q-learning: van
Hasselt et al. 2016 (arXiv 1509.06461).

    y = R + gamma^m max_a Q'(o', a),   double:  y = R + gamma^m Q'(o', argmax_a Q(o', a))
    L = mean H(y - Q(o, a)),           Q' a copy of Q, renewed every ``target_every`` steps

R sums ``n_step`` rewards (m <= n of them, ``learn.team.replay``); what the behaviour did meanwhile is not corrected. It
acts greedily but for a share epsilon of random choices, which falls from 1 to ``epsilon_end`` over the first
``exploration`` steps. Defaults are for small tasks, near those that RL Zoo tuned for stable-baselines3 on
CartPole: a gradient step for two steps, batch 64, buffer 100,000, learning from 1,000 steps on.

Deviations: the network has layer norms and is given the size of the numbers it sees (``models.team.sizes``); hidden
120 84 as in CleanRL; the copy is renewed every 50 steps (in the paper 10,000) and the learning rate is 1e-3 (RL Zoo
2.3e-3). The credit that is logged and stored is the TD error of one step by the values when acting. Environments
restart at each checkpoint, and the buffer is a part of it: a run that was killed goes on with the same numbers.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from evolvent.core.folder import RunFolder
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.runs.team.config import ReplayConfig
from evolvent.runs.team.frozen import evaluate_team, policy_of
from evolvent.runs.team.one import check_one_agent, trained

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evolvent.learn.team.player import Act
    from evolvent.learn.team.practice import Practice
    from evolvent.learn.team.replay import Transitions
    from evolvent.learn.team.views import Views
    from evolvent.models.team.actors import Critic
    from evolvent.runs.team.run import TeamRun

PAPER = "Mnih et al. 2015"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(ReplayConfig):
    """Settings of DQN."""

    env: str = "gymnasium:CartPole-v1"
    """Environment of one agent that chooses, with its options; or yours, file.py[:NAME]."""
    steps: int = 50_000
    """Total environment steps over all copies. Only whole updates are run."""
    batch: int = 64
    """Transitions of a gradient step."""
    train_every: int = 2
    """Steps of each copy between two gradient steps."""
    hidden: tuple[int, ...] = (120, 84)
    """Hidden layers of the network, as their widths."""
    lr: float = 1e-3
    """Learning rate (Adam)."""
    grad_clip: float = 10.0
    """Gradient norm above which a gradient is scaled down."""
    double: bool = False
    """The network chooses, its copy says what the choice is worth (double Q-learning)."""
    target_every: int = 50
    """Steps of each copy between two renewals of the target network."""
    epsilon_end: float = 0.05
    """Share of random choices once exploration is over."""
    exploration: int = 10_000
    """Steps over all copies in which it falls from 1 to that."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        loop(config, team)
        return team.finish("dqn")


def loop(config: Config, team: TeamRun | Practice) -> None:
    """Act, step, learn from what is in the buffer, until the steps are over."""
    import torch

    from evolvent.learn.team.descent import means
    from evolvent.learn.team.replay import Replay
    from evolvent.learn.team.targets import best_value, epsilon_at, epsilon_greedy, follow

    q = make_network(config, team.views)
    target_q, copies = copy.deepcopy(q).requires_grad_(False), team.env.n_envs
    adam = torch.optim.Adam(q.parameters(), lr=config.lr, fused=True)
    replay = Replay(team.views, config.buffer, copies, n_step=config.n_step, gamma=config.gamma)
    team.keep(acting(q, config.epsilon_end), actors=q, target_q=target_q, adam=adam, replay=replay)
    for update in team.updates():
        if team.restarted:
            replay.cut()
        view, losses, epsilon = team.view, list[dict[str, float]](), 1.0
        for step in range(update * config.horizon, (update + 1) * config.horizon):
            with team.clock("act"), torch.no_grad():  # ACT
                values, epsilon = q(view.obs), epsilon_at(step * copies, config.exploration, config.epsilon_end)
                action, logp = epsilon_greedy(values, view.available, epsilon, team.generator)
            view = team.step(action, logp, best_value(values, view.available))  # STEP
            with team.clock("learn"):  # LEARN
                replay.add(team.steps)
                if (step + 1) * copies > config.warmup and (step + 1) % config.train_every == 0:
                    drawn = replay.sample(config.batch, team.generator)
                    losses.append(improve(config, q, target_q, adam, drawn))
                if (step + 1) % config.target_every == 0:
                    follow(target_q, q, 1.0)
        with team.clock("credit"):  # CREDIT, for the log: learning has its targets from the buffer
            batch = team.batch(lambda view: best_value(q(view.obs), view.available))
            ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, 0.0))
        team.log(ledger, epsilon=epsilon, **means(losses))


def improve(
    config: Config, q: Critic, target_q: Critic, adam: torch.optim.Adam, drawn: Transitions
) -> dict[str, float]:
    """One gradient step; the loss, and the mean value of what was done."""
    import torch
    from torch import nn

    from evolvent.learn.losses import huber

    target = targets(q, target_q, drawn, double=config.double)
    said = q(drawn.view.obs).gather(-1, drawn.action.unsqueeze(-1)).squeeze(-1)
    loss = huber(target - said, 1.0).mean()
    adam.zero_grad()
    loss.backward()
    size = nn.utils.clip_grad_norm_(q.parameters(), config.grad_clip)
    adam.step()
    loss, value, size = torch.stack([loss.detach(), said.detach().mean(), size]).tolist()
    return {"value_loss": loss, "value": value, "grad_norm": size}


def targets(q: Critic, target_q: Critic, drawn: Transitions, *, double: bool) -> Tensor:
    """``y`` of the module's docstring, ``[M, A]``."""
    import torch

    from evolvent.learn.team.targets import best_value, td_target

    with torch.no_grad():
        obs, available = drawn.after.obs, drawn.after.available
        value = best_value(target_q(obs), available, by=q(obs) if double else None)
        return td_target(drawn.reward, drawn.discount, value)


def make_network(config: Config, views: Views) -> Critic:
    """Q of every choice of what is seen.

    Raises:
        BadInput: a team, or actions that are numbers.
    """
    from evolvent.models.team.actors import Critic

    check_one_agent(views.team, ("discrete",), config.env)
    return Critic(views.team.obs_dim, views.team.choices, hidden=config.hidden).to(views.device)


def acting(q: Critic, epsilon: float) -> Act:
    """How it plays: greedily, or with a share of random choices."""
    from evolvent.learn.team.targets import epsilon_greedy

    def act(view: Any, greedy: bool, generator: torch.Generator) -> Tensor:
        return epsilon_greedy(q(view.obs), view.available, 0.0 if greedy else epsilon, generator)[0]

    return act


def played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    """For ``evaluate_team``: how it acts, and the parts of a checkpoint that this needs."""
    q = make_network(config, views)
    return acting(q, config.epsilon_end), {"actors": q}


evaluate, policy = partial(evaluate_team, Config, played), partial(policy_of, Config, played)
train = partial(trained, loop)
