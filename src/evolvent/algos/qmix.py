"""QMIX: the value of a joint choice is a mixture of the agents' values that rises with each, made from the state.

Paper: Rashid et al. 2018, QMIX: Monotonic Value Function Factorisation for Deep Multi-Agent Reinforcement Learning
(arXiv 1803.11485).

    Q_tot(s, a) = |w2(s)|' elu(|W1(s)| q + b1(s)) + b2(s),   q_i = Q_i(o^i, a^i)
    y           = R + gamma^m Q_tot'(s', argmax_a Q_tot),    L = mean (y - Q_tot(s, a))²

Since Q_tot never falls when a Q_i rises, the best joint choice is everybody's own best. It has 8 in the game
``two_step``; no such mixture has the best cell of ``matrix:nonmonotone``, where one that is right earns 0. R, copies
and exploration are as in ``vdn``; so are the deviations, and one network makes all weights of the mixture (in the paper
each has its own, ``models.team.mixers``). Where the environment has no state, all observations are it.
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

PAPER = "arXiv 1803.11485"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(FactoredConfig):
    """Settings of QMIX."""

    mixer_width: int = 32
    """Hidden numbers of the mixture."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch

    from evolvent.learn.team.descent import means
    from evolvent.learn.team.replay import Replay
    from evolvent.learn.team.targets import epsilon_at, epsilon_greedy, follow
    from evolvent.models.team.mixers import Monotone
    from evolvent.runs.team.factored import Networks, acting, draw, improve, make_q
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        mixer = Monotone(team.views.state_dim, team.env.team.n_agents, width=config.mixer_width)
        nets = Networks(make_q(config, team.views), mixer.to(team.device))
        old = nets.frozen()
        adam = torch.optim.Adam([weight for net in nets for weight in net.parameters()], lr=config.lr, fused=True)
        replay = Replay(team.views, config.buffer, config.envs, n_step=config.n_step, gamma=config.gamma)
        parts = {"actors": nets.q, "mixer": nets.mixer, "old": old.q, "old_mixer": old.mixer}
        team.keep(acting(nets.q, config.epsilon_end), **parts, adam=adam, replay=replay)
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
                        for its, mine in zip(old, nets, strict=True):
                            follow(its, mine, 1.0)
            with team.clock("credit"):  # CREDIT, for the log: learning has its targets from the buffer
                batch = team.batch(lambda view: nets.best(nets.q(nets.q.seen(view.obs, view.memory)), view))
                ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, 0.0, pooled=True))
            team.log(ledger, epsilon=epsilon, **means(losses))
        return team.finish("qmix")


evaluate = partial(evaluate_team, Config, played)
