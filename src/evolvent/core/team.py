"""A team of agents stepped in lockstep: what its environments show (``Frame``), take (``ActionSpec``) and promise.

B copies of one environment with A agents run side by side. Everything is an array over ``[B, A]``, so that a joint
policy, separate actors and a central critic read the same columns; ``Rollout`` keeps them over time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from evolvent.core.errors import BadInput


@dataclass(frozen=True)
class ActionSpec:
    """What one agent may do: one of ``choices``, a vector of ``dims`` numbers in [-1, 1], or both at once."""

    choices: int = 0
    dims: int = 0

    def __post_init__(self) -> None:
        if min(self.choices, self.dims) < 0 or not (self.choices or self.dims):
            raise BadInput(
                "an agent that cannot act",
                got=(self.choices, self.dims),
                expected="choices > 0 or dims > 0",
                where="ActionSpec",
            )


@dataclass(frozen=True)
class TeamSpec:
    """The shape of a team: agents by name, padded sizes, and what each agent may do.

    Attributes:
        agents: distinct names, ``[A]``.
        obs_dim: D, the longest observation of an agent; shorter ones are padded with zeros at the end.
        actions: one ``ActionSpec`` an agent.
        state_dim: S, length of the shared state; 0 = there is none, a central critic reads all observations.
        limit: steps after which an attempt is cut off, 0 = never.
        parts: distinct names of the R parts whose sum is the reward, where the environment tells them.
    """

    agents: tuple[str, ...]
    obs_dim: int
    actions: tuple[ActionSpec, ...]
    state_dim: int = 0
    limit: int = 0
    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.agents or len(set(self.agents)) != len(self.agents):
            raise BadInput("agents are not distinct", got=self.agents, where="TeamSpec.agents")
        if len(self.actions) != len(self.agents):
            raise BadInput(
                "actions do not fit the agents", got=len(self.actions), expected=len(self.agents), where="TeamSpec"
            )
        if len(set(self.parts)) != len(self.parts):
            raise BadInput("parts of the reward are not distinct", got=self.parts, where="TeamSpec.parts")

    @property
    def n_agents(self) -> int:
        """A."""
        return len(self.agents)

    @property
    def choices(self) -> int:
        """N, the largest number of choices of an agent; 0 where nobody chooses."""
        return max(spec.choices for spec in self.actions)

    @property
    def dims(self) -> int:
        """The longest continuous action of an agent; 0 where there is none."""
        return max(spec.dims for spec in self.actions)

    @property
    def kind(self) -> str:
        """``"discrete"`` (actions ``int64 [B, A]``), ``"continuous"`` (``float32 [B, A, dims]``) or ``"mixed"``
        (``float32 [B, A, 1 + dims]``, the choice in column 0).
        """
        return "mixed" if self.choices and self.dims else "discrete" if self.choices else "continuous"

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Trailing shape of an action array after ``[B, A]``."""
        return {"discrete": (), "continuous": (self.dims,), "mixed": (1 + self.dims,)}[self.kind]

    @property
    def unequal(self) -> bool:
        """Whether agents differ in what they may do."""
        return len(set(self.actions)) > 1

    def choice_mask(self) -> np.ndarray:
        """Which choices each agent has at all: bool ``[A, N]``."""
        return np.arange(self.choices) < np.array([spec.choices for spec in self.actions])[:, None]

    def dim_mask(self) -> np.ndarray:
        """Which continuous dimensions each agent has: bool ``[A, dims]``."""
        return np.arange(self.dims) < np.array([spec.dims for spec in self.actions])[:, None]


@dataclass(frozen=True, eq=False)
class Frame:
    """What B environments show after ``reset`` or ``step``; arrays may be reused by the next ``step``: copy to keep.

    An environment that ended restarts at once: ``obs_BAD`` is then the fresh start, and what was seen last stands in
    ``final_obs_BAD`` (and the other final columns), read only where ``terminated_B | truncated_B``.

    Attributes:
        obs_BAD: float32 ``[B, A, D]``.
        reward_BA: float32 ``[B, A]``, of the step that led here; a team reward is repeated for each agent.
        terminated_B: bool ``[B]``, ended by its own rules.
        truncated_B: bool ``[B]``, cut off (time limit); never set together with ``terminated_B``.
        available_BAN: bool ``[B, A, N]``, choices allowed now; ``None`` = all that ``TeamSpec.choice_mask`` has.
        active_BA: bool ``[B, A]``, who is alive in ``obs_BAD``; ``None`` = everybody.
        state_BS: float32 ``[B, S]``; ``None`` where ``TeamSpec.state_dim`` is 0.
        final_obs_BAD: as ``obs_BAD``; ``None`` while nothing has ended.
        final_state_BS: as ``state_BS``.
        final_available_BAN: as ``available_BAN``.
        final_active_BA: as ``active_BA``: who was alive when the attempt was cut off.
        part_BAR: float32 ``[B, A, R]``, the parts of ``reward_BA`` in the order of ``TeamSpec.parts``; ``None`` where
            there are none.
        undisturbed_BA: as ``reward_BA``, where that one was disturbed: what the step was worth, for every return that
            is reported; ``None`` = ``reward_BA``.
        info: named columns ``[B]`` of attempts that ended, e.g. ``{"success": …}``, NaN where there is nothing to say.
    """

    obs_BAD: np.ndarray
    reward_BA: np.ndarray
    terminated_B: np.ndarray
    truncated_B: np.ndarray
    available_BAN: np.ndarray | None = None
    active_BA: np.ndarray | None = None
    state_BS: np.ndarray | None = None
    final_obs_BAD: np.ndarray | None = None
    final_state_BS: np.ndarray | None = None
    final_available_BAN: np.ndarray | None = None
    final_active_BA: np.ndarray | None = None
    part_BAR: np.ndarray | None = None
    undisturbed_BA: np.ndarray | None = None
    info: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])

    @property
    def done_B(self) -> np.ndarray:
        """Whether the attempt ended with this step, either way."""
        return self.terminated_B | self.truncated_B

    @property
    def worth_B(self) -> np.ndarray:
        """What the step counts for in a return: the mean over agents of the reward, before it was disturbed."""
        return (self.reward_BA if self.undisturbed_BA is None else self.undisturbed_BA).mean(axis=1)


def parts_differ(part: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Where parts ``[..., R]`` do not sum to the reward ``[...]``, but for rounding to float32: bool ``[...]``."""
    part = part.astype(np.float64)
    return ~(np.abs(part.sum(axis=-1) - reward) <= 1e-6 + 1e-5 * np.abs(part).sum(axis=-1))


@runtime_checkable
class TeamEnv(Protocol):
    """B copies of an environment with A agents, stepped together; proves itself with ``testing.check_team_env``."""

    name: str
    n_envs: int
    team: TeamSpec

    def reset(self, seed: int) -> Frame:
        """Restart all copies; the same seed gives the same course for the same actions."""
        ...

    def step(self, action: np.ndarray) -> Frame:
        """Act in all copies; ``action`` is ``[B, A, *team.action_shape]`` (see ``TeamSpec.kind``).

        Raises:
            BadInput: an action of the wrong shape, or one that is not available.
            EnvError: the environment broke (a worker died, NaN observations, agents that changed): named.
        """
        ...

    def render(self) -> np.ndarray | None:
        """A picture of copy 0, uint8 ``[H, W, 3]``; ``None`` where the environment cannot draw."""
        ...

    def close(self) -> None:
        """Release what the environments hold."""
        ...
