"""Teams, observations and masks for the tests of the joint policy and of the actors."""

import itertools
from dataclasses import dataclass

import numpy as np
import torch

from evolvent.core.team import ActionSpec, TeamSpec

KINDS = {
    "discrete": [ActionSpec(5)] * 4,
    "continuous": [ActionSpec(0, 3)] * 4,
    "mixed": [ActionSpec(4, 2)] * 4,
    "unequal choices": [ActionSpec(3), ActionSpec(5), ActionSpec(2), ActionSpec(5)],
    "unequal numbers": [ActionSpec(0, 1), ActionSpec(0, 3), ActionSpec(0, 2), ActionSpec(0, 3)],
    "unequal kinds": [ActionSpec(3), ActionSpec(0, 2), ActionSpec(4, 1), ActionSpec(2, 2)],
}


def team_of(kind: str, obs_dim: int = 7, agents: int = 4) -> TeamSpec:
    specs = tuple(itertools.islice(itertools.cycle(KINDS[kind]), agents))
    return TeamSpec(tuple(f"a{i}" for i in range(agents)), obs_dim, specs)


@dataclass
class Case:
    team: TeamSpec
    obs_BAD: torch.Tensor
    available_BAN: torch.Tensor | None
    active_BA: torch.Tensor
    order_BA: torch.Tensor

    @property
    def masks(self) -> dict[str, torch.Tensor | None]:
        return {"available_BAN": self.available_BAN, "active_BA": self.active_BA}


def case(kind: str, seed: int = 0, batch: int = 16, obs_dim: int = 7, dtype: torch.dtype = torch.float32) -> Case:
    team, rng = team_of(kind, obs_dim), np.random.default_rng(seed)
    agents = team.n_agents
    available = None
    if team.choices:
        available = rng.random((batch, agents, team.choices)) < 0.6
        available[:, np.arange(agents), rng.integers(0, [max(1, s.choices) for s in team.actions])] = True
        available = torch.from_numpy(available & team.choice_mask())
    active = rng.random((batch, agents)) < 0.7
    active[0] = False
    order = torch.from_numpy(np.argsort(rng.random((batch, agents)), axis=1))
    obs = torch.from_numpy(rng.normal(size=(batch, agents, obs_dim))).to(dtype)
    return Case(team, obs, available, torch.from_numpy(active), order)


def loud(module: torch.nn.Module, seed: int = 1, scale: float = 0.5) -> torch.nn.Module:
    """Random weights everywhere, so that no part of the network is nearly off, as it is after initialisation."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator).to(parameter.dtype) * scale)
    return module
