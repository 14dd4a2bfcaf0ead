"""VDN: the value of a joint choice is the sum of the agents' values, each from what it sees.

Paper: Sunehag et al. 2018, Value-Decomposition Networks for Cooperative Multi-Agent Learning (arXiv 1706.05296).

    Q_tot(s, a) = sum_i Q_i(o^i, a^i)
    y           = R + gamma^m Q_tot'(s', argmax_a Q_tot),   L = mean (y - Q_tot(s, a))²

R sums ``n_step`` rewards of the team (m <= n of them, ``learn.team.replay``); Q' is a copy of Q, renewed every
``target_every`` steps. Agents act greedily but for a share epsilon of random choices. Its sums settle for 7 in the game
``two_step``, where 8 can be had.

Deviations: transitions instead of whole attempts, unless agents have memory (``--memory``), which learn from courses of
``--course`` steps with what they remembered at the time at their beginning; double Q-learning; one network for all
agents, told their numbers, with layer norms and the size of what it sees (``models.team.sizes``); Adam 5e-4 (PyMARL:
RMSprop), a gradient step for 8 steps (there one for an attempt); who is not alive counts 0; team reward is the mean
over agents. The credit that is logged and stored is the TD error of Q_tot by the values when acting. Environments
restart at each checkpoint, and the buffer is a part of it: a run that was killed goes on with the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.runs.team.factored import FactoredConfig, played
from evolvent.runs.team.frozen import evaluate_team

PAPER = "arXiv 1706.05296"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(FactoredConfig):
    """Settings of VDN."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch

    from evolvent.learn.team.descent import means
    from evolvent.learn.team.replay import Replay
    from evolvent.learn.team.targets import epsilon_at, epsilon_greedy, follow
    from evolvent.models.team.mixers import Sum
    from evolvent.runs.team.factored import Networks, acting, draw, improve, make_q
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        nets = Networks(make_q(config, team.views), Sum())
        old = nets.frozen()
        adam = torch.optim.Adam(nets.q.parameters(), lr=config.lr, fused=True)
        replay = Replay(team.views, config.buffer, config.envs, n_step=config.n_step, gamma=config.gamma)
        team.keep(acting(nets.q, config.epsilon_end), actors=nets.q, old=old.q, adam=adam, replay=replay)
        for update in team.updates():
            if team.restarted:
                replay.cut()
            view, losses, epsilon = team.view, list[dict[str, float]](), 1.0
            for step in range(update * config.horizon, (update + 1) * config.horizon):
                with team.clock("act"), torch.no_grad():  # ACT
                    epsilon = epsilon_at(step * config.envs, config.exploration, config.epsilon_end)
                    seen = nets.q.seen(view.obs, view.memory)
                    q = nets.q(seen)
                    action, logp = epsilon_greedy(q, view.available, epsilon, team.generator)
                    said = nets.best(q, view)
                view = team.step(action, logp, said, memory=seen)  # STEP
                with team.clock("learn"):  # LEARN
                    replay.add(team.steps)
                    if (step + 1) * config.envs > config.warmup and (step + 1) % config.train_every == 0:
                        losses.append(improve(nets, old, adam, draw(config, replay, team.generator)))
                    if (step + 1) % config.target_every == 0:
                        follow(old.q, nets.q, 1.0)
            with team.clock("credit"):  # CREDIT, for the log: learning has its targets from the buffer
                batch = team.batch(lambda view: nets.best(nets.q(nets.q.seen(view.obs, view.memory)), view))
                ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, 0.0, pooled=True))
            team.log(ledger, epsilon=epsilon, **means(losses))
        return team.finish("vdn")


evaluate = partial(evaluate_team, Config, played)
