"""What learners with separate or shared actors have in common: settings, networks, and how they are played frozen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evolvent.runs.team.config import JointConfig, TeamConfig

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evolvent.learn.team.batch import View
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.views import Views
    from evolvent.models.team.actors import Actors, Critic
    from evolvent.models.team.joint import JointPolicy


@dataclass(frozen=True)
class ActorsConfig(TeamConfig):
    """Settings of actors with critics apart from them; the defaults are those of HARL (arXiv 2304.09870)."""

    shared = False  # a field where there is a choice

    envs: int = 20
    """Copies of the environment that are stepped in parallel."""
    horizon: int = 200
    """Rollout length T: steps of each copy of the environment between two updates."""
    hidden: tuple[int, ...] = (128, 128)
    """Hidden layers of actors and critics, as their widths."""
    critic_epochs: int = 5
    """Epochs of the critics over a rollout."""
    critic_lr: float = 5e-4
    """Learning rate of the critics (Adam, eps 1e-5)."""


@dataclass(frozen=True)
class Nets:
    """What networks are made of, besides hidden layers."""

    memory: int = 0
    """Numbers that each agent's policy remembers within an attempt (a GRU); 0 = it sees the present only."""


@dataclass(frozen=True)
class RecurrentConfig(ActorsConfig):
    """Settings of actors that may have memory."""

    nets: Nets = Nets()
    """Memory."""


def make_actors(config: ActorsConfig, views: Views) -> Actors:
    """One actor for each agent, or one for all."""
    from evolvent.models.team.actors import Actors
    from evolvent.models.team.memory import RecurrentActors

    of = {"hidden": config.hidden, "shared": config.shared, "ids": views.ids}
    if isinstance(config, RecurrentConfig) and config.nets.memory:
        views.memory = config.nets.memory
        return RecurrentActors(views.team, views.team.obs_dim, memory=views.memory, **of).to(views.device)
    return Actors(views.team, views.team.obs_dim, **of).to(views.device)


def make_joint(config: JointConfig, views: Views, **more: Any) -> JointPolicy:
    """One policy of all agents."""
    from evolvent.models.team.joint import JointPolicy

    of = {"width": config.width, "heads": config.heads, "blocks": config.blocks, "mask_dead": config.mask_dead}
    sized = {"ids": config.ids, "sizes": not config.ids}
    return JointPolicy(views.team, views.team.obs_dim, **of, **sized, **more).to(views.device)


def played(config: ActorsConfig, views: Views) -> tuple[Act, dict[str, Any]]:
    """For ``evaluate_team``: separate actors fit the same agents only, shared ones others, too, without ``ids``."""
    actors = make_actors(config, views)
    return acting(actors), {"actors": actors}


def acting(actors: Actors) -> Act:
    """How a team of separate or shared actors plays."""

    def act(view: View, greedy: bool, generator: torch.Generator) -> Tensor:
        seen = actors.seen(view.obs, view.memory)
        if view.memory is not None:
            view.memory.copy_(seen)
        return actors.act(seen, available_BAN=view.available, greedy=greedy, generator=generator)[0]

    return act


def state_value(critic: Critic, n_agents: int) -> Callable[[View], Tensor]:
    """What a critic of the shared state says, the same for every agent: view → ``[B, A]``."""
    return lambda view: critic(view.state).unsqueeze(-1).expand(-1, n_agents)
