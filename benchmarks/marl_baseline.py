"""Variance of the policy gradient with and without the optimal baseline, while MAPPO learns Ant 4x2.

    python benchmarks/marl_baseline.py --seeds 0 1 2

MAPPO with separate actors, one run with V(s) as the baseline and one with the optimal baseline (surrogate). Every ten
updates of the latter, before it learns, the same rollout is credited four ways: the lambda-return alone, minus V(s),
minus the mean of Q over the own action (COMA's), minus the optimal baseline. The rollout is cut into 50 parts at
random; the variance is the sum over all weights of the variance of the parts' gradients, times the size of a part, for
credit in units of reward (not normalised). A difference of curves between the two runs is measured by the returns.
"""

import sys
from typing import Any

import team_grid  # first: it sets the number of threads

# isort: split
import numpy as np
import torch
from team_grid import Cell
from torch import Tensor

from evolvent.algos import mappo
from evolvent.core.folder import RunFolder
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.learn.team.batch import Batch
from evolvent.learn.team.optimal_baseline import number_columns
from evolvent.learn.team.ppo import improve_together
from evolvent.learn.team.value_norm import ValueNorm
from evolvent.models.team.actors import Actors, Critic, JointQ
from evolvent.runs.team.actors import acting
from evolvent.runs.team.run import open_team

Config = mappo.Config
EVERY, PARTS, SAMPLES = 10, 50, 100
SIZE = {
    "env": "mamujoco:Ant-4x2",
    "envs": 16,
    "shared": False,
    "eval_every": 50,
    "eval_episodes": 16,
    "save_every": 20,
    "steps": 320_000,
}


def cells() -> list[Cell]:
    """With V(s), and with the optimal baseline and the measurement."""
    return [
        Cell("Ant-4x2", "value", "mappo", SIZE),
        Cell("Ant-4x2", "optimal", "measured", {**SIZE, "optimal_baseline": "surrogate"}, keep="variance_"),
    ]


def variances(actors: Actors, batch: Batch, credits: dict[str, Tensor], generator: torch.Generator) -> dict[str, float]:
    """Variance of the gradient of ``mean(credit * log pi)`` for each credit ``[T, B, A]``, per joint step."""
    view, action = batch.view.flat(), batch.action.flatten(0, 1)
    parts = list(torch.randperm(len(action), generator=generator).tensor_split(PARTS))
    weights = list(actors.parameters())
    moments = {name: (torch.zeros(1), torch.zeros(1)) for name in credits}
    for rows_ in parts:
        seen = view[rows_]
        logp = actors.logprobs(seen.obs, action[rows_], available_BAN=seen.available).logp.sum(-1)
        for name, credit in credits.items():
            gain = (logp * credit.flatten(0, 1)[rows_]).sum(-1).mean()
            grads = torch.autograd.grad(gain, weights, retain_graph=True)
            flat = torch.cat([grad.flatten() for grad in grads])
            first, second = moments[name]
            moments[name] = (first + flat, second + flat.square())
    size = len(action) / len(parts)
    return {
        name: float((second - first.square() / len(parts)).sum() / (len(parts) - 1) * size)
        for name, (first, second) in moments.items()
    }


def measure(
    config: mappo.Config, actors: Actors, q: JointQ, norm: ValueNorm, batch: Batch, generator: torch.Generator
) -> dict[str, float]:
    """The variances of one rollout under four baselines, as columns for the log."""
    plain = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, config.gae_lambda, pooled=True))
    value = torch.from_numpy(np.asarray(batch.rollout.value_TBA)).float()
    return_ = batch.credit(plain) + value
    seed = int(torch.randint(2**31, (), generator=generator))
    seen = (batch.view.state, batch.view.obs)
    best = number_columns(actors, q, norm, seen, batch.action, samples=SAMPLES, seed=seed)["baseline_TBA"]
    credits = {
        "none": return_,
        "value": return_ - value,
        "coma": return_ - own_mean(actors, q, norm, batch, generator),
        "optimal": return_ - torch.from_numpy(best).float(),
    }
    variances_ = variances(actors, batch, credits, generator)
    return {f"variance_{name}": number for name, number in variances_.items()}


@torch.no_grad()
def own_mean(actors: Actors, q: JointQ, norm: ValueNorm, batch: Batch, generator: torch.Generator) -> Tensor:
    """Mean of Q over the own action ``[T, B, A]``, by ``SAMPLES`` draws."""
    outlook = actors.outlook(batch.view.obs.flatten(0, 1))
    assert outlook.mean is not None
    assert outlook.sigma is not None
    around = q.around(batch.view.state, batch.view.obs, batch.action).flatten(0, 1)
    total = torch.zeros(outlook.mean.shape[:-1])
    for _ in range(SAMPLES):
        own = outlook.mean + outlook.sigma * torch.randn(outlook.mean.shape, generator=generator)
        total += norm.denormalise(q.own(around, own.unsqueeze(-2))).squeeze(-1)
    return (total / SAMPLES).view(batch.value.shape)


def run(config: mappo.Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """MAPPO's loop with the optimal baseline, and a measurement every ``EVERY`` updates."""
    with open_team(config, folder, live, resume=resume) as team:
        spec, views = team.env.team, team.views
        actors = Actors(spec, spec.obs_dim, hidden=config.hidden, shared=config.shared, ids=views.ids)
        critic, q = Critic(views.state_dim, hidden=config.hidden), mappo.joint_q(config, views)
        adam = torch.optim.Adam(actors.groups(), lr=config.lr, eps=1e-5)
        critic_adams = [torch.optim.Adam(net.parameters(), lr=config.critic_lr, eps=1e-5) for net in (critic, q)]
        norm = ValueNorm()
        team.keep(
            acting(actors),
            actors=actors,
            adam=adam,
            norm=norm,
            critic=critic,
            q=q,
            critic_adam=critic_adams[0],
            q_adam=critic_adams[1],
        )

        def value(view: Any) -> Tensor:
            return critic(view.state).unsqueeze(-1).expand(-1, spec.n_agents)

        for update in team.updates():
            view = team.view
            for _ in range(config.horizon):
                with team.clock("act"), torch.no_grad():  # ACT
                    action, logp = actors.act(view.obs, generator=team.generator)
                    said = value(view)
                view = team.step(action, logp, said)  # STEP
            with team.clock("credit"):  # CREDIT
                batch = team.batch(value, norm.denormalise)
                ledger = mappo.over_optimal_baseline(config, actors, q, norm, batch, team.generator)
            metrics = measure(config, actors, q, norm, batch, team.generator) if update % EVERY == EVERY - 1 else {}
            with team.clock("learn"):  # LEARN
                metrics |= improve_together(
                    config, actors, adam, batch, mappo.scaled(config, batch, ledger), team.generator
                )
                metrics |= mappo.learn_values(config, critic, q, critic_adams, norm, batch, ledger, team.generator)
            team.log(ledger, **metrics)
        return team.finish("mappo")


if __name__ == "__main__":
    team_grid.main("marl_baseline", cells(), __doc__, seeds=(0, 1, 2), learners={"measured": sys.modules[__name__]})
