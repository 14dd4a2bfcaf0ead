"""One copy of a team environment (``Solo``), what it shows (``Seen``), and the way from spaces to a ``TeamSpec``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from evolvent.core.errors import EnvError, EvolventError
from evolvent.core.outside import line_of
from evolvent.core.team import ActionSpec, TeamSpec


@dataclass(frozen=True, eq=False)
class Seen:
    """What one copy shows after ``reset`` or ``step``; agents by name.

    Attributes:
        obs: an array of any shape for each agent, who is missing gets zeros; or all of them as ``[A, D]``.
        reward: of the step that led here, who is missing gets 0; or one number for everybody.
        terminated: ended by its own rules.
        truncated: cut off.
        alive: who can act next, or could where the attempt was cut off; ``None`` = everybody.
        available: choices allowed now, bool ``[N_i]`` for each agent; ``None`` = all it has.
        state: the shared state ``[S]``, where the team has one.
        info: named numbers, read where the attempt ends.
        parts: by the names of ``TeamSpec.parts``, each as ``reward``, which is their sum.
    """

    obs: Mapping[str, np.ndarray] | np.ndarray
    reward: Mapping[str, float] | float = 0.0
    terminated: bool = False
    truncated: bool = False
    alive: Collection[str] | None = None
    available: Mapping[str, np.ndarray] | None = None
    state: np.ndarray | None = None
    info: Mapping[str, float] = field(default_factory=dict[str, float])
    parts: Mapping[str, Mapping[str, float] | float] = field(default_factory=dict[str, Mapping[str, float] | float])


class Solo(Protocol):
    """One copy; ``evolvent.envs.runners.vector`` runs many. Must be made by a function that can be pickled.

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


@runtime_checkable
class Numbered(Protocol):
    """A copy that is told before a reset which attempt begins, counted from 0 when all copies restart."""

    attempt: int


@contextlib.contextmanager
def foreign(what: str, where: str, do: str = "") -> Iterator[None]:
    """Whatever an environment that is not ours throws becomes an error with its words, its line, and ``where``."""
    try:
        yield
    except EnvError as error:
        place = ", ".join(filter(None, (where, error.where)))
        raise EnvError(error.what, got=error.got, expected=error.expected, where=place, do=error.do or do) from error
    except EvolventError:
        raise
    except Exception as error:
        got = f"{type(error).__name__}: {error}" if str(error) else repr(error)
        raise EnvError(what, got=got, where=f"{where}; {line_of(error)}", do=do) from error


def only_of(by_agent: Mapping[str, object], agents: Mapping[str, object]) -> None:
    """Nobody is in ``by_agent`` but ``agents``."""
    if not by_agent.keys() <= agents.keys():
        got = ", ".join(sorted(map(str, by_agent)))
        raise EnvError("an environment changed its agents", got=got, expected=", ".join(map(str, agents)))


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
    expected = "Discrete or a bounded Box"
    do = "number the combinations of a MultiDiscrete as one Discrete; give a Box without bounds some"
    raise EnvError("an action space that is not supported", got=repr(space), expected=expected, do=do)


def team_of(
    agents: Sequence[str],
    widths: Sequence[int],
    action_spaces: Mapping[str, Any],
    *,
    state_dim: int = 0,
    limit: int = 0,
) -> TeamSpec:
    """The team of agents that see so many numbers each and act in an action space of gymnasium each."""
    actions = tuple(action_spec(action_spaces[agent]) for agent in agents)
    return TeamSpec(tuple(agents), max(widths), actions, state_dim=state_dim, limit=limit)


def affine(team: TeamSpec, action_spaces: Mapping[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    """A function from actions ``[…, A, dims]`` in [-1, 1] to the bounds of the spaces; choices pass as they are."""
    if team.kind == "discrete":
        return lambda action: action
    skip = 1 if team.kind == "mixed" else 0
    middle, half = np.zeros((team.n_agents, skip + team.dims)), np.ones((team.n_agents, skip + team.dims))
    for i, (agent, spec) in enumerate(zip(team.agents, team.actions, strict=True)):
        if spec.dims:
            low, high = (
                np.float64(bound).reshape(-1) for bound in (action_spaces[agent].low, action_spaces[agent].high)
            )
            middle[i, skip : skip + spec.dims], half[i, skip : skip + spec.dims] = (low + high) / 2, (high - low) / 2
    if not middle.any() and (half == 1).all():
        return lambda action: action
    middle_AD, half_AD = middle.astype(np.float32), half.astype(np.float32)
    return lambda action: middle_AD + half_AD * action


def native(team: TeamSpec, action_spaces: Mapping[str, Any]) -> Callable[[np.ndarray], dict[str, Any]]:
    """A function from a row of actions to what the environment's own ``step`` takes, by agent.

    Choices become ``int`` (counted from the space's ``start``), numbers in [-1, 1] go affinely to the space's bounds.
    """
    to_bounds, skip = affine(team, action_spaces), 1 if team.kind == "mixed" else 0
    plan: list[tuple[str, int, int, Any]] = []
    for agent, spec in zip(team.agents, team.actions, strict=True):
        space = action_spaces[agent]
        plan.append((agent, int(getattr(space, "start", 0)), spec.dims, space))

    def convert(row: np.ndarray) -> dict[str, Any]:
        row, out = to_bounds(row), {}
        for i, (agent, start, dims, space) in enumerate(plan):
            if dims:
                out[agent] = row[i, skip : skip + dims].reshape(space.shape).astype(space.dtype)
            else:
                out[agent] = start + int(row[i, 0] if skip else row[i])
        return out

    return convert
