"""One copy of a team environment (``Solo``), what it shows (``Seen``), and the way from spaces to a ``TeamSpec``."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from evolvent.core.errors import EnvError
from evolvent.core.team import ActionSpec, TeamSpec


@dataclass(frozen=True, eq=False)
class Seen:
    """What one copy shows after ``reset`` or ``step``; agents by name.

    Attributes:
        obs: an array of any shape for each agent; who is missing gets zeros.
        reward: of the step that led here; who is missing gets 0.
        terminated: ended by its own rules.
        truncated: cut off.
        alive: who can act next; ``None`` = everybody.
        available: choices allowed now, bool ``[N_i]`` for each agent; ``None`` = all it has.
        state: the shared state ``[S]``, where the team has one.
        info: named numbers, read where the attempt ends.
    """

    obs: Mapping[str, np.ndarray]
    reward: Mapping[str, float] = field(default_factory=dict[str, float])
    terminated: bool = False
    truncated: bool = False
    alive: Collection[str] | None = None
    available: Mapping[str, np.ndarray] | None = None
    state: np.ndarray | None = None
    info: Mapping[str, float] = field(default_factory=dict[str, float])


class Solo(Protocol):
    """One copy; ``evolvent.envs._vector`` runs many. Must be made by a function that can be pickled.

    Attributes:
        team: shape of the team.
        gives: which masks it shows: ``"available"``, ``"active"``.
        columns: names in ``Seen.info``.
    """

    team: TeamSpec
    gives: tuple[str, ...]
    columns: tuple[str, ...]

    def reset(self, seed: int) -> Seen:
        """Start an attempt; the seed decides all that is random in it."""
        ...

    def step(self, action: np.ndarray) -> Seen:
        """Act with a row ``[A, *team.action_shape]``."""
        ...

    def render(self) -> np.ndarray | None:
        """A picture, uint8 ``[H, W, 3]``, or ``None``."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


def action_spec(space: Any) -> ActionSpec:
    """What an action space of gymnasium allows: ``Discrete`` or a bounded ``Box``.

    Raises:
        EnvError: a space of another kind, or one without bounds.
    """
    if hasattr(space, "n") and not getattr(space, "shape", ()):
        return ActionSpec(choices=int(space.n))
    low = getattr(space, "low", None)
    if isinstance(low, np.ndarray) and np.isfinite(low).all() and np.isfinite(space.high).all():
        return ActionSpec(dims=low.size)
    raise EnvError("an action space that is not supported", got=repr(space), expected="Discrete or a bounded Box")


def team_of(
    agents: Sequence[str], obs_spaces: Mapping[str, Any], action_spaces: Mapping[str, Any], *, state_dim: int = 0,
    limit: int = 0,
) -> TeamSpec:  # fmt: skip
    """The team behind one observation and one action space of gymnasium for each agent; observations are flattened."""
    widths = [math.prod(obs_spaces[agent].shape) for agent in agents]
    actions = tuple(action_spec(action_spaces[agent]) for agent in agents)
    return TeamSpec(tuple(agents), max(widths), actions, state_dim=state_dim, limit=limit)


def native(team: TeamSpec, action_spaces: Mapping[str, Any]) -> Callable[[np.ndarray], dict[str, Any]]:
    """A function from a row of actions to what the environment's own ``step`` takes, by agent.

    Choices become ``int`` (counted from the space's ``start``), numbers in [-1, 1] go affinely to the space's bounds.
    """
    skip = 1 if team.kind == "mixed" else 0
    plan: list[tuple[str, Any]] = []
    for agent, spec in zip(team.agents, team.actions, strict=True):
        space = action_spaces[agent]
        if spec.choices:
            plan.append((agent, int(getattr(space, "start", 0))))
        else:
            low, high = space.low.astype(np.float64), space.high.astype(np.float64)
            plan.append((agent, ((low + high) / 2, (high - low) / 2, space.dtype)))

    def convert(row: np.ndarray) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for i, (agent, how) in enumerate(plan):
            if isinstance(how, int):
                out[agent] = how + int(row[i, 0] if skip else row[i])
            else:
                middle, half, dtype = how
                numbers = row[i, skip : skip + middle.size].reshape(middle.shape)
                out[agent] = (middle + half * numbers).astype(dtype)
        return out

    return convert
