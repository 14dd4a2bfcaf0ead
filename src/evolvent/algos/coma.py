"""COMA: counterfactual advantage from a joint Q critic: the action taken against the agent's other actions.

Paper: Foerster et al. 2018, Counterfactual Multi-Agent Policy Gradients (arXiv 1705.08926).

    A^i  = Q(s, a) - sum_b pi^i(b | o^i) Q(s, (a^{-i}, b))
    L    = mean[ A^i log pi^i(a^i | o^i) ] + c H
    L_Q  = H(y - Q(s, a)),   y = r + gamma [(1 - lambda) V' + lambda y'],   V' = sum_b pi^i(b) Q'(s', (a'^{-i}, b))

Q' is a copy of Q that follows every ``target_every`` steps of the critic. ``optimal_baseline`` (Kuba et al. 2021, arXiv
2108.08612) subtracts the baseline of least variance instead. For agents that choose. Defaults are those of the released
code: 8 copies, lambda 0.8, RMSprop 5e-4 for both, the critic steps often (there once for every time step), its layers
128 128; one actor plays all agents.

Deviations: critics, and actors without ids, are given the size of the numbers that they see (``models.team.sizes``);
entropy weight instead of a floor under the probabilities that decays; actors without recurrence; team reward is the
mean over agents; targets take the mean of Q' over the agent's own next action, which has less variance than its value
at the action taken; value targets are normalised, advantages divided by their spread; time limits are bootstrapped from
the observation where the attempt stopped, the others' actions there drawn from their policies.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.credit import agent_counterfactual, agent_gae, agent_optimal_baseline
from evolvent.evaluate.live import Live
from evolvent.runs.team.actors import acting
from evolvent.runs.team.config import TeamConfig
from evolvent.runs.team.frozen import evaluate_team

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evolvent.learn.team.batch import Batch, View
    from evolvent.learn.team.descent import Rows
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.value_norm import ValueNorm
    from evolvent.learn.team.views import Views
    from evolvent.models.team.actors import Actors, JointQ

PAPER = "arXiv 1705.08926"
LEVELS = ("agent", "step")
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(TeamConfig):
    """Settings of COMA."""

    env: str = "spread:n=3,discrete=true"
    """Environment with its options; actions must be discrete."""
    envs: int = 8
    """Copies of the environment that are stepped in parallel."""
    gae_lambda: float = 0.8
    """λ of the TD(λ) targets of the critic."""
    shared: bool = True
    """Share the parameters of one actor among all agents."""
    optimal_baseline: Literal["none", "surrogate", "exact"] = "none"
    """Baseline: none = mean Q (COMA); of least variance: surrogate = by logits, exact = by all weights."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden layers of the actors, as their widths."""
    critic_hidden: tuple[int, ...] = (128, 128)
    """Hidden layers of the critic, as their widths."""
    critic_steps: int = 100
    """Optimiser steps of the critic per rollout, each on another part of it."""
    target_every: int = 200
    """Optimiser steps of the critic between copies to the target network."""
    lr: float = 5e-4
    """Learning rate of the actors (RMSprop, alpha 0.99, eps 1e-5)."""
    critic_lr: float = 5e-4
    """Learning rate of the critic."""
    entropy: float = 0.01
    """Coefficient of the entropy bonus."""
    grad_clip: float = 10.0
    """Gradient norm above which a gradient is scaled down."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch

    from evolvent.learn.team.critic import scaled_targets
    from evolvent.learn.team.value_norm import ValueNorm
    from evolvent.runs.team.run import open_team

    with open_team(config, folder, live, resume=resume) as team:
        actors, q = make_networks(config, team.views)
        old_q = copy.deepcopy(q).requires_grad_(False)
        rms = torch.optim.RMSprop(actors.groups(), lr=config.lr, alpha=0.99, eps=1e-5)
        q_rms = torch.optim.RMSprop(q.parameters(), lr=config.critic_lr, alpha=0.99, eps=1e-5)
        norm = ValueNorm()
        team.keep(acting(actors), actors=actors, q=q, old_q=old_q, norm=norm, rms=rms, q_rms=q_rms)

        def expected(view: View) -> Tensor:
            """Of what was not played on: the others' actions are drawn, the own one averaged."""
            action, _ = actors.act(view.obs, available_BAN=view.available, generator=team.generator)
            return mean_q(actors, old_q, view, action)

        for update in team.updates():
            view = team.view
            for _ in range(config.horizon):
                with team.clock("act"):  # ACT
                    action, logp = actors.act(view.obs, available_BAN=view.available, generator=team.generator)
                view = team.step(action, logp)  # STEP
            with team.clock("credit"):  # CREDIT of the critic: lambda-returns
                steps = team.steps
                steps.value[:] = mean_q(actors, old_q, steps.view(slice(0, config.horizon)), steps.action)
                batch = team.batch(expected, norm.denormalise)
                rule = agent_gae.Config(config.gamma, config.gae_lambda, pooled=True)
                returns = agent_gae.assign(batch.rollout, rule)
                target, _, _ = scaled_targets(norm, batch, returns, [q.head, old_q.head])
            with team.clock("learn"):  # LEARN, the critic first
                loss = learn_values(config, q, q_rms, target, batch, team.generator)
            with team.clock("credit"):  # CREDIT of the agents
                ledger = counterfactual(config, actors, q, norm, batch)
            with team.clock("learn"):  # LEARN
                metrics = improve(config, actors, rms, batch, batch.credit(ledger))
                before, now = (n * config.critic_steps // config.target_every for n in (update, update + 1))
                if now > before:
                    old_q.load_state_dict(q.state_dict())
            team.log(ledger, value_loss=loss, **metrics)
        return team.finish("coma")


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    actors, _ = make_networks(config, views)
    return acting(actors), {"actors": actors}


evaluate = partial(evaluate_team, Config, _played)


def make_networks(config: Config, views: Views) -> tuple[Actors, JointQ]:
    """Actors and critic for the team at hand.

    Raises:
        BadInput: agents whose actions are numbers.
    """
    from evolvent.models.team.actors import Actors, JointQ

    spec = views.team
    if spec.kind != "discrete":
        raise BadInput(
            "COMA needs agents that choose",
            got=f"{spec.kind} actions",
            expected="discrete actions",
            where=config.env,
            do="use mappo, with --optimal-baseline surrogate for a baseline for each agent"
            if spec.kind == "continuous"
            else "use mappo, happo or mat, which take choices and numbers at once",
        )
    actors = Actors(spec, spec.obs_dim, hidden=config.hidden, shared=config.shared, ids=views.ids)
    q = JointQ(spec, views.state_dim, spec.obs_dim, hidden=config.critic_hidden, ids=views.ids)
    return actors.to(views.device), q.to(views.device)


def mean_q(actors: Actors, q: JointQ, view: View, action: Tensor) -> Tensor:
    """``sum_b pi^i(b) Q(s, (a^{-i}, b))`` in the critic's scale, ``[..., A]``."""
    import torch

    from evolvent.learn.team.optimal_baseline import policy_of

    with torch.no_grad():
        return (policy_of(actors, view.obs, view.available) * q.of_choices(view.state, view.obs, action)).sum(-1)


def counterfactual(config: Config, actors: Actors, q: JointQ, norm: ValueNorm, batch: Batch) -> RolloutLedger:
    """Q of what was done minus the baseline."""
    from evolvent.learn.team.optimal_baseline import choice_columns

    view, exact = batch.view, config.optimal_baseline == "exact"
    columns = choice_columns(actors, q, norm, (view.state, view.obs, view.available), batch.action, exact=exact)
    if config.optimal_baseline == "none":
        return agent_counterfactual.assign(batch.rollout, q_TBAN=columns["q_TBAN"], policy_TBAN=columns["policy_TBAN"])
    return agent_optimal_baseline.assign(batch.rollout, agent_optimal_baseline.Config(target="q"), **columns)


def improve(
    config: Config, actors: Actors, rms: torch.optim.RMSprop, batch: Batch, adv_TBA: Tensor
) -> dict[str, float]:
    """One step of plain policy gradient; what was seen, for the log."""
    from evolvent.learn.losses import masked_mean, normalised, own_means
    from evolvent.learn.team.descent import descend

    view, adv = batch.view.flat(), normalised(adv_TBA, batch.view.active, centre=False).flatten(0, 1)
    action = batch.action.flatten(0, 1)
    weight, each = (1.0, 1) if actors.shared else (own_means(adv, view.active), adv.shape[1])

    def loss_of(rows: Rows) -> tuple[Tensor, dict[str, Tensor | float]]:
        seen = view[rows]
        now = actors.logprobs(seen.obs, action[rows], available_BAN=seen.available)
        gain = masked_mean(weight * adv[rows] * now.logp.sum(-1), seen.active)
        entropy = masked_mean(weight * now.entropy, seen.active)
        return -gain - config.entropy * entropy, {"policy_loss": -gain / each, "entropy": entropy / each}

    return descend(rms, [slice(None)], loss_of, adv, mask=view.active, grad_clip=config.grad_clip)


def learn_values(
    config: Config, q: JointQ, rms: torch.optim.RMSprop, target: Tensor, batch: Batch, generator: torch.Generator
) -> float:
    """Fit Q of what was done to its targets; the mean loss."""
    from evolvent.learn.team.critic import Targets, fit_critic

    seen, action = batch.view.flat(), batch.action.flatten(0, 1)
    parts = min(config.critic_steps, len(action))
    return fit_critic(
        lambda rows: q.taken(seen.state[rows], seen.obs[rows], action[rows]),
        rms,
        Targets(target),
        batch.passes(1, parts, generator),
        grad_clip=config.grad_clip,
    )["value_loss"]
