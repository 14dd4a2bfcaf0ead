"""What systems of one agent have in common: whom they refuse, and how they learn inside another run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from evolvent.core.errors import BadInput
from evolvent.core.team import TeamEnv, TeamSpec
from evolvent.runs.team.checks import check_kind, check_minibatches, check_settings

if TYPE_CHECKING:
    from evolvent.learn.team.player import TeamPlayer
    from evolvent.learn.team.practice import Watch
    from evolvent.runs.team.config import OneAgentPPO


def trained(
    loop: Callable[[Any, Any], None], config: Any, env: TeamEnv, *, seed: int, watch: Watch | None = None
) -> TeamPlayer:
    """What the loop of a system learns in environments that are open, without a run folder.

    ``config`` is the system's own; its environment, copies and seed are not read. ``watch`` is called with who plays
    and the metrics of every update.

    Raises:
        BadInput: settings out of range, or an environment that the system does not take.
    """
    from evolvent.learn.team.practice import practice

    config = dataclasses.replace(config, envs=env.n_envs)
    check_settings(config)
    check_minibatches(config)
    plan = config.plan
    sizes = {"steps": config.steps, "horizon": config.horizon, "device": plan.device, "lr_end": plan.lr_end}
    with practice(env, seed=seed, watch=watch, **sizes) as team:
        loop(config, team)
        return team.player


def networks_of(config: OneAgentPPO, team: TeamSpec, device: Any) -> dict[str, Any]:
    """Actor and critic of PPO for a team of one, what normalises the targets, and the optimisers: parts by name."""
    import torch

    from evolvent.learn.team.value_norm import ValueNorm
    from evolvent.models.team.actors import Actors, Critic

    actors = Actors(team, team.obs_dim, hidden=config.hidden).to(device)
    critic = Critic(team.obs_dim, hidden=config.hidden).to(device)
    adam = partial(torch.optim.Adam, lr=config.lr, eps=1e-5, fused=True)
    optimisers = {"adam": adam(actors.groups()), "critic_adam": adam(critic.parameters())}
    return {"actors": actors, "critic": critic, "norm": ValueNorm(), **optimisers}


def check_one_agent(team: TeamSpec, kinds: Collection[str], env: str, do: str = "") -> None:
    """Refuse a team, and actions of another kind than those of ``kinds`` (``TeamSpec.kind``).

    ``do`` is what to use instead, where that is not one of the systems that act.

    Raises:
        BadInput: names a system that takes them.
    """
    if team.n_agents > 1:
        got, do = ", ".join(map(str, team.agents)), do or "use ippo, or mappo and others for teams"
        raise BadInput("several agents", got=got, expected="an environment of one agent", where=env, do=do)
    do = do or {"discrete": "use dqn or ppo", "continuous": "use ddpg or ppo"}.get(team.kind, "use ppo")
    check_kind(team, kinds, env, do)
